import numpy as np
import torch

from noisegate.schema import Boolean, Categorical, Continuous, Schema
from noisegate_papers.models.inputs import inputs_of

SCHEMA = Schema(
    (
        Continuous(name="a", lower=0.0, upper=1.0),
        Categorical(name="y", levels=("no", "yes")),
        Continuous(name="b", lower=0.0, upper=1.0, missing=True),
        Categorical(name="c", levels=("r", "g"), missing=True),
        Boolean(name="d"),
    ),
    label="y",
)
NUMERIC = torch.tensor([[1.0, 0.25], [0.5, float("nan")]])
CODES = torch.tensor([[2, 0], [1, 1]])


def test_every_column_but_the_label_is_an_input_and_a_missing_value_says_so():
    inputs = inputs_of(SCHEMA, centre=0.5)
    assert inputs.names == ("a", "b", "b is missing", "c = r", "c = g", "c is missing", "d = False", "d = True")
    expected = [[1.0, -0.5, 0, 0, 0, 1, 1, 0], [0.0, 0.0, 1, 0, 1, 0, 0, 1]]
    # Four columns, so everything is halved.
    assert np.array_equal(inputs(NUMERIC, CODES).numpy(), np.array(expected, dtype=np.float32) / 2)


def test_one_record_has_the_inputs_that_it_has_among_others():
    inputs = inputs_of(SCHEMA, centre=0.3)
    together = inputs(NUMERIC, CODES)
    assert torch.equal(torch.vmap(inputs)(NUMERIC, CODES), together)
    assert torch.equal(inputs(NUMERIC[1], CODES[1]), together[1])


def test_the_centre_counts_as_nothing():
    schema = Schema((Continuous(name="a", lower=0.0, upper=1.0), Boolean(name="y")), label="y")
    none = torch.zeros((1, 0), dtype=torch.int64)
    assert inputs_of(schema, centre=0.25)(torch.tensor([[0.25]]), none).item() == 0
    assert inputs_of(schema, centre=0.0)(torch.tensor([[1.0]]), none).item() == 2


def test_slopes_are_what_the_inputs_grow_by_between_the_bounds():
    inputs = inputs_of(SCHEMA, centre=0.5)
    low, high = (inputs(torch.full((2,), end), CODES[0]) for end in (0.0, 1.0))
    assert np.allclose(inputs.gradients[:2], (high - low).numpy()[:2])
    assert np.allclose(inputs.gradients[2:], 0.5)
