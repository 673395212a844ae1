"""What a classifier of a suite is: a recipe from labelled rows to scores of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from noisegate.errors import DataError, require

EpochDone = Callable[[int, int], None]
"""Told how many epochs are done, and how many there will be."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRows:
    """Rows to train or to test on.

    Attributes:
        features: one row per record: float32 (rows, columns), finite; or images, (rows, height, width, channels),
            float32 in [0, 1] or uint8.
        labels: class codes 0 .. classes-1, (rows,).
    """

    features: np.ndarray
    labels: np.ndarray

    @property
    def image(self) -> tuple[int, ...]:
        """Height, width and channels of images; empty for other rows."""
        return self.features.shape[1:] if self.features.ndim == 4 else ()

    def check(self, what: str, classes: int) -> None:
        """Checks shapes, finite features and class codes of these rows, which are ``what`` in a DataError."""
        if self.features.ndim not in (2, 4) or self.labels.shape != self.features.shape[:1]:
            raise DataError(
                f"the {what} rows have features of shape {self.features.shape} and labels of shape "
                f"{self.labels.shape}; expected (records, columns) or (records, height, width, channels), and "
                "(records,)"
            )
        if not np.isfinite(self.features).all():
            raise DataError(f"the {what} features hold nan or infinity; fill or drop such rows first")
        if len(self.labels) and (self.labels.min() < 0 or self.labels.max() >= classes):
            raise DataError(f"the {what} labels are not all in 0 .. {classes - 1}, the codes of {classes} classes")


class UntrainableError(Exception):
    """These rows teach this classifier nothing; it is scored as a constant predictor."""


@dataclass(frozen=True, kw_only=True)
class NetworkChoice:
    """How a network was chosen: accuracies on held-out images by learning rate and epoch, and what was taken."""

    held_out_accuracy: tuple[tuple[float, ...], ...]
    rate: float
    epoch: int

    def to_json(self) -> dict[str, object]:
        """Returns the choice as JSON values."""
        accuracies = [list(run) for run in self.held_out_accuracy]
        return {"held_out_accuracy": accuracies, "learning_rate": self.rate, "epoch": self.epoch}


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a classifier says of the test rows: float64, (rows, classes), larger where a class is more likely."""

    scores: np.ndarray
    notes: tuple[str, ...] = ()
    choice: NetworkChoice | None = None


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """A classifier and how it is trained; a suite trains several and scores them on the same rows."""

    restarted: ClassVar[bool] = False
    """Whether it is trained from several fresh starts, with consecutive seeds."""
    rows: ClassVar[str] = "rows"
    """What it is trained on, in words."""

    name: str
    """As reports print it."""

    @property
    def device(self) -> str:
        """Where it runs; what runs on a GPU runs alone."""
        return "cpu"

    @property
    def package(self) -> str:
        """The package that it needs; empty where noisegate always brings it."""
        return ""

    @abstractmethod
    def answer(
        self, train: LabelledRows, test: LabelledRows, *, classes: int, seed: int, progress: EpochDone | None
    ) -> Answer:
        """Returns the answer after training on rows of at least two classes, then ask once about the test rows.

        Raises:
            UntrainableError: these rows teach it nothing.
        """


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Classifiers that are trained and scored together: one list with a version.

    Figures of two versions are not comparable.

    Attributes:
        name: of the list.
        version: of the list; a change of any setting is a new one.
        recipes: in the order of the report.
        repeats: fresh starts of those that are restarted.
        details: what else there is to say of the list, as JSON values.
        alone: whether they run one after the other in this process, as one of them takes every core by itself.
        printed: whether scores of hard predictions stand beside ours, as papers print them for this list.
    """

    name: str
    version: str
    recipes: tuple[Recipe, ...]
    repeats: int = 1
    details: Mapping[str, object] = field(default_factory=dict)
    alone: bool = False
    printed: bool = False

    @property
    def count(self) -> int:
        """Number of trainings on one set of rows."""
        return sum(self.repeats if recipe.restarted else 1 for recipe in self.recipes)

    def check_installed(self) -> None:
        """Checks that the packages of all recipes are there, before anything is read; else a MissingExtraError."""
        for recipe in self.recipes:
            if recipe.package:
                require(recipe.package, f"the classifier {recipe.name!r}")

    def to_json(self) -> dict[str, object]:
        """Returns the list as JSON values: every setting, and what was replaced."""
        return {"list": self.name, "version": self.version, **self.details}
