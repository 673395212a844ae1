"""Perceptual features: what a frozen public network gives for an image; the gate probes what it rounds (G-06).

What the network itself rounds may depend on its kernels: it is called with blocks of
one shape, on one thread, and the gate probes it (G-06). All that follows is exact by
construction.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.privacy.grid import squared_norms
from noisegate.queries.feature_map import (
    Constants,
    GeneratorOutput,
    RowForm,
    means_of_rows,
)
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.fourier import FourierFeatures

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float
    from torch import Tensor

    from noisegate_images.networks.named import ChosenLayers, FrozenNetwork

Moment = Literal[1, 2]
Rows = npt.NDArray[np.float32]

_LEAST, _TINY = 1e-30, 1e-20
_PLAIN = (
    1e-4  # and its inverse: between them lie the largest activations of common networks
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Activations:
    """From records to the activations of chosen layers; nothing is scaled yet."""

    layers: ChosenLayers  # the network and its layers, on the CPU
    nonnegative: bool = False  # whether no activation can be negative, as after a ReLU. The gate enforces it

    @property
    def dim(self) -> int:
        """Activations of an image."""
        return self.layers.dim

    def __call__(self, records: EncodedTable) -> Rows:
        """Returns activations, (rows, dim): pixels of `records` as intensities in [0, 1], in `pixel_schema`'s order."""
        import torch

        from noisegate.devices import one_thread

        result = np.empty((len(records), self.dim), dtype=np.float32)
        target, ends = (
            torch.from_numpy(result),
            np.cumsum((0, *self.layers.sizes)).tolist(),
        )

        # Layer by layer into place, so that no more than one layer is in memory twice.
        def take(place: int, values: Float[Tensor, "rows numbers"]) -> None:
            target[:, ends[place] : ends[place + 1]] = values

        with torch.inference_mode(), one_thread(torch.device("cpu")):
            # In memory of torch's, which is aligned: kernels may round by where an array begins.
            self.layers.each(torch.tensor(records.numeric, dtype=torch.float32), take)
        return result

    @cached_property
    def latest(self) -> LatestActivations:
        """A copy of the network for generated images, which maps of both moments run once."""
        return LatestActivations(self.layers.copied())


@dataclass(frozen=True, kw_only=True, eq=False)
class Perceptual:
    """The activations f of an image, φ₁ = f/‖f‖, or their squares, φ₂ = f²/‖f²‖.

    DP-MEPF, Harder et al. (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P, section 3. Squares are not negative:
    under replace-one their sum moves by at most √2 (G-01; the paper's code takes 1).
    """

    activations: (
        Activations  # the network; maps that have the same one share what it computes
    )
    moment: Moment = 1  # 1 for φ₁, 2 for φ₂
    norm: float = 1.0  # of every vector: 1, up to rounding

    def __post_init__(self) -> None:
        if self.moment not in (1, 2):
            raise OptionError(
                f"moment={self.moment!r} of perceptual features must be 1 or 2."
            )

    @property
    def dim(self) -> int:
        """Length of the vector."""
        return self.activations.dim

    @property
    def nonnegative(self) -> bool:
        """Squares are; activations are where those of the network are."""
        return self.moment == 2 or self.activations.nonnegative

    def __call__(self, records: EncodedTable) -> Rows:
        """Returns vectors of norm 1, (rows, dim)."""
        return self.second_half(self.first_half(records))

    @property
    def first_half(self) -> Activations:
        """What maps of both moments compute alike; see `SharingMap`."""
        return self.activations

    def second_half(self, values: Rows) -> Rows:
        """Returns vectors of norm 1 for activations, (rows, dim); zero where all of them are zero."""
        with np.errstate(
            all="ignore"
        ):  # whether a warning comes must not depend on a record
            return _unit(values, self.moment)

    def of_points(self) -> RowForm:
        """Returns the features of intensities in [0, 1], (rows, pixels), up to rounding."""

        def features(
            constants: Constants, points: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            values: Tensor = constants["activations"](points)
            # By the largest first, as squares of squares leave float32 soon.
            values = values / values.detach().abs().amax(dim=1, keepdim=True).clamp_min(
                _TINY
            )
            if self.moment == 2:
                values = values.square()
            unit: Tensor = values / values.norm(dim=1, keepdim=True).clamp_min(_TINY)
            return unit.T

        def means(
            constants: Constants, points: GeneratorOutput, sets: int
        ) -> Float[Tensor, "dim sets"]:
            values: Tensor = constants["activations"](points)
            largest = float(values.detach().abs().max())
            # Fourth powers of others may leave float32.
            if not _PLAIN < largest < 1 / _PLAIN:
                return means_of_rows(features, constants, points, sets)
            return _mean_unit_rows(values, self.moment, sets)

        constants = {"activations": self.activations.latest}
        return RowForm(features, constants, means)


def _mean_unit_rows(
    values: Float[Tensor, "rows dim"], moment: Moment, sets: int
) -> Float[Tensor, "dim sets"]:
    """Returns the means of rows, or of their squares, scaled to norm 1, over each set.

    It is one product with the rows: nothing as large as these is made in between.
    """
    import torch

    if moment == 2:
        values = values.square()
    rows = len(values) // sets
    scales = 1 / (rows * torch.linalg.vector_norm(values, dim=1).clamp_min(_TINY))
    places = torch.arange(len(values), device=values.device) // rows
    weights = scales * (places == torch.arange(sets, device=values.device)[:, None])
    return torch.matmul(weights, values).T


def _unit(rows: Rows, moment: Moment) -> Rows:
    """Returns rows, or their squares, with norm 1; each is a function of that row alone, bit for bit."""
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    # Below that, one divided by it may be infinite; an activation so small is none.
    some = ~(largest < _LEAST)
    out: Rows = rows * np.where(some, 1 / largest, 0).astype(np.float32)[:, None]
    if moment == 2:
        np.square(out, out=out)
    # Whole numbers up to 2ᵇⁱᵗˢ whose squares add up to at most 2⁵²: exact in any order.
    bits = (52 - math.ceil(math.log2(max(rows.shape[1], 2)))) // 2
    whole = out * np.float32(2.0 ** min(bits, 22))
    norm = np.sqrt(
        squared_norms(np.rint(whole, out=whole).astype(np.float64))
    ) / 2.0 ** min(bits, 22)
    out *= np.where(some, 1 / norm, 0).astype(np.float32)[:, None]
    return out


class LatestActivations:
    """The activations of the points that were last given, so that forms that share a network run it once."""

    def __init__(self, layers: ChosenLayers) -> None:
        self.layers = layers
        self._latest = (
            threading.local()
        )  # halves of a batch come from two threads at once

    def to(self, device: torch.device) -> Self:
        """Moves the network."""
        self.layers.to(device)
        return self

    def __call__(
        self, points: Float[Tensor, "rows pixels"]
    ) -> Float[Tensor, "rows dim"]:
        """Returns activations, (rows, dim), of intensities (rows, pixels)."""
        import torch

        latest, slope = self._latest, points.requires_grad and torch.is_grad_enabled()
        known = getattr(latest, "points", None)
        if (
            known is None
            or known() is not points
            or latest.values.requires_grad != slope
        ):
            latest.points, latest.values = weakref.ref(points), self.layers(points)
        return cast("Tensor", latest.values)


def chosen_activations(
    network: FrozenNetwork, layers: Sequence[str], shape: ImageShape, *, pool: bool
) -> Activations:
    """Returns the map from images to activations; an `OptionError` if there is no such layer, or for such images."""
    # Empty, `layers` are the encoder's four, or all convolutions of another network but 1 x 1 shortcuts; `pool` takes
    # the mean over height and width of each channel.
    from noisegate_images.networks.named import ChosenLayers

    names = tuple(layers) or network.layers
    chosen = ChosenLayers(
        network.module, names, shape, mean=network.mean, std=network.std, pool=pool
    )
    return Activations(layers=chosen, nonnegative=set(names) <= network.nonnegative)


class EncodedFourier(FourierFeatures):
    """Random Fourier features of an encoder's vectors of length 1, which a `Perceptual` gives."""

    @property
    def encoding(self) -> Perceptual:
        """From images to these vectors."""
        return cast(Perceptual, self.of)

    def _values(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        return self.encoding(records).astype(np.float64)
