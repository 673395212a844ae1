"""Relations that a public sample keeps to: columns that are computed, not measured.

A relation is proposed only where it holds in all records of the sample, or in all but
`MAX_EXCEPTIONS` of them with a remark, where it would not hold by chance, and where it
would shift no margin: a computed column must be missing where its sources are, and
nowhere else.

- Equal columns, and columns of levels that follow from another.
- Sums, differences of dates, products and ratios of whole powers.
- Parts that add up to one number, and truth values of which one is true.
- One column never below another, where the two go together.
- A value that only records of one level have; columns that are missing together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.app.drafts.dependencies import (
    MIN_EXPECTED_EXCEPTIONS,
    MIN_RECORDS,
    Floats,
    Sum,
)
from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema import Column, Comparison, Schema
from noisegate.schema.bounds import rounded_bounds
from noisegate.schema.relations.coordinates import Coordinates
from noisegate.schema.relations.expression import Expression, quoted
from noisegate.schema.relations.formula import Formula, Lookup
from noisegate.schema.relations.ordered import Ordered
from noisegate.schema.relations.parts import Parts
from noisegate.schema.relations.relation import Relation, Values
from noisegate.schema.relations.states import OneOf, OnlyIf, Together
from noisegate.schema.relations.values import values_of

MAX_RELATIONS = 10
"""More would be too many for a reader to check."""
MAX_EXCEPTIONS = 0.001
"""The part of the records that may break a relation which is proposed with a remark."""

# Two columns go together from this rank correlation on: without it, that one is never
# below the other says nothing about both.
_MIN_CORRELATION = 0.3
# A look-up has at most so many levels, each seen so often, or it was memorised.
_MAX_LOOKUP_LEVELS = 100
# In so many records a value must stand that only records of one level have.
_MIN_PRESENT_FRACTION = 0.5
# In so large a part of the first records a formula must hold, before all are compared.
_MIN_EQUAL_SHARE = 0.99
_MAX_PARTS = 12
_MAX_FORMULA_COLUMNS = 20
# So many records are examined before a formula is tried on all.
_SCREENED = 512
_MAX_OFF_POWER_OF_TEN = 0.02
_EXPONENTS = (-2, -1, 1, 2)
_SECONDS_PER_UNIT = {"": 1, " / 60": 60, " / 3600": 3_600, " / 86400": 86_400}


@dataclass(frozen=True, kw_only=True)
class DraftedRelation:
    """A relation that is proposed.

    Attributes:
        relation: The relation.
        reason: Why it is proposed.
    """

    relation: Relation
    reason: str


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """The records of a sample, as relations see them.

    Attributes:
        schema: Their schema, without relations.
        values: Their values, by column.
        columns: The columns, by name.
    """

    schema: Schema
    values: Values
    columns: Mapping[str, Column]

    @property
    def record_count(self) -> int:
        """Number of records."""
        return len(next(iter(self.values.values())).is_missing)

    def numbers(self, name: str) -> Floats:
        """Returns the numbers of a column, NaN where missing, (records,)."""
        own = self.values[name]
        return np.where(own.is_missing, np.nan, own.numbers.astype(np.float64))

    def number_names(self, scale: str | None = None) -> list[str]:
        """Returns the columns of numbers without atoms outside, of one scale or any."""
        return [
            column.name
            for column in self.schema.layout.numeric
            if not any(column.outer_atoms) and scale in (None, column.scale)
        ]

    def level_indices(self, name: str, levels: Sequence[Any]) -> Floats:
        """Returns where a column's levels stand among others, NaN where missing.

        Args:
            name: The column.
            levels: Levels, with all of its own.

        Returns:
            Indices, (records,).
        """
        own = self.values[name]
        column: Any = self.columns[name]
        index_of_code = [levels.index(level) for level in column.levels]
        # A missing value has the code behind the last level.
        indices = np.array([*index_of_code, 0], dtype=np.float64)[own.numbers]
        return np.where(own.is_missing, np.nan, indices)

    def level_names(self) -> list[str]:
        """Returns the columns of levels."""
        return [column.name for column in self.schema.layout.coded]


def find_relations(
    records: Rows,
    schema: Schema,
    comparisons: Sequence[Comparison],
    sums: Sequence[Sum],
) -> list[DraftedRelation]:
    """Finds the relations that the records of a public sample keep to.

    Args:
        records: Encoded records; fewer than `MIN_RECORDS` show none.
        schema: Their schema, without relations.
        comparisons: Those that hold in all records.
        sums: Those that hold in nearly all.

    Returns:
        At most `MAX_RELATIONS`, of which no two compute one column.
    """
    if len(records) < MIN_RECORDS:
        return []
    sample = _Sample(
        schema=schema,
        values=values_of(records, schema.layout),
        columns={column.name: column for column in schema.columns},
    )
    chosen: list[DraftedRelation] = []
    for relation, reason in _candidates(sample, comparisons, sums):
        if len(chosen) == MAX_RELATIONS:
            break
        if not _fits(relation, [drafted.relation for drafted in chosen], schema):
            continue
        broken_fraction = _broken_fraction(sample, relation)
        if broken_fraction > MAX_EXCEPTIONS:
            continue
        holds = f"holds in all {len(records):,} records"
        if broken_fraction:
            holds = (
                f"holds in {1 - broken_fraction:.2%} of {len(records):,} records; "
                "the others are moved to the nearest values that satisfy it"
            )
        chosen.append(
            DraftedRelation(
                relation=relation, reason="; ".join(filter(None, (holds, reason)))
            )
        )
    return chosen


def _fits(relation: Relation, others: Sequence[Relation], schema: Schema) -> bool:
    """Returns whether a relation goes with others, and leaves the label measured."""
    if schema.label in relation.computed:
        return False
    computed = {name for other in others for name in other.computed}
    if computed & set(relation.computed):
        return False
    try:
        Coordinates(tuple(schema.columns), (*others, relation))
    except SchemaError:
        return False
    return True


def _broken_fraction(sample: _Sample, relation: Relation) -> float:
    """Returns the part of the records that do not come back as they were."""
    measured = {
        **sample.values,
        **relation.measure(sample.values, sample.columns),
    }
    restored = relation.restore(measured, sample.columns)
    is_broken = np.zeros(sample.record_count, dtype=np.bool_)
    for name, computed in restored.items():
        own = sample.values[name]
        is_broken |= own.is_missing != computed.is_missing
        is_other = ~np.isclose(
            own.numbers.astype(np.float64),
            computed.numbers.astype(np.float64),
            rtol=1e-9,
            atol=1e-9,
        )
        is_broken |= ~own.is_missing & ~computed.is_missing & is_other
    return float(is_broken.mean())


def _candidates(
    sample: _Sample, comparisons: Sequence[Comparison], sums: Sequence[Sum]
) -> Iterator[tuple[Relation, str]]:
    """Yields relations that may hold, the most telling first.

    Each comes with what a reader should know besides; "" for nothing.
    """
    yield from _equal_columns(sample)
    for column_sum in sums:
        parts = " + ".join(quoted(part) for part in column_sum.parts)
        relation = Formula(name=column_sum.total, expression=Expression(parts))
        yield relation, ""
    yield from _differences_of_times(sample)
    yield from _powers(sample)
    yield from _parts_of_a_whole(sample)
    yield from _one_of_several(sample)
    yield from _lookups(sample)
    for comparison in comparisons:
        ordered = _ordered(sample, comparison)
        if ordered is not None:
            is_measured = ordered.measures_difference(sample.columns)
            yield ordered, "the difference is measured" if is_measured else ""
    yield from _only_if(sample)
    yield from _missing_together(sample)


# --- Columns that follow from others. ---


def _equal_columns(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields pairs of columns that are equal in nearly all records."""
    for first, second in combinations(sample.number_names(), 2):
        own, other = sample.columns[first], sample.columns[second]
        same_scale = own.scale == other.scale  # type: ignore[union-attr]
        if same_scale and _are_equal(sample.numbers(first), sample.numbers(second)):
            yield (
                Formula(name=second, expression=Expression(quoted(first))),
                "",
            )
    for first, second in combinations(sample.level_names(), 2):
        own, other = sample.columns[first], sample.columns[second]
        same_levels = set(own.levels) <= set(other.levels)  # type: ignore[union-attr]
        if own.kind != other.kind or not same_levels:
            continue
        indices = sample.level_indices(first, other.levels)  # type: ignore[union-attr]
        other_indices = sample.level_indices(second, other.levels)  # type: ignore[union-attr]
        if _are_equal(indices, other_indices):
            yield Lookup(name=second, source=first), ""


def _are_equal(first: Floats, second: Floats) -> bool:
    """Returns whether two columns are equal in nearly all records, and not by chance.

    If they were independent, they would differ in at least `MIN_EXPECTED_EXCEPTIONS`
    records. So two columns that both hardly ever say anything else than 0 are not
    called equal.
    """
    is_equal = (first == second) | (np.isnan(first) & np.isnan(second))
    if is_equal.mean() < 1 - MAX_EXCEPTIONS:
        return False
    _, indices = np.unique(np.concatenate([first, second]), return_inverse=True)
    size = indices.max() + 1
    own_fractions, other_fractions = (
        np.bincount(part, minlength=size) / len(part) for part in np.split(indices, 2)
    )
    fraction_by_chance = own_fractions @ other_fractions
    expected_exceptions = len(first) * (1 - fraction_by_chance)
    return bool(expected_exceptions >= MIN_EXPECTED_EXCEPTIONS)


def _differences_of_times(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields numbers that are the time between two dates, or points in time."""
    temporal = [
        name
        for name in sample.number_names()
        if sample.columns[name].is_temporal  # type: ignore[union-attr]
    ]
    for later, earlier in permutations(temporal, 2):
        if sample.columns[later].scale != sample.columns[earlier].scale:  # type: ignore[union-attr]
            continue
        difference = f"{quoted(later)} - {quoted(earlier)}"
        is_date = sample.columns[later].kind == "date"
        for name in sample.number_names("numbers"):
            for unit in [""] if is_date else _SECONDS_PER_UNIT:
                text = difference if not unit else f"({difference}){unit}"
                formula = Formula(name=name, expression=Expression(text))
                if _may_hold(sample, formula):
                    yield formula, ""


def _may_hold(sample: _Sample, formula: Formula) -> bool:
    """Returns whether a formula holds in the first records that have all columns.

    It spares the full comparison of formulas that are clearly wrong.
    """
    names = formula.names
    is_complete = np.ones(sample.record_count, dtype=np.bool_)
    for name in names:
        is_complete &= ~sample.values[name].is_missing
    rows = np.flatnonzero(is_complete)[:MIN_RECORDS]
    if len(rows) < MIN_RECORDS:
        return False
    compared_values = {
        name: type(sample.values[name])(
            numbers=sample.values[name].numbers[rows],
            is_missing=sample.values[name].is_missing[rows],
        )
        for name in names
    }
    computed = formula.restore(compared_values, sample.columns)[formula.name]
    stated_numbers = compared_values[formula.name].numbers.astype(np.float64)
    is_equal = np.isclose(stated_numbers, computed.numbers.astype(np.float64))
    return bool(is_equal.mean() > _MIN_EQUAL_SHARE)


def _powers(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields numbers that are a product or ratio of powers of two others.

    The factor in front is a power of ten, as units have: `bmi = weight / (height / 100)
    ** 2` is 10⁴ times weight over height squared.
    """
    positive = [
        name
        for name in sample.number_names("numbers")
        if not (sample.numbers(name) <= 0).any()
    ]
    if not 3 <= len(positive) <= _MAX_FORMULA_COLUMNS:
        return
    logarithms = np.log10([sample.numbers(name)[:_SCREENED] for name in positive])
    for first, second in combinations(range(len(positive)), 2):
        for powers in product(_EXPONENTS, repeat=2):
            if max(powers) < 0:
                continue
            exponent = powers[0] * logarithms[first] + powers[1] * logarithms[second]
            scales = _median_of_present(logarithms - exponent)
            # A formula is off by rounding alone, which is far less than this.
            is_near = np.abs(scales - np.rint(scales)) < _MAX_OFF_POWER_OF_TEN
            for index in np.flatnonzero(is_near).tolist():
                if index in (first, second):
                    continue
                text = _power_text(
                    round(scales[index]),
                    {positive[first]: powers[0], positive[second]: powers[1]},
                )
                formula = Formula(name=positive[index], expression=Expression(text))
                if _may_hold(sample, formula):
                    yield formula, "rounded as the column is"


def _median_of_present(values: Floats) -> Floats:
    """Returns the median of each row, without NaN; NaN for a row of nothing else."""
    return np.array(
        [
            np.median(row[~np.isnan(row)]) if not np.isnan(row).all() else np.nan
            for row in values
        ]
    )


def _power_text(scale: int, powers: Mapping[str, int]) -> str:
    """Returns the formula of a product of powers, such as `10000 * a / b ** 2`."""
    factors = [
        quoted(name) + (f" ** {power}" if power > 1 else "")
        for name, power in powers.items()
        if power > 0
    ]
    divisors = [
        quoted(name) + (f" ** {-power}" if power < -1 else "")
        for name, power in powers.items()
        if power < 0
    ]
    if scale > 0:
        factors.insert(0, str(10**scale))
    if scale < 0:
        divisors.append(str(10**-scale))
    text = " * ".join(factors)
    return "".join([text, *(f" / {divisor}" for divisor in divisors)])


def _lookups(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields columns of levels that follow from another column of levels."""
    for source, name in permutations(sample.level_names(), 2):
        source_column: Any = sample.columns[source]
        column: Any = sample.columns[name]
        is_coarser = 1 < len(column.levels) < len(source_column.levels)
        if not is_coarser or len(source_column.levels) > _MAX_LOOKUP_LEVELS:
            continue
        own, other = sample.values[source], sample.values[name]
        has_both = ~own.is_missing & ~other.is_missing
        counts = np.zeros((len(source_column.levels), len(column.levels)), dtype=int)
        np.add.at(counts, (own.numbers[has_both], other.numbers[has_both]), 1)
        least = max(counts.sum(axis=1).min(), 0)
        is_given = (counts.max(axis=1) == counts.sum(axis=1)).all()
        others_count = counts.sum() - counts.sum(axis=0).max()
        if least < 2 or not is_given or others_count < MIN_EXPECTED_EXCEPTIONS:
            continue
        levels = {
            _key(level): column.levels[int(counts[code].argmax())]
            for code, level in enumerate(source_column.levels)
        }
        yield (
            Lookup(name=name, source=source, levels=levels),
            f"each level of {source} determines that of {name}",
        )


def _key(level: Any) -> str:
    """Returns a level as a key of a schema file."""
    return str(level).lower() if isinstance(level, bool) else str(level)


# --- Parts. ---


def _parts_of_a_whole(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields columns side by side, longest runs first, that add up to one number."""
    names = sample.number_names("numbers")
    file_order = [name for name in sample.schema.names if name in names]
    for length in range(min(_MAX_PARTS, len(file_order)), 1, -1):
        for start in range(len(file_order) - length + 1):
            parts = tuple(file_order[start : start + length])
            total = np.sum([sample.numbers(name) for name in parts], axis=0)
            whole = np.nanmedian(total)
            varies = all(np.nanstd(sample.numbers(name)) > 0 for name in parts)
            is_whole = np.isclose(total, whole) | np.isnan(total)
            if not varies or whole <= 0 or is_whole.mean() < 1 - MAX_EXCEPTIONS:
                continue
            yield (
                Parts(whole=float(f"{whole:.9g}"), parts=parts),
                "",
            )


def _one_of_several(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields truth values side by side, longest runs first, of which one is true."""
    names = [
        name
        for name in sample.schema.names
        if not sample.columns[name].numeric and OneOf.takes(sample.columns[name])
    ]
    for length in range(min(_MAX_PARTS, len(names)), 2, -1):
        for start in range(len(names) - length + 1):
            run = tuple(names[start : start + length])
            true_count = np.sum(
                [
                    ~sample.values[name].is_missing & (sample.values[name].numbers == 1)
                    for name in run
                ],
                axis=0,
            )
            all_occur = all((sample.values[name].numbers == 1).any() for name in run)
            if all_occur and (true_count == 1).mean() >= 1 - MAX_EXCEPTIONS:
                yield OneOf(columns=run), "exactly one is true"


# --- One column never below another. ---


def _ordered(sample: _Sample, comparison: Comparison) -> Ordered | None:
    """Returns the relation of a comparison; None if the two do not go together."""
    lower_name, upper_name = comparison.left, comparison.right
    if comparison.relation in (">", ">="):
        lower_name, upper_name = upper_name, lower_name
    lower, upper = sample.numbers(lower_name), sample.numbers(upper_name)
    has_both = ~np.isnan(lower) & ~np.isnan(upper)
    gaps = upper[has_both] - lower[has_both]
    is_constant = not len(gaps) or gaps.min() == gaps.max()
    if is_constant or _rank_correlation(lower[has_both], upper[has_both]) < (
        _MIN_CORRELATION
    ):
        return None
    strict = comparison.relation in ("<", ">")
    for is_strict in dict.fromkeys([strict, False]):
        unbounded = Ordered(
            upper_name=upper_name, lower_name=lower_name, strict=is_strict
        )
        try:
            unbounded.check(sample.columns)
        except SchemaError:
            continue
        if not unbounded.measures_difference(sample.columns):
            return unbounded
        largest = _largest_gap(sample, unbounded)
        return Ordered(
            upper_name=upper_name,
            lower_name=lower_name,
            strict=is_strict,
            largest=largest,
        )
    return None


def _largest_gap(sample: _Sample, relation: Ordered) -> float | None:
    """Returns a bound on the difference that a reader would choose, from the sample.

    It is None where the bounds of the columns allow no more.
    """
    measured = relation.measure(sample.values, sample.columns)
    gaps = measured[relation.difference_name]
    largest = float(gaps.numbers[~gaps.is_missing].max())
    (coordinate,) = relation.coordinates(sample.columns)
    allowed = float(coordinate.to_number(coordinate.upper))  # type: ignore[union-attr]
    is_whole = float(largest).is_integer()
    _, bound = rounded_bounds(0.0, largest, parts=5, smallest=1.0 if is_whole else 0.0)
    if bound >= allowed:
        return None
    return int(bound) if float(bound).is_integer() else bound


def _rank_correlation(first: Floats, second: Floats) -> float:
    """Returns Spearman's correlation of two columns."""
    ranks = [
        np.argsort(np.argsort(column, kind="stable")) for column in (first, second)
    ]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


# --- Missing values. ---


def _only_if(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields columns that have values in records of one level alone."""
    for name, column in sample.columns.items():
        is_present = ~sample.values[name].is_missing
        if not column.missing or is_present.sum() < MIN_EXPECTED_EXCEPTIONS:
            continue
        for source in sample.level_names():
            if source == name:
                continue
            source_column: Any = sample.columns[source]
            codes = np.where(
                sample.values[source].is_missing, -1, sample.values[source].numbers
            )
            for code, level in enumerate(source_column.levels):
                has_level = codes == code
                expected_elsewhere = is_present.mean() * (~has_level).sum()
                if (
                    (is_present & ~has_level).any()
                    or expected_elsewhere < MIN_EXPECTED_EXCEPTIONS
                    or is_present[has_level].mean() < _MIN_PRESENT_FRACTION
                ):
                    continue
                always = bool(is_present[has_level].all())
                yield (
                    OnlyIf(column=name, condition={source: level}, always=always),
                    "the column has values only there",
                )


def _missing_together(sample: _Sample) -> Iterator[tuple[Relation, str]]:
    """Yields groups of columns that are missing in the same records."""
    groups: dict[bytes, list[str]] = {}
    for name, column in sample.columns.items():
        is_missing: npt.NDArray[np.bool_] = sample.values[name].is_missing
        if column.missing and is_missing.sum() >= MIN_EXPECTED_EXCEPTIONS:
            groups.setdefault(np.packbits(is_missing).tobytes(), []).append(name)
    for names in groups.values():
        if len(names) > 1:
            yield Together(columns=tuple(names)), ""


def is_explained(names: Iterable[str], relations: Sequence[Relation]) -> bool:
    """Returns whether a relation that is no mere order names all of some columns.

    That one column is never below another leaves open that it nearly equals it.
    """
    others = [relation for relation in relations if not isinstance(relation, Ordered)]
    return is_related(names, others)


def is_related(names: Iterable[str], relations: Sequence[Relation]) -> bool:
    """Returns whether one relation names all of some columns.

    A constraint on them is then superfluous, and so is a remark.
    """
    related_names = set(names)
    return any(related_names <= set(relation.names) for relation in relations)
