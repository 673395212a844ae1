"""Images as a table: a column for each pixel and channel, then the label, named as in the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.output.image_batch import ImageBatch
from noisegate.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def pixel_table(batch: ImageBatch, schema: Schema) -> pa.Table:
    """Returns images as the Arrow table that `Synthesizer.sample` makes of them.

    Args:
        batch: The images.
        schema: Of images of this shape.
    """
    import pyarrow as pa

    pixels = batch.pixels.reshape(len(batch), -1).astype(np.int64).T
    named = zip((name for name in schema.names if name != schema.label), pixels, strict=True)
    columns: dict[str, Any] = dict(named)
    if schema.label is not None:
        columns[schema.label] = batch.labels
    return pa.table(columns).select(list(schema.names))
