"""What figures of an evaluation come to, in words: each a verdict with its reason and what would help."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from noisegate.answers.findings import (
    QUESTIONS,
    Answer,
    Question,
    VerdictFinding,
)
from noisegate.answers.verdict import (
    KEPT_SCALE,
    MISPLACED,
    MISPLACED_SCALE,
    RANKS_SCALE,
    WORDS,
    Verdict,
    in_percent,
    not_known,
    of_coefficients,
    of_misplaced,
    word_of_kept,
    word_of_misplaced,
    word_of_rank_error,
)
from noisegate_evaluate.metrics.analyses import (
    STRONG,
    Associations,
    Quantiles,
    Regressions,
)
from noisegate_evaluate.metrics.links import LinkDistances
from noisegate_evaluate.metrics.marginals import (
    MarginalReport,
    OrderDistance,
    RulesKept,
)
from noisegate_evaluate.metrics.means import RANKS_PER_DEVIATION, Means
from noisegate_evaluate.metrics.missing import MissingTogether
from noisegate_evaluate.metrics.result import MetricResult, verdict_of

# Scores differ by as much from one draw of a few thousand records to the next.
_ALLOWANCE = 0.02
# Real records whose own models do hardly better than guessing say nothing about synthetic ones.
_LEAST_SKILL = 0.05
_STRETCHED = 0.25  # a tail that is off by more than this part misleads
_MARGINAL_CURE = (
    "more records, a larger epsilon or fewer columns, as `noisegate plan` says for each"
)
_MODEL_CURE = "a larger epsilon or more records, for what models learn"


def of_marginals(marginals: MarginalReport, table: str = "") -> Verdict:
    """Returns what distances of pairs say, or of single columns where there is but one, beyond what sampling does."""
    entry = marginals.orders[min(len(marginals.orders), 2) - 1]
    what = "a pair of columns" if entry.order == 2 else "a single column"
    questions: tuple[Question, ...] = ("single columns", "pairs of columns")
    of_table = f" in {table}" if table else ""
    findings = tuple(
        _of_error(question, each, of_table)
        for question, each in zip(questions, marginals.orders, strict=False)
    )
    return of_distance(entry, f"{what} of {table}" if table else what, findings)


def _of_error(
    question: Question, entry: OrderDistance, detail: str = ""
) -> VerdictFinding:
    """Returns the finding on a distance; what is not kept is most so in some columns, which are named."""
    share = entry.beyond_sampling
    if MISPLACED_SCALE.answer(share) != "kept":
        detail += f"; most in {' × '.join(entry.largest_columns)}"
    return of_misplaced(question, share, detail)


def of_number(marginals: MarginalReport) -> Iterator[Verdict]:
    """Yields what is said of so few synthetic records that sampling alone causes a large error."""
    error = marginals.drawn_too_few
    word = word_of_misplaced(error)
    if word == "good":
        return
    drawn, real = marginals.rows
    yield verdict_of(
        word,
        f"{drawn:,} synthetic records for {real:,} real ones: sampling alone "
        f"causes a total variation distance of {in_percent(error)}",
        f"{real:,} synthetic records, which cost no privacy",
        [of_misplaced("single columns", error, ": few synthetic records")],
    )


def of_distance(
    entry: OrderDistance, what: str, findings: Sequence[VerdictFinding] = ()
) -> Verdict:
    """Returns what the distance of ``what`` says, beyond what sampling does, with the findings on it."""
    share = entry.beyond_sampling
    word = word_of_misplaced(share)
    reason = (
        f"total variation distance of {in_percent(share)} in {what}, beyond "
        "sampling error"
    )
    if word != "good":
        reason += f"; most in {' × '.join(entry.largest_columns)}"
    figure = "out_of_place_in_pairs" if entry.order == 2 else "out_of_place_in_singles"
    return verdict_of(word, reason, _MARGINAL_CURE, findings, **{figure: share})


def of_analyses(metrics: Mapping[str, MetricResult | None]) -> Iterator[Verdict]:
    """Yields what an analyst would be misled by: associations, regressions that are lost, quantiles that are off."""
    found = metrics.get("associations")
    if isinstance(found, Associations) and found.kept is not None:
        yield _of_associations(found, found.kept)
    regressions = metrics.get("regressions")
    if isinstance(regressions, Regressions) and regressions.kept is not None:
        yield of_coefficients(regressions.kept, "evaluate")
    quantiles = metrics.get("quantiles")
    if isinstance(quantiles, Quantiles):
        yield from _verdicts_of_quantiles(quantiles)


def _of_associations(associations: Associations, kept: float) -> Verdict:
    """Returns what is kept of strong associations; rough where none is, as others may be."""
    word = word_of_kept(kept)
    reason = (
        f"associations above {STRONG} keep {kept:.0%} of their strength on average, "
        f"over {len(associations.strong)} of them"
    )
    lost = [
        f"{pair} {synthetic:.2f} for {real:.2f}"
        for pair, real, synthetic in associations.lost
    ]
    if lost:
        reason += f"; weakened or lost: {', '.join(lost[:3])}"
    if len(lost) > 3:
        reason += f" and {len(lost) - 3} more"
    finding = VerdictFinding(
        question="pairs of columns",
        answer=KEPT_SCALE.answer(kept),
        detail=f"{kept:.0%} of associations above {STRONG} kept",
    )
    return verdict_of(
        "rough" if word == "noise" else word,
        reason,
        _MARGINAL_CURE,
        [finding],
        associations_kept=kept,
    )


def _verdicts_of_quantiles(quantiles: Quantiles) -> Iterator[Verdict]:
    """Yields what quantiles say that are off: tails by their values, others by their ranks."""
    nearer_bounds = (
        "bounds of {!r} that are nearer to its values, or a larger epsilon".format
    )
    if quantiles.stretched > _STRETCHED:
        yield verdict_of(
            "usable",
            f"the 1 or 99 % quantile of {quantiles.reaching!r} is off by "
            f"{quantiles.stretched:.0%} of its distance from the median",
            nearer_bounds(quantiles.reaching),
            tail_error=quantiles.stretched,
        )
    rank_error = max(quantiles.largest - quantiles.chance, 0.0)
    word = word_of_rank_error(rank_error)
    if word != "good":
        yield verdict_of(
            word,
            f"{quantiles.largest:.0%} of real records lie between the "
            f"{quantiles.at:.0%} quantiles of {quantiles.column!r}, real and synthetic",
            nearer_bounds(quantiles.column),
            rank_error=rank_error,
        )


def _of_numbers(metrics: Mapping[str, MetricResult | None]) -> Iterator[VerdictFinding]:
    """Yields findings on means, on quantiles by their ranks, and on tails by their values."""
    means = metrics.get("means")
    quantiles = metrics.get("quantiles")
    if isinstance(means, Means):
        answer = RANKS_SCALE.answer(RANKS_PER_DEVIATION * means.largest)
        off = f"off by {means.largest:.2f} standard deviations"
        if answer == "kept":
            detail = f"means {off} at most"
        else:
            detail = f"mean of {means.column!r} {off}"
        yield VerdictFinding(question="means and tails", answer=answer, detail=detail)
    if isinstance(quantiles, Quantiles):
        yield from _of_quantiles(quantiles)


def _of_quantiles(quantiles: Quantiles) -> Iterator[VerdictFinding]:
    """Yields findings on the 5, 50 and 95 % quantiles, by ranks, and on the 1 and 99 % ones, by values."""
    question: Question = "means and tails"
    beyond = max(quantiles.largest - quantiles.chance, 0.0)
    ranks = RANKS_SCALE.answer(beyond)
    if ranks == "kept":
        detail = (
            f"5, 50 and 95 % quantiles off by {in_percent(beyond)} of records at most"
        )
    else:
        detail = f"{quantiles.at:.0%} quantile of {quantiles.column!r} off by {beyond:.0%} of records"
    yield VerdictFinding(question=question, answer=ranks, detail=detail)
    if quantiles.stretched > _STRETCHED:
        detail = (
            f"1 or 99 % quantile of {quantiles.reaching!r} off by "
            f"{quantiles.stretched:.0%} of its distance from the median"
        )
        yield VerdictFinding(question=question, answer="weakened", detail=detail)


def of_more(metrics: Mapping[str, MetricResult | None]) -> Verdict:
    """Returns findings that no word rests on: numbers, values missing together, rules of real records."""
    findings = list(_of_numbers(metrics))
    missing = metrics.get("missing")
    rules = metrics.get("rules")
    if isinstance(missing, MissingTogether):
        findings.append(_of_missing(missing))
    if isinstance(rules, RulesKept):
        findings.append(_of_rules(rules))
    return verdict_of(None, "", "", findings)


def _of_missing(measured: MissingTogether, table: str = "") -> VerdictFinding:
    """Returns the finding on values that are missing together.

    Where none of real records are, synthetic ones that are make it "weakened".

    Args:
        measured: The figures.
        table: Name of the table, if there are several.
    """
    of_table = f" of {table}" if table else ""
    answer: Answer
    if measured.kept is not None:
        answer = KEPT_SCALE.answer(measured.kept)
        detail = f"{measured.kept:.0%} of correlations above {STRONG}{of_table} kept"
    elif measured.largest >= STRONG:
        answer = "weakened"
        detail = f"correlations{of_table} where real records have none"
    else:
        answer = "kept"
        detail = f"correlations{of_table} below {STRONG}, as in real records"
    return VerdictFinding(
        question="values missing together", answer=answer, detail=detail
    )


def of_rules(metrics: Mapping[str, MetricResult | None]) -> Iterator[Verdict]:
    """Yields which rules of real records synthetic ones break; where many do, they are usable at best."""
    rules = metrics.get("rules")
    if not isinstance(rules, RulesKept) or not rules.broken:
        return
    broken = [
        f"{rule} is broken in {synthetic:.0%} of synthetic records and {real:.0%} of "
        "real ones"
        for rule, real, synthetic in rules.broken
    ]
    largest = rules.broken[0][2]
    yield verdict_of(
        "usable" if largest > MISPLACED["good"] else "good",
        "; ".join(broken[:3]),
        "rules that are public knowledge as constraints in the schema, and sums left "
        "out and added up afterwards",
    )


def _of_rules(rules: RulesKept) -> VerdictFinding:
    """Returns the finding on rules of real records: that which is broken most decides."""
    broken_share = rules.broken[0][2] if rules.broken else 0.0
    detail = (
        f"{rules.found - len(rules.broken)} of {rules.found} hold as in real records"
    )
    if rules.broken:
        detail += f"; {in_percent(broken_share)} of records break {rules.broken[0][0]}"
    return VerdictFinding(
        question="relations and rules",
        answer=MISPLACED_SCALE.answer(broken_share),
        detail=detail,
    )


def of_linked(
    links: Mapping[str, LinkDistances],
    missing: Mapping[str, MissingTogether],
    metrics: Mapping[str, MetricResult | None],
    rows: Mapping[str, int],
) -> Verdict:
    """Returns findings on linked tables that no word rests on.

    Args:
        links: Distances of each link, by the name of the children's table.
        missing: How values of each table are missing together, by its name.
        metrics: Figures of the parents beside what their children come to.
        rows: Number of synthetic records of each table of children that has some;
            empty where the schema has no rules.
    """
    findings: list[VerdictFinding] = []
    for name, link in links.items():
        findings += _of_link(name, link)
    for name, row_count in rows.items():
        broken = links[name].broken
        findings.append(
            VerdictFinding(
                question="relations and rules",
                answer=MISPLACED_SCALE.answer(broken / row_count),
                detail=f"{broken:,} of {row_count:,} {name} break one",
            )
        )
    for name, figures in missing.items():
        findings.append(_of_missing(figures, name))
    findings += _of_numbers(metrics)
    return verdict_of(None, "", "", findings)


def _of_link(name: str, link: LinkDistances) -> Iterator[VerdictFinding]:
    """Yields findings on the children of a link, which no word rests on.

    Args:
        name: Name of their table.
        link: The figures.
    """
    if link.parent_child is not None:
        yield _of_error("parents and children", link.parent_child)
    yield of_misplaced(
        "parents and children",
        link.child_counts.beyond_sampling,
        f" in the number of {name}",
    )
    several = {
        f" from one of {name} to the next": link.transitions,
        f" in how much {name} of one parent differ": link.distinct_values,
    }
    for detail, distance in several.items():
        if distance is not None:
            yield _of_error("children of one parent", distance, detail)


_LEARNT: Question = "what models learn of the label"


def of_models(
    score: str, attribute: str, chance: float, scores: Any, ceiling: Any
) -> Verdict | None:
    """Returns the word for the part of a mean score above chance that is kept.

    Without models of real records the word is not known, but for synthetic ones that
    teach nothing: these are rough at best.

    Args:
        score: Name of the score.
        attribute: The attribute that has it.
        chance: What guessing reaches.
        scores: The report of models of synthetic records; None where none was scored.
        ceiling: The report of models of real records; None without.
    """
    if scores is None:
        return None
    synthetic = getattr(scores.mean, attribute)
    if ceiling is None:
        return _of_models_alone(score, synthetic, chance)
    real = getattr(ceiling.mean, attribute)
    figures = {"score": score, "score_of_synthetic": synthetic, "score_of_real": real}
    compared = (
        f"models trained on synthetic records reach {score} {synthetic:.3f}, on "
        f"real records {real:.3f}"
    )
    if not math.isfinite(real) or real - chance < _LEAST_SKILL:
        return verdict_of(
            None,
            f"{compared}, hardly better than guessing: nothing follows from it",
            "",
            [
                not_known(
                    _LEARNT, "models trained on real records hardly learn it either"
                )
            ],
            **figures,
        )
    # What is said is the part itself; the word forgives what may be chance.
    part = max((synthetic - chance) / (real - chance), 0.0)
    lost = max(real - synthetic - _ALLOWANCE, 0.0) / (real - chance)
    kept = 1 - lost
    finding = VerdictFinding(
        question=_LEARNT,
        answer=KEPT_SCALE.answer(kept),
        detail=f"{part:.0%} of what there is to learn; {score} {synthetic:.3f} of {real:.3f}",
    )
    return verdict_of(
        word_of_kept(kept),
        f"{compared}: {part:.0%} of what there is to learn",
        _MODEL_CURE,
        [finding],
        **figures,
        kept=kept,
    )


def _of_models_alone(score: str, synthetic: float, chance: float) -> Verdict:
    """Returns what models of synthetic records say alone: that they learn nothing, or else nothing."""
    reached = f"models trained on synthetic records reach {score} {synthetic:.3f}"
    cure = "real training records, which show what there is to learn"
    figures = {"score": score, "score_of_synthetic": synthetic}
    if math.isfinite(synthetic) and synthetic - chance < _LEAST_SKILL:
        finding = VerdictFinding(
            question=_LEARNT,
            answer="lost",
            detail=f"{score} {synthetic:.3f}, hardly better than guessing",
        )
        reason = f"{reached}, hardly better than guessing"
        return verdict_of("rough", reason, cure, [finding], **figures)
    reason = f"{reached}: what they miss is not known without real training records"
    finding = not_known(_LEARNT, "needs the training records")
    return replace(verdict_of(None, reason, "", [finding], **figures), cures=(cure,))


def unmeasured_findings() -> dict[Question, VerdictFinding]:
    """Returns what an evaluation says of questions that no figure of it answers."""
    findings = {
        question: not_known(question, "too few records to compare, or nothing varies")
        for question in QUESTIONS
    }
    reasons: dict[Question, str] = {
        _LEARNT: "no model could be scored; see the notes",
        "regressions": "real records show no clear coefficient",
        "relations and rules": "no rule holds in the real records",
        "values missing together": "real records have too few missing values",
    }
    return findings | {
        question: not_known(question, reason) for question, reason in reasons.items()
    }


def lowered(found: Verdict | None, fitted: Verdict | None) -> Verdict | None:
    """Returns a verdict that is no better than that of the fit: it knows of noise that an evaluation may not see."""
    if found is None or fitted is None or found.word is None or fitted.word is None:
        return found
    if WORDS.index(fitted.word) >= WORDS.index(found.word):
        return found
    reason = (
        f"by the figures alone the verdict is {found.word}; the fit's is "
        f"{fitted.word}, because {'; '.join(fitted.reasons)}"
    )
    return replace(found, word=fitted.word, reasons=(*found.reasons, reason))
