"""Random Fourier features are summed out of a quantised table: the same integers as `Grid.quantise` of every vector."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.shared.columns import categorical, continuous

from noisegate.gate.execution import made_up_records
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.grid import UNITS, Grid
from noisegate.schema import Schema
from noisegate_images.features.fourier import TABLE_ROWS, RandomFourier, draw

LAYOUT = Schema(
    (continuous("x", missing=True), continuous("z"), categorical("k", "abc", missing=True), categorical("y", "abc")),
    label="y",
).layout


def features(count=30):
    return draw(LAYOUT, count=count, length_scales=[(0.01, 0.5)] * 2, exclude_label=True, seed=2)


def task(norm=1.0, count=30, **changes):
    columns, label = changes.pop("columns", 3), changes.pop("label", 1)
    return SumTask(feature_map=features(count), grid=Grid(norm=norm, **changes), columns=columns, label=label)


def row_by_row(records, one):
    quantised = one.grid.quantise(one.feature_map(records)).astype(np.int64)
    if one.label is None:
        return quantised.sum(axis=0)[None]
    return np.stack([quantised[records.codes[:, one.label] == label].sum(axis=0) for label in range(one.columns)])


# A unit may fill a batch with records beyond its limit. Were a batch of which none is used an error, it would tell.
@pytest.mark.parametrize("rows", [0, 1, TABLE_ROWS - 1, TABLE_ROWS, 1000])
@pytest.mark.parametrize("changes", [{}, {"columns": 1, "label": None}, {"nonnegative": True}, {"count": 1}])
def test_looked_up_sums_are_those_of_quantised_vectors(rows, changes):
    one = task(**changes)
    assert one.exact is not None
    records = made_up_records(LAYOUT, rows, np.random.default_rng(0))
    assert np.array_equal(sum_records(records, {"f": one}).sums["f"], row_by_row(records, one))


def test_no_choice_of_angles_leaves_the_ball():
    for count in (1, 2, 7, 500):
        one = task(count=count)
        worst = np.square(one.grid.quantise(one.feature_map.pairs), dtype=np.int64).sum(axis=1).max()
        assert count * int(worst) == one.exact.squared_norm <= UNITS**2


@pytest.mark.parametrize("changes", [{"norm": 0.5}, {"norm": 0.999}, {"centre": (0.1,) * 60}])
def test_vectors_that_may_need_clipping_are_not_looked_up(changes):
    one = task(**changes)
    assert one.exact is None
    records = made_up_records(LAYOUT, 600, np.random.default_rng(0))
    assert np.array_equal(sum_records(records, {"f": one}).sums["f"], row_by_row(records, one))


def test_a_map_that_only_looks_like_it_is_not_looked_up():
    @dataclass(frozen=True, kw_only=True)
    class Doubled(RandomFourier):
        def __call__(self, records):
            return 2 * super().__call__(records)

    plain = features()
    fields = ("frequencies", "angles", "missing_angles", "members")
    doubled = Doubled(**{name: getattr(plain, name) for name in fields})
    one = replace(task(), feature_map=doubled)
    assert one.exact is None
    records = made_up_records(LAYOUT, 300, np.random.default_rng(0))
    found = sum_records(records, {"f": one}).sums["f"]
    assert np.array_equal(found, row_by_row(records, one))
    assert not np.array_equal(found, row_by_row(records, task()))
