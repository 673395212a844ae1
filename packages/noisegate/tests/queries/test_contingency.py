"""Contingency tables: one cell of each table, the stated norm for every record, and counts that come back."""

import numpy as np
import pytest
from tests.shared.columns import boolean, continuous
from tests.shared.patience import at_most_calls

from noisegate.errors import OptionError
from noisegate.methods.registry import method_named
from noisegate.privacy.plan import Budget
from noisegate.queries.binning import NumericBins
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import Levels
from noisegate.schema import EncodedTable, Schema

BINS = (NumericBins((0.2, 0.5), True), NumericBins((0.3,)))
TABLES = ((), (0,), (1, 0), (0, 2, 3), (3, 2, 1, 0))


def tables(**changes):
    fields = {
        "bins": BINS,
        "coded": (3, 2),
        "tables": TABLES,
        "weights": (0.5, 1.0, 2.0, 0.25, 3.0),
    }
    return Contingency(**{**fields, **changes})


@pytest.fixture
def records():
    random = np.random.default_rng(0)
    numeric = random.uniform(-0.2, 1.2, size=(500, 2))
    numeric[random.uniform(size=500) < 0.2, 0] = np.nan
    codes = np.stack(
        [random.integers(0, 3, 500), random.integers(0, 2, 500)], axis=1
    ).astype(np.int32)
    return EncodedTable(numeric=numeric, codes=codes)


def test_a_record_has_one_cell_of_each_table_and_the_stated_norm(records):
    features = tables()
    vectors = features(records)
    assert vectors.dtype == np.float32
    assert (
        vectors.shape
        == (500, features.dim)
        == (
            500,
            1 + 4 + 8 + 24 + 48,
        )
    )
    for weight, start, end in zip(
        features.weights, features.starts, features.starts[1:], strict=False
    ):
        block = vectors[:, start:end]
        assert ((block != 0).sum(axis=1) == 1).all()
        assert (block.max(axis=1) == np.float32(weight)).all()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(features.norm, rel=1e-6)
    assert features.nonnegative


def test_counts_are_shaped_by_the_columns_of_each_table(records):
    features = tables()
    counts = features.counts(features(records).sum(axis=0, dtype=np.float64)[:, None])
    assert [count.shape for count in counts] == [
        (),
        (4,),
        (2, 4),
        (4, 3, 2),
        (2, 3, 2, 4),
    ]
    assert all(count.sum() == pytest.approx(500) for count in counts)
    codes = features.codes(records)
    for count, table in zip(counts, TABLES, strict=True):
        expected = np.zeros(count.shape)
        for row in codes:
            expected[tuple(row[list(table)])] += 1
        assert count == pytest.approx(expected)


WIDE = Schema(
    (
        *(boolean(f"b{index}") for index in range(20_000)),
        continuous("x", 0, 1),
    )
)
BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("name", ["pairwise", "dp-merf", "dp-hp", "aim", "mst"])
def test_twenty_thousand_columns_are_refused_in_seconds(name):
    refusal = r"20,001 columns have [0-9,]+ groups of [23], and at most 2,000,000"
    with at_most_calls(1_000_000), pytest.raises(OptionError, match=refusal):
        method_named(name)().plan(WIDE, BUDGET)


def test_what_the_refusal_proposes_is_planned_in_seconds():
    with at_most_calls(3_000_000):
        assert method_named("pairwise")(pairs="none").plan(WIDE, BUDGET).releases


# Every value has exactly one cell, whatever it is, and only that value decides.


def test_a_value_on_a_cut_belongs_to_the_interval_above():
    bins = NumericBins((0.25, 0.5))
    values = np.array([0.0, np.nextafter(0.25, 0), 0.25, 0.4999, 0.5, 1.0])
    assert bins.codes(values).tolist() == [0, 0, 1, 1, 2, 2]
    assert bins.codes(values).dtype == np.int32


@pytest.mark.parametrize(("nullable", "size"), [(False, 3), (True, 4)])
def test_missing_values_go_to_the_last_cell(nullable, size):
    bins = NumericBins((0.25, 0.5), nullable)
    assert bins.size == size
    assert bins.codes(np.array([np.nan, 0.1, np.nan])).tolist() == [
        size - 1,
        0,
        size - 1,
    ]


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("cuts", [(), (0.5,), (0.001, 0.999)])
def test_no_value_falls_outside_all_cells(cuts, nullable):
    bins = NumericBins(cuts, nullable)
    values = np.array([-np.inf, -1e300, -1.0, -0.0, 0.3, 1.0, 2.0, np.inf, np.nan])
    codes = bins.codes(values)
    assert codes.min() >= 0
    assert codes.max() <= bins.size - 1
    # Beyond the bounds is in the outermost interval, never in the cell for missing values.
    assert codes[:3].tolist() == [0, 0, 0]
    assert set(codes[5:8].tolist()) == {len(cuts)}


@pytest.mark.parametrize(
    "cuts",
    [
        (0.0,),
        (1.0,),
        (-0.1, 0.5),
        (0.5, 1.1),
        (0.5, 0.5),
        (0.6, 0.5),
        (float("nan"),),
        (0.1, float("nan"), 0.5),
    ],
)
def test_cuts_out_of_order_are_refused(cuts):
    with pytest.raises(OptionError, match="strictly increasing"):
        NumericBins(cuts)


@pytest.mark.parametrize(
    "cuts",
    [
        (),
        np.arange(1, 20) / 20,
        (np.arange(1023) + 0.5) / 1023,
        (0.25, np.nextafter(0.25, 1), 0.5, 0.5 + 2**-40, np.nextafter(1.0, 0)),
        (
            5e-324,
            1e-300,
            *(np.arange(1, 9) * 1e-7),
            0.7,
        ),  # so many in one part of [0, 1] that they are searched for
    ],
)
def test_a_value_is_looked_up_where_a_search_among_the_cuts_finds_it(cuts):
    bins, random = (
        NumericBins(tuple(np.asarray(cuts).tolist())),
        np.random.default_rng(1),
    )
    ends = np.array(
        [*cuts, *(np.arange(2049) / 2048), -1.0, -0.0, 2.0, -np.inf, np.inf]
    )
    values = np.concatenate(
        [
            ends,
            np.nextafter(ends, 9),
            np.nextafter(ends, -9),
            random.uniform(size=999),
            [np.nan],
        ]
    )
    for order in (values, np.repeat(values[:, None], 3, axis=1)[:, 1]):
        assert (
            bins.codes(order).tolist()
            == np.searchsorted(np.asarray(cuts), order, side="right").tolist()
        )


# One-hot codes whose block has norm 1, exactly bounded.


def coded(codes):
    return EncodedTable(
        numeric=np.zeros((len(codes), 0)), codes=np.array(codes, np.int32)
    )


def test_each_column_has_its_own_block_of_levels():
    levels = Levels(columns=(0, 2), sizes=(3, 2))
    blocks = levels(coded([[0, 9, 1], [2, 9, 0], [1, 9, 1]]))
    hot = np.float32(2**-0.5)
    expected = np.array([[1, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]) * hot
    assert levels.dim == 5
    assert blocks.dtype == np.float32
    assert blocks.tolist() == expected.tolist()


def test_one_level_in_each_column_counts_records_with_the_least_noise():
    levels = Levels(columns=(0, 1, 2), sizes=(2, 5, 3))
    every = levels(
        coded([[a, b, c] for a in range(2) for b in range(5) for c in range(3)])
    ).astype(float)
    assert every @ levels.count_functional == pytest.approx(np.ones(30), abs=1e-6)
    # Of all vectors with these inner products, the one that least squares gives is the shortest.
    assert levels.count_functional == pytest.approx(
        np.linalg.lstsq(every, np.ones(30), rcond=None)[0], abs=1e-6
    )
