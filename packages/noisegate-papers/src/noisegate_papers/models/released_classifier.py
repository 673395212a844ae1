"""What every classifier that was trained through the gate has: classes, inputs, its release, and predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from noisegate.cards import ResultCard, Shown
from noisegate.models.folder import CLASSIFIER, NETWORK_CLASSIFIER, kind_in
from noisegate.models.record_model import model_class
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable
from noisegate_papers.models.inputs import Inputs


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleasedClassifier(Shown, ABC):
    """A trained classifier with its release; it holds no record, and what is asked of it costs no privacy.

    Attributes:
        classes: What each class is called.
        inputs: The map from a record to its inputs.
        release: What left the gate, with its certificate.
    """

    classes: tuple[str | int | bool, ...]
    inputs: Inputs
    release: Release

    @property
    def certificate(self) -> Certificate:
        """The statement to hand out with the classifier."""
        return self.release.certificate

    @abstractmethod
    def scores(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the score of each class, (rows, classes), at records encoded by the schema without its label."""

    def probabilities(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the softmax of the scores, (rows, classes); they are not calibrated."""
        scores = self.scores(records)
        exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(exponents / exponents.sum(axis=1, keepdims=True))

    def predictions(self, records: EncodedTable) -> npt.NDArray[np.int64]:
        """Returns the class with the highest score, as its position in `classes`, (rows,)."""
        return np.asarray(self.scores(records).argmax(axis=1), dtype=np.int64)

    def card(self) -> ResultCard:
        """Returns what the classifier is and promises, as a card for a terminal or a notebook."""
        certificate, classes = self.release.certificate, ", ".join(map(str, self.classes))
        told = certificate.card()
        facts = {"classes": classes, "guarantee": certificate.guarantee, **told.facts}
        title = f"{type(self).__name__}: a classifier of {len(self.classes)} classes"
        return ResultCard(title=title, facts=facts, sheets=told.sheets)

    @abstractmethod
    def save(self, folder: str | Path) -> Path:
        """Writes the classifier into a new folder."""


def load_classifier(folder: str | Path) -> ReleasedClassifier:
    """Returns the classifier that its `save` wrote, after checking every hash."""
    kind = NETWORK_CLASSIFIER if kind_in(Path(folder)) == NETWORK_CLASSIFIER else CLASSIFIER
    return cast("ReleasedClassifier", model_class(kind).load(folder))
