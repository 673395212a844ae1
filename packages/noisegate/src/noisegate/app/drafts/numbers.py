"""Columns of numbers, as a public sample shows them: kind, bounds, step and atoms.

::

    numbers ──► whole ──► few and far apart, or a label ──► categorical (codes)
                  │                 0 and 1, or constant ─► categorical
                  │                 else ─────────────────► integer
                  ╰────► with decimals on a grid ─────────► decimal
                                    else ─────────────────► continuous

Bounds are the smallest and largest value, rounded outwards, or what is public knowledge
of a quantity of this name, such as 0 to 23 for an hour.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import DraftedColumn, vocabulary
from noisegate.app.drafts.identifiers import is_called_code
from noisegate.app.drafts.regularities import (
    MAX_EXACT_UNITS,
    Numbers,
    ValueCounts,
    find_atoms,
    find_grid,
    sentinel_mask,
)
from noisegate.app.drafts.texts import MAX_LEVELS
from noisegate.schema import Categorical, Continuous, Decimal, Integer
from noisegate.schema.bounds import rounded_bounds
from noisegate.schema.kinds.stepped import MAX_STEPS
from noisegate.schema.parsing import (
    Parser,
    UnexpectedType,
    is_text,
    parse_floats,
    parse_integers,
)

# A label with more distinct integers is a quantity.
_MAX_LABEL_LEVELS = 20

# Integers may be codes where so many records have each of them, and where they lie so
# far apart: that many free places for each value, on average.
_MIN_RECORDS_PER_CODE = 10
_MIN_PLACES_PER_CODE = 10
# More integers are codes if the column is called like one, as `municipality`. Else the
# values themselves must show it: most are in some records each, since amounts have rare
# values at their ends; half of the gaps are wide, and go up and down, unlike those of
# squares; and few are round, as prices are.
_MAX_CODES_OF_ANY_NAME = 20
_MIN_RECORDS_OF_MOST_CODES = 5
_MIN_FREQUENT_CODES = 0.9
_MAX_ROUND_CODES = 0.5
_MIN_TURNS_OF_GAPS = 0.25

# Decimals of a constant; the two numbers beside it are one unit of the last one away.
_MAX_CONSTANT_DECIMALS = 9

_MAX_INTEGER = 2**62  # differences of two of them fit into int64
_MAX_REAL = 1e300  # and of two of these into float64

_WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|[^a-zA-Z0-9]+")


def draft_number(
    name: str, cells: pa.Array, *, missing: bool, is_label: bool
) -> DraftedColumn | None:
    """Drafts a column of numbers.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,), at least one; numbers, or
            text.
        missing: Whether a value may be missing.
        is_label: Whether the column is to be predicted; a label of few integers is
            categorical.

    Returns:
        The drafted column, ignored if its bounds cannot be stated; None if a cell is no
        number, or has a zero in front, as codes such as 02139.
    """
    if is_text(cells.type) and _have_leading_zero(cells):
        return None
    numbers = parsed_numbers(parse_floats, cells)
    if numbers is None:
        return None

    finite_numbers = numbers[np.isfinite(numbers)]
    all_finite = len(finite_numbers) == len(numbers)
    if not len(finite_numbers):
        form: dict[str, Any] = {"kind": "continuous", "lower": ..., "upper": ...}
        if missing:
            form["missing"] = True
        reason = "no finite number is in the sample; state bounds"
        return DraftedColumn.left_out(name, reason, form)
    if max(abs(finite_numbers.min()), abs(finite_numbers.max())) > _MAX_REAL:
        return DraftedColumn.left_out(
            name,
            f"numbers beyond {_MAX_REAL:g} cannot be distinguished; use their "
            "logarithms",
        )

    integers = parsed_numbers(parse_integers, cells) if all_finite else None
    if integers is None or max(-int(integers.min()), integers.max()) > _MAX_INTEGER:
        return _draft_real(
            name, finite_numbers, missing=missing, may_have_step=all_finite
        )
    distinct = ValueCounts.of(integers)
    if distinct.is_constant and distinct.values[0] not in (0, 1):
        return _draft_constant_integer(name, int(distinct.values[0]), missing=missing)
    are_codes = _are_codes(name, distinct)
    if are_codes and len(distinct.values) <= MAX_LEVELS:
        return _draft_codes(name, distinct, missing=missing)
    if float(np.ptp(finite_numbers)) > MAX_STEPS // 4:
        return _draft_real(name, finite_numbers, missing=missing, may_have_step=True)

    levels = tuple(distinct.values.tolist())
    is_small_label = is_label and len(levels) <= _MAX_LABEL_LEVELS
    if set(levels) == {0, 1} or is_small_label:
        column = Categorical(name=name, levels=levels, missing=missing)
        return DraftedColumn.from_column(column)
    dtype_range = _integer_range(cells.type)
    entry = _draft_integer(name, distinct, dtype_range, missing=missing)
    return _with_remark_on_codes(entry, distinct) if are_codes else entry


def parsed_numbers(parse: Parser, cells: pa.Array) -> npt.NDArray[Any] | None:
    """Parses cells that must all be of one kind.

    Args:
        parse: Parser of the kind.
        cells: Cells without nulls.

    Returns:
        What the parser reads, without NaN, in order; None if any cell is of another
        kind.
    """
    try:
        parsed = parse(cells)
    except UnexpectedType:
        return None
    if parsed.is_bad.any():
        return None
    return parsed.numbers[~parsed.is_missing]


def _have_leading_zero(texts: pa.Array) -> bool:
    """Returns whether any text is a number with a zero in front."""
    return bool(pc.any(pc.match_substring_regex(texts, r"^[+-]?0[0-9]")).as_py())


def _integer_range(dtype: pa.DataType) -> tuple[int, int]:
    """Returns the range of an Arrow type of integers; of another type that of int64."""
    limits = np.iinfo(np.int64)
    if pa.types.is_integer(dtype):
        limits = np.iinfo(dtype.to_pandas_dtype())
    return int(limits.min), int(limits.max)


def _draft_constant_integer(name: str, value: int, *, missing: bool) -> DraftedColumn:
    """Drafts a column whose records all have one integer, as its only level."""
    column = Categorical(name=name, levels=(value,), missing=missing)
    reason = (
        f"levels: the sample shows {value} alone; are there other numbers? Then add "
        'them, or write kind = "integer" with lower and upper'
    )
    return DraftedColumn.from_column(column, [reason])


def _are_codes(name: str, distinct: ValueCounts) -> bool:
    """Returns whether integers stand as far apart as codes do, and are no amounts.

    Args:
        name: Name of the column, which may be that of a code.
        distinct: Its values in the sample.
    """
    values = distinct.values
    regular = distinct.where(~sentinel_mask(distinct))
    regular_values = regular.values.astype(np.float64)
    are_frequent = distinct.record_count >= _MIN_RECORDS_PER_CODE * len(values)
    if len(regular_values) <= 2 or not are_frequent:
        return False
    step = np.gcd.reduce(np.diff(values))
    width = np.ptp(regular_values)
    if width < _MIN_PLACES_PER_CODE * len(regular_values) * step:
        return False
    if len(regular_values) <= _MAX_CODES_OF_ANY_NAME or is_called_code(name):
        return True

    is_common = regular.counts >= _MIN_RECORDS_OF_MOST_CODES
    gaps = np.diff(regular_values)
    is_turn = np.diff(np.sign(np.diff(gaps))) != 0
    is_round = regular_values % (10 * step) == 0
    return bool(
        is_common.mean() >= _MIN_FREQUENT_CODES
        and np.median(gaps) >= _MIN_PLACES_PER_CODE * step
        and is_turn.mean() >= _MIN_TURNS_OF_GAPS
        and is_round.mean() <= _MAX_ROUND_CODES
    )


def _with_remark_on_codes(entry: DraftedColumn, distinct: ValueCounts) -> DraftedColumn:
    """Adds to an integer column that it may hold codes, too many to be listed."""
    remark = (
        f"{len(distinct.values):,} different whole numbers, spread out like codes; "
        "is it a code? Then most numbers within the bounds do not occur: describe "
        "a part of it, such as its first digits, in a column of text, and ignore "
        "this one"
    )
    return replace(entry, comments=(*entry.comments, remark))


def _draft_codes(name: str, distinct: ValueCounts, *, missing: bool) -> DraftedColumn:
    """Drafts a categorical column, with the hint that it may be a quantity."""
    values = distinct.values
    reason = (
        f"levels: only {len(values)} different whole numbers, spread out like "
        'codes; is it a quantity? Then write kind = "integer", lower = '
        f"{values[0]}, upper = {values[-1]}"
    )
    column = Categorical(name=name, levels=tuple(values.tolist()), missing=missing)
    return DraftedColumn.from_column(column, [reason])


def _draft_integer(
    name: str, distinct: ValueCounts, dtype_range: tuple[int, int], *, missing: bool
) -> DraftedColumn:
    """Drafts an integer column: its bounds, step and atoms.

    Args:
        name: Name of the column.
        distinct: Its values in the sample.
        dtype_range: Smallest and largest integer of the column's data type.
        missing: Whether values may be missing.

    Returns:
        The drafted column, with the reasons for its step and atoms.
    """
    values = distinct.values
    if len(values) == 1 and values[0] in (0, 1):
        # Most likely an indicator whose other value is rare.
        reason = (
            f"the sample shows {values[0]} alone; widen the bounds if other numbers "
            "can be"
        )
        indicator = Integer(name=name, lower=0, upper=1, missing=missing)
        return DraftedColumn.from_column(indicator, [reason])

    is_sentinel = sentinel_mask(distinct)
    regular = distinct.where(~is_sentinel)
    lower, upper = _integer_bounds(name, regular.values)
    lower = max(lower, dtype_range[0])
    upper = min(upper, dtype_range[1])

    step = None
    reasons = []
    grid = find_grid(regular)
    if grid is not None and grid.step > 1:
        step = grid.step
        lower, upper = grid.bounds_around(lower, upper)
        reasons.append(_step_reason(regular, f"{step}"))

    atoms = find_atoms(distinct, is_sentinel, step_count=(upper - lower) // (step or 1))
    column = Integer(
        name=name,
        lower=lower,
        upper=upper,
        missing=missing,
        atoms=tuple(int(atom.value) for atom in atoms),
        step=step,
    )
    reasons.extend(atom.reason for atom in atoms)
    return DraftedColumn.from_column(column, reasons)


def _integer_bounds(name: str, values: Numbers) -> tuple[int, int]:
    """Returns the usual bounds of a quantity of this name, else rounded ones.

    Args:
        name: Name of the column.
        values: Distinct integers without sentinels, ascending, (values,).
    """
    usual_bounds = _usual_bounds(name, values[0], values[-1])
    if usual_bounds is not None:
        return usual_bounds

    # Bounds are rounded in float64, which holds large values only approximately, but
    # their distances from the smallest one exactly.
    largest = max(-values[0], values[-1])
    origin = int(values[0]) if largest > MAX_EXACT_UNITS else 0
    lower, upper = rounded_bounds(
        float(values[0] - origin), float(values[-1] - origin), smallest=1.0
    )
    return origin + int(lower), origin + int(upper)


def _draft_real(
    name: str,
    numbers: npt.NDArray[np.float64],
    *,
    missing: bool,
    may_have_step: bool,
) -> DraftedColumn:
    """Drafts a column of real numbers: decimal if on a grid, else continuous.

    Args:
        name: Name of the column.
        numbers: Its finite numbers in the sample, (records,).
        missing: Whether values may be missing.
        may_have_step: Whether a grid is looked for. A column with infinite values has
            none.

    Returns:
        The drafted column, with the reasons for its step and atoms.
    """
    # Adding 0.0 turns -0.0 into 0.0.
    distinct = ValueCounts.of(numbers + 0.0)
    is_exact = float(np.abs(distinct.values).max()) <= MAX_EXACT_UNITS
    if may_have_step and is_exact and distinct.is_constant:
        return _draft_constant_real(name, float(distinct.values[0]), missing=missing)
    is_sentinel = sentinel_mask(distinct)
    regular = distinct.where(~is_sentinel)
    lower, upper = _real_bounds(name, regular.values)

    grid = find_grid(regular) if may_have_step else None
    if grid is None:
        atoms = find_atoms(distinct, is_sentinel, step_count=math.inf)
        continuous = Continuous(
            name=name,
            lower=lower,
            upper=upper,
            missing=missing,
            atoms=tuple(atom.value for atom in atoms),
        )
        return DraftedColumn.from_column(continuous, [atom.reason for atom in atoms])

    lower_units, upper_units = grid.bounds_around(
        round(lower * grid.scale), round(upper * grid.scale)
    )
    step_count = (upper_units - lower_units) // grid.step
    atoms = find_atoms(distinct, is_sentinel, step_count=step_count)
    step = grid.step / grid.scale
    decimal = Decimal(
        name=name,
        lower=lower_units / grid.scale,
        upper=upper_units / grid.scale,
        missing=missing,
        atoms=tuple(atom.value for atom in atoms),
        step=step,
    )
    step_reason = _step_reason(regular, f"{step:g}")
    reasons = [step_reason, *(atom.reason for atom in atoms)]
    return DraftedColumn.from_column(decimal, reasons)


def _draft_constant_real(name: str, value: float, *, missing: bool) -> DraftedColumn:
    """Drafts a column whose records all have one real number, between two others."""
    text = f"{value:.{_MAX_CONSTANT_DECIMALS}f}"
    decimals = len(text.rstrip("0").partition(".")[2])
    unit = 10.0**-decimals
    if float(text) != value:
        unit = abs(value) / 2
    continuous = Continuous(
        name=name,
        lower=float(f"{value - unit:.12g}"),
        upper=float(f"{value + unit:.12g}"),
        missing=missing,
        atoms=(value,),
    )
    reason = (
        f"atoms: the sample shows {value:g} alone; widen the bounds if other numbers "
        "can be"
    )
    return DraftedColumn.from_column(continuous, [reason])


def _real_bounds(name: str, values: Numbers) -> tuple[float, float]:
    """Returns rounded bounds, within the usual ones of a quantity of this name.

    Args:
        name: Name of the column.
        values: Distinct numbers without sentinels, ascending, (values,).
    """
    lower, upper = rounded_bounds(float(values[0]), float(values[-1]))
    usual_bounds = _usual_bounds(name, values[0], values[-1])
    if usual_bounds is None:
        return lower, upper
    return max(lower, usual_bounds[0]), min(upper, usual_bounds[1])


def _step_reason(regular: ValueCounts, step_text: str) -> str:
    """Returns why a step is proposed, as a comment in the draft."""
    return (
        f"step: all {regular.record_count:,} values differ by multiples of {step_text}"
    )


def _usual_bounds(name: str, smallest: float, largest: float) -> tuple[int, int] | None:
    """Returns the bounds that are public knowledge of a quantity, by its name.

    The last words of the name say which quantity it is. Of several conventions, such as
    1 to 7 and 0 to 6 for a day of the week, the first counts that holds all values.

    Args:
        name: Name of the column.
        smallest: Its smallest value in the sample.
        largest: Its largest value in the sample.

    Returns:
        The bounds; None if the name is that of no such quantity, or no convention holds
        all values.
    """
    words = _WORD_BORDER.sub("_", name).strip("_").lower()
    for pattern, conventions in vocabulary("bounds").items():
        if re.search(rf"(?:^|(?<!per)_)(?:{pattern})$", words):
            for lower, upper in conventions:
                if lower <= smallest and largest <= upper:
                    return lower, upper
            return None
    return None
