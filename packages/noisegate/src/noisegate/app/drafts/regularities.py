"""What the numbers of a public sample show beside their range: sentinels, steps, atoms.

::

    values   -9  -1   0   0   0   5   10   25   30 ...  200   9999
             ╰──┬─╯   ╰───┬──╯    ╰──────┬──────────╯       ╰─┬─╯
            sentinels    atom     regular, 5 apart        sentinel

- A sentinel, as 9999 for unknown, is no amount: it stands far from all others, or is a
  negative code among amounts.
- The step is the largest distance of which all regular values are multiples apart.
- An atom is a single value within the range that far more records have than have its
  neighbours.

All of it is claimed only where the sample has enough records and no exception. Every
function takes a `ValueCounts`, the distinct values of a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64]

# A step is claimed for as many records and different values: of ten random integers, 1
# set in 500 has a common divisor of two.
MIN_STEP_RECORDS = 50
MIN_STEP_VALUES = 10

# Where a step cannot be claimed, so many records still show how many decimals are
# written.
_MIN_DECIMALS_RECORDS = 20

_MAX_DECIMALS = 12

MAX_EXACT_UNITS = 2**48
"""Up to which float64 also tells bounds apart that were rounded outwards."""

# As many records with one value alone show a constant.
_MIN_CONSTANT_RECORDS = 10

# A sentinel has as many records, since a far value of few is an outlier; and it is
# alone or one of few. An atom has as many records too.
_MIN_SENTINEL_RECORDS = 10
_MAX_SENTINELS = 4
# Codes that questionnaires use for "unknown", "refused" and the like, made negative.
# Below values that are never negative they need no gap: -1 stands beside 0.
_SENTINEL_CODES = frozenset(
    -code
    for code in (1, 2, 3, 4, 5, 6, 7, 8, 9, 66, 77, 88, 97, 98, 99, 999, 9999, 99999)
)

# Beside sentinels, a scale needs as many values of its own: of 1, 2 and 9, nobody can
# say whether 9 is far away.
_MIN_REGULAR_VALUES = 10

# An atom has this fraction of the regular records, since a rarer one changes little. It
# has this multiple of the median of as many neighbours on each side, which the peak of
# a smooth distribution has not. Each atom takes a histogram cell, so only so many are
# proposed, the most frequent ones. `GRIDS` in tests/app/drafts/test_regularities.py has
# columns with atoms, far beyond these limits, and columns that must get none.
_MIN_ATOM_FRACTION = 0.02
_MIN_ATOM_RATIO = 5
_NEIGHBOUR_COUNT = 10
_MAX_ATOMS = 8

# With fewer steps in its range, each value of a column has a histogram cell of its own,
# and an atom would add nothing.
_MAX_STEPS_WITHOUT_ATOMS = 1024


@dataclass(frozen=True)
class ValueCounts:
    """The distinct values of a column, and how many records have each.

    Attributes:
        values: Distinct values, ascending, (values,).
        counts: Number of records with each, (values,).
    """

    values: Numbers
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, numbers: Numbers) -> ValueCounts:
        """Counts the numbers of a sample, (records,), none of them NaN."""
        values, counts = np.unique(numbers, return_counts=True)
        # NumPy's types forget that all values are of one of the two.
        return cls(cast(Numbers, values), counts)

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return int(self.counts.sum())

    @property
    def is_constant(self) -> bool:
        """Whether many records have one value, and none another one."""
        return len(self.values) == 1 and self.record_count >= _MIN_CONSTANT_RECORDS

    def where(self, is_chosen: npt.NDArray[np.bool_]) -> ValueCounts:
        """Returns some of the values, by a mask, (values,)."""
        return ValueCounts(self.values[is_chosen], self.counts[is_chosen])


@dataclass(frozen=True, kw_only=True)
class SampledGrid:
    """A grid on which all values of a sample stand.

    Attributes:
        units: The values as integers, (values,): each value is units / scale.
        scale: Units in 1, a power of ten.
        step: Distance of two grid points, in units.
    """

    units: npt.NDArray[np.int64]
    scale: int
    step: int

    def bounds_around(self, lower: int, upper: int) -> tuple[int, int]:
        """Moves bounds inwards to points of the grid.

        Example: values from 30 to 45, 5 apart, between 8 and 52 have the bounds 10 and
        50. Rounding down the steps between them keeps both on the inner side.

        Args:
            lower: A bound at or below all values, in units.
            upper: A bound at or above all values, in units.

        Returns:
            The lowest and the highest point of the grid between them, in units.
        """
        smallest = int(self.units[0])
        largest = int(self.units[-1])
        steps_below = (smallest - lower) // self.step
        steps_above = (upper - largest) // self.step
        return smallest - steps_below * self.step, largest + steps_above * self.step


@dataclass(frozen=True)
class Atom:
    """A single value that many records have.

    Attributes:
        value: The value.
        fraction: Of the records that have it.
        is_sentinel: Whether it stands far from all others.
    """

    value: float
    fraction: float
    is_sentinel: bool

    @property
    def reason(self) -> str:
        """Why it is proposed, as a comment in the draft."""
        apart = " and stands far from all others" if self.is_sentinel else ""
        return (
            f"atoms: {self.value:g} is the value of {self.fraction:.1%} of "
            f"records{apart}"
        )


def sentinel_mask(distinct: ValueCounts) -> npt.NDArray[np.bool_]:
    """Returns which values are sentinels, that is, no amounts of the column's scale.

    Sentinels are a few values at either end, each of many records. There is a gap
    between them and the next value that is at least as wide as the range of all others;
    or they are negative codes such as -1 and -9 below values that are never negative.

    Args:
        distinct: The values of a column, numbers or units of time.

    Returns:
        The mask, (values,).

    Examples:
        >>> import numpy as np
        >>> from noisegate.app.drafts.regularities import ValueCounts, sentinel_mask
        >>> ages = ValueCounts(np.array([*range(20, 60), 999]), np.full(41, 12))
        >>> ages.values[sentinel_mask(ages)]
        array([999])
    """
    values = distinct.values
    is_frequent = distinct.counts >= _MIN_SENTINEL_RECORDS
    is_sentinel = np.zeros(len(values), dtype=np.bool_)

    # From the top. Values from index `split` on may be sentinels, at first the last one
    # alone. The last split with a gap decides for all that are beyond it: a rare
    # value among them shows that the column has a long tail, and no sentinels.
    first_split = max(len(values) - _MAX_SENTINELS, _MIN_REGULAR_VALUES)
    for split in range(len(values) - 1, first_split - 1, -1):
        gap = values[split] - values[split - 1]
        if gap >= values[split - 1] - values[0]:
            is_sentinel[split:] = is_frequent[split:].all()

    # From the bottom in the same way: values below index `split` may be sentinels. The
    # range of the others ends below the sentinels at the top.
    last_split = min(_MAX_SENTINELS, len(values) - _MIN_REGULAR_VALUES)
    for split in range(1, last_split + 1):
        gap = values[split] - values[split - 1]
        largest_regular = values[~is_sentinel][-1]
        are_codes = (
            values[split] >= 0 > values[split - 1]
            and set(values[:split].tolist()) <= _SENTINEL_CODES
        )
        if are_codes or gap >= largest_regular - values[split]:
            is_sentinel[:split] = is_frequent[:split].all()
    return is_sentinel


def find_grid(regular: ValueCounts) -> SampledGrid | None:
    """Finds the coarsest grid on which all values stand.

    A sample that is too small for a step may still show how many decimals are written;
    the step is then one unit of the last decimal.

    Args:
        regular: The values of a column without its sentinels, at least one.

    Returns:
        The grid; None if there is none, or the sample is too small to show it.

    Examples:
        >>> import numpy as np
        >>> from noisegate.app.drafts.regularities import ValueCounts, find_grid
        >>> quarters = ValueCounts.of(np.arange(100) * 0.25)
        >>> grid = find_grid(quarters)
        >>> grid.step, grid.scale  # multiples of 25 hundredths
        (25, 100)
    """
    values = regular.values
    are_integers = values.dtype.kind != "f"
    shows_step = (
        regular.record_count >= MIN_STEP_RECORDS and len(values) >= MIN_STEP_VALUES
    )
    shows_decimals = not are_integers and regular.record_count >= _MIN_DECIMALS_RECORDS
    if not shows_step and not shows_decimals:
        return None

    # Few floats that are all whole do not show that none has decimals, so 0 decimals
    # are tried only where the sample is large enough for a step.
    min_decimals = 0 if shows_step else 1
    for decimals in range(min_decimals, _MAX_DECIMALS + 1):
        scale = 10**decimals
        if are_integers:
            units = values.astype(np.int64)
        else:
            # More decimals only make larger units, so no further scale is tried.
            if float(np.abs(values).max()) * scale > MAX_EXACT_UNITS:
                return None
            # Compared as floats: 0.1 is no tenth exactly, but is the float next to 1 /
            # 10, as it is in a schema.
            units = np.rint(values * float(scale)).astype(np.int64)
            if not (units / float(scale) == values).all():
                continue
        step = int(np.gcd.reduce(np.diff(units))) if shows_step else 1
        return SampledGrid(units=units, scale=scale, step=step)
    return None


def find_atoms(
    distinct: ValueCounts, is_sentinel: npt.NDArray[np.bool_], *, step_count: float
) -> list[Atom]:
    """Finds the atoms of a column: its sentinels, and frequent values in its range.

    Args:
        distinct: The values of the column.
        is_sentinel: Which of them are sentinels, (values,).
        step_count: Steps between the bounds of the column; infinity without a step.

    Returns:
        The sentinels, then the frequent values, each ascending. The fractions of
        sentinels are of all records, and those of frequent values of the others.

    Examples:
        >>> import numpy as np
        >>> from noisegate.app.drafts.regularities import ValueCounts, find_atoms
        >>> counts = np.full(40, 10)
        >>> counts[0] = 360  # of 750 records
        >>> hours = ValueCounts(np.arange(40), counts)
        >>> find_atoms(hours, np.zeros(40, dtype=bool), step_count=np.inf)
        [Atom(value=0, fraction=0.48, is_sentinel=False)]
    """
    record_count = distinct.record_count
    sentinels = distinct.where(is_sentinel)
    atoms = [
        Atom(value, count / record_count, is_sentinel=True)
        for value, count in zip(
            sentinels.values.tolist(), sentinels.counts.tolist(), strict=True
        )
    ]
    if step_count > _MAX_STEPS_WITHOUT_ATOMS and record_count >= MIN_STEP_RECORDS:
        atoms.extend(_frequent_values(distinct.where(~is_sentinel)))
    return atoms


def _frequent_values(regular: ValueCounts) -> list[Atom]:
    """Returns the values that far more records have than those beside them, ascending.

    Example: 0 with 360 records and 1 to 39 with 10 each. Around 0 the median is 10, so
    0 is an atom with 36 times as many; around 1 it is 10 too, which is no multiple.

    Returns:
        Of the values that meet all three limits the `_MAX_ATOMS` most frequent; of
        equally frequent ones the smallest. Fractions are of the records with regular
        values.
    """
    counts = regular.counts
    fractions = counts / counts.sum()
    is_frequent = (
        (fractions >= _MIN_ATOM_FRACTION)
        & (counts >= _MIN_SENTINEL_RECORDS)
        & (counts >= _MIN_ATOM_RATIO * _usual_counts(counts))
    )
    by_frequency = sorted(
        np.flatnonzero(is_frequent).tolist(), key=lambda index: -fractions[index]
    )
    return [
        Atom(regular.values[index].item(), float(fractions[index]), is_sentinel=False)
        for index in sorted(by_frequency[:_MAX_ATOMS])
    ]


def _usual_counts(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Returns the median count of each value and its neighbours, (values,).

    Neighbours are the next distinct values, `_NEIGHBOUR_COUNT` on each side, however
    far they are. A median does not move where a few of them are atoms too, as round
    numbers often are; a mean would, and would hide both. Beyond the ends, counts are
    mirrored: those of the second value, the third, and so on.

    Args:
        counts: Number of records with each value, (values,).
    """
    # Fewer values than are mirrored: the counts of the ends are repeated instead, so
    # that none is mirrored twice.
    mode: Literal["reflect", "edge"] = "edge"
    if len(counts) > _NEIGHBOUR_COUNT:
        mode = "reflect"
    padded_counts = np.pad(counts.astype(np.float64), _NEIGHBOUR_COUNT, mode=mode)
    windows = np.lib.stride_tricks.sliding_window_view(
        padded_counts, 2 * _NEIGHBOUR_COUNT + 1
    )
    medians: npt.NDArray[np.float64] = np.median(windows, axis=1)
    return medians
