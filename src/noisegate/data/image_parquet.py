"""Images in a Parquet file with Hugging Face's image column: a struct of ``bytes`` and ``path``, or plain bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from noisegate.data.image_labels import check_labels
from noisegate.data.image_origins import Asked, Pictures
from noisegate.data.parquet_file import ParquetFile
from noisegate.data.unit_column import check_unit_column
from noisegate.errors import DataError

_BATCH_BYTES = 1 << 25  # of encoded images in one batch: several batches wait to be decoded
_USUAL = "image"


def image_columns(columns: Mapping[int, tuple[str, pa.DataType]]) -> list[str]:
    """Return the names of the columns that hold images, by their types; if one is called ``image``, only that one."""
    found = [name for name, kind in columns.values() if _holds_images(kind)]
    return [_USUAL] if found.count(_USUAL) == 1 else found


def _holds_images(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _is_bytes(kind.field(place).type)
    return _is_bytes(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


@dataclass(frozen=True)
class ImageParquet:
    """A Parquet file of images; columns other than the image, its label and its unit are not read.

    Attributes:
        path: the file.
        asked: what is asked of it.
    """

    path: Path
    asked: Asked

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    @cached_property
    def _file(self) -> ParquetFile:
        return ParquetFile(self.path)

    @cached_property
    def _image(self) -> str:
        columns = image_columns(self._file.columns())
        if len(columns) != 1:
            what = "no column of images" if not columns else f"several columns of images: {', '.join(columns)}"
            raise DataError(
                f"{self.name}: holds {what}; expected one, a struct of bytes and path as Hugging Face writes it, "
                f"called {_USUAL!r} if there are others"
            )
        return columns[0]

    @cached_property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the classes that Hugging Face's metadata give, by position."""
        metadata = pq.read_schema(self.path).metadata or {}
        try:
            known = json.loads(metadata.get(b"huggingface", b"{}"))
            names = known["info"]["features"][self.asked.form.label]["names"]
        except (ValueError, KeyError, TypeError):
            return None
        return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None

    def check(self) -> None:
        """Check names and types of the columns; no record is read.

        Raises:
            DataError: if the file cannot be read, or its columns do not fit.
        """
        columns = list(self._file.columns().values())
        assert self._image
        if self.asked.unit_column is not None:
            check_unit_column(self.asked.unit_column, columns, self.name)
        label = self.asked.form.label
        if label is None:
            return
        kinds = [kind for name, kind in columns if name == label]
        if len(kinds) != 1:
            what = "is not in the data" if not kinds else "stands in the data more than once"
            raise DataError(
                f"{self.name}: the label {label!r} {what}; name the column of labels with --label (in Python: in the "
                "schema), or describe images without labels"
            )
        check_labels(kinds[0], self.label_names, self.asked.form, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the images, at most ``rows`` at a time, and fewer where files of images are large.

        Raises:
            DataError: if the file is damaged.
        """
        label, unit = self.asked.form.label, self.asked.unit_column
        names = [self._image, *(name for name in (label, unit) if name is not None)]
        for arrays in self._file.batches(names, self._rows(rows)):
            yield Pictures(
                pictures=_contents(arrays[self._image]).to_pylist(),
                labels=None if label is None else arrays[label],
                units=None if unit is None else arrays[unit],
            )

    def place(self, row: int) -> str:
        """Return the file name and the number of the record, counted from 1."""
        return self._file.place(row)

    def _rows(self, rows: int) -> int:
        """Return how many images are read at a time, by the sizes that the file's footer states."""
        footer = pq.read_metadata(self.path)
        total = 0
        for group in range(footer.num_row_groups):
            chunks = (footer.row_group(group).column(place) for place in range(footer.num_columns))
            total += sum(_size(chunk, self._image) for chunk in chunks)
        return max(1, min(rows, _BATCH_BYTES * max(1, int(footer.num_rows)) // max(1, total)))


def _size(chunk: Any, image: str) -> int:
    # A nested column is called by its path, as in image.bytes.
    return int(chunk.total_uncompressed_size) if str(chunk.path_in_schema).split(".")[0].strip() == image else 0


def _contents(images: pa.Array) -> pa.Array:
    if not pt.is_struct(images.type):
        return images
    return images.flatten()[images.type.get_field_index("bytes")]
