"""A GAN in feature space on public features, before it is shown private ones: the start of DP-GAN-FT.

It is the same game as with private records (`training`), where the gradient at real ones is the plain mean over
public features and nothing is clipped. All of it is public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from noisegate.generators.feature_network import FeatureGenerator
    from noisegate.generators.generator import Generator
    from noisegate.methods.gan.training import Rules
    from noisegate.networks.discriminator import Discriminator

_REAL = 2  # beside the two players of `training`


def show_features(generator: Generator, noise: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
    """Returns features with entries of size 1 or so, (rows, features); see `noisegate.generators.shown.Shown`."""
    made: Tensor = generator(noise, labels)
    return made * shown_scale(made.shape[1])


def shown_scale(features: int) -> float:
    """Returns what a feature of length 1 is multiplied with before a discriminator sees it."""
    return float(features**0.5)


def pretrain(
    rules: Rules, generator: FeatureGenerator, discriminator: Discriminator, rows: Tensor, *, steps: int
) -> None:
    """Trains both networks in place.

    Args:
        rules: How they play; its norm should be None.
        generator: At its start, on a device.
        discriminator: At its start, on the same.
        rows: Public features as the discriminator sees them, with their one-hot labels if there are any, (public
            records, inputs + labels), on the same.
        steps: Of the discriminator.
    """
    import torch
    from torch.nn.functional import softplus

    from noisegate.methods.gan.training import AdversarialTraining

    classes = discriminator.classes
    shares = rows[:, -classes:].mean(dim=0).clamp_min(1e-6).log() if classes else torch.zeros(1, device=rows.device)
    training = AdversarialTraining(
        rules, generator, shares, learned=False, shown=show_features, discriminator=discriminator, records=1.0
    )
    weights = dict(discriminator.named_parameters())
    for step in range(steps):
        chosen = torch.randint(len(rows), (rules.batch,), generator=rules.random(_REAL, step)).to(rows.device)
        slopes = torch.autograd.grad(softplus(-discriminator(rows[chosen])).mean(), list(weights.values()))
        training.step(dict(zip(weights, slopes, strict=True)))
