"""What a fit of linked tables gives: synthetic tables whose records are linked as the real ones are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.answers.verdict import Verdict
from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError, OptionError
from noisegate.models.checkpoint import FitSummary, under
from noisegate.models.folder import LINKED, read_model, write_model
from noisegate.models.linked.chain import (
    Cells,
    Chain,
    ColumnEffects,
    FamilyCells,
    Numbers,
)
from noisegate.models.mixture import Mixture
from noisegate.models.record_model import Array
from noisegate.models.rejection import (
    Tally,
    accepted_batches,
    accepted_within,
    explain_rejection,
    rejecting_rules,
    verdict_of_rules,
)
from noisegate.models.synthesizer import model_path, requested_region
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.records import Rows
from noisegate.schema import EncodedTable, decode
from noisegate.schema.constraints import Region
from noisegate.schema.layout import Layout, numbers_at
from noisegate.schema.linked.links import Link, LinkColumns
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema.linked.table_schema import key_parts, origin_ticks, positions_at
from noisegate.schema.numeric import Continuous
from noisegate.seeds import check_seed, public_random, uniform

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

_BLOCK = 2048  # records of the first table whose families are made at once


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedModel(Shown):
    """A fitted model of linked tables with its release. It holds no record; sampling costs no privacy.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Gate
        >>> from noisegate.methods.linked import Linked
        >>> from noisegate.models.linked.model import LinkedModel
        >>> from noisegate.schema import Boolean, Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
        >>> people = LinkedTable(name="people", key="id", schema=Schema([Boolean(name="ill")]))
        >>> pain = Schema([Integer(name="pain", lower=0, upper=10)])
        >>> schema = LinkedSchema([people, LinkedTable(name="visits", schema=pain, parent="people", most=3)])
        >>> data = {"people": pa.table({"id": [1, 2] , "ill": [True, False]})}
        >>> data["visits"] = pa.table({"id": [1, 1, 2], "pain": [7, 8, 0]})
        >>> model = Linked().fit(Gate(data, schema=schema, epsilon=1.0))
        >>> tables = LinkedModel.load(model.save("model")).sample(5, seed=0)
        >>> tables["people"].column_names, tables["visits"].column_names
        (['id', 'ill'], ['id', 'pain'])
        >>> set(tables["visits"]["id"].to_pylist()) <= set(tables["people"]["id"].to_pylist())
        True
    """

    release: Release
    """What left the gate, with its certificate."""
    links: tuple[LinkModel, ...]
    """The model of each link, parents first."""
    summary: FitSummary
    """How the fit ended."""
    convert: Mapping[str, Callable[[pa.Table], Any]] | None = field(
        default=None, repr=False
    )
    """Applied to each Arrow table that `sample` returns, by the table's name; None for none."""

    @property
    def certificate(self) -> Certificate:
        """The statement to hand out with the synthetic tables."""
        return self.release.certificate

    @cached_property
    def schema(self) -> LinkedSchema:
        """The public schema."""
        return _linked(self.release)

    @property
    def verdict(self) -> Verdict | None:
        """What the fit came to, in words; None where nothing is known."""
        return self.summary.verdict

    def card(self) -> ResultCard:
        """Returns what the model is and promises, as a card for a terminal or a notebook."""
        told = self.certificate.card()
        facts = {"guarantee": self.certificate.guarantee, **told.facts}
        return ResultCard(
            title=f"Model of linked tables: {', '.join(self.schema.names)}", facts=facts
        )

    def sample(
        self, n: int, *, seed: int | None = None, where: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Returns synthetic tables by name: `n` records of the first, and all that belongs to them.

        Keys are fresh whole numbers from 1 on; each record names one that is there. Children stand in their order.

        A ``seed`` is for non-private randomness; None for other records at every call. ``where`` are values that every
        record of the first table shall have, as `noisegate.Synthesizer.sample` takes them.

        Raises:
            OptionError: if `n` is negative or no whole number, or `where` names what is no column of the first table or
                a value that it cannot have.
            RejectionError: if too few records of the first table keep to its constraints and to `where`.
        """
        import pyarrow as pa

        dropped: dict[str, int] = {}
        parts = list(self.batches(n, seed=seed, where=where, dropped=dropped))
        if any(dropped.values()):
            warnings.warn(describe_dropped(dropped), UserWarning, stacklevel=2)
        parts = parts or [
            self._tables(
                0, dict.fromkeys(self.schema.names, 0), public_random(seed), None, {}
            )
        ]
        tables = {
            name: pa.concat_tables([part[name] for part in parts])
            for name in self.schema.names
        }
        forms = self.convert or {}
        return {
            name: forms[name](table) if name in forms else table
            for name, table in tables.items()
        }

    def with_verdict_of_rules(self) -> LinkedModel:
        """Returns the model with a verdict that says so where few of its records or families keep to the rules."""
        random = public_random(0)
        summary = self.summary
        found = self.links[0].verdict_of_roots(random)
        if found is not None:
            summary = summary.with_verdict(found)
        for link in self.links:
            found = link.verdict_of_families(random)
            if found is not None:
                summary = summary.with_verdict(found)
        return replace(self, summary=summary)

    def batches(
        self,
        n: int,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        dropped: dict[str, int] | None = None,
    ) -> Iterator[dict[str, pa.Table]]:
        """Samples synthetic tables block by block, in constant memory.

        Args:
            n: Number of records of the first table.
            seed: For non-private randomness.
            where: Values that every record of the first table shall have.
            dropped: Gets, by table, how many records were left out because 31 draws of their family kept to no rule.

        Returns:
            Some records of the first table at a time, with all that belongs to them.

        Raises:
            OptionError: as `sample` does.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise OptionError(
                f"n={n!r}: the number of records to sample must be a whole number, 0 or more."
            )
        if seed is not None:
            check_seed(seed)
        region = requested_region(self.schema.root.schema, where) if where else None
        first = self.links[0]
        if (
            region is not None
            and not first.chain.mixture.probability(first.among_rows(region)) > 0
        ):
            raise OptionError(
                f"where={dict(where or {})!r}: the model gives no such record; ask for less at once."
            )
        return self._batches(n, seed, region, {} if dropped is None else dropped)

    def _batches(
        self, n: int, seed: int | None, region: Region | None, dropped: dict[str, int]
    ) -> Iterator[dict[str, pa.Table]]:
        random, done = public_random(seed), dict.fromkeys(self.schema.names, 0)
        for start in range(0, n, _BLOCK):
            yield self._tables(min(_BLOCK, n - start), done, random, region, dropped)

    def _tables(
        self,
        n: int,
        done: dict[str, int],
        random: Any,
        region: Region | None,
        dropped: dict[str, int],
    ) -> dict[str, pa.Table]:
        root = self.schema.root
        rows, tables = {root.name: self.links[0].founders(n, random, region)}, {}
        keys = np.arange(1, n + 1) + done[root.name]
        tables[root.name] = with_keys(
            root, decode(rows[root.name], root.schema, stored=True), keys
        )
        done[root.name] += n
        for one in self.links:
            parent, child = one.link.parent, one.link.child
            numbers, rows[child.name], left_out = one.children(
                rows[parent.name], random
            )
            dropped[child.name] = dropped.get(child.name, 0) + left_out
            above = (
                tables[parent.name]
                .take(np.repeat(np.arange(len(numbers)), numbers))
                .select(key_parts(parent.key))
            )
            keys = np.arange(1, len(above) + 1) + done[child.name]
            done[child.name] += len(above)
            tables[child.name] = with_keys(
                child, decode(rows[child.name], child.schema, stored=True), keys, above
            )
        return tables

    def save(self, folder: str | Path) -> Path:
        """Writes the model into the new folder `folder`; a `ModelError` if it exists or cannot be written."""
        tensors = {
            f"{one.link.name}.{name}": part
            for one in self.links
            for name, part in one.tensors().items()
        }
        links = {one.link.name: one.to_json() for one in self.links}
        forms = {
            name: form.to_json()
            for name, form in (self.convert or {}).items()
            if hasattr(form, "to_json")
        }
        model = {
            "kind": LINKED,
            "links": links,
            "fit": self.summary.to_json(),
            "forms": forms,
        }
        return write_model(
            model_path(folder), release=self.release, tensors=tensors, model=model
        )

    @staticmethod
    def load(folder: str | Path) -> LinkedModel:
        """Returns the model that `save` wrote, after checking every hash.

        Raises:
            ModelError: if the folder is missing, broken or was changed, or holds another kind of model.
        """
        release, tensors, description = read_model(model_path(folder))
        if description.get("kind") != LINKED:
            raise ModelError(
                f"{folder} holds no model of linked tables; open it with noisegate.load."
            )
        from noisegate.models.output.native_table import saved_form

        try:
            links: dict[str, LinkModel] = {}
            for link in _linked(release).links:
                own = under(tensors, f"{link.name}.")
                above = links.get(link.parent.name)
                links[link.name] = LinkModel.from_saved(
                    link, own, description["links"][link.name], above
                )
            summary = FitSummary.from_json(description["fit"])
            forms = description.get("forms", {})
            made = {
                table.name: saved_form(forms.get(table.name), table.synthetic())
                for table in _linked(release).tables
            }
        except (
            LookupError,
            TypeError,
            ValueError,
            ArithmeticError,
            AttributeError,
        ) as error:
            raise ModelError(
                f"{folder}: the model cannot be rebuilt: {error}"
            ) from None
        convert = {name: form for name, form in made.items() if form is not None}
        return LinkedModel(
            release=release,
            links=tuple(links.values()),
            summary=summary,
            convert=convert or None,
        )


def _linked(release: Release) -> LinkedSchema:
    found = release.stated_schema
    if not isinstance(found, LinkedSchema):
        raise ModelError(
            "the certificate states the schema of one table, and not of linked ones."
        )
    return found


def with_keys(
    table: LinkedTable, records: pa.Table, keys: Array, above: pa.Table | None = None
) -> pa.Table:
    """Returns records with their keys before their columns; ``above`` has those of each one's parent, and no more."""
    import pyarrow as pa

    parents = dict(
        zip(
            key_parts(table.parent_key),
            [] if above is None else above.columns,
            strict=True,
        )
    )
    columns = {
        name: parents.get(name, pa.array(keys)) for name in key_parts(table.key)
    } | parents
    return pa.table(
        {**columns, **dict(zip(records.column_names, records.columns, strict=True))}
    )


@dataclass(frozen=True)
class _Roots:
    """The first table as its own model: the parents' columns of transitions."""

    mixture: Mixture
    layout: Layout

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records of the first table, encoded."""
        drawn = self.mixture.draw(
            rows, random
        )  # whose first columns of both kinds are the parents'
        return EncodedTable(
            drawn.numeric[:, : len(self.layout.numeric)],
            drawn.codes[:, : len(self.layout.coded)],
        )


Flags = npt.NDArray[np.bool_]
Children: TypeAlias = tuple[Numbers, Rows, Flags]

# A family that breaks a rule is drawn again so often; then the records that break one are left out of it, and counted.
_FAMILY_TRIES = 30
# Records of the first table, and families, by which a verdict says how many keep to the rules.
_JUDGED_ROOTS, _JUDGED_FAMILIES = 4096, 1024
# Parents that a fit below them rests on are drawn from so many candidates for each; fewer parents do as well.
_CANDIDATES_PER_PARENT = 20


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Returns in words how many records were left out of families that kept to no rule.

    Examples:
        >>> describe_dropped({"visits": 3, "codes": 0})
        "left out, as they broke a rule in each of 31 draws of their family: 3 records of 'visits'."
    """
    counts = ", ".join(
        f"{count:,} records of {name!r}" for name, count in dropped.items() if count
    )
    return f"left out, as they broke a rule in each of {_FAMILY_TRIES + 1} draws of their family: {counts}."


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkModel:
    """Parents and children of one link."""

    link: Link  # the two tables
    chain: Chain  # how children follow from a parent
    above: LinkModel | None = (
        None  # the model of the link that makes the parents; None where this one does
    )

    def founders(
        self, n: int, random: torch.Generator, region: Region | None = None
    ) -> Rows:
        """Returns `n` records of the first table that keep to its constraints and lie in a region of it.

        Args:
            n: Number of records.
            random: Public randomness.
            region: What is asked of the records; None for nothing.

        Returns:
            Records, encoded.

        Raises:
            RejectionError: if too few of the records that the model draws are such.
        """
        schema = self.link.parent.schema
        is_conditioned = region is not None or bool(schema.constraints)
        requested = (
            f"the constraints of table {self.link.parent.name!r}"
            + " and where" * (region is not None)
        )

        def accept(records: EncodedTable) -> Flags:
            keeps = ~schema.broken(records)
            return keeps if region is None else keeps & region.contains(records)

        def explain(candidates: EncodedTable) -> str:
            return explain_rejection(rejecting_rules(schema, candidates))

        parts = accepted_batches(
            self._roots(region),
            n,
            random,
            accept=accept if is_conditioned else None,
            requested=requested,
            explain=explain,
            batch_rows=max(n, 1),
        )
        found = list(parts)
        return found[0] if found else self._roots(region).draw(0, random)

    def founders_within(self, n: int, random: torch.Generator) -> tuple[Rows, Tally]:
        """Returns records of the first table that keep to its constraints, fewer than `n` where few do."""
        schema = self.link.parent.schema
        if not schema.constraints:
            return self.founders(n, random), Tally(drawn=n, accepted=n, yielded=n)
        limit = _CANDIDATES_PER_PARENT * n
        roots = self._roots(None)
        records, tally = accepted_within(
            roots, n, random, accept=lambda found: ~schema.broken(found), limit=limit
        )
        return records, tally

    def verdict_of_roots(self, random: torch.Generator) -> Verdict | None:
        """Returns what is said of the first table by the share of its records that keep to its constraints."""
        schema = self.link.parent.schema
        if not schema.constraints:
            return None
        candidates = self._roots(None).draw(_JUDGED_ROOTS, random)
        kept_share = float(1 - schema.broken(candidates).mean())
        return verdict_of_rules(
            kept_share, rejecting_rules(schema, candidates), self.link.parent.name
        )

    def verdict_of_families(self, random: torch.Generator) -> Verdict | None:
        """Returns what is said of the children by the share of families that keep to the rules of the link."""
        if not self.link.records.constraints:
            return None
        parents = self._parents(_JUDGED_FAMILIES, random)
        if not len(parents):
            return None
        numbers, rows, _ = self._drawn(
            self.parent_cells(self.link, self.chain.mixture, parents), parents, random
        )
        owners = np.repeat(np.arange(len(parents)), numbers)
        broken_count = len(np.unique(owners[self._broken(parents, numbers, rows)]))
        beside = self.link.beside(parents.rows(owners), rows)
        return verdict_of_rules(
            1 - broken_count / len(parents),
            rejecting_rules(self.link.records, beside),
            f"{self.link.parent.name} with their {self.link.child.name}",
        )

    def _roots(self, region: Region | None) -> _Roots:
        mixture = self.chain.mixture
        if region is not None:
            mixture = mixture.given(self.among_rows(region))
        return _Roots(mixture=mixture, layout=self.link.parent.schema.layout)

    def _parents(self, n: int, random: torch.Generator) -> Rows:
        """Returns at most `n` records of the parents' table, as far as a bounded number of candidates gives them."""
        return (
            self.founders_within(n, random)[0]
            if self.above is None
            else self.above.one_each(n, random)
        )

    def children(
        self, parents: Rows, random: torch.Generator
    ) -> tuple[Numbers, Rows, int]:
        """Draws the children of parents.

        Families with a child that breaks a constraint, or comes too late, are drawn again with as many children, 30
        times at most. Those that break one each time leave such children out, or have them on the last date.

        Returns:
            The number of children of each parent, (parents,); the children, one parent after the other, in their
            order; and how many were left out.
        """
        cells = self.parent_cells(self.link, self.chain.mixture, parents)
        numbers, rows, wrong = self._drawn(cells, parents, random)
        for _ in range(_FAMILY_TRIES):
            broken = np.unique(np.repeat(np.arange(len(parents)), numbers)[wrong])
            if not len(broken):
                return numbers, rows, 0
            again = self._drawn(
                cells[broken], parents.rows(broken), random, numbers[broken]
            )
            numbers, rows, wrong = _replaced((numbers, rows, wrong), broken, again)
        kept = ~self._broken(parents, numbers, rows)
        owners = np.repeat(np.arange(len(parents)), numbers)[kept]
        return (
            np.bincount(owners, minlength=len(parents)),
            rows.rows(kept),
            int((~kept).sum()),
        )

    def one_each(self, n: int, random: torch.Generator) -> Rows:
        """Returns one of the children of each of `n` parents, encoded, of those that have any.

        Where few parents keep to their constraints there are fewer than `n`: whoever fits to them needs no number.
        """
        parents = self._parents(n, random)
        numbers, rows, _ = self.children(parents, random)
        has, starts = numbers > 0, np.cumsum(numbers) - numbers
        return rows.rows(
            (starts + uniform(random, len(numbers)) * numbers).astype(np.int64)[has]
        )

    @staticmethod
    def parent_cells(link: Link, mixture: Mixture, parents: Rows) -> Cells:
        """Returns rows of transitions whose cells of the parent are known, (parents, columns), the others 0."""
        numeric, cells = (
            len(mixture.within),
            np.zeros((len(parents), len(mixture.sizes)), dtype=np.int32),
        )
        count = parents.numeric.shape[1]
        for place in range(count):
            cells[:, place] = mixture.within[place].bins.codes(
                parents.numeric[:, place]
            )
        cells[:, numeric : numeric + parents.codes.shape[1]] = parents.codes
        return cells

    def among_rows(self, region: Region) -> Region:
        """Returns a region of the parents as one of the transitions, of which their columns are the first ones."""
        return replace(region, layout=self.link.schema.layout)

    def tensors(self) -> dict[str, Array]:
        """Returns those of the mixture, and all effects."""
        effects = {
            f"chain/{one.column}/{column}": part
            for one in self.chain.drawn
            for column, part in zip(one.given, one.effects, strict=True)
        }
        return {**self.chain.mixture.tensors(), **effects}

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_saved` needs beside the link and the tensors."""
        return self.chain.mixture.to_json()

    @classmethod
    def from_saved(
        cls,
        link: Link,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
        above: LinkModel | None,
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        columns, mixture = (
            LinkColumns.of(link),
            Mixture.from_saved(link.schema, tensors, description),
        )
        drawn = []
        for column in (columns.number, *columns.made):
            given = columns.given(column)
            effects = tuple(
                np.asarray(tensors[f"chain/{column}/{other}"], dtype=np.float64)
                for other in given
            )
            most = mixture.sizes[column] - (
                column in columns.made and column not in columns.nullable
            )
            if [part.shape for part in effects] != [
                (mixture.sizes[other], most) for other in given
            ]:
                raise ValueError(
                    f"the effects on column {column} do not fit the cells of the others"
                )
            drawn.append(ColumnEffects(column=column, given=given, effects=effects))
        return cls(
            link=link,
            chain=Chain(columns=columns, mixture=mixture, drawn=tuple(drawn)),
            above=above,
        )

    def _drawn(
        self,
        cells: Cells,
        parents: Rows,
        random: torch.Generator,
        numbers: Numbers | None = None,
    ) -> Children:
        families = self.chain.families(cells, random, numbers=numbers)
        rows, late = self._rows(families, parents, random)
        return (
            families.numbers,
            rows,
            late | self._broken(parents, families.numbers, rows),
        )

    def _rows(
        self, families: FamilyCells, parents: Rows, random: torch.Generator
    ) -> tuple[Rows, Flags]:
        """Returns the children as the schema of their table encodes them, and which of them come too late."""
        child, columns, within = (
            self.link.child,
            self.chain.columns,
            self.chain.mixture.within,
        )
        layout = child.schema.layout
        made = dict(
            zip(
                (column.name for column in self.link.described),
                columns.children,
                strict=True,
            )
        )
        numeric, late = (
            np.empty((len(families.cells), len(layout.numeric))),
            np.zeros(len(families.cells), np.bool_),
        )
        for place, column in enumerate(layout.numeric):
            if column.name == child.order:
                numeric[:, place], late = self._ordered(families, parents, random)
            else:
                at = made[column.name]
                numeric[:, place] = within[at].draw(families.cells[:, at], random)
        codes = [families.cells[:, made[column.name]] for column in layout.coded]
        return Rows(
            numeric,
            np.stack(codes, axis=1)
            if codes
            else np.empty((len(numeric), 0), dtype=np.int32),
        ), late

    def _ordered(
        self, families: FamilyCells, parents: Rows, random: torch.Generator
    ) -> tuple[npt.NDArray[np.float64], Flags]:
        """Returns the positions of the ordering column, distances added up, and which lie beyond its upper bound."""
        order, since, columns = self.link.order, self.link.since, self.chain.columns
        assert order is not None
        apart = np.zeros(len(families.cells))
        for at in columns.times:
            within = self.chain.mixture.within[at]
            has = families.cells[:, at] <= len(within.bins.cuts)
            apart[has] = numbers_at(
                within.column, within.draw(families.cells[has, at], random)
            )
        ends = np.cumsum(apart)
        starts = np.cumsum(families.numbers) - families.numbers
        before = np.concatenate([[0.0], ends])[starts]
        ticks = ends - before[families.parents]
        if since is not None:
            positions = parents.numeric[
                :, self.link.parent.schema.layout.place(since.name)
            ]
            known = ~np.isnan(positions)
            origins = np.zeros(len(parents))
            origins[known] = origin_ticks(order, since, positions[known])
            ticks = ticks + origins[families.parents]
        if isinstance(order, Continuous):
            return positions_at(order, ticks), ticks > order.upper - order.lower
        return positions_at(order, np.rint(ticks).astype(np.int64)), np.rint(
            ticks
        ) > order.last_rank

    def _broken(
        self, parents: Rows, numbers: npt.NDArray[np.int64], rows: Rows
    ) -> npt.NDArray[np.bool_]:
        if not self.link.records.constraints or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        return self.link.broken(
            parents.rows(np.repeat(np.arange(len(parents)), numbers)), rows
        )


def _replaced(
    families: Children, places: npt.NDArray[np.int64], by: Children
) -> Children:
    (numbers, rows, wrong), (others, made, failed) = families, by
    owners = np.repeat(np.arange(len(numbers)), numbers)
    kept = ~np.isin(owners, places)
    owners = np.concatenate([owners[kept], np.repeat(places, others)])
    order = np.argsort(owners, kind="stable")
    joined = Rows.concatenate([rows.rows(kept), made]).rows(order)
    return (
        np.bincount(owners, minlength=len(numbers)),
        joined,
        np.concatenate([wrong[kept], failed])[order],
    )
