"""The model of linked tables: what a fit of several tables returns.

A `LinkedModel` samples records of the first table, and all that belongs to them, table
by table. It works in blocks of 2,048 records of the first table, so that any number of
them takes constant memory::

    for each block:   roots ──► children of links[0] ──► children of links[1] ──► ...
                        │               │                        │
                        ╰── decode, add fresh keys, one Arrow table for each ──► batch

Keys are made here, and say nothing of the private keys: they are the integers from 1 on
in the order of sampling, and a child carries the key of its parent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.answers.verdict import Verdict
from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError, OptionError
from noisegate.models.checkpoint import FitSummary, under
from noisegate.models.folder import LINKED, read_model, write_model
from noisegate.models.linked.link_model import FAMILY_RETRIES, LinkModel
from noisegate.models.record_model import Array
from noisegate.models.synthesizer import (
    check_record_count,
    model_path,
    requested_region,
)
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.records import Rows
from noisegate.schema import decode
from noisegate.schema.constraints import Region
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema.linked.table_schema import key_parts
from noisegate.seeds import check_seed, public_random

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

    from noisegate.models.output.native_table import NativeForm

_BLOCK_ROOTS = 2048
"""Records of the first table whose families are drawn at once."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedModel(Shown):
    """A fitted model of linked tables with its release; sampling costs no privacy.

    It holds no private record.

    Attributes:
        release: The release, with its certificate.
        links: The model of each link, parents first.
        summary: How the fit ended.
        convert: By name of a table, what turns the Arrow table of `sample` into the
            caller's kind of table. Tables that are not named stay as they are; None for
            all of them.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Gate
        >>> from noisegate.methods.linked import Linked
        >>> from noisegate.models.linked.model import LinkedModel
        >>> from noisegate.schema import Boolean, Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
        >>> ill = Schema([Boolean(name="ill")])
        >>> people = LinkedTable(name="people", key="id", schema=ill)
        >>> pain = Schema([Integer(name="pain", lower=0, upper=10)])
        >>> visits = LinkedTable(name="visits", schema=pain, parent="people", most=3)
        >>> schema = LinkedSchema([people, visits])
        >>> data = {"people": pa.table({"id": [1, 2] , "ill": [True, False]})}
        >>> data["visits"] = pa.table({"id": [1, 1, 2], "pain": [7, 8, 0]})
        >>> model = Linked().fit(Gate(data, schema=schema, epsilon=1.0))
        >>> tables = LinkedModel.load(model.save("model")).sample(5, seed=0)
        >>> tables["people"].column_names, tables["visits"].column_names
        (['id', 'ill'], ['id', 'pain'])
        >>> people_ids = set(tables["people"]["id"].to_pylist())
        >>> set(tables["visits"]["id"].to_pylist()) <= people_ids
        True
    """

    release: Release
    links: tuple[LinkModel, ...]
    summary: FitSummary
    convert: Mapping[str, Callable[[pa.Table], Any]] | None = field(
        default=None, repr=False
    )

    @property
    def certificate(self) -> Certificate:
        """The privacy statement to hand out with the synthetic tables."""
        return self.release.certificate

    @cached_property
    def schema(self) -> LinkedSchema:
        """The public schema."""
        return _linked_schema(self.release)

    @property
    def verdict(self) -> Verdict | None:
        """How far the records can be relied on; None where nothing is known."""
        return self.summary.verdict

    def card(self) -> ResultCard:
        """Returns a summary of the model for a terminal or a notebook."""
        certificate_facts = self.certificate.card().facts
        return ResultCard(
            title=f"Model of linked tables: {', '.join(self.schema.names)}",
            facts={"guarantee": self.certificate.guarantee, **certificate_facts},
        )

    def sample(
        self, n: int, *, seed: int | None = None, where: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Samples synthetic tables: records of the first, and all that belongs to them.

        Keys are fresh integers from 1 on, and each record names a parent that is there.
        Children of a parent stand in their order.

        Args:
            n: Number of records of the first table, at least 0.
            seed: Seed for non-private randomness; None for other records at each call.
            where: Values that every record of the first table shall have, as
                `noisegate.Synthesizer.sample` takes them.

        Returns:
            Tables by name: PyArrow tables, or the kind that the data came in.

        Raises:
            OptionError: if `n` is negative or not an integer, or `where` names a
                column that the first table lacks, or a value that it cannot have.
            RejectionError: if too few records of the first table keep to its
                constraints and to `where`.
        """
        import pyarrow as pa

        dropped: dict[str, int] = {}
        blocks = list(self.batches(n, seed=seed, where=where, dropped=dropped))
        if any(dropped.values()):
            warnings.warn(describe_dropped(dropped), UserWarning, stacklevel=2)
        if not blocks:
            keys_used = dict.fromkeys(self.schema.names, 0)
            blocks.append(
                self._sample_block(0, keys_used, public_random(seed), None, {})
            )
        tables = {
            name: pa.concat_tables([block[name] for block in blocks])
            for name in self.schema.names
        }
        converters = self.convert or {}
        return {
            name: converters[name](table) if name in converters else table
            for name, table in tables.items()
        }

    def with_verdict_of_rules(self) -> LinkedModel:
        """Lowers the verdict where few records or families keep to the rules."""
        random = public_random(0)
        verdicts = [self.links[0].verdict_of_roots(random)]
        verdicts += [link.verdict_of_families(random) for link in self.links]
        summary = self.summary
        for verdict in verdicts:
            if verdict is not None:
                summary = summary.with_verdict(verdict)
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
            seed: Seed for non-private randomness; None for other records at each call.
            where: Values that every record of the first table shall have.
            dropped: Is updated with how many records were left out, by table, because
                31 draws of their family kept to no rule.

        Returns:
            Arrow tables by name: at most 2,048 records of the first table at a time,
            with all that belongs to them.

        Raises:
            OptionError: as `sample` does, before anything is drawn.
        """
        check_record_count(n)
        if seed is not None:
            check_seed(seed)
        region = None
        if where:
            region = requested_region(self.schema.root.schema, where)
            if not self.links[0].has_roots_in(region):
                raise OptionError(
                    f"where={dict(where)!r}: the model gives no such record; ask for "
                    "less at once."
                )
        return self._blocks(n, seed, region, {} if dropped is None else dropped)

    def _blocks(
        self, n: int, seed: int | None, region: Region | None, dropped: dict[str, int]
    ) -> Iterator[dict[str, pa.Table]]:
        """Yields the blocks of a sample; keys are numbered over all blocks."""
        random = public_random(seed)
        keys_used = dict.fromkeys(self.schema.names, 0)
        for start in range(0, n, _BLOCK_ROOTS):
            root_count = min(_BLOCK_ROOTS, n - start)
            yield self._sample_block(root_count, keys_used, random, region, dropped)

    def _sample_block(
        self,
        n: int,
        keys_used: dict[str, int],
        random: torch.Generator,
        region: Region | None,
        dropped: dict[str, int],
    ) -> dict[str, pa.Table]:
        """Samples some records of the first table, with all that belongs to them.

        Args:
            n: Number of records of the first table.
            keys_used: Number of keys given so far, by table; updated.
            random: Public randomness.
            region: A region in which all records of the first table lie; None for no
                condition.
            dropped: Number of records left out so far, by table; updated.

        Returns:
            Arrow tables by name, with keys.
        """
        root = self.schema.root
        roots = self.links[0].sample_roots(n, random, region)
        records: dict[str, Rows] = {root.name: roots}
        tables = {
            root.name: with_keys(
                root,
                decode(roots, root.schema, stored=True),
                _next_keys(keys_used, root.name, n),
            )
        }
        for model in self.links:
            parent = model.link.parent
            child = model.link.child
            families, dropped_count = model.sample_children(
                records[parent.name], random
            )
            records[child.name] = families.children
            dropped[child.name] = dropped.get(child.name, 0) + dropped_count
            parent_keys = (
                tables[parent.name].take(families.parents).select(key_parts(parent.key))
            )
            tables[child.name] = with_keys(
                child,
                decode(families.children, child.schema, stored=True),
                _next_keys(keys_used, child.name, len(families.children)),
                parent_keys,
            )
        return tables

    def save(self, folder: str | Path) -> Path:
        """Writes the model into a new folder, and returns it.

        Raises:
            ModelError: if the folder exists or cannot be written.
        """
        tensors = {
            f"{model.link.name}.{name}": tensor
            for model in self.links
            for name, tensor in model.tensors().items()
        }
        # A caller's own `convert` cannot be stored.
        forms = {
            name: form.to_json()
            for name, form in (self.convert or {}).items()
            if hasattr(form, "to_json")
        }
        description = {
            "kind": LINKED,
            "links": {model.link.name: model.to_json() for model in self.links},
            "fit": self.summary.to_json(),
            "forms": forms,
        }
        return write_model(
            model_path(folder),
            release=self.release,
            tensors=tensors,
            model=description,
        )

    @staticmethod
    def load(folder: str | Path) -> LinkedModel:
        """Loads the model that `save` wrote, and checks every hash.

        Raises:
            ModelError: if the folder is missing, broken or was changed, or holds
                another kind of model.
        """
        release, tensors, description = read_model(model_path(folder))
        if description.get("kind") != LINKED:
            raise ModelError(
                f"{folder} holds no model of linked tables; open it with "
                "noisegate.load."
            )
        try:
            schema = _linked_schema(release)
            links = _links_from_saved(schema, tensors, description["links"])
            summary = FitSummary.from_json(description["fit"])
            # Older models have no forms.
            forms = _saved_forms(schema, description.get("forms", {}))
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
        return LinkedModel(
            release=release, links=links, summary=summary, convert=forms or None
        )


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Describes how many records were left out of families that kept to no rule.

    Args:
        dropped: Number of records by table, some of them positive.

    Examples:
        >>> from noisegate.models.linked.model import describe_dropped
        >>> describe_dropped({"visits": 3, "codes": 0}).partition(": ")[2]
        "3 records of 'visits'."
    """
    counts = ", ".join(
        f"{count:,} records of {name!r}" for name, count in dropped.items() if count
    )
    draw_count = FAMILY_RETRIES + 1
    return (
        f"left out, as they broke a rule in each of {draw_count} draws of their "
        f"family: {counts}."
    )


def _links_from_saved(
    schema: LinkedSchema,
    tensors: Mapping[str, Array],
    descriptions: Mapping[str, Mapping[str, Any]],
) -> tuple[LinkModel, ...]:
    """Rebuilds the model of each link, parents first.

    Args:
        schema: The public schema.
        tensors: Those of all links, each after the link's name: ``visits.weights``.
        descriptions: What `LinkModel.to_json` returned, by the link's name.
    """
    models: dict[str, LinkModel] = {}
    for link in schema.links:
        models[link.name] = LinkModel.from_saved(
            link,
            under(tensors, f"{link.name}."),
            descriptions[link.name],
            parent_model=models.get(link.parent.name),
        )
    return tuple(models.values())


def _saved_forms(
    schema: LinkedSchema, descriptions: Mapping[str, Any]
) -> dict[str, NativeForm]:
    """Returns the native form of each table that has one.

    Args:
        schema: The public schema.
        descriptions: What `NativeForm.to_json` returned, by name of the table.
    """
    # Imported late: models whose data came from files have no forms.
    from noisegate.models.output.native_table import saved_form

    forms = {}
    for table in schema.tables:
        form = saved_form(descriptions.get(table.name), table.synthetic())
        if form is not None:
            forms[table.name] = form
    return forms


def _linked_schema(release: Release) -> LinkedSchema:
    """Returns the schema of linked tables that a release states.

    Raises:
        ModelError: if it states the schema of one table.
    """
    schema = release.stated_schema
    if not isinstance(schema, LinkedSchema):
        raise ModelError(
            "the certificate states the schema of one table, and not of linked ones."
        )
    return schema


def _next_keys(keys_used: dict[str, int], table: str, count: int) -> Array:
    """Returns the next `count` keys of a table, (count,), and notes them as used."""
    keys = np.arange(1, count + 1) + keys_used[table]
    keys_used[table] += count
    return keys


def with_keys(
    table: LinkedTable,
    records: pa.Table,
    keys: Array,
    parent_keys: pa.Table | None = None,
) -> pa.Table:
    """Adds the columns of keys before those of records.

    Args:
        table: The table that the records are of.
        records: The records, without keys.
        keys: A key for each record that no other one has, (records,). It is used for
            the parts of the table's key that the parent's key does not fill.
        parent_keys: The key of each record's parent, with a column for each of its
            parts and no more; None in the first table.

    Returns:
        The table's own key, the parent's key, and the columns of the records.
    """
    import pyarrow as pa

    foreign_key = dict(
        zip(
            key_parts(table.parent_key),
            [] if parent_keys is None else parent_keys.columns,
            strict=True,
        )
    )
    columns = {}
    for name in key_parts(table.key):
        columns[name] = foreign_key[name] if name in foreign_key else pa.array(keys)
    columns.update(foreign_key)
    columns.update(zip(records.column_names, records.columns, strict=True))
    return pa.table(columns)
