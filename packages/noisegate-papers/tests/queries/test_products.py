import math

import numpy as np
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous, integer
from tests.shared.sums import squared

from noisegate.errors import OptionError
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, Grid
from noisegate.records import Rows
from noisegate.schema import EncodedTable, Schema, pixel_schema
from noisegate.schema.layout import numeric_cells
from noisegate.schema.pixels import ImageShape
from noisegate.testing import made_up
from noisegate_papers.queries.hermite import Series, column_tables, numeric_table
from noisegate_papers.queries.products import Products
from noisegate_papers.queries.tangent import (
    WEIGHT_STEPS,
    NeuralTangent,
    draw_network,
    draw_pairs,
)
from noisegate_papers.queries.thumbnails import Thumbnails

SERIES = Series(length_scale=0.1, order=5, stretch=3.0)
SCHEMA = Schema(
    (
        continuous("x", missing=True),
        integer("n", 0, 7),
        categorical("c", "abc", missing=True),
        boolean("y"),
    ),
    label="y",
)


def made(rows, seed=0):
    random = np.random.default_rng(seed)
    numeric = np.stack(
        [random.uniform(size=rows), random.integers(0, 8, rows) / 7], axis=1
    )
    numeric[random.uniform(size=rows) < 0.2, 0] = np.nan
    codes = np.stack([random.integers(0, 4, rows), random.integers(0, 2, rows)], axis=1)
    return EncodedTable(numeric, codes.astype(np.int32))


def features(groups, weights=None):
    tables = column_tables(SCHEMA.layout, [SERIES, SERIES])
    return Products(
        tables=tables,
        groups=tuple(groups),
        weights=tuple(weights or [0.3] * len(groups)),
    )


def test_a_vector_is_the_weighted_outer_product_of_the_looked_up_rows():
    groups = [(1,), (0, 2), (0,), (0, 1, 2), (1, 2)]
    weights = [0.1, 0.2, 0.3, 0.4, 0.5]
    found, records = features(groups, weights), made(40)
    vectors, places = found(records), found.places(records)
    for group, weight, start, end in zip(
        groups, weights, found.starts, found.starts[1:], strict=False
    ):
        for row in range(len(records)):
            expected = np.ones(1)
            for column in group:
                expected = np.outer(
                    expected, found.tables[column].rows[places[row, column]]
                ).ravel()
            assert vectors[row, start:end] == pytest.approx(weight * expected, abs=1e-6)


def test_a_numeric_column_looks_up_its_hermite_features_and_a_missing_one_its_own_coordinate():
    table = numeric_table(SERIES, 4096, missing=True)
    assert table.rows[1024, :-1] == pytest.approx(SERIES(0.25), abs=1e-6)
    assert (table.rows[:-1, -1] == 0).all()
    assert (table.rows[-1, :-1] == 0).all()
    assert table.rows[-1, -1] ** 2 == pytest.approx(table.squared_supremum, rel=1e-5)
    found = features([(0,)])
    assert (
        found.places(made(200))[np.isnan(made(200).numeric[:, 0]), 0].tolist()
        == [4097] * np.isnan(made(200).numeric[:, 0]).sum()
    )


def test_a_reference_is_subtracted_so_that_a_column_there_adds_nothing():
    table = numeric_table(SERIES, 100, missing=False, reference=0.0)
    assert np.abs(table.rows[0]).max() == 0
    assert table.rows[40] == pytest.approx(SERIES(0.4) - SERIES(0.0), abs=1e-6)


@pytest.mark.parametrize(
    "groups", [[(0,), (1,), (2,)], [(0, 1)], [(0, 1), (1, 2), (0, 2)], [(0, 1, 2)]]
)
def test_the_norm_is_the_truncated_supremum_and_no_record_exceeds_it(groups):
    """G-22. Two-sided: a bound that a record exceeds is wrong, and so is one that the longest record does not reach."""
    weights = np.random.default_rng(1).uniform(0.2, 1, len(groups)).tolist()
    found = features(groups, weights)
    corners = [
        EncodedTable(np.asarray([[x, n]]), np.asarray([[c, 0]], dtype=np.int32))
        for x in np.append(np.linspace(0, 1, 257), np.nan)
        for n in np.arange(8) / 7
        for c in (0, 3)
    ]
    norms = np.linalg.norm(
        found(EncodedTable.concatenate(corners)).astype(np.float64), axis=1
    )
    assert norms.max() <= found.norm <= norms.max() * 1.001
    untruncated = math.sqrt(sum(weight**2 for weight in weights))
    if (0, 1, 2) in groups or (0, 1) in groups:
        assert found.norm < untruncated * 0.999


class Slow(Products):
    """The same map, which the gate does not know, so that it quantises every vector."""


@pytest.mark.parametrize("label", [None, 1])
def test_counted_occurrences_are_the_integers_of_quantised_vectors(label):
    """G-23."""
    quick = features([(0,), (2,), (1,)], [0.5, 0.2, 0.7])
    slow = Slow(tables=quick.tables, groups=quick.groups, weights=quick.weights)
    records, grid = made(1000), Grid(norm=quick.norm)
    sums = [
        sum_records(
            records,
            {
                "q": SumTask(
                    feature_map=f, grid=grid, columns=2 if label else 1, label=label
                )
            },
        ).sums["q"]
        for f in (quick, slow)
    ]
    assert (
        SumTask(feature_map=quick, grid=grid, columns=1, label=None).exact_sum
        is not None
    )
    assert (sums[0] == sums[1]).all()
    assert np.abs(sums[0]).max() > 0


def test_one_record_stays_in_the_ball_and_a_map_that_might_leave_it_is_not_counted():
    found = features([(0,), (1,), (2,)], [0.5, 0.2, 0.7])
    grid = Grid(norm=found.norm)
    task = SumTask(feature_map=found, grid=grid, columns=1, label=None)
    short = SumTask(
        feature_map=found, grid=Grid(norm=found.norm / 2), columns=1, label=None
    )
    assert short.exact_sum is None
    for row in range(50):
        sums = sum_records(made(50).rows([row]), {"q": task, "short": short}).sums
        assert all(squared(one) <= UNITS**2 for one in sums.values())


def test_groups_of_coded_columns_count_records_with_the_least_noise_that_they_can():
    found, records = (
        features([(1,), (2,), (0, 2), (2, 3), (3,)], [0.1, 0.2, 0.3, 0.4, 0.5]),
        made(500),
    )
    assert found(records) @ found.count_functional == pytest.approx(
        np.ones(500), abs=1e-5
    )
    coded = np.flatnonzero(found.count_functional)
    shortest = np.linalg.lstsq(
        found(records)[:, coded].astype(float), np.ones(500), rcond=None
    )[0]
    assert found.count_functional[coded] == pytest.approx(shortest, abs=1e-5)
    assert features([(1,), (0, 2)]).count_functional is None


SHORT = Series(length_scale=0.2, order=3, stretch=2.0)
MIXED = Schema(
    (continuous("x", missing=True), integer("n", 0, 5), categorical("c", "abc"))
)
GROUPS = ((0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))


def probabilities(sizes, rows, random):
    return [
        torch.from_numpy(random.dirichlet(np.ones(size), rows).T.astype(np.float32))
        for size in sizes
    ]


def test_means_over_cells_are_those_of_records_drawn_from_the_cells():
    random = np.random.default_rng(0)
    layout = MIXED.layout
    tables = column_tables(layout, [SHORT, SHORT])
    features = Products(
        tables=tables,
        groups=GROUPS,
        weights=tuple(random.uniform(0.5, 1, len(GROUPS)).tolist()),
    )
    cells = [numeric_cells(column) for column in layout.numeric]
    columns = probabilities([*(one.size for one in cells), 3], 4, random)
    found = features.of_cells(layout).means(columns, 2).numpy()

    rows = 60_000
    for half in (0, 1):
        which = 2 * half + random.integers(0, 2, rows)
        numeric = np.empty((rows, 2))
        for place, cell in enumerate(cells):
            for row in range(4):
                mine = which == row
                drawn = random.choice(
                    cell.size, mine.sum(), p=_normal(columns[place][:, row])
                )
                low, high = (
                    np.append(cell.low, np.nan)[drawn],
                    np.append(cell.high, np.nan)[drawn],
                )
                numeric[mine, place] = low + random.uniform(size=mine.sum()) * (
                    high - low
                )
        codes = np.empty((rows, 1), dtype=np.int32)
        for row in range(4):
            mine = which == row
            codes[mine, 0] = random.choice(3, mine.sum(), p=_normal(columns[2][:, row]))
        exact = features(EncodedTable(numeric, codes)).mean(axis=0)
        assert np.abs(exact - found[:, half]).max() < 0.02
        assert np.abs(found[:, half]).max() > 0.1


def _normal(column):
    values = column.numpy().astype(np.float64)
    return values / values.sum()


def test_an_average_is_of_its_square_and_lands_on_a_step():
    image = ImageShape(height=4, width=6, channels=2)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 2)) / 255
    records = EncodedTable(pixels.reshape(5, -1), np.zeros((5, 0), np.int32))
    small = Thumbnails(image=image, side=2)(records).reshape(5, 2, 3, 2)
    assert np.allclose(small[3, 1, 2, 1], pixels[3, 2:4, 4:6, 1].mean())
    steps = small * 255 * 4
    assert np.abs(steps - np.rint(steps)).max() < 1e-3


# Neural tangent features: gradients of a network, of norm 1, summed in whole numbers, each of its record alone.

TABLE = Schema(
    (
        continuous("x", missing=True),
        integer("n", 0, 5),
        categorical("k", "abc", missing=True),
        boolean("ill"),
    ),
    label="ill",
).layout
IMAGES = pixel_schema(6, 6, labels=(0, 1)).layout
GRID = Grid(norm=1.0, nonnegative=True)
NETWORK = draw_network(36, width=9, seed=1)
PAIRS = draw_pairs(TABLE, width=5, cells=6, memory=10, seed=1)
BOTH = pytest.mark.parametrize(
    ("features", "layout"), [(NETWORK, IMAGES), (PAIRS, TABLE)], ids=["images", "table"]
)


def task_of(features, label=None, grid=GRID):
    return SumTask(
        feature_map=features,
        grid=grid,
        columns=2 if label is not None else 1,
        label=label,
    )


def test_the_vector_is_the_gradient_of_the_network_over_its_norm():
    """By automatic differentiation, with signs at the outputs: they turn coordinates and no inner product."""
    weights = torch.tensor(NETWORK.weights / WEIGHT_STEPS, requires_grad=True)
    signs = torch.tensor(np.where(np.arange(9) % 2, -1.0, 1.0), requires_grad=True)
    records, gradients = made_up(IMAGES, 12, seed=2), []
    for pixels in torch.from_numpy(np.rint(records.numeric * 65_536) / 65_536):
        output = torch.cat([pixels, torch.ones(1, dtype=torch.float64)]) @ weights
        one = torch.autograd.grad(output.relu() @ signs, [weights, signs])
        gradients.append(torch.cat([one[0].T.flatten(), one[1]]).numpy())
    expected = np.array(gradients) / np.linalg.norm(gradients, axis=1, keepdims=True)
    found = NETWORK(records).astype(np.float64)
    np.testing.assert_allclose(found, np.abs(expected), atol=1e-6)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)


@BOTH
def test_the_sum_in_whole_numbers_is_that_of_quantised_vectors(features, layout):
    records = made_up(layout, 700, seed=5)
    task = task_of(features)
    assert task.exact_sum is not None, "the gate does not take the map's own sum"
    summed = sum_records(records, {"it": task}).sums["it"][0]
    assert np.array_equal(
        summed, GRID.quantise(features(records)).sum(axis=0, dtype=np.int64)
    )


@BOTH
def test_a_gradient_moves_the_sum_by_the_bound_and_no_more(features, layout):
    """Whole integer vectors of single records, by the way that the gate takes."""
    records = made_up(layout, 60, seed=6)
    alone = [
        sum_records(records.rows(slice(row, row + 1)), {"it": task_of(features)}).sums[
            "it"
        ][0]
        for row in range(60)
    ]
    squares = [sum(number * number for number in vector.tolist()) for vector in alone]
    assert max(squares) <= task_of(features).exact_sum.squared_norm <= UNITS**2
    assert max(squares) > 0.99 * UNITS**2, "noise for a longer vector than there is"
    assert min(int(vector.min()) for vector in alone) >= 0
    apart = max(
        sum(number * number for number in (a - b).tolist())
        for a in alone[:20]
        for b in alone[20:]
    )
    assert (
        apart <= GRID.bound.sensitivity_squared(Adjacency.REPLACE_ONE) == 2 * UNITS**2
    )


@BOTH
def test_a_gradient_does_not_depend_on_the_other_records(features, layout):
    records = made_up(layout, 100, seed=7)
    whole = sum_records(records, {"it": task_of(features)}).sums["it"]
    parts = sum(
        sum_records(
            records.rows(slice(start, start + 1)), {"it": task_of(features)}
        ).sums["it"]
        for start in range(100)
    )
    assert np.array_equal(whole, parts)


def test_a_smaller_bound_is_left_to_the_grid():
    assert NETWORK.exact_sum(Grid(norm=0.5, nonnegative=True)) is None
    records = made_up(IMAGES, 5, seed=1)
    vectors = sum_records(
        records, {"it": task_of(NETWORK, grid=Grid(norm=0.5, nonnegative=True))}
    ).sums["it"]
    assert vectors.any()


def test_many_units_of_large_outputs_still_add_up_exactly():
    """784 pixels and 800 units: squares of outputs are cut so that float64 holds their sum, in any order."""
    features = draw_network(784, width=800, seed=0)
    values = np.ones((3, 784))
    active, inputs, outputs = features.parts(values)
    backwards = NeuralTangent(weights=features.weights[:, ::-1]).parts(values)
    assert np.array_equal(outputs, backwards[2][:, ::-1])
    norms = active.sum(axis=1) * np.square(inputs, dtype=float).sum(axis=1) + np.square(
        outputs, dtype=float
    ).sum(axis=1)
    assert np.abs(norms - 1).max() < 2.0**-20


def test_a_record_that_no_unit_sees_adds_nothing():
    silent = NeuralTangent(weights=np.full((2, 3), -1, dtype=np.int64))
    assert not silent(Rows(np.array([[0.5]]), np.zeros((1, 0), dtype=np.int32))).any()


def test_networks_of_a_table_see_all_pairs_but_the_label():
    assert PAIRS.joint.tables == ((0, 1), (0, 2), (1, 2))
    records = made_up(TABLE, 50)
    flipped = Rows(records.numeric, records.codes ^ np.array([0, 1], dtype=np.int32))
    assert np.array_equal(PAIRS(records), PAIRS(flipped))


def test_more_memory_than_is_given_is_refused_with_the_cure():
    with pytest.raises(
        OptionError, match=r"would take .* MB, more than memory=1 MB: lower width=5000"
    ):
        draw_pairs(TABLE, width=5000, cells=30, memory=1, seed=0)


def test_an_interval_of_a_generator_is_shared_among_the_cells_it_meets():
    """A cell of probability 1 that spans several bins has the mean of what is drawn from it."""
    layout = Schema((continuous("x"), boolean("y"))).layout
    features = draw_pairs(layout, width=6, cells=150, memory=10, seed=3)
    cells = 102
    made = [torch.zeros(cells, 1), torch.tensor([[1.0], [0.0]])]
    made[0][51, 0] = 1.0  # the interval from 0.5 to 0.51
    found = features.of_cells(layout).means(made, 1).numpy()[:, 0]
    drawn = np.linspace(0.5, 0.51, 6001)[:-1, None]
    expected = features(Rows(drawn, np.zeros((6000, 1), dtype=np.int32))).mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=2e-4)
