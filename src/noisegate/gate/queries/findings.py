"""What discovery found, from noisy counts to a schema file with a note on each column: released values alone (G-08)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.queries.exact_counts import BinEdges
from noisegate.schema.columns import Categorical, Column, Continuous, Date, Datetime, Integer, column_form
from noisegate.schema.partial import MOMENT_IN_UTC, Gap, PartialSchema
from noisegate.schema.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.toml import write_toml

Counts: TypeAlias = npt.NDArray[np.float64]
"""Noisy counts in records, (bins,)."""

OTHER = "other"

_EPOCH = datetime(1970, 1, 1)
# Chance that some empty bin of a column is taken for an occupied one.
_FALSE_BIN = 1e-3
# Standard deviations of noise: more than the first beside an occupied bin, less than the second at an end.
_SOMETHING, _NOTHING = 2.0, 1.5


def threshold(std: float, bins: int) -> float:
    """Returns the noisy count that, of so many empty bins, one passes with probability at most 1/1000."""
    return -NormalDist().inv_cdf(_FALSE_BIN / bins) * std


@dataclass(frozen=True, kw_only=True)
class Occupied:
    """The first and the last bin that are taken to hold records, and of those that surely do."""

    first: int
    last: int
    sure: tuple[int, int]


def occupied(noisy: Counts, std: float, zero: int | None) -> Occupied | None:
    """Returns the bins of a first histogram that are taken to hold records, or None where nothing stands out.

    Sure are the bins above `threshold`, and all between them. The bin beyond is taken in too while it is above two
    standard deviations: a bin too many makes the second histogram coarser, a bin too few cuts off a tail. Bounds do not
    cross the bin of `zero` that way. The noise has the standard deviation `std`, in records.
    """
    found = np.flatnonzero(noisy > threshold(std, len(noisy)))
    if not len(found):
        return None
    first, last = sure = int(found[0]), int(found[-1])
    while first > 0 and first != zero and noisy[first - 1] > _SOMETHING * std:
        first -= 1
    while last < len(noisy) - 1 and last != zero and noisy[last + 1] > _SOMETHING * std:
        last += 1
    return Occupied(first=first, last=last, sure=sure)


def trimmed(noisy: Counts, std: float, fine: BinEdges, coarse: BinEdges, found: Occupied) -> tuple[int, int]:
    """Returns the first and last bin of a second histogram, `fine`, after the ends that look empty were taken off.

    An end looks empty when its bins together hold at most 3/2 standard deviations of their noise. One bin is left on as
    a margin, and nothing is taken off beyond the outermost sure bins `found` in the first histogram, `coarse`: a long
    thin tail is hardly seen in fine bins.
    """
    most = int(np.searchsorted(fine.edges, coarse.edges[found.sure[0] + 1], side="left")) - 1
    least = int(np.searchsorted(fine.edges, coarse.edges[found.sure[1]], side="right")) - 1
    first = min(_empty(noisy, std), most)
    last = max(len(noisy) - 1 - _empty(noisy[::-1], std), least)
    return (first, last) if first <= last else (0, len(noisy) - 1)


def _empty(noisy: Counts, std: float) -> int:
    limits = _NOTHING * std * np.sqrt(np.arange(1, len(noisy) + 1))
    empty = np.flatnonzero(np.cumsum(noisy) <= limits)
    return int(empty[-1]) if len(empty) else 0


def span(fine: BinEdges, first: int, last: int) -> tuple[Any, Any]:
    """Returns the bounds of the bins `first` to `last`: the last whole step where the column has steps."""
    low, high = fine.edges[first], fine.edges[last + 1]
    if fine.edges.dtype != np.int64:
        return float(low), float(high)
    # A schema wants two different bounds.
    return int(low), max(int(high) - 1, int(low) + 1)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A column after discovery, None when nothing stood out of the noise; and a note for who reads the schema file."""

    column: Column | None
    note: str


def from_bounds(gap: Gap, bounds: tuple[Any, Any] | None, missing: float, std: float) -> Finding:
    """Returns the finding on a numeric column.

    Its `bounds`, as float64 or whole steps, are None if no value stood out. `missing` is the noisy number of records
    without a value, with noise of the standard deviation `std`, in records.
    """
    if bounds is None:
        return Finding(column=None, note="ignored: no value stood out of the noise; if you know bounds, write them")
    note = f"values outside are moved to the nearer bound; {max(missing, 0):.0f} ± {2 * std:.0f} records lack a value"
    column: type[Column] = {Continuous.kind: Continuous, Integer.kind: Integer, Date.kind: Date}.get(gap.kind, Datetime)
    lower, upper = bounds
    if column is Date:
        lower, upper = (date.fromordinal(_EPOCH.toordinal() + step) for step in bounds)
    elif column is Datetime:
        zone = UTC if gap.kind == MOMENT_IN_UTC else None
        lower, upper = ((_EPOCH + timedelta(microseconds=step)).replace(tzinfo=zone) for step in bounds)
    described: Any = {"name": gap.name, "lower": lower, "upper": upper, "missing": gap.missing}
    return Finding(column=column(**described), note=note)


def from_levels(
    gap: Gap, levels: Mapping[str, float], missing: float | None, least: float, missing_values: Collection[str]
) -> Finding:
    """Returns the finding on a column of text.

    `levels` and `missing` are the noisy numbers of records with each level and without a value that reached the
    threshold, `least` records. Text that stands for a missing value can be no level.
    """
    if not levels:
        note = f"ignored: no level had about {least:.0f} records or more; free text or identifiers, or too few records"
        return Finding(column=None, note=note)
    other = OTHER
    while other in levels or other in missing_values:
        other = f"({other})"
    lack = f"fewer than about {least:.0f}" if missing is None else f"about {missing:.0f}"
    note = f"levels of fewer than about {least:.0f} records became {json.dumps(other)}; {lack} records lack a value"
    column = Categorical(name=gap.name, levels=(*sorted(levels), other), other=other, missing=gap.missing)
    return Finding(column=column, note=note)


def schema_text(partial: PartialSchema, findings: Mapping[str, Finding], headline: str) -> str:
    """Returns a schema file, TOML: the lines of `headline`, and a comment above each column that was discovered."""
    known = {name: findings[name].column if name in findings else column for name, column in partial.columns.items()}
    columns = {name: column for name, column in known.items() if column is not None and not isinstance(column, Gap)}
    ignored = [name for name in known if name not in columns]
    top: dict[str, Any] = {"label": partial.label} if partial.label in columns else {}
    if partial.missing_values != DEFAULT_MISSING_VALUES:
        top["missing_values"] = list(partial.missing_values)
    if ignored:
        top["ignore"] = ignored
    notes = [f"{json.dumps(name)}: {findings[name].note}" for name in ignored if name in findings]
    head = "".join(f"# {line}\n" for line in [*headline.splitlines(), *notes])
    text = write_toml({**top, "columns": {name: column_form(column) for name, column in columns.items()}})
    return head + "\n" + "\n".join(_commented(text, [findings.get(name) for name in columns])) + "\n"


def _commented(text: str, findings: list[Finding | None]) -> Iterator[str]:
    """Yields the lines of a schema file; lines that begin a column, in the order of the findings, after their note."""
    left = iter(findings)
    for line in text.removesuffix("\n").split("\n"):  # a level may hold other characters that end a line
        finding = next(left) if line.startswith("[columns.") else None
        if finding is not None:
            yield f"# {finding.note}"
        yield line
