"""Record models that draw a feature and decode it: a label, then a feature of length 1, then noise, then an image.

What private records have said is in the distribution of the features. The decoder is
public and frozen.

Decoders from Python:

In Python, `noisegate_images.networks.decoder.load_decoder(name, sha256)` gives a
decoder with `shape`, `features`, `latent`, `digest`, `encoder` and `layer`; called with
features (rows, features) of length 1 and standard normal noise (rows, latent) it
returns intensities in [0, 1], a row per image in the order of the schema's pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.models.checkpoint import under
from noisegate.models.record_model import Array
from noisegate.schema import EncodedTable, Schema
from noisegate_images.models.generator import Generator
from noisegate_images.networks.decoder import LoadedDecoder
from noisegate_images.networks.encoder import check_sizes
from noisegate_papers.models.record_sets import systematic_sample, weight_summary

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64

_LEAST = 1e-12
_SOURCE, _DECODER = "source/", "decoder/"
_BLOCK = 256  # images decoded at once


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureGaussians:
    """A Gaussian for each label, whose draws are cut to what an encoder can give and brought to length 1."""

    means: npt.NDArray[np.float64]  # (labels, axes)
    roots: npt.NDArray[
        np.float64
    ]  # standard deviations, (labels, axes), or square roots of covariances, (…, axes)
    axes: npt.NDArray[np.float64] | None = (
        None  # orthonormal, (features, axes); None for those of the features
    )
    nonnegative: bool = False  # whether what is drawn below 0 is 0

    @property
    def features(self) -> int:
        """Length of a feature."""
        return int(self.means.shape[1] if self.axes is None else self.axes.shape[0])

    @property
    def labels(self) -> int:
        """How many Gaussians there are; 1 for all labels together."""
        return len(self.means)

    def draw(
        self, labels: Int64[Tensor, " rows"], random: torch.Generator
    ) -> Float32[Tensor, "rows features"]:
        """Returns a feature of length 1 for each label."""
        means, roots = (
            torch.from_numpy(self.means)[labels],
            torch.from_numpy(self.roots),
        )
        normal = torch.randn(means.shape, generator=random, dtype=torch.float64)
        spread = (
            normal * roots[labels]
            if roots.ndim == 2
            else _products(roots, labels, normal)
        )
        drawn = means + spread
        if self.axes is not None:
            drawn = drawn @ torch.from_numpy(self.axes).T
        return unit_rows(drawn.clamp_min(0) if self.nonnegative else drawn).float()

    def tensors(self) -> dict[str, Array]:
        """Returns means, roots, and axes if there are any."""
        return {
            "means": self.means,
            "roots": self.roots,
            **({} if self.axes is None else {"axes": self.axes}),
        }

    def to_json(self) -> dict[str, Any]:
        """Returns whether features are cut at 0."""
        return {"nonnegative": self.nonnegative}

    @classmethod
    def from_saved(
        cls, tensors: Mapping[str, Array], description: Mapping[str, Any]
    ) -> Self:
        """Returns the distributions that `tensors` and `to_json` describe."""
        means, roots = (tensors[name].astype(np.float64) for name in ("means", "roots"))
        axes = tensors["axes"].astype(np.float64) if "axes" in tensors else None
        wide = means.ndim == 2 and roots.shape in (
            means.shape,
            (*means.shape, means.shape[-1]),
        )
        if not wide or (axes is not None and axes.shape[1:] != means.shape[1:]):
            raise ValueError(
                f"means of shape {means.shape} and roots of shape {roots.shape} describe no Gaussians"
            )
        parts = [means, roots, *([] if axes is None else [axes])]
        if not all(np.isfinite(part).all() for part in parts) or (
            roots.ndim == 2 and (roots < 0).any()
        ):
            raise ValueError(
                "a number of the Gaussians is not finite, or a deviation is below 0"
            )
        return cls(
            means=means,
            roots=roots,
            axes=axes,
            nonnegative=bool(description["nonnegative"]),
        )


def unit_rows(rows: Float[Tensor, "rows features"]) -> Float[Tensor, "rows features"]:
    """Returns rows brought to length 1; where all of one is 0, all its entries become equal."""
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(
        lengths > _LEAST, rows / lengths.clamp_min(_LEAST), rows.shape[1] ** -0.5
    )


def _products(
    roots: Float[Tensor, "labels axes axes"],
    labels: Int64[Tensor, " rows"],
    normal: Float[Tensor, "rows axes"],
) -> Float[Tensor, "rows axes"]:
    """Returns each row times the root of its label, label by label: one matrix for each row would fill the memory."""
    spread = torch.empty_like(normal)
    for label, root in enumerate(roots):
        mine = labels == label
        spread[mine] = normal[mine] @ root.T
    return spread


class FeatureGenerator(Generator):
    """A perceptron from noise and a one-hot label, of `classes`, 1 without any, to a vector of length 1.

    It normalises nothing over a batch, so that what it makes in training is what is drawn from it later.
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        latent: int,
        hidden: Sequence[int],
        nonnegative: bool,
    ) -> None:
        super().__init__()
        self.features, self.labels, self.latent, self.nonnegative = (
            features,
            classes,
            latent,
            nonnegative,
        )
        self.hidden = tuple(hidden)
        named = {f"hidden[{place}]": width for place, width in enumerate(hidden)}
        check_sizes(
            "a generator of features",
            features=features,
            classes=classes,
            latent=latent,
            **named,
        )
        widths = (latent + classes, *hidden)
        layers: list[nn.Module] = []
        for wide, narrow in pairwise(widths):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], features))

    def noise(self, rows: int, random: torch.Generator) -> Float[Tensor, "rows latent"]:
        """Returns standard normal noise."""
        return torch.randn(rows, self.latent, generator=random)

    def forward(
        self, noise: Float[Tensor, "rows latent"], labels: Int64[Tensor, " rows"]
    ) -> Float[Tensor, "rows features"]:
        """Returns features of length 1."""
        one_hot = nn.functional.one_hot(labels, self.labels).to(noise.dtype)
        made: Tensor = self.layers(torch.cat([noise, one_hot], dim=1))
        # Smooth, so that no entry stays 0 for ever.
        return unit_rows(nn.functional.softplus(made) if self.nonnegative else made)

    def draw(
        self, labels: Int64[Tensor, " rows"], random: torch.Generator
    ) -> Float32[Tensor, "rows features"]:
        """Returns a feature of length 1 for each label."""
        with torch.no_grad():
            return cast(Tensor, self(self.noise(len(labels), random), labels))

    def tensors(self) -> dict[str, Array]:
        """Returns the weights."""
        return {name: value.numpy() for name, value in self.state_dict().items()}

    def to_json(self) -> dict[str, Any]:
        """Returns what it is built from."""
        sizes = {
            "features": self.features,
            "classes": self.labels,
            "latent": self.latent,
        }
        return {**sizes, "hidden": list(self.hidden), "nonnegative": self.nonnegative}

    @classmethod
    def from_saved(
        cls, tensors: Mapping[str, Array], description: Mapping[str, Any]
    ) -> Self:
        """Returns the generator that `tensors` and `to_json` describe."""
        with seeded(0):
            generator = cls(**description)
        generator.load_state_dict(
            {name: torch.from_numpy(value) for name, value in tensors.items()}
        )
        return generator.requires_grad_(False).eval()


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedFeatures:
    """Features of public images with weights for each label."""

    vectors: npt.NDArray[np.float32]  # of length 1, (references, features)
    weights: npt.NDArray[
        np.float64
    ]  # nonnegative, (labels, references), one row without labels

    @property
    def features(self) -> int:
        """Length of a feature."""
        return int(self.vectors.shape[1])

    @property
    def labels(self) -> int:
        """How many rows of weights there are."""
        return len(self.weights)

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of each label, by its weights, (labels,)."""
        return np.asarray(self.weights.sum(axis=1) / self.weights.sum())

    def draw(
        self, labels: Int64[Tensor, " rows"], random: torch.Generator
    ) -> Float32[Tensor, "rows features"]:
        """Returns a feature for each label, drawn by its weights."""
        asked = labels.numpy()
        places = np.zeros(len(asked), dtype=np.intp)
        for label in np.unique(asked):
            rows = np.flatnonzero(asked == label)
            places[rows] = systematic_sample(self.weights[label], len(rows), random)
        return torch.from_numpy(self.vectors[places])

    def tensors(self) -> dict[str, Array]:
        """Returns features and weights."""
        return {"vectors": self.vectors, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the number of references, and what they weigh."""
        return {"records": len(self.vectors), **weight_summary(self.weights)}

    @classmethod
    def from_saved(
        cls, tensors: Mapping[str, Array], description: Mapping[str, Any]
    ) -> Self:
        """Returns the features that `tensors` and `to_json` describe."""
        vectors, weights = tensors["vectors"], tensors["weights"].astype(np.float64)
        if (
            vectors.ndim != 2
            or weights.ndim != 2
            or {weights.shape[1], description["records"]} != {len(vectors)}
        ):
            raise ValueError(
                f"features of shape {vectors.shape} with weights of shape {weights.shape}"
            )
        if (
            not np.isfinite(vectors).all()
            or not np.isfinite(weights).all()
            or (weights < 0).any()
        ):
            raise ValueError(
                "features and weights must be finite numbers, and no weight below 0"
            )
        if not weights.sum() > 0:
            raise ValueError("one weight must be above 0")
        return cls(vectors=vectors.astype(np.float32), weights=weights)


FeatureSource: TypeAlias = FeatureGaussians | FeatureGenerator | WeightedFeatures
"""A distribution of features, one for each label or one for all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoded:
    """Features that are drawn from a source and decoded; a subclass names what they are drawn from."""

    source: FeatureSource
    decoder: LoadedDecoder
    weights: npt.NDArray[
        np.float64
    ]  # share of each label, (labels,); one 1 without a label
    labelled: bool = True  # whether the schema has a label

    kind: ClassVar[str]
    source_type: ClassVar[type[FeatureSource]]

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, pixels as numeric columns; `random` is public randomness, on the CPU."""
        labels = torch.multinomial(
            torch.from_numpy(self.weights), rows, replacement=True, generator=random
        )
        chosen = labels if self.source.labels > 1 else torch.zeros_like(labels)
        pixels = np.empty((rows, self.decoder.shape.size))
        with torch.no_grad():
            for start in range(0, rows, _BLOCK):
                features = self.source.draw(chosen[start : start + _BLOCK], random)
                noise = torch.randn(
                    len(features), self.decoder.latent, generator=random
                )
                pixels[start : start + _BLOCK] = (
                    self.decoder(features, noise).cpu().clamp(0, 1).numpy()
                )
        codes = labels.numpy().astype(np.int32)[:, None]
        return EncodedTable(pixels, codes if self.labelled else codes[:, :0])

    def tensors(self) -> dict[str, Array]:
        """Returns the source, what travels of the decoder, and the shares of the labels."""
        parts = ((_SOURCE, self.source.tensors()), (_DECODER, self.decoder.tensors()))
        named = {
            f"{prefix}{name}": value
            for prefix, tensors in parts
            for name, value in tensors.items()
        }
        return {**named, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns what else describes the source and the decoder."""
        return {"source": self.source.to_json(), "decoder": self.decoder.to_json()}

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        layout, weights = schema.layout, tensors["weights"].astype(np.float64)
        decoder = LoadedDecoder.from_saved(
            under(tensors, _DECODER), description["decoder"]
        )
        source = cls.source_type.from_saved(
            under(tensors, _SOURCE), description["source"]
        )
        labels = [column.size for column in layout.coded]
        if decoder.shape.size != len(layout.numeric) or (labels or [1]) != [
            len(weights)
        ]:
            raise ValueError(
                f"images of {decoder.shape} with {len(weights)} labels do not fit the schema"
            )
        if source.features != decoder.features or source.labels not in (
            1,
            len(weights),
        ):
            raise ValueError(
                f"{source.labels} distributions of {source.features} features do not fit a decoder of "
                f"{decoder.features} and {len(weights)} labels"
            )
        if not (
            (weights >= 0).all() and np.isfinite(weights).all() and weights.sum() > 0
        ):
            raise ValueError("the shares of the labels are not shares")
        return cls(
            source=source, decoder=decoder, weights=weights, labelled=bool(labels)
        )


class DecodedGaussian(Decoded):
    """What DP-MGE gives."""

    kind, source_type = "decoded-gaussian", FeatureGaussians


class DecodedGenerator(Decoded):
    """What GANs in feature space give."""

    kind, source_type = "decoded-generator", FeatureGenerator


class DecodedReference(Decoded):
    """What DP-DRE gives with a decoder."""

    kind, source_type = "decoded-reference", WeightedFeatures
