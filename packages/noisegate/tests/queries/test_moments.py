"""Second moments: what a record adds, and what is read of the sums."""

import math

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.gate.gate import Gate
from noisegate.methods.pairwise import Pairwise
from noisegate.queries.moments import moments_of
from noisegate.schema import (
    EncodedTable,
    Schema,
)
from noisegate.testing import check_feature_map, made_up

SCHEMA = Schema(
    (
        integer("age", 0, 120, missing=True, atoms=(999,)),
        continuous("rate", -1.0, 3.0),
        integer("kids", 0, 3),
        categorical("work", "abc", missing=True),
        boolean("ill"),
    ),
    label="ill",
)
COLUMNS = (0, 1, 2, 3, 4)


def test_the_map_is_one_of_records_and_keeps_its_norm():
    check_feature_map(moments_of(SCHEMA.layout, COLUMNS), SCHEMA.layout)
    check_feature_map(
        moments_of(SCHEMA.layout, (1, 4), {1: (0.25, 0.5, 0.0)}), SCHEMA.layout
    )


def test_the_norm_is_reached_where_all_numbers_are_at_an_end_of_their_range():
    features = moments_of(SCHEMA.layout, COLUMNS)
    start = features.numeric[0].start
    stop = features.numeric[0].stop
    ends = EncodedTable(
        np.array([[start, 0, 1.0], [stop, 1, 0]]),
        np.array([[3, 0], [0, 1]], dtype=np.int32),
    )
    assert np.linalg.norm(features(ends).astype(float), axis=1) == pytest.approx(
        [1.0, 1.0], rel=1e-6
    )
    middle = EncodedTable(
        np.array([[np.nan, 0.5, 0.4]]), np.array([[3, 0]], dtype=np.int32)
    )
    assert np.linalg.norm(features(middle)) < 1


def test_a_missing_number_and_an_atom_outside_the_bounds_count_for_nothing():
    features = moments_of(SCHEMA.layout, (0,))
    table = EncodedTable(
        np.array([[np.nan, 0, 0], [1.0, 0, 0]]), np.zeros((2, 2), dtype=np.int32)
    )  # 1.0 is 999
    assert features.products(table).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]


def test_sums_of_products_are_those_of_numpy():
    features = moments_of(SCHEMA.layout, COLUMNS)
    records = made_up(SCHEMA.layout, 50)
    terms = features.terms_of(records).astype(float)
    left, right = features.entries
    assert features.products(records).sum(axis=0) == pytest.approx(
        (terms.T @ terms)[left, right], abs=1e-4
    )
    # No two entries are the same products, but for squares of what is 0 or 1, which are not asked for.
    assert (
        len(
            {
                tuple(sorted(pair))
                for pair in zip(left.tolist(), right.tolist(), strict=True)
            }
        )
        == features.dim
    )


def test_the_plan_asks_once_and_reads_back_what_it_asked():
    random = np.random.default_rng(0)
    age = random.integers(20, 40, 5000)
    frame = pd.DataFrame(
        {
            "age": age,
            "rate": random.random(5000),
            "kids": 1,
            "work": "a",
            "ill": age > 30,
        }
    )
    method = Pairwise(moments_share=0.4, moments=("ill", "age"))
    release = method.query(Gate(frame, schema=SCHEMA, epsilon=100.0))
    moments = method.measurements(release).moments
    feature_map = moments.feature_map
    sums = moments.values
    std = moments.variance[0] ** 0.5
    (entry,) = feature_map.numeric
    low, high = (
        entry.low * 121,
        entry.high * 121,
    )  # of steps, of which the atom is the last
    assert 0 <= low <= 20
    assert 39 <= high <= 121
    terms = np.clip((age - (low + high) / 2) * 2 / (high - low), -1, 1)
    assert sums[0] == pytest.approx(5000, abs=6 * std)
    assert sums[feature_map.entries[0].tolist().index(1)] == pytest.approx(
        float((terms**2).sum()), abs=6 * std + 30
    )
    assert release.certificate.check() <= 100.0
    assert math.isclose(std, release.noise_std["moments"] / feature_map.weight)
