"""What figures of an evaluation come to, in words: each a verdict with its reason and what would help."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from noisegate.answers.verdict import (
    MISPLACED,
    RANKS,
    WORDS,
    Verdict,
    Word,
    in_percent,
    of_coefficients,
    word_of_kept,
    word_of_misplaced,
)
from noisegate_evaluate.metrics.analyses import (
    STRONG,
    Associations,
    Quantiles,
    Regressions,
)
from noisegate_evaluate.metrics.marginals import (
    MarginalReport,
    OrderDistance,
    RulesKept,
)
from noisegate_evaluate.metrics.result import MetricResult

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
    return of_distance(entry, f"{what} of {table}" if table else what)


def of_number(marginals: MarginalReport) -> Iterator[Verdict]:
    """Yields what is said of so few synthetic records that sampling alone causes a large error."""
    drawn, real = marginals.rows
    if (word := word_of_misplaced(marginals.drawn_too_few)) != "good":
        reason = f"{drawn:,} synthetic records for {real:,} real ones: sampling alone causes a total variation error of"
        cure = f"{real:,} synthetic records, which cost no privacy"
        yield _said(word, f"{reason} {in_percent(marginals.drawn_too_few)}", cure)


def of_distance(entry: OrderDistance, what: str) -> Verdict:
    """Returns what the distance of ``what`` says, beyond what sampling does."""
    share = entry.beyond_sampling
    word = word_of_misplaced(share)
    reason = (
        f"total variation error of {in_percent(share)} in {what}, beyond sampling error"
    )
    if word != "good":
        reason += f"; most in {' × '.join(entry.largest_columns)}"
    figure = "out_of_place_in_pairs" if entry.order == 2 else "out_of_place_in_singles"
    return _said(word, reason, _MARGINAL_CURE, **{figure: share})


def of_analyses(metrics: Mapping[str, MetricResult | None]) -> Iterator[Verdict]:
    """Yields what an analyst would be misled by: associations, regressions that are lost, quantiles that are off."""
    found, quantiles = metrics.get("associations"), metrics.get("quantiles")
    regressions = metrics.get("regressions")
    if isinstance(found, Associations) and found.kept is not None:
        word = word_of_kept(found.kept)
        reason = f"of {len(found.strong)} associations above {STRONG} the mean part kept is {found.kept:.0%}"
        if found.lost:
            told = [
                f"{pair} {made:.2f} for {real:.2f}" for pair, real, made in found.lost
            ]
            reason += f"; weakened or lost: {', '.join(told[:3])}{f' and {len(told) - 3} more' * (len(told) > 3)}"
        yield _said(
            "rough" if word == "noise" else word,
            reason,
            _MARGINAL_CURE,
            associations_kept=found.kept,
        )
    if isinstance(regressions, Regressions) and regressions.kept is not None:
        yield of_coefficients(regressions.kept, "evaluate")
    if isinstance(quantiles, Quantiles):
        if quantiles.stretched > _STRETCHED:
            apart = f"{quantiles.stretched:.0%} of its distance from the median"
            reason = (
                f"the 1 or 99 % quantile of {quantiles.reaching!r} is off by {apart}"
            )
            cure = f"bounds of {quantiles.reaching!r} that are nearer to its values, or a larger epsilon"
            yield _said("usable", reason, cure, tail_error=quantiles.stretched)
        beyond = max(quantiles.largest - quantiles.chance, 0.0)
        if (
            word := next(
                (word for word, most in RANKS.items() if beyond <= most), "rough"
            )
        ) != "good":
            reason = f"{quantiles.largest:.0%} of real records lie between the {quantiles.at:.0%} quantiles of "
            reason += f"{quantiles.column!r}, real and synthetic"
            cure = f"bounds of {quantiles.column!r} that are nearer to its values, or a larger epsilon"
            yield _said(word, reason, cure, rank_error=beyond)


def of_rules(metrics: Mapping[str, MetricResult | None]) -> Iterator[Verdict]:
    """Yields which rules of real records synthetic ones break; where many do, they are usable at best."""
    found = metrics.get("rules")
    if isinstance(found, RulesKept) and found.broken:
        told = [
            f"{rule} ({made:.0%} for {real:.0%})" for rule, real, made in found.broken
        ]
        reason = f"of {found.found} rules of real records {len(told)} are broken: {'; '.join(told[:3])}"
        cure = "rules that are public knowledge as constraints in the schema, and sums left out and added up afterwards"
        yield _said(
            "usable" if found.broken[0][2] > MISPLACED["good"] else "good", reason, cure
        )


def of_models(
    score: str, name: str, chance: float, made: Any, ceiling: Any
) -> Verdict | None:
    """Returns the word for the part of a mean score above chance that is kept.

    Without models of real records the word is not known, but for synthetic ones that
    teach nothing: these are rough at best.
    """
    if made is None:
        return None
    if ceiling is None:
        return _of_models_alone(score, getattr(made.mean, name), chance)
    synthetic, real = getattr(made.mean, name), getattr(ceiling.mean, name)
    figures = {"score": score, "score_of_synthetic": synthetic, "score_of_real": real}
    compared = f"models reach {score} {synthetic:.3f} where those of real records reach {real:.3f}"
    if not math.isfinite(real) or real - chance < _LEAST_SKILL:
        return _said(
            None,
            f"{compared}, hardly better than guessing: nothing follows from it",
            "",
            **figures,
        )
    # What is said is the part itself; the word forgives what may be chance.
    plain = max((synthetic - chance) / (real - chance), 0.0)
    kept = 1 - max(real - synthetic - _ALLOWANCE, 0.0) / (real - chance)
    reason = f"{compared}: {plain:.0%} of what there is to learn"
    return _said(word_of_kept(kept), reason, _MODEL_CURE, **figures, kept=kept)


def _of_models_alone(score: str, synthetic: float, chance: float) -> Verdict:
    """Returns what models of synthetic records say alone: that they learn nothing, or else nothing."""
    cure = "real training records beside, which say what there is to learn"
    reached = f"models of synthetic records reach {score} {synthetic:.3f}"
    figures = {"score": score, "score_of_synthetic": synthetic}
    is_guessing = math.isfinite(synthetic) and synthetic - chance < _LEAST_SKILL
    if is_guessing:
        return _said(
            "rough", f"{reached}, hardly better than guessing", cure, **figures
        )
    unknown = f"{reached}: what they miss is not known without real training records"
    return replace(_said(None, unknown, "", **figures), cures=(cure,))


def _said(word: Word | None, reason: str, cure: str, **figures: Any) -> Verdict:
    """Returns a verdict; what is good, or nothing, needs no cure."""
    cures = () if word in ("good", None) else (cure,)
    return Verdict(
        word=word, source="evaluate", reasons=(reason,), cures=cures, figures=figures
    )


def lowered(found: Verdict | None, fitted: Verdict | None) -> Verdict | None:
    """Returns a verdict that is no better than that of the fit: it knows of noise that an evaluation may not see."""
    if found is None or fitted is None or found.word is None or fitted.word is None:
        return found
    if WORDS.index(fitted.word) >= WORDS.index(found.word):
        return found
    reason = f"the figures alone would be {found.word}; the fit said {fitted.word}, since {'; '.join(fitted.reasons)}"
    return replace(found, word=fitted.word, reasons=(*found.reasons, reason))
