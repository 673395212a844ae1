"""Forecasts: how far synthetic records will be from the real ones, and verdicts on it.

A forecast follows from public facts, before anything is spent. It starts from the noise
on the share of records that half the cells of a one-way table hold together
(`expected_error`). Over tables, ε and numbers of records, the odds of a synthetic
record to be in a wrong cell grew with a power of that noise, below 1 as a fit denoises.
Those constants come from `benchmarks/tables/verdict.py` as it stood at commit 14f1ae5e.
The word for a noise is the one that most of many real tables reached at it
(`noisegate.methods.word_odds`).

Verdicts put a forecast in words: that of a plan with what would lead to a better one
(`verdict_of_plan`), that of a fit with what its release shows (`verdict_of_fit`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.answers.design import COUNTS, PAIRS, SINGLES, Columns, Design
from noisegate.answers.findings import (
    QUESTIONS,
    Answer,
    Question,
    VerdictFinding,
    questions_of_table,
)
from noisegate.answers.rounds import Answered
from noisegate.answers.verdict import (
    MISPLACED,
    WORDS,
    Source,
    Verdict,
    Word,
    in_percent,
    not_known,
    of_misplaced,
    word_of_misplaced,
)
from noisegate.errors import OptionError
from noisegate.methods.word_odds import (
    ODDS,
    RECORDS_CERTAINTY,
    likely_word,
    word_shares,
)
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema

# Values of ε that are worth proposing, and numbers of cells of numeric columns.
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0)
_CELLS = (16, 12, 8, 6, 4)
# With more columns, only a number of records is proposed: all else takes plans of the
# whole table, and they take time.
_MAX_COLUMNS_OF_SEARCH = 100
# Fewer records than this many standard deviations of the noise look like none.
_MIN_VISIBLE = 3.0
# Names in a list of classes, before the others are counted.
_MAX_NAMES = 5
# Why a question has no answer. What a release shows is not known before the fit, and
# what it does not show is known to an evaluation alone.
_REASONS_OF_PLAN: Mapping[Question, str] = {
    "values missing together": "needs the release",
    "regressions": "needs the release",
    "what models learn of the label": "needs the training records",
    "means and tails": "needs the training records",
}
_REASONS_OF_FIT: Mapping[Question, str] = {
    "values missing together": "the release does not tell",
    "regressions": "the release does not tell",
    "what models learn of the label": "needs the training records",
    "means and tails": "needs the training records",
}


@dataclass(frozen=True, kw_only=True)
class TableError:
    """What the noise does to tables of one kind; shares are of all records.

    Attributes:
        table_count: Number of tables that are measured, at most.
        mean_cells: Cells of a table, on average.
        noise_on_cell: Standard deviation of the noise on the share of one cell.
        noise_on_half: The same on the share that half of a table's cells hold together.
            A question of yes or no sums about half of them, and is off by that much.
        total_variation: Expected total variation distance of a table from the true one,
            before anything is denoised. Above 1 a table is more noise than records.
    """

    table_count: int
    mean_cells: float
    noise_on_cell: float
    noise_on_half: float
    total_variation: float


class QueryNoise(NamedTuple):
    """The noise of one query about tables.

    Attributes:
        noise_std: Standard deviation of the noise on the query, whose vectors have norm
            1, over all of its tables.
        table_count: How many tables share that norm, as a plan states it: at most so
            many, where pairs are yet to be chosen. None for those of the design, as of
            a release, whose tables are known.
    """

    noise_std: float
    table_count: int | None


def expected_error(plan: Plan, records: float) -> dict[str, TableError]:
    """Computes what the noise does to one-way tables and to pairs.

    Args:
        plan: A plan of the pairwise method.
        records: Number of records, as far as the public knows; positive.

    Returns:
        The errors by the names of their queries; pairs only if they are measured.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name=name) for name in "abcd"])
        >>> errors = expected_error(Pairwise().plan(schema, Budget(epsilon=1.0)), 1000)
        >>> {name: round(error.noise_on_half, 3) for name, error in errors.items()}
        {'one-way': 0.016, 'pairs': 0.015}
    """
    noise = {
        release.query.name: QueryNoise(release.noise_std_natural, release.query.tables)
        for release in plan.releases
    }
    return table_errors(plan.design, noise, records)


def table_errors(
    design: Design, noise: Mapping[str, QueryNoise], records: float
) -> dict[str, TableError]:
    """Computes what the noise does to the tables of a design.

    Tables of single columns are one query, `SINGLES`, which every design has. Pairs and
    triples are together another one, `PAIRS`: they share its norm and so have the same
    noise. Where a label has classes that are distinguished, it is a further column of
    each table. Sizes of numeric columns are those that the design aims at.

    Args:
        design: The queries about a table.
        noise: The noise of each query by its name. `SINGLES` is needed; `PAIRS` may be
            missing, and all others are ignored.
        records: Number of records, in which errors are shares.

    Returns:
        The errors by the names of their queries; `PAIRS` only if it is in `noise`.
    """
    label: Columns = () if design.label is None else (design.label,)
    sizes = design.about_sizes
    tables_of_query: dict[str, tuple[Columns, ...]] = {
        SINGLES: tuple((column,) for column in design.single_columns)
    }
    if PAIRS in noise:
        if design.pairs is None:
            # Pairs are not chosen yet, and any of them may be.
            tables_of_query[PAIRS] = design.all_pairs
        else:
            tables_of_query[PAIRS] = (*design.pairs, *design.triples)

    errors = {}
    for name, tables in tables_of_query.items():
        query_noise = noise[name]
        cell_counts = [
            math.prod(sizes[column] for column in (*table, *label)) for table in tables
        ]
        errors[name] = _table_error(
            cell_counts,
            table_count=query_noise.table_count or len(tables),
            noise_std=query_noise.noise_std,
            records=records,
        )
    return errors


def _table_error(
    cell_counts: list[int], *, table_count: int, noise_std: float, records: float
) -> TableError:
    """Computes what the noise does to tables of one query.

    With T tables that share the norm 1 of the query, a record has 1/√T in one cell of
    each, so that the noise on a count is √T times that of the query. As a share of n
    records it is s = σ √T / n. In a table of C cells, half of them together have the
    noise s √(C / 2), and the total variation distance, half the sum of the absolute
    noise, is C s √(2 / π) / 2 on average. Both are means over the tables.

    Args:
        cell_counts: Number of cells C of each table that may be measured.
        table_count: Number T of tables that share the norm of the query. It is less
            than there are tables if only some of them will be chosen.
        noise_std: Standard deviation σ of the noise on a query of norm 1.
        records: Number n of records, positive.
    """
    noise_on_cell = noise_std * math.sqrt(table_count) / records
    mean_cells = sum(cell_counts) / len(cell_counts)
    mean_root_of_half = sum(math.sqrt(cells / 2) for cells in cell_counts) / len(
        cell_counts
    )
    # The mean of |z| is √(2/π) for a standard normal z.
    mean_deviation = noise_on_cell * math.sqrt(2 / math.pi)
    return TableError(
        table_count=table_count,
        mean_cells=mean_cells,
        noise_on_cell=noise_on_cell,
        noise_on_half=noise_on_cell * mean_root_of_half,
        total_variation=mean_cells * mean_deviation / 2,
    )


@dataclass(frozen=True)
class ErrorCurve:
    """The share of records in a wrong cell, as a function of the noise.

    The odds of that share are ``(noise / half_noise) ** power``.

    Attributes:
        half_noise: The noise at which half of the records are in a wrong cell.
        power: How the odds grow with the noise.
    """

    half_noise: float
    power: float

    def misplaced(self, noise: float) -> float:
        """Computes the share of records in a wrong cell at a noise."""
        odds: float = (noise / self.half_noise) ** self.power
        return odds / (1 + odds)

    def noise_for(self, misplaced: float) -> float:
        """Computes the noise at which such a share of records is in a wrong cell."""
        odds = misplaced / (1 - misplaced)
        noise: float = self.half_noise * odds ** (1 / self.power)
        return noise


_PAIR_CURVE = ErrorCurve(half_noise=0.75, power=0.775)
_COLUMN_CURVE = ErrorCurve(half_noise=3.0, power=0.725)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What the noise of a plan will do to the records that are made under it.

    Attributes:
        records: Number of real records.
        noise: Standard deviation of the noise on the share of half of a column's cells,
            before anything is denoised.
        columns: Number of columns, without a label whose classes are distinguished.
        paired: Whether pairs of columns are measured. Where they are not, columns come
            out independent of each other.
        measured_pairs: Number of pairs that are measured among so many records.
        planned_pairs: Number of pairs that the plan names.
    """

    records: float
    noise: float
    columns: int
    paired: bool
    measured_pairs: int = 0
    planned_pairs: int = 0

    @property
    def singles(self) -> float:
        """Expected total variation distance of a single column."""
        return _COLUMN_CURVE.misplaced(self.noise)

    @property
    def pairs(self) -> float:
        """Expected total variation distance of a pair of columns."""
        return _PAIR_CURVE.misplaced(self.noise)

    @property
    def word(self) -> Word:
        """The verdict in a word.

        It is what most real tables reach at this noise, and "rough" at best where
        several columns come out independent of each other, all or some of them. Of a
        single column the expected error decides.
        """
        if self.columns <= 1:
            return word_of_misplaced(self.singles)
        word = likely_word(self.noise)
        keeps_pairs = self.paired and self.measured_pairs == self.planned_pairs
        return word if keeps_pairs else min(word, "rough", key=WORDS.index)

    def records_for(self) -> dict[Word, float]:
        """Computes how many records each word takes, from best to worst.

        The noise on shares falls as one over the number of records. With so many, four
        of five real tables reach the word. That takes about twice as many as the word
        of a plan does (`RECORDS_CERTAINTY`), which rests on other tables with as much
        noise. So a plan for fewer records may say the word too. Of a single column, the
        expected error is that of the word.

        Returns:
            Numbers of records, not rounded, for those words that any number can reach.
        """
        if self.columns > 1:
            max_noise = {
                word: odds.noise_for(RECORDS_CERTAINTY) for word, odds in ODDS.items()
            }
        else:
            max_noise = {
                word: _COLUMN_CURVE.noise_for(misplaced)
                for word, misplaced in MISPLACED.items()
            }
        any_is_possible = self.paired or self.columns == 1
        return {
            word: self.records * self.noise / noise
            for word, noise in max_noise.items()
            if any_is_possible or word == "rough"
        }


def forecast(plan: Plan, records: float) -> Forecast:
    """Forecasts a plan of the pairwise method for a number of records.

    Pairs that the plan names but would not measure among so few records are counted as
    planned, not as measured.

    Args:
        plan: A calibrated plan of the method, with its design.
        records: Number of records, positive; it may be fractional, as what
            `Forecast.records_for` computes.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name=name) for name in "abcd"])
        >>> plan = Pairwise().plan(schema, Budget(epsilon=1.0))
        >>> forecast(plan, 10).word, forecast(plan, 100_000).word
        ('noise', 'good')
        >>> needed = forecast(plan, 10).records_for()
        >>> forecast(plan, needed["good"]).word
        'good'
    """
    design: Design = plan.design
    noise_std = {
        release.query.name: release.noise_std_natural for release in plan.releases
    }
    measured_pairs = 0
    planned_pairs = 0
    if design.pairs and PAIRS in noise_std:
        pairs, _ = design.affordable_pairs(records, design.pairs, noise_std[PAIRS])
        measured_pairs = len(pairs)
        planned_pairs = len(design.pairs)
    errors = expected_error(plan, records)
    return Forecast(
        records=records,
        noise=errors[SINGLES].noise_on_half,
        columns=len(design.columns),
        paired=PAIRS in errors,
        measured_pairs=measured_pairs,
        planned_pairs=planned_pairs,
    )


def forecast_of(design: Design, release: Answered, records: float) -> Forecast:
    """Forecasts what a fit of a release will give.

    Like that of a plan, it starts from the noise on single columns, of which the curves
    of error of columns and of pairs are functions. All pairs that the design has are
    measured in the release: none is planned that will not be, so that the numbers of
    both are left at 0.

    Args:
        design: The queries of the release.
        release: The noisy answers.
        records: Number of records, public or as the release says it; positive.
    """
    noise = {
        name: QueryNoise(noise_std, table_count=None)
        for name, noise_std in release.noise_std.items()
    }
    errors = table_errors(design, noise, records)
    return Forecast(
        records=records,
        noise=errors[SINGLES].noise_on_half,
        columns=len(design.columns),
        paired=PAIRS in errors,
    )


class Forecaster(Protocol):
    """A method that forecasts, such as `noisegate.methods.pairwise.Pairwise`."""

    def forecast(self, schema: Any, budget: Budget, records: float) -> Forecast:
        """Forecasts how far records will be from so many real ones."""


def verdict_of_plan(
    method: Forecaster,
    schema: Schema,
    budget: Budget,
    records: int | None,
) -> Verdict:
    """Says in words what to expect, before anything is spent.

    Args:
        method: The method.
        schema: Public schema of the records.
        budget: Privacy guarantee of the run.
        records: Number of records, as far as the public knows; None to say how many
            each word takes.

    Returns:
        The verdict, with what would lead to a better one.
    """
    # Without a number, any will do: how many records each word takes is the same.
    expected = method.forecast(schema, budget, records or 1)
    needed = {word: rounded_up(count) for word, count in expected.records_for().items()}
    if records is None:
        return _verdict_without_records(needed, budget.epsilon)
    cures = _cures(_Search(method, schema.coordinates, budget, expected))
    verdict = _verdict_of_forecast(expected, budget.epsilon, "plan", cures)
    verdict = replace(verdict, figures={**verdict.figures, "records_for": needed})
    return verdict.answering(questions_of_table(schema), unanswered("plan"))


def _verdict_without_records(needed: Mapping[Word, int], epsilon: float) -> Verdict:
    """Says how many records each word takes, where nobody knows how many there are.

    Args:
        needed: The least number of records for each word that can be reached.
        epsilon: ε of the plan.
    """
    listing = ", ".join(f"{word} from {count:,}" for word, count in needed.items())
    reason = (
        f"at epsilon={epsilon:g} the verdict depends on the number of records: "
        f"{listing}; it may be noise with fewer"
    )
    return Verdict(
        word=None, source="plan", reasons=(reason,), figures={"records_for": needed}
    )


def unanswered(source: Source) -> Mapping[Question, VerdictFinding]:
    """Returns what a plan or a fit says of questions that no figure of it answers.

    Rules and relations hold in every synthetic record by construction, whatever the
    noise. All else is not known.

    Args:
        source: "plan" or "fit".
    """
    if source == "plan":
        reasons = _REASONS_OF_PLAN
    else:
        reasons = _REASONS_OF_FIT
    findings = {
        question: not_known(
            question, reasons.get(question, "the method has no forecast")
        )
        for question in QUESTIONS
    }
    findings["relations and rules"] = VerdictFinding(
        question="relations and rules",
        answer="kept",
        detail="the stated ones hold in every record",
    )
    return findings


def verdict_of_fit(
    release: Release,
    discrepancy: float,
    *,
    expected: Forecast | None,
    verdicts: Iterable[Verdict],
    is_far: bool,
) -> Verdict | None:
    """Says in words what a fit came to, from its release and its distance to it.

    Args:
        release: The release.
        discrepancy: Distance of the fit to it, over what the noise alone explains;
            infinite or NaN where there is none.
        expected: How far records will be from real ones; None where it is unknown.
        verdicts: What the fit keeps of its release.
        is_far: Whether the distance is too large to rely on the fit.

    Returns:
        The verdict; None where nothing is known.
    """
    parts: list[Verdict] = []
    if expected is not None:
        epsilon = release.certificate.epsilon
        cures = _more_records(expected)
        parts.append(_verdict_of_forecast(expected, epsilon, "fit", cures))
    counts = release.values.get(COUNTS)
    if counts is not None:
        counts_verdict = _verdict_of_counts(
            release.schema, counts.ravel(), release.noise_std[COUNTS]
        )
        if counts_verdict is not None:
            parts.append(counts_verdict)
    parts.extend(verdicts)
    if math.isfinite(discrepancy):
        parts.append(_verdict_of_distance(discrepancy, is_far=is_far))
    return Verdict.together(parts)


def record_count(release: Release, estimate: float) -> float:
    """Returns about how many records a release has, at least 1.

    Args:
        release: The release, whose public number comes first.
        estimate: What its noisy counts say.
    """
    public_count = release.certificate.public.get("records")
    return max(float(public_count or estimate), 1.0)


def _verdict_of_counts(
    schema: Schema, counts: npt.NDArray[np.float64], noise_std: float
) -> Verdict | None:
    """Judges noisy counts of classes that look like those of no record.

    A count looks like that of no record below `_MIN_VISIBLE` standard deviations of its
    noise. That on the sum over C classes is √C times as large as that on one.

    Args:
        schema: Public schema of the table.
        counts: Noisy counts, (classes,), or (1,) without a label.
        noise_std: Standard deviation of the noise on each.

    Returns:
        "noise" if all records together may be none; "rough" with the names of classes
        that may be empty; or None if there are none.
    """
    if counts.sum() < _MIN_VISIBLE * noise_std * math.sqrt(counts.size):
        return Verdict(
            word="noise",
            source="fit",
            reasons=("the noise is larger than the number of records",),
            findings=_on_columns("lost", "the noise is larger than all records"),
        )
    label = schema.label_column
    if label is None or len(counts) == 1:
        return None
    levels = [str(level) for level in getattr(label, "levels", ())]
    # Behind the levels there may be the count of missing labels, which has no name.
    drowned = [
        level
        for level, count in zip(levels, counts, strict=False)
        if count < _MIN_VISIBLE * noise_std
    ]
    if not drowned:
        return None
    listing = ", ".join(drowned[:_MAX_NAMES])
    if len(drowned) > _MAX_NAMES:
        listing += f" and {len(drowned) - _MAX_NAMES} more"
    reason = (
        f"{listing} of {label.name!r} cannot be distinguished from noise "
        "(too few records)"
    )
    # Nothing about a class that is lost can be learnt from the records.
    return Verdict(
        word="rough",
        source="fit",
        reasons=(reason,),
        figures={"drowned_classes": drowned},
        findings=(
            VerdictFinding(
                question="what models learn of the label",
                answer="lost",
                detail=f"{listing} below the noise",
            ),
        ),
    )


def _on_columns(answer: Answer, detail: str) -> tuple[VerdictFinding, ...]:
    """Returns one answer on single columns and on pairs of them."""
    questions: tuple[Question, ...] = ("single columns", "pairs of columns")
    return tuple(
        VerdictFinding(question=question, answer=answer, detail=detail)
        for question in questions
    )


def _verdict_of_distance(distance: float, *, is_far: bool) -> Verdict:
    """Judges how far from its release a fit ended.

    Args:
        distance: The distance over what the noise alone explains.
        is_far: Whether that is too far to rely on the fit.
    """
    figures = {"distance": distance}
    if not is_far:
        return Verdict(word=None, source="fit", reasons=(), figures=figures)
    reason = (
        f"the fit ended {distance:.1f} times as far from its release as the noise "
        "explains"
    )
    cure = "the same fit with another seed or more steps, which costs no privacy"
    detail = f"{distance:.1f} times as far from the release as noise explains"
    return Verdict(
        word="rough",
        source="fit",
        reasons=(reason,),
        cures=(cure,),
        figures=figures,
        findings=_on_columns("weakened", detail),
    )


def _verdict_of_forecast(
    expected: Forecast, epsilon: float, source: Source, cures: Iterable[str]
) -> Verdict:
    """Puts a forecast in words.

    Args:
        expected: The forecast.
        epsilon: ε of the plan or the release.
        source: What the forecast rests on.
        cures: What would lead to a better verdict. It is searched for while it is
            iterated over, which takes plans, and left out of the best verdict.
    """
    return Verdict(
        word=expected.word,
        source=source,
        reasons=tuple(_reasons(expected, epsilon)),
        cures=() if expected.word == "good" else tuple(cures),
        figures={
            "records": expected.records,
            "expected_out_of_place_in_singles": expected.singles,
            "expected_out_of_place_in_pairs": (
                expected.pairs if expected.paired else None
            ),
        },
        findings=(_singles_finding(expected), _pairs_finding(expected)),
    )


def _singles_finding(expected: Forecast) -> VerdictFinding:
    """Returns what a forecast says of single columns."""
    return of_misplaced("single columns", expected.singles, is_expected=True)


def _pairs_finding(expected: Forecast) -> VerdictFinding:
    """Returns what a forecast says of pairs of columns.

    Where the only other column is the label, it is measured in each of its classes: the
    error of the pair is that of the column.
    """
    question: Question = "pairs of columns"
    if expected.columns <= 1:
        return of_misplaced(question, expected.singles, is_expected=True)
    if not expected.paired:
        detail = "none is measured: columns are independent"
        return VerdictFinding(question=question, answer="lost", detail=detail)
    if expected.measured_pairs < expected.planned_pairs:
        detail = f"{expected.measured_pairs:,} of {expected.planned_pairs:,} measured"
        return VerdictFinding(question=question, answer="lost", detail=detail)
    return of_misplaced(question, expected.pairs, is_expected=True)


def _reasons(expected: Forecast, epsilon: float) -> Iterator[str]:
    """Yields the reasons for the verdict that a forecast comes to, `Forecast.word`.

    The expected errors come first, then what real tables came to at this noise, and
    then what is not measured.
    """
    errors = f"{in_percent(expected.singles)} per column"
    if expected.paired:
        errors += f" and {in_percent(expected.pairs)} per pair of columns"
    yield (
        f"for about {round(expected.records):,} records at epsilon={epsilon:g}, "
        f"expect a total variation distance of {errors}"
    )
    if expected.columns > 1:
        yield _corpus_reason(expected.noise)
    if not expected.paired and expected.columns > 1:
        yield "no pairs of columns are measured: synthetic columns are independent"
    if expected.measured_pairs < expected.planned_pairs:
        # Of too many pairs, those with the label are kept if that helps: see
        # `Design.affordable_pairs`.
        which = "only those with the label" if expected.measured_pairs else "none"
        yield (
            f"of {expected.planned_pairs:,} pairs of columns {which} would be "
            "measured, for the noise on them"
        )
    if expected.paired and expected.columns > 2:
        yield (
            "interactions of three columns are kept only with a categorical label, "
            "or if named in `triples`"
        )


def _corpus_reason(noise: float) -> str:
    """Says how real tables came out at a noise, in whole per cent."""
    shares = [f"{share:.0%} {word}" for word, share in word_shares(noise).items()]
    listed = f"{', '.join(shares[:-1])} and {shares[-1]}"
    return f"verdicts of real tables with as much noise: {listed}"


def _next_better_word(expected: Forecast) -> Word:
    """Returns the verdict that cures are proposed for."""
    return "good" if expected.word == "usable" else "usable"


def _enough_records(expected: Forecast) -> str | None:
    """Says how many records would lead to a better word; None if no number would."""
    goal = _next_better_word(expected)
    needed = expected.records_for()
    if goal not in needed:
        return None
    return f"{goal} with {rounded_up(needed[goal]):,} records or more"


def _more_records(expected: Forecast) -> Iterator[str]:
    """Yields how many records would lead to a better word, and where to look for more.

    It yields nothing if no number of records would.
    """
    cure = _enough_records(expected)
    if cure is not None:
        yield cure
        yield (
            "`noisegate plan` shows which epsilon, columns or bins suffice, before "
            "anything is spent again"
        )


@dataclass(frozen=True)
class _Search:
    """The search for a change of a run that leads to a better verdict.

    Attributes:
        method: The method of the run.
        schema: Its schema.
        budget: Its budget.
        current: The forecast of the run as it is.
    """

    method: Forecaster
    schema: Schema
    budget: Budget
    current: Forecast

    @property
    def goal(self) -> Word:
        """The word to reach."""
        return _next_better_word(self.current)

    def is_reached(self) -> bool:
        """Returns whether the run reaches the goal; False if it cannot be planned.

        It is planned and forecast with the settings, schema and budget of this search,
        for the number of records of the run as it is.
        """
        try:
            expected = self.method.forecast(
                self.schema, self.budget, self.current.records
            )
        except OptionError:
            # A setting names a column that was left out.
            return False
        return WORDS.index(expected.word) >= WORDS.index(self.goal)

    def with_epsilon(self, epsilon: float) -> _Search:
        """Returns the search with another ε."""
        return replace(self, budget=replace(self.budget, epsilon=epsilon))

    def with_columns(self, column_count: int) -> _Search:
        """Returns the search with fewer columns."""
        return replace(self, schema=_spread_columns(self.schema, column_count))

    def with_cells(self, cells: int) -> _Search:
        """Returns the search with another number of cells; the method has `cells`."""
        settings: Any = self.method
        return replace(self, method=replace(settings, cells=cells))


def _cures(search: _Search) -> Iterator[str]:
    """Yields changes of a run that lead to a better word, each of them alone.

    They are more records, a larger ε, fewer columns and fewer cells; all but the first
    are looked for by planning the changed run. Where pairs of columns are not measured,
    nothing but measuring them helps.

    Args:
        search: The run as it is, with its forecast.
    """
    current = search.current
    goal = search.goal
    if not current.paired and current.columns > 1:
        yield "pairs='auto', which measures pairs of columns"
        return
    more_records = _enough_records(current)
    if more_records is not None:
        yield more_records
    if current.columns > _MAX_COLUMNS_OF_SEARCH:
        return
    epsilon = _least_epsilon(search)
    if epsilon is not None:
        yield f"{goal} with epsilon={epsilon:g} or more"
    column_count = _most_columns(search)
    if column_count is not None:
        total = len(search.schema.columns)
        yield f"{goal} with {column_count} of the {total} columns or fewer"
    cells = _most_cells(search)
    if cells is not None:
        yield f"{goal} with cells={cells} or fewer, which blurs numeric columns"


def _least_epsilon(search: _Search) -> float | None:
    """Finds the least larger ε that reaches the goal; None if none does."""
    larger = [epsilon for epsilon in _EPSILONS if epsilon > search.budget.epsilon]
    sufficient = (
        epsilon for epsilon in larger if search.with_epsilon(epsilon).is_reached()
    )
    return next(sufficient, None)


def _most_columns(search: _Search) -> int | None:
    """Finds the largest number of columns that reaches the goal.

    The noise falls with every column that is left out, so that bisection finds it.

    Returns:
        The number, which is at least 3; None if there is none.
    """
    sufficient = 1
    insufficient = len(search.schema.columns)
    while insufficient - sufficient > 1:
        middle = (sufficient + insufficient) // 2
        if search.with_columns(middle).is_reached():
            sufficient = middle
        else:
            insufficient = middle
    return sufficient if sufficient > 2 else None


def _most_cells(search: _Search) -> int | None:
    """Finds the largest number of cells that reaches the goal.

    Returns:
        The number; None if there is none, or the method has no such setting.
    """
    if not hasattr(search.method, "cells") or not search.schema.layout.numeric:
        return None
    max_cells = search.method.cells or math.inf
    fewer = [cells for cells in _CELLS if cells < max_cells]
    sufficient = (cells for cells in fewer if search.with_cells(cells).is_reached())
    return next(sufficient, None)


def _spread_columns(schema: Schema, column_count: int) -> Schema:
    """Returns a schema of some columns, spread evenly over those of another.

    Args:
        schema: The schema.
        column_count: Number of columns to take, the label among them.
    """
    label = [column for column in schema.columns if column.name == schema.label]
    others = [column for column in schema.columns if column.name != schema.label]
    other_count = column_count - len(label)
    taken = [others[index * len(others) // other_count] for index in range(other_count)]
    return Schema((*taken, *label), label=schema.label)


def rounded_up(records: float) -> int:
    """Rounds a number of records up to two digits.

    Examples:
        >>> rounded_up(12_345.0), rounded_up(7.2)
        (13000, 8)
    """
    unit: int = 10 ** max(math.ceil(math.log10(max(records, 1.0))) - 2, 0)
    return math.ceil(records / unit) * unit
