import numpy as np
import pytest
import torch

from noisegate.schema import Categorical, Continuous, EncodedTable, Integer, Schema
from noisegate.schema.layout import numeric_cells
from noisegate_papers.features.hermite import Series, column_tables, numeric_table
from noisegate_papers.features.products import Products

SERIES = Series(length_scale=0.2, order=3, stretch=2.0)
SCHEMA = Schema(
    (
        Continuous(name="x", lower=0.0, upper=1.0, missing=True),
        Integer(name="n", lower=0, upper=5),
        Categorical(name="c", levels=("a", "b", "c")),
    )
)
GROUPS = ((0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))


def probabilities(sizes, rows, random):
    return [torch.from_numpy(random.dirichlet(np.ones(size), rows).T.astype(np.float32)) for size in sizes]


def test_means_over_cells_are_those_of_records_drawn_from_the_cells():
    random = np.random.default_rng(0)
    layout = SCHEMA.layout
    tables = column_tables(layout, [SERIES, SERIES])
    features = Products(tables=tables, groups=GROUPS, weights=tuple(random.uniform(0.5, 1, len(GROUPS)).tolist()))
    cells = [numeric_cells(column) for column in layout.numeric]
    columns = probabilities([*(one.size for one in cells), 3], 4, random)
    found = features.of_cells(layout).means(columns, 2).numpy()

    rows = 60_000
    for half in (0, 1):
        which = 2 * half + random.integers(0, 2, rows)
        numeric = np.empty((rows, 2))
        for place, cell in enumerate(cells):
            chosen = np.array([random.choice(cell.size, p=_normal(columns[place][:, row])) for row in range(4)])
            for row in range(4):
                mine = which == row
                drawn = random.choice(cell.size, mine.sum(), p=_normal(columns[place][:, row]))
                low, high = np.append(cell.low, np.nan)[drawn], np.append(cell.high, np.nan)[drawn]
                numeric[mine, place] = low + random.uniform(size=mine.sum()) * (high - low)
            assert len(chosen) == 4
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


def test_a_point_moves_the_means_as_the_features_change():
    """The slope that the fit sees is that of the features, two-sided in size and sign."""
    table = numeric_table(SERIES, 255, missing=False)
    features = Products(tables=(table, table), groups=((0,), (0, 1)), weights=(1.0, 1.0))
    form = features.of_points()
    at = np.array([[100.4, 30.3]]) / 255
    points = torch.from_numpy(at.astype(np.float32)).requires_grad_()
    probe = torch.from_numpy(np.random.default_rng(2).normal(size=features.dim).astype(np.float32))
    (form.means(points, 1)[:, 0] * probe).sum().backward()
    for column in (0, 1):
        step = np.zeros((1, 2))
        step[0, column] = 3 / 255
        ends = [
            sum(
                probe[start:end].numpy() @ _product(features, group, at[0] + sign * step[0])
                for group, start, end in zip(features.groups, features.starts, features.starts[1:], strict=False)
            )
            for sign in (-1, 1)
        ]
        slope = (ends[1] - ends[0]) / (6 / 255)
        assert points.grad[0, column].item() == pytest.approx(slope, rel=0.05, abs=0.05)


def _product(features, group, at):
    result = np.ones(1)
    for column in group:
        result = np.outer(result, SERIES(at[column])).ravel()
    return result * features.weights[features.groups.index(group)]
