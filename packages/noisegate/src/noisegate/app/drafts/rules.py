"""Rules that all records of a public sample keep to: what a draft proposes as constraints, and what it remarks.

Only where at least `LEAST` records would break one, were the columns independent, and none does (chance below 10⁻¹³).

A constraint is proposed only where at least `LEAST` records would break it, were the
columns independent of each other, and not one does (a chance below 10⁻¹³). That it
holds in a sample is no proof: the reader of the draft decides.

* Comparisons of numbers, of dates, of moments: part <= whole, start <= end.
* Combinations of two columns' values that never occur, where at most `_MOST_GAPS` do
  not: a level, a truth value, missing or given, and in columns of steps the least value
  against all others ("pregnancies" are 0 where sex is Male).
* Columns that follow from others, sums among them, make no constraint, since sampling
  could hardly keep to one: they are remarked.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.records import Rows
from noisegate.schema import (
    Comparison,
    Constraint,
    Continuous,
    Date,
    Datetime,
    Impossible,
    Schema,
)
from noisegate.schema.constraints import decoded_numbers
from noisegate.schema.layout import is_outer_atom, numbers_of_ranks, ranks_of

Floats = npt.NDArray[np.float64]

NEARLY_ALL = 0.97  # a sum is one where it holds in this part of the records that have all its columns

_FEW, _CLOSE, _RIDGE = 512, 1e-9, 1e-6
# Numbers are tied where others leave less of the variance of each: of two columns, and of more. Coefficients from this
# part of the largest on say which; of so many columns at most.
_LEFT, _LEFT_OF_MORE, _PART, _MOST_TIED = 0.01, 0.001, 0.1, 5


@dataclass(frozen=True, kw_only=True)
class Sum:
    """A column and the two that add up to it, or several neighbours; and in which part of the records they do."""

    whole: str
    parts: tuple[str, ...]
    share: float = 1.0

    def __str__(self) -> str:
        return f"{self.whole} = {' + '.join(self.parts)}"

    def broken(self, numbers: Mapping[str, Floats]) -> npt.NDArray[np.bool_]:
        """Returns which records have all the numbers, NaN where one is missing, and break it, (rows,)."""
        apart = np.abs(numbers[self.whole] - sum(numbers[part] for part in self.parts))
        return np.asarray(apart > _CLOSE * np.maximum(1.0, np.abs(numbers[self.whole])))


def find_sums(numbers: Mapping[str, Floats], least: int) -> list[Sum]:
    """Returns the sums that nearly all records keep to, each part other than 0 in `least` of them or more."""
    names, found = list(numbers), dict[str, Sum]()
    if len(names) < 3:
        return []
    few = np.stack([numbers[name][:_FEW] for name in names])
    runs = (
        range(start, stop)
        for start, stop in combinations(range(len(names) + 1), 2)
        if stop - start > 2
    )
    for places in chain(combinations(range(len(names)), 2), runs):
        close = np.abs(few - few[list(places)].sum(axis=0)) <= _CLOSE * np.maximum(
            1.0, np.abs(few)
        )
        known = ~np.isnan(few).any(axis=0)
        for place in np.flatnonzero(
            close.mean(axis=1) > known.mean() * NEARLY_ALL - 0.1
        ):
            if place not in places and names[place] not in found:
                one = _checked(
                    numbers, names[place], tuple(names[part] for part in places), least
                )
                found |= {} if one is None else {names[place]: one}
    return list(found.values())


def _checked(
    numbers: Mapping[str, Floats], whole: str, parts: tuple[str, ...], least: int
) -> Sum | None:
    columns = np.stack([numbers[name] for name in (whole, *parts)])
    columns = columns[:, ~np.isnan(columns).any(axis=0)]
    if (np.count_nonzero(columns, axis=1) < least).any():
        return None
    rule, known = (
        Sum(whole=whole, parts=parts),
        dict(zip((whole, *parts), columns, strict=True)),
    )
    share = 1 - float(rule.broken(known).mean())
    chance = 1 - float(
        rule.broken({**known, whole: np.roll(columns[0], len(columns[0]) // 3)}).mean()
    )
    return (
        Sum(whole=whole, parts=parts, share=share)
        if share >= NEARLY_ALL and chance < 0.5
        else None
    )


LEAST = 30  # so many records at least would break a constraint that is proposed, were columns independent

LEAST_ACCEPTANCE = 0.1
"""Constraints are proposed while this part of records whose columns are independent keeps to all of them."""

MOST_COLUMNS = 60  # columns at most whose pairs are gone through

_LEAST_ROWS, _LEAST_SHARE = 200, 0.02
_MOST_LEVELS, _MOST_GAPS, _MOST_RULES = 20, 3, 32
# A column is said to follow from one of fewer levels than this, each of about so many records or more.
_MOST_DERIVED, _PER_LEVEL = 100, 20
_DRAWN = 2**14


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds in all records of a sample."""

    constraints: tuple[Constraint, ...] = ()  # to be proposed
    reasons: tuple[str, ...] = ()  # why, one for each
    remarks: tuple[str, ...] = ()  # what else a reader may want to know, in sentences
    sums: tuple[
        Sum, ...
    ] = ()  # told by the remarks: sampling could hardly keep to them


@dataclass(frozen=True)
class _Found:
    constraint: Constraint
    reason: str
    breaks: float
    """The share of records that would break it, were columns independent."""


@dataclass(frozen=True)
class _Codes:
    """A column as a few values, each as `Impossible` writes it."""

    name: str
    codes: npt.NDArray[np.int64]
    values: tuple[Any, ...]


def find_rules(records: Rows, schema: Schema) -> Rules:
    """Returns the rules that all records of a public sample of a table keep to; none where there are few records."""
    if len(records) < _LEAST_ROWS:
        return Rules()
    numbers = numbers_of(records, schema)
    found = _comparisons(numbers, schema)
    sums = find_sums(
        {
            name: cells
            for name, cells in numbers.items()
            if _sort(schema, name)[0] is float
        },
        LEAST,
    )
    remarks = [
        f"{one} in {one.share:.1%} of the records: put {one.whole} under `ignore`, and add it up afterwards."
        for one in sums
    ]
    remarks += _tied(numbers, [{one.whole, *one.parts} for one in sums])
    for first, second in combinations(_few_values(records, schema), 2):
        found += _gaps(first, second)
    remarks += _derived(
        records, schema, {frozenset(one.constraint.names) for one in found}
    )
    kept, share = _acceptable(
        sorted(found, key=lambda one: -one.breaks)[:_MOST_RULES], records, schema
    )
    left = [str(one.constraint) for one in found if one not in kept][:_MOST_RULES]
    if left:
        remarks.append(
            f"Not proposed, to keep those above few, but without an exception too: {'; '.join(left)}."
        )
    if kept:
        remarks.append(
            "Were the columns independent of each other, "
            f"{f'{share * 100:.0f} in 100' if share < 0.995 else 'nearly all'} records would keep to all constraints "
            "above. A fitted model knows how columns go together and draws more such records; others are drawn again."
        )
    reasons = tuple(one.reason for one in kept)
    constraints = tuple(one.constraint for one in kept)
    return Rules(
        constraints=constraints,
        reasons=reasons,
        remarks=tuple(remarks),
        sums=tuple(sums),
    )


def numbers_of(records: Rows, schema: Schema) -> dict[str, npt.NDArray[np.float64]]:
    """Returns the numbers, days or microseconds of each numeric column, (rows,); NaN where missing or a sentinel."""
    numbers = {}
    for place, column in enumerate(schema.layout.numeric):
        found, missing = decoded_numbers(records, schema.layout, place)
        numbers[column.name] = np.where(
            missing | is_outer_atom(column, found), np.nan, found.astype(np.float64)
        )
    return numbers


def _sort(schema: Schema, name: str) -> tuple[type, bool]:
    column = schema.column(name)
    return type(column) if isinstance(column, Date | Datetime) else float, getattr(
        column, "aware", False
    )


def _comparisons(
    numbers: Mapping[str, npt.NDArray[np.float64]], schema: Schema
) -> list[_Found]:
    """Returns the comparisons that hold in all records, without those that follow from others."""
    holds: dict[tuple[str, str], _Found] = {}
    for one, other in combinations(numbers, 2):
        if _sort(schema, one) != _sort(schema, other):
            continue
        both = ~np.isnan(numbers[one]) & ~np.isnan(numbers[other])
        left, right = numbers[one][both], numbers[other][both]
        if len(left) < _LEAST_ROWS or (left == right).all():
            continue
        if (left <= right).all():
            holds |= _compared(one, other, left, right)
        elif (right <= left).all():
            holds |= _compared(other, one, right, left)
    between = {
        (low, high): {
            mid for first, mid in holds if first == low and (mid, high) in holds
        }
        for low, high in holds
    }
    return [found for pair, found in holds.items() if not between[pair]]


def _tied(numbers: Mapping[str, Floats], told: Sequence[set[str]]) -> Iterator[str]:
    """Yields remarks on numbers that nearly follow from each other, beside what is ``told``, as a sum or a product."""
    seen = list(told)
    positive = {
        name: np.log(each) for name, each in numbers.items() if not (each <= 0).any()
    }
    for kind, cells in (("sum or difference", numbers), ("product or ratio", positive)):
        names = [name for name, each in cells.items() if np.isfinite(each).mean() > 0.5]
        rows = np.array([cells[name] for name in names]).reshape(
            len(names), -1 if names else 0
        )
        rows = rows[:, np.isfinite(rows).all(axis=0)]
        if rows.shape[1] < _LEAST_ROWS or len(names) > MOST_COLUMNS:
            continue
        rows -= rows.mean(axis=1, keepdims=True)
        rows /= np.maximum(rows.std(axis=1, keepdims=True), _CLOSE)
        every = rows @ rows.T / rows.shape[1] + _RIDGE * np.eye(len(names))
        for row in np.linalg.inv(every):
            near = np.flatnonzero(np.abs(row) > _PART * row.max())
            left, tied = (
                1 / np.linalg.inv(every[np.ix_(near, near)]).diagonal().min(),
                [names[j] for j in near],
            )
            most = _LEFT if len(tied) == 2 else _LEFT_OF_MORE
            if (
                1 < len(tied) <= _MOST_TIED
                and left < most
                and not any(one.issuperset(tied) for one in seen)
            ):
                seen.append(set(tied))
                yield (
                    f"{', '.join(tied)}: each nearly follows from the rest, as a {kind}; cells and noise hide what is "
                    "left. Put one under `ignore` and compute it afterwards, or in its place a column of what sets "
                    "them apart, such as days for a second date."
                )


def _compared(
    lesser: str,
    greater: str,
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
) -> dict[tuple[str, str], _Found]:
    ordered, rows = np.sort(high), len(low)
    below, up_to = (
        np.searchsorted(ordered, low, side=side).mean() / rows
        for side in ("left", "right")
    )
    if below < _LEAST_SHARE or below * rows < LEAST:
        return {}
    strict = (low < high).all() and (up_to - below) * rows >= LEAST
    rule = Comparison(left=lesser, relation="<" if strict else "<=", right=greater)
    breaks = float(up_to if strict else below)
    reason = f"holds in all {rows:,} records that have both; {breaks:.0%} would break it, were the two independent"
    return {(lesser, greater): _Found(rule, reason, breaks)}


def _few_values(records: Rows, schema: Schema) -> Iterator[_Codes]:
    layout, absent = schema.layout, next(iter(schema.missing_values), None)
    for place, column in enumerate(layout.coded):
        if column.size <= _MOST_LEVELS and not (column.missing and absent is None):
            yield _Codes(
                column.name,
                records.codes[:, place].astype(np.int64),
                (*column.levels, absent)[: column.size],
            )
    for place, number in enumerate(layout.numeric):
        units, missing = decoded_numbers(records, layout, place)
        at_least = ~missing & (units == (0 if missing.all() else units[~missing].min()))
        beyond = ~missing & ~at_least
        if (
            not is_outer_atom(number, units[at_least]).any()
            and at_least.mean() > _LEAST_SHARE
            and beyond.any()
        ):
            above = _above(number, units[at_least][:1], units[beyond].min())
            if above is not None:
                values = (
                    _written(number, units[at_least][0]),
                    f"{_written(number, above)}..",
                    absent,
                )
                codes = np.where(missing, 2, np.where(at_least, 0, 1))
                yield _Codes(number.name, codes, values[: 2 + number.missing])
                continue
        if number.missing and absent is not None:
            yield _Codes(number.name, missing.astype(np.int64), ("..", absent))


def _above(number: Any, least: npt.NDArray[Any], found: Any) -> Any:
    """Returns the number after the ``least`` one, (1,); of real numbers one far below that ``found``, above atoms."""
    if not isinstance(number, Continuous):
        return numbers_of_ranks(number, ranks_of(number, least) + 1)[0]
    if least[0] not in number.atoms:
        return None
    return np.float64(
        f"{least[0] + 10.0 ** (np.floor(np.log10(found - least[0])) - 3):.12g}"
    )


def _gaps(first: _Codes, second: _Codes) -> list[_Found]:
    table = _table(first.codes, second.codes, len(first.values), len(second.values))
    rows = int(table.sum())
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / rows
    never = np.argwhere((table == 0) & (expected >= LEAST)).tolist()
    return [
        _Found(
            Impossible(
                values={
                    first.name: first.values[row],
                    second.name: second.values[column],
                }
            ),
            f"never in {rows:,} records; about {expected[row, column]:,.0f} would, were the two independent",
            float(expected[row, column]) / rows,
        )
        for row, column in never[: len(never) * (len(never) <= _MOST_GAPS)]
    ]


def _derived(
    records: Rows, schema: Schema, told: Collection[frozenset[str]]
) -> list[str]:
    """Returns remarks on columns of few values that follow from others, in pairs of which no constraint is ``told``."""
    layout, codes = schema.layout, {}
    for place, column in enumerate(layout.coded):
        codes[column.name] = np.unique(records.codes[:, place], return_inverse=True)[1]
    for place, number in enumerate(layout.numeric):
        if not isinstance(number, Continuous):
            codes[number.name] = np.unique(
                records.numeric[:, place], return_inverse=True
            )[1]
    codes = {
        name: one
        for name, one in codes.items()
        if 0 < one.max() < min(_MOST_DERIVED, len(one) / _PER_LEVEL)
    }
    remarks = []
    for first, second in combinations(codes, 2):
        if frozenset((first, second)) in told:
            continue
        table = _table(
            codes[first], codes[second], codes[first].max() + 1, codes[second].max() + 1
        )
        for one, other, counts in ((first, second, table), (second, first, table.T)):
            apart = (
                len(records) - counts.sum(axis=0).max()
            )  # were all of these by chance where they are
            if (np.count_nonzero(counts, axis=1) == 1).all() and apart >= LEAST:
                remarks.append(
                    f"{other} follows from {one} in all {len(records):,} records: put it under `ignore`, and derive it "
                    "afterwards."
                )
                break
    return remarks


def _table(
    first: npt.NDArray[np.integer[Any]],
    second: npt.NDArray[np.integer[Any]],
    rows: int,
    columns: int,
) -> npt.NDArray[np.int64]:
    return np.bincount(first * columns + second, minlength=rows * columns).reshape(
        rows, columns
    )


def _acceptable(
    found: list[_Found], records: Rows, schema: Schema
) -> tuple[list[_Found], float]:
    random, layout = np.random.default_rng(0), schema.layout
    rows = random.integers(
        0, len(records), (_DRAWN, records.numeric.shape[1] + records.codes.shape[1])
    )
    numeric = np.take_along_axis(
        records.numeric, rows[:, : records.numeric.shape[1]], axis=0
    )
    codes = np.take_along_axis(
        records.codes, rows[:, records.numeric.shape[1] :], axis=0
    )
    drawn, keeps = Rows(numeric, codes), np.ones(_DRAWN, dtype=np.bool_)
    kept: list[_Found] = []
    for one in sorted(found, key=lambda found: found.breaks):
        left = keeps & ~one.constraint.broken(drawn, layout, schema.missing_values)
        if left.mean() >= LEAST_ACCEPTANCE:
            keeps, kept = left, [*kept, one]
    return kept, float(keeps.mean())


def _written(column: Any, number: Any) -> Any:
    if isinstance(column, Date):
        return str(np.datetime64(int(number), "D"))
    return (
        str(np.datetime64(int(number), "us"))
        if isinstance(column, Datetime)
        else number.item()
    )
