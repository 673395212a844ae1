"""Rows of a public file that look like no records: units, second headers, totals.

They are remarked and not left out, as a fit reads the same file: they are to be removed
from the data.
"""

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.drafted import vocabulary
from noisegate.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.encode import strip_cells
from noisegate.schema.parsing import is_text, parse_floats

# In fewer records a word may stand in any column.
_MIN_RECORDS = 10
# So many rows at the end may hold totals.
_MAX_TOTAL_ROWS = 3
_MAX_SHOWN = 3


def remarks_on_records(cells_by_name: Mapping[str, pa.Array]) -> tuple[str, ...]:
    """Returns remarks on the first and last rows of a table, if they are no records.

    Args:
        cells_by_name: All cells of each column, (records,).

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.records import remarks_on_records
        >>> masses = pa.array(["kg", *map(str, range(40, 80))])
        >>> [remark] = remarks_on_records({"mass": masses})
        >>> remark[:66]
        "the first record holds 'kg' in mass, whose other values are number"
    """
    texts_by_name = {}
    for name, cells in cells_by_name.items():
        stripped, _ = strip_cells(cells, pa.array([], pa.string()))
        if is_text(stripped.type) and len(stripped) >= _MIN_RECORDS:
            texts_by_name[name] = stripped
    remarks = (_first_row_remark(texts_by_name), _last_rows_remark(texts_by_name))
    return tuple(remark for remark in remarks if remark is not None)


def _first_row_remark(texts_by_name: Mapping[str, pa.Array]) -> str | None:
    """Returns a remark on a first row of words above columns of numbers, or None.

    It is a record if there is a number in it.
    """
    words = []
    for name, texts in texts_by_name.items():
        first = texts[0].as_py()
        if first is None or first in DEFAULT_MISSING_VALUES:
            continue
        is_number = not parse_floats(pa.array([first])).is_bad[0]
        if is_number or first.lower() in vocabulary("missing_words"):
            return None
        others = texts[1:].drop_null().unique()
        is_marker = pc.is_in(others, value_set=pa.array(DEFAULT_MISSING_VALUES))
        others = others.filter(pc.invert(is_marker))
        are_numbers = len(others) > 0 and not parse_floats(others).is_bad.any()
        if are_numbers:
            words.append(f"{first!r} in {name}")
    if not words:
        return None
    return (
        f"the first record holds {', '.join(words[:_MAX_SHOWN])}, whose other values "
        "are numbers, as a row of units or a second header does; remove it from the "
        "data, since every fit would count it as a record"
    )


def _last_rows_remark(texts_by_name: Mapping[str, pa.Array]) -> str | None:
    """Returns a remark on last rows with a word for totals, or None.

    The word stands nowhere else in its column.
    """
    for name, texts in texts_by_name.items():
        first_last = len(texts) - _MAX_TOTAL_ROWS
        for row in range(first_last, len(texts)):
            text = texts[row].as_py()
            if text is None or not re.fullmatch(vocabulary("totals"), text):
                continue
            is_text_here = (
                pc.equal(texts, text).fill_null(False).to_numpy(zero_copy_only=False)
            )
            if np.flatnonzero(is_text_here)[0] >= first_last:
                return (
                    f"one of the last records holds {text!r} in {name}, as a row of "
                    "totals does; remove it from the data, since every fit would count "
                    "it as a record"
                )
    return None
