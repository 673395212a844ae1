import math

import numpy as np
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous, integer
from tests.shared.sums import squared

from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.grid import UNITS, Grid
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.layout import numeric_cells
from noisegate.schema.pixels import ImageShape
from noisegate_papers.features.hermite import Series, column_tables, level_table, numeric_table
from noisegate_papers.features.products import Products
from noisegate_papers.features.thumbnails import Thumbnails

SERIES = Series(length_scale=0.1, order=5, stretch=3.0)
SCHEMA = Schema(
    (continuous("x", missing=True), integer("n", 0, 7), categorical("c", "abc", missing=True), boolean("y")), label="y"
)


def made(rows, seed=0):
    random = np.random.default_rng(seed)
    numeric = np.stack([random.uniform(size=rows), random.integers(0, 8, rows) / 7], axis=1)
    numeric[random.uniform(size=rows) < 0.2, 0] = np.nan
    codes = np.stack([random.integers(0, 4, rows), random.integers(0, 2, rows)], axis=1)
    return EncodedTable(numeric, codes.astype(np.int32))


def features(groups, weights=None):
    tables = column_tables(SCHEMA.layout, [SERIES, SERIES])
    return Products(tables=tables, groups=tuple(groups), weights=tuple(weights or [0.3] * len(groups)))


def test_a_vector_is_the_weighted_outer_product_of_the_looked_up_rows():
    groups = [(1,), (0, 2), (0,), (0, 1, 2), (1, 2)]
    weights = [0.1, 0.2, 0.3, 0.4, 0.5]
    found, records = features(groups, weights), made(40)
    vectors, places = found(records), found.places(records)
    for group, weight, start, end in zip(groups, weights, found.starts, found.starts[1:], strict=False):
        for row in range(len(records)):
            expected = np.ones(1)
            for column in group:
                expected = np.outer(expected, found.tables[column].rows[places[row, column]]).ravel()
            assert vectors[row, start:end] == pytest.approx(weight * expected, abs=1e-6)


def test_a_numeric_column_looks_up_its_hermite_features_and_a_missing_one_its_own_coordinate():
    table = numeric_table(SERIES, 4096, missing=True)
    assert table.rows[1024, :-1] == pytest.approx(SERIES(0.25), abs=1e-6)
    assert (table.rows[:-1, -1] == 0).all()
    assert (table.rows[-1, :-1] == 0).all()
    assert table.rows[-1, -1] ** 2 == pytest.approx(table.squared_supremum, rel=1e-5)
    assert (level_table(3).rows == np.eye(3)).all()
    found = features([(0,)])
    assert (
        found.places(made(200))[np.isnan(made(200).numeric[:, 0]), 0].tolist()
        == [4097] * np.isnan(made(200).numeric[:, 0]).sum()
    )


def test_a_reference_is_subtracted_so_that_a_column_there_adds_nothing():
    table = numeric_table(SERIES, 100, missing=False, reference=0.0)
    assert np.abs(table.rows[0]).max() == 0
    assert table.rows[40] == pytest.approx(SERIES(0.4) - SERIES(0.0), abs=1e-6)


@pytest.mark.parametrize("groups", [[(0,), (1,), (2,)], [(0, 1)], [(0, 1), (1, 2), (0, 2)], [(0, 1, 2)]])
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
    norms = np.linalg.norm(found(EncodedTable.concatenate(corners)).astype(np.float64), axis=1)
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
        sum_records(records, {"q": SumTask(feature_map=f, grid=grid, columns=2 if label else 1, label=label)}).sums["q"]
        for f in (quick, slow)
    ]
    assert SumTask(feature_map=quick, grid=grid, columns=1, label=None).exact is not None
    assert (sums[0] == sums[1]).all()
    assert np.abs(sums[0]).max() > 0


def test_one_record_stays_in_the_ball_and_a_map_that_might_leave_it_is_not_counted():
    found = features([(0,), (1,), (2,)], [0.5, 0.2, 0.7])
    grid = Grid(norm=found.norm)
    task = SumTask(feature_map=found, grid=grid, columns=1, label=None)
    short = SumTask(feature_map=found, grid=Grid(norm=found.norm / 2), columns=1, label=None)
    assert short.exact is None
    for row in range(50):
        sums = sum_records(made(50).rows([row]), {"q": task, "short": short}).sums
        assert all(squared(one) <= UNITS**2 for one in sums.values())


def test_groups_of_coded_columns_count_records_with_the_least_noise_that_they_can():
    found, records = features([(1,), (2,), (0, 2), (2, 3), (3,)], [0.1, 0.2, 0.3, 0.4, 0.5]), made(500)
    assert found(records) @ found.counter == pytest.approx(np.ones(500), abs=1e-5)
    coded = np.flatnonzero(found.counter)
    shortest = np.linalg.lstsq(found(records)[:, coded].astype(float), np.ones(500), rcond=None)[0]
    assert found.counter[coded] == pytest.approx(shortest, abs=1e-5)
    assert features([(1,), (0, 2)]).counter is None


SHORT = Series(length_scale=0.2, order=3, stretch=2.0)
MIXED = Schema((continuous("x", missing=True), integer("n", 0, 5), categorical("c", "abc")))
GROUPS = ((0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))


def probabilities(sizes, rows, random):
    return [torch.from_numpy(random.dirichlet(np.ones(size), rows).T.astype(np.float32)) for size in sizes]


def test_means_over_cells_are_those_of_records_drawn_from_the_cells():
    random = np.random.default_rng(0)
    layout = MIXED.layout
    tables = column_tables(layout, [SHORT, SHORT])
    features = Products(tables=tables, groups=GROUPS, weights=tuple(random.uniform(0.5, 1, len(GROUPS)).tolist()))
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
                drawn = random.choice(cell.size, mine.sum(), p=_normal(columns[place][:, row]))
                low, high = np.append(cell.low, np.nan)[drawn], np.append(cell.high, np.nan)[drawn]
                numeric[mine, place] = low + random.uniform(size=mine.sum()) * (high - low)
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
