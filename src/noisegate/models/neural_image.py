"""The record model of a fitted image generator: a label, then noise, then an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch

from noisegate.models.generator import Generator
from noisegate.models.image import ImageGenerator, build_image_generator
from noisegate.models.image_network import ImageNetwork
from noisegate.models.neural import NeuralTable
from noisegate.models.record_model import Array
from noisegate.models.table import ComponentGenerator, TableGenerator
from noisegate.schema import EncodedTable, Layout, Schema
from noisegate.schema.pixels import ImageShape

_PREFIX = "generator/"
# Images made at once: enough to keep a core busy, and some hundred megabytes of activations at most.
_BLOCK = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralImage:
    """An image generator with the shares of its labels.

    Attributes:
        generator: The fitted network, on the CPU, in evaluation mode.
        weights: Share of each label, (labels,); one 1 without a label.
        labelled: Whether the schema has a label.
    """

    generator: ImageGenerator
    weights: npt.NDArray[np.float64]
    labelled: bool = True

    kind: ClassVar[str] = "image-generator"

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, pixels as numeric columns; `random` is public randomness, on the CPU."""
        labels = torch.multinomial(torch.from_numpy(self.weights), rows, replacement=True, generator=random)
        pixels = np.empty((rows, self.generator.network.shape.size))
        with torch.no_grad():
            for start in range(0, rows, _BLOCK):
                block = labels[start : start + _BLOCK]
                pixels[start : start + _BLOCK] = self.generator(self.generator.noise(len(block), random), block)
        codes = labels.numpy().astype(np.int32)[:, None]
        return EncodedTable(pixels, codes if self.labelled else codes[:, :0])

    def tensors(self) -> dict[str, Array]:
        """Returns the weights of the network and the shares of the labels."""
        fitted = {f"{_PREFIX}{name}": value.numpy() for name, value in self.generator.state_dict().items()}
        contiguous = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in fitted.items()}
        return {**contiguous, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the shape of the images and the design of the network."""
        network = self.generator.network
        return {
            "image": list(astuple(network.shape)),
            "network": network.kind,
            "latent": network.latent,
            "hidden": list(network.hidden),
            "channels": list(network.channels),
        }

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the model that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if they describe none.
        """
        height, width, channels = description["image"]
        network = ImageNetwork(
            shape=ImageShape(height=height, width=width, channels=channels),
            kind=description["network"],
            latent=description["latent"],
            hidden=tuple(description["hidden"]),
            channels=tuple(description["channels"]),
        )
        layout, weights = schema.layout, tensors["weights"].astype(np.float64)
        labels = [column.size for column in layout.coded]
        if network.shape.size != len(layout.numeric) or (labels or [1]) != [len(weights)]:
            raise ValueError(f"images of {network.shape} with {len(weights)} labels do not fit the schema")
        generator = build_image_generator(network, len(weights), seed=0)
        fitted = {
            name.removeprefix(_PREFIX): torch.from_numpy(value) for name, value in tensors.items() if name != "weights"
        }
        generator.load_state_dict(fitted)
        return cls(generator=generator.requires_grad_(False).eval(), weights=weights, labelled=bool(labels))


def network_model(generator: Generator, weights: npt.NDArray[np.float64], layout: Layout) -> NeuralImage | NeuralTable:
    """Returns the record model that a trained generator is.

    Args:
        generator: Of images, or of cells; on the CPU, in evaluation mode.
        weights: Share of each label, (labels,); one 1 without a label.
        layout: Of the records.
    """
    if isinstance(generator, ImageGenerator):
        return NeuralImage(generator=generator, weights=weights, labelled=layout.label is not None)
    assert isinstance(generator, TableGenerator | ComponentGenerator)
    return NeuralTable(generator=generator, weights=weights, layout=layout)
