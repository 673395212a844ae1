"""Adam on arrays takes the steps of torch's."""

import numpy as np
import pytest
import torch

from noisegate.models.tables.descent import ArrayAdam


def gradients(count):
    random = np.random.default_rng(0)
    return [
        {"w": random.normal(size=(3, 2)), "b": random.normal(size=())}
        for _ in range(count)
    ]


def start():
    return {"w": np.ones((3, 2)), "b": np.zeros(())}


@pytest.mark.parametrize("size", [1.0, 1e-8])
def test_steps_are_those_of_torchs_adam(size):
    """Gradients near 1e-8 too, where what is added to the root decides."""
    mine = start()
    theirs = {
        name: torch.nn.Parameter(torch.from_numpy(value.copy()))
        for name, value in mine.items()
    }
    adam = ArrayAdam(mine, beta1=0.5, beta2=0.9)
    right = torch.optim.Adam(list(theirs.values()), lr=0.1, betas=(0.5, 0.9))
    for given in gradients(5):
        adam.step({name: size * value for name, value in given.items()}, 0.1)
        for name, value in theirs.items():
            value.grad = torch.as_tensor(size * given[name])
        right.step()
    for name, value in mine.items():
        assert value == pytest.approx(theirs[name].detach().numpy(), rel=1e-9)
