"""Classification scores from what a classifier says of each class; beside them those of hard predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from noisegate.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Averaged:
    """Figures of which several sets have a mean and a spread, figure by figure."""

    def to_json(self) -> dict[str, float | None]:
        """Returns the figures as JSON values."""
        return asdict(self)

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Returns the average of each figure of at least one set; None where one is None."""
        return cls(**{name: None if None in values else float(np.mean(values)) for name, values in _by_name(several)})

    @classmethod
    def deviation(cls, several: Sequence[Self]) -> Self:
        """Returns how far each figure spreads: the sample standard deviation, with n - 1, of at least two sets."""
        if len(several) < 2:
            raise OptionError(f"a standard deviation of {len(several)} set(s) of scores; expected at least 2")
        return cls(**{name: float(np.std(values, ddof=1)) for name, values in _by_name(several)})


def _by_name(several: Sequence[Averaged]) -> Iterator[tuple[str, list[Any]]]:
    told = [one.to_json() for one in several]
    return ((name, [one[name] for one in told]) for name in told[0])


@dataclass(frozen=True, kw_only=True)
class Scores(Averaged):
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


def score(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    """Returns the scores of class probabilities, (rows, classes), against the true codes of at least two classes.

    Two classes: the scores of the last one. More: each against the rest, averaged over those that occur among the true
    labels. Only the order of the probabilities within a column and a row counts.

    Examples:
        >>> import numpy as np
        >>> from noisegate_evaluate.utility.scores import score
        >>> score(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])).roc_auc
        1.0
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    predicted = probabilities.argmax(axis=1)
    accuracy = float(np.mean(predicted == labels))
    targets = [1] if probabilities.shape[1] == 2 else [int(target) for target in np.unique(labels)]
    each = [
        Scores(
            roc_auc=float(roc_auc_score(labels == target, probabilities[:, target])),
            average_precision=float(average_precision_score(labels == target, probabilities[:, target])),
            f1=float(f1_score(labels == target, predicted == target, zero_division=0.0)),
            accuracy=accuracy,
        )
        for target in targets
    ]
    # The mean of one accuracy per class may differ from it in the last digit.
    return replace(Scores.mean(each), accuracy=accuracy)


def log_odds(joint: np.ndarray) -> np.ndarray:
    """Returns log of p / (1 - p) of unnormalised log-probabilities, float64, (rows, classes), at least two classes.

    Without forming p, which would round to 0 and 1: rows that are tied have no order.
    """
    columns = range(joint.shape[1])
    rest = [np.logaddexp.reduce(np.delete(joint, column, axis=1), axis=1) for column in columns]
    odds: np.ndarray = joint - np.column_stack(rest)
    return odds


def constant_scores(labels: np.ndarray, rows: int, classes: int) -> np.ndarray:
    """Returns the scores of the constant predictor, (rows, classes): the class shares of the training labels."""
    counts = np.bincount(labels, minlength=classes).astype(np.float64)
    return np.tile(counts / max(counts.sum(), 1.0), (rows, 1))


@dataclass(frozen=True, kw_only=True)
class PrintedScores(Averaged):
    """What the papers' tables hold, each in [0, 1]; beside :class:`Scores`.

    Attributes:
        roc_auc: area under the ROC curve of the hard predictions of two classes, which is the mean of sensitivity and
            specificity; None for more classes, where the papers have none.
        average_precision: area under their precision-recall curve; None for more classes.
        weighted_f1: F1 of each class, weighted by its share of the test rows.
    """

    roc_auc: float | None
    average_precision: float | None
    weighted_f1: float


def printed_scores(labels: np.ndarray, predicted: np.ndarray, *, classes: int) -> PrintedScores:
    """Returns the scores of hard predictions as the programs of DP-MERF and DP-HP do.

    Examples:
        >>> import numpy as np
        >>> from noisegate_evaluate.utility.scores import printed_scores
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
