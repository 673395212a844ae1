"""Groups of columns: how many a method may go through, and which tables of them there are."""

from __future__ import annotations

import math
from itertools import combinations

from noisegate.errors import OptionError

MOST_GROUPS = 2_000_000
"""Most groups of columns that a method goes through: the pairs of 2,000 columns, gigabytes of counts at the gate."""
Tables = tuple[tuple[int, ...], ...]


def check_groups(columns: int, setting: str, instead: str, *, size: int = 2) -> None:
    """Finds a table too wide for going through all its pairs, or larger groups, of columns.

    Args:
        columns: How many there are.
        setting: What asks for all groups, for the message.
        instead: What may be given instead of it.
        size: Columns of a group.

    Raises:
        OptionError: if there are more than `MOST_GROUPS`.
    """
    number = math.comb(columns, size)
    if number > MOST_GROUPS:
        raise OptionError(
            f"{setting}: {columns:,} columns have {number:,} groups of {size}, and at most {MOST_GROUPS:,} are gone "
            f"through. Give {instead}, or put columns that are not needed under `ignore` in the schema."
        )


def tables_up_to(sizes: tuple[int, ...], *, degree: int, most_cells: float = math.inf) -> Tables:
    """Returns all tables of `degree` columns with more than one cell; where too large, their parts that are not.

    Examples:
        >>> from noisegate.features.column_groups import tables_up_to
        >>> tables_up_to((2, 3, 1), degree=2)
        ((0, 1),)
    """
    columns = [column for column, size in enumerate(sizes) if size > 1]
    tables: list[tuple[int, ...]] = []
    covered: set[tuple[int, ...]] = set()
    for count in range(min(degree, len(columns)), 0, -1):
        for table in combinations(columns, count):
            if table in covered or (count > 1 and math.prod(sizes[column] for column in table) > most_cells):
                continue
            tables.append(table)
            covered |= {part for n in range(1, count) for part in combinations(table, n)}
    return tuple(tables)
