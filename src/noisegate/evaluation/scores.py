"""Classification scores from class probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from noisegate.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How well the scores of a classifier rank and separate the classes, each in [0, 1].

    Attributes:
        roc_auc: area under the ROC curve.
        average_precision: area under the precision-recall curve.
        f1: F1 of taking the class with the highest score.
        accuracy: share of the rows whose class has the highest score.
    """

    roc_auc: float
    average_precision: float
    f1: float
    accuracy: float

    def to_json(self) -> dict[str, float]:
        """The figures as JSON values."""
        return asdict(self)

    @classmethod
    def mean(cls, several: Sequence[Scores]) -> Scores:
        """Average each score.

        Args:
            several: at least one set of scores.

        Returns:
            Their plain means.
        """
        return cls(**_by_name(several, lambda values: float(np.mean(values))))

    @classmethod
    def deviation(cls, several: Sequence[Scores]) -> Scores:
        """Measure how far each score spreads.

        Args:
            several: at least two sets of scores.

        Returns:
            Their sample standard deviations, with n - 1 in the denominator.

        Raises:
            OptionError: there are fewer than two.
        """
        if len(several) < 2:
            raise OptionError(f"a standard deviation of {len(several)} set(s) of scores; expected at least 2")
        return cls(**_by_name(several, lambda values: float(np.std(values, ddof=1))))


def score(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    """Score class probabilities against the true labels.

    Two classes: the scores of the last one, the positive class. More: each class against the rest, averaged over the
    classes that occur among the true labels. The accuracy is over all rows.

    Args:
        labels: the true class codes, of at least two classes.
        probabilities: one row per label, one column per class; or any finite figures that are larger where the class
            is more likely. Only their order within a column and within a row counts.

    Returns:
        The scores.
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    predicted = probabilities.argmax(axis=1)
    accuracy = float(np.mean(predicted == labels))
    count = probabilities.shape[1]
    targets = [1] if count == 2 else [int(target) for target in np.unique(labels)]
    means = Scores.mean(
        [
            Scores(
                roc_auc=float(roc_auc_score(labels == target, probabilities[:, target])),
                average_precision=float(average_precision_score(labels == target, probabilities[:, target])),
                f1=float(f1_score(labels == target, predicted == target, zero_division=0.0)),
                accuracy=accuracy,
            )
            for target in targets
        ]
    )
    # The mean of one accuracy per class may differ from it in the last digit.
    return replace(means, accuracy=accuracy)


def _by_name(several: Sequence[Scores], summary: Callable[[list[float]], float]) -> dict[str, float]:
    return {field.name: summary([getattr(one, field.name) for one in several]) for field in fields(Scores)}
