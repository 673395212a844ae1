"""Any classifier that was trained through the gate, whatever it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from noisegate.models.folder import NETWORK_CLASSIFIER, read_model
from noisegate.models.locally_linear import LocallyLinear
from noisegate.models.network_classifier import NetworkClassifier

Classifier: TypeAlias = LocallyLinear | NetworkClassifier


def load_classifier(folder: str | Path) -> Classifier:
    """Returns the classifier that its `save` wrote, after checking every hash.

    Raises:
        ModelError: if the folder is missing, broken or was changed, or holds a model of records.
    """
    _, _, description = read_model(Path(folder))
    return (NetworkClassifier if description.get("kind") == NETWORK_CLASSIFIER else LocallyLinear).load(folder)
