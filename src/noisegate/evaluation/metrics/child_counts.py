"""How many children parents have."""

from __future__ import annotations

import numpy as np

from noisegate.evaluation.metrics.marginals import OrderDistance, order_distance


def count_distance(synthetic: np.ndarray, real: np.ndarray, *, most: int) -> OrderDistance:
    """Compare the numbers of children of the parents of two tables, each number a cell, ``most`` and more the last one.

    Examples:
        >>> import numpy as np
        >>> count_distance(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 7]), most=2).mean
        0.25
    """
    ours, theirs = (np.bincount(np.minimum(counts, most), minlength=most + 1) for counts in (synthetic, real))
    return order_distance({("number of children",): (ours, theirs)})
