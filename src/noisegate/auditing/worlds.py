"""Two neighbouring data sets of made-up records, of which an attacker shall tell which one was used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisegate.data.tables.tables import TableSource
from noisegate.errors import OptionError
from noisegate.gate.execution import made_up_records
from noisegate.privacy.events import Adjacency
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode

if TYPE_CHECKING:
    import pyarrow as pa

UNIT = "noisegate audited unit"
_TRIES = 200


@dataclass(frozen=True, kw_only=True)
class Worlds:
    """World 0 holds some records and maybe an old one; world 1 holds a new one in its place, or beside them.

    Attributes:
        schema: Of the records.
        others: The records of both worlds.
        old: The record of world 0 alone, one row; None under add-remove.
        new: The record of world 1 alone, one row.
        contributions: How often the old and the new one occur: they are whole units.
    """

    schema: Schema
    others: EncodedTable
    old: EncodedTable | None
    new: EncodedTable
    contributions: int | None = None

    def records(self, world: int) -> EncodedTable:
        """Returns the records of a world, the own ones last."""
        own = self.new if world else self.old
        return EncodedTable.concatenate([self.others, *([] if own is None else [own] * (self.contributions or 1))])

    def table(self, world: int) -> pa.Table:
        """Returns the records of a world as a private table, with a column of units if there are any."""
        import pyarrow as pa

        records = self.records(world)
        table = decode(records, self.schema)
        if self.contributions is None:
            return table
        units = np.minimum(np.arange(len(records)), len(self.others))
        return table.append_column(UNIT, pa.array(units))


def candidates(schema: Schema, count: int, seed: int = 0) -> EncodedTable:
    """Returns `count` made-up records that the schema allows, from which the worst ones are chosen.

    Raises:
        OptionError: if the constraints of the schema leave hardly any.
    """
    random = np.random.default_rng(seed)
    kept: list[EncodedTable] = []
    for _ in range(_TRIES):
        # Written and read, so that positions are those that values have.
        drawn = next(iter(TableSource(decode(made_up_records(schema.layout, count, random), schema), schema).batches()))
        kept.append(drawn.rows(~schema.broken(drawn)) if schema.constraints else drawn)
        if sum(map(len, kept)) >= count:
            return EncodedTable.concatenate(kept).rows(slice(0, count))
    raise OptionError("the constraints of the schema leave hardly any made-up record; audit it without them.")


def neighbours(
    schema: Schema, made_up: EncodedTable, chosen: tuple[int, int], adjacency: Adjacency, contributions: int | None
) -> Worlds:
    """Returns the worlds of two chosen records: under add-remove the first one is in both, else in world 0 alone.

    Args:
        schema: Of the records.
        made_up: Some records.
        chosen: Which of them.
        adjacency: The neighbouring relation.
        contributions: How many records a unit has, or None.
    """
    first, second = (made_up.rows(slice(place, place + 1)) for place in chosen)
    replaced = adjacency is Adjacency.REPLACE_ONE
    third = next(place for place in range(len(made_up)) if place not in chosen)
    return Worlds(
        schema=schema,
        others=made_up.rows(slice(third, third + 1)) if replaced else first,
        old=first if replaced else None,
        new=second,
        contributions=contributions,
    )
