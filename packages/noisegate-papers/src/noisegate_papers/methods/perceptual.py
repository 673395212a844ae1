"""Base of both kinds of DP-MEPF: queries of perceptual features, and the fit to their results.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P. One plan releases
class-wise sums of the activations of a network (φ₁), of their squares (φ₂), and counts, to which a generator is then
fitted. For early stopping, a second, unlabelled mean embedding is released with ten times the noise, and the generator
that is closest to it is used. For deviations see [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from noisegate.methods.embedding import COUNTS, Embedding
from noisegate.methods.method import Method
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap, torch_forms
from noisegate.settings import Count, Share, Widths, by_preset, settings
from noisegate_images.methods.generators import (
    FitsGenerator,
    ImageGeneratorSettings,
    initial_image_generator,
)
from noisegate_images.models.image_network import ImageKind, residual_channels
from noisegate_images.queries.perceptual import Activations, Perceptual

if TYPE_CHECKING:
    from noisegate.schema.pixels import ImageShape
    from noisegate_papers.training.perceptual_matching import PerceptualMatching

Preset: TypeAlias = Literal["default", "paper", "paper-grey"]
"""This library's settings, and the paper's for CIFAR-10 and CelebA, and for MNIST and FashionMNIST: section 6, Tables 7
and 8, and the authors' program, at one learning rate; benchmarks/dp_mepf/mepf_rates.py has those of Table 7."""

_CIFAR10_AND_GREY_LOSS: Mapping[str, Any] = {
    "schedule": "constant",
    "loss": "moving-average",
    "average_eps": 1e-8,
    "average_reduction": "mean",
    "ema_decay": 0.0,
    "class_power": 0.0,
    "check_every": 5000,
    "check_images": 5000,
}

FIT: Mapping[Preset, Mapping[str, Any]] = {
    "default": {},
    # Labelled CIFAR-10, φ₁ alone, ε of 5 or more.
    "paper": {
        **_CIFAR10_AND_GREY_LOSS,
        "steps": 200_000,
        "batch": 128,
        "learning_rate": 1e-3,
        "average_rate": 1e-4,
    },
    # MNIST, any ε.
    "paper-grey": {
        **_CIFAR10_AND_GREY_LOSS,
        "steps": 100_000,
        "batch": 100,
        "learning_rate": 1e-5,
        "average_rate": 1e-4,
    },
}
"""Changes to the defaults of the fit, by preset."""

FIRST = "first-moments"
"""The query of φ₁."""
SECOND = "second-moments"
"""The query of φ₂."""
STOPPING = {FIRST: "stopping-first", SECOND: "stopping-second"}
"""The query for early stopping that belongs to each moment."""


@settings
class PerceptualEmbedding(ImageGeneratorSettings, FitsGenerator):
    """Settings of the queries of perceptual features, and of the generator that is fitted to their results."""

    preset: Preset = "default"
    """"default", "paper": VGG-19, both moments, private early stopping, residual generator, 200,000 steps; or
    "paper-grey", for MNIST: blocks of a ResNet18, both moments, a small generator, 100,000 steps."""
    moments: Annotated[Literal[1, 2], "1 or 2"] = by_preset(1, paper=2, paper_grey=2)
    """1 for the activations only, 2 for their squares, too."""
    stopping: Literal["private", "none", "discrepancy"] = by_preset(
        "none", paper="private"
    )
    """Early stopping: "private", with a released embedding; "discrepancy", if the distance to the released means is no
    larger than expected from the noise alone; or "none"."""
    first_share: Share = 1.0
    """Share of the budget for φ₁."""
    second_share: Share = 1.0
    """Share of the budget for φ₂."""
    counts_share: Share = 0.01
    """Share of the budget for the counts."""
    stopping_share: Share = 0.01
    """Share of the budget for each embedding for early stopping, relative to that of its moment. The default gives ten
    times the noise, as in the paper's code."""
    generator: ImageKind = by_preset("convolutional", paper="residual")
    """"convolutional", "residual", "sub-pixel" or "fully-connected"."""
    latent: Count = by_preset(32, paper=90, paper_grey=10)
    """Length of the generator's noise vector. For grey images, the paper has 10 numbers in addition to the one-hot
    label, as DP-MERF has."""
    hidden: Widths = by_preset((200,), paper=(), paper_grey=(500,))
    """Widths of the generator's fully connected layers."""
    channels: Widths = ()
    """Channels of the generator's convolutions; empty for those of the papers."""

    @property
    def perceptual_fit_defaults(self) -> Mapping[str, Any]:
        """What is changed in the defaults of the fit."""
        stops_at_noise = self.stopping == "discrepancy"
        return {**FIT[self.preset], "stop_at_noise": stops_at_noise}

    def fill_in_channels(self, shape: ImageShape) -> None:
        """Sets the papers' channels where none were given; called before the settings are used.

        Args:
            shape: Shape of the images.
        """
        is_residual = self.generator == "residual"
        default = residual_channels(shape) if is_residual else (16, 8)
        object.__setattr__(self, "channels", self.channels or default)
        self.generator_network(shape)

    def perceptual_embeddings(
        self, activations: Activations, compared: Activations | None
    ) -> dict[str, Embedding]:
        """Returns the sums of each moment, and the sums of all records together for early stopping.

        Args:
            activations: The map from images to the features of the moments.
            compared: The map to the features for early stopping, which are averages of channels: few numbers, because
                they have much more noise. None for no early stopping.
        """
        shares = {FIRST: self.first_share}
        if self.moments == 2:
            shares[SECOND] = self.second_share
        orders: Mapping[str, Literal[1, 2]] = {FIRST: 1, SECOND: 2}
        embeddings = {
            name: Embedding(
                Perceptual(activations=activations, moment=orders[name]), share
            )
            for name, share in shares.items()
        }
        if compared is not None:
            for name, share in shares.items():
                embeddings[STOPPING[name]] = Embedding(
                    Perceptual(activations=compared, moment=orders[name]),
                    self.stopping_share * share,
                    per_class=False,
                )
        return embeddings

    def fit_to_moments(
        self,
        release: Release,
        maps: Mapping[str, FeatureMap],
        method: Method,
        *,
        seed: int,
        device: str,
    ) -> PerceptualMatching:
        """Returns the fit of the generator to the moments in a release, ready to run.

        Args:
            release: The release.
            maps: The feature map of each query.
            method: The method of the release, for the settings of its fit.
            seed: Seed of weights and noise vectors.
            device: "auto", "cpu", "cuda" or "mps".
        """
        from noisegate.devices import choose_device
        from noisegate_images.training.target import read_target
        from noisegate_papers.training.perceptual_matching import (
            PerceptualMatching,
            Validation,
        )

        target = read_target(release, counts=COUNTS)
        fit_settings = method.fit_settings()
        moment_maps = {
            name: feature_map for name, feature_map in maps.items() if name in STOPPING
        }
        stopping_maps = {name: maps[name] for name in STOPPING.values() if name in maps}
        validation = None
        if stopping_maps:
            # Candidates are compared with released sums over all records, by their
            # released number.
            validation = Validation(
                means={
                    name: release.values[name][:, 0] / target.records
                    for name in stopping_maps
                },
                embeddings=torch_forms(stopping_maps),
                weights=target.weights,
                images=fit_settings.check_images,
            )
        network = self.generator_network(method.shape)
        return PerceptualMatching(
            initial_image_generator(network, len(target.weights), seed=seed),
            target,
            torch_forms(moment_maps),
            fit_settings,
            validation=validation,
            seed=seed,
            device=choose_device(device),
        )
