"""Match a generator's mean features to released ones, and stop at the noise (DP-MERF, section 4)."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import functional_call

from noisegate.devices import one_thread
from noisegate.errors import OptionError
from noisegate.models.checkpoint import FitState, joined, under
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import GeneratorOutput, TorchForm
from noisegate_images.models.generator import Generator
from noisegate_images.models.image import ImageGenerator, settle
from noisegate_images.training.adam import Adam, Stateful, one_cycle
from noisegate_images.training.fit import FitSettings, MomentSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

Floats = npt.NDArray[np.float64]
NO_COUNTERS: Mapping[str, Floats] = MappingProxyType({})
MISFIT = 0.03
"""Part of the signal's energy that a generator is taken to miss; chosen on simulated tables, see docs/choosing.md."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Noisy class-wise mean embeddings."""

    means: Mapping[str, Floats]  # for each block of features, (classes, dim)
    noise_std: Mapping[str, Floats]
    """For each block, the standard deviation of the noise on each coordinate of a class's mean, (classes,)."""
    weights: Floats  # estimated share of each class, non-negative, summing to 1
    records: float  # estimated number of records, at least 1

    @property
    def present(self) -> npt.NDArray[np.int64]:
        """Classes with any weight, which alone are sampled and fitted."""
        return np.flatnonzero(self.weights > 0)


def read_target(
    release: Release, *, counts: str, counters: Mapping[str, Floats] = NO_COUNTERS
) -> Target:
    """Returns the target of a release: noisy sums by class, divided by noisy counts (DP-MERF, equation 18)."""
    # Counts are kept at one noise standard deviation or more, so that a class lost in the noise stays harmless. Where
    # other sums count as well (`counters`: u with u · v(r) = 1 for every record r, by query), they are means of all
    # estimates, weighted by inverse variances. Without the query `counts` the number of records is the certificate's,
    # which is public.
    if counts in release.values:
        every = {counts: np.ones(1), **counters}
        precisions = np.asarray(
            [
                (release.noise_std[name] ** 2 * (u @ u)) ** -1
                for name, u in every.items()
            ]
        )
        estimates = np.stack([u @ release.values[name] for name, u in every.items()])
        noisy, floor = (
            precisions @ estimates / precisions.sum(),
            max(precisions.sum() ** -0.5, 1.0),
        )
    else:
        noisy, floor = (
            np.asarray([float(release.certificate.public.get("records") or 1)]),
            1.0,
        )
    safe, positive = np.maximum(noisy, floor), np.maximum(noisy, 0)
    weights = (
        positive / positive.sum()
        if positive.sum() > 0
        else np.full(len(noisy), 1 / len(noisy))
    )
    blocks = [name for name in release.values if name != counts]
    means = {name: release.values[name].T / safe[:, None] for name in blocks}
    noise_std = {name: release.noise_std[name] / safe for name in blocks}
    return Target(
        means=means,
        noise_std=noise_std,
        weights=weights,
        records=float(max(noisy.sum(), 1.0)),
    )


def missed_part(target: Target, discrepancy: float) -> float:
    """Returns which part of the energy of released means, less their noise's, a generator misses that ends so far."""
    ratios = (
        means / target.noise_std[name][:, None] for name, means in target.means.items()
    )
    squares = [np.square(block)[target.present] for block in ratios]
    coordinates = sum(block.size for block in squares)
    signal = sum(float(block.sum()) for block in squares) - coordinates
    return max(discrepancy - 1, 0.0) * coordinates / max(signal, 1.0)


def class_weights(target: Target, power: float | None) -> Floats:
    """Returns the weight of each present class's squared residual in noise standard deviations, 1 for the largest."""
    # The inverse of noise, of variance 1, and of what the generator never comes to match, a part of the class's signal-
    # to-noise ratio: classes that stand out of the noise weigh alike in their means, whatever their share (DP-MERF,
    # section 4.2), and one that is below the noise weighs by its noise. With a `power` weights are the class's share to
    # it instead: residuals in noise standard deviations grow with shares, so -2 weighs classes alike.
    if power is not None:
        shares = target.weights[target.present]
        return np.asarray(
            (shares / (shares.max() if power > 0 else shares.min())) ** power
        )
    dim = sum(means.shape[1] for means in target.means.values())
    # Sums over coordinates, of a class's squared mean and of the precision that its size gives it.
    energy, precision = np.zeros(len(target.present)), np.zeros(len(target.present))
    for name, means in target.means.items():
        of_block = target.noise_std[name][target.present] ** -2.0
        energy += np.square(means[target.present]).sum(axis=1) * of_block
        precision += means.shape[1] * of_block
    signal = max(float((energy - dim).sum() / precision.sum()), 0.0)
    variance = 1 + MISFIT * signal * precision / dim
    return np.asarray(variance.min() / variance)


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
        self.settings, self.steps, self._device, self.target = (
            settings,
            settings.steps,
            device,
            target,
        )
        self.generator = generator.to(device)
        self.average = copy.deepcopy(self.generator).requires_grad_(False).eval()
        numbered = {
            str(place): value for place, value in enumerate(self.generator.parameters())
        }
        prefix, names = (
            generator.pretrained,
            (name for name, _ in self.generator.named_parameters()),
        )
        learnt = [
            place
            for place, name in enumerate(names)
            if prefix and name.startswith(prefix)
        ]
        slower = {str(place): settings.prior_rate for place in learnt}
        self._adam = Adam(numbered, learning_rate=1.0, beta1=self.beta1, slower=slower)
        self.random = torch.Generator().manual_seed(seed)
        self.step, self.discrepancy, self.at_noise = 0, math.inf, False
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
        self._rate: Callable[[float], float] = one_cycle
        self._set_up(target)

    @abstractmethod
    def _set_up(self, target: Target) -> None: ...

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
            while self.step < self.steps and not (
                self.settings.stop_at_noise and self.at_noise
            ):
                self._descend()
                self.step += 1
                if (
                    self.step % self.settings.check_every == 0
                    or self.step == self.steps
                ):
                    self._look(self.measure())
                if report:
                    report(
                        FitState(
                            step=self.step,
                            steps=self.steps,
                            discrepancy=self.discrepancy,
                        )
                    )

    def measure(self) -> Discrepancy:
        """Returns the averaged generator's discrepancy, on fresh noise vectors, with its standard error."""
        # With residuals a₁ … a_k of batches, (‖Σ aᵢ‖² − Σ ‖aᵢ‖²)/k(k − 1) is unbiased; the error is a jackknife's.
        count = self.settings.check_batches
        settle(self.average, (self._batch(self.average) for _ in range(count)))
        with torch.no_grad():
            batches = [self._residuals(self.average) for _ in range(count)]
        # Every coordinate of every class alike: under noise alone the mean of their squares is 1.
        residuals = torch.stack(batches).flatten(1).double() * self._coordinates**-0.5
        total, squares = residuals.sum(dim=0), residuals.square().sum(dim=1)
        value = float((total.square().sum() - squares.sum()) / (count * (count - 1)))
        others = (total - residuals).square().sum(dim=1) - (squares.sum() - squares)
        left_out = others / ((count - 1) * max(count - 2, 1))
        error = float(
            ((left_out - left_out.mean()).square().sum() * (count - 1) / count).sqrt()
        )
        return Discrepancy(value=value, error=error)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named tensors."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        tensors = joined(**parts, optimiser=self._adam.state_dict()) | {
            "random": self.random.get_state()
        }
        progress = [getattr(self, name) for name in self.progress]
        tensors["progress"] = torch.tensor(progress, dtype=torch.float64)
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
        vars(self).update(zip(self.progress, tensors["progress"].tolist(), strict=True))
        self.step, self.at_noise = int(self.step), bool(self.at_noise)

    def _descend(self) -> None:
        rate = self.settings.learning_rate * self._rate(self.step / self.steps)
        self.generator.train()
        gradients = self._gradients()
        self._adam.step(
            {str(place): value for place, value in enumerate(gradients)}, scale=rate
        )
        # A short memory at first, so that the start is forgotten.
        decay = min(self.settings.ema_decay, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for kept, current in zip(
                self.average.parameters(), self.generator.parameters(), strict=True
            ):
                kept.lerp_(current, 1 - decay)

    def _tensor(self, values: object) -> Shaped[Tensor, "..."]:
        return torch.as_tensor(values, dtype=torch.float32, device=self._device)


class SplitBatchLoss:
    """Gradients of the unbiased distance, with the halves of a batch side by side on two cores.

    The residuals a and b of the halves are independent, normalised apart, and meet only in Σ w·a·b: what comes out does
    not depend on the number of cores. `residuals`, (dim, classes), are those of what the generator makes of one half;
    half of the `penalty` on each, a number, is added to the loss.
    """

    def __init__(
        self,
        generator: Generator,
        residuals: Callable[[Tensor], Tensor],
        penalty: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._weights: dict[str, Tensor] = dict(generator.named_parameters())
        # Running statistics of its own for each half, or both would write to the same ones at once.
        self._replicas = [copy.deepcopy(generator).train() for _ in range(2)]
        self._residuals, self._penalty = residuals, penalty

    def gradients(
        self,
        noise: Shaped[Tensor, "twice_rows latent"],
        labels: Int64[Tensor, " rows"],
        weights: Float[Tensor, " classes"],
    ) -> tuple[Tensor, ...]:
        """Returns the gradients of Σ weights · ⟨a, b⟩ and of the penalty, in the order of the generator's weights."""
        # Of the noise, (2 · rows, latent), the first half is a's; labels, (rows,), are those of either half.
        pool = ThreadPoolExecutor(2, initializer=_prepare)
        with pool if noise.device.type == "cpu" else nullcontext() as side_by_side:
            run = side_by_side.map if side_by_side else map
            halves = list(
                run(self._half, self._replicas, noise.chunk(2), (labels, labels))
            )
            others = [residual.detach() * weights for residual, *_ in reversed(halves)]
            first, second = run(self._backward, halves, others)
        return tuple(a + b for a, b in zip(first, second, strict=True))

    def _half(
        self,
        replica: Generator,
        noise: Shaped[Tensor, "rows latent"],
        labels: Int64[Tensor, " rows"],
    ) -> list[Tensor]:
        made = functional_call(replica, self._weights, (noise, labels))
        return [
            self._residuals(made),
            *([self._penalty(made)] if self._penalty else []),
        ]

    def _backward(
        self, half: list[Tensor], other: Float[Tensor, "dim classes"]
    ) -> tuple[Tensor, ...]:
        slopes = [other, *(torch.full_like(penalty, 0.5) for penalty in half[1:])]
        return torch.autograd.grad(
            half, list(self._weights.values()), grad_outputs=slopes
        )


def _prepare() -> None:
    """Prepares a new thread: its work runs on it alone, and numbers below 1e-38 are 0."""
    torch.set_num_threads(1)  # bits depend on how many there are
    torch.set_flush_denormal(
        True
    )  # a black pixel is a sigmoid of that kind, and takes a third more time a step


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
        is_of_images = isinstance(self.generator, ImageGenerator)
        if self.settings.total_variation and not is_of_images:
            raise OptionError(
                "total_variation of a fit is of images, and this generator makes none; "
                "leave it out."
            )
        self._split: SplitBatchLoss | None = None
        if self.settings.independent_halves:
            penalty = self._roughness if self.settings.total_variation else None
            self._split = SplitBatchLoss(self.generator, self._half_batch, penalty)
        weights = self._tensor(class_weights(target, self.settings.class_power))
        factors = self._factors()
        # The loss of a generator whose features are all 0 is 1.
        signal = [
            by * (self._precisions[name] * self._means[name]).square()
            for name, by in factors.items()
        ]
        self._weights = weights / (weights * torch.cat(signal).sum(dim=0)).sum()
        # An edge is worth its penalty where it is larger than noise makes them, as in denoising by total variation.
        noise = self._weights.sum() * sum(
            by * len(self._means[name]) for name, by in factors.items()
        )
        self._smoothing = self.settings.total_variation * float(noise.sqrt())

    def _gradients(self) -> tuple[Tensor, ...]:
        if self._split:
            noise, labels = self._batch(self.generator)
            return self._split.gradients(noise, labels[::2], self._weights)
        made = self.generator(*self._batch(self.generator))
        # An unbiased estimate of each present class's squared distance.
        distances = (
            self._residuals_of(made, self._factors(), halves=2).prod(dim=2).sum(dim=0)
        )
        loss = (self._weights * distances).sum()
        if self.settings.total_variation:
            loss = loss + self._roughness(made)
        return torch.autograd.grad(loss, list(self.generator.parameters()))

    def _roughness(self, made: Float[Tensor, "rows _"]) -> Float[Tensor, ""]:
        assert isinstance(self.generator, ImageGenerator)
        return self._smoothing * self.generator.total_variation(made)

    def _factors(self) -> Mapping[str, float]:
        """Returns what the squared distance of each block counts for in this step."""
        noise_std = {name: self.target.noise_std[name] for name in self._embeddings}
        return self._block_factors.at(self.step, self.steps, noise_std)

    def _half_batch(self, made: GeneratorOutput) -> Float[Tensor, "dim classes"]:
        return self._residuals_of(made, self._factors(), halves=1)[:, :, 0]

    def _look(self, measured: Discrepancy) -> None:
        self.discrepancy, self.at_noise = (
            measured.value,
            measured.value + measured.error <= 1,
        )

    def _batch(
        self, generator: Generator
    ) -> tuple[Shaped[Tensor, "rows latent"], Int64[Tensor, " rows"]]:
        rows = generator.components or max(
            math.ceil(self.settings.batch / len(self._classes) / 2), 8
        )
        labels = self._classes.repeat_interleave(2 * rows)
        return generator.noise(len(labels), self.random).to(self._device), labels.to(
            self._device
        )

    def _residuals(self, generator: Generator) -> Float[Tensor, "dim classes"]:
        made = generator(*self._batch(generator))
        return self._residuals_of(
            made, dict.fromkeys(self._embeddings, 1.0), halves=2
        ).mean(dim=2)

    def _residuals_of(
        self, made: GeneratorOutput, factors: Mapping[str, float], *, halves: int
    ) -> Float[Tensor, "dim classes halves"]:
        classes, parts = len(self._classes), []
        for name, factor in factors.items():
            means = (
                self._embeddings[name]
                .means(made, halves * classes)
                .reshape(-1, classes, halves)
            )
            scale = (
                self._precisions[name]
                if factor == 1
                else self._precisions[name] * math.sqrt(factor)
            )
            parts.append((means - self._means[name][:, :, None]) * scale[:, None])
        return torch.cat(parts)
