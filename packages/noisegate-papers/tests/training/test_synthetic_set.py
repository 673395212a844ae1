import math

import pytest
import torch
from tests.shared.columns import categorical, continuous

from noisegate.schema import ImageShape, Schema, pixel_schema
from noisegate_images.models.image import build_image_generator
from noisegate_images.models.image_network import ImageNetwork
from noisegate_images.networks.classifiers import build_convnet
from noisegate_papers.models.inputs import inputs_of
from noisegate_papers.training import synthetic_set
from noisegate_papers.training.synthetic_set import (
    FreeRecords,
    GeneratedImages,
    matching_gradient,
    row_distance,
)

MIXED = Schema(
    (
        continuous("u"),
        continuous("v", missing=True),
        categorical("c", "rgb"),
        categorical("y", ("no", "yes")),
    ),
    label="y",
)


def records(schema=MIXED, centre=0.5, init_std=1.0, momentum=0.5, seed=0):
    inputs = inputs_of(schema, centre=centre)
    return FreeRecords(
        inputs, 6, init_std=init_std, learning_rate=0.5, momentum=momentum, seed=seed
    )


def images(seed=0):
    network = ImageNetwork(
        shape=ImageShape(height=8, width=4),
        kind="convolutional",
        latent=3,
        hidden=(8,),
        channels=(4, 2),
    )
    generator = build_image_generator(network, 2, seed=0)
    return GeneratedImages(
        generator,
        torch.arange(2).repeat_interleave(3),
        centre=0.25,
        learning_rate=0.05,
        seed=seed,
    )


def test_records_descend_with_momentum():
    """As torch's own: v ← 0.5 v + g, x ← x − 0.5 v."""
    made = records(pixel_schema(2, 2, labels=(0, 1)), init_std=0.01)
    value = torch.nn.Parameter(made.inputs().detach().clone())
    right = torch.optim.SGD([value], lr=0.5, momentum=0.5)
    for step in range(3):
        slopes = torch.full_like(value, 0.1 * (step + 1))
        made.descend(made.inputs(), slopes)
        value.grad = slopes
        right.step()
    assert torch.allclose(made.inputs(), value)


def test_generated_images_are_moved_by_adam_through_their_network():
    made = images()
    right, target = images(), torch.full((6, 32), 0.5)
    adam = torch.optim.Adam(right._generator.parameters(), lr=0.05)
    for _ in range(4):
        shown = made.inputs()
        made.descend(shown, 2 * (shown - target).detach())
        adam.zero_grad()
        ((right.inputs() - target) ** 2).sum().backward()
        adam.step()
    assert torch.allclose(made.inputs(), right.inputs(), atol=1e-4)
    assert not torch.allclose(made.inputs(), images().inputs(), atol=1e-2)
    intensities = made.inputs() / 2 + 0.25
    assert intensities.min() >= 0
    assert intensities.max() <= 1


def test_the_distance_is_the_sum_over_rows_of_one_minus_cosine():
    """By hand: rows at 0, 90 and 180 degrees give 0, 1 and 2; a filter at 45 degrees gives 1 − 1/√2."""
    found = {
        "w": torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0]]),
        "f": torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]]),
    }
    wanted = {
        "w": torch.tensor([[0.5, 0.0], [0.0, 7.0], [0.0, -1.0]]),
        "f": torch.tensor([[[[4.0, 4.0], [0.0, 0.0]]]]),
        "b": torch.tensor([5.0]),
    }
    assert float(row_distance(found, wanted)) == pytest.approx(
        3 + 1 - 1 / math.sqrt(2), abs=1e-6
    )
    assert float(
        row_distance(found, {name: 9 * value for name, value in wanted.items()})
    ) == pytest.approx(float(row_distance(found, wanted)), abs=1e-6)


def test_a_row_of_zeros_is_at_distance_one_and_has_a_finite_slope():
    wanted = {"w": torch.ones(1, 2)}
    found = torch.zeros(1, 2, requires_grad=True)
    distance = row_distance({"w": found}, wanted)
    assert float(distance.detach()) == 1
    assert torch.autograd.grad(distance, found)[0].isfinite().all()


def setting(records=7):
    network = build_convnet(ImageShape(height=8, width=8), 3, width=4, depth=2, seed=0)
    random = torch.Generator().manual_seed(0)
    images = torch.rand((records, 1, 8, 8), generator=random)
    labels = torch.arange(records) % 3
    wanted = {
        name: torch.randn(value.shape, generator=random)
        for name, value in network.named_parameters()
    }
    return network, images, labels, wanted


def test_slopes_are_those_of_the_distance():
    _, images, labels, _ = setting()
    # Smooth: the gradient of a network with ReLU jumps where an input of one crosses zero.
    layers = [
        torch.nn.Flatten(),
        torch.nn.Linear(64, 5),
        torch.nn.Tanh(),
        torch.nn.Linear(5, 3),
    ]
    network, images = torch.nn.Sequential(*layers).double(), images.double()
    random = torch.Generator().manual_seed(1)
    wanted = {
        name: torch.randn(value.shape, generator=random).double()
        for name, value in network.named_parameters()
    }
    distance, slopes = matching_gradient(network, images, labels, wanted)
    direction = torch.randn(images.shape, generator=random).double()
    beside = [
        matching_gradient(network, images + step * direction, labels, wanted)[0]
        for step in (1e-5, -1e-5)
    ]
    assert (beside[0] - beside[1]) / 2e-5 == pytest.approx(
        float((slopes * direction).sum()), rel=1e-5
    )
    assert min(beside) < distance < max(beside)


def test_records_in_blocks_give_the_same_as_all_at_once(monkeypatch):
    at_once = matching_gradient(*setting())
    monkeypatch.setattr(synthetic_set, "AT_ONCE", 3)
    in_blocks = matching_gradient(*setting())
    assert in_blocks[0] == pytest.approx(at_once[0], rel=1e-5)
    assert torch.allclose(in_blocks[1], at_once[1], rtol=1e-3, atol=1e-6)
