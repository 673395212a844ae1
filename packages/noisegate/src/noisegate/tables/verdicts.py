"""What a plan promises and what a fit has reached, in words: from public facts, and from what left the gate besides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from noisegate.errors import OptionError
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.tables.design import COUNTS
from noisegate.verdict import WORDS, Source, Verdict, Word, in_hundred

if TYPE_CHECKING:
    from noisegate.models.checkpoint import Fit
    from noisegate.tables.forecast import Forecast

# ε that are worth asking for, and cells of numeric columns.
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0)
_CELLS = (16, 12, 8, 6, 4)
# With more columns only a number of records is looked for: every other cure takes plans, and they take time.
_WIDE = 100
# Fewer records than this many noise standard deviations cannot be told from none.
_SEEN = 3.0


class Forecasting(Protocol):
    """What a verdict asks a method; see `noisegate.methods.method.Method`."""

    def forecast(self, schema: Any, budget: Budget, records: float) -> Forecast | None:
        """Returns how far records are expected to be from so many real ones; None where nobody knows."""

    def forecast_of(self, release: Release, fitting: Any, records: float) -> Forecast | None:
        """Returns the same of what has left the gate, and of its fit."""

    def is_far(self, fitting: Any) -> bool:
        """Returns whether a fit ended too far from its release to be relied on."""


def verdict_of_plan(method: Forecasting, schema: Any, budget: Budget, records: int | None) -> Verdict | None:
    """Returns what to expect before anything is spent; None where the method has no forecast.

    Args:
        method: With its settings.
        schema: Public knowledge about the records, a `Schema` or a `LinkedSchema`.
        budget: That is asked for.
        records: Their number, as far as the public knows; None for how many each word takes.
    """
    expected = method.forecast(schema, budget, records or 1)
    if expected is None:
        return None
    needed = {word: rounded_up(least) for word, least in expected.takes().items()}
    if records is None:
        takes = ", ".join(f"{word} from {least:,}" for word, least in needed.items())
        reason = f"at epsilon={budget.epsilon:g} it depends on the number of records: {takes}; noise with fewer"
        return Verdict(word=None, source="plan", reasons=(reason,), figures={"records_for": needed})
    # What fewer columns or cells would do is not looked for in several tables.
    cures = _cures(method, schema, budget, expected) if isinstance(schema, Schema) else _more_records(expected)
    verdict = _expected(expected, budget.epsilon, "plan", cures)
    return replace(verdict, figures={**verdict.figures, "records_for": needed})


def verdict_of_fit(
    method: Forecasting, release: Release, fitting: Fit, *, records: float | None = None
) -> Verdict | None:
    """Returns what a fit came to, from its release alone and how near it is to it; None where these say nothing.

    About how many `records` there are may be known from elsewhere in the release.
    """
    parts: list[Verdict] = []
    counts = release.values.get(COUNTS)
    records = release.certificate.public.get("records") or records or (None if counts is None else float(counts.sum()))
    expected = None if records is None else method.forecast_of(release, fitting, max(float(records), 1.0))
    if expected is not None:
        parts.append(_expected(expected, release.certificate.epsilon, "fit", _more_records(expected)))
    if counts is not None:
        parts += _drowned(release.schema, counts.ravel(), release.noise_std[COUNTS])
    distance = fitting.discrepancy
    if math.isfinite(distance):
        far = method.is_far(fitting)
        reason = f"the fit ended {distance:.1f} times as far from its release as the noise explains"
        parts.append(
            Verdict(
                word="rough" if far else None,
                source="fit",
                reasons=(reason,) if far else (),
                cures=("the same fit with another seed or more steps, which costs no privacy",) if far else (),
                figures={"distance": distance},
            )
        )
    return Verdict.together(parts)


def _drowned(schema: Schema, counts: Any, noise_std: float) -> Iterator[Verdict]:
    """Yields what noisy counts of classes say, where some cannot be told from none."""
    if counts.sum() < _SEEN * noise_std * math.sqrt(counts.size):
        yield Verdict(word="noise", source="fit", reasons=("the noise is larger than the number of records",))
        return
    column = schema.label_column
    levels = [str(level) for level in getattr(column, "levels", ())]
    names = [level for level, count in zip(levels, counts, strict=False) if count < _SEEN * noise_std]
    if column is not None and len(counts) > 1 and names:
        told = f"{', '.join(names[:5])}{f' and {len(names) - 5} more' * (len(names) > 5)}"
        reason = f"of the classes of {column.name!r} the noise drowns {told}: few records, or none"
        yield Verdict(word=None, source="fit", reasons=(reason,), figures={"drowned_classes": names})


def _expected(expected: Forecast, epsilon: float, source: Source, cures: Iterable[str]) -> Verdict:
    """Returns the verdict of a forecast; what would lead to a better one is only looked for where there is one."""
    single, pair = in_hundred(expected.singles), in_hundred(expected.pairs)
    reason = f"of about {round(expected.records):,} records at epsilon={epsilon:g}, expect {single} out of place in "
    reasons = [reason + "a single column" + f", {pair} in a pair of columns" * expected.paired]
    if not expected.paired and expected.columns > 1:
        reasons.append("no pairs of columns are measured: columns come out independent of each other")
    return Verdict(
        word=expected.word,
        source=source,
        reasons=tuple(reasons),
        cures=() if expected.word == "good" else tuple(cures),
        figures={
            "records": expected.records,
            "expected_out_of_place_in_singles": expected.singles,
            "expected_out_of_place_in_pairs": expected.pairs if expected.paired else None,
        },
    )


def _goal(now: Forecast) -> Word:
    return "good" if now.word == "usable" else "usable"


def _more_records(now: Forecast) -> Iterator[str]:
    """Yields how many records would do, where any number does."""
    goal = _goal(now)
    if goal in (takes := now.takes()):
        yield f"{goal} with {rounded_up(takes[goal]):,} records or more"
        yield "`noisegate plan` says which epsilon, columns or cells would do, before anything is spent again"


def _cures(method: Forecasting, schema: Schema, budget: Budget, now: Forecast) -> Iterator[str]:
    """Yields what would lead to "usable", or from there to "good", each change alone."""
    goal = _goal(now)
    if not now.paired and now.columns > 1:
        yield "pairs='auto', which measures pairs of columns"
        return

    def reaches(schema: Schema = schema, method: Forecasting = method, epsilon: float = budget.epsilon) -> bool:
        try:
            there = method.forecast(schema, replace(budget, epsilon=epsilon), now.records)
        except OptionError:
            return False  # a setting names a column that would be gone
        return there is not None and WORDS.index(there.word) >= WORDS.index(goal)

    yield from islice(_more_records(now), 1)
    if now.columns > _WIDE:
        return
    higher = [epsilon for epsilon in _EPSILONS if epsilon > budget.epsilon]
    enough = next((epsilon for epsilon in higher if reaches(epsilon=epsilon)), None)
    if enough is not None:
        yield f"{goal} with epsilon={enough:g} or more"
    # The noise falls with every column that is left out, so that halving the interval finds the most.
    least, most = 1, len(schema.columns)
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if reaches(_part(schema, middle)) else (least, middle)
    if least > 2:
        yield f"{goal} with {least} of the {len(schema.columns)} columns or fewer"
    cells = getattr(method, "cells", 0)
    coarser = (fewer for fewer in _CELLS if fewer < (cells or math.inf)) if cells != 0 and schema.layout.numeric else ()
    coarse = next((fewer for fewer in coarser if reaches(method=_with_cells(method, fewer))), None)
    if coarse is not None:
        yield f"{goal} with cells={coarse} or fewer, which blurs numeric columns"


def _with_cells(method: Any, cells: int) -> Any:
    return replace(method, cells=cells)


def _part(schema: Schema, columns: int) -> Schema:
    """Returns a schema of so many columns, the label among them, spread over those that there are."""
    label = [column for column in schema.columns if column.name == schema.label]
    others = [column for column in schema.columns if column.name != schema.label]
    kept = columns - len(label)
    return Schema((*(others[place * len(others) // kept] for place in range(kept)), *label), label=schema.label)


def rounded_up(records: float) -> int:
    """Returns a number of records with two digits, no smaller."""
    unit: int = 10 ** max(math.ceil(math.log10(max(records, 1.0))) - 2, 0)
    return math.ceil(records / unit) * unit
