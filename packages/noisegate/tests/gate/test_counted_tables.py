"""Guarantee G-12: counted tables are the sums of quantised vectors, and a record moves them by what is stated."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.shared.sums import squared

from noisegate import Adjacency
from noisegate.errors import OptionError
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.grid import UNITS, Grid
from noisegate.queries.binning import NumericBins
from noisegate.queries.contingency import MIN_WEIGHT, Contingency
from noisegate.schema import EncodedTable

SIZES = (3, 2)
TABLES = ((), (0,), (0, 1), (0, 2), (0, 2, 3), (3, 2, 1, 0))
WEIGHTS = (0.3, 1.0, 2.0, 0.7, 1.1, 0.01)


def counting_task(tables=TABLES, weights=WEIGHTS, norm=None):
    bins = (NumericBins((0.2, 0.5), True), NumericBins((0.3,)))
    features = Contingency(bins=bins, coded=SIZES, tables=tables, weights=weights)
    grid = Grid(norm=features.norm if norm is None else norm, nonnegative=True)
    return SumTask(feature_map=features, grid=grid, columns=1, label=None)


def records(rows, seed=0):
    random = np.random.default_rng(seed)
    numeric = random.uniform(-0.3, 1.3, size=(rows, 2))
    numeric[random.uniform(size=rows) < 0.3, 0] = np.nan
    codes = np.stack([random.integers(0, size, rows) for size in SIZES], axis=1)
    return EncodedTable(numeric=numeric, codes=codes.astype(np.int32))


STRANGE = EncodedTable(
    numeric=np.array(
        [[np.nan, np.nan], [-np.inf, np.inf], [0.2, 0.3], [-0.0, 1e300], [0.5, 1.0]]
    ),
    codes=np.array([[2, 1], [0, 0], [2, 0], [1, 1], [0, 1]], dtype=np.int32),
)


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize("norm", [None, 3.0, 30.0])
def test_counts_are_the_sums_of_quantised_vectors(rows, norm):
    task = counting_task(norm=norm)
    table = EncodedTable.concatenate([records(rows), STRANGE])
    assert task.exact_sum is not None
    quantised = task.grid.quantise(task.feature_map(table)).astype(np.int64)
    assert np.array_equal(
        sum_records(table, {"q": task}).sums["q"], quantised.sum(axis=0)[None]
    )


def test_adding_or_removing_a_record_moves_the_sum_by_the_bound():
    task = counting_task()
    rest = records(50)
    before = sum_records(rest, {"q": task}).sums["q"]
    bound = task.grid.bound.sensitivity_squared(Adjacency.ADD_REMOVE)
    for i in range(len(STRANGE)):
        after = sum_records(
            EncodedTable.concatenate([rest, STRANGE.rows([i])]), {"q": task}
        ).sums["q"]
        assert 0.99 * bound < squared(before - after) <= bound
    for i in range(50):
        after = sum_records(
            rest.rows([j for j in range(50) if j != i]), {"q": task}
        ).sums["q"]
        assert 0.99 * bound < squared(before - after) <= bound


def test_replacing_a_record_moves_the_sum_by_at_most_the_bound_and_meets_it_without_a_common_cell():
    task = counting_task(
        TABLES[1:], WEIGHTS[1:]
    )  # the number of records is common to all
    bound = task.grid.bound.sensitivity_squared(Adjacency.REPLACE_ONE)
    every = EncodedTable.concatenate([records(40), STRANGE])
    sums = [
        sum_records(every.rows([i]), {"q": task}).sums["q"] for i in range(len(every))
    ]
    squares = [squared(left - right) for left in sums for right in sums]
    assert 0.99 * bound < max(squares) <= bound == 2 * UNITS**2


@pytest.mark.parametrize("count", [1, 2, 7, 3000])
def test_the_weights_of_a_record_stay_inside_the_ball(count):
    random = np.random.default_rng(count)
    for _ in range(20):
        task = counting_task(
            ((0,),) * count, tuple(random.uniform(0.5, 2.0, count).tolist())
        )
        squares = task.exact_sum.squared_norm
        assert 0.99 * UNITS**2 < squares <= UNITS**2


@pytest.mark.parametrize("factor", [0.998, 0.5, 1e-3, 1e-300])
@pytest.mark.parametrize("count", [1, 4])
def test_vectors_longer_than_planned_are_refused(factor, count):
    task = counting_task(((0,),) * count, (1.0,) * count, norm=factor * count**0.5)
    with pytest.raises(OptionError, match="planned with norm"):
        _ = task.exact_sum


def test_a_weight_that_the_grid_would_swallow_is_refused():
    scale = Grid(norm=1.0).scale
    fine = counting_task(((), (0,)), (1.0, (MIN_WEIGHT + 1) / scale), norm=1.0005)
    assert fine.feature_map.integer_weights(fine.grid)[1] == MIN_WEIGHT
    with pytest.raises(OptionError, match=r"table \(0,\): its weight"):
        _ = counting_task(
            ((), (0,)), (1.0, (MIN_WEIGHT - 1) / scale), norm=1.0005
        ).exact_sum


def test_a_code_that_no_column_has_is_never_counted_in_another_table():
    table = records(20)
    table.codes[3] = SIZES[0] - 1, SIZES[1]
    with pytest.raises(ValueError, match="broadcast"):
        sum_records(table, {"q": counting_task(((2, 3), (0,)), (1.0, 1.0))})


def test_a_map_that_only_looks_like_it_is_not_counted():
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Doubled(Contingency):
        def __call__(self, records):
            return 2 * super().__call__(records)

    plain = counting_task(TABLES[:2], WEIGHTS[:2])
    doubled = Doubled(
        **{
            name: getattr(plain.feature_map, name)
            for name in ("bins", "coded", "tables", "weights")
        }
    )
    task = replace(plain, feature_map=doubled)
    assert task.exact_sum is None
    table = records(30)
    quantised = task.grid.quantise(doubled(table)).astype(np.int64)
    assert np.array_equal(
        sum_records(table, {"q": task}).sums["q"][0], quantised.sum(axis=0)
    )
