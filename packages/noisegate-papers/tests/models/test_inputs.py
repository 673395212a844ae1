import numpy as np
import torch
from tests.shared.columns import boolean, categorical, continuous, integer
from torch import nn

from noisegate.schema import Schema
from noisegate_papers.models.inputs import TableInput, inputs_of

LABEL = categorical("y", ("no", "yes"))
REST = [
    continuous("b", missing=True),
    categorical("c", "rg", missing=True),
    boolean("d"),
]
SCHEMA = Schema([continuous("a"), LABEL, *REST], label="y")
NUMERIC = torch.tensor([[1.0, 0.25], [0.5, float("nan")]])
CODES = torch.tensor([[2, 0], [1, 1]])


def test_every_column_but_the_label_is_an_input_and_a_missing_value_says_so():
    inputs = inputs_of(SCHEMA, centre=0.5)
    assert inputs.names == (
        "a",
        "b",
        "b is missing",
        "c = r",
        "c = g",
        "c is missing",
        "d = False",
        "d = True",
    )
    expected = [[1.0, -0.5, 0, 0, 0, 1, 1, 0], [0.0, 0.0, 1, 0, 1, 0, 0, 1]]
    # Four columns, so everything is halved.
    assert np.array_equal(
        inputs(NUMERIC, CODES).numpy(), np.array(expected, dtype=np.float32) / 2
    )


def test_one_record_has_the_inputs_that_it_has_among_others():
    inputs = inputs_of(SCHEMA, centre=0.3)
    together = inputs(NUMERIC, CODES)
    assert torch.equal(torch.vmap(inputs)(NUMERIC, CODES), together)
    assert torch.equal(inputs(NUMERIC[1], CODES[1]), together[1])


def test_the_centre_counts_as_nothing():
    schema = Schema((continuous("a"), boolean("y")), label="y")
    none = torch.zeros((1, 0), dtype=torch.int64)
    assert inputs_of(schema, centre=0.25)(torch.tensor([[0.25]]), none).item() == 0
    assert inputs_of(schema, centre=0.0)(torch.tensor([[1.0]]), none).item() == 2


def test_slopes_are_what_the_inputs_grow_by_between_the_bounds():
    inputs = inputs_of(SCHEMA, centre=0.5)
    low, high = (inputs(torch.full((2,), end), CODES[0]) for end in (0.0, 1.0))
    assert np.allclose(inputs.gradients[:2], (high - low).numpy()[:2])
    assert np.allclose(inputs.gradients[2:], 0.5)


GENERATED = Schema(
    (
        categorical("c", "rgb"),
        integer("u", 0, 4),
        categorical("y", "ab"),
        continuous("v", missing=True),
    ),
    label="y",
)


class Fixed(nn.Module):
    """Makes the same probabilities for every row: columns numeric first, (cells, rows)."""

    def __init__(self, columns):
        super().__init__()
        self.columns = nn.ParameterList([torch.tensor(column) for column in columns])

    def forward(self, noise, labels):
        return [column[:, None].expand(-1, len(noise)) for column in self.columns]


def one(size, place):
    return np.eye(size, dtype=np.float32)[place]


def shown(columns, rows=4, seed=0):
    noise = torch.zeros(rows, 1)
    labels = torch.zeros(rows, dtype=torch.int64)
    return TableInput(GENERATED.layout)(
        Fixed(columns), noise, labels, torch.Generator().manual_seed(seed)
    )


def test_a_generated_record_is_shown_as_a_real_one_is():
    """u = 3, v at its upper bound or missing, c = b; the label is not shown."""
    inputs = inputs_of(GENERATED, centre=0.5)
    for cell, position in ((101, 1.0), (102, float("nan"))):
        expected = (
            inputs(torch.tensor([0.75, position]), torch.tensor([2])) / inputs.scale
        )
        found = shown([one(5, 3), one(103, cell), one(3, 2), one(2, 0)])
        assert torch.allclose(found, expected.expand(4, -1), atol=1e-6)


def test_cells_are_drawn_in_their_shares_and_filled_evenly():
    v = 0.5 * one(103, 11) + 0.5 * one(103, 102)
    found = shown(
        [one(5, 0), v, np.float32([0.1, 0.2, 0.7]), one(2, 0)], rows=4000
    ).detach()
    assert torch.isin(found[:, 3:].round(decimals=5), torch.tensor([0.0, 1.0])).all()
    assert (
        found[:, 3:].mean(dim=0) - torch.tensor([0.1, 0.2, 0.7])
    ).abs().max() < 0.035
    missing = found[:, 2] > 0.5
    assert abs(float(missing.float().mean()) - 0.5) < 0.04
    inside = ((found[~missing, 1] + 1) / 2).sort().values
    assert 0.1 <= inside[0] < 0.101
    assert 0.109 < inside[-1] <= 0.11 + 1e-6
    assert abs(float(inside.mean()) - 0.105) < 0.0003


def test_slopes_reach_the_probabilities_of_what_was_drawn_and_of_what_was_not():
    columns = [one(5, 0), one(103, 0), np.float32([0.2, 0.3, 0.5]), one(2, 0)]
    generator = Fixed(columns)
    noise, labels = torch.zeros(2000, 1), torch.zeros(2000, dtype=torch.int64)
    found = TableInput(GENERATED.layout)(
        generator, noise, labels, torch.Generator().manual_seed(0)
    )
    found[:, 5].mean().backward()
    slope = generator.columns[2].grad
    # More of the third level is shown with more of its probability, and less with more of the others'.
    assert slope[2] > 0.1
    assert (slope[:2] < -0.05).all()
