"""Trains the decoder of `noisegate.networks.decoder` on public images, against heads on a frozen encoder.

An instance-conditioned GAN (Casanova et al., NeurIPS 2021): for the feature of one image, what is drawn should look
like the images next to it. The discriminator sees through the encoder (Sauer et al., NeurIPS 2021), which is what makes
some thousand steps enough. Two more terms keep an image near its feature, and two draws for one feature apart (Yang et
al., ICLR 2019). The weights that are kept are an average over the steps.

Every step is a function of the weights, the seed and its number, so that an interrupted training goes on with the same
bits, on one thread of the same kind of processor. What is drawn at random is drawn on the processor, wherever the
networks are: a GPU sees the same images and noise, rounds otherwise, and ends at other weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from noisegate.errors import OptionError
from noisegate.features.perceptual import Perceptual
from noisegate.fitting.device import choose_device
from noisegate.fitting.saved_state import optimiser_tensors, restore_optimiser, under
from noisegate.methods.activations import chosen_activations
from noisegate.networks.decoder import DecoderDesign, DecoderNetwork, build_decoder, decoder_from, default_channels
from noisegate.networks.named import FrozenNetwork
from noisegate.pretraining.encoder import tiny_numbers_as_zero
from noisegate.pretraining.images import PublicImages
from noisegate.pretraining.instances import instances_of
from noisegate.pretraining.projected import SEEN, ProjectedDiscriminator, activations_of
from noisegate.schema.pixels import ImageShape

LAYER = "last"
"""The encoder's layer that features are of."""

_BETAS = (0.0, 0.99)
_STEADY, _LEAST = 0.6, 0.02  # part of the steps at the full learning rate, and what of it the last step has
_WARM = 10  # steps that the average starts with
_MEASURED = 500  # images that the size of activations is measured on


@dataclass(frozen=True, kw_only=True)
class DecoderTraining:
    """How to train; all of it is public.

    Attributes:
        steps: Of generator and discriminator.
        batch: Images a step, an even number: two draws for each feature.
        learning_rate: Of Adam, for both; it falls over the last four tenths of the steps.
        neighbours: Images that count as pictures of one instance.
        latent: Length of the noise.
        nearness: Weight of 1 − the cosine of an image's feature and the one it was made for.
        apartness: Weight of what two draws for a feature are too alike.
        apart: Mean absolute difference of intensities from which two draws are different enough.
        average: How much of the averaged weights is kept at a step.
        seed: Of weights, order and noise.
        encoder: SHA-256 of the weights of the encoder; whatever stands here, `DecoderFitting` puts it in.
    """

    steps: int = 3000
    batch: int = 64
    learning_rate: float = 4e-4
    neighbours: int = 10
    latent: int = 32
    nearness: float = 0.5
    apartness: float = 5.0
    apart: float = 0.12
    average: float = 0.998
    seed: int = 0
    encoder: str = ""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 2), ("neighbours", 1), ("latent", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
                raise OptionError(f"{name}={value!r} of a decoder's training must be a whole number, {least} or more.")
        if self.batch % 2:
            raise OptionError(f"batch={self.batch} of a decoder's training must be even: each feature is drawn twice.")
        for name, high in (("learning_rate", 1), ("nearness", 100), ("apartness", 100), ("apart", 1), ("average", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
                raise OptionError(f"{name}={value!r} of a decoder's training must be a number from 0 to {high}.")


class DecoderFitting:
    """One training. It may be stopped between steps, kept (`state`), and taken up again (`restore`).

    Args:
        images: Public images, squares of some size, colour or one channel; their labels are not used.
        encoder: What gives the features, with the layers of `noisegate.networks.encoder`.
        settings: How.
        device: Where the networks are trained; "auto" is a GPU when there is one.

    Raises:
        OptionError: if there are too few images, they are of a size that no decoder makes, or there is no such device.
    """

    def __init__(
        self, images: PublicImages, encoder: FrozenNetwork, settings: DecoderTraining, *, device: str = "cpu"
    ) -> None:
        self.images, self.settings, self.step = images, replace(settings, encoder=encoder.sha256), 0
        self.device = choose_device(device)
        _, height, width, channels = images.pixels.shape
        shape = ImageShape(height=height, width=width, channels=channels)
        encoding = Perceptual(activations=chosen_activations(encoder, (LAYER,), shape, pool=True))
        self.design = DecoderDesign(
            shape=shape,
            features=encoding.dim,
            latent=settings.latent,
            channels=default_channels(shape),
            encoder=encoder.sha256,
            layer=LAYER,
        )
        self._known = instances_of(images.pixels, encoding, neighbours=settings.neighbours)
        self._maker = build_decoder(self.design, seed=settings.seed)
        self._maker.centre.copy_(self._known.features.mean(dim=0))
        self._maker.to(self.device)
        self._averaged = copy.deepcopy(self._maker)
        layers = chosen_activations(encoder, SEEN, shape, pool=False).layers
        with torch.no_grad():
            seen = activations_of(layers, self._known.pixels[:_MEASURED].permute(0, 3, 1, 2) / 255)
        scales = tuple(float(part.square().mean().sqrt()) for part in seen)
        self._judge = ProjectedDiscriminator(layers.to(self.device), scales, encoding.dim, seed=settings.seed).to(
            self.device
        )
        self._optimisers = {
            name: torch.optim.Adam(module.parameters(), lr=0.0, betas=_BETAS)
            for name, module in (("maker", self._maker), ("judge", self._judge))
        }

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self.settings.steps

    @property
    def decoder(self) -> DecoderNetwork:
        """The decoder so far, averaged, frozen and in evaluation mode."""
        return decoder_from(self.design, {name: value.cpu() for name, value in _weights(self._averaged).items()})

    def run(self, report: Callable[[int, float], None] | None = None) -> None:
        """Runs the remaining steps.

        Args:
            report: Called after each step with the number of steps done and the discriminator's hinge loss, a mean
                over its heads: 2 when it tells nothing apart, 0 when it tells everything apart.
        """
        with tiny_numbers_as_zero():
            while self.step < self.steps:
                loss = self._descend()
                self.step += 1
                if report:
                    report(self.step, loss)

    def samples(self, rows: int, draws: int) -> tuple[Tensor, Tensor]:
        """Returns public images and what is drawn for their features, to be looked at.

        Returns:
            (rows, height, width, channels), uint8; and (rows, draws, height, width, channels), uint8.
        """
        random = self._random(2, 0)
        chosen = torch.randperm(len(self._known.pixels), generator=random)[:rows]
        features = self._known.features[chosen].repeat_interleave(draws, dim=0)
        with torch.no_grad():
            made = self.decoder(features, torch.randn(len(features), self.settings.latent, generator=random))
        intensities = (made * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
        return self._known.pixels[chosen], intensities.unflatten(0, (len(chosen), draws))

    def state(self) -> dict[str, Tensor]:
        """Returns everything that `restore` needs to go on with the same bits, as named tensors."""
        parts = {f"{name}/{key}": value for name, part in self._parts().items() for key, value in part.items()}
        parts["step"] = torch.tensor(self.step)
        return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in parts.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called.

        Raises:
            KeyError, RuntimeError: if the state is that of another training.
        """
        for name, module in (("made", self._maker), ("averaged", self._averaged), ("judged", self._judge)):
            module.load_state_dict(under(tensors, f"{name}/"))
        for name, optimiser in self._optimisers.items():
            restore_optimiser(optimiser, under(tensors, f"{name}/"))
        self.step = int(tensors["step"])

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        modules = {"made": self._maker, "averaged": self._averaged, "judged": self._judge}
        states: dict[str, Mapping[str, Tensor]] = {name: module.state_dict() for name, module in modules.items()}
        return states | {name: optimiser_tensors(optimiser) for name, optimiser in self._optimisers.items()}

    def _descend(self) -> float:
        for optimiser in self._optimisers.values():
            for group in optimiser.param_groups:
                group["lr"] = self.settings.learning_rate * _falling(self.step / self.steps)
        features, real, noise = self._batch()
        inputs = (features - self._maker.centre) * self.design.features**0.5
        made = self._maker(features, noise)
        with torch.no_grad():
            seen_real = self._judge.seen(real)
        seen_made = self._judge.seen(made)
        loss = self._judged(seen_real, [part.detach() for part in seen_made], inputs)
        self._improve("judge", loss)
        self._judge.requires_grad_(False)
        scores = self._judge(seen_made, inputs)
        wanted = -torch.stack([score.mean() for score in scores]).mean()
        self._improve("maker", wanted + self._kept_right(made, seen_made[SEEN.index(LAYER)], features))
        self._judge.requires_grad_(True)
        self._move_average()
        return float(loss.detach()) / len(scores)

    def _batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns features, a real image for each, and noise; the second half of the features is the first again."""
        known, random, half = self._known, self._random(1, self.step), self.settings.batch // 2
        chosen = torch.randint(len(known.features), (half,), generator=random).repeat(2)
        rank = torch.randint(known.neighbours.shape[1], (2 * half,), generator=random)
        real = known.pixels[known.neighbours[chosen, rank].long()].permute(0, 3, 1, 2) / 255
        mirrored = torch.rand(len(real), 1, 1, 1, generator=random) < 0.5
        real = torch.where(mirrored, real.flip(3), real).contiguous(memory_format=torch.channels_last)
        noise = torch.randn(2 * half, self.settings.latent, generator=random)
        return known.features[chosen].to(self.device), real.to(self.device), noise.to(self.device)

    def _judged(self, real: list[Tensor], made: list[Tensor], inputs: Tensor) -> Tensor:
        """Returns the hinge loss of the discriminator, summed over its heads."""
        both = [torch.cat(pair) for pair in zip(real, made, strict=True)]
        scores = [score.chunk(2) for score in self._judge(both, torch.cat([inputs, inputs]))]
        losses = [torch.relu(1 - one).mean() + torch.relu(1 + other).mean() for one, other in scores]
        return torch.stack(losses).sum()

    def _kept_right(self, made: Tensor, last: Tensor, features: Tensor) -> Tensor:
        """Returns what images are too far from their feature, and two draws for one too alike."""
        near = nn.functional.cosine_similarity(last.mean(dim=(2, 3)), features).mean()
        one, other = made.chunk(2)
        alike = torch.relu(self.settings.apart - (one - other).abs().mean(dim=(1, 2, 3))).mean()
        return self.settings.nearness * (1 - near) + self.settings.apartness * alike

    def _improve(self, name: str, loss: Tensor) -> None:
        optimiser = self._optimisers[name]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def _move_average(self) -> None:
        kept = min(self.settings.average, (1 + self.step) / (_WARM + self.step))
        target = self._maker.state_dict()
        for name, value in self._averaged.state_dict().items():
            if value.dtype == torch.float32:
                value.lerp_(target[name], 1 - kept)

    def _random(self, use: int, number: int) -> torch.Generator:
        return torch.Generator().manual_seed((self.settings.seed << 32) + (use << 30) + number)


def _falling(progress: float) -> float:
    """Returns the part of the learning rate at `progress` in [0, 1)."""
    return 1.0 if progress < _STEADY else max(_LEAST, (1 - progress) / (1 - _STEADY))


def _weights(network: DecoderNetwork) -> dict[str, Tensor]:
    """Returns what a decoder is made of: all but the counters of batches."""
    return {name: value for name, value in network.state_dict().items() if not name.endswith("num_batches_tracked")}
