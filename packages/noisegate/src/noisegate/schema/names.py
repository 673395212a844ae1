"""Names of records and of units, from one cell or several: functions of these cells alone."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.schema.columns import Problem
from noisegate.schema.encode import is_text
from noisegate.schema.values import TEXT_PADDING


def names_of(cells: pa.Array, column: str) -> pa.Array:
    """Returns names as text (whole numbers in decimal, 1.0 as 1, no surrounding blanks) or bytes; a Problem if none."""
    if pt.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = cells.type
    if pt.is_integer(kind) or pt.is_null(kind):
        return cells.cast(pa.string())
    if pt.is_floating(kind):
        cells = pc.if_else(pc.is_nan(cells), None, cells.cast(pa.float64()))
        bad = pc.or_(pc.not_equal(pc.round(cells), cells), pc.greater(pc.abs(cells), 2.0**53)).fill_null(False)
        if pc.any(bad).as_py():
            says = f"column {column!r}: expected text or whole numbers up to 2**53; write such names as text"
            raise Problem(bad.index(True).as_py(), says)
        return cells.cast(pa.int64()).cast(pa.string())
    if is_text(kind):
        trimmed = pc.utf8_trim(cells.cast(pa.string()), characters=TEXT_PADDING)
        return pc.replace_substring_regex(trimmed, r"^(-?[0-9]+)\.0+$", r"\1")  # as pandas writes where one is missing
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return cells.cast(pa.binary())
    raise Problem(
        None,
        f"column {column!r}: expected text or whole numbers that name the units, found a column of {kind}, where one "
        "unit may be written in several ways; convert the column",
    )


def joined_names(names: Sequence[pa.Array]) -> pa.Array:
    """Returns one name for those in several columns, each behind its length, so that no two have one; null for null."""
    if len(names) == 1:
        return names[0]
    lengths = [pc.binary_length(one).cast(pa.string()) for one in names]
    texts = [text.cast(pa.binary()) for pair in zip(lengths, names, strict=True) for text in pair]
    return pc.binary_join_element_wise(*texts, pa.scalar(b":", pa.binary()))
