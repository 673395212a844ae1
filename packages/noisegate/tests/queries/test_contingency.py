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
