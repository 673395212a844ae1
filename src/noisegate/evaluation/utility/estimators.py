"""Classifiers of scikit-learn and of libraries with the same verbs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from noisegate.evaluation.utility.recipe import Answer, EpochDone, LabelledRows, Recipe, UntrainableError
from noisegate.evaluation.utility.scores import log_odds


@dataclass(frozen=True, kw_only=True)
class Estimator(Recipe):
    """A classifier with ``fit`` and scores per class.

    Attributes:
        maker: module and class, for instance ``sklearn.naive_bayes.GaussianNB``.
        settings: its arguments; the rest are defaults.
        seeded: whether it takes a ``random_state``.
        replaced: what the papers have and this list has not, in words; None when it is as published.
    """

    maker: str
    settings: Mapping[str, object] = field(default_factory=dict)
    seeded: bool = True
    replaced: str | None = None

    @property
    def package(self) -> str:
        """XGBoost; scikit-learn is always there."""
        return "" if self.maker.startswith("sklearn.") else self.maker.partition(".")[0]

    def build(self, *, classes: int, seed: int) -> Any:
        """Make the classifier, unfitted.

        Args:
            classes: classes in the training rows; bounds the components of linear discriminant analysis.
            seed: public; the same seed gives the same classifier.
        """
        module, _, name = self.maker.rpartition(".")
        settings = dict(self.settings)
        if isinstance(components := settings.get("n_components"), int):
            settings["n_components"] = min(components, classes - 1)
        if self.seeded:
            settings["random_state"] = seed
        return getattr(import_module(module), name)(**settings)

    def to_json(self) -> dict[str, object]:
        """The recipe as JSON values."""
        return {"class": self.maker, "settings": dict(self.settings), "replaced": self.replaced}

    def answer(
        self, train: LabelledRows, test: LabelledRows, *, classes: int, seed: int, progress: EpochDone | None = None
    ) -> Answer:
        """Fit on the training rows; a failure of the library is a classifier that cannot be trained on these rows.

        Warnings are counted, one note for each kind.
        """
        found, compact = np.unique(train.labels, return_inverse=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                classifier = self.build(classes=len(found), seed=seed)
                classifier.fit(_flat(train), compact)
                scores = class_scores(classifier, _flat(test), found, classes)
            except MemoryError:
                # No property of the rows: on a larger machine the score would be another one.
                raise
            except Exception as error:
                # Libraries raise many kinds for rows that they cannot learn from; any of them means the same here.
                reason = (str(error).strip() or "no reason given").splitlines()[0][:120]
                raise UntrainableError(f"{type(error).__name__}: {reason}") from error
        kinds = Counter(warning.category.__name__ for warning in caught)
        return Answer(scores=scores, notes=tuple(f"{count} {kind}" for kind, count in sorted(kinds.items())))


def class_scores(classifier: Any, features: np.ndarray, found: np.ndarray, classes: int) -> np.ndarray:
    """Ask a fitted classifier for a score per row and class.

    Probabilities where it gives them, else its decision function. Naive Bayes gives log-odds: they order the rows as
    its probabilities would, but those round to 0 and 1 with hundreds of features, and rows that are tied have no order.

    Args:
        classifier: a scikit-learn classifier, fitted on the codes 0 .. k-1 for the k classes that training saw.
        features: one row per record.
        found: the class codes that training saw, in increasing order, at least two.
        classes: number of classes, those that training never saw included.

    Returns:
        float64, one row per record and one column per class. A class that training never saw has the same score in
        every row, below all others.

    Raises:
        ValueError: a score is not finite.
    """
    if hasattr(classifier, "predict_joint_log_proba"):
        # In float64: sums over hundreds of features are large, and float32 would tie rows again.
        given = log_odds(np.asarray(classifier.predict_joint_log_proba(features.astype(np.float64))))
    elif hasattr(classifier, "predict_proba"):
        given = np.asarray(classifier.predict_proba(features), dtype=np.float64)
    else:
        given = np.asarray(classifier.decision_function(features), dtype=np.float64)
    if given.ndim == 1:
        # Two classes: one figure, positive for the second.
        given = np.column_stack([-given, given])
    if not np.isfinite(given).all():
        raise ValueError("its scores are not finite")
    scores = np.full((len(features), classes), given.min() - 1.0)
    scores[:, found] = given
    return scores


def _flat(rows: LabelledRows) -> np.ndarray:
    """One row of float32 per record; intensities of images in [0, 1]."""
    flat = rows.features.reshape(len(rows.features), -1)
    return flat.astype(np.float32) / np.float32(255) if flat.dtype == np.uint8 else flat
