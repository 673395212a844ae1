"""A first draft of a schema from a file that its owner has declared public; never from private data."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.data import regularity
from noisegate.data.frames import read_table
from noisegate.data.rules import MOST_COLUMNS, Rules, find_rules
from noisegate.errors import DataError, SchemaError
from noisegate.schema import (
    DEFAULT_MISSING_VALUES,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Integer,
    Schema,
)
from noisegate.schema.columns import MAX_STEPS
from noisegate.schema.encode import (
    Parser,
    UnexpectedType,
    days,
    encode,
    floats,
    integers,
    is_text,
    microseconds,
    plain_cells,
)
from noisegate.schema.toml import write_toml

MAX_LEVELS = 200
"""Text with more distinct values than this is taken for free text or identifiers."""

_MAX_LABEL_LEVELS = 20
_EPOCH = datetime(1970, 1, 1)
_SECONDS = (86_400, 3_600, 60, 1)
# A column of more different values than this has cells that hold several of them.
_CELLS = 1024
# Of so many records at most are rules looked for.
_MOST_ROWS = 200_000


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema drafted from a public file, and why it says what it says.

    Attributes:
        schema: what was drafted.
        reasons: by column, what the sample shows of its grid and its atoms.
        rules: the constraints with their reasons, and what else holds in all records.
    """

    schema: Schema
    reasons: dict[str, list[str]] = field(default_factory=dict)
    rules: Rules

    def toml(self) -> str:
        """Return the schema file, with the reasons as comments."""
        form = self.schema.form()
        text = write_toml(form, columns=self.reasons, constraints=[[reason] for reason in self.rules.reasons])
        remarks = [line for remark in self.rules.remarks for line in textwrap.wrap(remark, 118)]
        return text + "\n" * bool(remarks) + "".join(f"# {line}\n" for line in remarks)


def draft_schema(path: str | Path, label: str | None = None) -> Schema:
    """Return the schema of `draft`."""
    return draft(path, label=label).schema


def draft(path: str | Path, label: str | None = None) -> Draft:
    """Return a draft of a schema from a *public* file: its bounds and levels come straight from the records.

    Whole and decimal numbers get bounds rounded outwards, ISO dates and moments bounds at the turn of a year; ``true``
    and ``false`` become boolean, other text with few distinct values categorical. Numbers that are only 0 and 1, and a
    label of few distinct whole numbers, become categorical. Numbers with leading zeros (codes) are text.

    Where the sample is large enough, it also proposes the steps of numbers and moments, the atoms of columns
    (`noisegate.data.regularity`), and constraints (`noisegate.data.rules`), each without an exception in the sample.

    Raises:
        DataError: if the file cannot be read or has no records.
        SchemaError: if a column holds free text, or nothing at all, or ``label`` is not a column.
    """
    table = read_table(path)
    if not table.num_rows:
        raise DataError(f"{Path(path).name}: there are no records to draft a schema from")
    if label is not None and label not in table.column_names:
        raise SchemaError(f"label {label!r} is not a column of {Path(path).name}: {', '.join(table.column_names)}")
    drafts = [_draft(name, table[name].combine_chunks(), is_label=name == label) for name in table.column_names]
    schema = Schema(columns=tuple(one.column for one in drafts), label=label)
    rules = _rules(table, schema)
    reasons = {one.column.name: one.reasons for one in drafts if one.reasons}
    return Draft(schema=replace(schema, constraints=rules.constraints).usable(), reasons=reasons, rules=rules)


def _rules(table: pa.Table, schema: Schema) -> Rules:
    """Return the rules that the records keep to, of a large table every so many of them."""
    if len(schema.names) > MOST_COLUMNS:
        return Rules(remarks=(f"Constraints were not looked for: there are more than {MOST_COLUMNS} columns.",))
    some = table.take(pa.array(range(0, table.num_rows, -(-table.num_rows // _MOST_ROWS))))
    return find_rules(encode({name: some[name].combine_chunks() for name in schema.names}, schema), schema)


@dataclass(frozen=True)
class _Drafted:
    """A column, and what the sample shows of it."""

    column: Column
    reasons: list[str] = field(default_factory=list)


def _draft(name: str, cells: pa.Array, *, is_label: bool) -> _Drafted:
    cells, present = plain_cells(cells, pa.array(DEFAULT_MISSING_VALUES))
    cells = cells.filter(pa.array(present))
    values = cells.unique()
    missing = not present.all() or (pa.types.is_floating(cells.type) and bool(pc.any(pc.is_nan(cells)).as_py()))
    if not len(values):
        raise SchemaError(
            f"column {name!r}: every value is missing, so there is nothing to draft from; remove the column from the "
            "public file, and describe it by hand"
        )
    few_words = values.to_pylist() if is_text(values.type) and len(values) < 20 else [""]
    if pa.types.is_boolean(values.type) or {word.lower() for word in few_words} <= {"true", "false"}:
        return _Drafted(Boolean(name=name, missing=missing))
    return (
        _number(name, cells, missing=missing, is_label=is_label)
        or _time(name, cells, missing=missing)
        or _Drafted(_categorical(name, values, missing=missing))
    )


def _number(name: str, cells: pa.Array, *, missing: bool, is_label: bool) -> _Drafted | None:
    if is_text(cells.type) and pc.any(pc.match_substring_regex(cells, r"^[+-]?0[0-9]")).as_py():
        return None  # codes such as 02139
    numbers = _good(floats, cells)
    if numbers is None:
        return None
    numbers = numbers[~np.isnan(numbers)]
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        raise SchemaError(f"column {name!r}: no finite number to draft bounds from; describe the column by hand")
    whole = _good(integers, cells)
    largest = max(abs(finite.min()), abs(finite.max()))
    if whole is None or len(finite) < len(numbers) or largest > MAX_STEPS // 4:
        return _real(name, finite, missing=missing, all_finite=len(finite) == len(numbers))
    distinct, counts = np.unique(finite.astype(np.int64), return_counts=True)
    if set(distinct.tolist()) == {0, 1} or (is_label and len(distinct) <= _MAX_LABEL_LEVELS):
        return _Drafted(Categorical(name=name, levels=tuple(distinct.tolist()), missing=missing))
    outer = regularity.sentinels(distinct, counts)
    inner, rows = distinct[~outer], int(counts[~outer].sum())
    first, last = (int(end) for end in _outwards(float(inner[0]), float(inner[-1]), smallest=1.0))
    reasons: list[str] = []
    described: dict[str, Any] = {"name": name, "missing": missing}
    grid = regularity.grid(inner, rows)
    if grid is not None and grid.step > 1:
        described["step"] = grid.step
        first, last = _on_grid(first, last, grid.units, grid.step)
        reasons.append(f"step: all {rows:,} values stand a multiple of {grid.step} apart")
    atoms, why = _atoms(distinct, counts, outer, (last - first) // described.get("step", 1))
    return _Drafted(Integer(**described, lower=first, upper=last, atoms=atoms), [*reasons, *why])


def _real(name: str, numbers: npt.NDArray[np.float64], *, missing: bool, all_finite: bool) -> _Drafted:
    """Return a column of decimals where they stand on a grid, else of real numbers."""
    distinct, counts = np.unique(numbers + 0.0, return_counts=True)
    outer = regularity.sentinels(distinct, counts)
    inner, rows = distinct[~outer], int(counts[~outer].sum())
    lower, upper = _outwards(float(inner[0]), float(inner[-1]), smallest=0.0)
    described: dict[str, Any] = {"name": name, "missing": missing}
    grid = regularity.grid(inner, rows) if all_finite else None
    if grid is None:
        atoms, why = _atoms(distinct, counts, outer, math.inf)
        return _Drafted(Continuous(**described, lower=lower, upper=upper, atoms=atoms), why)
    first, last = _on_grid(round(lower * grid.scale), round(upper * grid.scale), grid.units, grid.step)
    described |= {"lower": first / grid.scale, "upper": last / grid.scale, "step": grid.step / grid.scale}
    atoms, why = _atoms(distinct, counts, outer, (last - first) // grid.step)
    reason = f"step: all {rows:,} values stand a multiple of {described['step']:g} apart"
    return _Drafted(Decimal(**described, atoms=atoms), [reason, *why])


def _on_grid(first: int, last: int, units: npt.NDArray[np.int64], step: int) -> tuple[int, int]:
    """Return bounds in units, moved outwards to whole steps from the values."""
    lowest, highest = int(units[0]), int(units[-1])
    return lowest - -(-(lowest - first) // step) * step, highest + -(-(last - highest) // step) * step


def _atoms(
    values: regularity.Numbers, counts: npt.NDArray[np.int64], outer: npt.NDArray[np.bool_], steps: float
) -> tuple[tuple[Any, ...], list[str]]:
    """Return the atoms of a column of so many steps, and why."""
    total = int(counts.sum())
    found = [
        (value.item(), count / total, " and stands far from all others")
        for value, count in zip(values[outer], counts[outer].tolist(), strict=True)
    ]
    if steps > _CELLS and total >= regularity.LEAST_ROWS:
        found += [(value, share, "") for value, share in regularity.atoms(values[~outer], counts[~outer])]
    reasons = [f"atoms: {value:g} is said by {share:.1%} of records{why}" for value, share, why in found]
    return tuple(value for value, _, _ in found), reasons


def _outwards(lowest: float, highest: float, *, smallest: float) -> tuple[float, float]:
    """Return bounds around both values at round numbers; steps are powers of ten, at least ``smallest``."""
    width = highest - lowest or max(abs(highest), 1.0)
    if highest == lowest:
        lowest, highest = lowest - width / 2, highest + width / 2
    exponent = math.floor(math.log10(width / 2))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first, last = math.floor(lowest / 10.0**exponent), math.ceil(highest / 10.0**exponent)
    return float(f"{first}e{exponent}"), float(f"{last}e{exponent}")


def _time(name: str, cells: pa.Array, *, missing: bool) -> _Drafted | None:
    found = _good(days, cells)
    if found is not None:
        distinct, counts = np.unique(found, return_counts=True)
        outer = regularity.sentinels(distinct, counts)
        inner = distinct[~outer]
        first, last = (_EPOCH.date() + timedelta(days=int(day)) for day in (inner[0], inner[-1]))
        atoms = tuple(_EPOCH.date() + timedelta(days=int(day)) for day in distinct[outer])
        reasons = [f"atoms: {atom} stands far from all others" for atom in atoms]
        lower, upper = date(first.year, 1, 1), date(last.year, 12, 31)
        return _Drafted(Date(name=name, lower=lower, upper=upper, missing=missing, atoms=atoms), reasons)
    for zone in (None, UTC):
        found = _good(partial(microseconds, aware=zone is not None), cells)
        if found is not None:
            return _moments(name, found, zone, missing=missing)
    return None


def _moments(name: str, found: npt.NDArray[np.int64], zone: Any, *, missing: bool) -> _Drafted:
    start, end = ((_EPOCH + timedelta(microseconds=int(step))).year for step in (found.min(), found.max()))
    lower, upper = datetime(start, 1, 1, tzinfo=zone), datetime(end, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
    seen = len(found) >= regularity.LEAST_ROWS and len(np.unique(found)) >= regularity.LEAST_DISTINCT
    step = next((step for step in _SECONDS if seen and not (found % (step * 10**6)).any()), None)
    if step is None:
        return _Drafted(Datetime(name=name, lower=lower, upper=upper, missing=missing))
    upper += timedelta(microseconds=1) - timedelta(seconds=step)
    reason = f"step: all {len(found):,} moments are a whole number of {step} seconds"
    return _Drafted(Datetime(name=name, lower=lower, upper=upper, missing=missing, step=step), [reason])


def _good(parse: Parser, values: pa.Array) -> npt.NDArray[Any] | None:
    """Return the numbers that ``parse`` makes of all values, or None if it cannot read some of them."""
    try:
        parsed = parse(values)
    except UnexpectedType:
        return None
    return None if parsed.bad.any() else parsed.numbers


def _categorical(name: str, values: pa.Array, *, missing: bool) -> Column:
    if not is_text(values.type):
        raise SchemaError(
            f"column {name!r}: values of type {values.type} have no kind in a schema; convert or remove it"
        )
    if len(values) > MAX_LEVELS:
        raise SchemaError(
            f"column {name!r}: {len(values)} distinct texts, more than {MAX_LEVELS}: free text or identifiers; "
            "remove the column from the public file, and add its name to `ignore` in the schema"
        )
    return Categorical(name=name, levels=tuple(sorted(values.to_pylist())), missing=missing)
