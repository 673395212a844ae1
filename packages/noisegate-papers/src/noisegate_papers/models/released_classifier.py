"""Classifiers that were trained through the gate: classes, inputs, release, predictions; and networks.

`NetworkClassifier.module` is the network itself, from the inputs of records to logits,
for what explains networks from outside: gradients at the inputs and their like are
functions of released weights, and cost no privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError, NoisegateError
from noisegate.models.folder import (
    CLASSIFIER,
    NETWORK_CLASSIFIER,
    kind_in,
    read_model,
    write_model,
)
from noisegate.models.labelled import softmax
from noisegate.models.record_model import model_class
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape, read_shape
from noisegate_papers.models.inputs import Inputs, inputs_of

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleasedClassifier(Shown, ABC):
    """A trained classifier with its release; it holds no record, and predictions cost no privacy."""

    classes: tuple[str | int | bool, ...]  # what each class is called
    inputs: Inputs  # the map from a record to its inputs
    release: Release  # the release, with its certificate

    @property
    def certificate(self) -> Certificate:
        """The statement to hand out with the classifier."""
        return self.release.certificate

    @abstractmethod
    def scores(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the score of each class, (rows, classes), at records encoded by the schema without its label."""

    def probabilities(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns the softmax of the scores, (rows, classes); they are not calibrated."""
        return softmax(self.scores(records))

    def predictions(self, records: EncodedTable) -> npt.NDArray[np.int64]:
        """Returns the class with the highest score, as its position in `classes`, (rows,)."""
        return np.asarray(self.scores(records).argmax(axis=1), dtype=np.int64)

    def card(self) -> ResultCard:
        """Returns what the classifier is and promises, as a card for a terminal or a notebook."""
        certificate, classes = (
            self.release.certificate,
            ", ".join(map(str, self.classes)),
        )
        told = certificate.card()
        facts = {"classes": classes, "guarantee": certificate.guarantee, **told.facts}
        title = f"{type(self).__name__}: a classifier of {len(self.classes)} classes"
        return ResultCard(title=title, facts=facts, sheets=told.sheets)

    @abstractmethod
    def save(self, folder: str | Path) -> Path:
        """Writes the classifier into a new folder."""


def load_classifier(folder: str | Path) -> ReleasedClassifier:
    """Returns the classifier that its `save` wrote, after checking every hash."""
    kind = (
        NETWORK_CLASSIFIER
        if kind_in(Path(folder)) == NETWORK_CLASSIFIER
        else CLASSIFIER
    )
    return cast("ReleasedClassifier", model_class(kind).load(folder))


_ROWS = 256


@dataclass(frozen=True, kw_only=True)
class ClassifierDesign:
    """A network's make: for images a ConvNet of `depth` blocks of `width` channels, for a table a perceptron."""

    image: tuple[int, int, int] | None
    width: int
    depth: int
    hidden: tuple[int, ...]

    def build(self, inputs: int, classes: int, *, seed: int) -> nn.Module:
        """Returns the network with fresh weights, from rows of inputs to logits, in float32 on the CPU."""
        from noisegate_images.networks.classifiers import (
            build_perceptron,
            build_row_convnet,
        )

        if self.image is not None:
            return build_row_convnet(
                read_shape(self.image),
                classes,
                width=self.width,
                depth=self.depth,
                seed=seed,
            )
        return build_perceptron(
            ImageShape(height=1, width=inputs), classes, hidden=self.hidden, seed=seed
        )

    def __str__(self) -> str:
        if self.image is not None:
            return f"a ConvNet of {self.depth} blocks of {self.width} channels"
        return f"a perceptron with hidden layers {list(self.hidden)}"

    def to_json(self) -> dict[str, Any]:
        """Returns the design as JSON values."""
        return {
            "image": self.image,
            "width": self.width,
            "depth": self.depth,
            "hidden": self.hidden,
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> ClassifierDesign:
        """Returns the design that `to_json` gave."""
        lists = {
            name: tuple(value)
            for name, value in values.items()
            if isinstance(value, list)
        }
        return ClassifierDesign(**{**values, **lists})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkClassifier(ReleasedClassifier):
    """A trained classifier with its release; `weights` are those of the network by name, float32."""

    weights: Mapping[str, npt.NDArray[np.float32]]
    design: ClassifierDesign

    @cached_property
    def module(self) -> nn.Module:
        """The network with its weights, in evaluation mode: from what `inputs_of` gives to logits, (rows, classes)."""
        import torch

        module = self.design.build(len(self.inputs.names), len(self.classes), seed=0)
        try:
            module.load_state_dict(
                {
                    name: torch.from_numpy(np.array(value))
                    for name, value in self.weights.items()
                }
            )
        except RuntimeError as error:
            raise ModelError(
                f"the weights are not those of {self.design}: {error}"
            ) from None
        return module.eval().requires_grad_(False)

    def inputs_of(self, records: EncodedTable) -> Float[Tensor, "records inputs"]:
        """Returns what the network sees of records that are encoded by the schema without its label, float32."""
        import torch

        numeric, codes = (
            torch.from_numpy(records.numeric).float(),
            torch.from_numpy(records.codes),
        )
        return self.inputs(numeric, codes) / self.inputs.scale

    def scores(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns logits, (rows, classes), at records that are encoded by the schema without its label."""
        import torch

        with torch.inference_mode():
            parts = [
                self.module(
                    self.inputs_of(records.rows(slice(start, start + _ROWS)))
                ).numpy()
                for start in range(0, len(records), _ROWS)
            ]
        return np.concatenate([np.zeros((0, len(self.classes))), *parts])

    def save(self, folder: str | Path) -> Path:
        """Writes the classifier into the new folder `folder`: safetensors and JSON, no pickle."""
        model = {
            "kind": NETWORK_CLASSIFIER,
            "centre": self.inputs.centre,
            "design": self.design.to_json(),
        }
        return write_model(
            Path(folder), release=self.release, tensors=dict(self.weights), model=model
        )

    @staticmethod
    def load(folder: str | Path) -> NetworkClassifier:
        """Returns the classifier that `save` wrote, after checking every hash; a ModelError if there is none."""
        release, tensors, description = read_model(Path(folder))
        if description.get("kind") != NETWORK_CLASSIFIER:
            raise ModelError(
                f"{folder} holds no network that predicts a label; load_classifier takes any classifier."
            )
        layout = release.schema.layout
        try:
            classes = () if layout.label is None else layout.coded[layout.label].levels
            if not classes:
                raise ValueError("the schema has no label with levels")
            classifier = NetworkClassifier(
                weights={
                    name: np.asarray(value, np.float32)
                    for name, value in tensors.items()
                },
                design=ClassifierDesign.from_json(description["design"]),
                classes=classes,
                inputs=inputs_of(release.schema, centre=float(description["centre"])),
                release=release,
            )
            assert (
                classifier.module is not None
            )  # weights that do not fit are found here
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            NoisegateError,
        ) as error:
            raise ModelError(
                f"{folder}: the classifier cannot be rebuilt: {error}"
            ) from None
        return classifier
