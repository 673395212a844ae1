"""One classifier of a fixed list: trained on some rows, scored on others, whatever happens on the way."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from noisegate.errors import DataError
from noisegate.evaluation.class_scores import class_scores
from noisegate.evaluation.scores import Scores, score
from noisegate.evaluation.twelve import Recipe


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRows:
    """Rows to train or to test on.

    Attributes:
        features: float32, one row per record, one column per feature; finite.
        labels: class codes 0 .. classes-1, one per record.
    """

    features: np.ndarray
    labels: np.ndarray

    def check(self, what: str, classes: int) -> None:
        """Make sure that classifiers can be asked about these rows.

        Args:
            what: names the rows in an error, for instance "training".
            classes: number of classes.

        Raises:
            DataError: shapes do not match, a feature is not finite, or a label is no class code.
        """
        if self.features.ndim != 2 or self.labels.shape != self.features.shape[:1]:
            raise DataError(
                f"the {what} rows have features of shape {self.features.shape} and labels of shape "
                f"{self.labels.shape}; expected (records, columns) and (records,)"
            )
        if not np.isfinite(self.features).all():
            raise DataError(f"the {what} features hold nan or infinity; fill or drop such rows first")
        if len(self.labels) and (self.labels.min() < 0 or self.labels.max() >= classes):
            raise DataError(f"the {what} labels are not all in 0 .. {classes - 1}, the codes of {classes} classes")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one classifier came to.

    Attributes:
        name: of the recipe.
        scores: on the test rows.
        notes: what was unusual, in words: iterations that did not converge, or why it could not be trained.
        seconds: wall-clock time of training and scoring; differs from run to run and so is no part of equality.
    """

    name: str
    scores: Scores
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)


def train_and_score(recipe: Recipe, train: LabelledRows, test: LabelledRows, *, classes: int, seed: int) -> Outcome:
    """Train a classifier on some rows and score it on others, on one thread.

    A classifier that cannot be trained or gives scores that are not finite is scored as a constant predictor.

    Args:
        recipe: the classifier.
        train: synthetic rows, as a rule.
        test: real rows of at least two classes.
        classes: number of classes.
        seed: public.

    Returns:
        Its scores and notes. One thread, because sums on several threads round differently from run to run.
    """
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    found, compact = np.unique(train.labels, return_inverse=True)
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        try:
            if len(found) < 2:
                raise ValueError(f"the training rows have {len(found)} class(es)")
            classifier = recipe.build(classes=len(found), seed=seed)
            classifier.fit(train.features, compact)
            given = class_scores(classifier, test.features, found, classes)
            notes = _counted(caught)
        except MemoryError:
            # No property of the rows: on a larger machine the score would be another one.
            raise
        except Exception as error:
            # Libraries raise many kinds for rows that they cannot learn from; any of them means the same here.
            given = constant_scores(train.labels, len(test.labels), classes)
            reason = (str(error).strip() or "no reason given").splitlines()[0][:120]
            notes = (f"could not be trained and is scored as a constant predictor ({type(error).__name__}: {reason})",)
    seconds = time.perf_counter() - start
    return Outcome(name=recipe.name, scores=score(test.labels, given), notes=notes, seconds=seconds)


def constant_scores(labels: np.ndarray, rows: int, classes: int) -> np.ndarray:
    """Give the scores of the constant predictor: the class shares among the training labels, in every row.

    Its ROC-AUC is 1/2, its average precision the share of the class in the test rows, and it predicts the most frequent
    training class.

    Args:
        labels: the training labels, maybe none.
        rows: number of test rows.
        classes: number of classes.

    Returns:
        float64 of shape (rows, classes).
    """
    counts = np.bincount(labels, minlength=classes).astype(np.float64)
    return np.tile(counts / max(counts.sum(), 1.0), (rows, 1))


def _counted(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """One note per kind of warning."""
    kinds = Counter(warning.category.__name__ for warning in caught)
    return tuple(f"{count} {kind}" for kind, count in sorted(kinds.items()))
