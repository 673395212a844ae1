"""Match a generator's mean features to released ones, and stop at the noise (DP-MERF, section 4)."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch
from torch import Tensor

from noisegate.devices import one_thread
from noisegate.errors import OptionError
from noisegate.models.checkpoint import FitState, joined, under
from noisegate.queries.feature_map import GeneratorOutput, TorchForm
from noisegate_images.models.generator import Generator
from noisegate_images.models.image import ImageGenerator, settle
from noisegate_images.training.adam import Adam, Stateful, one_cycle
from noisegate_images.training.fit import FitSettings, MomentSettings
from noisegate_images.training.split_batch import SplitBatchLoss
from noisegate_images.training.target import Floats, Target, class_weights

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

_MIN_HALF_ROWS = 8
"""Rows of each class in half a batch, whatever the batch is."""


@dataclass(frozen=True, kw_only=True)
class Discrepancy:
    """The squared distance to the release over what its noise alone would leave, without bias; and its standard error.

    All coordinates of all present classes count alike, whatever the loss; the value may be below zero.
    """

    value: float
    error: float


class MomentMatching(ABC):
    """One fit of one generator, which is changed in place by the mean features of what it gives; a `Resumable`.

    By Adam, with an exponential average of the weights, which is what is kept, and a look now and then at the distance.

    Args:
        generator: The generator with its weights before the fit.
        target: The released means.
        embeddings: The torch form of each block's feature map.
        settings: How it is fitted.
        seed: Seed of the noise vectors.
        device: Where torch computes.
    """

    settings: MomentSettings
    beta1: ClassVar[float] = 0.9
    progress: ClassVar[tuple[str, ...]] = ("step", "discrepancy", "at_noise")
    """The attributes that are numbers, in the order of a saved state."""

    def __init__(
        self,
        generator: Generator,
        target: Target,
        embeddings: Mapping[str, TorchForm],
        settings: MomentSettings,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.steps = settings.steps
        self.target = target
        self.generator = generator.to(device)
        self.average = copy.deepcopy(self.generator).requires_grad_(False).eval()
        self.random = torch.Generator().manual_seed(seed)
        self.step = 0
        self.discrepancy = math.inf
        self.at_noise = False
        self._device = device
        self._rate: Callable[[float], float] = one_cycle
        """The part of the peak learning rate at a part of the steps."""
        self._adam = self._optimiser(settings.prior_rate)
        self._embeddings = {name: form.to(device) for name, form in embeddings.items()}
        present = target.present
        self._classes = torch.from_numpy(present)
        self._means = {
            name: self._tensor(target.means[name][present].T) for name in embeddings
        }
        # Residuals in noise standard deviations weigh blocks as maximum likelihood does.
        self._precisions = {
            name: self._tensor(1 / target.noise_std[name][present])
            for name in embeddings
        }
        self._coordinates = sum(means.numel() for means in self._means.values())
        self._parts: dict[str, Stateful] = {
            "generator": self.generator,
            "average": self.average,
        }
        self._set_up(target)

    def _optimiser(self, prior_rate: float) -> Adam:
        """Returns Adam on the generator's weights, by their numbers.

        Args:
            prior_rate: Part of the learning rate at which weights learn that were learnt
                from public images before.
        """
        prefix = self.generator.pretrained
        weights: dict[str, Tensor] = {}
        slower: dict[str, float] = {}
        for index, (name, value) in enumerate(self.generator.named_parameters()):
            weights[f"{index}"] = value
            if prefix and name.startswith(prefix):
                slower[f"{index}"] = prior_rate
        return Adam(weights, learning_rate=1.0, beta1=self.beta1, slower=slower)

    @abstractmethod
    def _set_up(self, target: Target) -> None:
        """Prepares what the loss needs; called at the end of the constructor."""

    @abstractmethod
    def _gradients(self) -> tuple[Tensor, ...]:
        """Returns the gradients of the loss in the generator's parameters, on a fresh batch."""

    @abstractmethod
    def _batch(
        self, generator: Generator
    ) -> tuple[Shaped[Tensor, "rows latent"], Int64[Tensor, " rows"]]:
        """Returns fresh noise and labels, the same number of rows for every present class, one class after another."""

    @abstractmethod
    def _residuals(self, generator: Generator) -> Float[Tensor, "dim classes"]:
        """Returns residuals on a fresh batch in noise standard deviations, (dim, present classes)."""

    @abstractmethod
    def _look(self, measured: Discrepancy) -> None:
        """Does with a measurement of the averaged generator what the method does; sets `at_noise`."""

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps, or until the distance is at the noise; `average` is then what is kept."""
        with one_thread(self._device):
            while self.step < self.steps and not self._is_done():
                self._descend()
                self.step += 1
                is_last = self.step == self.steps
                if is_last or self.step % self.settings.check_every == 0:
                    self._look(self.measure())
                if report:
                    report(
                        FitState(
                            step=self.step,
                            steps=self.steps,
                            discrepancy=self.discrepancy,
                        )
                    )

    def _is_done(self) -> bool:
        return self.settings.stop_at_noise and self.at_noise

    def measure(self) -> Discrepancy:
        """Returns the averaged generator's discrepancy, on fresh noise vectors, with its standard error.

        With residuals a₁ … a_k of batches, (‖Σ aᵢ‖² − Σ ‖aᵢ‖²)/k(k − 1) is unbiased; the
        error is a jackknife's.
        """
        count = self.settings.check_batches
        settle(self.average, (self._batch(self.average) for _ in range(count)))
        with torch.no_grad():
            batches = [self._residuals(self.average) for _ in range(count)]
        # Every coordinate of every class alike: under noise alone the mean of their
        # squares is 1.
        residuals = torch.stack(batches).flatten(1).double() * self._coordinates**-0.5
        total = residuals.sum(dim=0)
        squares = residuals.square().sum(dim=1)
        pairs = total.square().sum() - squares.sum()
        value = float(pairs / (count * (count - 1)))

        pairs_of_others = (total - residuals).square().sum(dim=1)
        pairs_of_others = pairs_of_others - (squares.sum() - squares)
        left_out = pairs_of_others / ((count - 1) * max(count - 2, 1))
        deviations = (left_out - left_out.mean()).square().sum()
        error = float((deviations * (count - 1) / count).sqrt())
        return Discrepancy(value=value, error=error)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that `load_state_dict` needs to continue with the same bits, as named tensors."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        progress = [getattr(self, name) for name in self.progress]
        tensors = {
            **joined(**parts, optimiser=self._adam.state_dict()),
            "random": self.random.get_state(),
            "progress": torch.tensor(progress, dtype=torch.float64),
        }
        return {
            name: value.detach().cpu().contiguous().clone()
            for name, value in tensors.items()
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        for name, part in self._parts.items():
            part.load_state_dict(under(tensors, f"{name}/"))
        self._adam.load_state_dict(under(tensors, "optimiser/"))
        self.random.set_state(tensors["random"])
        progress = tensors["progress"].tolist()
        vars(self).update(zip(self.progress, progress, strict=True))
        self.step = int(self.step)
        self.at_noise = bool(self.at_noise)

    def _descend(self) -> None:
        """Takes a step, and the weights into their average."""
        rate = self.settings.learning_rate * self._rate(self.step / self.steps)
        self.generator.train()
        gradients = self._gradients()
        numbered = {f"{index}": value for index, value in enumerate(gradients)}
        self._adam.step(numbered, scale=rate)
        # A short memory at first, so that the start is forgotten.
        decay = min(self.settings.ema_decay, (1 + self.step) / (10 + self.step))
        averages = self.average.parameters()
        weights = self.generator.parameters()
        with torch.no_grad():
            for average, weight in zip(averages, weights, strict=True):
                average.lerp_(weight, 1 - decay)

    def _tensor(self, values: object) -> Shaped[Tensor, "..."]:
        return torch.as_tensor(values, dtype=torch.float32, device=self._device)


class BlockFactors(Protocol):
    """What the squared distance of each block counts for in the loss of a step."""

    def at(
        self, step: int, steps: int, noise_std: Mapping[str, Floats]
    ) -> Mapping[str, float]:
        """Returns a factor for each block whose distance is added up; others are left out.

        Args:
            step: Number of the step, counted from 0.
            steps: Number of all steps.
            noise_std: For each block, the standard deviation of the noise on each
                coordinate of a class's mean, (classes,).
        """


class AllBlocks:
    """Every block alike: distances are in noise standard deviations already."""

    def at(
        self, step: int, steps: int, noise_std: Mapping[str, Floats]
    ) -> Mapping[str, float]:
        """Returns 1 for every block; see `BlockFactors`."""
        return dict.fromkeys(noise_std, 1.0)


class HalvesMatching(MomentMatching):
    """With the squared distance in noise standard deviations, unbiased: the inner product of two halves' residuals.

    Beside the arguments of `MomentMatching`, `block_factors` say what the distance of each block counts for.
    """

    settings: FitSettings

    def __init__(
        self,
        generator: Generator,
        target: Target,
        embeddings: Mapping[str, TorchForm],
        settings: FitSettings,
        *,
        seed: int,
        device: torch.device,
        block_factors: BlockFactors | None = None,
    ) -> None:
        self._block_factors = AllBlocks() if block_factors is None else block_factors
        super().__init__(
            generator, target, embeddings, settings, seed=seed, device=device
        )

    def _set_up(self, target: Target) -> None:
        penalises_roughness = bool(self.settings.total_variation)
        if penalises_roughness and not isinstance(self.generator, ImageGenerator):
            raise OptionError(
                "total_variation of a fit is of images, and this generator makes none; "
                "leave it out."
            )
        self._split: SplitBatchLoss | None = None
        if self.settings.independent_halves:
            penalty = self._roughness if penalises_roughness else None
            self._split = SplitBatchLoss(self.generator, self._half_batch, penalty)
        weights = self._tensor(class_weights(target, self.settings.class_power))
        factors = self._factors()
        # The loss of a generator whose features are all 0 is 1.
        signal = [
            factor * (self._precisions[name] * self._means[name]).square()
            for name, factor in factors.items()
        ]
        self._weights = weights / (weights * torch.cat(signal).sum(dim=0)).sum()
        # An edge is worth its penalty where it is larger than noise makes them, as in
        # denoising by total variation.
        dim = sum(factor * len(self._means[name]) for name, factor in factors.items())
        noise = self._weights.sum() * dim
        self._smoothing = self.settings.total_variation * float(noise.sqrt())

    def _gradients(self) -> tuple[Tensor, ...]:
        if self._split:
            noise, labels = self._batch(self.generator)
            return self._split.gradients(noise, labels[::2], self._weights)
        output = self.generator(*self._batch(self.generator))
        residuals = self._residuals_of(output, self._factors(), halves=2)
        # An unbiased estimate of each present class's squared distance.
        distances = residuals.prod(dim=2).sum(dim=0)
        loss = (self._weights * distances).sum()
        if self.settings.total_variation:
            loss = loss + self._roughness(output)
        return torch.autograd.grad(loss, list(self.generator.parameters()))

    def _roughness(self, images: Float[Tensor, "rows _"]) -> Float[Tensor, ""]:
        """Returns the penalty on the total variation of generated images."""
        assert isinstance(self.generator, ImageGenerator)
        return self._smoothing * self.generator.total_variation(images)

    def _factors(self) -> Mapping[str, float]:
        """Returns what the squared distance of each block counts for in this step."""
        noise_std = {name: self.target.noise_std[name] for name in self._embeddings}
        return self._block_factors.at(self.step, self.steps, noise_std)

    def _half_batch(self, output: GeneratorOutput) -> Float[Tensor, "dim classes"]:
        """Returns the residuals of what the generator makes of half a batch."""
        return self._residuals_of(output, self._factors(), halves=1)[:, :, 0]

    def _look(self, measured: Discrepancy) -> None:
        self.discrepancy = measured.value
        self.at_noise = measured.value + measured.error <= 1

    def _batch(
        self, generator: Generator
    ) -> tuple[Shaped[Tensor, "rows latent"], Int64[Tensor, " rows"]]:
        half_rows = generator.components
        if not half_rows:
            asked_rows = math.ceil(self.settings.batch / len(self._classes) / 2)
            half_rows = max(asked_rows, _MIN_HALF_ROWS)
        labels = self._classes.repeat_interleave(2 * half_rows)
        noise = generator.noise(len(labels), self.random)
        return noise.to(self._device), labels.to(self._device)

    def _residuals(self, generator: Generator) -> Float[Tensor, "dim classes"]:
        output = generator(*self._batch(generator))
        every_block = dict.fromkeys(self._embeddings, 1.0)
        return self._residuals_of(output, every_block, halves=2).mean(dim=2)

    def _residuals_of(
        self, output: GeneratorOutput, factors: Mapping[str, float], *, halves: int
    ) -> Float[Tensor, "dim classes halves"]:
        """Returns residuals in noise standard deviations, each block's times the root of its factor.

        Args:
            output: What the generator made of a batch.
            factors: The factor of each block; others are left out.
            halves: Parts of the batch that are taken apart: 1 or 2.
        """
        class_count = len(self._classes)
        blocks = []
        for name, factor in factors.items():
            means = self._embeddings[name].means(output, halves * class_count)
            means = means.reshape(-1, class_count, halves)
            scale = self._precisions[name]
            if factor != 1:
                scale = scale * math.sqrt(factor)
            blocks.append((means - self._means[name][:, :, None]) * scale[:, None])
        return torch.cat(blocks)
