import copy

import pytest
import torch

from noisegate.schema.pixels import ImageShape
from noisegate_images.models.image import build_image_generator
from noisegate_images.models.image_network import ImageNetwork
from noisegate_images.training.split_batch import SplitBatchLoss

NETWORK = ImageNetwork(
    shape=ImageShape(height=8, width=8),
    kind="sub-pixel",
    latent=3,
    hidden=(),
    channels=(4, 4),
)
LABELS = torch.tensor([0, 0, 0, 1, 1, 1])
WEIGHTS = torch.tensor([0.3, 0.7])


def residuals(images):
    """(4, 2): what is left of four pixels of each class's mean image."""
    return images.reshape(2, 3, -1).mean(dim=1)[:, 30:34].T - 0.2


@pytest.fixture
def generator():
    return build_image_generator(NETWORK, 2, seed=0).train()


def noise():
    return torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


def test_slopes_are_those_of_the_inner_product_of_both_halves(generator):
    found = SplitBatchLoss(generator, residuals).gradients(noise(), LABELS, WEIGHTS)
    # Straight from the definition: one half after the other, and one loss of both.
    first, second = (residuals(generator(half, LABELS)) for half in noise().chunk(2))
    loss = (WEIGHTS * (first * second).sum(dim=0)).sum()
    expected = torch.autograd.grad(loss, list(generator.parameters()))
    for slope, of in zip(found, expected, strict=True):
        assert torch.allclose(slope, of, rtol=1e-4, atol=1e-8)


def test_a_half_does_not_feel_the_other(generator):
    """Normalised together, the residuals of the halves are dependent and their inner product is biased."""
    halves = []
    for second in (0.0, 5.0):
        seen = []

        def keep(images, seen=seen):
            seen.append(residuals(images))
            return seen[-1]

        first = noise()[:6]
        SplitBatchLoss(generator, keep).gradients(
            torch.cat([first, first + second]), LABELS, WEIGHTS
        )
        halves.append(seen)
    assert any(torch.equal(a, b) for a in halves[0] for b in halves[1])
    assert not all(torch.equal(a, b) for a in halves[0] for b in halves[1])


def test_the_generator_keeps_its_statistics_and_two_runs_agree(generator):
    before = copy.deepcopy(generator.state_dict())
    halves = SplitBatchLoss(generator, residuals)
    first, again = (
        halves.gradients(noise(), LABELS, WEIGHTS),
        halves.gradients(noise(), LABELS, WEIGHTS),
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(
        torch.equal(value, before[name])
        for name, value in generator.state_dict().items()
    )


def test_a_penalty_on_what_is_made_is_added_to_the_loss_as_a_mean_of_both_halves(
    generator,
):
    def rough(made):
        return 3 * generator.total_variation(made)

    found = SplitBatchLoss(generator, residuals, rough).gradients(
        noise(), LABELS, WEIGHTS
    )
    made = [generator(half, LABELS) for half in noise().chunk(2)]
    first, second = (residuals(half) for half in made)
    loss = (WEIGHTS * (first * second).sum(dim=0)).sum() + (
        rough(made[0]) + rough(made[1])
    ) / 2
    for slope, of in zip(
        found, torch.autograd.grad(loss, list(generator.parameters())), strict=True
    ):
        assert torch.allclose(slope, of, rtol=1e-4, atol=1e-8)


def test_the_total_variation_is_that_of_neighbours_down_and_across(generator):
    image = torch.zeros(1, 8, 8)
    image[0, :, 4:] = 1.0
    # One edge in each of 8 rows of 7 neighbours across; none down.
    assert float(generator.total_variation(image.flatten(1))) == pytest.approx(8 / 56)
