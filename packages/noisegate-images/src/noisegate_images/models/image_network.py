"""What is known of images without torch: designs of networks, public maps, and which released means an image fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.models.record_model import Array
from noisegate.queries.feature_map import RowForm
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.fourier import (
    FourierFeatures,
    FourierOfValues,
    RandomFourier,
    draw_points,
)
from noisegate_images.queries.orientation import Orientations, Wavelets

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

ImageKind: TypeAlias = Literal[
    "convolutional", "fully-connected", "sub-pixel", "residual", "drawing"
]
IMAGE_KINDS: tuple[ImageKind, ...] = get_args(ImageKind)
DRAWING_LATENT = 32
"""Of how much noise the decoder of drawings in the package makes one (`noisegate_images.networks.strokes`)."""
_LEAST_DRAWN, _MOST_DRAWN = 12, 32
"""Sides of images, in pixels, that a drawing of 28 x 28 is brought to; larger ones would be blurred."""


@dataclass(frozen=True, kw_only=True)
class ImageNetwork:
    """What an image generator is made of; an OptionError if such a network cannot make such images."""

    shape: ImageShape  # of the images
    kind: ImageKind  # "convolutional", "fully-connected", "sub-pixel", "residual" or "drawing"
    latent: int  # length of the noise vector
    hidden: tuple[int, ...]  # widths of the fully connected layers before the image
    channels: tuple[int, ...]
    """Of "convolutional", at a quarter and at half of the image's size. Of "sub-pixel", at every size before the
    image's, each half of the next. Of "residual", at every size, the image's too. Unused by the others."""
    pose: float = 0.0
    """How far each image is turned, slanted, stretched and moved at random; see `noisegate_images.models.image`."""
    tone: float = 0.0  # how much contrast and sharpness of each image vary at random

    def __post_init__(self) -> None:
        if self.kind not in IMAGE_KINDS:
            raise OptionError(
                f"generator={self.kind!r} makes no images; choose one of {', '.join(IMAGE_KINDS)}."
            )
        if self.kind == "drawing" and (
            not is_drawable(self.shape) or self.latent != DRAWING_LATENT
        ):
            raise OptionError(
                f"generator='drawing' makes grey images of sides of {_LEAST_DRAWN} to {_MOST_DRAWN} pixels from latent="
                f"{DRAWING_LATENT} numbers, expected are images of {self.shape} from latent={self.latent}; correct "
                "these, or use generator='sub-pixel'."
            )
        if self.kind in ("fully-connected", "drawing"):
            return
        if self.kind == "convolutional" and len(self.channels) != 2:
            given = f"channels={list(self.channels)}"
            raise OptionError(
                f"{given}: generator='convolutional' needs two numbers, as in (16, 8)."
            )
        if not self.channels:
            raise OptionError(
                "channels=[]: generator='sub-pixel' needs a number for each doubling, as in (64, 32)."
            )
        if self.kind == "residual" and (
            self.shape.height % self.scale or self.shape.width % self.scale
        ):
            says = f"image={self.shape}: for generator='residual' height and width must be multiples of {self.scale}"
            raise OptionError(f"{says}; pad the images, or use generator='sub-pixel'.")

    @property
    def scale(self) -> int:
        """How many times smaller the first picture of a network of convolutions is than the image."""
        return 1 << (len(self.channels) - (self.kind == "residual"))

    @property
    def start(self) -> tuple[int, int]:
        """Height and width of that first picture; where the sides are no multiples, the last one is cut to them."""
        return -(-self.shape.height // self.scale), -(-self.shape.width // self.scale)


def is_drawable(shape: ImageShape) -> bool:
    """Returns whether the decoder of drawings makes such images: grey, and of about the size of a drawing."""
    sides = shape.height, shape.width
    return (
        shape.channels == 1 and min(sides) >= _LEAST_DRAWN and max(sides) <= _MOST_DRAWN
    )


def check_image_schema(
    schema: Schema, shape: ImageShape, *, labelled: bool = True
) -> None:
    """Checks that records are images of `shape`, with a label if they must have one."""
    layout, cure = (
        schema.layout,
        "describe the images with noisegate.schema.pixel_schema(...)",
    )
    if labelled and layout.label is None:
        raise OptionError(
            f"image={shape} needs a label with levels, the schema has none; {cure}."
        )
    if others := [layout.coded[place].name for place in layout.others]:
        raise OptionError(
            f"image={shape}: column {others[0]!r} is neither a pixel nor the label; {cure}."
        )
    if len(layout.numeric) != shape.size:
        says = f"image={shape} has {shape.size} intensities, the schema {len(layout.numeric)} numeric columns"
        raise OptionError(f"{says}; correct one of them, or {cure}.")
    if missing := [column.name for column in layout.numeric if column.missing]:
        raise OptionError(
            f"column {missing[0]!r} may be missing, which a pixel cannot be; {cure}."
        )


def sub_pixel_channels(shape: ImageShape) -> tuple[int, ...]:
    """Returns channels of a "sub-pixel" network: its first picture is at most 14 pixels wide."""
    channels = [32, 16]
    while max(shape.height, shape.width) >> len(channels) > 14:
        channels.insert(0, min(2 * channels[0], 256))
    return tuple(channels)


def residual_channels(shape: ImageShape) -> tuple[int, ...]:
    """Returns channels of a "residual" network: 512, 256, 128, 64 at 32 pixels, as in DP-MEPF's code."""
    channels, height, width = [64], shape.height, shape.width
    while not (height % 2 or width % 2) and min(height, width) >= 8:
        height, width = height // 2, width // 2
        channels.insert(0, min(2 * channels[0], 1024))
    return tuple(channels)


_DRAWN: WeakValueDictionary[tuple[Any, ...], RandomFourier] = WeakValueDictionary()
Seen: TypeAlias = Literal["pixels", "orientations", "wavelets", "strokes"]


@dataclass(frozen=True, kw_only=True)
class ImageMap:
    """Random Fourier features of what is seen in an image."""

    seen: Seen  # pixels, gradient orientations, wavelet energies, or features of the encoder of drawn strokes
    image: ImageShape  # shape of the images
    count: int  # random frequencies
    length_scale: float  # of the kernel
    seed: int  # of the frequencies
    cell: int = 4  # of orientations, as the next two; see `Orientations`
    directions: int = 8
    damping: float | None = None
    sha256: str | None = None  # what the file of the encoder hashes to

    def feature_map(self) -> RandomFourier | FourierFeatures:
        """Returns the map; a `UserError` if its encoder is not the one in the package."""
        if self.seen == "pixels":
            return self._fourier(self.image.size)
        if self.seen == "orientations":
            of = Orientations(
                image=self.image,
                cell=self.cell,
                directions=self.directions,
                damping=self.damping,
            )
            return FourierOfValues(of=of, fourier=self._fourier(of.size))
        if self.seen == "wavelets":
            energies = Wavelets(image=self.image)
            return FourierOfValues(of=energies, fourier=self._fourier(energies.size))
        from noisegate_images.networks.named import STROKES, load_network
        from noisegate_images.queries.perceptual import (
            EncodedFourier,
            Perceptual,
            chosen_activations,
        )

        activations = chosen_activations(
            load_network(STROKES, None, self.sha256), (), self.image, pool=False
        )
        return EncodedFourier(
            of=Perceptual(activations=activations),
            fourier=self._fourier(activations.dim),
        )

    def _fourier(self, columns: int) -> RandomFourier:
        """Returns the features; while a plan holds them, so does the model, and they are drawn once."""
        which: dict[str, Any] = {
            "count": self.count,
            "length_scale": self.length_scale,
            "seed": self.seed,
        }
        key = columns, *which.values()
        if (found := _DRAWN.get(key)) is None:
            found = _DRAWN[key] = draw_points(columns, **which)
        return found

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Returns what `to_json` gave."""
        return cls(**{**data, "image": ImageShape(**data["image"])})


Floats = npt.NDArray[np.float64]

PREFIX = "means/"  # of the names of what is saved
_OFFSETS = f"{PREFIX}offsets"
_DROWNED = 3.0  # times the noise of the class in the middle


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestMeans:
    """The released means as a linear classifier of features.

    Of released means μ̃_bc of blocks b of features φ_b and classes c, whose noise has standard deviation σ_bc, an image
    x fits the class best with the highest

        s_c(x) = Σ_b [⟨φ_b(x), μ̃_bc⟩ − ½(‖μ̃_bc‖² − d_b σ_bc²)] / σ̄_b²

    that is −½ Σ_b ‖φ_b(x) − μ_bc‖²/σ̄_b², up to what all classes share, and the offsets are shrunk by what is noise.
    """

    maps: Mapping[str, ImageMap]  # the features, by block
    means: Mapping[str, npt.NDArray[np.float32]]
    """Of each block, the means over its noise's variance, (classes, dim), float32."""
    offsets: npt.NDArray[np.float32]
    """What is added for each class, (classes,), float32; −∞ for one that is no judge and is not judged."""

    @classmethod
    def of_release(
        cls,
        maps: Mapping[str, ImageMap],
        means: Mapping[str, Floats],
        noise_std: Mapping[str, Floats],
    ) -> Self:
        """Returns the classifier of released means, (classes, dim) a block, with noise of `noise_std`, (classes,)."""
        precisions = {
            name: float(1 / np.square(noise_std[name]).mean()) for name in maps
        }
        offsets, variances = np.zeros((2, len(next(iter(means.values())))))
        for name, precision in precisions.items():
            noise, dim = np.square(noise_std[name]), means[name].shape[1]
            length = np.square(means[name]).sum(axis=1) - dim * noise
            offsets -= 0.5 * precision * length
            variances += (
                0.25
                * precision**2
                * (2 * dim * noise**2 + 4 * noise * np.maximum(length, 0))
            )
        # A class that is far noisier than the others would win or lose by its noise.
        judges = np.all(
            [std <= _DROWNED * np.median(std) for std in noise_std.values()], axis=0
        )
        # Nearer to their mean, the more of what they differ by is noise (James and Stein 1961).
        middle, spread = (
            offsets[judges].mean(),
            np.square(offsets[judges] - offsets[judges].mean()).sum(),
        )
        noise = variances[judges].mean() * max(int(judges.sum()) - 1, 0)
        offsets = (
            middle + max(1 - noise / spread, 0.0) * (offsets - middle)
            if spread
            else offsets
        )
        offsets = np.where(judges, offsets, -np.inf)
        weighed = {
            name: (means[name] * precision).astype(np.float32)
            for name, precision in precisions.items()
        }
        return cls(maps=maps, means=weighed, offsets=offsets.astype(np.float32))

    def margins(
        self,
        images: Float[Tensor, "rows pixels"],
        labels: Int64[Tensor, " rows"],
        rivals: int = 1,
    ) -> Float[Tensor, " rows"]:
        """Returns how far images, in [0, 1], fit their class's means better than those of `rivals`, (rows,)."""
        import torch

        scores = torch.from_numpy(self.offsets)[:, None]
        for name, form in self._forms.items():
            scores = scores + torch.from_numpy(self.means[name]) @ form(images)
        own = scores.gather(0, labels[None])[0]
        others: Tensor = (
            scores.scatter(0, labels[None], -torch.inf).topk(rivals, dim=0).values[-1]
        )
        return torch.where(own.isneginf(), torch.inf, own - others)

    def tensors(self) -> dict[str, Array]:
        """Returns what is saved, by name."""
        return {
            _OFFSETS: self.offsets,
            **{f"{PREFIX}{name}": values for name, values in self.means.items()},
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the maps, by block."""
        return {name: one.to_json() for name, one in self.maps.items()}

    @classmethod
    def from_saved(cls, tensors: Mapping[str, Array], maps: Mapping[str, Any]) -> Self:
        """Returns what `tensors` and `to_json` describe."""
        means = {name: tensors[f"{PREFIX}{name}"] for name in maps}
        found = {name: ImageMap.from_json(one) for name, one in maps.items()}
        return cls(maps=found, means=means, offsets=tensors[_OFFSETS])

    @cached_property
    def _forms(self) -> dict[str, RowForm]:
        return {name: one.feature_map().of_points() for name, one in self.maps.items()}
