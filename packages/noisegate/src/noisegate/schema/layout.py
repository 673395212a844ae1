"""How records are laid out: numeric columns as positions in [0, 1], by a function of the number alone; others as codes.

A column of steps counts its values, in ascending order, from rank 0 on; a rank over the last one is its position. Real
numbers fill [0, 1] evenly from the lower bound to the upper one. An atom within the bounds, such as zero, is a value
like others. One outside them, such as 999 for unknown, is a rank like others, or stands 1/128 apart from each other and
from the bounds: it is read and written as it is, and no value between it and the bounds is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema.columns import Column
from noisegate.schema.numeric import (
    Continuous,
    Date,
    Decimal,
    Integer,
    NumericColumn,
    SteppedColumn,
)
from noisegate.schema.pixels import ImageColumns
from noisegate.schema.values import CodedColumn

INTERVAL_COUNT = 100
MAX_ATOM_CELLS = 128

EncodedTable = Rows
"""The name of `noisegate.records.Rows` before there were images of bytes."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which column of a schema stands where in encoded records.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> layout = Schema((Boolean(name="ill"), Integer(name="age", lower=0, upper=99)), label="ill").layout
        >>> [column.name for column in layout.numeric], layout.label, layout.place("age")
        (['age'], 0, 0)
    """

    numeric: Sequence[NumericColumn]
    """The columns of ``Rows.numeric``, in schema order."""
    coded: tuple[CodedColumn, ...]
    """The columns of ``Rows.codes``, in schema order."""
    label: int | None = None
    """Index into ``coded`` of the label, or None without a label or with a numeric one."""

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
        return (
            self.coded[self.coded_places[name]]
            if name in self.coded_places
            else self.numeric[self.place(name)]
        )

    def place(self, name: str) -> int:
        """Returns where the column called ``name`` stands among the numeric or the coded ones, or a `SchemaError`."""
        for places in (self.coded_places, self.numeric_places):
            if name in places:
                return places[name]
        names = (*self.numeric_places, *self.coded_places)
        raise SchemaError(
            f"no column {name!r} in the schema; its columns are {list_names(names)}"
        )

    @cached_property
    def numeric_places(self) -> dict[str, int]:
        """The place of each numeric column, by name."""
        pixels = (
            self.numeric.names() if isinstance(self.numeric, ImageColumns) else None
        )
        return {
            name: place
            for place, name in enumerate(
                pixels or [column.name for column in self.numeric]
            )
        }

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
    """

    low: npt.NDArray[np.float64]  # lower ends in the unit interval, (cells,)
    high: npt.NDArray[np.float64]  # upper ends, (cells,); an atom's are equal
    missing: bool  # whether one more cell stands for a missing value

    @property
    def size(self) -> int:
        """Number of cells, missing included."""
        return len(self.low) + self.missing


def numeric_cells(column: NumericColumn) -> Cells:
    """Returns the cells of a numeric column, from its schema alone."""
    if (
        isinstance(column, Integer | Decimal | Date)
        and column.last_rank < MAX_ATOM_CELLS
    ):
        atoms = np.arange(column.last_rank + 1) / column.last_rank
        return Cells(low=atoms, high=atoms, missing=column.missing)
    start, stop = bound_positions(column)
    edges = np.linspace(start, stop, INTERVAL_COUNT + 1)
    atoms = np.setdiff1d(positions_of(column, atoms_of(column)), [start, stop])
    low, high = (
        np.r_[start, edges[:-1], stop, atoms],
        np.r_[start, edges[1:], stop, atoms],
    )
    return Cells(low=low, high=high, missing=column.missing)


def list_names(names: Sequence[str], most: int = 100) -> str:
    """Returns the names for a message, the first ``most`` of them: images have a column for each pixel."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


Span: TypeAlias = tuple[float, float]
"""Lowest and highest number of a closed interval: real numbers, or whole ones as in `numbers_at`."""

OUTER_ATOM_SPACING = 1 / 128
"""Distance of atoms outside the bounds of real numbers: a power of two, so that their positions are exact."""

_SAFE_STEPS = (
    2**50
)  # below it, rounding position * steps always gives back the step that was encoded
_AT = (
    2.0**-50
)  # of an atom; what is written down as a cell of its own has the width of a rounding error

Floats: TypeAlias = npt.NDArray[np.float64]


def numbers_at(column: NumericColumn, positions: Floats) -> npt.NDArray[Any]:
    """Returns the numbers of positions, none NaN, clamped: float64, or int64 whole numbers, days or microseconds."""
    if not isinstance(column, Continuous):
        return numbers_of_ranks(column, ranks_at(column, positions))
    clamped = np.clip(positions, 0.0, 1.0)
    start, stop = bound_positions(column)
    inner = np.clip((clamped - start) / (stop - start), 0.0, 1.0)
    found = np.clip(
        column.lower + inner * (column.upper - column.lower), column.lower, column.upper
    )
    below, above = column.outer_atoms
    if below:
        near = np.minimum(np.rint(clamped / OUTER_ATOM_SPACING), len(below)).astype(
            np.intp
        )
        found = np.where(near < len(below), np.asarray([*below, math.nan])[near], found)
    if above:
        near = np.minimum(
            np.rint((1.0 - clamped) / OUTER_ATOM_SPACING), len(above)
        ).astype(np.intp)
        found = np.where(
            near < len(above), np.asarray([*reversed(above), math.nan])[near], found
        )
    if column.atoms:
        for atom, position in zip(
            column.atoms, positions_of(column, np.asarray(column.atoms)), strict=True
        ):
            found = np.where(np.abs(clamped - position) <= _AT, atom, found)
    return np.asarray(found)


def positions_of(column: NumericColumn, numbers: npt.ArrayLike) -> Floats:
    """Returns the positions that encode numbers; those outside the bounds are clamped unless they are atoms."""
    numbers = np.asarray(numbers)
    if not isinstance(column, Continuous):
        if (
            isinstance(column, Decimal)
            or column.step is not None
            or any(column.outer_atoms)
        ):
            return positions_of_ranks(column, ranks_of(column, numbers))
        first, last = column.unit_bounds  # subtracted exactly, as integers
        return np.asarray(
            (np.clip(numbers, first, last) - first) / np.float64(last - first),
            dtype=np.float64,
        )
    offset = np.clip(numbers, column.lower, column.upper) - column.lower
    positions = np.asarray(
        (offset + 0.0) / (column.upper - column.lower), dtype=np.float64
    )
    below, above = column.outer_atoms
    if not (below or above):
        return positions
    start, stop = bound_positions(column)
    positions = start + positions * (stop - start)
    for place, atom in enumerate(below):
        positions = np.where(numbers == atom, place * OUTER_ATOM_SPACING, positions)
    for place, atom in enumerate(reversed(above)):
        positions = np.where(
            numbers == atom, 1.0 - place * OUTER_ATOM_SPACING, positions
        )
    return np.asarray(positions)


def bound_positions(column: NumericColumn) -> tuple[float, float]:
    """Returns the positions of the two bounds: 0 and 1, but for atoms outside."""
    below, above = map(len, column.outer_atoms)
    if isinstance(column, Continuous):
        return below * OUTER_ATOM_SPACING, 1.0 - above * OUTER_ATOM_SPACING
    return below / float(column.last_rank), (column.last_rank - above) / float(
        column.last_rank
    )


def bounds_of(column: NumericColumn) -> Span:
    """Returns the bounds of a column as numbers."""
    if isinstance(column, Continuous | Decimal):
        return column.lower, column.upper
    return column.unit_bounds


def atoms_of(column: NumericColumn) -> tuple[float, ...]:
    """Returns the atoms of a column as numbers."""
    if isinstance(column, Continuous | Decimal):
        return column.atoms
    return tuple(column.to_units(atom) for atom in column.atoms)  # type: ignore[arg-type]


def outer_atoms_of(column: NumericColumn) -> tuple[float, ...]:
    """Returns the atoms outside the bounds, as numbers."""
    lower, upper = bounds_of(column)
    return tuple(atom for atom in atoms_of(column) if not lower <= atom <= upper)


def is_outer_atom(
    column: NumericColumn, numbers: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Returns which numbers are no number of the scale, but atoms outside the bounds."""
    if not any(column.outer_atoms):
        return np.zeros(np.shape(numbers), dtype=np.bool_)
    lower, upper = bounds_of(column)
    return np.asarray((numbers < lower) | (numbers > upper))


def ranks_at(column: SteppedColumn, positions: Floats) -> npt.NDArray[np.int64]:
    """Returns the ranks that positions stand for: the nearest ones."""
    clamped, width = np.clip(positions, 0.0, 1.0), column.last_rank
    nearest = np.rint(clamped * width).astype(np.int64)
    if (
        width > _SAFE_STEPS
    ):  # the product may be off by a few steps: take the step that encodes to this very position
        for candidate in [
            np.clip(nearest + shift, 0, width) for shift in (-2, -1, 1, 2)
        ]:
            nearest = np.where(
                candidate / np.float64(width) == clamped, candidate, nearest
            )
    return np.asarray(np.clip(nearest, 0, width))


def positions_of_ranks(column: SteppedColumn, ranks: npt.NDArray[np.int64]) -> Floats:
    """Returns the positions of ranks."""
    return np.asarray(ranks / np.float64(column.last_rank))


def ranks_of(column: SteppedColumn, numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Returns the ranks of numbers: of atoms outside the bounds their own, else of the nearest number within."""
    (first, last), (below, above), spacing = (
        column.unit_bounds,
        column.outer_atoms,
        column.spacing,
    )
    if isinstance(column, Decimal):
        units = np.rint(
            np.clip(numbers, column.lower, column.upper)
            * float(column.units_per_number)
        ).astype(np.int64)
    elif numbers.dtype.kind == "f":
        units = np.rint(np.clip(numbers, first, last)).astype(np.int64)
    else:
        units = np.clip(numbers, first, last).astype(np.int64)
    # Half a step goes up. The middle of an odd number of units is between two of them.
    ranks = len(below) + (units - first + spacing // 2) // spacing
    for rank, unit in [
        *enumerate(below),
        *enumerate(above, column.last_rank + 1 - len(above)),
    ]:
        ranks = np.where(
            numbers
            == (
                unit / column.units_per_number if isinstance(column, Decimal) else unit
            ),
            rank,
            ranks,
        )
    return np.asarray(ranks, dtype=np.int64)


def numbers_of_ranks(
    column: SteppedColumn, ranks: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Returns the numbers of ranks."""
    below, above = column.outer_atoms
    inner = len(below)
    units = column.unit_bounds[0] + (ranks - inner) * column.spacing
    for rank, unit in [
        *enumerate(below),
        *enumerate(above, column.last_rank + 1 - len(above)),
    ]:
        units = np.where(ranks == rank, unit, units)
    # Two whole numbers that float64 holds exactly: their quotient is the float64 nearest to the decimal.
    return np.asarray(
        units / float(column.units_per_number) if isinstance(column, Decimal) else units
    )


def ranks_within(column: SteppedColumn, span: Span) -> tuple[int, int]:
    """Returns the first and the last rank whose number lies in a closed interval; the last is less if there is none."""
    return _first_rank(column, span[0], strict=False), _first_rank(
        column, span[1], strict=True
    ) - 1


def next_number(column: NumericColumn, value: float, *, strict: bool) -> float:
    """Returns the least number of a column, atoms included, that is at least ``value``, or above; else infinity."""
    if not isinstance(column, Continuous):
        rank = _first_rank(column, value, strict=strict)
        return math.inf if rank > column.last_rank else _at(column, rank)
    least = _neighbour(value, math.inf, strict=strict)
    atoms = [atom for ends in column.outer_atoms for atom in ends if atom >= least]
    return (
        min([*atoms, max(least, column.lower)])
        if least <= column.upper
        else min(atoms, default=math.inf)
    )


def previous_number(column: NumericColumn, value: float) -> float:
    """Returns the greatest number of a column, atoms included, that is below ``value``; minus infinity for none."""
    if not isinstance(column, Continuous):
        rank = _first_rank(column, value, strict=False) - 1
        return -math.inf if rank < 0 else _at(column, rank)
    most = _neighbour(value, -math.inf, strict=True)
    atoms = [atom for ends in column.outer_atoms for atom in ends if atom <= most]
    return (
        max([*atoms, min(most, column.upper)])
        if most >= column.lower
        else max(atoms, default=-math.inf)
    )


def _neighbour(value: float, towards: float, *, strict: bool) -> float:
    """Returns the nearest float64 that is not on the other side of ``value``, nor equal to it if ``strict``."""
    nearest = float(value)
    wrong = nearest < value if towards > 0 else nearest > value
    return (
        math.nextafter(nearest, towards)
        if wrong or (strict and nearest == value)
        else nearest
    )


def _first_rank(column: SteppedColumn, value: float, *, strict: bool) -> int:
    """Returns the rank of the least number that is at least ``value``, or above it; one beyond the last for none."""
    if math.isinf(value):
        return column.last_rank + 1 if value > 0 else 0
    first, spacing = column.unit_bounds[0], column.spacing
    inner = len(column.outer_atoms[0])
    # By exact arithmetic, up to how a decimal is rounded to float64: the rank, or the one beside it.
    rank = (
        inner
        + math.floor((Fraction(value) * column.units_per_number - first) / spacing)
        - 1
    )
    rank = min(max(rank, inner), column.last_rank - len(column.outer_atoms[1]))
    while rank > 0 and not _below(column, rank - 1, value, strict=strict):
        rank -= 1
    while rank <= column.last_rank and _below(column, rank, value, strict=strict):
        rank += 1
    return rank


def _below(column: SteppedColumn, rank: int, value: float, *, strict: bool) -> bool:
    number = _at(column, rank)
    return bool(number <= value if strict else number < value)


def _at(column: SteppedColumn, rank: int) -> Any:
    return numbers_of_ranks(column, np.asarray(rank, dtype=np.int64)).item()
