"""Images in memory: arrays with their labels, data sets of torch, and tables with a column of image files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.tables.memory import of_package, plain_array, table_in_memory, to_arrow
from noisegate.errors import DataError
from noisegate_images.data.arrays import IMAGES, LABELS
from noisegate_images.data.decode import ImageOrigin, ImageReadOptions, Picture, Pictures
from noisegate_images.data.parquet import ImageTable, image_columns

_SCALED = "numpy.rint(255 * images).astype('uint8') makes that of intensities between 0 and 1"


def memory_images(data: Any, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Returns images in memory, or None if it may be a table, such as one with a column for each pixel.

    Images are ``(images, labels)``, a dict of both, or images alone; a data set of torch whose items are these; or a
    table or a Hugging Face data set with a column of images.
    """
    if of_package(data, "torch.utils.data", "Dataset"):
        return [TorchImages(Path(type(data).__name__), options, data=data)]
    pair = isinstance(data, tuple | list) and len(data) == 2
    if isinstance(data, Mapping) and IMAGES in data:
        data, pair = (data[IMAGES], data.get(LABELS)), True
    images = _channels_last(data[0] if pair else data)
    if isinstance(images, np.ndarray) and (pair or images.ndim > 2):
        labels = None if not pair or data[1] is None else to_arrow(LABELS, data[1])
        return [ArrayImages(Path(IMAGES), options, images=images, labels=labels)]
    if pair or isinstance(images, np.ndarray):
        return None
    table = table_in_memory(data)
    return [ImageTable(Path(table.name), options, table=table)] if image_columns(table.columns()) else None


def _channels_last(images: Any) -> Any:
    """Returns images of torch, which has channels first, with the channels last; anything else as it is."""
    plain = plain_array(images)
    return np.moveaxis(plain, 1, -1) if plain is not images and plain.ndim == 4 else plain


@dataclass(frozen=True)
class ArrayImages(ImageOrigin):
    """An array of images, (images, height, width) and maybe channels, with a label for each."""

    images: npt.NDArray[Any]
    labels: pa.Array | None

    def check(self) -> None:
        """Checks shapes and types; no image is looked at."""
        self.check_no_units()
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) not in (3, 4):
            raise DataError(
                f"{IMAGES}: are of {self.images.dtype} with the shape {shape}; expected uint8, (images, height, width) "
                f"or (images, height, width, channels); {_SCALED}"
            )
        if not self.labelled:
            return
        if self.labels is None or len(self.labels) != len(self.images):
            found = "no" if self.labels is None else f"{len(self.labels):,}"
            raise DataError(
                f"{LABELS}: there are {found} labels for {len(self.images):,} images; give data=(images, labels), one "
                "label for each image, or describe images without labels"
            )
        self.check_labels(self.labels.type)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, ``rows`` at a time."""
        for start in range(0, len(self.images), rows):
            part = np.ascontiguousarray(self.images[start : start + rows])
            labels = self.labels.slice(start, rows) if self.labelled and self.labels is not None else None
            yield Pictures(pictures=part, labels=labels)


@dataclass(frozen=True)
class TorchImages(ImageOrigin):
    """A data set of torch whose items are ``(image, label)``, or images where none are labelled; read item by item."""

    data: Any

    @cached_property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the classes, by position, as data sets of torchvision have them."""
        names = getattr(self.data, "classes", None)
        return tuple(names) if isinstance(names, list | tuple) and all(isinstance(one, str) for one in names) else None

    def check(self) -> None:
        """Checks that items can be taken by their position; none is looked at."""
        self.check_no_units()
        if not hasattr(self.data, "__len__"):
            raise DataError(f"{self.name}: its items have no positions; convert it, with data = list(data)")

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, ``rows`` at a time."""
        for start in range(0, len(self.data), rows):
            items = [self.data[place] for place in range(start, min(start + rows, len(self.data)))]
            if not self.labelled:
                images = [item[0] if isinstance(item, tuple | list) else item for item in items]
                yield Pictures(pictures=[self._picture(image) for image in images], labels=None)
                continue
            if not all(isinstance(item, tuple | list) and len(item) == 2 for item in items):
                raise DataError(f"{self.name}: an item is no (image, label); or describe images without labels")
            labels = to_arrow(LABELS, [label.item() if hasattr(label, "item") else label for _, label in items])
            self.check_labels(labels.type)
            yield Pictures(pictures=[self._picture(image) for image, _ in items], labels=labels)

    def _picture(self, image: Any) -> Picture:
        """Returns an image of Pillow as it is, and bytes of torch with the channels last."""
        if hasattr(image, "convert") and hasattr(image, "mode"):
            found: Picture = image
            return found
        pixels = plain_array(image)
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
            what = f"an array of {pixels.dtype}" if isinstance(pixels, np.ndarray) else f"a {type(image).__name__}"
            raise DataError(
                f"{self.name}: an image is {what}; expected uint8, or an image of Pillow: leave ToTensor() out of the "
                "transform, or take torchvision.transforms.PILToTensor() in its place"
            )
        return np.moveaxis(pixels, 0, -1) if pixels is not image and pixels.ndim == 3 else pixels
