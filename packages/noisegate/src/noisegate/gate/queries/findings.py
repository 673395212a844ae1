"""What discovery found, from noisy counts to a schema file with a note on each column: released values alone (G-08)."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from noisegate.gate.queries.bounds import Counts, Occupied, rounded, span
from noisegate.gate.queries.exact_counts import BinEdges
from noisegate.schema.columns import Categorical, Column, Continuous, Date, Datetime, Integer, column_form
from noisegate.schema.files import write_toml
from noisegate.schema.partial import Gap, PartialSchema
from noisegate.schema.schema import DEFAULT_MISSING_VALUES

OTHER = "other"
_MUCH = 0.1
"""Part of the records whose level was merged into another that is told as a doubt."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A column after discovery, None when nothing stood out of the noise; and a note for who reads the schema file."""

    column: Column | None
    note: str
    doubt: str = ""
    """What is to be looked at before the column is used."""


def unseen_bounds(gap: Gap) -> Finding:
    """Returns the finding on a numeric column of which no value stood out."""
    return Finding(column=None, note="ignored: no value stood out of the noise; if you know bounds, write them")


def from_bounds(gap: Gap, ends: tuple[Any, Any] | None, missing: float, std: float, *, doubt: str = "") -> Finding:
    """Returns the finding on a numeric column of which values stood out of the noise.

    Its bounds, as float64 or whole steps, are None if zeros alone did. `missing` is the noisy number of records without
    a value, with noise of the standard deviation `std`, in records.
    """
    lack = f"; {max(missing, 0):.0f} ± {2 * std:.0f} records lack a value" if gap.missing else ""
    note = f"values outside are moved to the nearer bound{lack}"
    if ends is None:
        doubt = "nothing but zero stood out of the noise, and 0 to 1 is a guess: write bounds, if you know them"
    lower, upper = (0, 1) if ends is None else rounded(gap.kind, *ends)
    kind: type[Column] = {Continuous.kind: Continuous, Integer.kind: Integer, Date.kind: Date}.get(gap.kind, Datetime)
    described: Any = {"name": gap.name, "lower": lower, "upper": upper, "missing": gap.missing}
    return Finding(column=kind(**described), note=f"{doubt}; {note}" if doubt else note, doubt=doubt)


def between(kind: str, coarse: BinEdges, found: Occupied) -> str:
    """Returns in words where hardly a value lies: what is beyond may be a code such as 999999, or noise."""
    if found.gap is None:
        return ""
    low, _ = rounded(kind, *span(coarse, found.gap[0], found.gap[0]))
    _, high = rounded(kind, *span(coarse, found.gap[1], found.gap[1]))
    return (
        f"hardly a value lies between those of about {low} and those of about {high}: one of both may be a code, to be "
        "stated under atoms, or noise"
    )


def beyond(coarse: BinEdges, found: Occupied, noisy: Counts, cells: Counts, std: float) -> str:
    """Returns in words that hardly a record lies where the second look looked: its values lie beyond what is counted.

    `noisy` are the counts of the first look and `cells` those of the second, with noise of `std`, all in records.
    """
    first = float(noisy[found.first : found.last + 1].sum())
    inside, doubt = float(cells.sum()), 2 * std * math.sqrt(len(cells) + found.last - found.first + 1)
    if found.first == found.last == coarse.zero or inside + doubt > first / 2:
        return ""
    return (
        f"about {max(inside, 0):.0f} of about {first:.0f} records lie within these bounds, and the others beyond all "
        "numbers that are counted: write bounds, if you know them, or ignore the column"
    )


def from_levels(
    gap: Gap,
    levels: Mapping[str, float],
    missing: float | None,
    least: float,
    missing_values: Collection[str],
    records: int | None = None,
) -> Finding:
    """Returns the finding on a column of text.

    `levels` and `missing` are the noisy numbers of records with each level and without a value that reached the
    threshold, `least` records. Text that stands for a missing value can be no level. `records` is how many there are
    about, where that is public.
    """
    if not levels:
        note = f"ignored: no level had about {least:.0f} records or more; free text or identifiers, or too few records"
        return Finding(column=None, note=note)
    other = OTHER
    while other in levels or other in missing_values:
        other = f"({other})"
    few = f"fewer than about {least:.0f}"
    lack = f"; {few if missing is None else f'about {missing:.0f}'} records lack a value" if gap.missing else ""
    doubt, merged = "", f"levels of {few} records became {json.dumps(other)}"
    rest = 0.0 if records is None else (records - sum(levels.values()) - (missing or 0.0)) / records
    if rest > _MUCH:
        doubt = f"{merged}, which some {rest:.0%} of the records have: state all levels, if they are publicly known"
    column = Categorical(name=gap.name, levels=(*sorted(levels), other), other=other, missing=gap.missing)
    return Finding(column=column, note=f"{doubt or merged}{lack}", doubt=doubt)


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
