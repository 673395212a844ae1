"""What an evaluation found, in words: of pairs of columns, and of what models learn. Outside the guarantee."""

from __future__ import annotations

import math

from noisegate.evaluation.metrics.marginals import MarginalReport, OrderDistance
from noisegate.evaluation.regression import RegressionReport
from noisegate.evaluation.utility.runner import UtilityReport
from noisegate.verdict import Verdict, in_hundred, word_of_kept, word_of_misplaced

# Scores differ by as much from one draw of a few thousand records to the next.
_ALLOWANCE = 0.02
# Real records whose own models do hardly better than guessing say nothing about synthetic ones.
_LEAST_SKILL = 0.05
_MARGINAL_CURE = "more records, a larger epsilon or fewer columns, as `noisegate plan` says for each"
_MODEL_CURE = "a larger epsilon or more records, for what models learn"


def of_marginals(marginals: MarginalReport, table: str = "") -> Verdict:
    """Returns what distances of pairs say, or of single columns where there is but one, beyond what sampling does."""
    entry = marginals.orders[min(len(marginals.orders), 2) - 1]
    what = "a pair of columns" if entry.order == 2 else "a single column"
    return of_distance(entry, f"{what} of {table}" if table else what)


def of_distance(entry: OrderDistance, what: str) -> Verdict:
    """Returns what the distance of ``what`` says, beyond what sampling does."""
    share = entry.beyond_sampling
    word = word_of_misplaced(share)
    reason = f"{in_hundred(share)} out of place in {what}, beyond what sampling alone does"
    if word != "good":
        reason += f"; most in {' × '.join(entry.largest_columns)}"
    return Verdict(
        word=word,
        source="evaluate",
        reasons=(reason,),
        cures=() if word == "good" else (_MARGINAL_CURE,),
        figures={f"out_of_place_in_{'pairs' if entry.order == 2 else 'singles'}": share},
    )


def of_scores(made: UtilityReport, real: UtilityReport | None) -> Verdict | None:
    """Returns what classifiers say that were trained on both; None where only synthetic records trained some."""
    return None if real is None else _kept("ROC-AUC", made.mean.roc_auc, real.mean.roc_auc, chance=0.5)


def of_images(made: UtilityReport, real: UtilityReport | None) -> Verdict | None:
    """Returns what classifiers of images say that were trained on both; None where only synthetic ones trained some."""
    return None if real is None else _kept("accuracy", made.mean.accuracy, real.mean.accuracy, chance=0.0)


def of_regression(made: RegressionReport, real: RegressionReport | None) -> Verdict | None:
    """Returns what regressors say that were trained on both; None where only synthetic records trained some."""
    return None if real is None else _kept("R²", made.mean.r2, real.mean.r2, chance=0.0)


def _kept(score: str, made: float, real: float, *, chance: float) -> Verdict:
    """Returns the word for the part of a score above chance that is kept; nothing where there is little to keep."""
    figures = {"score": score, "score_of_synthetic": made, "score_of_real": real}
    compared = f"models reach {score} {made:.3f} where those of real records reach {real:.3f}"
    if not math.isfinite(real) or real - chance < _LEAST_SKILL:
        reason = f"{compared}, hardly better than guessing: nothing follows from it"
        return Verdict(word=None, source="evaluate", reasons=(reason,), figures=figures)
    # What is said is the part itself; the word forgives what may be chance.
    plain = max((made - chance) / (real - chance), 0.0)
    kept = 1 - max(real - made - _ALLOWANCE, 0.0) / (real - chance)
    word, reason = word_of_kept(kept), f"{compared}: {plain:.0%} of what there is to learn"
    cures = () if word == "good" else (_MODEL_CURE,)
    return Verdict(word=word, source="evaluate", reasons=(reason,), cures=cures, figures=figures | {"kept": kept})
