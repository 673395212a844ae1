"""Record models that draw a feature and decode it: a label, then a feature of length 1, then noise, then an image.

What private records have said is in the distribution of the features. The decoder is public and frozen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.record_model import Array
from noisegate.schema import EncodedTable, Schema

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from noisegate.models.decoder import LoadedDecoder

_SOURCE, _DECODER = "source/", "decoder/"
# Images decoded at once.
_BLOCK = 256


class FeatureSource(Protocol):
    """A distribution of features, one for each label or one for all."""

    @property
    def features(self) -> int:
        """Length of a feature."""
        ...

    @property
    def labels(self) -> int:
        """How many distributions there are; 1 for all labels together."""
        ...

    def draw(self, labels: Tensor, random: torch.Generator) -> Tensor:
        """Returns a feature of length 1 for each number of a distribution, float32 (rows, features)."""
        ...

    def tensors(self) -> dict[str, Array]:
        """Returns what is fitted."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns what else is needed to rebuild it."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoded(ABC):
    """Features that are drawn and decoded.

    Attributes:
        source: What features are drawn from.
        decoder: From features to images.
        weights: Share of each label, (labels,); one 1 without a label.
        labelled: Whether the schema has a label.
    """

    source: FeatureSource
    decoder: LoadedDecoder
    weights: npt.NDArray[np.float64]
    labelled: bool = True

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def source_from(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> FeatureSource:
        """Returns the source that its `tensors` and `to_json` describe."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, pixels as numeric columns; `random` is public randomness, on the CPU."""
        import torch

        labels = torch.multinomial(torch.from_numpy(self.weights), rows, replacement=True, generator=random)
        chosen = labels if self.source.labels > 1 else torch.zeros_like(labels)
        pixels = np.empty((rows, self.decoder.shape.size))
        with torch.no_grad():
            for start in range(0, rows, _BLOCK):
                features = self.source.draw(chosen[start : start + _BLOCK], random)
                noise = torch.randn(len(features), self.decoder.latent, generator=random)
                pixels[start : start + _BLOCK] = self.decoder(features, noise).cpu().clamp(0, 1).numpy()
        codes = labels.numpy().astype(np.int32)[:, None]
        return EncodedTable(pixels, codes if self.labelled else codes[:, :0])

    def tensors(self) -> dict[str, Array]:
        """Returns the source, what travels of the decoder, and the shares of the labels."""
        parts = ((_SOURCE, self.source.tensors()), (_DECODER, self.decoder.tensors()))
        named = {f"{prefix}{name}": value for prefix, tensors in parts for name, value in tensors.items()}
        return {**named, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns what else describes the source and the decoder."""
        return {"source": self.source.to_json(), "decoder": self.decoder.to_json()}

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the model that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if they describe none, or one that does not fit the schema.
        """
        from noisegate.models.decoder import LoadedDecoder

        layout, weights = schema.layout, tensors["weights"].astype(np.float64)
        decoder = LoadedDecoder.from_saved(_part(tensors, _DECODER), description["decoder"])
        source = cls.source_from(_part(tensors, _SOURCE), description["source"])
        labels = [column.size for column in layout.coded]
        if decoder.shape.size != len(layout.numeric) or (labels or [1]) != [len(weights)]:
            raise ValueError(f"images of {decoder.shape} with {len(weights)} labels do not fit the schema")
        if source.features != decoder.features or source.labels not in (1, len(weights)):
            raise ValueError(
                f"{source.labels} distributions of {source.features} features do not fit a decoder of "
                f"{decoder.features} and {len(weights)} labels"
            )
        if not ((weights >= 0).all() and np.isfinite(weights).all() and weights.sum() > 0):
            raise ValueError("the shares of the labels are no shares")
        return cls(source=source, decoder=decoder, weights=weights, labelled=bool(labels))


def _part(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
