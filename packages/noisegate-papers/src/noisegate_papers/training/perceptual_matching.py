"""Match a generator to perceptual features as DP-MEPF does (Harder et al., TMLR 2023, section 3).

Means of a batch are compared with released ones, by their squared distance or by GFMN's
moving average of the gap, and the generator that is kept may be an earlier one: that
whose images come closest to a second, unlabelled mean embedding, released beside the
first with noise of its own. (The paper's code compares with the private embedding as it
is.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.queries.feature_map import TorchForm
from noisegate_images.models.generator import Generator
from noisegate_images.training.adam import Adam
from noisegate_images.training.moment_matching import Discrepancy, MomentMatching
from noisegate_images.training.target import Target, class_weights
from noisegate_papers.training.schedules import PerceptualFitSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

_BETA1 = 0.5
_BLOCK = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """The released mean embedding that so many images of candidates are compared with."""

    means: Mapping[
        str, npt.NDArray[np.float64]
    ]  # of each block, noisy, over all records, (dim,)
    embeddings: Mapping[str, TorchForm]
    weights: npt.NDArray[np.float64]  # share of each class, (classes,)
    images: int

    def distance(
        self, generator: Generator, random: torch.Generator, device: torch.device
    ) -> float:
        """Returns the squared distance of a generator's mean embedding to the released one, in evaluation mode."""
        shares = torch.from_numpy(self.weights)
        sums: dict[str, Tensor] = {}
        with torch.no_grad():
            for start in range(0, self.images, _BLOCK):
                rows = min(_BLOCK, self.images - start)
                labels = torch.multinomial(
                    shares, rows, replacement=True, generator=random
                ).to(device)
                images = generator(generator.noise(rows, random).to(device), labels)
                for name, embedding in self.embeddings.items():
                    sums[name] = (
                        sums.get(name, torch.zeros(())).to(device)
                        + rows * embedding.means(images, 1)[:, 0]
                    )
        means = {
            name: (total / self.images).cpu().double().numpy()
            for name, total in sums.items()
        }
        return math.fsum(
            float(np.square(means[name] - mean).sum())
            for name, mean in self.means.items()
        )


class PerceptualMatching(MomentMatching):
    """With the losses of DP-MEPF; see `MomentMatching`. `validation` chooses the generator; None keeps the last one."""

    settings: PerceptualFitSettings
    beta1 = _BETA1
    progress = ("step", "discrepancy", "closest", "at_noise")

    def __init__(
        self,
        generator: Generator,
        target: Target,
        embeddings: Mapping[str, TorchForm],
        settings: PerceptualFitSettings,
        *,
        validation: Validation | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self._validation, self.closest = validation, math.inf
        for form in validation.embeddings.values() if validation else ():
            form.to(device)
        super().__init__(
            generator, target, embeddings, settings, seed=seed, device=device
        )

    def _set_up(self, target: Target) -> None:
        settings = self.settings
        if settings.schedule == "constant":
            self._rate = _constant_rate
        self._best = self._parts["best"] = copy.deepcopy(self.average)
        # Of residuals, not of their squares, and not in noise standard deviations, which go with 1/share.
        weights = (
            class_weights(target, settings.class_power) ** 0.5
            * target.weights[target.present]
        )
        self._weights = self._tensor(weights / weights.sum())
        self._scale = float(
            sum(
                (self._weights * means).square().sum() for means in self._means.values()
            )
        )
        averaged = self._means if settings.loss == "moving-average" else {}
        self._averages = {
            name: MovingAverage(
                len(means), means.shape[1], settings, self.random, self._device
            )
            for name, means in averaged.items()
        }
        for name, average in self._averages.items():
            self._parts[f"gap/{name}"] = average

    def _gradients(self) -> tuple[Tensor, ...]:
        gaps = {
            name: self._weights * gap
            for name, gap in self._gaps(self.generator).items()
        }
        if self._averages:
            parts = [
                (self._averages[name].update(gap.detach()) * gap).sum()
                for name, gap in gaps.items()
            ]
            loss = torch.stack(parts).sum()
        else:
            loss = (
                torch.stack([gap.square().sum() for gap in gaps.values()]).sum()
                / self._scale
            )
        return torch.autograd.grad(loss, list(self.generator.parameters()))

    def _look(self, measured: Discrepancy) -> None:
        self.discrepancy, self.at_noise = measured.value, measured.value <= 1
        if self._validation:
            distance = self._validation.distance(
                self.average, self.random, self._device
            )
            if distance < self.closest:
                self.closest = distance
                self._best.load_state_dict(self.average.state_dict())
            stops = self.settings.stop_at_noise and self.at_noise
            is_last_look = stops or self.step == self.steps
            if is_last_look and math.isfinite(self.closest):
                self.average.load_state_dict(self._best.state_dict())

    def _batch(
        self, generator: Generator
    ) -> tuple[Shaped[Tensor, "rows latent"], Int64[Tensor, " rows"]]:
        labels = self._classes.repeat_interleave(
            max(self.settings.batch // len(self._classes), 2)
        )
        return generator.noise(len(labels), self.random).to(self._device), labels.to(
            self._device
        )

    def _residuals(self, generator: Generator) -> Float[Tensor, "dim classes"]:
        return torch.cat(
            [
                gap * self._precisions[name]
                for name, gap in self._gaps(generator).items()
            ]
        )

    def _gaps(self, generator: Generator) -> dict[str, Tensor]:
        """Returns, for each block, how much each class's released mean is ahead, (dim, classes), on a fresh batch."""
        images, classes = generator(*self._batch(generator)), len(self._classes)
        return {
            name: self._means[name] - form.means(images, classes)
            for name, form in self._embeddings.items()
        }


class MovingAverage:
    """The average gap of one block of features over steps (GFMN; dos Santos et al., ICCV 2019, section 3.3).

    GFMN keeps v, an average of the gap between the released means and those of a batch, and lowers ⟨v, gap⟩ with v held
    fixed. The average is taken by Adam, on the squared difference of v and the gap, summed over the features or as
    their mean, which is as small as Adam's ε of many features. It starts uniform within ±1/√dim.
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        settings: PerceptualFitSettings,
        random: torch.Generator,
        device: torch.device,
    ) -> None:
        start = (2 * torch.rand(dim, classes, generator=random) - 1) * dim**-0.5
        self.value: Tensor = start.to(device)
        self._scale = (
            2 / self.value.numel() if settings.average_reduction == "mean" else 2.0
        )
        rate, eps = settings.average_rate, settings.average_eps
        self._adam = Adam(
            {"adam": self.value}, learning_rate=rate, beta1=_BETA1, eps=eps
        )

    def update(self, gap: Float[Tensor, "dim classes"]) -> Float[Tensor, "dim classes"]:
        """Takes one step towards `gap`, (dim, classes), and returns the average after it."""
        self._adam.step({"adam": self._scale * (self.value - gap)})
        return self.value

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the average, and the state of Adam."""
        return {"value": self.value, **self._adam.state_dict()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self.value.copy_(tensors["value"])
        self._adam.load_state_dict(tensors)


@dataclass(frozen=True, kw_only=True)
class SumProductFactors:
    """Factors of DP-HP, equation 16: a weight on all blocks but one, and these one after another.

    The least ‖μ_sum − μ̂_sum‖² + γ · ‖μ_product − μ̂_product‖² is looked for, of class-wise mean embeddings of maps of
    norm 1.
    """

    sum_block: str
    """The block of the sum kernel."""
    gamma: float | None
    """γ, which the other blocks share; None weighs every block by its noise."""
    in_turn: bool
    """Whether each of the other blocks is matched for an equal part of the steps, and with all of γ."""

    def at(
        self, step: int, steps: int, noise_std: Mapping[str, npt.NDArray[np.float64]]
    ) -> Mapping[str, float]:
        """Returns the factor of each block; see `BlockFactors`."""
        products = [name for name in noise_std if name != self.sum_block]
        if self.in_turn and products:
            turn = min(step * len(products) // steps, len(products) - 1)
            products = [products[turn]]
        if self.gamma is None:
            return dict.fromkeys((self.sum_block, *products), 1.0)
        # Residuals are in noise standard deviations; the distance of embeddings weighs
        # them by their variances.
        variances = {name: float(stds[0]) ** 2 for name, stds in noise_std.items()}
        each = self.gamma / max(len(products), 1)
        factors = {self.sum_block: 1.0}
        for name in products:
            factors[name] = each * (variances[name] / variances[self.sum_block])
        return factors


def _constant_rate(progress: float) -> float:
    """Returns the part of the peak learning rate: all of it throughout."""
    return 1.0
