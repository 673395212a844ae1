"""Guarantee G-01: the sensitivity of a sum, found again by trying every vector inside a small ball."""

from itertools import product

import pytest

from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, GridBound

UNIT = 5


def ball(nonnegative):
    """Every integer vector of two coordinates with norm at most UNIT."""
    coordinates = range(0 if nonnegative else -UNIT, UNIT + 1)
    return [
        v for v in product(coordinates, repeat=2) if v[0] ** 2 + v[1] ** 2 <= UNIT**2
    ]


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_sensitivity_is_the_largest_difference_over_all_vectors_and_columns(
    adjacency, nonnegative
):
    # A record is a vector in one of two columns; the difference of two sums is what one record adds or changes.
    records = [(*v, 0, 0) for v in ball(nonnegative)] + [
        (0, 0, *v) for v in ball(nonnegative)
    ]
    others = [(0, 0, 0, 0)] if adjacency is Adjacency.ADD_REMOVE else records
    largest = max(
        sum((a - b) ** 2 for a, b in zip(v, w, strict=True))
        for v in records
        for w in others
    )
    assert (
        GridBound(units=UNIT, nonnegative=nonnegative).sensitivity_squared(adjacency)
        == largest
    )


@pytest.mark.parametrize(
    ("adjacency", "nonnegative", "squared"),
    [
        (Adjacency.ADD_REMOVE, False, UNITS**2),
        (Adjacency.ADD_REMOVE, True, UNITS**2),
        (Adjacency.REPLACE_ONE, False, 4 * UNITS**2),
        (Adjacency.REPLACE_ONE, True, 2 * UNITS**2),
    ],
)
def test_the_sensitivity_in_grid_units_is_rounded_up(adjacency, nonnegative, squared):
    bound = GridBound(units=UNITS, nonnegative=nonnegative)
    assert bound.sensitivity_squared(adjacency) == squared
    stated = bound.sensitivity(adjacency)
    assert isinstance(stated, int)
    assert (stated - 1) ** 2 < squared <= stated**2
