"""Private Evolution of images: candidates of each label are voted for, selected and varied.

Everything here follows from public images, from a public seed and from what was released, so that the candidates of a
round are the same when they are asked for and when a release is read. See `noisegate_papers.methods.pe`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError
from noisegate.records import Images
from noisegate_papers.features.image_votes import ImageVotes
from noisegate_papers.models.record_sets import WeightedReference
from noisegate_papers.training.image_variations import Beginning

if TYPE_CHECKING:
    from jaxtyping import Float, Float64, Int64, UInt8

    from noisegate.features.feature_map import FeatureMap
    from noisegate_images.networks.decoder import LoadedDecoder

    Array = npt.NDArray[Any]
    Pixels = UInt8[Array, "images height width channels"]

FEWEST = 20
"""Candidates that there are at least, where so many are allowed."""

_ROWS = 256


Variations: TypeAlias = "Callable[[Pixels, Pixels, float, np.random.Generator], Pixels]"
"""VARIATION_API of the paper: varies images, given what may be mixed in, a degree from 0 to 1 and public randomness."""


class DecodedVariations:
    """Variations by a public decoder: what it draws for a feature near that of an image; mates are not used.

    Args:
        encoding: From an image to its feature of length 1.
        decoder: Of such features.
    """

    def __init__(self, encoding: FeatureMap, decoder: LoadedDecoder) -> None:
        self._encoding, self._decoder = encoding, decoder

    def __call__(self, images: Pixels, mates: Pixels, degree: float, random: np.random.Generator) -> Pixels:
        """See `Variations`; at degree 1 a feature is moved by its own length."""
        import torch

        parts = []
        for start in range(0, len(images), _ROWS):
            features = self._encoding(Images(images[start : start + _ROWS]))
            moved = features + degree * random.normal(0, self._encoding.dim**-0.5, features.shape)
            moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
            noise = random.normal(size=(len(moved), self._decoder.latent))
            with torch.no_grad():
                decoded = self._decoder(*(torch.from_numpy(one.astype(np.float32)) for one in (moved, noise)))
            parts.append(np.rint(np.clip(decoded.numpy(), 0, 1) * 255).astype(np.uint8))
        return np.concatenate(parts).reshape(images.shape) if parts else images


class ImageEvolution:
    """The candidates of one round after the other.

    Args:
        counts: Noisy number of images of each label, (labels,); one number where there are no labels.
        beginning: What there is to begin with.
        vary: Makes variations.
        candidates: Most candidates of a round, of all labels.
        noise_std: Of the noise on each number of votes.
        rounds: How many rounds there are.
        variation: Degree of the variations of the first round; it falls to none behind the last.
        random: Public randomness.

    Attributes:
        images: The candidates of this round.
        labels: The label of each, ascending, (candidates,) int32.
    """

    def __init__(
        self,
        counts: Float[Array, " labels"],
        beginning: Beginning,
        vary: Variations,
        *,
        candidates: int,
        noise_std: float,
        rounds: int,
        variation: float,
        random: np.random.Generator,
    ) -> None:
        self._counts, self._vary, self._noise_std, self._random = np.maximum(counts, 1.0), vary, noise_std, random
        self._rounds, self._variation, self._round = rounds, variation, 0
        # As many as may have more votes each than the noise.
        least = min(max(FEWEST, len(counts)), candidates)
        numbers = self._shared(int(np.clip(self._counts.sum() / noise_std, least, candidates)))
        self.labels = np.repeat(np.arange(len(counts), dtype=np.int32), numbers)
        self.images = np.concatenate(
            [beginning.images(label, number, random) for label, number in enumerate(numbers.tolist())]
        )

    def votes(self, encoding: FeatureMap, label: int | None) -> ImageVotes:
        """Returns the map that asks for the votes of this round, by what `encoding` gives for images.

        Args:
            encoding: See `ImageVotes`.
            label: Place of the label among the coded columns, or None.
        """
        blocks = range(0, len(self.images), _ROWS)
        candidates = np.concatenate([encoding(Images(self.images[start : start + _ROWS])) for start in blocks])
        return ImageVotes(encoding=encoding, candidates=candidates, labels=self.labels, label=label)

    def select(self, votes: Float64[Array, " candidates"]) -> None:
        """Makes the candidates of the next round: those with votes above the noise, and variations of them."""
        weights = self._weights(votes)
        self._round += 1
        self.images = self._drawn(weights, np.bincount(self.labels, minlength=len(self._counts)))

    def model(self, votes: Float64[Array, " candidates"], images: int, label: int | None) -> WeightedReference:
        """Returns images to draw from, in the labels' noisy shares: candidates by their votes, and variations of them.

        Args:
            votes: Of the last round.
            images: How many there are to be.
            label: Place of the label among the coded columns, or None.
        """
        weights = self._weights(votes)
        self._round += 1
        numbers = self._shared(images)
        drawn, labels = self._drawn(weights, numbers), np.repeat(np.arange(len(numbers), dtype=np.int32), numbers)
        shares = (self._counts / numbers)[labels]
        records = Images(drawn, None if label is None else labels)
        return WeightedReference(records=records, weights=shares[None], label=label)

    def _shared(self, total: int) -> Int64[Array, " labels"]:
        """Returns how many of `total` each label has: its share, rounded down, and one at least."""
        spare = max(total - len(self._counts), 0)
        return np.asarray(1 + (spare * self._counts / self._counts.sum()).astype(np.int64))

    def _weights(self, votes: Float64[Array, " candidates"]) -> Float64[Array, " candidates"]:
        """Returns how far votes exceed the noise; of a label without such votes, all candidates weigh the same."""
        if len(votes) != len(self.labels):
            raise ModelError(
                f"the release holds {len(votes)} votes in round {self._round + 1}, and {len(self.labels)} "
                "candidates follow from its earlier answers."
            )
        weights = np.maximum(votes - self._noise_std, 0.0)
        none = np.bincount(self.labels, weights, len(self._counts)) == 0
        return np.where(none[self.labels], 1.0, weights)

    def _drawn(self, weights: Float64[Array, " candidates"], numbers: Int64[Array, " labels"]) -> Pixels:
        """Returns images by weight, so many of each label: a candidate as it is once, and variations when it repeats.

        Each candidate comes as often as its share of the weights says, rounded up or down.
        """
        degree = self._variation * (1 - self._round / (self._rounds + 1))
        parts = []
        for label, number in enumerate(numbers.tolist()):
            mine = np.flatnonzero(self.labels == label)
            ends = np.cumsum(weights[mine])
            comb = (np.arange(number) + self._random.random()) / number * ends[-1]
            chosen = mine[np.minimum(np.searchsorted(ends, comb, side="right"), np.flatnonzero(weights[mine])[-1])]
            images = self.images[chosen]
            again = np.flatnonzero(np.diff(chosen, prepend=-1) == 0)
            mates = self.images[self._random.choice(chosen, len(again))]
            images[again] = self._vary(images[again], mates, degree, self._random)
            parts.append(images)
        return np.concatenate(parts)
