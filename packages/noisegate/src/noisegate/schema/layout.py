"""How records are laid out: numeric columns as positions in [0, 1], all others as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema.columns import CodedColumn, Column, Date, Decimal, Integer, NumericColumn, positions_of
from noisegate.schema.pixels import ImageColumns
from noisegate.schema.positions import atoms_of, body

INTERVALS = 100
MOST_ATOMS = 128

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
        """Returns the column called ``name``; a `SchemaError` if there is none."""
        return self.coded[self.coded_places[name]] if name in self.coded_places else self.numeric[self.place(name)]

    def place(self, name: str) -> int:
        """Returns where the column called ``name`` stands among the numeric or the coded ones, or a `SchemaError`."""
        for places in (self.coded_places, self.numeric_places):
            if name in places:
                return places[name]
        names = (*self.numeric_places, *self.coded_places)
        raise SchemaError(f"no column {name!r} in the schema; its columns are {listed(names)}")

    @cached_property
    def numeric_places(self) -> dict[str, int]:
        """The place of each numeric column, by name."""
        pixels = self.numeric.names() if isinstance(self.numeric, ImageColumns) else None
        return {name: place for place, name in enumerate(pixels or [column.name for column in self.numeric])}

    @cached_property
    def coded_places(self) -> dict[str, int]:
        """The place of each coded column, by name."""
        return {column.name: place for place, column in enumerate(self.coded)}


@dataclass(frozen=True, kw_only=True)
class Cells:
    """How a generator writes down a numeric column: cells that it gives probabilities to.

    Its public bounds are cut into atoms, single values, and intervals; missing is one more cell:

    * a column of at most 128 values gets one atom each;
    * any other gets an atom at each bound, where clamped and censored values pile up, equal intervals between them, and
      the atoms that its schema states.

    Attributes:
        low: Lower ends in the unit interval, (cells,).
        high: Upper ends, (cells,); an atom's are equal.
        missing: Whether one more cell stands for a missing value.
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    missing: bool

    @property
    def size(self) -> int:
        """Number of cells, missing included."""
        return len(self.low) + self.missing


def numeric_cells(column: NumericColumn) -> Cells:
    """Returns the cells of a numeric column, from its schema alone."""
    if isinstance(column, Integer | Decimal | Date) and column.last < MOST_ATOMS:
        atoms = np.arange(column.last + 1) / column.last
        return Cells(low=atoms, high=atoms, missing=column.missing)
    start, stop = body(column)
    edges = np.linspace(start, stop, INTERVALS + 1)
    atoms = np.setdiff1d(positions_of(column, atoms_of(column)), [start, stop])
    low, high = np.r_[start, edges[:-1], stop, atoms], np.r_[start, edges[1:], stop, atoms]
    return Cells(low=low, high=high, missing=column.missing)


def listed(names: Sequence[str], most: int = 100) -> str:
    """Returns the names for a message, the first ``most`` of them: images have a column for each pixel."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
