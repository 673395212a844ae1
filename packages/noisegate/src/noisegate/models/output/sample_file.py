"""Files of synthetic records, of tables or of images, in the form that their ending asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noisegate.models.output.image_batch import pixel_table
from noisegate.models.output.table_file import table_writer
from noisegate.registry import extension
from noisegate.schema import Schema


@contextmanager
def sample_writer(out: Path, schema: Schema, rows: int) -> Iterator[Callable[[Any], None]]:
    """Yields a function that writes batches of tables, or of images, of which there will be `rows`."""
    if schema.images is not None and out.suffix != ".csv":
        with extension("noisegate.pictures", "writer", "what writes images")(out, schema.images, rows) as write:
            yield write
        return
    with table_writer(out, schema) as append:
        yield append if schema.images is None else lambda batch: append(pixel_table(batch, schema))
