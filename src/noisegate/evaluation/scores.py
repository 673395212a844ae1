"""Classification scores from class probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How well the scores of a classifier rank and separate the classes, each in [0, 1].

    Attributes:
        roc_auc: area under the ROC curve.
        average_precision: area under the precision-recall curve.
        f1: F1 of taking the class with the highest score.
    """

    roc_auc: float
    average_precision: float
    f1: float

    def to_json(self) -> dict[str, float]:
        """The figures as JSON values."""
        return {"roc_auc": self.roc_auc, "average_precision": self.average_precision, "f1": self.f1}

    @classmethod
    def mean(cls, several: Sequence[Scores]) -> Scores:
        """Average each score.

        Args:
            several: at least one set of scores.

        Returns:
            Their plain means.
        """
        return cls(
            roc_auc=float(np.mean([one.roc_auc for one in several])),
            average_precision=float(np.mean([one.average_precision for one in several])),
            f1=float(np.mean([one.f1 for one in several])),
        )


def score(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    """Score class probabilities against the true labels.

    Two classes: the scores of the last one, the positive class. More: each class against the rest, averaged over the
    classes that occur among the true labels.

    Args:
        labels: the true class codes, of at least two classes.
        probabilities: one row per label, one column per class.

    Returns:
        The scores.
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    predicted = probabilities.argmax(axis=1)
    count = probabilities.shape[1]
    targets = [1] if count == 2 else [int(target) for target in np.unique(labels)]
    return Scores.mean(
        [
            Scores(
                roc_auc=float(roc_auc_score(labels == target, probabilities[:, target])),
                average_precision=float(average_precision_score(labels == target, probabilities[:, target])),
                f1=float(f1_score(labels == target, predicted == target, zero_division=0.0)),
            )
            for target in targets
        ]
    )
