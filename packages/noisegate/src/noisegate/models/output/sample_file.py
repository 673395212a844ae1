"""Files of synthetic records, of tables or of images, in the form that their ending asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file
from noisegate.errors import OptionError, require, said
from noisegate.records import Images, Rows
from noisegate.registry import extension
from noisegate.schema.decode import as_images, decode

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema import Schema

_NONE: Mapping[str, str] = MappingProxyType({})


def data_set(table: pa.Table, statement: str) -> Any:
    """Returns a ``datasets.Dataset`` of a table, described by a statement; a MissingExtraError without `datasets`."""
    require("datasets", "to_datasets()")
    import datasets

    return datasets.Dataset(table, info=datasets.DatasetInfo(description=statement))


@contextmanager
def table_writer(
    out: Path, schema: Schema, metadata: Mapping[str, str] = _NONE
) -> Iterator[Callable[[pa.Table], None]]:
    """Yields a function that appends a table to the file `out`, which appears only when all is written."""
    # `metadata` goes into the footer of a Parquet file. In a CSV file, missing cells are empty where the schema reads
    # these as missing, else its first missing value.
    if out.suffix not in (".csv", ".parquet"):
        raise OptionError(
            f"{said('out', out)}: the ending must be .csv or .parquet, not {out.suffix!r}."
        )
    with new_file(out) as path, ExitStack() as opened:
        writer: Any = None

        def write(rows: pa.Table) -> None:
            import pyarrow.csv as csv
            import pyarrow.parquet as parquet

            nonlocal writer
            if out.suffix == ".csv":
                rows = _spelled(rows, schema)
            rows = rows.replace_schema_metadata(
                {**(rows.schema.metadata or {}), **metadata} or None
            )
            make = csv.CSVWriter if out.suffix == ".csv" else parquet.ParquetWriter
            writer = writer or opened.enter_context(make(str(path), rows.schema))
            writer.write_table(rows)

        yield write


def _spelled(rows: pa.Table, schema: Schema) -> pa.Table:
    """Returns the table as text has it, and its missing cells where an empty one would not be read as missing."""
    import pyarrow as pa

    from noisegate.schema.arrow_types import format_as_text

    word = (
        None if "" in schema.missing_values else next(iter(schema.missing_values), None)
    )
    for column in () if schema.images is not None else schema.columns:
        cells = rows[column.name]
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if (column.missing and word is not None) or getattr(
            column, "spelling", None
        ) is not None:
            cells = format_as_text(column, cells)
        if column.missing and word is not None:
            cells = cells.fill_null(word)
        rows = rows.set_column(rows.column_names.index(column.name), column.name, cells)
    return rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageBatch:
    """Some synthetic images."""

    pixels: npt.NDArray[np.uint8]  # uint8, (rows, height, width, channels); 0 is dark
    labels: (
        tuple[str | int, ...] | None
    )  # the label of each image, as the schema has it; None where images have none

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(
                f"expected four axes of uint8, found {self.pixels.dtype} of shape {self.pixels.shape}"
            )
        if self.labels is not None and len(self.labels) != len(self.pixels):
            raise ValueError(f"{len(self.labels)} labels for {len(self.pixels)} images")

    def __len__(self) -> int:
        return len(self.pixels)


def image_batch(records: Rows, schema: Schema) -> ImageBatch:
    """Returns images with their labels by value; an OptionError if the schema is none of images."""
    if schema.images is None:
        raise OptionError(
            "the schema is of a table, not of images; describe them with noisegate.schema.pixel_schema."
        )
    images, levels = as_images(records, schema.images), schema.images.labels
    labels = (
        None if images.labels is None else tuple(levels[code] for code in images.labels)
    )
    return ImageBatch(pixels=images.pixels, labels=labels)


def pixel_table(batch: ImageBatch, schema: Schema) -> pa.Table:
    """Returns images as the Arrow table that `Synthesizer.sample` makes of them."""
    codes = {
        label: code
        for code, label in enumerate(
            schema.images.labels if schema.images is not None else ()
        )
    }
    labels = (
        None
        if batch.labels is None
        else np.array([codes[label] for label in batch.labels], dtype=np.int32)
    )
    return decode(Images(batch.pixels, labels), schema)


@contextmanager
def sample_writer(
    out: Path, schema: Schema, rows: int, metadata: Mapping[str, str] = _NONE
) -> Iterator[Callable[[Any], None]]:
    """Yields a function that writes batches of tables, or of images, of which there will be `rows`."""
    if schema.images is not None and out.suffix != ".csv":
        with extension("noisegate.pictures", "writer", "what writes images")(
            out, schema.images, rows
        ) as write:
            yield write
        return
    with table_writer(out, schema, metadata) as append:
        yield (
            append
            if schema.images is None
            else lambda batch: append(pixel_table(batch, schema))
        )
