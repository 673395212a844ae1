"""The design of an image network, apart from the network itself: known, checked and printed without loading torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from noisegate.errors import OptionError
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape

ImageKind: TypeAlias = Literal["convolutional", "fully-connected", "sub-pixel", "residual", "drawing"]

IMAGE_KINDS: tuple[ImageKind, ...] = get_args(ImageKind)

DRAWING_LATENT = 32
"""Of how much noise the decoder of drawings in the package makes one (`noisegate_images.networks.strokes`)."""
_LEAST_DRAWN, _MOST_DRAWN = 12, 32
"""Sides of images, in pixels, that a drawing of 28 x 28 is brought to; larger ones would be blurred."""


@dataclass(frozen=True, kw_only=True)
class ImageNetwork:
    """What an image generator is made of.

    Attributes:
        shape: Of the images.
        kind: "convolutional", "fully-connected", "sub-pixel", "residual" or "drawing".
        latent: Length of the noise vector.
        hidden: Widths of the fully connected layers before the image.
        channels: Of "convolutional", at a quarter and at half of the image's size. Of "sub-pixel", at every size before
            the image's, each half of the next; as many as there are doublings. Of "residual", at
            every size, the image's too. Unused by the others.
        pose: How far each image is turned, slanted, stretched and moved at random; see `noisegate_images.models.pose`.
        tone: How much contrast and sharpness of each image vary at random; see `noisegate_images.models.pose`.

    Raises:
        OptionError: if such a network cannot make such images.
    """

    shape: ImageShape
    kind: ImageKind
    latent: int
    hidden: tuple[int, ...]
    channels: tuple[int, ...]
    pose: float = 0.0
    tone: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in IMAGE_KINDS:
            raise OptionError(f"generator={self.kind!r} makes no images; choose one of {', '.join(IMAGE_KINDS)}.")
        if self.kind == "drawing":
            self._check_drawing()
        if self.kind in ("fully-connected", "drawing"):
            return
        if self.kind == "convolutional" and len(self.channels) != 2:
            raise OptionError(
                f"channels={list(self.channels)}: generator='convolutional' needs two numbers, as in (16, 8)."
            )
        if not self.channels:
            raise OptionError("channels=[]: generator='sub-pixel' needs a number for each doubling, as in (64, 32).")
        if self.kind == "residual" and (self.shape.height % self.scale or self.shape.width % self.scale):
            raise OptionError(
                f"image={self.shape}: for generator='residual' height and width must be multiples of {self.scale}; "
                "pad the images, or use generator='sub-pixel'."
            )

    def _check_drawing(self) -> None:
        if not is_drawable(self.shape) or self.latent != DRAWING_LATENT:
            raise OptionError(
                f"generator='drawing' makes grey images of sides of {_LEAST_DRAWN} to {_MOST_DRAWN} pixels from latent="
                f"{DRAWING_LATENT} numbers, asked for are images of {self.shape} from latent={self.latent}; correct "
                "these, or use generator='sub-pixel'."
            )

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
    return shape.channels == 1 and min(sides) >= _LEAST_DRAWN and max(sides) <= _MOST_DRAWN


def check_image_schema(schema: Schema, shape: ImageShape, *, labelled: bool = True) -> None:
    """Checks that records are images of `shape`, with a label if they must have one."""
    layout, cure = schema.layout, "describe the images with noisegate.schema.pixel_schema(...)"
    if labelled and layout.label is None:
        raise OptionError(f"image={shape} needs a label with levels, the schema has none; {cure}.")
    others = [layout.coded[place].name for place in layout.others]
    if others:
        raise OptionError(f"image={shape}: column {others[0]!r} is neither a pixel nor the label; {cure}.")
    if len(layout.numeric) != shape.size:
        raise OptionError(
            f"image={shape} has {shape.size} intensities, the schema {len(layout.numeric)} numeric columns; correct "
            f"one of them, or {cure}."
        )
    missing = [column.name for column in layout.numeric if column.missing]
    if missing:
        raise OptionError(f"column {missing[0]!r} may be missing, which a pixel cannot be; {cure}.")


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
