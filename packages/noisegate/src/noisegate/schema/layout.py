"""Layout of records as numbers, and conversions of values of numeric columns.

An encoded record has a *position* in [0, 1] for each numeric column and a *code* for
each column of levels; `Layout` has their order. A position depends on the number only.
It is computed in one of two ways:

- A column of steps counts its values in ascending order from *rank* 0 on. The position
  is the rank over the last one. Atoms outside the bounds are ranks like others.
- Real numbers fill [0, 1] evenly from the lower to the upper bound. Atoms outside the
  bounds stand 1/128 apart from each other and from the bounds::

      Continuous(lower=0, upper=10, atoms=[-1, 999])

      number     -1      0 ──────────── 10      999
      position    0    1/128          127/128    1
                     ╰ bound_positions ╯

An atom within the bounds is a value like others: it has a bin of its own in a generator
(`numeric_cells`), and no position of its own.

*Numbers* in this file are float64, or int64 units of a column of steps: integers, days
or microseconds since 1970-01-01. Numbers of decimals are float64. The names of
conversions say what they take and return::

    numbers ── ranks_of ──► ranks ── positions_of_ranks ──► positions
    numbers ◄── numbers_of_ranks ── ranks ◄── ranks_at ──── positions
    numbers ────────────── positions_of ──────────────────► positions
    numbers ◄───────────── numbers_at ───────────────────── positions
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
from noisegate.schema.columns import Column, NumericColumn
from noisegate.schema.kinds.bounded import RealColumn
from noisegate.schema.kinds.coded import CodedColumn
from noisegate.schema.kinds.stepped import SteppedColumn
from noisegate.schema.pixels import ImageColumns

INTERVAL_COUNT = 100
"""Number of equal intervals between the bounds of a column with many values."""
MAX_ATOM_CELLS = 128
"""Largest number of values of a column that get a cell each."""
OUTER_ATOM_SPACING = 1 / 128
"""Distance of the positions of atoms outside the bounds of real numbers.

A power of two, so that these positions are exact. The largest number of atoms, 32,
leaves three quarters of [0, 1] to the numbers within the bounds."""

# Up to this last rank, rounding position * last_rank gives back the rank exactly.
_MAX_EXACT_RANK = 2**50
# A position this close to that of an atom stands for the atom: a cell that holds the
# atom alone is as wide as a rounding error.
_ATOM_TOLERANCE = 2.0**-50

EncodedTable = Rows
"""Earlier name of `noisegate.records.Rows`, kept for compatibility."""

Span: TypeAlias = tuple[float, float]
"""Smallest and largest number of a closed interval; see the module on numbers."""

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Positions of the columns of a schema in encoded records.

    Attributes:
        numeric: The columns of `Rows.numeric`, in the order of the schema.
        coded: The columns of `Rows.codes`, in the order of the schema.
        label: Index of the label in `coded`; None without a label or with a numeric
            one.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> columns = (Boolean(name="ill"), Integer(name="age", lower=0, upper=99))
        >>> layout = Schema(columns, label="ill").layout
        >>> [column.name for column in layout.numeric]
        ['age']
        >>> layout.label, layout.place("age")
        (0, 0)
    """

    numeric: Sequence[NumericColumn]
    coded: tuple[CodedColumn, ...]
    label: int | None = None

    @property
    def classes(self) -> int:
        """Number of codes of the label; 0 without a label."""
        return 0 if self.label is None else self.coded[self.label].size

    @property
    def others(self) -> tuple[int, ...]:
        """Indices in `coded` of all columns except the label."""
        return tuple(index for index in range(len(self.coded)) if index != self.label)

    def column(self, name: str) -> Column:
        """Returns the column with a name; raises a `SchemaError` if there is none."""
        if name in self.coded_places:
            return self.coded[self.coded_places[name]]
        return self.numeric[self.place(name)]

    def place(self, name: str) -> int:
        """Returns the index of a column in `numeric` or in `coded`.

        Raises:
            SchemaError: if there is no column with this name.
        """
        for indices in (self.coded_places, self.numeric_places):
            if name in indices:
                return indices[name]
        names = (*self.numeric_places, *self.coded_places)
        raise SchemaError(
            f"no column {name!r} in the schema; its columns are {list_names(names)}"
        )

    @cached_property
    def numeric_places(self) -> dict[str, int]:
        """The index in `numeric` of each numeric column, by name."""
        if isinstance(self.numeric, ImageColumns):
            names: Sequence[str] = self.numeric.names()  # without creating the columns
        else:
            names = [column.name for column in self.numeric]
        return {name: index for index, name in enumerate(names)}

    @cached_property
    def coded_places(self) -> dict[str, int]:
        """The index in `coded` of each column of levels, by name."""
        return {column.name: index for index, column in enumerate(self.coded)}


def list_names(names: Sequence[str], max_listed: int = 100) -> str:
    """Lists names in a message, at most so many: images have a column for each pixel.

    Examples:
        >>> from noisegate.schema.layout import list_names
        >>> list_names(["a", "b", "c"], max_listed=2)
        'a, b and 1 more'
    """
    text = ", ".join(names[:max_listed])
    if len(names) > max_listed:
        text += f" and {len(names) - max_listed} more"
    return text


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells to which a generator gives probabilities, for one numeric column.

    A cell is an interval of positions. One whose ends are equal is a single value, an
    *atom*.

    Attributes:
        low: Lower ends of the cells, in [0, 1], (cells,).
        high: Upper ends, (cells,).
        missing: Whether there is one more cell, for a missing value.
    """

    low: Floats
    high: Floats
    missing: bool

    @property
    def size(self) -> int:
        """Number of cells, that of missing values included."""
        return len(self.low) + self.missing


def numeric_cells(column: NumericColumn) -> Cells:
    """Returns the cells of a numeric column, from its schema alone.

    A column of at most `MAX_ATOM_CELLS` values has one atom for each. Any other has an
    atom at each bound, where clamped and censored values pile up, `INTERVAL_COUNT`
    equal intervals between them, and the atoms that its schema states.
    """
    if (
        column.stepped
        and column.has_cell_for_each_value
        and column.last_rank < MAX_ATOM_CELLS
    ):
        positions = np.arange(column.last_rank + 1) / column.last_rank
        return Cells(low=positions, high=positions, missing=column.missing)
    start, stop = bound_positions(column)
    edges = np.linspace(start, stop, INTERVAL_COUNT + 1)
    atoms = np.setdiff1d(positions_of(column, atoms_of(column)), [start, stop])
    return Cells(
        low=np.concatenate([[start], edges[:-1], [stop], atoms]),
        high=np.concatenate([[start], edges[1:], [stop], atoms]),
        missing=column.missing,
    )


# --- Bounds and atoms of a column, as numbers and as positions. ---


def bounds_of(column: NumericColumn) -> Span:
    """Returns the bounds of a column, as numbers."""
    return column.to_number(column.lower), column.to_number(column.upper)


def bound_positions(column: NumericColumn) -> tuple[float, float]:
    """Returns the positions of the bounds: 0 and 1, unless there are atoms outside."""
    below, above = column.outer_atoms
    if not column.stepped:
        start = len(below) * OUTER_ATOM_SPACING
        return start, 1.0 - len(above) * OUTER_ATOM_SPACING
    last_rank = float(column.last_rank)
    return len(below) / last_rank, (column.last_rank - len(above)) / last_rank


def atoms_of(column: NumericColumn) -> tuple[float, ...]:
    """Returns the atoms of a column and its limits, as numbers, ascending."""
    return tuple(column.to_number(atom) for atom in column.all_atoms)


def outer_atoms_of(column: NumericColumn) -> tuple[float, ...]:
    """Returns the atoms outside the bounds, as numbers, ascending."""
    lower, upper = bounds_of(column)
    return tuple(atom for atom in atoms_of(column) if not lower <= atom <= upper)


def is_outer_atom(
    column: NumericColumn, numbers: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Returns which numbers of a column are atoms outside the bounds.

    Such an atom, as 999 for unknown or the limit "<0.5", is no amount that could be
    compared with others.

    Args:
        column: The column.
        numbers: Numbers that the column can hold, of any shape.
    """
    if not any(column.outer_atoms):
        return np.zeros(np.shape(numbers), dtype=np.bool_)
    lower, upper = bounds_of(column)
    return np.asarray((numbers < lower) | (numbers > upper))


def within_bounds(column: NumericColumn, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Moves numbers of a column to the nearer bound, unless they are atoms outside."""
    lower, upper = bounds_of(column)
    inside = np.clip(numbers, lower, upper)
    for atom in outer_atoms_of(column):
        inside = np.where(numbers == atom, numbers, inside)
    return np.asarray(inside)


# --- Between numbers and positions. ---


def numbers_at(column: NumericColumn, positions: Floats) -> npt.NDArray[Any]:
    """Converts positions to the numbers that they stand for.

    Args:
        column: The column.
        positions: Positions, none of them NaN, of any shape; moved into [0, 1].

    Returns:
        The numbers, of that shape: float64 for real numbers and decimals, else int64.
    """
    if not column.stepped:
        return _real_numbers_at(column, np.clip(positions, 0.0, 1.0))
    return numbers_of_ranks(column, ranks_at(column, positions))


def _real_numbers_at(column: RealColumn, positions: Floats) -> Floats:
    """Converts positions in [0, 1] to real numbers; atoms come back exactly."""
    start, stop = bound_positions(column)
    shares = np.clip((positions - start) / (stop - start), 0.0, 1.0)
    numbers = column.lower + shares * (column.upper - column.lower)
    numbers = np.clip(numbers, column.lower, column.upper)  # against rounding

    below, above = column.outer_atoms
    numbers = _with_outer_atoms(numbers, positions, below)
    numbers = _with_outer_atoms(numbers, 1.0 - positions, above[::-1])
    atoms = atoms_of(column)
    if atoms:
        atom_positions = positions_of(column, np.asarray(atoms))
        for atom, position in zip(atoms, atom_positions, strict=True):
            is_atom = np.abs(positions - position) <= _ATOM_TOLERANCE
            numbers = np.where(is_atom, atom, numbers)
    return np.asarray(numbers)


def _with_outer_atoms(
    numbers: Floats, distances: Floats, atoms: tuple[float, ...]
) -> Floats:
    """Replaces the numbers at the positions of atoms outside one of the bounds.

    Args:
        numbers: The numbers so far.
        distances: Distance of each position from the end of [0, 1] on this side.
        atoms: The atoms on this side, from the end inwards: the first has distance 0,
            the others are `OUTER_ATOM_SPACING` apart.

    Returns:
        The atom where a position is nearest to one, else the number, of the same shape.
    """
    if not atoms:
        return numbers
    nearest = np.minimum(np.rint(distances / OUTER_ATOM_SPACING), len(atoms))
    atom_indices = nearest.astype(np.intp)  # one beyond the last for no atom
    candidates = np.asarray([*atoms, math.nan])[atom_indices]
    return np.where(atom_indices < len(atoms), candidates, numbers)


def positions_of(column: NumericColumn, numbers: npt.ArrayLike) -> Floats:
    """Converts numbers to positions.

    Args:
        column: The column.
        numbers: Numbers, none of them NaN, of any shape. Those outside the bounds are
            moved to the nearer one, unless they are atoms.

    Returns:
        The positions in [0, 1], of that shape.
    """
    values = np.asarray(numbers)
    if not column.stepped:
        return _positions_of_reals(column, values)
    has_own_values = column.fractional or column.step is not None
    if has_own_values or any(column.outer_atoms):
        return positions_of_ranks(column, ranks_of(column, values))
    # Every unit within the bounds is a value here, so that ranks are differences. Those
    # of integers are exact, where float64 would round points in time.
    first, last = column.unit_bounds
    offsets = np.clip(values, first, last) - first
    return np.asarray(offsets / np.float64(last - first), dtype=np.float64)


def _positions_of_reals(column: RealColumn, numbers: npt.NDArray[Any]) -> Floats:
    """Converts real numbers to positions in [0, 1]."""
    offsets = np.clip(numbers, column.lower, column.upper) - column.lower
    # Adding 0.0 turns -0.0 into 0.0, so that equal numbers have equal bits.
    shares = np.asarray(
        (offsets + 0.0) / (column.upper - column.lower), dtype=np.float64
    )
    below, above = column.outer_atoms
    if not (below or above):
        return shares
    start, stop = bound_positions(column)
    positions = start + shares * (stop - start)
    for index, atom in enumerate(below):
        positions = np.where(numbers == atom, index * OUTER_ATOM_SPACING, positions)
    for index, atom in enumerate(reversed(above)):
        position = 1.0 - index * OUTER_ATOM_SPACING
        positions = np.where(numbers == atom, position, positions)
    return np.asarray(positions)


# --- Ranks of a column of steps. ---


def ranks_at(column: SteppedColumn, positions: Floats) -> npt.NDArray[np.int64]:
    """Converts positions to the nearest ranks; positions are moved into [0, 1]."""
    last_rank = column.last_rank
    clamped = np.clip(positions, 0.0, 1.0)
    ranks = np.rint(clamped * last_rank).astype(np.int64)
    if last_rank > _MAX_EXACT_RANK:
        # The product may be off by a few ranks: take the one of this very position.
        neighbours = [np.clip(ranks + shift, 0, last_rank) for shift in (-2, -1, 1, 2)]
        for neighbour in neighbours:
            is_exact = neighbour / np.float64(last_rank) == clamped
            ranks = np.where(is_exact, neighbour, ranks)
    return np.asarray(np.clip(ranks, 0, last_rank))


def positions_of_ranks(column: SteppedColumn, ranks: npt.NDArray[np.int64]) -> Floats:
    """Converts ranks to positions in [0, 1]."""
    return np.asarray(ranks / np.float64(column.last_rank))


def ranks_of(column: SteppedColumn, numbers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Converts numbers to ranks.

    Args:
        column: The column.
        numbers: Numbers, none of them NaN, of any shape.

    Returns:
        The rank of each number if it is an atom outside the bounds, else of the nearest
        value within the bounds; half a step goes up.
    """
    first, last = column.unit_bounds
    if column.fractional:
        clamped = np.clip(numbers, *bounds_of(column))
        units = np.rint(clamped * float(column.units_per_number)).astype(np.int64)
    elif numbers.dtype.kind == "f":
        units = np.rint(np.clip(numbers, first, last)).astype(np.int64)
    else:
        units = np.clip(numbers, first, last).astype(np.int64)

    below, _ = column.outer_atoms
    # Half a step goes up. Where the spacing is odd, no unit is in the middle of two
    # values, and rounding its half down is right.
    steps = (units - first + column.spacing // 2) // column.spacing
    ranks = len(below) + steps
    for rank, atom_units in _outer_ranks(column):
        atom = atom_units / column.units_per_number if column.fractional else atom_units
        ranks = np.where(numbers == atom, rank, ranks)
    return np.asarray(ranks, dtype=np.int64)


def numbers_of_ranks(
    column: SteppedColumn, ranks: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Converts ranks to numbers of that shape: float64 for decimals, else int64."""
    below, _ = column.outer_atoms
    first, _ = column.unit_bounds
    units = first + (ranks - len(below)) * column.spacing
    for rank, atom_units in _outer_ranks(column):
        units = np.where(ranks == rank, atom_units, units)
    if column.fractional:
        # float64 holds both integers exactly, so that their quotient is the float64
        # nearest to the decimal.
        return np.asarray(units / float(column.units_per_number))
    return np.asarray(units)


def _outer_ranks(column: SteppedColumn) -> list[tuple[int, int]]:
    """Returns rank and units of each atom outside the bounds, ascending."""
    below, above = column.outer_atoms
    first_above = column.last_rank + 1 - len(above)
    return [*enumerate(below), *enumerate(above, first_above)]


def ranks_within(column: SteppedColumn, span: Span) -> tuple[int, int]:
    """Returns the first and the last rank whose number lies in a closed interval.

    The last is below the first if no number does.
    """
    low, high = span
    first = _first_rank(column, low, strict=False)
    return first, _first_rank(column, high, strict=True) - 1


# --- Neighbouring numbers. ---


def next_number(column: NumericColumn, value: float, *, strict: bool) -> float:
    """Returns the smallest number of a column from a value on.

    Args:
        column: The column; its atoms count as numbers, those outside the bounds too.
        value: Any number, or infinity.
        strict: Whether the number must be above the value, instead of at least it.

    Returns:
        The number; infinity if there is none.
    """
    if column.stepped:
        rank = _first_rank(column, value, strict=strict)
        return math.inf if rank > column.last_rank else _number_of_rank(column, rank)
    smallest = _nearest_float(value, math.inf, strict=strict)
    candidates = [atom for atom in outer_atoms_of(column) if atom >= smallest]
    if smallest <= column.upper:
        candidates.append(max(smallest, column.lower))
    return min(candidates, default=math.inf)


def previous_number(column: NumericColumn, value: float) -> float:
    """Returns the largest number of a column below a value; -infinity if none is.

    Atoms count as numbers, those outside the bounds too.
    """
    if column.stepped:
        rank = _first_rank(column, value, strict=False) - 1
        return -math.inf if rank < 0 else _number_of_rank(column, rank)
    largest = _nearest_float(value, -math.inf, strict=True)
    candidates = [atom for atom in outer_atoms_of(column) if atom <= largest]
    if largest >= column.lower:
        candidates.append(min(largest, column.upper))
    return max(candidates, default=-math.inf)


def _nearest_float(value: float, towards: float, *, strict: bool) -> float:
    """Returns the float64 nearest to a value, on one side of it.

    Args:
        value: A number, maybe an integer that float64 does not hold.
        towards: Infinity for a float64 that is at least the value, -infinity for one
            that is at most the value.
        strict: Whether it must not equal the value.
    """
    nearest = float(value)
    is_on_other_side = nearest < value if towards > 0 else nearest > value
    if is_on_other_side or (strict and nearest == value):
        return math.nextafter(nearest, towards)
    return nearest


def _first_rank(column: SteppedColumn, value: float, *, strict: bool) -> int:
    """Returns the rank of the smallest number from a value on.

    Args:
        column: The column.
        value: Any number, or infinity.
        strict: Whether the number must be above the value, instead of at least it.

    Returns:
        The rank; one beyond the last if there is no such number.
    """
    last_rank = column.last_rank
    if math.isinf(value):
        return last_rank + 1 if value > 0 else 0
    first, _ = column.unit_bounds
    below, above = column.outer_atoms
    # Exact arithmetic gives this rank, or one beside it, as a decimal is rounded to
    # float64. From a start within the bounds, the search ends after a few ranks.
    units = Fraction(value) * column.units_per_number
    start = len(below) + math.floor((units - first) / column.spacing) - 1
    rank = min(max(start, len(below)), last_rank - len(above))

    def is_too_small(candidate: int) -> bool:
        number = _number_of_rank(column, candidate)
        return number <= value if strict else number < value

    while rank > 0 and not is_too_small(rank - 1):
        rank -= 1
    while rank <= last_rank and is_too_small(rank):
        rank += 1
    return rank


def _number_of_rank(column: SteppedColumn, rank: int) -> float:
    """Returns the number of one rank: a float for decimals, else an int."""
    number: float = numbers_of_ranks(column, np.asarray(rank, dtype=np.int64)).item()
    return number
