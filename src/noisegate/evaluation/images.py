"""Rows of a table as images: which column is which pixel, and the intensities in [0, 1]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.reading import read_numbers
from noisegate.schema import Column, Continuous, Integer, Schema
from noisegate.schema.pixels import ImageShape

_PIXEL = re.compile(r"pixel_(\d+)_(\d+)(?:_(\d+))?")
_CURE = "describe the images with noisegate.schema.pixel_schema"


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """The columns of a table that are the intensities of an image.

    Attributes:
        shape: of the images.
        columns: row by row from the top left, with the channels of a pixel side by side.
    """

    shape: ImageShape
    columns: tuple[Continuous | Integer, ...]

    def read(self, table: pa.Table, schema: Schema, what: str) -> np.ndarray:
        """Read the intensities.

        Args:
            table: with a row for each image.
            schema: its columns.
            what: names the table in an error, for instance "test".

        Returns:
            float32 in [0, 1] of shape (rows, height · width · channels): 0 the lower bound of a column, 1 the upper.

        Raises:
            DataError: a column is not there, or one of its values is missing or no number.
        """
        images = np.empty((table.num_rows, len(self.columns)), dtype=np.float32)
        for place, column in enumerate(self.columns):
            images[:, place] = read_numbers(table, column, schema).unit
            if gaps := int(np.isnan(images[:, place]).sum()):
                raise DataError(
                    f"column {column.name!r} of the {what} table is missing or no number in {gaps} row(s); networks "
                    "need every pixel: fill them, or leave these rows out"
                )
        return images


def find_pixels(schema: Schema, image: ImageShape | None = None) -> Pixels:
    """Find the pixels among the columns of a schema: all columns but the label.

    Names as :func:`noisegate.schema.pixel_schema` gives them say where each pixel stands, in whatever order the columns
    are. With other names, the columns stand row by row from the top left, with the channels of a pixel side by side.

    Args:
        schema: of the table.
        image: the shape; None to take it from the names.

    Returns:
        The columns in the order of the image, and its shape.

    Raises:
        OptionError: a column is no pixel, the shape cannot be told or does not fit the columns.
    """
    label = schema.label_column
    columns = [_intensity(column) for column in schema.columns if label is None or column.name != label.name]
    named = _by_name(columns)
    if image is None:
        if named is None:
            raise OptionError(
                f"the names of the {len(columns)} columns do not tell the shape of an image; give it as --image "
                f"HEIGHT,WIDTH,CHANNELS (in Python: image=ImageShape(...)), or {_CURE}"
            )
        return named
    if image.size != len(columns):
        raise OptionError(
            f"image {image} has {image.size} intensities, the schema {len(columns)} columns besides the label; correct "
            "one of them"
        )
    if named is not None and named.shape != image:
        raise OptionError(f"image {image} does not fit the names of the columns, which are those of {named.shape}")
    return named or Pixels(shape=image, columns=tuple(columns))


def read_image(text: str) -> ImageShape:
    """Read a shape.

    Args:
        text: height, width and channels, separated by commas, for instance "28,28,1"; channels may be left out.

    Returns:
        The shape.

    Raises:
        OptionError: it is none.
    """
    parts = text.split(",")
    if len(parts) not in (2, 3) or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise OptionError(f"image is {text!r}; expected HEIGHT,WIDTH,CHANNELS in pixels, for instance 28,28,1")
    height, width, channels = (int(part) for part in (*parts, "1")[:3])
    return ImageShape(height=height, width=width, channels=channels)


def _intensity(column: Column) -> Continuous | Integer:
    if not isinstance(column, Continuous | Integer):
        raise OptionError(f"column {column.name!r} is {column.kind}, no intensity of a pixel; networks need images")
    return column


def _by_name(columns: Sequence[Continuous | Integer]) -> Pixels | None:
    """The image whose pixels the names are; None unless they are all of them, each once."""
    found = [_PIXEL.fullmatch(column.name) for column in columns]
    places = [tuple(int(part or 0) for part in match.groups()) for match in found if match]
    if not places or len(places) < len(columns):
        return None
    height, width, channels = (max(along) + 1 for along in zip(*places, strict=True))
    if len(set(places)) != len(places) or height * width * channels != len(places):
        return None
    ordered = [column for _, column in sorted(zip(places, columns, strict=True), key=lambda pair: pair[0])]
    return Pixels(shape=ImageShape(height=height, width=width, channels=channels), columns=tuple(ordered))
