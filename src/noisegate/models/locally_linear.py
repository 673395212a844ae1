"""Locally linear maps: several linear maps for each class, weighed by how strongly each answers to a record.

The score of class k is f_k(x) = Σ_m σ_mk(x)·g_mk(x), with g_mk(x) = w_mk·x + b_mk and σ_mk the softmax over m of g_mk/T
("Interpretable and Differentially Private Predictions", equation 3, with T = 1/β). A second softmax gives
probabilities (equation 5). Near a record the score is about linear, so the weighed maps explain the prediction, and the
maps of a class show what it answers to anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError, OptionError
from noisegate.models.classifier_inputs import Inputs, inputs_of
from noisegate.models.folder import CLASSIFIER, read_model, write_model
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float32]
_ROWS = 4096


def locally_linear_scores(answers: Tensor, temperature: float) -> Tensor:
    """Returns the score of each class, (…, classes).

    Args:
        answers: What each map of each class answers, (…, maps, classes).
        temperature: T; the higher, the more maps have a say.
    """
    import torch

    return (torch.softmax(answers / temperature, dim=-2) * answers).sum(dim=-2)


@dataclass(frozen=True, kw_only=True)
class LocallyLinear:
    """A trained classifier with its release; it holds no record, and what is asked of it costs no privacy.

    Attributes:
        weights: w, (maps, classes, inputs).
        bias: b, (maps, classes).
        temperature: T.
        classes: What each class is called.
        inputs: The map from a record to its inputs.
        release: What left the gate, with its certificate.
    """

    weights: Array
    bias: Array
    temperature: float
    classes: tuple[str | int | bool, ...]
    inputs: Inputs
    release: Release

    @property
    def certificate(self) -> Certificate:
        """The statement to hand out with the classifier."""
        return self.release.certificate

    def scores(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns f, (rows, classes).

        Args:
            records: Encoded by the schema without its label.
        """
        parts = [locally_linear_scores(answers, self.temperature).numpy() for answers in self._answers(records)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes)))

    def probabilities(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the softmax of the scores, (rows, classes); they are not calibrated."""
        scores = self.scores(records)
        exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(exponents / exponents.sum(axis=1, keepdims=True))

    def predictions(self, records: EncodedTable) -> npt.NDArray[np.int64]:
        """Returns the class with the highest score, as its position in `classes`, (rows,)."""
        return np.asarray(self.scores(records).argmax(axis=1), dtype=np.int64)

    def importance(self, records: EncodedTable, *, of: npt.NDArray[np.int64] | None = None) -> Array:
        """Returns σ: the weight of each map of one class at each record, (rows, maps); each row sums to 1.

        Args:
            records: Encoded by the schema without its label.
            of: Position of a class for each record; None for the predicted one.
        """
        import torch

        of = self.predictions(records) if of is None else of
        parts = [np.zeros((0, len(self.weights)))]
        for start, answers in zip(range(0, len(records), _ROWS), self._answers(records), strict=True):
            weights = torch.softmax(answers / self.temperature, dim=-2).numpy()
            parts.append(weights[np.arange(len(weights)), :, of[start : start + _ROWS]])
        return np.concatenate(parts).astype(np.float32)

    def explain(self, records: EncodedTable, *, of: npt.NDArray[np.int64] | None = None) -> Array:
        """Returns the weighed map Σ_m σ_mk(x)·w_mk of one class k at each record, (rows, inputs): why that class.

        An entry says how much the class gains while its column goes from its lower to its upper bound, or while the
        level comes up, with σ as it is at the record.

        Args:
            records: Encoded by the schema without its label.
            of: Position of a class for each record; None for the predicted one.
        """
        of = self.predictions(records) if of is None else of
        weights = self.importance(records, of=of)
        maps = np.zeros((len(records), self.weights.shape[2]), dtype=np.float32)
        for k in np.unique(of):
            maps[of == k] = weights[of == k] @ self.weights[:, k]
        return maps * self.inputs.gradients

    def filters(self, label: str | int | bool) -> Array:
        """Returns every map of a class, (maps, inputs), in the units of `explain`: what the class answers to.

        Raises:
            OptionError: if there is no such class.
        """
        if label not in self.classes:
            raise OptionError(f"label={label!r} is no class; choose one of {list(self.classes)}.")
        return np.asarray(self.weights[:, self.classes.index(label)] * self.inputs.gradients)

    def save(self, folder: str | Path) -> Path:
        """Writes the classifier into the new folder `folder`: safetensors and JSON, no pickle. See `model_folder`.

        Raises:
            ModelError: if the folder exists or cannot be written.
        """
        model = {"kind": CLASSIFIER, "temperature": self.temperature, "centre": self.inputs.centre}
        tensors = {"weights": self.weights, "bias": self.bias}
        return write_model(Path(folder), release=self.release, tensors=tensors, model=model)

    @staticmethod
    def load(folder: str | Path) -> LocallyLinear:
        """Returns the classifier that `save` wrote, after checking every hash.

        Raises:
            ModelError: if the folder is missing, broken or was changed, or holds no classifier.
        """
        release, tensors, description = read_model(Path(folder))
        if description.get("kind") != CLASSIFIER:
            raise ModelError(
                f"{folder} holds a model of records, which predicts no label: `noisegate sample` and Synthesizer.load "
                "take it."
            )
        layout = release.schema.layout
        try:
            inputs = inputs_of(release.schema, centre=float(description["centre"]))
            classes = () if layout.label is None else layout.coded[layout.label].levels
            weights, bias = (np.asarray(tensors[name], np.float32) for name in ("weights", "bias"))
            if not classes or bias.ndim != 2 or weights.shape != (len(bias), len(classes), len(inputs.names)):
                raise ValueError(f"weights of shape {weights.shape} do not fit the schema")
            if bias.shape != weights.shape[:2]:
                raise ValueError(f"biases of shape {bias.shape} do not fit the weights")
            temperature = float(description["temperature"])
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise ModelError(f"{folder}: the classifier cannot be rebuilt: {error}") from None
        return LocallyLinear(
            weights=weights, bias=bias, temperature=temperature, classes=classes, inputs=inputs, release=release
        )

    def _answers(self, records: EncodedTable) -> Iterator[Tensor]:
        """Yields g for some records after the other, (rows, maps, classes)."""
        import torch

        maps, classes, size = self.weights.shape
        # In float64, so that the predictions for a record hardly depend on the records beside it.
        weights = torch.from_numpy(self.weights.reshape(-1, size).astype(np.float64)).T
        for start in range(0, len(records), _ROWS):
            part = records.rows(slice(start, start + _ROWS))
            inputs = self.inputs(torch.from_numpy(part.numeric), torch.from_numpy(part.codes))
            yield (inputs @ weights).reshape(-1, maps, classes) + torch.from_numpy(self.bias)
