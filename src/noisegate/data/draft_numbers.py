"""Columns of numbers as a public sample shows them: bounds, steps, atoms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.data import regularity
from noisegate.schema import Categorical, Continuous, Decimal, Integer
from noisegate.schema.columns import MAX_STEPS
from noisegate.schema.drafted import DraftedColumn
from noisegate.schema.encode import Parser, UnexpectedType, floats, integers, is_text
from noisegate.schema.rounding import outwards

_MAX_LABEL_LEVELS = 20
# A column of more different values than this has cells that hold several of them.
_CELLS = 1024


def draft_number(name: str, cells: pa.Array, *, missing: bool, is_label: bool) -> DraftedColumn | None:
    """Return the entry of a column of numbers, or None if the cells, none of them missing, are none."""
    if is_text(cells.type) and pc.any(pc.match_substring_regex(cells, r"^[+-]?0[0-9]")).as_py():
        return None  # codes such as 02139
    numbers = parsed(floats, cells)
    if numbers is None:
        return None
    numbers = numbers[~np.isnan(numbers)]
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return DraftedColumn.left_out(name, "no finite number is in the sample; state bounds", _open(missing))
    whole = parsed(integers, cells)
    largest = max(abs(finite.min()), abs(finite.max()))
    if whole is None or len(finite) < len(numbers) or largest > MAX_STEPS // 4:
        return _real(name, finite, missing=missing, all_finite=len(finite) == len(numbers))
    distinct, counts = np.unique(finite.astype(np.int64), return_counts=True)
    if set(distinct.tolist()) == {0, 1} or (is_label and len(distinct) <= _MAX_LABEL_LEVELS):
        return DraftedColumn.of(Categorical(name=name, levels=tuple(distinct.tolist()), missing=missing))
    return _whole(name, distinct, counts, missing=missing)


def _open(missing: bool) -> dict[str, Any]:
    return {"kind": "continuous", "lower": ..., "upper": ..., **({"missing": True} if missing else {})}


def _whole(
    name: str, distinct: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], *, missing: bool
) -> DraftedColumn:
    if len(distinct) == 1 and distinct[0] in (0, 1):
        alone = f"the sample shows {distinct[0]} alone; widen the bounds if other numbers can be"
        return DraftedColumn.of(Integer(name=name, lower=0, upper=1, missing=missing), [alone])
    outer = regularity.sentinels(distinct, counts)
    inner, rows = distinct[~outer], int(counts[~outer].sum())
    first, last = (int(end) for end in outwards(float(inner[0]), float(inner[-1]), smallest=1.0))
    reasons: list[str] = []
    described: dict[str, Any] = {"name": name, "missing": missing}
    grid = regularity.grid(inner, rows)
    if grid is not None and grid.step > 1:
        described["step"] = grid.step
        first, last = _on_grid(first, last, grid.units, grid.step)
        reasons.append(f"step: all {rows:,} values stand a multiple of {grid.step} apart")
    atoms, why = _atoms(distinct, counts, outer, (last - first) // described.get("step", 1))
    return DraftedColumn.of(Integer(**described, lower=first, upper=last, atoms=atoms), [*reasons, *why])


def _real(name: str, numbers: npt.NDArray[np.float64], *, missing: bool, all_finite: bool) -> DraftedColumn:
    """Return a column of decimals where they stand on a grid, else of real numbers."""
    distinct, counts = np.unique(numbers + 0.0, return_counts=True)
    outer = regularity.sentinels(distinct, counts)
    inner, rows = distinct[~outer], int(counts[~outer].sum())
    lower, upper = outwards(float(inner[0]), float(inner[-1]))
    described: dict[str, Any] = {"name": name, "missing": missing}
    grid = regularity.grid(inner, rows) or regularity.decimals(inner, rows) if all_finite else None
    if grid is None:
        atoms, why = _atoms(distinct, counts, outer, math.inf)
        return DraftedColumn.of(Continuous(**described, lower=lower, upper=upper, atoms=atoms), why)
    first, last = _on_grid(round(lower * grid.scale), round(upper * grid.scale), grid.units, grid.step)
    described |= {"lower": first / grid.scale, "upper": last / grid.scale, "step": grid.step / grid.scale}
    atoms, why = _atoms(distinct, counts, outer, (last - first) // grid.step)
    reason = f"step: all {rows:,} values stand a multiple of {described['step']:g} apart"
    return DraftedColumn.of(Decimal(**described, atoms=atoms), [reason, *why])


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


def parsed(parse: Parser, values: pa.Array) -> npt.NDArray[Any] | None:
    """Return the numbers that ``parse`` makes of all values, or None if it cannot read some of them."""
    try:
        found = parse(values)
    except UnexpectedType:
        return None
    return None if found.bad.any() else found.numbers
