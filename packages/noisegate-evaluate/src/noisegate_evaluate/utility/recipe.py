"""Interface of the classifiers of a suite: trained on labelled rows, they score other rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from noisegate.errors import DataError, OptionError, require


@dataclass(frozen=True, kw_only=True)
class Averaged:
    """Figures with a mean and a standard deviation over several sets."""

    def to_json(self) -> dict[str, float | None]:
        """Returns the figures as JSON values."""
        return asdict(self)

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Returns the average of each figure of at least one set; None where one is None."""
        return cls(
            **{
                name: None if None in values else float(np.mean(values))
                for name, values in _figures_by_name(several).items()
            }
        )

    @classmethod
    def deviation(cls, several: Sequence[Self]) -> Self:
        """Returns how far each figure spreads: the sample standard deviation, with n - 1, of at least two sets."""
        if len(several) < 2:
            raise OptionError(
                f"a standard deviation of {len(several)} set(s) of scores; expected at least 2"
            )
        figures = _figures_by_name(several)
        return cls(**{name: float(np.std(figures[name], ddof=1)) for name in figures})


def _figures_by_name(several: Sequence[Averaged]) -> dict[str, list[Any]]:
    """Returns each figure of all sets, by its name."""
    names = several[0].to_json()
    return {name: [getattr(scores, name) for scores in several] for name in names}


@dataclass(frozen=True, kw_only=True)
class Scores(Averaged):
    """How well the scores of a classifier rank and separate the classes, each in [0, 1]."""

    roc_auc: float
    """Area under the ROC curve."""
    average_precision: float
    """Area under the precision-recall curve."""
    f1: float
    """F1 score of predicting the class with the highest score."""
    accuracy: float
    """Share of rows whose class has the highest score."""


def score(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    """Returns the scores of class probabilities, (rows, classes), against the true codes of at least two classes.

    Two classes: the scores of the last one. More: each against the rest, averaged over those that occur among the true
    labels.

    Examples:
        >>> import numpy as np
        >>> from noisegate_evaluate.utility.recipe import score
        >>> score(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])).roc_auc
        1.0
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    predicted = probabilities.argmax(axis=1)
    accuracy = float(np.mean(predicted == labels))
    targets = (
        [1]
        if probabilities.shape[1] == 2
        else [int(target) for target in np.unique(labels)]
    )
    each = []
    for target in targets:
        truth = labels == target
        given = probabilities[:, target]
        areas = {"roc_auc": float(roc_auc_score(truth, given))}
        areas["average_precision"] = float(average_precision_score(truth, given))
        f1 = float(f1_score(truth, predicted == target, zero_division=0.0))
        each.append(Scores(f1=f1, accuracy=accuracy, **areas))
    # The mean of one accuracy per class may differ from it in the last digit.
    return replace(Scores.mean(each), accuracy=accuracy)


def log_odds(joint: np.ndarray) -> np.ndarray:
    """Returns log of p / (1 - p) of unnormalised log-probabilities, float64, (rows, classes), at least two classes."""
    # Without forming p, which would round to 0 and 1: rows that are tied have no order.
    rest = [
        np.logaddexp.reduce(np.delete(joint, column, axis=1), axis=1)
        for column in range(joint.shape[1])
    ]
    return np.asarray(joint - np.column_stack(rest))


def constant_scores(labels: np.ndarray, rows: int, classes: int) -> np.ndarray:
    """Returns the scores of the constant predictor, (rows, classes): the class shares of the training labels."""
    counts = np.bincount(labels, minlength=classes).astype(np.float64)
    return np.tile(counts / max(counts.sum(), 1.0), (rows, 1))


@dataclass(frozen=True, kw_only=True)
class PrintedScores(Averaged):
    """Scores as printed in the tables of DP-MERF and DP-HP, each in [0, 1]; in addition to `Scores`."""

    roc_auc: float | None
    """Area under the ROC curve of the hard predictions of two classes, which is the mean of sensitivity and
    specificity; None for more classes, because the papers print none."""
    average_precision: float | None
    """Area under the precision-recall curve of the hard predictions; None for more than two classes."""
    weighted_f1: float
    """F1 of each class, weighted by its share of the held-out records."""


def printed_scores(
    labels: np.ndarray, predicted: np.ndarray, *, classes: int
) -> PrintedScores:
    """Returns the scores of hard predictions as the programs of DP-MERF and DP-HP do.

    Examples:
        >>> import numpy as np
        >>> from noisegate_evaluate.utility.recipe import printed_scores
        >>> found = printed_scores(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]), classes=2)
        >>> found.roc_auc, found.average_precision, round(found.weighted_f1, 3)
        (0.75, 0.75, 0.733)
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    return PrintedScores(
        roc_auc=float(roc_auc_score(labels, predicted)) if classes == 2 else None,
        average_precision=float(average_precision_score(labels, predicted))
        if classes == 2
        else None,
        weighted_f1=float(
            f1_score(labels, predicted, average="weighted", zero_division=0.0)
        ),
    )


EpochDone = Callable[
    [int, int], None
]  # told how many epochs are done, and how many there will be


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRows:
    """Records to train on or to score on."""

    features: np.ndarray
    """One row for each record: float32 (rows, columns), finite; or images, (rows, height, width, channels), float32 in
    [0, 1] or uint8."""
    labels: np.ndarray
    """Class codes 0 .. classes-1, (rows,)."""

    @property
    def image(self) -> tuple[int, ...]:
        """Height, width and channels of images; empty for other rows."""
        return self.features.shape[1:] if self.features.ndim == 4 else ()

    def check(self, what: str, classes: int) -> None:
        """Checks shapes, finite features and class codes. ``what`` describes the records in a DataError."""
        has_rows = self.labels.shape == self.features.shape[:1]
        if self.features.ndim not in (2, 4) or not has_rows:
            raise DataError(
                f"the {what} rows have features of shape {self.features.shape} and "
                f"labels of shape {self.labels.shape}; expected (records, columns) or "
                "(records, height, width, channels), and (records,)"
            )
        if not np.isfinite(self.features).all():
            raise DataError(
                f"the {what} features hold nan or infinity; fill or drop such rows first"
            )
        if len(self.labels) and (self.labels.min() < 0 or self.labels.max() >= classes):
            raise DataError(
                f"the {what} labels are not all in 0 .. {classes - 1}, the codes of {classes} classes"
            )


class UntrainableError(Exception):
    """This classifier cannot be trained on these rows; it is scored as a constant predictor."""


@dataclass(frozen=True, kw_only=True)
class NetworkChoice:
    """How a network was selected: accuracies on validation images by learning rate and epoch, and the selected ones."""

    held_out_accuracy: tuple[tuple[float, ...], ...]
    rate: float
    epoch: int

    def to_json(self) -> dict[str, object]:
        """Returns the choice as JSON values."""
        return {
            "held_out_accuracy": [list(run) for run in self.held_out_accuracy],
            "learning_rate": self.rate,
            "epoch": self.epoch,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """Scores of the test rows by a classifier: float64, (rows, classes), larger for more likely classes."""

    scores: np.ndarray
    notes: tuple[str, ...] = ()
    choice: NetworkChoice | None = None


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """A classifier and its training. A suite trains several classifiers and scores them on the same rows."""

    restarted: ClassVar[bool] = False
    """Whether the classifier is trained several times, from new initial weights with consecutive seeds."""
    rows: ClassVar[str] = "rows"
    """Description of the rows that it is trained on, for messages."""

    name: str
    """Name of the classifier in reports."""

    @property
    @abstractmethod
    def device(self) -> str:
        """Device of the training. Classifiers on a GPU are trained one after the other."""

    @property
    @abstractmethod
    def package(self) -> str:
        """Package that the classifier needs; empty if noisegate always installs it."""

    @abstractmethod
    def answer(
        self,
        train: LabelledRows,
        test: LabelledRows,
        *,
        classes: int,
        seed: int,
        progress: EpochDone | None,
    ) -> Answer:
        """Trains the classifier, and returns its scores of the test rows.

        Args:
            train: Records to train on, of at least two classes.
            test: Records to score, once, after the training.
            classes: Number of classes.
            seed: Seed of the training.
            progress: Called with the number of epochs done and the total number.

        Raises:
            UntrainableError: the classifier cannot be trained on these rows.
        """


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Classifiers that are trained and scored together, with a version.

    Figures of two versions are not comparable.
    """

    name: str
    """Name of the suite."""
    version: str
    """Version of the suite. It changes with every setting."""
    recipes: tuple[Recipe, ...]
    """The classifiers, in the order of the report."""
    repeats: int = 1
    """Number of trainings of each `restarted` classifier."""
    details: Mapping[str, object] = field(default_factory=dict)
    """Further facts about the suite, as JSON values."""
    alone: bool = False
    """Whether the classifiers are trained one after the other in this process, because one of them uses all cores."""
    printed: bool = False
    """Whether the report also has the scores of hard predictions, as papers print them for this suite."""

    @property
    def count(self) -> int:
        """Number of trainings for one set of rows."""
        return sum(self.repeats if recipe.restarted else 1 for recipe in self.recipes)

    def check_installed(self) -> None:
        """Checks that the packages of all classifiers are installed, before any data is read.

        Raises:
            MissingExtraError: a package is not installed.
        """
        for recipe in self.recipes:
            if recipe.package:
                require(recipe.package, f"the classifier {recipe.name!r}")

    def to_json(self) -> dict[str, object]:
        """Returns the list as JSON values: all settings, and the classifiers of the paper that were replaced."""
        return {"list": self.name, "version": self.version, **self.details}
