"""Two neighbouring sets of linked tables: units with no child, one, a few, and more than are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from noisegate.auditing.examples import candidates
from noisegate.models.linked import with_keys
from noisegate.records import Rows
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode
from noisegate.schema.linked import LinkedSchema
from noisegate.schema.links import Link

if TYPE_CHECKING:
    import pyarrow as pa

Family: TypeAlias = "Mapping[str, pa.Table]"
"""One record of the first table and all that hangs on it, as tables by name."""


@dataclass(frozen=True, kw_only=True)
class FamilyWorlds:
    """World 0 holds one family; world 1 holds another one beside it.

    Attributes:
        schema: Of the tables.
        others: The family of both worlds.
        new: The family of world 1 alone.
    """

    schema: LinkedSchema
    others: Family
    new: Family
    units: ClassVar[int] = 2

    @property
    def singles(self) -> EncodedTable:
        """None: there are no steps that sample records."""
        return EncodedTable(np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int32))

    def records(self, world: int) -> Family:
        """Returns the tables of a world."""
        import pyarrow as pa

        if not world:
            return self.others
        return {name: pa.concat_tables([self.others[name], self.new[name]]) for name in self.schema.names}

    table = records


def made_up_families(schema: LinkedSchema, count: int) -> list[Family]:
    """Returns made-up families with keys of their own, that keep to the rules of the schema."""
    return [_family(schema, place) for place in range(count)]


def _family(schema: LinkedSchema, place: int) -> Family:
    root = schema.root
    rows: dict[str, Rows] = {root.name: candidates(root.schema, 1, seed=place)}
    keys = {root.name: np.array([f"{place}"])}
    made = {root.name: with_keys(root, decode(rows[root.name], root.schema), keys[root.name], None)}
    for link in schema.links:
        child, parents = link.child, rows[link.parent.name]
        numbers = (1, 0, 2, child.most or 1, 3 * (child.most or 1))
        of = np.repeat(np.arange(len(parents)), numbers[place % len(numbers)])
        drawn = _drawn(child.schema, len(of), place)
        kept = ~_broken(link, parents.rows(of), drawn)
        of, rows[child.name] = of[kept], drawn.rows(kept)
        keys[child.name] = np.array([f"{place}.{number}" for number in range(len(of))], dtype=str)
        above = keys[link.parent.name][of]
        made[child.name] = with_keys(child, decode(rows[child.name], child.schema), keys[child.name], above)
    return made


def _drawn(schema: Schema, count: int, seed: int) -> Rows:
    return candidates(schema, max(count, 1), seed=seed).rows(slice(0, count))


def _broken(link: Link, parents: Rows, children: Rows) -> np.ndarray:
    """Returns which children break a rule beside their parents, (children,)."""
    numeric = np.concatenate([parents.numeric, children.numeric], axis=1)
    beside = Rows(numeric, np.concatenate([parents.codes, children.codes], axis=1))
    return link.records.broken(beside) if link.records.constraints else np.zeros(len(children), dtype=np.bool_)
