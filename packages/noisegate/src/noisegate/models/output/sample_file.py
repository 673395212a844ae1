"""Writes synthetic records to files, whose ending decides the format.

::

    table_writer    pa.Table  ──► .csv, .parquet
    sample_writer   pa.Table  ──► .csv, .parquet              (a schema of a table)
                    ImageBatch ─► .csv of pixels, or what noisegate-images writes

Both are context managers that yield a function to append batches with. The file appears
when the block ends well, complete or not at all.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file
from noisegate.errors import OptionError, require, said
from noisegate.records import Images, Rows
from noisegate.registry import extension
from noisegate.schema.decode import as_images, decode

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema import FileForm, Schema

_NO_METADATA: Mapping[str, str] = MappingProxyType({})


def described_data_set(table: pa.Table, description: str) -> Any:
    """Returns a table as a ``datasets.Dataset`` with a description.

    Raises:
        MissingExtraError: if `datasets` is not installed.
    """
    require("datasets", "to_datasets()")
    import datasets

    return datasets.Dataset(table, info=datasets.DatasetInfo(description=description))


@contextmanager
def table_writer(
    out: Path,
    schema: Schema,
    metadata: Mapping[str, str] = _NO_METADATA,
    *,
    owner_only: bool = False,
) -> Iterator[Callable[[pa.Table], None]]:
    """Opens a file of records, CSV or Parquet.

    Args:
        out: New file, which ends in .csv or .parquet.
        schema: Schema of the records.
        metadata: Texts by name for the footer of a Parquet file; CSV has no room for
            them.
        owner_only: Whether only its owner may read the file, as one that says something
            of private records.

    Yields:
        A function that appends a table, whose columns are the same at each call.

    Raises:
        OptionError: if the ending is another one.
    """
    is_csv = out.suffix == ".csv"
    if not is_csv and out.suffix != ".parquet":
        raise OptionError(
            f"{said('out', out)}: the ending must be .csv or .parquet, not "
            f"{out.suffix!r}."
        )
    with (
        new_file(out, owner_only=owner_only) as path,
        ExitStack() as open_writers,
    ):
        # Opened by the first table, which has the Arrow schema of all.
        writer: Any = None

        def append(table: pa.Table) -> None:
            import pyarrow.csv as csv
            import pyarrow.parquet as parquet

            nonlocal writer
            cells = _csv_table(table, schema) if is_csv else table
            # An empty mapping would be another schema than none.
            all_metadata = {**(cells.schema.metadata or {}), **metadata} or None
            described_table = cells.replace_schema_metadata(all_metadata)
            if writer is None:
                if is_csv:
                    sink = open_writers.enter_context(text_sink(path, schema.file))
                    options = csv.WriteOptions(
                        include_header=schema.file.header is True,
                        delimiter=schema.file.separator,
                    )
                    opened = csv.CSVWriter(
                        sink, described_table.schema, write_options=options
                    )
                else:
                    opened = parquet.ParquetWriter(str(path), described_table.schema)
                writer = open_writers.enter_context(opened)
            writer.write_table(described_table)

        yield append


@contextmanager
def text_sink(path: Path, form: FileForm) -> Iterator[Any]:
    """Opens a text file in the encoding of the schema's files, for Arrow to write to.

    Args:
        path: New file.
        form: How it is written. Lines that a reader skips are written too, so that the
            file is read as others of the table are.

    Yields:
        What takes text in UTF-8.
    """
    with path.open("wb") as file:
        sink = _EncodingSink(file, form.encoding)
        for line in range(form.skip):
            note = "Synthetic records, made by noisegate" if line == 0 else ""
            sink.write(f"{note}\n".encode())
        yield sink


class _EncodingSink:
    """A file that takes text in UTF-8 and stores it in another encoding."""

    closed = False

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        """Writes to an open file."""
        self._file = file
        # One encoder for all of the text: some write a mark before the first.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._encoder = codecs.getincrementalencoder(encoding)()

    def write(self, content: bytes) -> int:
        """Writes text in UTF-8, which may end inside a character."""
        text = self._decoder.decode(bytes(content))
        self._file.write(self._encoder.encode(text))
        return len(content)

    def flush(self) -> None:
        """Writes what waits in memory to the file."""
        self._file.flush()


def _csv_table(table: pa.Table, schema: Schema) -> pa.Table:
    """Returns a table whose cells CSV writes as the schema reads them.

    Text follows the schema. A missing cell is
    empty where the schema reads empty ones as missing, else its first missing value.
    """
    import pyarrow as pa

    from noisegate.schema.arrow_types import format_as_text
    from noisegate.schema.file_form import number_columns

    if schema.images is not None:
        # Pixels and labels are never missing, and numbers have no spelling.
        return table
    missing_text = None
    if schema.missing_values and "" not in schema.missing_values:
        missing_text = schema.missing_values[0]

    number_names = number_columns(schema.columns)
    text_table = table
    for column in schema.columns:
        cells = table[column.name].combine_chunks()
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        has_fraction = pa.types.is_floating(cells.type) or pa.types.is_decimal(
            cells.type
        )
        limits = column.limits if column.numeric else ()
        are_numbers_with_limits = bool(limits) and column.name in number_names
        if schema.file.decimal != "." and (has_fraction or are_numbers_with_limits):
            cells = schema.file.write_numbers(cells, limits)
        marks_missing = column.missing and missing_text is not None
        if marks_missing or column.has_own_text:
            cells = format_as_text(column, cells)
        if marks_missing:
            cells = cells.fill_null(missing_text)
        index = table.column_names.index(column.name)
        text_table = text_table.set_column(index, column.name, cells)
    return _in_order_of_files(text_table, schema)


def _in_order_of_files(table: pa.Table, schema: Schema) -> pa.Table:
    """Returns a table with all columns that the schema's files have without a header.

    Nothing but their order says which they are. Those that the schema ignores are
    empty.
    """
    import pyarrow as pa

    file_names = schema.file.names_without_header(table.column_names)
    if file_names is None:
        return table
    empty = pa.nulls(table.num_rows, pa.string())
    present = set(table.column_names)
    # Such as the number of a copy, which only samples have.
    further_names = [name for name in table.column_names if name not in file_names]
    return pa.table(
        {
            name: table[name] if name in present else empty
            for name in (*file_names, *further_names)
        }
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageBatch:
    """Some synthetic images with their labels."""

    # (rows, height, width, channels); 0 is dark, 255 bright.
    pixels: npt.NDArray[np.uint8]
    # For each image the level of the label's column; None where images have none.
    labels: tuple[str | int, ...] | None

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(
                f"expected four axes of uint8, found {self.pixels.dtype} of shape "
                f"{self.pixels.shape}"
            )
        if self.labels is not None and len(self.labels) != len(self.pixels):
            raise ValueError(f"{len(self.labels)} labels for {len(self.pixels)} images")

    def __len__(self) -> int:
        return len(self.pixels)


def image_batch(records: Rows, schema: Schema) -> ImageBatch:
    """Converts encoded records to images.

    Args:
        records: Records of a schema of images.
        schema: That schema.

    Returns:
        The images, with labels by value, not by code.

    Raises:
        OptionError: if the schema is of a table.
    """
    if schema.images is None:
        raise OptionError(
            "the schema is of a table, not of images; describe them with "
            "noisegate.schema.pixel_schema."
        )
    images = as_images(records, schema.images)
    if images.labels is None:
        return ImageBatch(pixels=images.pixels, labels=None)
    levels = schema.images.labels
    labels = tuple(levels[code] for code in images.labels)
    return ImageBatch(pixels=images.pixels, labels=labels)


def pixel_table(batch: ImageBatch, schema: Schema) -> pa.Table:
    """Converts images to the Arrow table of pixels that `Synthesizer.sample` returns.

    Args:
        batch: Images of a schema.
        schema: That schema.

    Returns:
        A row for each image, with a column for each pixel and one for the label.
    """
    codes = None
    if batch.labels is not None:
        levels = schema.images.labels if schema.images is not None else ()
        code_of_level = {level: code for code, level in enumerate(levels)}
        codes = np.array(
            [code_of_level[label] for label in batch.labels], dtype=np.int32
        )
    return decode(Images(batch.pixels, codes), schema)


@contextmanager
def sample_writer(
    out: Path, schema: Schema, rows: int, metadata: Mapping[str, str] = _NO_METADATA
) -> Iterator[Callable[[Any], None]]:
    """Opens a file, or a folder of images, for the batches of a sample.

    Args:
        out: New file or folder. Of images its ending may be any that the package
            noisegate-images writes.
        schema: Schema of the records.
        rows: Number of records that will be written in all.
        metadata: Texts for the footer of a Parquet file of a table.

    Yields:
        A function that appends a batch: an Arrow table, or an `ImageBatch` if the
        schema is of images.

    Raises:
        OptionError: if nothing writes such an ending.
    """
    is_pixel_table = out.suffix == ".csv"
    if schema.images is not None and not is_pixel_table:
        image_writer = extension("noisegate.pictures", "writer", "what writes images")
        with image_writer(out, schema.images, rows) as append_images:
            yield append_images
        return

    with table_writer(out, schema, metadata) as append_table:
        if schema.images is None:
            yield append_table
        else:
            yield lambda batch: append_table(pixel_table(batch, schema))
