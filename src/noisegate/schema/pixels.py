"""The schema of small images kept as a table: one column for each pixel and channel, and a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisegate.errors import SchemaError
from noisegate.schema.columns import Categorical, Integer
from noisegate.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """Height, width and number of channels of an image, in pixels.

    Raises:
        SchemaError: if one of them is no positive whole number.
    """

    height: int
    width: int
    channels: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SchemaError(f"{name}={value!r} of an image must be a positive whole number.")

    @property
    def size(self) -> int:
        """Number of intensities in an image."""
        return self.height * self.width * self.channels

    def __str__(self) -> str:
        return f"{self.height} x {self.width} x {self.channels}"


def pixel_schema(
    height: int, width: int, channels: int = 1, *, labels: Sequence[str | int], label: str = "label"
) -> Schema:
    """Return the schema of labelled images as rows of whole numbers from 0 to 255.

    Columns are called ``pixel_ROW_COLUMN``, or ``pixel_ROW_COLUMN_CHANNEL`` where there are several channels, and stand
    row by row from the top left, with the channels of a pixel side by side; the label comes last.

    Args:
        height: in pixels.
        width: in pixels.
        channels: 1 for gray, 3 for colour.
        labels: every label that there may be, public knowledge.
        label: name of the label's column.

    Raises:
        SchemaError: if a number is not positive, or the labels or their name are unusable.
    """
    shape = ImageShape(height=height, width=width, channels=channels)
    names = [f"pixel_{row}_{column}" for row in range(shape.height) for column in range(shape.width)]
    if shape.channels > 1:
        names = [f"{name}_{channel}" for name in names for channel in range(shape.channels)]
    pixels = tuple(Integer(name=name, lower=0, upper=255) for name in names)
    return Schema((*pixels, Categorical(name=label, levels=tuple(labels))), label=label)
