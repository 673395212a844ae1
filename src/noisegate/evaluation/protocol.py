"""The evaluation of the papers: twelve classifiers trained on synthetic rows and tested on real ones, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.scores import Scores
from noisegate.evaluation.training import LabelledRows, Outcome, train_and_score
from noisegate.evaluation.twelve import Twelve, Variant, twelve
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed

Progress = Callable[[str, int, int], None]
"""Told which classifier is done, how many are, and how many there will be."""

_SLOW = ("linear SVC", "gradient boosting", "AdaBoost", "logistic regression", "multi-layer perceptron", "xgboost")


@dataclass(frozen=True, kw_only=True)
class TwelveReport:
    """Scores on real rows of the twelve classifiers, trained on other rows.

    Attributes:
        protocol: the list of classifiers, with its version.
        seed: of the classifiers.
        models: scores per classifier, in the order of the list.
        notes: what was unusual, in words, each starting with the name of the classifier.
        seconds: wall-clock time per classifier; no part of equality.
    """

    protocol: Twelve
    seed: int
    models: Mapping[str, Scores]
    notes: tuple[str, ...]
    seconds: Mapping[str, float] = field(compare=False)

    @property
    def mean(self) -> Scores:
        """The mean over the classifiers: the figure that the papers print."""
        return Scores.mean(list(self.models.values()))

    @property
    def deviation(self) -> Scores:
        """The standard deviation over the classifiers."""
        return Scores.deviation(list(self.models.values()))

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the list, its replacements, and the sentence about the guarantee."""
        return {
            "caveat": CAVEAT,
            "classifiers": self.protocol.to_json(),
            "seed": self.seed,
            "mean": self.mean.to_json(),
            "standard_deviation": self.deviation.to_json(),
            "models": {name: scores.to_json() for name, scores in self.models.items()},
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }


def usable_cores() -> int:
    """The number of cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def twelve_scores(
    train: LabelledRows,
    test: LabelledRows,
    *,
    classes: int,
    variant: Variant,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> TwelveReport:
    """Train the twelve classifiers on some rows and score them on others.

    The classifiers run side by side in processes of their own, each on one thread. The rows are in memory once: the
    processes map the same file. The scores do not depend on ``jobs``.

    Args:
        train: the rows to train on, synthetic as a rule.
        test: real rows of at least two classes.
        classes: number of classes; with two, class 1 is the positive one.
        variant: which list of settings, "images" or "tables".
        seed: of the classifiers; public.
        jobs: processes; default: the cores that may be used. 1 stays in this process.
        progress: told after each classifier.

    Returns:
        Scores per classifier. One that cannot be trained has those of a constant predictor, and a note.

    Raises:
        OptionError: ``classes`` below 2, ``jobs`` below 1, or no such variant.
        DataError: rows that no classifier can be asked about, or fewer than two classes among the test labels.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    protocol = twelve(variant)
    if classes < 2:
        raise OptionError(f"classes is {classes}; expected at least 2")
    if jobs is not None and jobs < 1:
        raise OptionError(f"jobs is {jobs}; expected at least 1")
    train.check("training", classes)
    test.check("test", classes)
    if (found := len(np.unique(test.labels))) < 2:
        raise DataError(f"the test rows have {found} class(es); scores need at least 2")
    done: dict[str, Outcome] = {}
    with closing(_outcomes(protocol, train, test, classes, seed, jobs or usable_cores())) as outcomes:
        for outcome in outcomes:
            done[outcome.name] = outcome
            if progress is not None:
                progress(outcome.name, len(done), len(protocol.recipes))
    ordered = [done[recipe.name] for recipe in protocol.recipes]
    return TwelveReport(
        protocol=protocol,
        seed=seed,
        models={outcome.name: outcome.scores for outcome in ordered},
        notes=tuple(f"{outcome.name}: {note}" for outcome in ordered for note in outcome.notes),
        seconds={outcome.name: outcome.seconds for outcome in ordered},
    )


def _outcomes(
    protocol: Twelve, train: LabelledRows, test: LabelledRows, classes: int, seed: int, jobs: int
) -> Generator[Outcome]:
    """The outcomes, each as soon as it is there."""
    # scikit-learn's Parallel is joblib's, which maps large arrays into the processes instead of copying them.
    from sklearn.utils.parallel import Parallel, delayed

    # The slow ones first, so that no core waits for one that was started last.
    order = sorted(protocol.recipes, key=lambda recipe: recipe.name not in _SLOW)
    run = Parallel(n_jobs=min(jobs, len(order)), return_as="generator_unordered", pre_dispatch="all")
    tasks = (delayed(train_and_score)(recipe, train, test, classes=classes, seed=seed) for recipe in order)
    return cast("Generator[Outcome]", run(tasks))
