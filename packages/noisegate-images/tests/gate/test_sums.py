"""Guarantee G-07: the sum is the exact integer sum, for any number of rows, and cannot overflow."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.shared.columns import categorical, continuous

from noisegate.errors import DataError
from noisegate.gate.execution import BLOCK_ROWS, made_up_records
from noisegate.gate.sums import SumTask, Totals, add_records, sum_records
from noisegate.privacy.accounting import MAXIMUM_STD
from noisegate.privacy.events import Sampler
from noisegate.privacy.grid import BLOCK_LIMIT, RECORD_LIMIT, UNITS, Grid
from noisegate.privacy.noise import add_noise
from noisegate.schema import EncodedTable, Schema
from noisegate_images.queries.fourier import TABLE_ROWS, RandomFourier, draw

SIZES = [1, 2, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 5]


def by_hand(records, task):
    """The sum in Python integers, one record at a time."""
    sums = [[0] * task.feature_map.dim for _ in range(task.columns)]
    for i in range(len(records)):
        vector = task.grid.quantise(task.feature_map(records.rows([i])))[0]
        column = 0 if task.label is None else int(records.codes[i, task.label])
        sums[column] = [
            total + int(x) for total, x in zip(sums[column], vector, strict=True)
        ]
    return sums


@pytest.mark.parametrize("label", [None, 1])
@pytest.mark.parametrize("rows", SIZES)
def test_the_sum_is_exact_and_padding_counts_for_nothing(
    rows, label, chosen, encoded, lookup_schema
):
    vectors = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    task = SumTask(
        feature_map=chosen(vectors),
        grid=Grid(norm=2.0),
        columns=1 if label is None else 2,
        label=label,
    )
    records = encoded(lookup_schema(9).layout, rows, seed=rows)
    totals = sum_records(records, {"q": task})
    assert totals.records == rows
    assert totals.sums["q"].tolist() == by_hand(records, task)


def test_each_label_has_its_own_column(chosen, lookup_schema):
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    task = SumTask(feature_map=chosen(vectors), grid=Grid(norm=1.0), columns=2, label=1)
    codes = np.array([(0, 0)] * 300 + [(1, 1)] * 50 + [(0, 1)] * 7, np.int32)
    unit = int(task.grid.quantise(vectors)[0, 0])
    sums = sum_records(
        EncodedTable(numeric=np.zeros((357, 0)), codes=codes), {"q": task}
    ).sums["q"]
    assert sums.tolist() == [[300 * unit, 0], [7 * unit, 50 * unit]]


def test_a_label_that_never_occurs_has_the_sum_zero(chosen):
    task = SumTask(
        feature_map=chosen(np.ones((1, 3), np.float32)),
        grid=Grid(norm=2.0),
        columns=4,
        label=1,
    )
    records = EncodedTable(
        numeric=np.zeros((2, 0)), codes=np.array([(0, 2), (0, 2)], np.int32)
    )
    sums = sum_records(records, {"q": task}).sums["q"]
    assert sums[[0, 1, 3]].tolist() == [[0, 0, 0]] * 3
    assert (sums[2] > 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_block_of_the_largest_vectors_fits_its_integers(sign, chosen):
    # With norm 1 a unit vector takes all units but the headroom; every record of the block has the same.
    task = SumTask(
        feature_map=chosen(np.array([[sign]], np.float32)),
        grid=Grid(norm=1.0),
        columns=1,
        label=None,
    )
    rows = 5 * BLOCK_ROWS
    records = EncodedTable(
        numeric=np.zeros((rows, 0)), codes=np.zeros((rows, 1), np.int32)
    )
    single = int(task.grid.quantise(np.array([[sign]], np.float32))[0, 0])
    assert abs(single) > 0.998 * UNITS
    assert sum_records(records, {"q": task}).sums["q"].tolist() == [[rows * single]]
    assert BLOCK_ROWS * UNITS <= BLOCK_LIMIT * UNITS < 2**31


def test_merging_adds_sums_and_records(chosen, encoded, lookup_schema):
    task = SumTask(
        feature_map=chosen(np.eye(4, dtype=np.float32)),
        grid=Grid(norm=1.0),
        columns=2,
        label=1,
    )
    records = encoded(lookup_schema(4).layout, 500)
    totals = Totals({"q": task})
    for start in range(0, 500, 130):
        totals.merge(sum_records(records.rows(slice(start, start + 130)), {"q": task}))
    whole = sum_records(records, {"q": task})
    assert (totals.records, totals.sums["q"].tolist()) == (
        500,
        whole.sums["q"].tolist(),
    )


def test_more_records_than_64_bits_hold_are_refused(chosen):
    task = SumTask(
        feature_map=chosen(np.eye(1, dtype=np.float32)),
        grid=Grid(norm=1.0),
        columns=1,
        label=None,
    )
    totals, other = Totals({"q": task}), Totals({"q": task})
    totals.records, other.records = RECORD_LIMIT - 1, 1
    totals.merge(other)
    with pytest.raises(DataError, match="64 bits"):
        totals.merge(other)


@pytest.mark.parametrize(
    "sampler", [Sampler.DISCRETE_GAUSSIAN, Sampler.CONVOLVED_GAUSSIAN]
)  # all that one draws
@pytest.mark.parametrize("sign", [1, -1])
def test_the_last_record_that_is_taken_and_the_most_noise_fit_into_64_bits(
    sampler, sign, chosen, encoded, lookup_schema
):
    task = SumTask(
        feature_map=chosen(np.float32([[sign]])),
        grid=Grid(norm=1.0),
        columns=1,
        label=None,
    )
    record, totals = encoded(lookup_schema(1).layout, 1), Totals({"q": task})
    totals.records, totals.sums["q"][:] = (
        RECORD_LIMIT - 1,
        sign * (RECORD_LIMIT - 1) * UNITS,
    )
    add_records(totals, record, {"q": task})
    last = int(sum_records(record, {"q": task}).sums["q"][0, 0])
    assert totals.sums["q"].tolist() == [[sign * (RECORD_LIMIT - 1) * UNITS + last]]
    noisy = add_noise(
        np.repeat(totals.sums["q"], 1000), noise_std=MAXIMUM_STD, sampler=sampler
    )
    assert (np.sign(noisy) == sign).all()
    with pytest.raises(DataError, match="64 bits"):
        add_records(totals, record, {"q": task})
    assert totals.sums["q"].tolist() == [[sign * (RECORD_LIMIT - 1) * UNITS + last]]


def test_the_table_is_used_when_no_vector_needs_clipping_and_only_then(mixed_schema):
    layout = mixed_schema.layout
    features = draw(
        layout, count=30, length_scales=[(0.1, 0.5)] * 3, exclude_label=True, seed=0
    )

    class Longer(RandomFourier):
        def __call__(self, records):
            return 3 * super().__call__(records)

    names = ("frequencies", "angles", "missing_angles", "members")
    longer = Longer(**{name: getattr(features, name) for name in names})
    used = {
        "as planned": (features, Grid(norm=1.0)),
        "too long": (features, Grid(norm=0.9)),
        "centred": (features, Grid(norm=1.0, centre=(0.0,) * 60)),
        "another map": (longer, Grid(norm=1.0)),
    }
    tables = {
        name: SumTask(
            feature_map=feature_map, grid=grid, columns=1, label=None
        ).exact_sum
        is not None
        for name, (feature_map, grid) in used.items()
    }
    assert tables == {
        "as planned": True,
        "too long": False,
        "centred": False,
        "another map": False,
    }


# Random Fourier features are summed out of a quantised table: the same integers as `Grid.quantise` of every vector.

LAYOUT = Schema(
    (
        continuous("x", missing=True),
        continuous("z"),
        categorical("k", "abc", missing=True),
        categorical("y", "abc"),
    ),
    label="y",
).layout


def features(count=30):
    return draw(
        LAYOUT, count=count, length_scales=[(0.01, 0.5)] * 2, exclude_label=True, seed=2
    )


def task(norm=1.0, count=30, **changes):
    columns, label = changes.pop("columns", 3), changes.pop("label", 1)
    return SumTask(
        feature_map=features(count),
        grid=Grid(norm=norm, **changes),
        columns=columns,
        label=label,
    )


def row_by_row(records, one):
    quantised = one.grid.quantise(one.feature_map(records)).astype(np.int64)
    if one.label is None:
        return quantised.sum(axis=0)[None]
    return np.stack(
        [
            quantised[records.codes[:, one.label] == label].sum(axis=0)
            for label in range(one.columns)
        ]
    )


# A unit may fill a batch with records beyond its limit. Were a batch of which none is used an error, it would tell.
@pytest.mark.parametrize("rows", [0, 1, TABLE_ROWS - 1, TABLE_ROWS, 1000])
@pytest.mark.parametrize(
    "changes", [{}, {"columns": 1, "label": None}, {"nonnegative": True}, {"count": 1}]
)
def test_looked_up_sums_are_those_of_quantised_vectors(rows, changes):
    one = task(**changes)
    assert one.exact_sum is not None
    records = made_up_records(LAYOUT, rows, np.random.default_rng(0))
    assert np.array_equal(
        sum_records(records, {"f": one}).sums["f"], row_by_row(records, one)
    )


def test_no_choice_of_angles_leaves_the_ball():
    for count in (1, 2, 7, 500):
        one = task(count=count)
        worst = (
            np.square(one.grid.quantise(one.feature_map.pairs), dtype=np.int64)
            .sum(axis=1)
            .max()
        )
        assert count * int(worst) == one.exact_sum.squared_norm <= UNITS**2


@pytest.mark.parametrize(
    "changes", [{"norm": 0.5}, {"norm": 0.999}, {"centre": (0.1,) * 60}]
)
def test_vectors_that_may_need_clipping_are_not_looked_up(changes):
    one = task(**changes)
    assert one.exact_sum is None
    records = made_up_records(LAYOUT, 600, np.random.default_rng(0))
    assert np.array_equal(
        sum_records(records, {"f": one}).sums["f"], row_by_row(records, one)
    )


def test_a_map_that_only_looks_like_it_is_not_looked_up():
    @dataclass(frozen=True, kw_only=True)
    class Doubled(RandomFourier):
        def __call__(self, records):
            return 2 * super().__call__(records)

    plain = features()
    fields = ("frequencies", "angles", "missing_angles", "members")
    doubled = Doubled(**{name: getattr(plain, name) for name in fields})
    one = replace(task(), feature_map=doubled)
    assert one.exact_sum is None
    records = made_up_records(LAYOUT, 300, np.random.default_rng(0))
    found = sum_records(records, {"f": one}).sums["f"]
    assert np.array_equal(found, row_by_row(records, one))
    assert not np.array_equal(found, row_by_row(records, task()))
