"""How far records of a pairwise plan will be from the real ones, from public facts: before anything is spent.

The noise on the share that half the cells of a one-way table hold together (`expected_error`) says it best: over
tables, ε and numbers of records, the odds of a record to be in a wrong cell grew with a power of it. A fit denoises, so
the power is below 1. The constants are those of `benchmarks/tables/verdict.py`, which says how well they do on tables
that they were not chosen on.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from noisegate.answers.design import COUNTS, PAIRS, SINGLES, Columns, Design
from noisegate.answers.released import Answered
from noisegate.answers.verdict import (
    MISPLACED,
    WORDS,
    Source,
    Verdict,
    Word,
    in_percent,
    word_of_misplaced,
)
from noisegate.errors import OptionError
from noisegate.models.checkpoint import Fit
from noisegate.privacy.plan import Budget, CalibratedPlan
from noisegate.privacy.release import Release
from noisegate.schema import Schema


@dataclass(frozen=True, kw_only=True)
class TableError:
    """What the noise does to tables of one kind; shares are of all records.

    Attributes:
        tables: How many are asked, at most.
        cells: Cells of one, in the mean.
        cell: Standard deviation of the noise on the share of one cell.
        half: On the share that half of a table's cells hold together: what a question of yes or no is off by.
        variation: Expected total variation of a table from the true one, before anything is denoised; above 1 a table
            is more noise than records.
    """

    tables: int
    cells: float
    cell: float
    half: float
    variation: float


def expected_error(plan: CalibratedPlan, records: int) -> dict[str, TableError]:
    """Returns what noise does to one-way tables and to pairs, by the names of their queries; pairs only if asked.

    Args:
        plan: Made by the pairwise method.
        records: Their number, as far as the public knows; at least 1.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> plan = Pairwise().plan(Schema([Boolean(name=name) for name in "abcd"]), Budget(epsilon=1.0))
        >>> {name: (error.tables, round(error.half, 3)) for name, error in expected_error(plan, 1000).items()}
        {'one-way': (4, 0.016), 'pairs': (6, 0.015)}
    """
    noise = {
        release.query.name: (release.noise_std_natural, release.query.tables)
        for release in plan.releases
    }
    return table_errors(plan.design, noise, records)


def table_errors(
    design: Design, noise: Mapping[str, tuple[float, int | None]], records: float
) -> dict[str, TableError]:
    """Returns the same for a design whose queries have this noise, by their names.

    Each has a standard deviation, and how many tables share it; None for as many as the design has.
    """
    label = () if design.label is None else (design.label,)
    sizes = design.about_sizes
    kinds: dict[str, tuple[Columns, ...]] = {
        SINGLES: tuple((column,) for column in design.alone)
    }
    if PAIRS in noise:
        # While pairs are not chosen yet, any of them may be.
        kinds[PAIRS] = (
            design.screened_pairs
            if design.pairs is None
            else (*design.pairs, *design.triples)
        )
    return {
        name: _error(
            [
                math.prod(sizes[column] for column in (*table, *label))
                for table in tables
            ],
            noise[name][1] or len(tables),
            noise[name][0],
            records,
        )
        for name, tables in kinds.items()
    }


def _error(
    cells: list[int], tables: int, noise_std: float, records: float
) -> TableError:
    # A query's norm of 1 is shared by its tables, each record being in one cell of each.
    cell = noise_std * math.sqrt(tables) / records
    return TableError(
        tables=tables,
        cells=sum(cells) / len(cells),
        cell=cell,
        half=cell * sum(math.sqrt(size / 2) for size in cells) / len(cells),
        # The mean of |z| is √(2/π) of its standard deviation.
        variation=cell * sum(cells) / len(cells) * math.sqrt(2 / math.pi) / 2,
    )


# The noise at which half the records are in a wrong cell, and the power.
_PAIRS, _SINGLES = (0.75, 0.775), (3.0, 0.725)
# The noise up to which half of the tables with numbers keep 80 % of their coefficients.
_COEFFICIENTS = 0.002


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What the noise of a plan will do to the records that are made under it.

    Attributes:
        records: How many real ones there are.
        noise: Standard deviation of the noise on the share of half of a column's cells, before anything is denoised.
        columns: How many columns there are, without a label whose classes are told apart.
        paired: Whether pairs of columns are measured; where not, columns come out independent of each other.
        measured: How many of the pairs that the plan names are measured among so many records, and how many it names.
        regressions: Whether numbers may be explained by other columns, of which only a fit knows more.
    """

    records: float
    noise: float
    columns: int
    paired: bool
    measured: tuple[int, int] = (0, 0)
    regressions: bool = False

    @property
    def singles(self) -> float:
        """Expected total variation error of a single column."""
        return _misplaced(self.noise, *_SINGLES)

    @property
    def pairs(self) -> float:
        """Expected total variation error of a pair of columns."""
        return _misplaced(self.noise, *_PAIRS)

    @property
    def word(self) -> Word:
        """What that is called; where columns come out independent of each other, "rough" at best."""
        if self.columns == 1 or (self.paired and self.measured[0] == self.measured[1]):
            word = word_of_misplaced(self.pairs if self.paired else self.singles)
            return (
                "usable"
                if word == "good" and self.regressions and self.noise > _COEFFICIENTS
                else word
            )
        return "noise" if self.singles > MISPLACED["rough"] else "rough"

    def takes(self) -> dict[Word, float]:
        """Returns how many records each word takes that can be had."""
        half, power = _PAIRS if self.paired else _SINGLES
        possible = MISPLACED if self.paired or self.columns == 1 else ("rough",)
        noises = {
            word: half * (most / (1 - most)) ** (1 / power)
            for word, most in MISPLACED.items()
        }
        noises["good"] = min(
            noises["good"], _COEFFICIENTS if self.regressions else math.inf
        )
        needed = {
            word: self.records * self.noise / noise for word, noise in noises.items()
        }
        return {word: records for word, records in needed.items() if word in possible}


def forecast(plan: CalibratedPlan, records: float) -> Forecast:
    """Returns what to expect of a plan of the pairwise method for a number of records.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> plan = Pairwise().plan(Schema([Boolean(name=name) for name in "abcd"]), Budget(epsilon=1.0))
        >>> forecast(plan, 10).word, forecast(plan, 100_000).word
        ('noise', 'good')
        >>> few = forecast(plan, 10)
        >>> round(forecast(plan, few.takes()["good"]).pairs, 6)
        0.04
    """
    stds = {release.query.name: release.noise_std_natural for release in plan.releases}
    found = _forecast(expected_error(plan, 1), plan.design, records, stds.get(PAIRS))
    return replace(found, regressions=found.paired and bool(plan.design.layout.numeric))


def forecast_of(design: Design, release: Answered, records: float) -> Forecast:
    """Returns what to expect of a release of a design, for a number of records that the release says or is public."""
    noise = {name: (std, None) for name, std in release.noise_std.items()}
    return _forecast(table_errors(design, noise, 1), design, records, None)


def _forecast(
    errors: Mapping[str, TableError],
    design: Design,
    records: float,
    noise_std: float | None,
) -> Forecast:
    measured, pairs = (0, 0), design.pairs
    if pairs and noise_std is not None:
        measured = len(design.measured_for(records, pairs, noise_std)[0]), len(pairs)
    noise, paired = errors[SINGLES].half / records, PAIRS in errors
    return Forecast(
        records=records,
        noise=noise,
        columns=len(design.columns),
        paired=paired,
        measured=measured,
    )


def _misplaced(noise: float, half: float, power: float) -> float:
    grown: float = (noise / half) ** power
    return grown / (1 + grown)


# ε that are worth asking for, and cells of numeric columns.
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0)
_CELLS = (16, 12, 8, 6, 4)
# With more columns only a number of records is looked for: every other cure takes plans, and they take time.
_WIDE = 100
# Fewer records than this many noise standard deviations cannot be told from none.
_SEEN = 3.0


def verdict_of_plan(
    method: Any, schema: Any, budget: Budget, records: int | None
) -> Verdict | None:
    """Returns what to expect before anything is spent; None where the method has no forecast.

    Args:
        method: A `noisegate.methods.method.Method`.
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
        return Verdict(
            word=None, source="plan", reasons=(reason,), figures={"records_for": needed}
        )
    # What fewer columns or cells would do is not looked for in several tables.
    cures = (
        _cures(method, schema, budget, expected)
        if isinstance(schema, Schema)
        else _more_records(expected)
    )
    verdict = _expected(expected, budget.epsilon, "plan", cures)
    return replace(verdict, figures={**verdict.figures, "records_for": needed})


def verdict_of_fit(
    method: Any, release: Release, fitting: Fit, *, records: float | None = None
) -> Verdict | None:
    """Returns what a fit came to, from its release alone and how near it is to it; None where these say nothing.

    About how many `records` there are may be known from elsewhere in the release.
    """
    parts: list[Verdict] = []
    counts = release.values.get(COUNTS)
    records = (
        release.certificate.public.get("records")
        or records
        or (None if counts is None else float(counts.sum()))
    )
    expected = (
        None
        if records is None
        else method.forecast_of(release, fitting, max(float(records), 1.0))
    )
    if expected is not None:
        parts.append(
            _expected(
                expected, release.certificate.epsilon, "fit", _more_records(expected)
            )
        )
    if counts is not None:
        parts += _drowned(release.schema, counts.ravel(), release.noise_std[COUNTS])
    parts += method.judged(fitting)
    distance = fitting.discrepancy
    if math.isfinite(distance):
        far = method.is_far(fitting)
        reason = f"the fit ended {distance:.1f} times as far from its release as the noise explains"
        cure = "the same fit with another seed or more steps, which costs no privacy"
        word: Word | None = "rough" if far else None
        told = {"distance": distance}
        parts.append(
            Verdict(
                word=word,
                source="fit",
                reasons=(reason,) * far,
                cures=(cure,) * far,
                figures=told,
            )
        )
    return Verdict.together(parts)


def _drowned(schema: Schema, counts: Any, noise_std: float) -> Iterator[Verdict]:
    """Yields what noisy counts of classes say, where some cannot be told from none."""
    if counts.sum() < _SEEN * noise_std * math.sqrt(counts.size):
        yield Verdict(
            word="noise",
            source="fit",
            reasons=("the noise is larger than the number of records",),
        )
        return
    column = schema.label_column
    levels = [str(level) for level in getattr(column, "levels", ())]
    names = [
        level
        for level, count in zip(levels, counts, strict=False)
        if count < _SEEN * noise_std
    ]
    if column is not None and len(counts) > 1 and names:
        told = (
            f"{', '.join(names[:5])}{f' and {len(names) - 5} more' * (len(names) > 5)}"
        )
        reason = f"{told} of {column.name!r} cannot be distinguished from noise (too few records)"
        yield Verdict(
            word=None,
            source="fit",
            reasons=(reason,),
            figures={"drowned_classes": names},
        )


def _expected(
    expected: Forecast, epsilon: float, source: Source, cures: Iterable[str]
) -> Verdict:
    """Returns the verdict of a forecast; what would lead to a better one is only looked for where there is one."""
    single, pair = in_percent(expected.singles), in_percent(expected.pairs)
    reason = f"for about {round(expected.records):,} records at epsilon={epsilon:g}, expect a total variation error of "
    reasons = [
        reason
        + f"{single} per column"
        + f" and {pair} per pair of columns" * expected.paired
    ]
    if not expected.paired and expected.columns > 1:
        reasons.append(
            "no pairs of columns are measured: synthetic columns are independent"
        )
    if expected.measured[0] < expected.measured[1]:
        told = "only those with the label" if expected.measured[0] else "none"
        reasons.append(
            f"of {expected.measured[1]:,} pairs of columns {told} would be measured, for the noise on them"
        )
    if expected.paired and expected.columns > 2:
        reasons.append(
            "interactions of three columns are kept only with a label of classes, or in `triples`"
        )
    if expected.word == "usable" and word_of_misplaced(expected.pairs) == "good":
        reasons.append(
            "regressions of numbers on all other columns may keep less than 80% of their coefficients"
        )
    return Verdict(
        word=expected.word,
        source=source,
        reasons=tuple(reasons),
        cures=() if expected.word == "good" else tuple(cures),
        figures={
            "records": expected.records,
            "expected_out_of_place_in_singles": expected.singles,
            "expected_out_of_place_in_pairs": expected.pairs
            if expected.paired
            else None,
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


def _cures(method: Any, schema: Schema, budget: Budget, now: Forecast) -> Iterator[str]:
    """Yields what would lead to "usable", or from there to "good", each change alone."""
    goal = _goal(now)
    if not now.paired and now.columns > 1:
        yield "pairs='auto', which measures pairs of columns"
        return

    def reaches(
        schema: Schema = schema, method: Any = method, epsilon: float = budget.epsilon
    ) -> bool:
        try:
            there = method.forecast(
                schema, replace(budget, epsilon=epsilon), now.records
            )
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
        least, most = (
            (middle, most) if reaches(_part(schema, middle)) else (least, middle)
        )
    if least > 2:
        yield f"{goal} with {least} of the {len(schema.columns)} columns or fewer"
    cells = getattr(method, "cells", 0)
    coarser = (
        (fewer for fewer in _CELLS if fewer < (cells or math.inf))
        if cells != 0 and schema.layout.numeric
        else ()
    )
    coarse = next(
        (fewer for fewer in coarser if reaches(method=replace(method, cells=fewer))),
        None,
    )
    if coarse is not None:
        yield f"{goal} with cells={coarse} or fewer, which blurs numeric columns"


def _part(schema: Schema, columns: int) -> Schema:
    """Returns a schema of so many columns, the label among them, spread over those that there are."""
    label = [column for column in schema.columns if column.name == schema.label]
    others = [column for column in schema.columns if column.name != schema.label]
    kept = columns - len(label)
    return Schema(
        (*(others[place * len(others) // kept] for place in range(kept)), *label),
        label=schema.label,
    )


def rounded_up(records: float) -> int:
    """Returns a number of records with two digits, no smaller."""
    unit: int = 10 ** max(math.ceil(math.log10(max(records, 1.0))) - 2, 0)
    return math.ceil(records / unit) * unit
