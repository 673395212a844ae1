"""Matches a generator's mean features to released ones: by their squared distance, or by GFMN's moving average.

Beside `fitting.loop`, which is for features of modest length, this is the loop of DP-MEPF: plain Adam, one batch a
step, and a stopping rule that may keep an earlier generator (`fitting.stopping`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from noisegate.errors import OptionError
from noisegate.fitting.class_weights import check_power, class_weights
from noisegate.fitting.device import one_thread
from noisegate.fitting.embedding import Embedding
from noisegate.fitting.loop import FitState, one_cycle
from noisegate.fitting.moving_average import AverageSettings, MovingAverage, Reduction
from noisegate.fitting.saved_state import optimiser_tensors, restore_optimiser, under
from noisegate.fitting.statistics import settle
from noisegate.fitting.stopping import Validation
from noisegate.fitting.target import Target
from noisegate.generators.generator import Generator

_BETAS = (0.5, 0.999)


@dataclass(frozen=True, kw_only=True)
class MomentSettings:
    """How to fit. Nothing here can change the privacy of the result.

    Attributes:
        steps: Most optimiser steps.
        batch: Noise vectors a step, over all classes together.
        learning_rate: Of Adam; with `schedule` its peak.
        schedule: "constant", or "one-cycle": a short rise, then a cosine to zero.
        loss: "squared" distance of the means of a batch, or "moving-average".
        average_rate: Of the moving average; see `fitting.moving_average.AverageSettings`.
        average_eps: Of the moving average.
        average_reduction: Of the moving average.
        averaging: Decay of the exponential average of the weights; 0 keeps the weights as they are.
        class_power: None weighs classes alike as far as they stand out of the noise; 0 weighs a class's residual by its
            share, as the released sum has it; see `noisegate.fitting.class_weights`.
        stop_at_noise: Stop when the distance is what the noise alone would leave (the discrepancy principle).
        check_every: Steps between looks at the stopping rule.
        check_batches: Fresh batches for a look at the distance.
        check_images: Images for a comparison with the validation embedding.
    """

    steps: int = 3000
    batch: int = 128
    learning_rate: float = 5e-3
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    loss: Literal["squared", "moving-average"] = "squared"
    average_rate: float = 1e-4
    average_eps: float = 1e-8
    average_reduction: Reduction = "mean"
    averaging: float = 0.998
    class_power: float | None = None
    stop_at_noise: bool = False
    check_every: int = 500
    check_batches: int = 16
    check_images: int = 5000

    def __post_init__(self) -> None:
        least = {"steps": 0, "batch": 2, "check_every": 1, "check_batches": 2, "check_images": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise OptionError(f"fit option {name}={value!r} must be a whole number, {lowest} or more.")
        for name, high in (("learning_rate", 10.0), ("averaging", 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
                raise OptionError(f"fit option {name}={value!r} must be a number from 0 to {high:g}.")
        for name, known in (("schedule", ("constant", "one-cycle")), ("loss", ("squared", "moving-average"))):
            if getattr(self, name) not in known:
                raise OptionError(f"fit option {name}={getattr(self, name)!r} must be one of {', '.join(known)}.")
        if not isinstance(self.stop_at_noise, bool):
            raise OptionError(f"fit option stop_at_noise={self.stop_at_noise!r} must be true or false.")
        check_power(self.class_power)
        _ = self.average

    @property
    def average(self) -> AverageSettings:
        """How the moving average is taken."""
        return AverageSettings(rate=self.average_rate, eps=self.average_eps, reduction=self.average_reduction)


class MomentFitting:
    """One fit of one generator. It may be stopped between steps, saved (`state`), and taken up again (`restore`).

    Args:
        generator: The network, changed in place.
        target: What to match.
        embeddings: For each block of the target, the mean features of what the generator gives.
        settings: How.
        validation: What chooses the generator that is kept; None keeps the last one.
        seed: Of the public randomness.
        device: Where to compute.
    """

    def __init__(
        self,
        generator: Generator,
        target: Target,
        embeddings: Mapping[str, Embedding],
        settings: MomentSettings,
        *,
        validation: Validation | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings, self._device, self._validation = settings, device, validation
        self.generator = generator.to(device)
        self.average = copy.deepcopy(self.generator).requires_grad_(False).eval()
        self._best = copy.deepcopy(self.average)
        self.optimiser = torch.optim.Adam(self.generator.parameters(), lr=settings.learning_rate, betas=_BETAS)
        self.random = torch.Generator().manual_seed(seed)
        self.step, self.discrepancy, self.closest, self.at_noise = 0, math.inf, math.inf, False
        self._embeddings = {name: module.to(device) for name, module in embeddings.items()}
        if validation:
            validation.to(device)
        present = target.present
        self._classes = torch.from_numpy(present)
        # Of residuals, not of their squares, and not in noise standard deviations, which go with 1/share.
        weights = class_weights(target, settings.class_power) ** 0.5 * target.weights[present]
        self._weights = _tensor(weights / weights.sum(), device)
        self._means = {name: _tensor(target.means[name][present].T, device) for name in self._embeddings}
        self._stds = {name: _tensor(target.noise_std[name][present], device) for name in self._embeddings}
        self._scale = float(sum((self._weights * means).square().sum() for means in self._means.values()))
        self._gaps = (
            {
                name: MovingAverage(len(means), means.shape[1], settings.average, self.random, device)
                for name, means in self._means.items()
            }
            if settings.loss == "moving-average"
            else {}
        )

    @property
    def steps(self) -> int:
        """Most steps that there will be."""
        return self.settings.steps

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps, or until the distance is at the noise; `average` is then what is kept."""
        with one_thread(self._device):
            while self.step < self.steps and not (self.settings.stop_at_noise and self.at_noise):
                self._descend()
                self.step += 1
                if self.step % self.settings.check_every == 0 or self.step == self.steps:
                    self._look()
                if report:
                    report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))
            if self._validation and math.isfinite(self.closest):
                self.average.load_state_dict(self._best.state_dict())

    def state(self) -> dict[str, Tensor]:
        """Returns everything that `restore` needs to go on with the same bits, as named tensors."""
        parts = {"generator": self.generator, "average": self.average, "best": self._best}
        tensors = {f"{part}/{name}": value for part, net in parts.items() for name, value in net.state_dict().items()}
        tensors |= optimiser_tensors(self.optimiser)
        for block, gap in self._gaps.items():
            tensors |= {f"gap/{block}/{name}": value for name, value in gap.state().items()}
        tensors["random"] = self.random.get_state()
        found = [self.step, self.discrepancy, self.closest, self.at_noise]
        tensors["progress"] = torch.tensor(found, dtype=torch.float64)
        return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the fit where `state` was called."""
        for part, net in (("generator", self.generator), ("average", self.average), ("best", self._best)):
            net.load_state_dict(under(tensors, f"{part}/"))
        restore_optimiser(self.optimiser, tensors)
        for block, gap in self._gaps.items():
            gap.restore(under(tensors, f"gap/{block}/"))
        self.random.set_state(tensors["random"])
        step, self.discrepancy, self.closest, at_noise = tensors["progress"].tolist()
        self.step, self.at_noise = int(step), bool(at_noise)

    def _descend(self) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * self._rate()
        self.generator.train()
        gaps = self._residuals(self.generator)
        if self._gaps:
            loss = torch.stack(
                [(self._gaps[name].update(gap.detach()) * gap).sum() for name, gap in gaps.items()]
            ).sum()
        else:
            loss = torch.stack([gap.square().sum() for gap in gaps.values()]).sum() / self._scale
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        decay = min(self.settings.averaging, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for kept, current in zip(self.average.parameters(), self.generator.parameters(), strict=True):
                kept.lerp_(current, 1 - decay)

    def _rate(self) -> float:
        return 1.0 if self.settings.schedule == "constant" else one_cycle(self.step / self.steps)

    def _look(self) -> None:
        """Measures the averaged generator on fresh noise vectors, and keeps it if it is the closest one so far."""
        count = self.settings.check_batches
        settle(self.average, (self._inputs(self.average) for _ in range(count)))
        sums: dict[str, Tensor] = {}
        squares = 0.0
        with torch.no_grad():
            for _ in range(count):
                for name, gap in self._residuals(self.average).items():
                    residual = gap / (self._weights * self._stds[name])
                    sums[name] = sums[name] + residual if name in sums else residual
                    squares += float(residual.square().sum())
        # With residuals a₁ … a_k of independent batches, (‖Σ aᵢ‖² − Σ ‖aᵢ‖²)/k(k − 1) is unbiased.
        whole = math.fsum(float(total.square().sum()) for total in sums.values())
        coordinates = sum(means.numel() for means in self._means.values())
        self.discrepancy = (whole - squares) / (count * (count - 1) * coordinates)
        self.at_noise = self.discrepancy <= 1
        if self._validation:
            distance = self._validation.distance(self.average, self.random, self._device)
            if distance < self.closest:
                self.closest = distance
                self._best.load_state_dict(self.average.state_dict())

    def _inputs(self, generator: Generator) -> tuple[Tensor, Tensor]:
        """Returns fresh noise and labels, the same number of rows for every present class, one class after another."""
        labels = self._classes.repeat_interleave(max(self.settings.batch // len(self._classes), 2))
        return generator.noise(len(labels), self.random).to(self._device), labels.to(self._device)

    def _residuals(self, generator: Generator) -> dict[str, Tensor]:
        """Returns, for each block, each class's share times how much its released mean is ahead, (dim, classes)."""
        made = generator(*self._inputs(generator))
        return {
            name: self._weights * (self._means[name] - embedding.means(made, len(self._classes)))
            for name, embedding in self._embeddings.items()
        }


def _tensor(values: object, device: torch.device) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)
