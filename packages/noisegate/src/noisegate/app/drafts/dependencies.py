"""Columns of a public sample that follow from others, as a reader may want to know.

- Equalities: two columns are the same in nearly all records.
- Sums: `total = january + ... + december` in nearly all records.
- Ties: numbers of which each is nearly a sum, difference, product or ratio of the rest.
- Derived columns: of few values, each given by a value of another column.

None makes a constraint, since sampling could hardly keep to one: they are remarked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.records import Rows
from noisegate.schema import Schema

Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.integer[Any]]

MIN_RECORDS = 200
"""Fewer records show no rule."""

MIN_EXPECTED_EXCEPTIONS = 30
"""So many records would break a rule, at least, were the columns independent.

That none does has then a chance below 10⁻¹³.
"""

MAX_COLUMNS = 60
"""Of more columns not all pairs are gone through."""

# A sum or an equality holds in this fraction of the records that have its columns.
_MIN_SUM_FRACTION = 0.97
# Where the total equals one part alone nearly as often, the sum must hold in so many of
# the other records, in which the other parts matter.
_MIN_EXPLAINED_EXCEPTIONS = 0.5
# It would hold in less than this one, were the total moved to other records.
_MAX_SUM_FRACTION_BY_CHANCE = 0.5
# So many records are examined first. A sum may hold less often there by this.
_SCREENED_RECORDS = 512
_SCREENING_MARGIN = 0.1

# Numbers are equal up to this, relative to the larger of them and 1.
_TOLERANCE = 1e-9

# Numbers are tied where the others leave at most this fraction of the variance of each:
# of two columns, and of more.
_MAX_RESIDUAL_OF_TWO = 0.01
_MAX_RESIDUAL_OF_MORE = 0.001
_MAX_TIED_COLUMNS = 5
# Coefficients below this fraction of the largest say nothing.
_MIN_COEFFICIENT = 0.1
# Added to the diagonal of correlations, so that they can be inverted.
_RIDGE = 1e-6

# A column is derived from one with fewer values than this, each in about so many
# records or more.
_MAX_DERIVING_VALUES = 100
_MIN_RECORDS_PER_VALUE = 20


@dataclass(frozen=True, kw_only=True)
class Sum:
    """A column that is the sum of others.

    Attributes:
        total: The column.
        parts: The columns that add up to it: two, or several that stand side by side.
        fraction: Of the records with all these numbers, in which they do.

    Examples:
        >>> from noisegate.app.drafts.dependencies import Sum
        >>> print(Sum(total="energy", parts=("fat", "carbs")))
        energy = fat + carbs
    """

    total: str
    parts: tuple[str, ...]
    fraction: float = 1.0

    def __str__(self) -> str:
        return f"{self.total} = {' + '.join(self.parts)}"

    def broken(self, numbers: Mapping[str, Floats]) -> npt.NDArray[np.bool_]:
        """Returns which records break the sum, (records,).

        Args:
            numbers: Each column's numbers by its name, (records,), NaN where missing. A
                record that lacks one breaks nothing.
        """
        total = numbers[self.total]
        difference = np.abs(total - sum(numbers[part] for part in self.parts))
        return np.asarray(difference > _tolerance(total))


@dataclass(frozen=True, kw_only=True)
class Equality:
    """Two columns that are the same in nearly all records.

    Attributes:
        first: The column that stands first.
        second: The other one.
        fraction: Of the records with both, in which they are the same.
    """

    first: str
    second: str
    fraction: float

    @property
    def remark(self) -> str:
        """What a reader should do about it, as a comment in the draft."""
        return (
            f"{self.second} equals {self.first} in {_percentage(self.fraction)} of "
            "the records: put one of the two under `ignore` and copy it "
            "afterwards, or replace it by a column of their difference."
        )


def _percentage(fraction: float) -> str:
    """Writes a fraction so that only 1 is 100 %, since one exception is no rule."""
    return "100%" if fraction == 1 else f"{min(fraction, 0.999):.1%}"


def find_equalities(numbers: Mapping[str, Floats]) -> list[Equality]:
    """Finds the columns that are the same in nearly all records.

    Args:
        numbers: Each column's numbers by its name, (records,), NaN where missing.

    Returns:
        At most one equality for each column that stands later: that with the first of
        its equals. Both are other than 0 in at least `MIN_EXPECTED_EXCEPTIONS` records.
    """
    equalities: dict[str, Equality] = {}
    for first, second in combinations(numbers, 2):
        if second in equalities or first in equalities:
            continue
        columns = np.stack([numbers[first], numbers[second]])
        columns = columns[:, ~np.isnan(columns).any(axis=0)]
        nonzero_counts = np.count_nonzero(columns, axis=1)
        if (nonzero_counts < MIN_EXPECTED_EXCEPTIONS).any():
            continue
        fraction = _equal_fraction(columns[0], columns[1])
        # As for sums: two columns that mostly have one value are equal by chance.
        moved = np.roll(columns[0], columns.shape[1] // 3)
        fraction_by_chance = _equal_fraction(moved, columns[1])
        if (
            fraction >= _MIN_SUM_FRACTION
            and fraction_by_chance < _MAX_SUM_FRACTION_BY_CHANCE
        ):
            equalities[second] = Equality(first=first, second=second, fraction=fraction)
    return list(equalities.values())


def _equal_fraction(first: Floats, second: Floats) -> float:
    """Returns the fraction of records in which two columns are the same."""
    return float((np.abs(first - second) <= _tolerance(first)).mean())


def _tolerance(numbers: Floats) -> Floats:
    """Returns by how much sums may differ from numbers, of their shape."""
    return np.asarray(_TOLERANCE * np.maximum(1.0, np.abs(numbers)))


def find_sums(numbers: Mapping[str, Floats]) -> list[Sum]:
    """Finds the columns that are sums of others in nearly all records.

    Args:
        numbers: Each column's numbers by its name, (records,), NaN where missing.

    Returns:
        At most one sum for each total. All its columns are other than 0 in at least
        `MIN_EXPECTED_EXCEPTIONS` records.
    """
    names = list(numbers)
    if len(names) < 3:
        return []
    screened = np.stack([numbers[name][:_SCREENED_RECORDS] for name in names])
    tolerance = _tolerance(screened)
    complete_fraction = (~np.isnan(screened).any(axis=0)).mean()
    min_fraction = complete_fraction * _MIN_SUM_FRACTION - _SCREENING_MARGIN

    sums: dict[str, Sum] = {}
    for part_indices in _possible_parts(len(names)):
        part_sum = screened[list(part_indices)].sum(axis=0)
        fractions = (np.abs(screened - part_sum) <= tolerance).mean(axis=1)
        for index in np.flatnonzero(fractions > min_fraction):
            name = names[index]
            if index in part_indices or name in sums:
                continue
            parts = tuple(names[part_index] for part_index in part_indices)
            checked_sum = _checked_sum(numbers, name, parts)
            if checked_sum is not None:
                sums[name] = checked_sum
    return list(sums.values())


def _possible_parts(column_count: int) -> Iterator[Sequence[int]]:
    """Yields indices of columns that may add up: pairs, then runs of three or more."""
    runs = (
        range(start, stop)
        for start, stop in combinations(range(column_count + 1), 2)
        if stop - start > 2
    )
    return chain(combinations(range(column_count), 2), runs)


def _checked_sum(
    numbers: Mapping[str, Floats], total: str, parts: tuple[str, ...]
) -> Sum | None:
    """Returns a sum if it holds in nearly all records, and not by chance."""
    names = (total, *parts)
    columns = np.stack([numbers[name] for name in names])
    columns = columns[:, ~np.isnan(columns).any(axis=0)]
    nonzero_counts = np.count_nonzero(columns, axis=1)
    if (nonzero_counts < MIN_EXPECTED_EXCEPTIONS).any():
        return None

    rule = Sum(total=total, parts=parts)
    complete_numbers = dict(zip(names, columns, strict=True))
    fraction = 1 - float(rule.broken(complete_numbers).mean())
    # The totals of other records: a sum of constants would hold there too.
    moved_total = np.roll(columns[0], columns.shape[1] // 3)
    moved_numbers = {**complete_numbers, total: moved_total}
    fraction_by_chance = 1 - float(rule.broken(moved_numbers).mean())
    holds = fraction >= _MIN_SUM_FRACTION
    if not holds or fraction_by_chance >= _MAX_SUM_FRACTION_BY_CHANCE:
        return None
    # With parts that are nearly always 0, "total = part + 0" says no more than that the
    # total equals the part.
    equal_fraction = max(_equal_fraction(columns[0], part) for part in columns[1:])
    max_exceptions = (1 - _MIN_EXPLAINED_EXCEPTIONS) * (1 - equal_fraction)
    if equal_fraction >= _MIN_SUM_FRACTION and 1 - fraction >= max_exceptions:
        return None
    return Sum(total=total, parts=parts, fraction=fraction)


def tie_remarks(
    numbers: Mapping[str, Floats], explained: Sequence[set[str]]
) -> Iterator[str]:
    """Yields remarks on columns of which each nearly follows from the others.

    Sums and differences are looked for in the numbers; products and ratios in the
    logarithms of columns that are positive.

    Args:
        numbers: Each column's numbers by its name, (records,), NaN where missing.
        explained: Sets of columns that were remarked already; no subset of one is
            remarked again.
    """
    remarked = list(explained)
    logarithms = {
        name: np.log(column)
        for name, column in numbers.items()
        if not (column <= 0).any()
    }
    for relation, columns in (
        ("sum or difference", numbers),
        ("product or ratio", logarithms),
    ):
        for tied_names in _tied_columns(columns):
            if any(names.issuperset(tied_names) for names in remarked):
                continue
            remarked.append(set(tied_names))
            yield (
                f"{', '.join(tied_names)}: each can nearly be computed from the "
                f"others, as a {relation}; bins and noise blur the remainder. Put "
                "one under `ignore` and compute it afterwards, or replace it by a "
                "column of the difference, such as days for a second date."
            )


def _tied_columns(columns: Mapping[str, Floats]) -> Iterator[list[str]]:
    """Yields sets of columns of which each is nearly a linear combination of the rest.

    They are read off the inverse of the correlation matrix. Its row of a column is, but
    for a factor, that column's regression on all others, and one over its diagonal is
    the fraction of the variance that they leave.

    Args:
        columns: Numbers by name, (records,); of columns with more than half of their
            values.
    """
    names = [
        name for name, column in columns.items() if np.isfinite(column).mean() > 0.5
    ]
    if not names or len(names) > MAX_COLUMNS:
        return
    values = np.array([columns[name] for name in names])
    values = values[:, np.isfinite(values).all(axis=0)]
    record_count = values.shape[1]
    if record_count < MIN_RECORDS:
        return
    varies = _varies(values)
    names = [names[index] for index in np.flatnonzero(varies)]
    values = values[varies]
    values -= values.mean(axis=1, keepdims=True)
    values /= np.maximum(values.std(axis=1, keepdims=True), _TOLERANCE)
    correlations = values @ values.T / record_count + _RIDGE * np.eye(len(names))

    for coefficients in np.linalg.inv(correlations):
        is_tied = np.abs(coefficients) > _MIN_COEFFICIENT * coefficients.max()
        tied_indices = np.flatnonzero(is_tied)
        if not 1 < len(tied_indices) <= _MAX_TIED_COLUMNS:
            continue
        among_tied = correlations[np.ix_(tied_indices, tied_indices)]
        largest_residual = 1 / np.linalg.inv(among_tied).diagonal().min()
        if len(tied_indices) == 2:
            max_residual = _MAX_RESIDUAL_OF_TWO
        else:
            max_residual = _MAX_RESIDUAL_OF_MORE
        if largest_residual < max_residual:
            yield [names[index] for index in tied_indices]


def _varies(values: Floats) -> npt.NDArray[np.bool_]:
    """Returns which columns are not constant but for rounding, (columns,).

    Args:
        values: Numbers, (columns, records), at least one record.
    """
    magnitudes = np.maximum(np.abs(values).max(axis=1), 1.0)
    return np.asarray(np.ptp(values, axis=1) > _TOLERANCE * magnitudes)


def derivation_remarks(
    records: Rows, schema: Schema, constrained_pairs: Collection[frozenset[str]]
) -> list[str]:
    """Returns a remark for each pair of columns of which one follows from the other.

    Args:
        records: Encoded records.
        schema: Their schema.
        constrained_pairs: Pairs of columns with a constraint or a remark, of which
            nothing is remarked.
    """
    codes_by_name = _codes_of_few_values(records, schema)
    remarks = []
    for first, second in combinations(codes_by_name, 2):
        if frozenset((first, second)) in constrained_pairs:
            continue
        first_codes = codes_by_name[first]
        second_codes = codes_by_name[second]
        shape = int(first_codes.max()) + 1, int(second_codes.max()) + 1
        counts = contingency_table(first_codes, second_codes, shape=shape)
        derived_name = None
        if _follows(counts):
            source_name = first
            derived_name = second
        elif _follows(counts.T):
            source_name = second
            derived_name = first
        if derived_name is not None:
            remarks.append(
                f"{derived_name} follows from {source_name} in all {len(records):,} "
                "records: put it under `ignore`, and derive it afterwards."
            )
    return remarks


def _codes_of_few_values(records: Rows, schema: Schema) -> dict[str, Codes]:
    """Returns columns of few values, each value in enough records, as codes from 0 on.

    A column with one value that may be missing is left out: what it follows from is
    remarked as missing together.

    Args:
        records: Encoded records.
        schema: Their schema; of its numeric columns only those with steps count.

    Returns:
        Codes by name, (records,). A missing value is one of the values.
    """
    layout = schema.layout
    encoded: dict[str, npt.NDArray[np.int32] | Floats] = {}
    for index, coded_column in enumerate(layout.coded):
        codes = records.codes[:, index]
        stated_codes = codes[codes < len(coded_column.levels)]
        if len(np.unique(stated_codes)) > 1:
            encoded[coded_column.name] = codes
    for index, column in enumerate(layout.numeric):
        positions = records.numeric[:, index]
        stated_positions = positions[~np.isnan(positions)]
        if column.stepped and len(np.unique(stated_positions)) > 1:
            encoded[column.name] = positions

    codes_by_name: dict[str, Codes] = {}
    max_values = min(_MAX_DERIVING_VALUES, len(records) / _MIN_RECORDS_PER_VALUE)
    for name, values in encoded.items():
        _, value_codes = np.unique(values, return_inverse=True)
        if 0 < value_codes.max() < max_values:
            codes_by_name[name] = value_codes
    return codes_by_name


def _follows(counts: npt.NDArray[np.int64]) -> bool:
    """Returns whether the column of a table is given by its row, and not by chance.

    Args:
        counts: Number of records with each pair of values, (values, values).
    """
    is_given = (np.count_nonzero(counts, axis=1) == 1).all()
    # Records that do not have the most frequent value.
    other_records = counts.sum() - counts.sum(axis=0).max()
    return bool(is_given and other_records >= MIN_EXPECTED_EXCEPTIONS)


def contingency_table(
    row_codes: Codes, column_codes: Codes, *, shape: tuple[int, int]
) -> npt.NDArray[np.int64]:
    """Counts the records with each pair of codes.

    Args:
        row_codes: Codes of one column, from 0 on, (records,).
        column_codes: Codes of another one, (records,).
        shape: Number of codes of the first column, and of the other one.

    Returns:
        The counts, of that shape.

    Examples:
        >>> import numpy as np
        >>> from noisegate.app.drafts.dependencies import contingency_table
        >>> contingency_table(np.array([0, 1, 1]), np.array([0, 2, 2]), shape=(2, 3))
        array([[1, 0, 0],
               [0, 0, 2]])
    """
    rows, columns = shape
    pair_codes = row_codes * columns + column_codes
    return np.bincount(pair_codes, minlength=rows * columns).reshape(rows, columns)
