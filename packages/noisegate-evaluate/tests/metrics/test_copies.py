"""Copies are found, and records that are as near to both sets are not taken for copies."""

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, continuous

from noisegate.schema import Schema
from noisegate_evaluate.metrics.copies import nearest_images, nearest_records

SCHEMA = Schema(
    (continuous("x", 0.0, 10.0, missing=True), continuous("y"), categorical("c", "abc"))
)


def rows(seed, count=600):
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "x": pa.array(draw.uniform(0, 10, count), mask=draw.random(count) < 0.1),
            "y": draw.random(count),
            "c": np.array(["a", "b", "c"])[draw.integers(0, 3, count)],
        }
    )


def test_new_records_are_as_near_to_both():
    found = nearest_records(rows(0), rows(1), rows(2), SCHEMA)
    # Six standard deviations of a share of 600.
    assert found.nearer == pytest.approx(0.5, abs=3 * found.chance)
    assert found.same == found.same_held_out == 0
    assert found.distance == pytest.approx(found.distance_held_out, rel=0.2)


def test_copies_stand_out_also_when_they_are_blurred():
    train = rows(1)
    copied = nearest_records(train, train, rows(2), SCHEMA)
    assert copied.nearer > 0.99
    assert copied.same == 1.0
    assert copied.distance == 0
    blurred = train.set_column(
        1, "y", pa.array(np.clip(train["y"].to_numpy() + 0.001, 0, 1))
    )
    near = nearest_records(blurred, train, rows(2), SCHEMA)
    assert near.nearer > 0.9
    assert near.same < 0.1


def test_the_distance_is_the_mean_over_columns_and_missing_differs_from_every_number():
    one = {"x": pa.array([None], pa.float64()), "y": [0.5], "c": ["a"]}
    synthetic = pa.table(one)
    train = pa.table({**one, "x": pa.array([3.0]), "y": [0.25]})
    test = pa.table({**one, "c": ["b"]})
    found = nearest_records(synthetic, train, test, SCHEMA)
    assert found.distance == pytest.approx((1 + 0.25) / 3)
    assert found.distance_held_out == pytest.approx(1 / 3)
    assert found.nearer == 0


def test_images_are_compared_by_their_pixels():
    draw = np.random.default_rng(0)
    train, test = (
        draw.integers(0, 256, (40, 4, 4, 1), dtype=np.uint8) for _ in range(2)
    )
    copied = nearest_images(train, train, test)
    assert copied.nearer == copied.same == 1.0
    assert copied.distance == 0
    white = np.full((1, 2, 2, 1), 255, np.uint8)
    black = np.zeros((1, 2, 2, 1), np.uint8)
    assert nearest_images(white, black, white).distance == pytest.approx(1.0)
