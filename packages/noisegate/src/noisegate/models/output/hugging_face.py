"""Synthetic records as a Hugging Face data set, in memory, with the statement of their guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisegate.errors import require

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
