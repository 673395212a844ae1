import pytest
import torch

from noisegate_images.training.adam import Adam


def gradients(count):
    random = torch.Generator().manual_seed(0)
    return [
        {"w": torch.randn(3, generator=random), "b": torch.randn((), generator=random)}
        for _ in range(count)
    ]


def test_steps_are_those_of_torchs_adam():
    mine = {"w": torch.ones(3), "b": torch.zeros(())}
    theirs = {name: torch.nn.Parameter(value.clone()) for name, value in mine.items()}
    adam = Adam(mine, learning_rate=0.1, beta1=0.5, beta2=0.9)
    right = torch.optim.Adam(list(theirs.values()), lr=0.1, betas=(0.5, 0.9))
    for given in gradients(5):
        adam.step(given)
        for name, value in theirs.items():
            value.grad = given[name]
        right.step()
    assert all(torch.allclose(mine[name], theirs[name], atol=1e-6) for name in mine)


def test_the_state_of_other_parameters_is_refused():
    state = Adam({"w": torch.ones(3)}, learning_rate=0.1).state_dict()
    with pytest.raises(ValueError, match="another shape"):
        Adam({"w": torch.ones(4)}, learning_rate=0.1).load_state_dict(state)
    with pytest.raises(KeyError):
        Adam({"v": torch.ones(3)}, learning_rate=0.1).load_state_dict(state)


def test_what_is_slower_moves_by_that_part_and_the_rest_as_ever():
    """Adam's step is the learning rate times what does not depend on it."""
    start, parts = (
        {"w": torch.ones(3), "b": torch.zeros(())},
        {"w": torch.ones(3), "b": torch.zeros(())},
    )
    whole, some = (
        Adam(start, learning_rate=0.1),
        Adam(parts, learning_rate=0.1, slower={"w": 0.25}),
    )
    for gradient in gradients(4):
        whole.step(gradient)
        some.step(gradient)
    assert torch.equal(parts["b"], start["b"])
    assert torch.allclose(parts["w"] - 1, 0.25 * (start["w"] - 1))
