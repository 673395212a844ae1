"""How many different values the children of one parent have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noisegate.evaluation.metrics.marginals import Counts, OrderDistance, order_distance
from noisegate.evaluation.reading import ColumnLevels

_MOST = 10


def distinct_distance(
    synthetic: Mapping[str, ColumnLevels],
    real: Mapping[str, ColumnLevels],
    *,
    parents: tuple[np.ndarray, np.ndarray],
) -> OrderDistance | None:
    """Compare how many different cells of each column occur among the children of a parent, 10 and more as one number.

    Parents with fewer than two children say nothing of it and are left aside. Where children are drawn one by one their
    sequences change too often, and where one is copied too seldom.

    Args:
        synthetic: columns of the synthetic children.
        real: columns of the real ones.
        parents: of synthetic and of real children, whose each is, int64.

    Returns:
        The distance for each column; None where no parent has two children.

    Examples:
        >>> import numpy as np
        >>> from noisegate.evaluation.reading import ColumnLevels
        >>> steady, changing = ColumnLevels(np.array([0, 0, 1, 1]), 2), ColumnLevels(np.array([0, 1, 0, 1]), 2)
        >>> whose = np.array([0, 0, 1, 1])
        >>> distinct_distance({"a": steady}, {"a": changing}, parents=(whose, whose)).mean
        1.0
    """
    counted: dict[tuple[str, ...], Counts] = {
        (name,): (_numbers(synthetic[name], parents[0]), _numbers(column, parents[1])) for name, column in real.items()
    }
    rows = [counts.sum() for sides in counted.values() for counts in sides]
    return order_distance(counted) if rows and all(rows) else None


def _numbers(column: ColumnLevels, parent: np.ndarray) -> np.ndarray:
    """How many parents of two children or more have each number of different values, (11,)."""
    values = np.unique(parent * column.size + column.codes) // column.size
    several = np.bincount(parent) > 1
    different = np.bincount(values, minlength=len(several))[several]
    return np.bincount(np.minimum(different, _MOST), minlength=_MOST + 1)
