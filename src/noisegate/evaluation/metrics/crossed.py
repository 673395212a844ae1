"""How far two pairs of linked tables are apart in pairs of columns, one of each table or of two consecutive records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from noisegate.evaluation.metrics.marginals import Counts, OrderDistance, cell_counts, order_distance
from noisegate.evaluation.reading import ColumnLevels


class Crossed(NamedTuple):
    """Columns of records and, row for row, of others that belong to them: of parents and children, or of neighbours."""

    left: Mapping[str, ColumnLevels]
    right: Mapping[str, ColumnLevels]


def crossed_distances(synthetic: Crossed, real: Crossed) -> OrderDistance | None:
    """Measure the total variation distance of each pair of a left and a right column; None where a side has no rows.

    What chance alone does is told as if rows were independent; those of one parent are not, so it is a little more.

    Examples:
        >>> import numpy as np
        >>> from noisegate.evaluation.reading import ColumnLevels
        >>> from noisegate.evaluation.metrics.crossed import Crossed
        >>> same, other = (ColumnLevels(np.array(codes), 2) for codes in ([0, 0, 1, 1], [0, 1, 0, 1]))
        >>> crossed_distances(Crossed({"a": same}, {"b": same}), Crossed({"a": same}, {"b": other})).mean
        0.5
    """
    counted: dict[tuple[str, ...], Counts] = {
        (left, right): cell_counts(
            [_both(synthetic.left[left], real.left[left]), _both(synthetic.right[right], real.right[right])],
            len(synthetic.left[left].codes),
        )
        for left in real.left
        for right in real.right
    }
    rows = [counts.sum() for sides in counted.values() for counts in sides]
    return order_distance(counted) if rows and all(rows) else None


def _both(synthetic: ColumnLevels, real: ColumnLevels) -> tuple[np.ndarray, int]:
    return np.concatenate([synthetic.codes, real.codes]), real.size
