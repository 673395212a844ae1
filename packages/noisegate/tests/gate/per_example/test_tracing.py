"""Gradients from one backward pass are those that torch takes record by record, whatever layers a loss has."""

import pytest
import torch
from torch import nn

from noisegate.gate.per_example.gradients import module_loss
from noisegate.gate.per_example.tracing import (
    is_traceable,
    per_example_gradients,
    untraced_gradients,
)

PERCEPTRON = nn.Sequential(nn.Linear(48, 5), nn.ReLU(), nn.Linear(5, 3, bias=False))
CONVOLUTIONS = nn.Sequential(
    nn.Unflatten(1, (3, 4, 4)),
    nn.Conv2d(3, 8, 3, padding=2, stride=(1, 2), dilation=(1, 2)),
    nn.GroupNorm(4, 8),
    nn.ReLU(),
    nn.Conv2d(8, 6, 2, bias=False, groups=2),
    nn.GroupNorm(6, 6, affine=False),
    nn.Conv2d(6, 4, 1),
    nn.GroupNorm(4, 4),
    nn.Flatten(),
    nn.Linear(20, 3),
)
TOKENS = nn.Sequential(
    nn.Unflatten(1, (6, 8)),
    nn.Linear(8, 4),
    nn.LayerNorm(4),
    nn.Flatten(),
    nn.Linear(24, 3),
)
NETWORKS = {"perceptron": PERCEPTRON, "convolutions": CONVOLUTIONS, "tokens": TOKENS}


class Defaults(nn.Module):
    """Calls of functions that leave out whatever they may."""

    def __init__(self):
        super().__init__()
        shapes = {
            "kernel": (4, 3, 3, 3),
            "scale": (4,),
            "shift": (4,),
            "gain": (16,),
            "out": (3, 16),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self, numeric):
        images = nn.functional.conv2d(numeric.reshape(-1, 3, 4, 4), self.kernel)
        images = nn.functional.group_norm(images, 2, self.scale, self.shift)
        vectors = nn.functional.layer_norm(images.flatten(1), (16,), self.gain)
        return nn.functional.linear(vectors, self.out)


NETWORKS["defaults"] = Defaults()


def entropy(run, numeric, codes):
    return nn.functional.cross_entropy(run(numeric[None]), codes[:1])


def twice(run, numeric, codes):
    return (
        entropy(run, numeric, codes)
        + run(torch.stack([numeric / 2, numeric])).square().sum()
    )


def parts(module, criterion):
    torch.manual_seed(0)
    parameters = {
        name: torch.randn_like(value) / 2 for name, value in module.named_parameters()
    }
    return (
        module_loss(module, criterion),
        parameters,
        torch.rand(5, 48),
        torch.arange(5)[:, None] % 3,
    )


def whole(gradients):
    products = {
        name: slopes[:, :, None] * inputs[:, None, :]
        for name, (inputs, slopes) in gradients.products.items()
    }
    return products | gradients.plain


@pytest.mark.parametrize("criterion", [entropy, twice])
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_those_of_torch(network, criterion):
    loss, parameters, numeric, codes = parts(NETWORKS[network], criterion)
    traced = per_example_gradients(loss, parameters, numeric, codes)
    right = untraced_gradients(loss, parameters, numeric, codes).plain
    assert is_traceable(loss, parameters, numeric, codes)
    assert set(whole(traced)) == set(right)
    for name, value in whole(traced).items():
        assert not value.requires_grad
        torch.testing.assert_close(
            value.reshape(right[name].shape), right[name], rtol=1e-4, atol=1e-4
        )


def test_a_parameter_that_is_used_beside_its_layer_has_the_gradient_of_both():
    loss, parameters, numeric, codes = parts(PERCEPTRON, entropy)

    def decayed(parameters, numeric, codes):
        return loss(parameters, numeric, codes) + sum(
            value.square().sum() for value in parameters.values()
        )

    traced = per_example_gradients(decayed, parameters, numeric, codes)
    right = untraced_gradients(decayed, parameters, numeric, codes).plain
    assert not traced.products
    for name, value in traced.plain.items():
        torch.testing.assert_close(value, right[name])


def test_a_loss_with_a_gradient_inside_is_left_to_torch():
    loss, *arguments = parts(PERCEPTRON, entropy)

    def penalised(parameters, numeric, codes):
        slope = torch.func.grad(lambda image: loss(parameters, image, codes))(numeric)
        return loss(parameters, numeric, codes) + slope.square().sum()

    assert not is_traceable(penalised, *arguments)


def test_a_wrong_gradient_of_a_layer_is_noticed(monkeypatch):
    loss, *arguments = parts(CONVOLUTIONS, entropy)
    original = nn.functional.unfold
    monkeypatch.setattr(
        nn.functional,
        "unfold",
        lambda *arguments, **options: original(*arguments, **options).flip(1),
    )
    assert not is_traceable(loss, *arguments)
