"""Scores as DP-MERF and DP-HP print them: from hard predictions, which say nothing of how a classifier ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class PrintedScores:
    """What the papers' tables hold, each in [0, 1]; beside :class:`~noisegate.evaluation.utility.scores.Scores`.

    Attributes:
        roc_auc: area under the ROC curve of the hard predictions of two classes, which is the mean of sensitivity and
            specificity; None for more classes, where the papers have none.
        average_precision: area under their precision-recall curve; None for more classes.
        weighted_f1: F1 of each class, weighted by its share of the test rows.
    """

    roc_auc: float | None
    average_precision: float | None
    weighted_f1: float

    def to_json(self) -> dict[str, float | None]:
        """The figures as JSON values."""
        return asdict(self)

    @classmethod
    def mean(cls, several: Sequence[PrintedScores]) -> PrintedScores:
        """Average each score of at least one set of scores of the same number of classes."""
        return cls(
            roc_auc=_mean([one.roc_auc for one in several]),
            average_precision=_mean([one.average_precision for one in several]),
            weighted_f1=float(np.mean([one.weighted_f1 for one in several])),
        )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def printed_scores(labels: np.ndarray, predicted: np.ndarray, *, classes: int) -> PrintedScores:
    """Score hard predictions as the programs of DP-MERF and DP-HP do.

    Args:
        labels: the true class codes 0 .. classes-1, of at least two classes.
        predicted: the class that is predicted for each row.
        classes: with two, class 1 is the positive one.

    Examples:
        >>> import numpy as np
        >>> from noisegate.evaluation.utility.printed_scores import printed_scores
        >>> found = printed_scores(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]), classes=2)
        >>> found.roc_auc, found.average_precision, round(found.weighted_f1, 3)
        (0.75, 0.75, 0.733)
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    return PrintedScores(
        roc_auc=float(roc_auc_score(labels, predicted)) if classes == 2 else None,
        average_precision=float(average_precision_score(labels, predicted)) if classes == 2 else None,
        weighted_f1=float(f1_score(labels, predicted, average="weighted", zero_division=0.0)),
    )
