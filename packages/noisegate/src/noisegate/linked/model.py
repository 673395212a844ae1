"""What a fit of linked tables gives: synthetic tables whose records hang on each other as the real ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError, OptionError
from noisegate.linked.link_model import LinkModel
from noisegate.linked.schema import LinkedSchema, LinkedTable
from noisegate.models.checkpoint import FitSummary, under
from noisegate.models.folder import LINKED, read_model, write_model
from noisegate.models.record_model import Array
from noisegate.models.synthesizer import model_path, region_of
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.schema import decode
from noisegate.schema.regions import Region
from noisegate.seeds import check_seed, public_random
from noisegate.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 2048
"""Records of the first table whose families are made at once."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedModel(Shown):
    """A fitted model of linked tables with its release. It holds no record; sampling costs no privacy.

    Attributes:
        release: What left the gate, with its certificate.
        links: The model of each link, parents first.
        summary: How the fit ended.
        convert: Applied to each Arrow table that `sample` returns, by the table's name; None for none.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Gate
        >>> from noisegate.linked.method import Linked
        >>> from noisegate.linked.model import LinkedModel
        >>> from noisegate.schema import Boolean, Integer, Schema
        >>> from noisegate.linked.schema import LinkedSchema, LinkedTable
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
    links: tuple[LinkModel, ...]
    summary: FitSummary
    convert: Mapping[str, Callable[[pa.Table], Any]] | None = field(default=None, repr=False)

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
        return ResultCard(title=f"Model of linked tables: {', '.join(self.schema.names)}", facts=facts)

    def sample(self, n: int, *, seed: int | None = None, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns synthetic tables by name: `n` records of the first, and all that belongs to them.

        Keys are fresh whole numbers from 1 on; each record names one that is there. Children stand in their order.

        Args:
            n: Number of records of the first table, at least 0.
            seed: Of the public randomness; None for other records at every call.
            where: Values that every record of the first table shall have, as `noisegate.Synthesizer.sample` takes them.

        Raises:
            OptionError: if `n` is negative or no whole number, `where` names what is no column of the first table or a
                value that it cannot have, or almost no record keeps to its table's constraints.
        """
        import pyarrow as pa

        parts = list(self.batches(n, seed=seed, where=where))
        parts = parts or [self._tables(0, dict.fromkeys(self.schema.names, 0), public_random(seed), None)]
        tables = {name: pa.concat_tables([part[name] for part in parts]) for name in self.schema.names}
        return {name: self.convert[name](table) for name, table in tables.items()} if self.convert else tables

    def batches(
        self, n: int, *, seed: int | None = None, where: Mapping[str, Any] | None = None
    ) -> Iterator[dict[str, pa.Table]]:
        """Returns the same in parts, in constant memory: some of the first table, with all that belongs to them."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise OptionError(f"n={n!r}: the number of records to sample must be a whole number, 0 or more.")
        if seed is not None:
            check_seed(seed)
        region = region_of(self.schema.root.schema, where) if where else None
        first = self.links[0]
        if region is not None and not first.chain.mixture.probability(first.among_rows(region)) > 0:
            raise OptionError(f"where={dict(where or {})!r}: the model gives no such record; ask for less at once.")
        return self._batches(n, seed, region)

    def _batches(self, n: int, seed: int | None, region: Region | None) -> Iterator[dict[str, pa.Table]]:
        random, done = public_random(seed), dict.fromkeys(self.schema.names, 0)
        for start in range(0, n, _BLOCK):
            yield self._tables(min(_BLOCK, n - start), done, random, region)

    def _tables(self, n: int, done: dict[str, int], random: Any, region: Region | None) -> dict[str, pa.Table]:
        """Returns `n` families as tables, with keys behind those that are `done`, and counts them there."""
        root = self.schema.root
        rows, keys, tables = {root.name: self.links[0].founders(n, random, region)}, {}, {}
        keys[root.name] = np.arange(1, n + 1) + done[root.name]
        tables[root.name] = with_keys(root, decode(rows[root.name], root.schema), keys[root.name], None)
        done[root.name] += n
        for one in self.links:
            parent, child = one.link.parent.name, one.link.child
            numbers, rows[child.name] = one.children(rows[parent], random)
            above = np.repeat(keys[parent], numbers)
            keys[child.name] = np.arange(1, len(above) + 1) + done[child.name]
            done[child.name] += len(above)
            tables[child.name] = with_keys(child, decode(rows[child.name], child.schema), keys[child.name], above)
        return tables

    def save(self, folder: str | Path) -> Path:
        """Writes the model into the new folder `folder`; a `ModelError` if it exists or cannot be written."""
        tensors = {f"{one.link.name}.{name}": part for one in self.links for name, part in one.tensors().items()}
        links = {one.link.name: one.to_json() for one in self.links}
        model = {"kind": LINKED, "links": links, "fit": self.summary.to_json()}
        return write_model(model_path(folder), release=self.release, tensors=tensors, model=model)

    @staticmethod
    def load(folder: str | Path) -> LinkedModel:
        """Returns the model that `save` wrote, after checking every hash.

        Raises:
            ModelError: if the folder is missing, broken or was changed, or holds another kind of model.
        """
        release, tensors, description = read_model(model_path(folder))
        if description.get("kind") != LINKED:
            raise ModelError(f"{folder} holds no model of linked tables; open it with noisegate.load.")
        try:
            links: dict[str, LinkModel] = {}
            for link in _linked(release).links:
                own = under(tensors, f"{link.name}.")
                above = links.get(link.parent.name)
                links[link.name] = LinkModel.from_saved(link, own, description["links"][link.name], above)
            summary = FitSummary.from_json(description["fit"])
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise ModelError(f"{folder}: the model cannot be rebuilt: {error}") from None
        return LinkedModel(release=release, links=tuple(links.values()), summary=summary)


def _linked(release: Release) -> LinkedSchema:
    found = release.stated_schema
    if not isinstance(found, LinkedSchema):
        raise ModelError("the certificate states the schema of one table, and not of linked ones.")
    return found


def with_keys(table: LinkedTable, records: pa.Table, keys: Array, above: Array | None) -> pa.Table:
    """Returns records with their keys before their columns."""
    import pyarrow as pa

    columns = {} if table.key is None else {table.key: pa.array(keys)}
    if table.parent_key is not None and above is not None:
        columns[table.parent_key] = pa.array(above)
    return pa.table({**columns, **dict(zip(records.column_names, records.columns, strict=True))})
