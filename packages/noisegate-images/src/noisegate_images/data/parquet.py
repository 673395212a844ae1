"""Images in a table, Parquet's or another, in Hugging Face's column: a struct of ``bytes`` and ``path``, or bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from noisegate.data.stores import for_arrow
from noisegate.data.tables.parts import ParquetFile
from noisegate.data.tables.tables import Origin
from noisegate.data.units import check_unit_column
from noisegate.errors import DataError, said
from noisegate_images.data.decode import ImageOrigin, ImageReadOptions, Pictures

_BATCH_BYTES = 1 << 25  # of encoded images in one batch: several batches wait to be decoded
_ROWS = 256  # of a table that does not say how large its files of images are
_USUAL = "image"


def image_columns(columns: Sequence[tuple[str, pa.DataType]]) -> list[str]:
    """Returns the names of the columns that hold images, by their types; if one is called ``image``, only that one."""
    found = [name for name, kind in columns if _holds_images(kind)]
    return [_USUAL] if found.count(_USUAL) == 1 else found


def _holds_images(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and not pt.is_struct(kind.field(place).type) and _holds_images(kind.field(place).type)
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


@dataclass(frozen=True)
class ImageTable(ImageOrigin):
    """A table with a column of images; columns other than the image, its label and its unit are not read."""

    table: Origin

    @cached_property
    def _image(self) -> str:
        columns = image_columns(self.table.columns())
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
        schema = self.schema
        metadata = {} if schema is None else schema.metadata or {}
        try:
            known = json.loads(metadata.get(b"huggingface", b"{}"))
            names = known["info"]["features"][self.options.form.label]["names"]
        except (ValueError, KeyError, TypeError):
            return None
        return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None

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
            what = "is not in the data" if not kinds else "stands in the data more than once"
            raise DataError(
                f"{self.name}: the label {label!r} {what}; name the column of labels with {said('label')} "
                "or in the schema, or describe images without labels"
            )
        self.check_labels(kinds[0])

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, at most ``rows`` at a time, and fewer where files of images are large."""
        label, unit = self.options.form.label, self.options.unit_column
        names = [self._image, *(name for name in (label, unit) if name is not None)]
        for arrays in self.table.batches(names, self._rows(rows)):
            images = arrays[self._image]
            if pt.is_struct(images.type):
                images = images.flatten()[images.type.get_field_index("bytes")]
            yield Pictures(
                pictures=images.to_pylist(),
                labels=None if label is None else arrays[label],
                units=None if unit is None else arrays[unit],
            )

    def place(self, row: int) -> str:
        """Returns the file name and the number of the record, counted from 1."""
        return self.table.place(row)

    @property
    def schema(self) -> pa.Schema | None:
        """What the table says of itself, where it says anything."""
        return getattr(self.table, "schema", None)

    def _rows(self, rows: int) -> int:
        """Returns how many images are read at a time."""
        return min(rows, _ROWS)


class ImageParquet(ImageTable):
    """A Parquet file of images, or some row groups of it."""

    def __init__(self, path: Path, options: ImageReadOptions, table: Origin | None = None) -> None:
        super().__init__(path, options, table or ParquetFile(path))

    @property
    def schema(self) -> pa.Schema:
        """What the footer of the file says."""
        return pq.read_schema(for_arrow(self.path))

    def _rows(self, rows: int) -> int:
        """Returns how many images are read at a time, by the sizes that the file's footer states."""
        footer = pq.read_metadata(for_arrow(self.path))
        groups = (footer.row_group(group) for group in range(footer.num_row_groups))
        chunks = [group.column(place) for group in groups for place in range(footer.num_columns)]
        # A nested column is called by its path, as in image.bytes.
        mine = [chunk for chunk in chunks if str(chunk.path_in_schema).split(".")[0].strip() == self._image]
        total = sum(int(chunk.total_uncompressed_size) for chunk in mine)
        return max(1, min(rows, _BATCH_BYTES * max(1, int(footer.num_rows)) // max(1, total)))
