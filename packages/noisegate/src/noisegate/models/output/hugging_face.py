"""Synthetic records as a Hugging Face data set, in memory, with the statement of their guarantee."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from noisegate.errors import require
from noisegate.models.output.formats import image_rows
from noisegate.models.output.image_batch import ImageBatch
from noisegate.schema.pixels import ImageForm

if TYPE_CHECKING:
    import pyarrow as pa


def data_set(table: pa.Table, statement: str) -> Any:
    """Returns a ``datasets.Dataset`` of a table, described by a statement.

    Raises:
        MissingExtraError: if `datasets` is not installed.
    """
    require("datasets", "to_datasets()")
    import datasets

    return datasets.Dataset(table, info=datasets.DatasetInfo(description=statement))


def image_table(batches: Iterable[ImageBatch], form: ImageForm) -> pa.Table:
    """Returns images, as PNG files, with their labels, in the columns that Hugging Face's library shows."""
    import pyarrow as pa

    schema, rows = image_rows(form)
    return pa.concat_tables([schema.empty_table(), *map(rows, batches)])
