"""Which noise each word takes: cuts for the words of a plan, read off the runs, and how they would have done.

    python benchmarks/verdicts/cuts.py [FILE] [--probabilities .5 .65 .75]

The noise is that of `noisegate.methods.forecast`, on the share of records in half the cells of a column. A word has its
cut at the noise where an evaluation finds it, or a better one, with the probability stated: a logistic regression on
the logarithm of the noise. Agreement is cross-validated: cuts for a table come from other tables.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
from corpus import digest
from harness.options import positional, read_options
from sklearn.linear_model import LogisticRegression
from summary import Run, is_judged, markdown, read_runs

from noisegate.answers.verdict import WORDS

_FOLDS = 10
# The regressions are hardly penalised: their one coefficient is clear.
_INVERSE_PENALTY = 100.0

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def log_noise_cuts(
    log_noise: Floats, found: Indices, probability: float
) -> list[float]:
    """Finds the logarithm of the noise up to which each word but the worst holds.

    Args:
        log_noise: Of each run.
        found: Index in `WORDS` of the word that its evaluation found.
        probability: With which an evaluation finds the word, or a better one, at its cut.
    """
    odds = probability / (1 - probability)
    cuts = []
    for word in range(1, len(WORDS)):
        model = LogisticRegression(C=_INVERSE_PENALTY)
        model.fit(log_noise[:, None], found >= word)
        cuts.append(float((math.log(odds) - model.intercept_[0]) / model.coef_[0, 0]))
    return cuts


def word_indices(log_noise: Floats, cuts: Sequence[float]) -> Indices:
    """Returns the index of the word of each run, by the cuts from worst to best."""
    return (log_noise[:, None] <= np.asarray(cuts)).sum(axis=1)


def cut_row(runs: Sequence[Run], probability: float) -> list[object]:
    """Returns the cuts at a probability, and how often their words are those of evaluate."""
    log_noise = np.log([run["noise"] for run in runs])
    found = np.array([WORDS.index(run["evaluate"]["word"]) for run in runs])
    folds = np.array([int(digest(run["table"]), 16) % _FOLDS for run in runs])
    words = np.zeros_like(found)
    for fold in range(_FOLDS):
        is_inside = folds == fold
        cuts = log_noise_cuts(log_noise[~is_inside], found[~is_inside], probability)
        words[is_inside] = word_indices(log_noise[is_inside], cuts)
    steps = words - found
    shares = [steps == 0, steps == 1, steps > 1, steps == -1, steps < -1]
    cuts = log_noise_cuts(log_noise, found, probability)
    return [
        f"{probability:.0%}",
        *(f"{math.exp(cut):.2g}" for cut in cuts),
        *(f"{is_counted.mean():.1%}" for is_counted in shares),
    ]


def main() -> None:
    """Prints the cuts."""
    beside = Path(__file__).parent / "results.jsonl"
    options = read_options(
        __doc__,
        results=positional(Path, default=beside),
        probabilities=[0.5, 0.65, 0.75],
    )
    runs = [run for run in read_runs(options.results, held_out=False) if is_judged(run)]
    headings = ["probability", *WORDS[1:], "same", "above by 1", "by 2 or more"]
    headings += ["below by 1", "by 2 or more"]
    rows = [cut_row(runs, probability) for probability in options.probabilities]
    print(markdown(headings, rows))


if __name__ == "__main__":
    main()
