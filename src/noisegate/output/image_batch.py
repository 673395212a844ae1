"""Synthetic images as people's programs want them: whole intensities from 0 to 255, and labels by value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema import EncodedTable, Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageBatch:
    """Some synthetic images.

    Attributes:
        pixels: uint8, (rows, height, width, channels); 0 is dark.
        labels: The label of each image, as the schema has it; None where images have none.

    Raises:
        ValueError: if the pixels are no such array, or there is not a label for each image.
    """

    pixels: npt.NDArray[np.uint8]
    labels: tuple[str | int, ...] | None

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(f"expected four axes of uint8, found {self.pixels.dtype} of shape {self.pixels.shape}")
        if self.labels is not None and len(self.labels) != len(self.pixels):
            raise ValueError(f"{len(self.labels)} labels for {len(self.pixels)} images")

    def __len__(self) -> int:
        return len(self.pixels)


def image_batch(records: EncodedTable, schema: Schema) -> ImageBatch:
    """Returns encoded records as images, rounded as `noisegate.schema.decode` rounds their pixels.

    Args:
        records: Images in the order of `noisegate.schema.pixel_schema`.
        schema: Of images.

    Raises:
        OptionError: if the schema is none of images.
    """
    if schema.images is None:
        raise OptionError("the schema is of a table, not of images; describe them with noisegate.schema.pixel_schema.")
    shape, label = schema.images.shape, schema.layout.label
    pixels = np.empty((len(records), shape.height, shape.width, shape.channels), dtype=np.uint8)
    for one, positions in zip(pixels, records.numeric, strict=True):  # one by one: no second batch in memory
        one[...] = np.rint(np.clip(positions, 0.0, 1.0) * 255).reshape(one.shape)
    if label is None:
        return ImageBatch(pixels=pixels, labels=None)
    levels = schema.layout.coded[label].levels
    return ImageBatch(pixels=pixels, labels=tuple(levels[code] for code in records.codes[:, label]))
