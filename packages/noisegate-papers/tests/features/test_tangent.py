"""Neural tangent features: gradients of a network, of norm 1, summed in whole numbers, each of its record alone."""

import numpy as np
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.errors import OptionError
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, Grid
from noisegate.records import Rows
from noisegate.schema import Schema, pixel_schema
from noisegate.testing import made_up
from noisegate_papers.features.tangent import WEIGHT_STEPS, NeuralTangent, draw_network, draw_pairs

TABLE = Schema(
    (continuous("x", missing=True), integer("n", 0, 5), categorical("k", "abc", missing=True), boolean("ill")),
    label="ill",
).layout
IMAGES = pixel_schema(6, 6, labels=(0, 1)).layout
GRID = Grid(norm=1.0, nonnegative=True)
NETWORK = draw_network(36, width=9, seed=1)
PAIRS = draw_pairs(TABLE, width=5, cells=6, memory=10, seed=1)
BOTH = pytest.mark.parametrize(("features", "layout"), [(NETWORK, IMAGES), (PAIRS, TABLE)], ids=["images", "table"])


def task_of(features, label=None, grid=GRID):
    return SumTask(feature_map=features, grid=grid, columns=2 if label is not None else 1, label=label)


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
    assert task.exact is not None, "the gate does not take the map's own sum"
    summed = sum_records(records, {"it": task}).sums["it"][0]
    assert np.array_equal(summed, GRID.quantise(features(records)).sum(axis=0, dtype=np.int64))


@BOTH
def test_a_gradient_moves_the_sum_by_the_bound_and_no_more(features, layout):
    """Whole integer vectors of single records, by the way that the gate takes."""
    records = made_up(layout, 60, seed=6)
    alone = [
        sum_records(records.rows(slice(row, row + 1)), {"it": task_of(features)}).sums["it"][0] for row in range(60)
    ]
    squares = [sum(number * number for number in vector.tolist()) for vector in alone]
    assert max(squares) <= task_of(features).exact.squared_norm <= UNITS**2
    assert max(squares) > 0.99 * UNITS**2, "noise for a longer vector than there is"
    assert min(int(vector.min()) for vector in alone) >= 0
    apart = max(sum(number * number for number in (a - b).tolist()) for a in alone[:20] for b in alone[20:])
    assert apart <= GRID.bound.sensitivity_squared(Adjacency.REPLACE_ONE) == 2 * UNITS**2


@BOTH
def test_a_gradient_does_not_depend_on_the_other_records(features, layout):
    records = made_up(layout, 100, seed=7)
    whole = sum_records(records, {"it": task_of(features)}).sums["it"]
    parts = sum(
        sum_records(records.rows(slice(start, start + 1)), {"it": task_of(features)}).sums["it"] for start in range(100)
    )
    assert np.array_equal(whole, parts)


def test_a_smaller_bound_is_left_to_the_grid():
    assert NETWORK.exact_sum(Grid(norm=0.5, nonnegative=True)) is None
    records = made_up(IMAGES, 5, seed=1)
    vectors = sum_records(records, {"it": task_of(NETWORK, grid=Grid(norm=0.5, nonnegative=True))}).sums["it"]
    assert vectors.any()


def test_many_units_of_large_outputs_still_add_up_exactly():
    """784 pixels and 800 units: squares of outputs are cut so that float64 holds their sum, in any order."""
    features = draw_network(784, width=800, seed=0)
    values = np.ones((3, 784))
    active, inputs, outputs = features.parts(values)
    backwards = NeuralTangent(weights=features.weights[:, ::-1]).parts(values)
    assert np.array_equal(outputs, backwards[2][:, ::-1])
    norms = active.sum(axis=1) * np.square(inputs, dtype=float).sum(axis=1) + np.square(outputs, dtype=float).sum(
        axis=1
    )
    assert np.abs(norms - 1).max() < 2.0**-20


def test_a_record_that_no_unit_sees_adds_nothing():
    silent = NeuralTangent(weights=np.full((2, 3), -1, dtype=np.int64))
    assert not silent(Rows(np.array([[0.5]]), np.zeros((1, 0), dtype=np.int32))).any()


def test_networks_of_a_table_see_all_pairs_but_the_label():
    assert PAIRS.groups == ((0, 1), (0, 2), (1, 2))
    records = made_up(TABLE, 50)
    flipped = Rows(records.numeric, records.codes ^ np.array([0, 1], dtype=np.int32))
    assert np.array_equal(PAIRS(records), PAIRS(flipped))


def test_more_memory_than_is_given_is_refused_with_the_cure():
    with pytest.raises(OptionError, match=r"would take .* MB, more than memory=1 MB: lower width=5000"):
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
