import numpy as np
import pytest
import torch

from noisegate_papers.models.locally_linear import draw_projection

DRAW = {"inputs": 12, "maps": 3, "constant": 0.5}


@pytest.mark.parametrize("dimensions", [None, 4, 12])
def test_what_was_trained_on_projected_inputs_is_a_linear_map_of_the_inputs(dimensions):
    projection = draw_projection(**DRAW, dimensions=dimensions, seed=1)
    groups, outputs, width = projection.shape(classes=2)
    random = np.random.default_rng(0)
    trained = random.normal(size=(groups, outputs, width)).astype(np.float32)
    x = random.normal(size=12).astype(np.float32)
    seen = projection(torch.from_numpy(x)).numpy()
    assert seen.shape == (groups, width)
    answers = np.einsum("gow,gw->go", trained, seen).reshape(3, 2)
    weights, bias = projection.unfold(trained)
    assert weights.shape == (3, 2, 12)
    assert np.allclose(weights @ x + bias, answers, atol=1e-4)


def test_a_projection_keeps_lengths_on_average_and_follows_its_seed():
    projection = draw_projection(inputs=300, maps=4, dimensions=200, constant=0.0, seed=3)
    x = torch.nn.functional.normalize(torch.ones(300), dim=0)
    assert np.allclose(projection(x).norm(dim=1), 1.0, atol=0.25)
    again, other = (draw_projection(**DRAW, dimensions=4, seed=seed).matrices for seed in (3, 4))
    assert np.array_equal(draw_projection(**DRAW, dimensions=4, seed=3).matrices, again)
    assert not np.array_equal(again, other)
    assert not np.array_equal(again[0], again[1])
