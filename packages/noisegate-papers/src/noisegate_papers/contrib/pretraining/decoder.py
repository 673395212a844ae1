"""Trains the decoder of `noisegate_images.networks.decoder` on public images, against heads on a frozen encoder.

An instance-conditioned GAN: Casanova et al. (NeurIPS 2021); Miyato and Koyama (ICLR 2018); Yang et al. (ICLR 2019).

An instance-conditioned GAN (Casanova et al., NeurIPS 2021), as
[decoders](../../docs/decoders.md) says. Each head scores every place of an image on its
own, and by how well it goes with the feature it is to show (a projection, Miyato and
Koyama, ICLR 2018). Two more terms keep an image near its feature, and two draws for one
feature apart (Yang et al., ICLR 2019). The weights that are kept are an average over
the steps. Random numbers are drawn on the processor.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from noisegate.atomic import new_file
from noisegate.devices import choose_device, seeded
from noisegate.errors import OptionError
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate.settings import Settings, Within, settings
from noisegate_images.networks.decoder import (
    DecoderDesign,
    DecoderNetwork,
    build_decoder,
    decoder_from,
    default_channels,
)
from noisegate_images.networks.encoder import LAYERS
from noisegate_images.networks.named import ChosenLayers, FrozenNetwork
from noisegate_images.queries.perceptual import Perceptual, chosen_activations
from noisegate_images.training.adam import Adam
from noisegate_papers.contrib.pretraining.training import (
    Part,
    Pretraining,
    PublicImages,
    Steps,
    Whole,
)

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8

SEEN = ("early", "late", "last")
"""Layers of the encoder that have a head; "middle" has the size of "late", and cost more than it brought."""

_CHANNELS = dict(zip(LAYERS, (64, 64, 144, 144), strict=True))
_WIDTH, _PIXELS = 48, 32
_SLOPE, _SMALLEST = 0.2, 4


class Head(nn.Module):
    """Scores of places: how real they look, and how much like a feature."""

    def __init__(self, channels: int, side: int, features: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(max(math.ceil(math.log2(side / _SMALLEST)), 0)):
            layers += [
                spectral_norm(nn.Conv2d(channels, _WIDTH, 4, stride=2, padding=1)),
                nn.LeakyReLU(_SLOPE),
            ]
            channels = _WIDTH
        layers += [
            spectral_norm(nn.Conv2d(channels, _WIDTH, 3, padding=1)),
            nn.LeakyReLU(_SLOPE),
        ]
        self.body = nn.Sequential(*layers)
        self.score = spectral_norm(nn.Conv2d(_WIDTH, 1, 1))
        self.likeness = nn.Linear(features, _WIDTH)
        nn.init.normal_(self.likeness.weight, std=features**-0.5)

    def forward(
        self,
        activations: Float[Tensor, "rows channels height width"],
        inputs: Float[Tensor, "rows features"],
    ) -> Float[Tensor, "rows places"]:
        """Returns scores of activations beside features."""
        seen = self.body(activations)
        likeness = (
            (seen * self.likeness(inputs)[:, :, None, None]).sum(dim=1).flatten(1)
        )
        score: Tensor = self.score(seen).flatten(1) + likeness * _WIDTH**-0.5
        return score


class ProjectedDiscriminator(nn.Module):
    """One head for each layer that is seen, `SEEN`, for square images, and one for the pixels.

    Activations of each layer are divided by `scales`; `features` is the length of a feature, and the seed is public.
    """

    def __init__(
        self,
        layers: ChosenLayers,
        scales: tuple[float, ...],
        features: int,
        *,
        seed: int,
    ) -> None:
        super().__init__()
        self._layers, self._scales = (
            (layers,),
            scales,
        )  # in a tuple, or it would be a part of this module
        shape = layers.shape
        with seeded(seed):
            self.heads = nn.ModuleList(
                Head(_CHANNELS[name], side, features)
                for name, side in zip(SEEN, _sides(layers), strict=True)
            )
            self.stem = nn.Sequential(
                spectral_norm(
                    nn.Conv2d(shape.channels, _PIXELS, 4, stride=2, padding=1)
                ),
                nn.LeakyReLU(_SLOPE),
            )
            self.heads.append(Head(_PIXELS, shape.height // 2, features))
        self.to(memory_format=torch.channels_last)

    def seen(self, images: Float[Tensor, "rows channels side side"]) -> list[Tensor]:
        """Returns what the heads look at: activations of the layers, in `SEEN`'s order, and the images themselves."""
        parts = activations_of(self._layers[0], images)
        return [
            *(part / scale for part, scale in zip(parts, self._scales, strict=True)),
            2 * images - 1,
        ]

    def forward(
        self, seen: list[Tensor], inputs: Float[Tensor, "rows features"]
    ) -> list[Tensor]:
        """Returns the scores of each head, (rows, places), high for what looks real and like its centred feature."""
        *activations, pixels = seen
        looked_at = [*activations, self.stem(pixels)]
        return [
            head(part, inputs) for head, part in zip(self.heads, looked_at, strict=True)
        ]


def activations_of(
    layers: ChosenLayers, images: Float[Tensor, "rows channels side side"]
) -> list[Tensor]:
    """Returns what layers give for square images in [0, 1], (rows, channels, height, width) each, in `SEEN`'s order."""
    found: dict[int, Tensor] = {}
    layers.each(
        images.permute(0, 2, 3, 1).flatten(1),
        lambda place, values: found.update({place: values}),
    )
    return [
        found[place].reshape(-1, side, side, _CHANNELS[name]).permute(0, 3, 1, 2)
        for place, (name, side) in enumerate(zip(SEEN, _sides(layers), strict=True))
    ]


def _sides(layers: ChosenLayers) -> list[int]:
    return [
        math.isqrt(size // _CHANNELS[name])
        for name, size in zip(SEEN, layers.sizes, strict=True)
    ]


_BLOCK = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Instances:
    """Public images as a decoder is trained on them."""

    pixels: Tensor  # uint8, (images, height, width, channels)
    features: Tensor  # of length 1, (images, features)
    neighbours: Tensor  # the nearest to each, itself first, (images, neighbours)


def instances_of(
    pixels: npt.NDArray[np.uint8], encoding: FeatureMap, *, neighbours: int
) -> Instances:
    """Returns public images with features of length 1 by an encoding; so many neighbours count as one instance."""
    if len(pixels) < neighbours:
        raise OptionError(
            f"neighbours={neighbours} of {len(pixels)} images; give more images, or fewer neighbours."
        )
    rows = (
        pixels[at : at + _BLOCK].reshape(-1, pixels[0].size) / 255
        for at in range(0, len(pixels), _BLOCK)
    )
    seen = [
        encoding(EncodedTable(part, np.zeros((len(part), 0), dtype=np.int32)))
        for part in rows
    ]
    features = torch.from_numpy(np.concatenate(seen))
    found = []
    for block in torch.split(features, _BLOCK):
        # Features have length 1: the largest product is the smallest distance.
        found.append(
            (block @ features.T).topk(neighbours, dim=1).indices.to(torch.int32)
        )
    return Instances(
        pixels=torch.from_numpy(pixels), features=features, neighbours=torch.cat(found)
    )


LAYER = "last"  # the encoder's layer that features are of

_BETA1, _BETA2 = 0.0, 0.99
_STEADY, _LEAST = (
    0.6,
    0.02,
)  # part of the steps at the full learning rate, and what of it the last step has
_WARM = 10  # steps that the average starts with
_MEASURED = 500  # images that the size of activations is measured on


_Weight = Annotated[float, Within(ge=0, le=100), "a number from 0 to 100"]
_Even = Within(ge=2, lt=2**31, check=lambda number: number % 2 == 0)


@settings
class DecoderTraining(Settings):
    """How to train; all of it is public."""

    steps: Steps = 3000
    "Of generator and discriminator."
    batch: Annotated[int, _Even, "even, 2 or more: each feature is drawn twice"] = 64
    "Images a step: two draws for each feature."
    learning_rate: Part = 4e-4
    "Of Adam, for both; it falls over the last four tenths of the steps."
    neighbours: Steps = 10
    "Images that count as pictures of one instance."
    latent: Steps = 32
    "Length of the noise."
    nearness: _Weight = 0.5
    "Weight of 1 − the cosine of an image's feature and the one it was made for."
    apartness: _Weight = 5.0
    "Weight of what two draws for a feature are too alike."
    apart: Part = 0.12
    "Mean absolute difference of intensities from which two draws are different enough."
    average: Part = 0.998
    "How much of the averaged weights is kept at a step."
    seed: Whole = 0
    "Of weights, order and noise."
    encoder: str = ""
    "SHA-256 of the weights of the encoder; whatever stands here, `DecoderFitting` puts it in."


class DecoderFitting(Pretraining[DecoderTraining]):
    """One training on squares, in colour or grey; an OptionError if they are too few, or of a size that none makes."""

    def __init__(
        self,
        images: PublicImages,
        encoder: FrozenNetwork,
        settings: DecoderTraining,
        *,
        device: str = "cpu",
    ) -> None:
        self.images, self.settings = images, replace(settings, encoder=encoder.sha256)
        self.device = choose_device(device)
        _, height, width, channels = images.pixels.shape
        shape = ImageShape(height=height, width=width, channels=channels)
        encoding = Perceptual(
            activations=chosen_activations(encoder, (LAYER,), shape, pool=True)
        )
        self.design = DecoderDesign(
            shape=shape,
            features=encoding.dim,
            latent=settings.latent,
            channels=default_channels(shape),
            encoder=encoder.sha256,
            layer=LAYER,
        )
        self._known = instances_of(
            images.pixels, encoding, neighbours=settings.neighbours
        )
        self._generator = build_decoder(self.design, seed=settings.seed)
        self._generator.centre.copy_(self._known.features.mean(dim=0))
        self._generator.to(self.device)
        self._averaged = copy.deepcopy(self._generator)
        layers = ChosenLayers(
            encoder.module, SEEN, shape, mean=encoder.mean, std=encoder.std
        )
        with torch.no_grad():
            seen = activations_of(
                layers, self._known.pixels[:_MEASURED].permute(0, 3, 1, 2) / 255
            )
        scales = tuple(float(part.square().mean().sqrt()) for part in seen)
        seeing = layers.to(self.device)
        heads = ProjectedDiscriminator(seeing, scales, encoding.dim, seed=settings.seed)
        self._discriminator = heads.to(self.device)
        self._adams = {
            name: Adam(
                {str(place): value for place, value in enumerate(module.parameters())},
                learning_rate=1.0,
                beta1=_BETA1,
                beta2=_BETA2,
            )
            for name, module in (
                ("maker", self._generator),
                ("judge", self._discriminator),
            )
        }
        self.parts = {
            "made": self._generator,
            "averaged": self._averaged,
            "judged": self._discriminator,
        } | {f"{name}/optimiser": adam for name, adam in self._adams.items()}

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self.settings.steps

    @property
    def decoder(self) -> DecoderNetwork:
        """The decoder so far, averaged, frozen and in evaluation mode."""
        return decoder_from(
            self.design,
            {name: value.cpu() for name, value in self._averaged.state_dict().items()},
        )

    def samples(
        self, rows: int, draws: int
    ) -> tuple[
        UInt8[Tensor, "rows height width channels"],
        UInt8[Tensor, "rows draws height width channels"],
    ]:
        """Returns public images and what is drawn for their features, to be examined."""
        random = self._random(2, 0)
        chosen = torch.randperm(len(self._known.pixels), generator=random)[:rows]
        features = self._known.features[chosen].repeat_interleave(draws, dim=0)
        with torch.no_grad():
            made = self.decoder(
                features,
                torch.randn(len(features), self.settings.latent, generator=random),
            )
        intensities = (made * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
        return self._known.pixels[chosen], intensities.unflatten(
            0, (len(chosen), draws)
        )

    def _descend(self) -> float:
        progress, settings = self.step / self.steps, self.settings
        falling = (
            1.0 if progress < _STEADY else max(_LEAST, (1 - progress) / (1 - _STEADY))
        )
        rate = settings.learning_rate * falling
        features, real, noise = self._batch()
        inputs = (features - self._generator.centre) * self.design.features**0.5
        made = self._generator(features, noise)
        with torch.no_grad():
            seen_real = self._discriminator.seen(real)
        seen_made = self._discriminator.seen(made)
        # The hinge loss of the discriminator, summed over its heads.
        both = [
            torch.cat([real, part.detach()])
            for real, part in zip(seen_real, seen_made, strict=True)
        ]
        told = [
            score.chunk(2)
            for score in self._discriminator(both, torch.cat([inputs, inputs]))
        ]
        loss = torch.stack(
            [
                torch.relu(1 - one).mean() + torch.relu(1 + other).mean()
                for one, other in told
            ]
        ).sum()
        self._adams["judge"].descend(loss, scale=rate)
        scores = self._discriminator(seen_made, inputs)
        wanted = -torch.stack([score.mean() for score in scores]).mean()
        # What images are too far from their feature, and two draws for one too alike.
        near = nn.functional.cosine_similarity(
            seen_made[SEEN.index(LAYER)].mean(dim=(2, 3)), features
        ).mean()
        one, other = made.chunk(2)
        alike = torch.relu(
            settings.apart - (one - other).abs().mean(dim=(1, 2, 3))
        ).mean()
        wanted = wanted + (settings.nearness * (1 - near) + settings.apartness * alike)
        self._adams["maker"].descend(wanted, scale=rate)
        kept = min(settings.average, (1 + self.step) / (_WARM + self.step))
        target = self._generator.state_dict()
        for name, value in self._averaged.state_dict().items():
            if value.dtype == torch.float32:
                value.lerp_(target[name], 1 - kept)
        return float(loss.detach()) / len(scores)

    def _batch(
        self,
    ) -> tuple[
        Float[Tensor, "rows features"],
        Float[Tensor, "rows channels side side"],
        Float[Tensor, "rows latent"],
    ]:
        """Returns features, a real image for each, and noise; the second half of the features is the first again."""
        known, random, half = (
            self._known,
            self._random(1, self.step),
            self.settings.batch // 2,
        )
        chosen = torch.randint(len(known.features), (half,), generator=random).repeat(2)
        rank = torch.randint(known.neighbours.shape[1], (2 * half,), generator=random)
        real = (
            known.pixels[known.neighbours[chosen, rank].long()].permute(0, 3, 1, 2)
            / 255
        )
        mirrored = torch.rand(len(real), 1, 1, 1, generator=random) < 0.5
        real = torch.where(mirrored, real.flip(3), real).contiguous(
            memory_format=torch.channels_last
        )
        noise = torch.randn(2 * half, self.settings.latent, generator=random)
        return (
            known.features[chosen].to(self.device),
            real.to(self.device),
            noise.to(self.device),
        )

    def _random(self, use: int, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(
            (self.settings.seed << 32) + (use << 30) + number
        )


ROWS, DRAWS = 16, 7
_LEAST_SIDE, _GAP, _PAPER = 56, 4, 255  # pixels of the picture, and their grey


def write_grid(fitting: DecoderFitting, path: Path) -> None:
    """Writes the picture of a training so far to `path`, a PNG file, in place of an earlier one."""
    from PIL import Image

    images, draws = fitting.samples(ROWS, DRAWS)
    cells = torch.cat([images[:, None], draws], dim=1).numpy()
    scale = max(math.ceil(_LEAST_SIDE / max(cells.shape[2:4])), 1)
    large = cells.repeat(scale, axis=2).repeat(scale, axis=3)
    framed = np.pad(
        large, ((0, 0), (0, 0), (_GAP, 0), (_GAP, 0), (0, 0)), constant_values=_PAPER
    )
    paper = np.vstack([np.hstack(list(row)) for row in framed])
    # The image itself stands apart from what was drawn for it.
    paper = np.insert(paper, [framed.shape[3]] * 2 * _GAP, _PAPER, axis=1)
    paper = np.pad(paper, ((0, _GAP), (0, _GAP), (0, 0)), constant_values=_PAPER)
    with new_file(path, "grid", force=True) as file:
        Image.fromarray(paper[:, :, 0] if paper.shape[2] == 1 else paper).save(
            file, format="png"
        )
