import pytest
import torch
from torch.func import functional_call, grad, vmap

from noisegate.schema.pixels import ImageShape
from noisegate_papers.training.adversarial import (
    build_image_discriminator,
    build_table_discriminator,
)

GREY, ODD = ImageShape(height=28, width=28), ImageShape(height=9, width=5, channels=2)


def rows(inputs, classes, count=4):
    random = torch.Generator().manual_seed(0)
    labels = torch.eye(max(classes, 1))[torch.arange(count) % max(classes, 1)][
        :, :classes
    ]
    return torch.cat([torch.rand(count, inputs, generator=random), labels], dim=1)


@pytest.mark.parametrize(
    ("network", "inputs", "parameters"),
    [
        (
            build_image_discriminator(GREY, 10, channels=(32, 64), seed=0),
            784,
            544 + 32832 + 3136 * 11 + 11,
        ),
        (
            build_image_discriminator(ODD, 0, channels=(4, 8), seed=0),
            90,
            132 + 520 + 8 * 2 * 1 + 1,
        ),
        (
            build_table_discriminator(7, 3, hidden=(5, 4), seed=0),
            7,
            40 + 24 + 4 * 4 + 4,
        ),
        (build_table_discriminator(7, 0, hidden=(), seed=0), 7, 8),
    ],
)
def test_a_row_has_a_score_and_gradients_of_its_own(network, inputs, parameters):
    assert sum(value.numel() for value in network.parameters()) == parameters
    batch, weights = rows(inputs, network.classes), dict(network.named_parameters())
    scores = network(batch)
    assert scores.shape == (4,)
    each = vmap(
        grad(lambda own, row: functional_call(network, own, (row[None],))[0]),
        in_dims=(None, 0),
    )(weights, batch)
    for name, slope in zip(
        weights, torch.autograd.grad(scores.sum(), list(weights.values())), strict=True
    ):
        assert torch.allclose(each[name].sum(dim=0), slope, atol=1e-5)


def test_a_label_chooses_among_the_scores():
    network = build_table_discriminator(3, 2, hidden=(4,), seed=0)
    batch = rows(3, 2, count=2)
    swapped = torch.cat([batch[:, :3], batch[:, 3:].flip(1)], dim=1)
    with torch.no_grad():
        network.scores.bias += torch.tensor([0.0, 5.0, -5.0])
    apart = network(batch) - network(swapped)
    assert apart[0] > 5
    assert apart[1] < -5
