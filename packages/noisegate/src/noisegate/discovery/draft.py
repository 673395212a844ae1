"""A first draft of a schema from a file that its owner has declared public; never from private data.

A constraint is proposed only where at least `LEAST` records would break it, were the columns independent of each other,
and not one does (a chance below 10⁻¹³). That it holds in a sample is no proof: the reader of the draft decides.

* Comparisons of numbers, of dates, of moments: part <= whole, start <= end.
* Combinations of two columns' values that never occur, where at most `_MOST_GAPS` do not: a level, a truth value,
  missing or given, and in columns of steps the least value against all others ("pregnancies" are 0 where sex is Male).
* Columns that follow from others make no constraint, since sampling could hardly keep to one: they are remarked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.data.frames import read_table
from noisegate.data.headers import check_titles
from noisegate.data.tables.tables import open_origins
from noisegate.discovery.draft_numbers import draft_number, draft_time
from noisegate.discovery.draft_types import Categories, as_stored, declared, draft_categories, shortest
from noisegate.discovery.drafted import DraftedColumn, draft_identifier, draft_text, drafted_text, schema_of
from noisegate.errors import DataError, SchemaError
from noisegate.records import Rows
from noisegate.schema import (
    DEFAULT_MISSING_VALUES,
    Boolean,
    Comparison,
    Constraint,
    Continuous,
    Date,
    Datetime,
    Impossible,
    Schema,
)
from noisegate.schema.encode import encode, is_text, plain_cells
from noisegate.schema.layout import outside, ranks_at
from noisegate.schema.regions import decoded_numbers

# Of so many records at most are rules looked for.
_MOST_ROWS = 200_000


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema drafted from a public file, and why it says what it says."""

    schema: Schema  # what was drafted; columns that nobody should use as they are stand under its ``ignore``
    entries: tuple[DraftedColumn, ...]  # the columns with the reasons, in the order of the file
    rules: Rules  # the constraints with their reasons, and what else holds in all records

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, with the reason."""
        return {entry.name: " ".join(entry.why) for entry in self.entries if entry.ignored}

    def toml(self, *, prefix: Sequence[str] = (), more: Mapping[str, Any] = MappingProxyType({})) -> str:
        """Returns the schema file, with the reasons as comments; below ``prefix``, with ``more`` keys at its top."""
        form = self.schema.form()
        top: dict[str, Any] = {key: form[key] for key in ("label", "missing_values") if key in form}
        constraints = list(zip(form.get("constraints", ()), self.rules.reasons, strict=True))
        return drafted_text(
            self.entries, top={**more, **top}, constraints=constraints, remarks=self.rules.remarks, prefix=prefix
        )


def draft_schema(public: Any, label: str | None = None) -> Schema:
    """Returns a schema drafted from *public* records, as `noisegate schema init` drafts it from a file.

    Its bounds and levels come straight from the records, so never use it on private ones: `discover_schema` buys them.

    Args:
        public: a table of any kind that `noisegate.fit` takes, or the path of a file that is public.
        label: name of the column to be predicted from the others.

    Raises:
        DataError: if the records cannot be read, or there are none.
        SchemaError: if a column holds free text, or nothing at all, or ``label`` is not a column.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import draft_schema
        >>> schema = draft_schema(pa.table({"age": [18, 35, 62], "job": ["nurse", "baker", "nurse"]}))
        >>> schema.column("age").upper, schema.column("job").levels
        (70, ('baker', 'nurse'))
    """
    return draft(public, label=label).schema


def draft(path: Any, label: str | None = None) -> Draft:
    """Returns a draft of a schema from a *public* file: its bounds and levels come straight from the records.

    Numbers that are only 0 and 1, and a label of few distinct whole numbers, become categorical; numbers with leading
    zeros (codes) are text. Identifiers, free text and whatever else cannot be used as it is are put under ``ignore``,
    with the reason and what to do about it. A sample that is large enough also shows steps, atoms and constraints.
    Raises as `draft_schema` does.
    """
    origins = open_origins(path)[1]
    for origin in origins:
        check_titles([name for name, _ in origin.columns()], origin.name)
    table = read_table(path)
    where = Path(path).name if isinstance(path, str | Path) else "the table"
    if not table.num_rows:
        raise DataError(f"{where}: there are no records to draft a schema from")
    if label is not None and label not in table.column_names:
        raise SchemaError(f"label {label!r} is not a column of {where}: {', '.join(table.column_names)}")
    kinds, known = declared(path, origins[0], table)
    entries = tuple(
        _draft(name, table[name].combine_chunks(), kinds.get(name), known.get(name), is_label=name == label)
        for name in table.column_names
    )
    why = next((" ".join(entry.why) for entry in entries if entry.ignored and entry.name == label), None)
    if why is not None:
        raise SchemaError(f"label {label!r} cannot be predicted as it is: {why}")
    schema = schema_of(entries, label)
    rules = _rules(table, schema)
    return Draft(schema=replace(schema, constraints=rules.constraints).usable(), entries=entries, rules=rules)


def _rules(table: pa.Table, schema: Schema) -> Rules:
    if len(schema.names) > MOST_COLUMNS:
        return Rules(remarks=(f"Constraints were not looked for: there are more than {MOST_COLUMNS} columns.",))
    tokens = pa.array([], pa.string())
    plain = pa.table({name: shortest(plain_cells(table[name].combine_chunks(), tokens)[0]) for name in schema.names})
    some = plain.take(pa.array(range(0, table.num_rows, -(-table.num_rows // _MOST_ROWS))))
    return find_rules(encode({name: some[name].combine_chunks() for name in schema.names}, schema), schema)


def _draft(
    name: str, cells: pa.Array, kind: pa.DataType | None, categories: Categories | None, *, is_label: bool
) -> DraftedColumn:
    tokens = pa.array(DEFAULT_MISSING_VALUES)
    cells, present = plain_cells(cells, tokens)
    cells = shortest(cells.filter(pa.array(present)))
    missing = not present.all() or (pa.types.is_floating(cells.type) and bool(pc.any(pc.is_nan(cells)).as_py()))
    levels = None if categories is None else draft_categories(name, categories, tokens, missing=missing)
    identifier = None if is_label or (categories is not None and categories[1]) else draft_identifier(name, cells)
    return as_stored(identifier or levels or _by_values(name, cells, missing=missing, is_label=is_label), cells, kind)


def _by_values(name: str, cells: pa.Array, *, missing: bool, is_label: bool) -> DraftedColumn:
    values = cells.unique()
    if not len(values):
        return DraftedColumn.left_out(
            name, "every value is missing, so the sample shows nothing of it; describe it by hand"
        )
    few_words = values.to_pylist() if is_text(values.type) and len(values) < 20 else [""]
    if pa.types.is_boolean(values.type) or {word.lower() for word in few_words} <= {"true", "false"}:
        return DraftedColumn.of(Boolean(name=name, missing=missing))
    return (
        draft_number(name, cells, missing=missing, is_label=is_label)
        or draft_time(name, cells, missing=missing)
        or draft_text(name, cells, missing=missing)
    )


LEAST = 30
"""So many records at least would break a constraint that is proposed, were columns independent."""

LEAST_ACCEPTANCE = 0.1
"""Constraints are proposed while this part of records whose columns are independent keeps to all of them."""

MOST_COLUMNS = 60
"""Columns at most whose pairs are gone through."""

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
    found, remarks = _comparisons(records, schema)
    for first, second in combinations(_few_values(records, schema), 2):
        found += _gaps(first, second)
    remarks += _derived(records, schema, {frozenset(one.constraint.names) for one in found})
    kept, share = _acceptable(sorted(found, key=lambda one: -one.breaks)[:_MOST_RULES], records, schema)
    left = [str(one.constraint) for one in found if one not in kept][:_MOST_RULES]
    if left:
        remarks.append(f"Not proposed, to keep those above few, but without an exception too: {'; '.join(left)}.")
    if kept:
        remarks.append(
            f"Were the columns independent of each other, {_in_words(share)} records would keep to all constraints "
            "above. A fitted model knows how columns go together and draws more such records; others are drawn again."
        )
    reasons = tuple(one.reason for one in kept)
    return Rules(constraints=tuple(one.constraint for one in kept), reasons=reasons, remarks=tuple(remarks))


def _in_words(share: float) -> str:
    return f"{share * 100:.0f} in 100" if share < 0.995 else "nearly all"


def _comparisons(records: Rows, schema: Schema) -> tuple[list[_Found], list[str]]:
    """Returns the comparisons that hold in all records, without those that follow from others; and equal columns."""
    layout = schema.layout
    numbers = {}
    for place, column in enumerate(layout.numeric):
        found, missing = decoded_numbers(records, layout, place)
        numbers[column.name] = np.where(missing | outside(column, found), np.nan, found.astype(np.float64))
    sorts = {
        one.name: (isinstance(one, Date | Datetime) and type(one), getattr(one, "aware", False))
        for one in layout.numeric
    }
    holds: dict[tuple[str, str], _Found] = {}
    remarks = []
    for one, other in combinations(numbers, 2):
        if sorts.get(one) != sorts.get(other):
            continue
        both = ~np.isnan(numbers[one]) & ~np.isnan(numbers[other])
        left, right = numbers[one][both], numbers[other][both]
        if len(left) < _LEAST_ROWS:
            continue
        if (left == right).all():
            remarks.append(
                f"{one} and {other} are equal in all {len(left):,} records that have both: put one under `ignore`, and "
                "copy it back afterwards."
            )
        elif (left <= right).all():
            holds |= _compared(one, other, left, right)
        elif (right <= left).all():
            holds |= _compared(other, one, right, left)
    between = {
        (low, high): {mid for first, mid in holds if first == low and (mid, high) in holds} for low, high in holds
    }
    return [found for pair, found in holds.items() if not between[pair]], remarks


def _compared(
    lesser: str, greater: str, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]
) -> dict[tuple[str, str], _Found]:
    ordered, rows = np.sort(high), len(low)
    below, up_to = (np.searchsorted(ordered, low, side=side).mean() / rows for side in ("left", "right"))
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
            yield _Codes(column.name, records.codes[:, place].astype(np.int64), (*column.levels, absent)[: column.size])
    for place, number in enumerate(layout.numeric):
        missing = np.isnan(records.numeric[:, place])
        if not isinstance(number, Continuous):
            units, _ = decoded_numbers(records, layout, place)
            ranks = ranks_at(number, np.where(missing, 1.0, records.numeric[:, place]))
            least = int(ranks.min())
            at_least = ~missing & (ranks == least)
            beyond = ~missing & ~at_least
            if not outside(number, units[at_least]).any() and at_least.mean() > _LEAST_SHARE and beyond.any():
                values = [_written(number, end) for end in (units[at_least][0], units[beyond].min())]
                codes = np.where(missing, 2, np.where(at_least, 0, 1))
                yield _Codes(number.name, codes, (values[0], f"{values[1]}..", absent)[: 2 + number.missing])
                continue
        if number.missing and absent is not None:
            yield _Codes(number.name, missing.astype(np.int64), ("..", absent))


def _gaps(first: _Codes, second: _Codes) -> list[_Found]:
    table = _table(first.codes, second.codes, len(first.values), len(second.values))
    rows = int(table.sum())
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / rows
    never = np.argwhere((table == 0) & (expected >= LEAST)).tolist()
    return [
        _Found(
            Impossible(values={first.name: first.values[row], second.name: second.values[column]}),
            f"never in {rows:,} records; about {expected[row, column]:,.0f} would, were the two independent",
            float(expected[row, column]) / rows,
        )
        for row, column in never[: len(never) * (len(never) <= _MOST_GAPS)]
    ]


def _derived(records: Rows, schema: Schema, told: Collection[frozenset[str]]) -> list[str]:
    """Returns remarks on columns of few values that follow from others, in pairs of which no constraint is ``told``."""
    layout, codes = schema.layout, {}
    for place, column in enumerate(layout.coded):
        codes[column.name] = np.unique(records.codes[:, place], return_inverse=True)[1]
    for place, number in enumerate(layout.numeric):
        if not isinstance(number, Continuous):
            codes[number.name] = np.unique(records.numeric[:, place], return_inverse=True)[1]
    codes = {name: one for name, one in codes.items() if 0 < one.max() < min(_MOST_DERIVED, len(one) / _PER_LEVEL)}
    remarks = []
    for first, second in combinations(codes, 2):
        if frozenset((first, second)) in told:
            continue
        table = _table(codes[first], codes[second], codes[first].max() + 1, codes[second].max() + 1)
        for one, other, counts in ((first, second, table), (second, first, table.T)):
            apart = len(records) - counts.sum(axis=0).max()  # were all of these by chance where they are
            if (np.count_nonzero(counts, axis=1) == 1).all() and apart >= LEAST:
                remarks.append(
                    f"{other} follows from {one} in all {len(records):,} records: put it under `ignore`, and derive it "
                    "afterwards."
                )
                break
    return remarks


def _table(
    first: npt.NDArray[np.integer[Any]], second: npt.NDArray[np.integer[Any]], rows: int, columns: int
) -> npt.NDArray[np.int64]:
    """Returns how many records have each pair of codes, (rows, columns)."""
    return np.bincount(first * columns + second, minlength=rows * columns).reshape(rows, columns)


def _acceptable(found: list[_Found], records: Rows, schema: Schema) -> tuple[list[_Found], float]:
    random, layout = np.random.default_rng(0), schema.layout
    rows = random.integers(0, len(records), (_DRAWN, records.numeric.shape[1] + records.codes.shape[1]))
    numeric = np.take_along_axis(records.numeric, rows[:, : records.numeric.shape[1]], axis=0)
    codes = np.take_along_axis(records.codes, rows[:, records.numeric.shape[1] :], axis=0)
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
    return str(np.datetime64(int(number), "us")) if isinstance(column, Datetime) else number.item()
