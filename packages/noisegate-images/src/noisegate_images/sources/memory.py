"""Images in memory: arrays with their labels and data sets of torch; and in tables, Parquet's too, in a column."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from noisegate.containers import of_package, plain_array
from noisegate.errors import DataError, said
from noisegate.sources.stores import arrow_file
from noisegate.sources.tables.memory import table_in_memory, to_arrow
from noisegate.sources.tables.parts import ParquetFile
from noisegate.sources.tables.tables import Origin
from noisegate.sources.units import check_unit_column
from noisegate_images.sources.arrays import IMAGES, LABELS
from noisegate_images.sources.decode import (
    ImageOrigin,
    ImageReadOptions,
    Picture,
    Pictures,
)

_BATCH_BYTES = (
    1 << 25
)  # of encoded images in one batch: several batches wait to be decoded
_ROWS = 256  # of a table that does not say how large its files of images are
_USUAL = "image"


def image_columns(columns: Sequence[tuple[str, pa.DataType]]) -> list[str]:
    """Returns the names of the columns that hold images, by their types; if one is called ``image``, only that one."""
    found = [name for name, kind in columns if _holds_images(kind)]
    return [_USUAL] if found.count(_USUAL) == 1 else found


def _holds_images(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        place = kind.get_field_index("bytes")
        return (
            place >= 0
            and not pt.is_struct(kind.field(place).type)
            and _holds_images(kind.field(place).type)
        )
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


@dataclass(frozen=True)
class ColumnOfImages(ImageOrigin):
    """A table with a column of images, Hugging Face's struct of ``bytes`` and ``path``, or bytes; it alone is read."""

    table: Origin

    @cached_property
    def _image(self) -> str:
        columns = image_columns(self.table.columns())
        if len(columns) != 1:
            what = (
                "no column of images"
                if not columns
                else f"several columns of images: {', '.join(columns)}"
            )
            raise DataError(
                f"{self.name}: holds {what}; expected one, a struct of bytes and path as Hugging Face writes it, "
                f"called {_USUAL!r} if there are others"
            )
        return columns[0]

    @cached_property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the classes that Hugging Face's metadata give, by position."""
        schema = self.schema
        metadata = {} if schema is None else schema.metadata or {}
        try:
            known = json.loads(metadata.get(b"huggingface", b"{}"))
            names = known["info"]["features"][self.options.form.label]["names"]
        except (ValueError, KeyError, TypeError):
            return None
        return (
            tuple(names)
            if isinstance(names, list) and all(isinstance(name, str) for name in names)
            else None
        )

    def check(self) -> None:
        """Checks names and types of the columns; no record is read."""
        columns = self.table.columns()
        assert self._image
        if self.options.unit_column is not None:
            check_unit_column(self.options.unit_column, columns, self.name)
        label = self.options.form.label
        if label is None:
            return
        kinds = [kind for name, kind in columns if name == label]
        if len(kinds) != 1:
            what = (
                "is not in the data"
                if not kinds
                else "stands in the data more than once"
            )
            cure = f"name the column of labels with {said('label')} or in the schema, or describe images without labels"
            raise DataError(f"{self.name}: the label {label!r} {what}; {cure}")
        self.check_labels(kinds[0])

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, at most ``rows`` at a time, and fewer where files of images are large."""
        label, unit = self.options.form.label, self.options.unit_column
        names = [self._image, *(name for name in (label, unit) if name is not None)]
        for arrays in self.table.batches(names, self._rows(rows)):
            images = arrays[self._image]
            if pt.is_struct(images.type):
                images = images.flatten()[images.type.get_field_index("bytes")]
            labels, units = (
                None if name is None else arrays[name] for name in (label, unit)
            )
            yield Pictures(pictures=images.to_pylist(), labels=labels, units=units)

    def kept_in(self) -> Iterator[Path]:
        """Yields the file; the name of a table in memory."""
        yield self.path

    def locate(self, row: int) -> str:
        """Returns the file name and the number of the record, counted from 1."""
        return self.table.locate(row)

    @property
    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """What the table says of itself, where it says anything."""

    @abstractmethod
    def _rows(self, rows: int) -> int:
        """Returns how many images are read at a time, `rows` at most."""


class ImageTable(ColumnOfImages):
    """A table of images in memory."""

    @property
    def schema(self) -> pa.Schema | None:
        """What the table says of itself, where it says anything."""
        return getattr(self.table, "schema", None)

    def _rows(self, rows: int) -> int:
        return min(rows, _ROWS)


class ImageParquet(ColumnOfImages):
    """A Parquet file of images, or some row groups of it."""

    def __init__(
        self, path: Path, options: ImageReadOptions, table: Origin | None = None
    ) -> None:
        super().__init__(path, options, table or ParquetFile(path))

    @property
    def schema(self) -> pa.Schema:
        """What the footer of the file says."""
        return pq.read_schema(arrow_file(self.path))

    def _rows(self, rows: int) -> int:
        """Returns how many images are read at a time, by the sizes that the file's footer states."""
        footer = pq.read_metadata(arrow_file(self.path))
        groups = (footer.row_group(group) for group in range(footer.num_row_groups))
        chunks = [
            group.column(place)
            for group in groups
            for place in range(footer.num_columns)
        ]
        # A nested column is called by its path, as in image.bytes.
        mine = [
            chunk
            for chunk in chunks
            if str(chunk.path_in_schema).split(".")[0].strip() == self._image
        ]
        total = sum(int(chunk.total_uncompressed_size) for chunk in mine)
        return max(
            1, min(rows, _BATCH_BYTES * max(1, int(footer.num_rows)) // max(1, total))
        )


_SCALED = (
    "numpy.rint(255 * images).astype('uint8') makes that of intensities between 0 and 1"
)


def memory_images(data: Any, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Returns images in memory, or None if it may be a table, such as one with a column for each pixel."""
    # Images are ``(images, labels)``, a dict of both, or images alone; a data set of torch whose items are these; or a
    # table or a Hugging Face data set with a column of images.
    if of_package(data, "torch.utils.data", "Dataset"):
        return [TorchImages(Path(type(data).__name__), options, data=data)]
    pair = isinstance(data, tuple | list) and len(data) == 2
    if isinstance(data, Mapping) and IMAGES in data:
        data, pair = (data[IMAGES], data.get(LABELS)), True
    given = data[0] if pair else data
    images = plain_array(given)
    if images is not given and images.ndim == 4:  # of torch, which has channels first
        images = np.moveaxis(images, 1, -1)
    if isinstance(images, np.ndarray) and (pair or images.ndim > 2):
        labels = None if not pair or data[1] is None else to_arrow(LABELS, data[1])
        return [ArrayImages(Path(IMAGES), options, images=images, labels=labels)]
    if pair or isinstance(images, np.ndarray):
        return None
    table = table_in_memory(data)
    return (
        [ImageTable(Path(table.name), options, table=table)]
        if image_columns(table.columns())
        else None
    )


@dataclass(frozen=True)
class ArrayImages(ImageOrigin):
    """An array of images, (images, height, width) and maybe channels, with a label for each."""

    images: npt.NDArray[Any]
    labels: pa.Array | None

    def kept_in(self) -> Iterator[Path]:
        """Yields what messages call the array."""
        yield self.path

    def locate(self, row: int) -> str:
        """Returns the number of the image, counted from 1."""
        return self.image_number(row)

    def check(self) -> None:
        """Checks shapes and types; no image is examined."""
        self.check_no_units()
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) not in (3, 4):
            expected = f"expected uint8, (images, height, width) or (images, height, width, channels); {_SCALED}"
            raise DataError(
                f"{IMAGES}: are of {self.images.dtype} with the shape {shape}; {expected}"
            )
        if not self.labelled:
            return
        if self.labels is None or len(self.labels) != len(self.images):
            found = "no" if self.labels is None else f"{len(self.labels):,}"
            cure = "give data=(images, labels), one label for each image, or describe images without labels"
            raise DataError(
                f"{LABELS}: there are {found} labels for {len(self.images):,} images; {cure}"
            )
        self.check_labels(self.labels.type)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, ``rows`` at a time."""
        for start in range(0, len(self.images), rows):
            part = np.ascontiguousarray(self.images[start : start + rows])
            labels = (
                self.labels.slice(start, rows)
                if self.labelled and self.labels is not None
                else None
            )
            yield Pictures(pictures=part, labels=labels)


@dataclass(frozen=True)
class TorchImages(ImageOrigin):
    """A data set of torch whose items are ``(image, label)``, or images where none are labelled; read item by item."""

    data: Any

    def kept_in(self) -> Iterator[Path]:
        """Yields what messages call the data set."""
        yield self.path

    def locate(self, row: int) -> str:
        """Returns the number of the image, counted from 1."""
        return self.image_number(row)

    @cached_property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the classes, by position, as data sets of torchvision have them."""
        names = getattr(self.data, "classes", None)
        return (
            tuple(names)
            if isinstance(names, list | tuple)
            and all(isinstance(one, str) for one in names)
            else None
        )

    def check(self) -> None:
        """Checks that items can be taken by their position; none is examined."""
        self.check_no_units()
        if not hasattr(self.data, "__len__"):
            raise DataError(
                f"{self.name}: its items have no positions; convert it, with data = list(data)"
            )

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, ``rows`` at a time."""
        for start in range(0, len(self.data), rows):
            items = [
                self.data[place]
                for place in range(start, min(start + rows, len(self.data)))
            ]
            if not self.labelled:
                images = [
                    item[0] if isinstance(item, tuple | list) else item
                    for item in items
                ]
                yield Pictures(
                    pictures=[self._picture(image) for image in images], labels=None
                )
                continue
            if not all(
                isinstance(item, tuple | list) and len(item) == 2 for item in items
            ):
                raise DataError(
                    f"{self.name}: an item is no (image, label); or describe images without labels"
                )
            labels = to_arrow(
                LABELS,
                [
                    label.item() if hasattr(label, "item") else label
                    for _, label in items
                ],
            )
            self.check_labels(labels.type)
            yield Pictures(
                pictures=[self._picture(image) for image, _ in items], labels=labels
            )

    def _picture(self, image: Any) -> Picture:
        if hasattr(image, "convert") and hasattr(image, "mode"):
            return cast(Picture, image)
        pixels = plain_array(image)
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
            what = (
                f"an array of {pixels.dtype}"
                if isinstance(pixels, np.ndarray)
                else f"a {type(image).__name__}"
            )
            cure = "leave ToTensor() out of the transform, or take torchvision.transforms.PILToTensor() in its place"
            raise DataError(
                f"{self.name}: an image is {what}; expected uint8, or an image of Pillow: {cure}"
            )
        return (
            np.moveaxis(pixels, 0, -1)
            if pixels is not image and pixels.ndim == 3
            else pixels
        )
