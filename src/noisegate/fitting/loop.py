"""The fitting loop: match a generator's expected embedding to the noisy one, and stop at the noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from noisegate.errors import OptionError
from noisegate.fitting.class_weights import check_power, class_weights
from noisegate.fitting.device import one_thread
from noisegate.fitting.embedding import Embedding
from noisegate.fitting.halves import Halves
from noisegate.fitting.saved_state import optimiser_tensors, restore_optimiser, under
from noisegate.fitting.statistics import settle
from noisegate.fitting.target import Target
from noisegate.generators.generator import Generator


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to fit. Nothing here can change the privacy of the result.

    Attributes:
        steps: Most optimiser steps.
        batch: Noise vectors a step, over all classes together.
        learning_rate: Peak of the one-cycle schedule of Adam.
        averaging: Decay of the exponential average of the weights, which is what is kept.
        stop_at_noise: Stop when the distance is what the noise alone would leave (the discrepancy principle).
        class_power: None weighs classes alike as far as they stand out of the noise, a number by their share to this
            power, in noise standard deviations; see `noisegate.fitting.class_weights`.
        check_every: Steps between looks at the stopping rule.
        check_batches: Fresh batches for a look.
        apart: Keep the halves of a batch apart; see `noisegate.fitting.halves`.
    """

    steps: int = 1500
    batch: int = 256
    learning_rate: float = 5e-3
    averaging: float = 0.99
    stop_at_noise: bool = True
    class_power: float | None = None
    check_every: int = 200
    check_batches: int = 32
    apart: bool = False

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("batch", 2), ("check_every", 1), ("check_batches", 3)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"fit option {name}={value!r} must be a whole number, {least} or more.")
        for name, high in (("learning_rate", 10.0), ("averaging", 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
                raise OptionError(f"fit option {name}={value!r} must be a number from 0 to {high:g}.")
        check_power(self.class_power)
        for name in ("stop_at_noise", "apart"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"fit option {name}={getattr(self, name)!r} must be true or false.")


@dataclass(frozen=True, kw_only=True)
class FitState:
    """Where a fit stands. `discrepancy` is the distance over what the noise alone would leave; 1 is the goal."""

    step: int
    steps: int
    discrepancy: float


@dataclass(frozen=True, kw_only=True)
class Discrepancy:
    """The squared distance to the release over what its noise alone would leave, estimated on fresh noise vectors.

    Both in noise standard deviations, all coordinates of all present classes alike: how the loss weighs classes does
    not change what the noise explains.

    Attributes:
        value: The estimate; unbiased, so it may be below the truth, and below zero.
        error: Its standard error.
    """

    value: float
    error: float


class Fitting:
    """One fit of one generator. It may be stopped between steps, saved (`state`), and taken up again (`restore`).

    Args:
        generator: The network, changed in place.
        target: What to match.
        embeddings: For each block of the target, the mean features of what the generator gives.
        settings: How.
        seed: Of the public randomness.
        device: Where to compute.
    """

    def __init__(
        self,
        generator: Generator,
        target: Target,
        embeddings: Mapping[str, Embedding],
        settings: FitSettings,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.generator = generator.to(device)
        self.average = copy.deepcopy(self.generator).requires_grad_(False).eval()
        self.optimiser = torch.optim.Adam(generator.parameters(), lr=settings.learning_rate)
        self.random = torch.Generator().manual_seed(seed)
        self.step = 0
        self.discrepancy = math.inf
        self.at_noise = False
        self._device = device
        self._embeddings = {name: module.to(device) for name, module in embeddings.items()}
        present = target.present
        self._classes = torch.from_numpy(present)
        self._means = {name: _tensor(means[present].T, device) for name, means in target.means.items()}
        # Residuals are measured in noise standard deviations, so blocks are weighed as in maximum likelihood.
        self._precisions = {name: _tensor(1 / std[present], device) for name, std in target.noise_std.items()}
        self._coordinates = sum(means.numel() for means in self._means.values())
        self._halves = Halves(self.generator, self._half) if settings.apart else None
        weights = _tensor(class_weights(target, settings.class_power), device)
        lengths = [(self._precisions[name] * means).square().sum(dim=0) for name, means in self._means.items()]
        # The loss of a generator whose features are all 0 is 1.
        self._weights = weights / (weights * torch.stack(lengths).sum(dim=0)).sum()

    @property
    def steps(self) -> int:
        """Most steps that there will be."""
        return self.settings.steps

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps, or until the distance is at the noise."""
        with one_thread(self._device):
            self._run(report)

    def _run(self, report: Callable[[FitState], None] | None) -> None:
        while self.step < self.settings.steps and not (self.settings.stop_at_noise and self.at_noise):
            self._descend()
            self.step += 1
            if self.step % self.settings.check_every == 0 or self.step == self.settings.steps:
                found = self.measure()
                self.discrepancy, self.at_noise = found.value, found.value + found.error <= 1
            if report:
                report(FitState(step=self.step, steps=self.settings.steps, discrepancy=self.discrepancy))

    def measure(self) -> Discrepancy:
        """Returns the averaged generator's discrepancy, on fresh noise vectors, with its standard error.

        With residuals a₁ … a_k of independent batches, (‖Σ aᵢ‖² − Σ ‖aᵢ‖²)/k(k − 1) is unbiased; the error is a
        jackknife's.
        """
        count = self.settings.check_batches
        settle(self.average, (self._inputs(self.average, self.settings.batch) for _ in range(count)))
        with torch.no_grad():
            batches = [self._residuals(self.average, self.settings.batch).mean(dim=2) for _ in range(count)]
        # Every coordinate of every class alike: under noise alone the mean of their squares is 1.
        residuals = torch.stack(batches).flatten(1).double() * self._coordinates**-0.5
        total, squares = residuals.sum(dim=0), residuals.square().sum(dim=1)
        value = float((total.square().sum() - squares.sum()) / (count * (count - 1)))
        others = (total - residuals).square().sum(dim=1) - (squares.sum() - squares)
        left_out = others / ((count - 1) * (count - 2))
        error = float(((left_out - left_out.mean()).square().sum() * (count - 1) / count).sqrt())
        return Discrepancy(value=value, error=error)

    def state(self) -> dict[str, Tensor]:
        """Returns everything that `restore` needs to go on with the same bits, as named tensors."""
        tensors = {f"generator/{name}": value for name, value in self.generator.state_dict().items()}
        tensors |= {f"average/{name}": value for name, value in self.average.state_dict().items()}
        tensors |= optimiser_tensors(self.optimiser)
        tensors["random"] = self.random.get_state()
        tensors["progress"] = torch.tensor([self.step, self.discrepancy, self.at_noise], dtype=torch.float64)
        return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the fit where `state` was called."""
        self.generator.load_state_dict(under(tensors, "generator/"))
        self.average.load_state_dict(under(tensors, "average/"))
        restore_optimiser(self.optimiser, tensors)
        self.random.set_state(tensors["random"])
        step, discrepancy, at_noise = tensors["progress"].tolist()
        self.step, self.discrepancy, self.at_noise = int(step), discrepancy, bool(at_noise)

    def _descend(self) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * one_cycle(self.step / self.settings.steps)
        self.optimiser.zero_grad(set_to_none=True)
        if self._halves:
            self._slopes_apart(self._halves)
        else:
            self._slopes()
        self.optimiser.step()
        # A short memory at first, so that the start is forgotten.
        decay = min(self.settings.averaging, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for kept, current in zip(self.average.parameters(), self.generator.parameters(), strict=True):
                kept.lerp_(current, 1 - decay)

    def _slopes(self) -> None:
        # The squared norm of a mean over random noise vectors is biased upward by their variance; the inner product
        # of the residuals of two independent halves is not.
        distances = self._residuals(self.generator, self.settings.batch).prod(dim=2).sum(dim=0)
        loss = (self._weights * distances).sum()
        loss.backward()  # type: ignore[no-untyped-call]

    def _slopes_apart(self, halves: Halves) -> None:
        noise, labels = self._inputs(self.generator, self.settings.batch)
        found = halves.slopes(noise, labels[::2], self._weights)
        for parameter, slope in zip(self.generator.parameters(), found, strict=True):
            parameter.grad = slope

    def _inputs(self, generator: Generator, batch: int) -> tuple[Tensor, Tensor]:
        """Returns fresh noise and labels for two halves, each with the same number of rows of every present class."""
        rows = generator.set_rows(max(math.ceil(batch / len(self._classes) / 2), 8))
        labels = self._classes.repeat_interleave(2 * rows)
        return generator.noise(len(labels), self.random).to(self._device), labels.to(self._device)

    def _residuals(self, generator: Generator, batch: int) -> Tensor:
        """Returns residuals in noise standard deviations, (dim, present classes, two independent halves)."""
        noise, labels = self._inputs(generator, batch)
        return self._residuals_of(generator(noise, labels), halves=2)

    def _residuals_of(self, made: Tensor, *, halves: int) -> Tensor:
        """Returns residuals of what was made in noise standard deviations, (dim, present classes, halves)."""
        classes = len(self._classes)
        parts = []
        for name, embedding in self._embeddings.items():
            means = embedding.means(made, halves * classes).reshape(-1, classes, halves)
            residual = means - self._means[name][:, :, None]
            parts.append(residual * self._precisions[name][:, None])
        return torch.cat(parts)

    def _half(self, generator: Callable[..., Tensor], noise: Tensor, labels: Tensor) -> Tensor:
        return self._residuals_of(generator(noise, labels), halves=1)[:, :, 0]


def one_cycle(progress: float) -> float:
    """Returns the part of the peak learning rate at `progress` from 0 to 1: a short rise, then a cosine to nearly zero.

    A function of the step alone, so that nothing needs saving.
    """
    return min(progress / 0.1, 0.5 * (1 + math.cos(math.pi * max(progress - 0.1, 0) / 0.9))) + 1e-3


def _tensor(values: object, device: torch.device) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)
