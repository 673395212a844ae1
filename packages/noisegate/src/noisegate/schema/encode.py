"""Encodes an Arrow table as records of numbers and codes, by its schema.

What a cell becomes depends on that cell and the schema alone, never on other cells.
Each column takes these steps, all of them vectorised over its cells::

    Arrow array ── strip_cells ──► plain values, and which are missing
                                         │
                                  `parse_cells` of the kind
                                         ▼
                   numbers: float64, or int64 units; or codes: int32
                                         │
                                   encode_cells
                                         ▼
                   positions in [0, 1], NaN where missing; or codes

`read_cells` takes the steps up to the numbers. The first cell that does not fit its
column ends the reading with a `Problem`, which names the record.

At the end of the file, names of units of privacy are normalised, such as the ids of
patients, so that a unit that is written in two ways is taken for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.records import Images, Rows
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import (
    Column,
    Problem,
    missing_cell,
    unfit_cell,
    unfit_type,
)
from noisegate.schema.layout import numbers_at, positions_of
from noisegate.schema.parsing import (
    Mask,
    UnexpectedType,
    describe_type,
    is_text,
)
from noisegate.schema.relations.relation import ColumnValues
from noisegate.schema.relations.values import encoded_column
from noisegate.schema.schema import Schema


def encode(arrays: Mapping[str, pa.Array], schema: Schema) -> Rows:
    """Encodes the columns of a batch of records.

    Args:
        arrays: An Arrow array for each column of the schema, by name, all of one
            length.
        schema: What the columns are.

    Returns:
        The records; `Images` if the schema describes images.

    Raises:
        Problem: for the first column, in the order of the schema, that has a cell that
            does not fit.
    """
    if schema.images is not None:
        return _encode_images(arrays, schema)

    layout = schema.layout
    record_count = len(arrays[schema.names[0]])
    missing_markers = pa.array(schema.missing_values, pa.string())
    # Column by column in memory, as they are written here, and counted later.
    numeric = np.empty((len(layout.numeric), record_count), dtype=np.float64).T
    codes = np.empty((len(layout.coded), record_count), dtype=np.int32).T
    destinations: dict[str, npt.NDArray[Any]] = {}
    for index, numeric_column in enumerate(layout.numeric):
        destinations[numeric_column.name] = numeric[:, index]
    for index, coded_column in enumerate(layout.coded):
        destinations[coded_column.name] = codes[:, index]

    related: dict[str, ColumnValues] = {}
    for column in schema.columns:
        numbers, is_present = read_cells(column, arrays[column.name], missing_markers)
        if column.name in schema.related_names:
            related[column.name] = _column_values(column, numbers, is_present)
        else:
            destinations[column.name][:] = encode_cells(column, numbers, is_present)
    for name, values in schema.measured_values(related).items():
        destinations[name][:] = encoded_column(layout.column(name), values)
    return Rows(numeric, codes)


def _column_values(
    column: Column, numbers: npt.NDArray[Any], is_present: Mask
) -> ColumnValues:
    """Returns the cells of a column as relations take them, within its bounds.

    Args:
        column: The column.
        numbers: Numbers or codes of the cells that are present, (present cells,).
        is_present: Which cells are not missing, (cells,).
    """
    if not column.numeric:
        codes = np.zeros(len(is_present), dtype=np.int64)
        codes[is_present] = numbers
        return ColumnValues(numbers=codes, is_missing=~is_present)
    positions = np.zeros(len(is_present))
    positions[is_present] = positions_of(column, numbers)
    return ColumnValues(numbers=numbers_at(column, positions), is_missing=~is_present)


def _encode_images(arrays: Mapping[str, pa.Array], schema: Schema) -> Images:
    """Encodes a table of pixels, with an optional label, as images of bytes.

    Args:
        arrays: An Arrow array for each pixel and for the label, by name.
        schema: A schema of images.
    """
    assert schema.images is not None
    layout = schema.layout
    shape = schema.images.shape
    image_count = len(arrays[schema.names[0]])
    missing_markers = pa.array(schema.missing_values, pa.string())
    pixels = np.empty((image_count, shape.size), dtype=np.uint8)
    for index, pixel in enumerate(layout.numeric):
        intensities, _ = read_cells(pixel, arrays[pixel.name], missing_markers)
        pixels[:, index] = np.clip(intensities, 0, 255)

    labels = None
    if layout.coded:
        label_column = layout.coded[0]
        codes, is_present = read_cells(
            label_column, arrays[label_column.name], missing_markers
        )
        labels = encode_cells(label_column, codes, is_present)
    return Images(pixels.reshape(image_count, *shape.axes), labels)


def encode_cells(
    column: Column, numbers: npt.NDArray[Any], is_present: Mask
) -> npt.NDArray[Any]:
    """Encodes the cells of a column that `read_cells` read.

    Args:
        column: The column.
        numbers: Numbers or codes of the cells that are present, (present cells,).
        is_present: Which cells are not missing, (cells,).

    Returns:
        Positions in [0, 1], float64, NaN where missing; for a column of levels, codes,
        int32, the number of levels where missing. (cells,)
    """
    present_cells: npt.NDArray[Any]
    missing_cell_value: float
    if column.numeric:
        present_cells = positions_of(column, numbers)
        missing_cell_value = np.nan
    else:
        present_cells = numbers.astype(np.int32, copy=False)
        missing_cell_value = len(column.levels)
    if is_present.all():
        return present_cells
    cells = np.full(len(is_present), missing_cell_value, dtype=present_cells.dtype)
    cells[is_present] = present_cells
    return cells


def read_cells(
    column: Column, array: pa.Array, missing_markers: pa.Array
) -> tuple[npt.NDArray[Any], Mask]:
    """Reads the numbers or codes in the cells of a column.

    Args:
        column: What the column is.
        array: The cells, of any Arrow type.
        missing_markers: Texts that stand for a missing value.

    Returns:
        Of the cells that are present, float64 numbers or int64 units of a column of
        steps, not yet clamped to the bounds, or codes, (present cells,). And which
        cells are present, (cells,).

    Raises:
        Problem: for the first cell that does not fit the column, or is missing where
            the column allows none; or if the Arrow type holds no values of its kind.
    """
    plain_numbers = _read_plain_text(column, array, missing_markers)
    if plain_numbers is not None:
        return plain_numbers, np.ones(len(array), dtype=np.bool_)

    stripped, is_present = strip_cells(array, missing_markers)
    has_all = is_present.all()
    values = stripped if has_all else stripped.filter(pa.array(is_present))
    # A column of nulls has no type of its own; what is left of it, nothing, is text.
    if pt.is_null(values.type):
        values = values.cast(pa.string())
    try:
        parsed = column.parse_cells(values)
    except UnexpectedType:
        raise unfit_type(column, describe_type(stripped.type)) from None

    # Nearly every column is of this kind, so that the way is short for it.
    if has_all and not (parsed.is_bad.any() or parsed.is_missing.any()):
        return parsed.numbers, is_present

    present_rows = np.flatnonzero(is_present)
    if parsed.is_bad.any():
        row = int(present_rows[np.argmax(parsed.is_bad)])
        raise unfit_cell(column, row, stripped[row].as_py())
    is_present[present_rows[parsed.is_missing]] = False
    if not column.missing and not is_present.all():
        raise missing_cell(column, int(np.argmin(is_present)))
    return parsed.numbers[~parsed.is_missing], is_present


def _read_plain_text(
    column: Column, array: pa.Array, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Reads a column of text at once, if each cell is a value as it stands.

    Most columns of CSV files are like this. A cell that is read so has no blanks around
    it, and is no missing marker.

    Args:
        column: What the column is.
        array: The cells, of any Arrow type.
        missing_markers: Texts that stand for a missing value.

    Returns:
        What `read_cells` returns for these cells, all present, (cells,); None if they
        must be examined more closely.
    """
    has_format = column.numeric and column.format is not None
    if has_format or not pt.is_string(array.type):
        return None
    return column.parse_quickly(array, missing_markers)


def strip_cells(array: pa.Array, missing_markers: pa.Array) -> tuple[pa.Array, Mask]:
    """Strips blanks from text, and finds the cells that are present.

    Args:
        array: The cells, of any Arrow type; a dictionary is decoded.
        missing_markers: Texts that stand for a missing value.

    Returns:
        The cells, text as `string` without surrounding blanks; and which of them are
        neither null nor a missing marker, (cells,), an array of its own.
    """
    cells = array.dictionary_decode() if pt.is_dictionary(array.type) else array
    if not is_text(cells.type):
        return cells, cells.is_valid().to_numpy(zero_copy_only=False).copy()
    stripped = pc.utf8_trim(cells.cast(pa.string()), characters=TEXT_PADDING)
    is_marker = pc.is_in(stripped, value_set=missing_markers)
    is_present = pc.and_(cells.is_valid(), pc.invert(is_marker))
    return stripped, is_present.to_numpy(zero_copy_only=False).copy()


# --- Names of units of privacy. ---


def normalized_names(cells: pa.Array, column: str) -> pa.Array:
    """Normalises names, so that each is written in one way, whatever its Arrow type.

    Args:
        cells: Text, integers, integral floats or bytes; NaN is null.
        column: Name of the column, for messages.

    Returns:
        Text without surrounding blanks, where integers are decimal and 1.0 is 1; or the
        bytes. Nulls stay.

    Raises:
        Problem: for a float that is no integer or above 2⁵³ in magnitude, or if the
            Arrow type may write one name in several ways.
    """
    names = cells.dictionary_decode() if pt.is_dictionary(cells.type) else cells
    arrow_type = names.type
    if pt.is_integer(arrow_type) or pt.is_null(arrow_type):
        return names.cast(pa.string())
    if pt.is_floating(arrow_type):
        return _names_from_floats(names, column)
    if is_text(arrow_type):
        trimmed = pc.utf8_trim(names.cast(pa.string()), characters=TEXT_PADDING)
        # As pandas writes integers where one is missing.
        return pc.replace_substring_regex(trimmed, r"^(-?[0-9]+)\.0+$", r"\1")
    if (
        pt.is_binary(arrow_type)
        or pt.is_large_binary(arrow_type)
        or pt.is_fixed_size_binary(arrow_type)
    ):
        return names.cast(pa.binary())
    raise Problem(
        None,
        f"column {column!r}: expected text or whole numbers that name the units, found "
        f"a column of {arrow_type}, where one unit may be written in several ways; "
        "convert the column",
    )


def _names_from_floats(floats: pa.Array, column: str) -> pa.Array:
    """Returns integral floats as decimal text, NaN as null; a Problem for others."""
    numbers = pc.if_else(pc.is_nan(floats), None, floats.cast(pa.float64()))
    is_fractional = pc.not_equal(pc.round(numbers), numbers)
    # Above 2⁵³, two integers may be the same float64.
    is_too_large = pc.greater(pc.abs(numbers), 2.0**53)
    is_bad = pc.or_(is_fractional, is_too_large).fill_null(False)
    if pc.any(is_bad).as_py():
        raise Problem(
            is_bad.index(True).as_py(),
            f"column {column!r}: expected text or whole numbers up to 2**53; write "
            "such names as text",
        )
    return numbers.cast(pa.int64()).cast(pa.string())


def join_names(names: Sequence[pa.Array]) -> pa.Array:
    """Joins names in several columns, so that different ones stay different.

    Args:
        names: The names in each column, text or bytes, all of one length.

    Returns:
        One name for each row: `1:a:2:bc` for "a" and "bc", where each part stands
        behind its length; null where any part is null. The names themselves for one
        column.
    """
    if len(names) == 1:
        return names[0]
    lengths = [pc.binary_length(column).cast(pa.string()) for column in names]
    parts = []
    for length, name in zip(lengths, names, strict=True):
        parts += [length.cast(pa.binary()), name.cast(pa.binary())]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))
