"""How records are laid out: numeric columns as positions in [0, 1], all others as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema.columns import CodedColumn, Column, NumericColumn
from noisegate.schema.pixels import ImageColumns

EncodedTable = Rows
"""The name of `noisegate.records.Rows` before there were images of bytes."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which column of a schema stands where in encoded records.

    Attributes:
        numeric: the columns of ``Rows.numeric``, in schema order.
        coded: the columns of ``Rows.codes``, in schema order.
        label: index into ``coded`` of the label, or None without a label or with a numeric one.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> layout = Schema((Boolean(name="ill"), Integer(name="age", lower=0, upper=99)), label="ill").layout
        >>> [column.name for column in layout.numeric], layout.label, layout.place("age")
        (['age'], 0, 0)
    """

    numeric: Sequence[NumericColumn]
    coded: tuple[CodedColumn, ...]
    label: int | None = None

    @property
    def classes(self) -> int:
        """How many codes the label has; 0 without one."""
        return 0 if self.label is None else self.coded[self.label].size

    @property
    def others(self) -> tuple[int, ...]:
        """Indices into ``coded`` of all columns but the label."""
        return tuple(place for place in range(len(self.coded)) if place != self.label)

    def column(self, name: str) -> Column:
        """Return the column called ``name``.

        Raises:
            SchemaError: if there is none.
        """
        return self.coded[self.coded_places[name]] if name in self.coded_places else self.numeric[self.place(name)]

    def place(self, name: str) -> int:
        """Return where the column called ``name`` stands among the numeric or the coded ones.

        Raises:
            SchemaError: if there is none.
        """
        found = self.coded_places.get(name)
        found = self.numeric_places.get(name) if found is None else found
        if found is None:
            names = (*self.numeric_places, *self.coded_places)
            raise SchemaError(f"no column {name!r} in the schema; its columns are {listed(names)}")
        return found

    @cached_property
    def numeric_places(self) -> dict[str, int]:
        """The place of each numeric column, by name."""
        pixels = self.numeric.names() if isinstance(self.numeric, ImageColumns) else None
        return {name: place for place, name in enumerate(pixels or [column.name for column in self.numeric])}

    @cached_property
    def coded_places(self) -> dict[str, int]:
        """The place of each coded column, by name."""
        return {column.name: place for place, column in enumerate(self.coded)}


def listed(names: Sequence[str], most: int = 100) -> str:
    """Return the names for a message, the first ``most`` of them: images have a column for each pixel."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
