"""Which generator a method of mean embeddings fits, and which tables are images. Known and checked without torch."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from noisegate.errors import OptionError, SchemaError
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape

Generator: TypeAlias = Literal["mixture", "table", "convolutional", "fully-connected", "sub-pixel", "residual"]
TABLES: tuple[Generator, ...] = ("mixture", "table")
"""The generators that make tables; the others make images."""


def check_generator(generator: Any) -> None:
    """Checks the name of a generator.

    Raises:
        OptionError: if there is no such generator.
    """
    if generator not in get_args(Generator):
        raise OptionError(f"generator={generator!r} is not known; choose one of {', '.join(get_args(Generator))}.")


def read_shape(image: Any) -> ImageShape:
    """Returns the shape of the images that `image` gives as (height, width, channels).

    Raises:
        OptionError: if it gives none.
    """
    try:
        height, width, channels = image
        return ImageShape(height=height, width=width, channels=channels)
    except (TypeError, ValueError, SchemaError):
        raise OptionError(
            f"image={image!r} must be (height, width, channels) for a generator of images, as in (28, 28, 1)."
        ) from None


def check_image_schema(schema: Schema, shape: ImageShape, *, labelled: bool = True) -> None:
    """Checks that records are images of `shape`, with a label if they must have one.

    Raises:
        OptionError: if they are not.
    """
    layout, cure = schema.layout, "describe the images with noisegate.schema.pixel_schema(...)"
    if labelled and layout.label is None:
        raise OptionError(f"image={shape} needs a label with levels, the schema has none; {cure}.")
    others = [column.name for column in layout.coded if column.name != schema.label]
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
