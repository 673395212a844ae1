import pytest
import torch

from noisegate.schema import Categorical, Continuous, ImageShape, Schema, pixel_schema
from noisegate_images.models.image import build_image_generator
from noisegate_images.models.image_network import ImageNetwork
from noisegate_papers.models.inputs import inputs_of
from noisegate_papers.training.synthetic_set import FreeRecords, GeneratedImages

MIXED = Schema(
    (
        Continuous(name="u", lower=0.0, upper=1.0),
        Continuous(name="v", lower=0.0, upper=1.0, missing=True),
        Categorical(name="c", levels=("r", "g", "b")),
        Categorical(name="y", levels=("no", "yes")),
    ),
    label="y",
)


def records(schema=MIXED, centre=0.5, init_std=1.0, momentum=0.5, seed=0):
    inputs = inputs_of(schema, centre=centre)
    return FreeRecords(inputs, 6, init_std=init_std, learning_rate=0.5, momentum=momentum, seed=seed)


def images(seed=0):
    network = ImageNetwork(
        shape=ImageShape(height=8, width=4), kind="convolutional", latent=3, hidden=(8,), channels=(4, 2)
    )
    generator = build_image_generator(network, 2, seed=0)
    return GeneratedImages(generator, torch.arange(2).repeat_interleave(3), centre=0.25, learning_rate=0.05, seed=seed)


def test_a_mixed_record_is_shown_as_numbers_chances_and_shares():
    shown = records().inputs().detach()
    assert shown.shape == (6, 2 + 1 + 3)
    assert (shown[:, :2].abs() <= 1).all()
    assert ((shown[:, 2] > 0) & (shown[:, 2] < 1)).all()
    # A number that may be missing counts as much as it is there.
    assert (shown[:, 1].abs() <= 1 - shown[:, 2]).all()
    assert torch.allclose(shown[:, 3:].sum(dim=1), torch.ones(6))


@pytest.mark.parametrize(("centre", "low", "high"), [(0.0, 0.0, 2.0), (0.5, -1.0, 1.0), (1.0, -2.0, 0.0)])
def test_numbers_stay_within_their_bounds_while_logits_do_not(centre, low, high):
    made = records(centre=centre, init_std=5.0)
    for _ in range(20):
        shown = made.inputs()
        made.descend(shown, torch.ones_like(shown))
    values = made.state_dict()["records"]
    assert values[:, :1].min() == low
    assert records(centre=centre, init_std=5.0).state_dict()["records"][:, :2].max() == high
    assert values[:, 2:].abs().max() > 2


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
