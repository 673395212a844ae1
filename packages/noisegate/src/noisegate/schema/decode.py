"""Decodes encoded records (numbers and codes) into a typed Arrow table; see `encode`.

Images stay images for most uses: `as_images` rounds generated intensities to bytes.
`decode` returns a table with a column for each pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.records import Images, Rows
from noisegate.schema.columns import NumericColumn
from noisegate.schema.kinds.coded import CodedColumn
from noisegate.schema.layout import numbers_at, within_bounds
from noisegate.schema.pixels import ImageForm
from noisegate.schema.schema import Schema

# pyarrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import pyarrow as pa


def decode(encoded: Rows, schema: Schema, *, stored: bool = False) -> pa.Table:
    """Decodes records into an Arrow table with the columns of a schema, in its order.

    Args:
        encoded: Records as `encode` returns them, or as a model draws them. Positions
            outside [0, 1] are clamped.
        schema: The schema of the records.
        stored: Whether a column with a `type` gets that Arrow type, as in the data.

    Returns:
        The table. Continuous and decimal columns are float64, integers int64, dates
        date32, points in time timestamp[us] (in UTC if the bounds have a time zone),
        levels string or int64, truth values bool or their words; a column with a format
        or limits is text. Missing values are null.

    Raises:
        ValueError: if the records do not fit the schema: a wrong number of columns, a
            code of no level, or a missing value where none is allowed.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import Images
        >>> from noisegate.schema import decode, pixel_schema
        >>> images = Images(np.array([[[[7], [9]]]], dtype=np.uint8))
        >>> decode(images, pixel_schema(1, 2)).to_pydict()
        {'pixel_0_0': [7], 'pixel_0_1': [9]}
    """
    if schema.images is not None:
        return _decode_images(encoded, schema)

    import pyarrow as pa

    layout = schema.layout
    has_all_columns = encoded.numeric.shape[1] == len(
        layout.numeric
    ) and encoded.codes.shape[1] == len(layout.coded)
    if not has_all_columns:
        raise ValueError(
            "the encoded table has another number of columns than the schema "
            f"{', '.join(schema.names)}"
        )
    arrays: dict[str, pa.Array] = {}
    for index, numeric_column in enumerate(layout.numeric):
        positions = encoded.numeric[:, index]
        arrays[numeric_column.name] = _decode_numbers(numeric_column, positions)
    for index, coded_column in enumerate(layout.coded):
        codes = encoded.codes[:, index]
        arrays[coded_column.name] = _decode_levels(coded_column, codes)
    if schema.relations:
        arrays |= _computed_arrays(encoded, schema)
    if stored:
        for column in schema.columns:
            if column.type is not None:
                from noisegate.schema.arrow_types import cast_column

                cells = arrays[column.name]
                arrays[column.name] = cast_column(column, cells, column.type)
    return pa.table({name: arrays[name] for name in schema.names})


def _computed_arrays(encoded: Rows, schema: Schema) -> dict[str, pa.Array]:
    """Returns the columns that relations compute, from the very values, not positions.

    A position of a real number is rounded, which could break a relation in the last
    digit.
    """
    values = schema.file_values(encoded)
    arrays: dict[str, pa.Array] = {}
    for name in schema.computed_names:
        column: Any = schema.column(name)
        own = values[name]
        if column.numeric:
            numbers = within_bounds(column, own.numbers)
            arrays[name] = column.decoded_cells(numbers, own.is_missing)
        else:
            codes = np.where(own.is_missing, len(column.levels), own.numbers)
            arrays[name] = _decode_levels(column, codes.astype(np.int32))
    return arrays


def _decode_images(encoded: Rows, schema: Schema) -> pa.Table:
    """Decodes images into a table with a column of int64 for each intensity."""
    import pyarrow as pa

    assert schema.images is not None
    images = as_images(encoded, schema.images)
    intensities = images.pixels.reshape(len(images), schema.images.shape.size)
    arrays: list[Any] = list(intensities.astype(np.int64).T)
    for index, label_column in enumerate(schema.layout.coded):
        arrays.append(_decode_levels(label_column, images.codes[:, index]))
    return pa.table(arrays, names=list(schema.names))


def as_images(records: Rows, form: ImageForm) -> Images:
    """Converts records into images, and checks that they are of the given form.

    Args:
        records: Images, which are returned as they are; or rows of intensities in
            [0, 1], which are rounded to the nearest integer from 0 to 255.
        form: Size and labels of the images.

    Raises:
        ValueError: if a value is missing, or size, labels or a code do not fit.
    """
    labels = records.codes[:, 0] if records.codes.shape[1] else None
    if isinstance(records, Images):
        images = records
    else:
        intensity_count = records.numeric.shape[1]
        if np.isnan(records.numeric).any() or intensity_count != form.shape.size:
            raise ValueError(
                f"a missing value, or {intensity_count} intensities for images of "
                f"{form.shape}"
            )
        images = Images.of_positions(records.numeric, form.shape.axes, labels)

    has_this_shape = images.pixels.shape[1:] == form.shape.axes
    needs_labels = form.label is not None
    if not has_this_shape or (labels is not None) != needs_labels:
        raise ValueError(
            f"images of {images.pixels.shape[1:]}, or their labels, do not fit those "
            f"of {form.shape}"
        )
    if labels is not None and ((labels < 0) | (labels >= len(form.labels))).any():
        raise ValueError(
            f"column {form.label!r}: a code outside 0..{len(form.labels) - 1}"
        )
    return images


def _decode_numbers(
    column: NumericColumn, positions: npt.NDArray[np.float64]
) -> pa.Array:
    """Decodes a numeric column.

    Args:
        column: The column.
        positions: Positions in [0, 1], NaN where missing, (records,).

    Returns:
        An Arrow array of the type that `decode` states, or text if there is a format.
    """
    is_missing = np.isnan(positions)
    if is_missing.any() and not column.missing:
        raise ValueError(
            f"column {column.name!r}: a missing value where the schema allows none"
        )
    numbers = numbers_at(column, np.where(is_missing, 0.0, positions))
    return column.decoded_cells(numbers, is_missing)


def _decode_levels(column: CodedColumn, codes: npt.NDArray[np.int32]) -> pa.Array:
    """Decodes a column of levels.

    Args:
        column: The column.
        codes: Index of the level of each record, the number of levels where missing,
            (records,).

    Returns:
        An Arrow array of the levels: text, int64 or truth values, or the words that the
        column has for these.
    """
    import pyarrow as pa

    if ((codes < 0) | (codes >= column.size)).any():
        raise ValueError(f"column {column.name!r}: a code outside 0..{column.size - 1}")
    levels = column.decoded_levels
    if isinstance(levels[0], bool):
        level_type = pa.bool_()
    elif isinstance(levels[0], str):
        level_type = pa.string()
    else:
        level_type = pa.int64()
    indices = pa.array(codes, mask=codes == len(levels))
    return pa.array(levels, level_type).take(indices)
