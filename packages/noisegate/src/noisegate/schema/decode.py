"""Encoded records back to a typed Arrow table, and generated intensities to images of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.records import Images, Rows
from noisegate.schema.layout import numbers_at
from noisegate.schema.numeric import Date, Datetime, NumericColumn
from noisegate.schema.pixels import ImageForm
from noisegate.schema.schema import Schema
from noisegate.schema.values import Boolean, CodedColumn

if TYPE_CHECKING:
    import pyarrow as pa


def decode(encoded: Rows, schema: Schema, *, stored: bool = False) -> pa.Table:
    """Returns ``encoded`` as an Arrow table with the columns of ``schema``, in its order.

    Types: continuous and decimal float64, integer int64, date date32, datetime timestamp[us] (UTC if the bounds have a
    time zone), levels string or int64, boolean bool or its words; what has a format is text; with ``stored``, the
    `type` of each column that has one. Missing values are null; positions outside [0, 1] are clamped.

    Raises:
        ValueError: if ``encoded`` does not fit the schema: wrong width, a code of no level, missing where not allowed.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import Images
        >>> from noisegate.schema import decode, pixel_schema
        >>> images = Images(np.array([[[[7], [9]]]], dtype=np.uint8))
        >>> decode(images, pixel_schema(1, 2)).to_pydict()
        {'pixel_0_0': [7], 'pixel_0_1': [9]}
    """
    import pyarrow as pa  # here, so that reading a schema stays fast

    layout = schema.layout
    if schema.images is not None:
        images = as_images(encoded, schema.images)
        pixels = (
            images.pixels.reshape(len(images), schema.images.shape.size)
            .astype(np.int64)
            .T
        )
        columns: list[Any] = [
            *pixels,
            *(
                _levels(column, images.codes[:, i])
                for i, column in enumerate(layout.coded)
            ),
        ]
        return pa.table(columns, names=list(schema.names))
    if encoded.numeric.shape[1] != len(layout.numeric) or encoded.codes.shape[1] != len(
        layout.coded
    ):
        raise ValueError(
            f"the encoded table has another number of columns than the schema {', '.join(schema.names)}"
        )
    arrays = {
        column.name: _numbers(column, encoded.numeric[:, i])
        for i, column in enumerate(layout.numeric)
    }
    arrays |= {
        column.name: _levels(column, encoded.codes[:, i])
        for i, column in enumerate(layout.coded)
    }
    for column in schema.columns if stored else ():
        if column.type is not None:
            from noisegate.schema.arrow_types import typed

            arrays[column.name] = typed(column, arrays[column.name], column.type)
    return pa.table({name: arrays[name] for name in schema.names})


def as_images(records: Rows, form: ImageForm) -> Images:
    """Returns records as images of ``form``, intensities in [0, 1] rounded to the nearest whole one from 0 to 255."""
    labels = records.codes[:, 0] if records.codes.shape[1] else None
    if isinstance(records, Images):
        images = records
    elif np.isnan(records.numeric).any() or records.numeric.shape[1] != form.shape.size:
        raise ValueError(
            f"a missing value, or {records.numeric.shape[1]} intensities for images of {form.shape}"
        )
    else:
        images = Images.of_positions(records.numeric, form.shape.axes, labels)
    if images.pixels.shape[1:] != form.shape.axes or (labels is None) != (
        form.label is None
    ):
        raise ValueError(
            f"images of {images.pixels.shape[1:]}, or their labels, do not fit those of {form.shape}"
        )
    if labels is not None and ((labels < 0) | (labels >= len(form.labels))).any():
        raise ValueError(
            f"column {form.label!r}: a code outside 0..{len(form.labels) - 1}"
        )
    return images


def _numbers(column: NumericColumn, positions: npt.NDArray[np.float64]) -> pa.Array:
    import pyarrow as pa

    missing = np.isnan(positions)
    if missing.any() and not column.missing:
        raise ValueError(
            f"column {column.name!r}: a missing value where the schema allows none"
        )
    numbers = numbers_at(column, np.where(missing, 0.0, positions))
    cells = pa.array(
        numbers.astype(np.int32) if isinstance(column, Date) else numbers, mask=missing
    )
    if isinstance(column, Datetime):
        cells = cells.cast(pa.timestamp("us", tz="UTC" if column.aware else None))
    elif isinstance(column, Date):
        cells = cells.cast(pa.date32())
    if column.format is None:
        return cells
    from noisegate.schema.formats import format_cells

    return format_cells(column, cells)


def _levels(column: CodedColumn, codes: npt.NDArray[np.int32]) -> pa.Array:
    import pyarrow as pa

    if ((codes < 0) | (codes >= column.size)).any():
        raise ValueError(f"column {column.name!r}: a code outside 0..{column.size - 1}")
    values: list[Any] = list(column.levels)
    if isinstance(column, Boolean) and column.words:
        values = [column.false_values[0], column.true_values[0]]
    text_or_number = pa.string() if isinstance(values[0], str) else pa.int64()
    levels = pa.array(
        values, pa.bool_() if isinstance(values[0], bool) else text_or_number
    )
    return levels.take(pa.array(codes, mask=codes == len(values)))
