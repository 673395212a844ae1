"""The text "NA" among codes of countries or continents, where it is no missing value.

In a column of DE, FR and ZA it is Namibia, and among AF, EU and OC North America.
"""

import pyarrow as pa

from noisegate.app.drafts.drafted import vocabulary
from noisegate.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.encode import strip_cells
from noisegate.schema.parsing import is_text

NA = "NA"
"""Read as missing, where nothing speaks against it."""

# Fewer other codes may be any words of two letters.
_MIN_OTHER_CODES = 3


def holds_na(cells: pa.Array) -> bool:
    """Returns whether cells are codes of countries or of continents, "NA" among them.

    Args:
        cells: All cells of a column, (records,).

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.app.drafts.namibia import holds_na
        >>> holds_na(pa.array(["NA", "DE", "ZA", "BW"]))
        True
        >>> holds_na(pa.array(["NA", "CA", "NY", "TX"]))  # states of the USA
        False
    """
    markers = pa.array([marker for marker in DEFAULT_MISSING_VALUES if marker != NA])
    stripped, is_present = strip_cells(cells, markers)
    if not is_text(stripped.type):
        return False
    codes = set(stripped.filter(pa.array(is_present)).unique().to_pylist())
    are_enough = NA in codes and len(codes) > _MIN_OTHER_CODES
    return are_enough and any(
        codes <= set(vocabulary(name).split()) for name in ("countries", "continents")
    )


def na_comment(*, is_level: bool) -> str:
    """Returns the comment on a column for which `holds_na` holds.

    Args:
        is_level: Whether "NA" is a level, and not read as missing.
    """
    if is_level:
        return (
            "levels: 'NA' is the code of Namibia or North America here, and so stands "
            "not among missing_values"
        )
    return (
        "missing: 'NA' is read as missing, since other columns have it too, but is the "
        "code of Namibia or North America here; leave cells of the others empty in the "
        "data, and take it out of missing_values"
    )
