"""Rules that all records of a public sample keep to: constraints, and remarks.

A constraint is proposed only where enough records would break it, were the columns
independent of each other, and not one does. That it holds in a sample is no proof: the
reader of the draft decides.

* Comparisons of numbers, of dates, of timestamps: part <= whole, start <= end.
* Combinations of two columns' values that never occur, if they are few: a level, a
  truth value, missing or stated, and of numbers the smallest value against all others
  ("pregnancies" are 0 where sex is Male).

Columns that follow from others are only remarked: see `dependencies`. So is what is
missing together: no constraint is proposed on it, since records that break one are
drawn again, which shifts how often values are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.app.drafts.dependencies import (
    MIN_EXPECTED_EXCEPTIONS,
    MIN_RECORDS,
    Equality,
    Floats,
    Sum,
    contingency_table,
    derivation_remarks,
    find_equalities,
    find_sums,
    tie_remarks,
)
from noisegate.app.drafts.relations import (
    DraftedRelation,
    find_relations,
    is_explained,
    is_related,
)
from noisegate.records import Rows
from noisegate.schema import (
    Comparison,
    Constraint,
    Impossible,
    NumericColumn,
    Schema,
)
from noisegate.schema.constraints import decoded_numbers
from noisegate.schema.layout import is_outer_atom, numbers_of_ranks, ranks_of
from noisegate.schema.relations.relation import Relation

# Constraints are proposed while this fraction of records keeps to all of them, were
# their columns independent. It is estimated from so many records.
_MIN_ACCEPTANCE = 0.1
_ACCEPTANCE_RECORDS = 2**14

# A rule that fewer records would break, were the columns independent, says little.
_MIN_BREAK_FRACTION = 0.02

_MAX_CONSTRAINTS = 32

# Columns with more levels are left out. So are pairs of columns with more combinations
# that never occur: these are of another kind than an exception or two.
_MAX_LEVELS = 20
_MAX_IMPOSSIBLE = 3
# That a number is stated, or positive, for some levels alone may take more, each of one
# kind.
_MAX_IMPOSSIBLE_BY_LEVEL = 8

# Columns are missing together in as many records, at least.
_MIN_MISSING_TOGETHER = 10

# The smallest value is a region of its own if this fraction of records has it.
_MIN_SMALLEST_FRACTION = 0.02


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds in all records of a sample.

    Attributes:
        constraints: To be proposed.
        reasons: Why, one for each constraint.
        remarks: What else a reader may want to know, in sentences.
        sums: Those in the remarks, or among the relations.
        relations: Relations to be proposed, with their reasons.
    """

    constraints: tuple[Constraint, ...] = ()
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    sums: tuple[Sum, ...] = ()
    relations: tuple[DraftedRelation, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A constraint that holds in all records.

    Attributes:
        constraint: The constraint.
        reason: Why it may be proposed.
        break_fraction: The fraction of records that would break it, were the columns
            independent.
    """

    constraint: Constraint
    reason: str
    break_fraction: float


@dataclass(frozen=True)
class _Regions:
    """A column whose values are divided into a few regions.

    Attributes:
        name: Name of the column.
        codes: Index of the region of each record, (records,).
        values: Each region as `Impossible` writes it, such as "1.." for 1 and above.
        is_numeric: Whether the column holds numbers, dates or the like.
        can_be_missing: Whether the last region is that of missing values.
    """

    name: str
    codes: npt.NDArray[np.int64]
    values: tuple[Any, ...]
    is_numeric: bool
    can_be_missing: bool

    @cached_property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Which records lack a value, (records,)."""
        last_code = len(self.values) - 1
        return np.asarray((self.codes == last_code) & self.can_be_missing)

    @property
    def is_stated(self) -> npt.NDArray[np.bool_]:
        """Which records have a value; if all have, one that is not the smallest."""
        if self.can_be_missing:
            return ~self.is_missing
        return np.asarray(self.codes > 0)

    @property
    def stated_or_missing(self) -> _Regions:
        """A column of numbers, divided into those that are stated and missing ones."""
        return replace(
            self,
            codes=self.is_missing.astype(np.int64),
            values=("..", self.values[-1]),
        )


def find_rules(records: Rows, schema: Schema, *, with_relations: bool = False) -> Rules:
    """Finds the rules that all records of a public sample keep to.

    Args:
        records: Encoded records; fewer than `MIN_RECORDS` have no rules.
        schema: Their schema, with few columns, since all pairs are gone through.
        with_relations: Whether relations are proposed, and no constraints that they
            make superfluous.

    Returns:
        The constraints that are proposed, those that are broken least first, at most
        `_MAX_CONSTRAINTS`; and remarks on sums, ties and derived columns, on other
        constraints that hold, and on what the constraints cost.
    """
    if len(records) < MIN_RECORDS:
        return Rules()
    numbers = numbers_by_column(records, schema)
    scales = {column.name: column.scale for column in schema.layout.numeric}
    amounts = {
        name: column for name, column in numbers.items() if scales[name] == "numbers"
    }
    sums = find_sums(amounts)

    equalities = _equalities(numbers, scales, records, schema)

    candidates = _comparisons(numbers, scales)
    relations: list[DraftedRelation] = []
    if with_relations:
        comparisons = [
            candidate.constraint
            for candidate in candidates
            if isinstance(candidate.constraint, Comparison)
        ]
        relations = find_relations(records, schema, comparisons, sums)
    related = [drafted.relation for drafted in relations]
    stated_remarks: list[str] = []
    columns_in_regions = list(_columns_in_regions(records, schema))
    for first, second in combinations(columns_in_regions, 2):
        if is_related((first.name, second.name), related):
            continue
        combinations_of_pair = _impossible_combinations(first, second)
        candidates.extend(combinations_of_pair)
        if not combinations_of_pair:
            stated_remarks.extend(_stated_remarks(first, second))
    candidates = [
        candidate
        for candidate in candidates
        if not is_related(candidate.constraint.names, related)
    ]
    strongest_first = sorted(
        candidates, key=lambda candidate: -candidate.break_fraction
    )
    proposed, acceptance = _proposed(
        strongest_first[:_MAX_CONSTRAINTS], records, schema
    )

    remarks = [
        f"{column_sum} in {column_sum.fraction:.1%} of the records: put "
        f"{column_sum.total} under `ignore`, and add it up afterwards."
        for column_sum in sums
        if not is_explained((column_sum.total, *column_sum.parts), related)
    ]
    remarks.extend(
        equality.remark
        for equality in equalities
        if not is_explained((equality.first, equality.second), related)
    )
    explained = [{column_sum.total, *column_sum.parts} for column_sum in sums]
    explained += [{equality.first, equality.second} for equality in equalities]
    explained += [set(relation.names) for relation in related]
    remarks.extend(tie_remarks(numbers, explained))
    remarked_pairs = {frozenset(candidate.constraint.names) for candidate in candidates}
    remarked_pairs |= {frozenset(names) for names in explained if len(names) == 2}
    remarks.extend(derivation_remarks(records, schema, remarked_pairs))
    remarks.extend(_missing_remarks(columns_in_regions, related))
    remarks.extend(stated_remarks)
    remarks.extend(_constraint_remarks(candidates, proposed, acceptance))
    return Rules(
        constraints=tuple(candidate.constraint for candidate in proposed),
        reasons=tuple(candidate.reason for candidate in proposed),
        remarks=tuple(remarks),
        sums=tuple(sums),
        relations=tuple(relations),
    )


def _equalities(
    numbers: Mapping[str, Floats],
    scales: Mapping[str, str],
    records: Rows,
    schema: Schema,
) -> list[Equality]:
    """Finds equal columns among those of one scale, and of the same levels.

    Args:
        numbers: Each column's numbers by its name, (records,), NaN where missing.
        scales: Each column's scale.
        records: Encoded records.
        schema: Their schema.
    """
    comparable: dict[Any, dict[str, Floats]] = {}
    for name, column_numbers in numbers.items():
        comparable.setdefault(scales[name], {})[name] = column_numbers
    for index, column in enumerate(schema.layout.coded):
        codes = records.codes[:, index]
        is_missing = codes >= len(column.levels)
        # From 1 on, as numbers of which few are other than 0 show no equality.
        level_numbers = np.where(is_missing, np.nan, codes + 1.0)
        comparable.setdefault(tuple(column.levels), {})[column.name] = level_numbers
    return [
        equality
        for columns in comparable.values()
        for equality in find_equalities(columns)
    ]


def numbers_by_column(records: Rows, schema: Schema) -> dict[str, Floats]:
    """Decodes the numeric columns of records.

    Args:
        records: Encoded records.
        schema: Their schema.

    Returns:
        Numbers, days or microseconds of each column, by its name, (records,); NaN where
        a value is missing or an atom outside the bounds.
    """
    numbers = {}
    for index, column in enumerate(schema.layout.numeric):
        values, is_missing = decoded_numbers(records, schema.layout, index)
        is_amount = ~is_missing & ~is_outer_atom(column, values)
        numbers[column.name] = np.where(is_amount, values.astype(np.float64), np.nan)
    return numbers


def _constraint_remarks(
    candidates: Sequence[_Candidate], proposed: Sequence[_Candidate], acceptance: float
) -> list[str]:
    """Returns remarks on the constraints: which are left out, and what they cost."""
    remarks = []
    others = [
        str(candidate.constraint)
        for candidate in candidates
        if candidate not in proposed
    ]
    if others:
        remarks.append(
            "Not proposed, to keep those above few, but without an exception too: "
            f"{'; '.join(others[:_MAX_CONSTRAINTS])}."
        )
    if proposed:
        share = "nearly all"
        if acceptance < 0.995:
            share = f"{acceptance * 100:.0f} in 100"
        remarks.append(
            f"Were the columns independent of each other, {share} records would "
            "satisfy all constraints above. A fitted model has learnt the "
            "associations of the columns, so more of its records do; the others "
            "are drawn again."
        )
    return remarks


def _proposed(
    candidates: Sequence[_Candidate], records: Rows, schema: Schema
) -> tuple[list[_Candidate], float]:
    """Chooses constraints that sampling can keep to.

    Args:
        candidates: Constraints that hold in all records.
        records: Encoded records.
        schema: Their schema.

    Returns:
        The constraints, those that are broken least first, while enough records with
        independent columns keep to all of them; and the fraction of these that does.
    """
    independent = _with_independent_columns(records, _ACCEPTANCE_RECORDS)
    is_kept = np.ones(_ACCEPTANCE_RECORDS, dtype=np.bool_)
    proposed = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.break_fraction):
        is_broken = candidate.constraint.broken(
            independent, schema.layout, schema.missing_values
        )
        still_kept = is_kept & ~is_broken
        if still_kept.mean() >= _MIN_ACCEPTANCE:
            is_kept = still_kept
            proposed.append(candidate)
    return proposed, float(is_kept.mean())


def _with_independent_columns(records: Rows, count: int) -> Rows:
    """Draws records, each of whose values is that of another record of the sample."""
    numeric_count = records.numeric.shape[1]
    column_count = numeric_count + records.codes.shape[1]
    generator = np.random.default_rng(0)
    indices = generator.integers(0, len(records), (count, column_count))
    numeric = np.take_along_axis(records.numeric, indices[:, :numeric_count], axis=0)
    codes = np.take_along_axis(records.codes, indices[:, numeric_count:], axis=0)
    return Rows(numeric, codes)


# --- Comparisons. ---


def _comparisons(
    numbers: Mapping[str, Floats], scales: Mapping[str, str]
) -> list[_Candidate]:
    """Finds the comparisons of two columns that hold in all records.

    Args:
        numbers: Each column's numbers by its name, (records,), NaN where missing.
        scales: Each column's scale; only columns of one scale compare.

    Returns:
        The comparisons, without those that follow from others.
    """
    comparisons: dict[tuple[str, str], _Candidate] = {}
    for first, second in combinations(numbers, 2):
        if scales[first] != scales[second]:
            continue
        has_both = ~np.isnan(numbers[first]) & ~np.isnan(numbers[second])
        first_numbers = numbers[first][has_both]
        second_numbers = numbers[second][has_both]
        are_equal = (first_numbers == second_numbers).all()
        if len(first_numbers) < MIN_RECORDS or are_equal:
            continue
        if (first_numbers <= second_numbers).all():
            pair = (first, second)
            candidate = _comparison(*pair, first_numbers, second_numbers)
        elif (second_numbers <= first_numbers).all():
            pair = (second, first)
            candidate = _comparison(*pair, second_numbers, first_numbers)
        else:
            continue
        if candidate is not None:
            comparisons[pair] = candidate

    def is_implied(pair: tuple[str, str]) -> bool:
        lesser, greater = pair
        return any(
            start == lesser and (middle, greater) in comparisons
            for start, middle in comparisons
        )

    return [
        candidate for pair, candidate in comparisons.items() if not is_implied(pair)
    ]


def _comparison(
    lesser: str, greater: str, lesser_numbers: Floats, greater_numbers: Floats
) -> _Candidate | None:
    """Returns the comparison of two columns that are ordered in all records.

    Args:
        lesser: Name of the column whose number is never above the other.
        greater: Name of the other column.
        lesser_numbers: Its numbers in the records that have both, (records,).
        greater_numbers: Those of the other column, (records,).

    Returns:
        The comparison, strict if equal numbers would not be rare; None if too few
        records would break it, were the columns independent.
    """
    record_count = len(lesser_numbers)
    ascending = np.sort(greater_numbers)
    # Of all pairs of a number of each column, the fractions where the greater column's
    # is below the lesser column's, and where it is not above it.
    below_counts = np.searchsorted(ascending, lesser_numbers, side="left")
    not_above_counts = np.searchsorted(ascending, lesser_numbers, side="right")
    below = below_counts.mean() / record_count
    not_above = not_above_counts.mean() / record_count
    is_clear = below * record_count >= MIN_EXPECTED_EXCEPTIONS
    if below < _MIN_BREAK_FRACTION or not is_clear:
        return None

    equal_fraction = not_above - below
    is_strict = (lesser_numbers < greater_numbers).all() and (
        equal_fraction * record_count >= MIN_EXPECTED_EXCEPTIONS
    )
    break_fraction = float(not_above if is_strict else below)
    return _Candidate(
        Comparison(left=lesser, relation="<" if is_strict else "<=", right=greater),
        f"holds in all {record_count:,} records that have both; {break_fraction:.0%} "
        "would break it, were the two independent",
        break_fraction,
    )


# --- Combinations that never occur. ---


def _columns_in_regions(records: Rows, schema: Schema) -> Iterator[_Regions]:
    """Yields the columns whose values can be divided into a few regions.

    Args:
        records: Encoded records.
        schema: Their schema. Without text for missing values, columns that may be
            missing are left out.
    """
    layout = schema.layout
    missing_text = next(iter(schema.missing_values), None)
    for index, column in enumerate(layout.coded):
        lacks_text = column.missing and missing_text is None
        if column.size <= _MAX_LEVELS and not lacks_text:
            values = (*column.levels, missing_text)[: column.size]
            yield _Regions(
                name=column.name,
                codes=records.codes[:, index].astype(np.int64),
                values=values,
                is_numeric=False,
                can_be_missing=column.missing,
            )
    for index, number_column in enumerate(layout.numeric):
        numbers, is_missing = decoded_numbers(records, layout, index)
        regions = _smallest_and_others(
            number_column, numbers, is_missing, missing_text=missing_text
        )
        if regions is not None:
            yield regions
        elif number_column.missing and missing_text is not None:
            yield _Regions(
                name=number_column.name,
                codes=is_missing.astype(np.int64),
                values=("..", missing_text),
                is_numeric=True,
                can_be_missing=True,
            )


def _smallest_and_others(
    column: NumericColumn,
    numbers: npt.NDArray[Any],
    is_missing: npt.NDArray[np.bool_],
    *,
    missing_text: str | None,
) -> _Regions | None:
    """Divides a column of numbers into smallest value, others, and missing ones.

    Args:
        column: The column.
        numbers: Its numbers, arbitrary where missing, (records,).
        is_missing: Which values are missing, (records,).
        missing_text: Text that stands for a missing value, or None.

    Returns:
        The regions; None if too few records have the smallest value, or all of them, or
        if it is a sentinel.
    """
    if is_missing.all():
        return None
    smallest = numbers[~is_missing].min()
    is_smallest = ~is_missing & (numbers == smallest)
    is_other = ~is_missing & ~is_smallest
    smallest_numbers = numbers[is_smallest][:1]
    if (
        is_outer_atom(column, smallest_numbers).any()
        or is_smallest.mean() <= _MIN_SMALLEST_FRACTION
        or not is_other.any()
    ):
        return None
    next_number = _number_after(column, smallest_numbers, numbers[is_other].min())
    if next_number is None:
        return None
    values = (
        _file_value(column, smallest),
        f"{_file_value(column, next_number)}..",
        missing_text,
    )
    codes = np.where(is_missing, 2, np.where(is_smallest, 0, 1))
    return _Regions(
        name=column.name,
        codes=codes,
        values=values[: 2 + column.missing],
        is_numeric=True,
        can_be_missing=column.missing,
    )


def _number_after(
    column: NumericColumn, smallest: npt.NDArray[Any], next_in_sample: Any
) -> Any:
    """Returns where the region of all numbers above the smallest one begins.

    Args:
        column: The column.
        smallest: Its smallest number, (1,).
        next_in_sample: The second smallest number of the sample.

    Returns:
        Of a column with steps the next number. Of real numbers one far below that of
        the sample, if the smallest is an atom, and None if not: then it is no region.
    """
    if column.stepped:
        return numbers_of_ranks(column, ranks_of(column, smallest) + 1)[0]
    if smallest[0] not in column.atoms:
        return None
    magnitude = np.floor(np.log10(next_in_sample - smallest[0]))
    return np.float64(f"{smallest[0] + 10.0 ** (magnitude - 3):.12g}")


def _file_value(column: NumericColumn, number: Any) -> Any:
    """Returns a decoded number as schema files write it: times as ISO text."""
    value = column.value_of(number.item())
    return value.isoformat() if isinstance(value, date) else value


def _impossible_combinations(first: _Regions, second: _Regions) -> list[_Candidate]:
    """Finds the combinations of two columns' regions that never occur.

    Returns:
        The combinations that enough records would have, were the columns independent;
        none if there are more than `_MAX_IMPOSSIBLE`, or, where levels of one decide in
        which of two regions the other is, `_MAX_IMPOSSIBLE_BY_LEVEL`. Of two columns
        that are missing together those without missing values.
    """
    candidates = _never_together(first, second)
    if len(candidates) <= _MAX_IMPOSSIBLE:
        return candidates
    for levels, dependent in ((first, second), (second, first)):
        if dependent.is_numeric and _levels_decide(levels, dependent):
            if dependent.can_be_missing:
                candidates = _never_together(levels, dependent.stated_or_missing)
            if len(candidates) <= _MAX_IMPOSSIBLE_BY_LEVEL:
                return candidates
    return []


def _levels_decide(levels: _Regions, dependent: _Regions) -> bool:
    """Returns whether a column is stated for some levels of another one alone.

    Where it is always stated, whether it is above its smallest value.
    """
    if levels.is_numeric:
        return False
    is_stated = dependent.is_stated
    codes_if_stated = np.unique(levels.codes[is_stated])
    codes_if_not = np.unique(levels.codes[~is_stated])
    all_code_count = len(np.union1d(codes_if_stated, codes_if_not))
    return bool(0 < len(codes_if_stated) < all_code_count)


def _are_missing_together(first: _Regions, second: _Regions) -> bool:
    """Returns whether one of two columns is missing only where the other one is."""
    if not first.is_missing.any() or not second.is_missing.any():
        return False
    first_alone = (first.is_missing & ~second.is_missing).any()
    second_alone = (second.is_missing & ~first.is_missing).any()
    return not (first_alone and second_alone)


def _missing_remarks(
    columns: Sequence[_Regions], relations: Sequence[Relation]
) -> list[str]:
    """Returns remarks on columns that are missing in the same records, or within.

    Args:
        columns: The columns.
        relations: Those that are proposed, of which nothing is remarked.
    """
    columns_by_pattern: dict[bytes, list[_Regions]] = {}
    for column in columns:
        if column.is_missing.any():
            pattern = np.packbits(column.is_missing).tobytes()
            columns_by_pattern.setdefault(pattern, []).append(column)
    groups = list(columns_by_pattern.values())
    remarks = [
        _missing_remark(group)
        for group in groups
        if _shows_missing(group)
        and not is_related([column.name for column in group], relations)
    ]
    for inner, outer in permutations([group[0] for group in groups], 2):
        missing_alone = outer.is_missing & ~inner.is_missing
        inner_alone = inner.is_missing & ~outer.is_missing
        # So many would lack the inner column alone, were the two independent.
        expected_count = inner.is_missing.sum() * (~outer.is_missing).mean()
        is_within = missing_alone.any() and not inner_alone.any()
        are_related = is_related((inner.name, outer.name), relations)
        is_clear = expected_count >= MIN_EXPECTED_EXCEPTIONS
        if is_within and is_clear and not are_related:
            remarks.append(
                f"Not proposed: where {inner.name} is missing, {outer.name} is too."
            )
    return remarks[:_MAX_CONSTRAINTS]


def _shows_missing(group: Sequence[_Regions]) -> bool:
    """Returns whether columns are missing together, and not by chance."""
    missing_count = group[0].is_missing.sum()
    # So many would lack the first column alone, were the others independent of it.
    expected_count = missing_count * (~group[0].is_missing).mean()
    return len(group) > 1 and bool(expected_count >= _MIN_MISSING_TOGETHER)


def _missing_remark(group: Sequence[_Regions]) -> str:
    """Returns the remark on columns that are missing in the same records."""
    names = ", ".join(column.name for column in group)
    return (
        f"{names}: missing together, in {int(group[0].is_missing.sum()):,} of "
        f"{len(group[0].codes):,} records. No constraint is proposed on it: records "
        "that break one are drawn again, which would shift how often values are "
        "missing."
    )


def _stated_remarks(first: _Regions, second: _Regions) -> Iterator[str]:
    """Yields which levels decide whether a column is stated, if none is proposed."""
    for levels, dependent in ((first, second), (second, first)):
        is_not_binary = not dependent.is_numeric and not dependent.can_be_missing
        if (
            is_not_binary
            or not _levels_decide(levels, dependent)
            or _are_missing_together(levels, dependent)
        ):
            continue
        is_stated = dependent.is_stated
        counts = np.bincount(levels.codes, minlength=len(levels.values))
        stated_counts = np.bincount(
            levels.codes[is_stated], minlength=len(levels.values)
        )
        never_stated_count = counts[stated_counts == 0].sum()
        if never_stated_count * is_stated.mean() < MIN_EXPECTED_EXCEPTIONS:
            continue
        what = "stated"
        if not dependent.can_be_missing:
            what = f"other than {dependent.values[0]}"
        values = ", ".join(
            str(levels.values[code]) for code in np.flatnonzero(stated_counts)
        )
        yield (
            f"Not proposed: {dependent.name} is {what} only where {levels.name} is "
            f"{values}."
        )


def _never_together(first: _Regions, second: _Regions) -> list[_Candidate]:
    """Finds the combinations of two columns' regions that never occur, however many.

    Returns:
        The combinations that enough records would have, were the columns independent.
        Of two columns that are missing together those without missing values.
    """
    shape = (len(first.values), len(second.values))
    counts = contingency_table(first.codes, second.codes, shape=shape)
    record_count = int(counts.sum())
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / record_count
    never = np.argwhere((counts == 0) & (expected >= MIN_EXPECTED_EXCEPTIONS))
    are_missing_together = _are_missing_together(first, second)
    candidates = []
    for row, column in never.tolist():
        has_missing = (first.can_be_missing and row == shape[0] - 1) or (
            second.can_be_missing and column == shape[1] - 1
        )
        if has_missing and are_missing_together:
            continue
        values = {first.name: first.values[row], second.name: second.values[column]}
        expected_records = float(expected[row, column])
        reason = (
            f"never in {record_count:,} records; about {expected_records:,.0f} would, "
            "were the two independent"
        )
        candidates.append(
            _Candidate(
                Impossible(values=values), reason, expected_records / record_count
            )
        )
    return candidates
