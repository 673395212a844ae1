"""Discriminators and the public half of their training: it sees noisy sums of their gradients, and no record.

Labels choose among scores: Miyato and Koyama (ICLR 2018). The generator's loss: Goodfellow et al. (NeurIPS 2014),
https://arxiv.org/abs/1406.2661. DP-DRE (its paper's equation 2, with D = σ(s)) minimises E_private softplus(−s(f)) +
E_public softplus(s(f)): at the optimum exp(s) is the density of private features over that of public ones.

Every record is treated on its own and nothing is drawn, so gradients are per example.
The label comes in at the end, as a choice among scores (a projection, Miyato and
Koyama, ICLR 2018), where it takes few parameters. A step of a GAN's discriminator adds
the mean gradient of the logistic loss at real records, a noisy sum over the size that
is expected, and that at fake ones, which costs no privacy. Now and then the generator
takes a step of its own, by the loss that does not saturate (Goodfellow et al., NeurIPS
2014, https://arxiv.org/abs/1406.2661).

DP-DRE (equation 2 of the paper, with D = σ(s)) minimises E_private softplus(−s(f)) +
E_public softplus(s(f)): at the optimum exp(s) is the density of private features over
that of public ones.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, softplus

from noisegate.devices import seeded
from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.models.generator import Generator
from noisegate_images.networks.classifiers import RowsToImages
from noisegate_images.training.adam import Adam, Checkpointed, gradients
from noisegate_papers.models.inputs import DiscriminatorInput
from noisegate_papers.training.schedules import AdversarialConfig

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

SLOPE = 0.2
_ROWS = 4096


class Discriminator(nn.Module):
    """A score for each row: the record's inputs first, then its label, of `classes` or none, as a one-hot code.

    The body brings inputs, (rows, inputs), to features, (rows, width).
    """

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body, self.classes = body, classes
        self.scores = nn.Linear(width, 1 + classes)

    def forward(
        self, rows: Float[Tensor, "rows inputs_classes"]
    ) -> Float[Tensor, " rows"]:
        """Returns scores, (rows,), of rows (rows, inputs + classes)."""
        inputs = rows.shape[1] - self.classes
        scores: Tensor = self.scores(self.body(rows[:, :inputs]))
        return scores[:, 0] + (scores[:, 1:] * rows[:, inputs:]).sum(dim=1)

    def rows(
        self, inputs: Float[Tensor, "rows inputs"], labels: Shaped[Tensor, " rows"]
    ) -> Float[Tensor, "rows _"]:
        """Returns rows, (rows, inputs + classes), of inputs and labels, which are not examined without classes."""
        if not self.classes:
            return inputs
        return torch.cat(
            [inputs, one_hot(labels.to(inputs.device), self.classes).to(inputs.dtype)],
            dim=1,
        )

    def label_scores(
        self,
        inputs: Float[Tensor, "rows inputs"],
        labels: Int64[Tensor, " rows"] | None,
    ) -> Float[Tensor, "labels rows"]:
        """Returns s = log D/(1 − D) of inputs with every label, (labels, rows), or with their own, in one row."""
        found: Tensor = self.scores(self.body(inputs)).T
        if not self.classes:
            return found
        every = found[:1] + found[1:]
        return every if labels is None else every.gather(0, labels[None])


def build_image_discriminator(
    shape: ImageShape, classes: int, *, channels: Sequence[int], seed: int
) -> Discriminator:
    """Returns a discriminator of images, fresh, on the CPU: DCGAN's, normalised nowhere; convolutions halve sides."""
    height, breadth = (side >> len(channels) for side in (shape.height, shape.width))
    if not channels or not height or not breadth:
        raise OptionError(
            f"image={shape} cannot be halved {len(channels)} times, once for each of discriminator_channels="
            f"{list(channels)}; give at least one, and fewer for smaller images."
        )
    layers: list[nn.Module] = [RowsToImages(shape)]
    with seeded(seed):
        for entering, leaving in pairwise((shape.channels, *channels)):
            layers += [
                nn.Conv2d(entering, leaving, kernel_size=4, stride=2, padding=1),
                nn.LeakyReLU(SLOPE),
            ]
        return Discriminator(
            nn.Sequential(*layers, nn.Flatten()),
            channels[-1] * height * breadth,
            classes,
        )


def build_table_discriminator(
    inputs: int, classes: int, *, hidden: Sequence[int], seed: int
) -> Discriminator:
    """Returns a discriminator of table rows with fresh weights, in float32 on the CPU: a perceptron, `hidden` wide."""
    layers: list[nn.Module] = []
    with seeded(seed):
        for entering, leaving in pairwise((inputs, *hidden)):
            layers += [nn.Linear(entering, leaving), nn.LeakyReLU(SLOPE)]
        return Discriminator(nn.Sequential(*layers), (inputs, *hidden)[-1], classes)


LABELS = "labels"  # what the learned shares of the labels are called, as logits

FakeGradients = Callable[[Discriminator, Tensor], dict[str, Tensor]]
"""From a discriminator and fake rows, (rows, inputs + classes), to a mean of gradients of softplus(score)."""

_BETA1 = 0.5  # of Adam, as in DCGAN (Radford et al., ICLR 2016) and in Bie et al.
_DISCRIMINATOR, _GENERATOR, _REAL = 0, 1, 2


def stream(*seeds: int) -> torch.Generator:
    """Returns public randomness on the CPU that follows from some seeds: the same when a run is resumed."""
    seed = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> np.uint64(1)
    return torch.Generator().manual_seed(int(seed))


class DiscriminatorTraining(Checkpointed):
    """A discriminator between real records, of which noisy sums of gradients come, and fake ones.

    A step divides the noisy sum by `records`, the expected number of real records in it, and is one of Adam.
    """

    def __init__(
        self,
        discriminator: Discriminator,
        *,
        learning_rate: float,
        records: float,
        beta1: float = 0.9,
    ) -> None:
        self.discriminator, self.steps = discriminator, 0
        self._weights, self._records = dict(discriminator.named_parameters()), records
        self._adam = Adam(self._weights, learning_rate=learning_rate, beta1=beta1)

    @abstractmethod
    def fake_gradients(self) -> dict[str, Tensor]:
        """Returns the mean gradient at the fake records of this step."""

    @abstractmethod
    def after_step(self) -> None:
        """Does what follows a step of the discriminator; `steps` counts it already."""

    def parameters(self) -> dict[str, Tensor]:
        """Returns the discriminator's weights, where the next gradient is to be taken."""
        return {name: value.detach() for name, value in self._weights.items()}

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Moves the discriminator after a noisy sum of gradients at real records."""
        fake = self.fake_gradients()
        self._adam.step(
            {name: noisy[name] / self._records + fake[name] for name in self._weights}
        )
        self.steps += 1
        self.after_step()


class AdversarialTraining(DiscriminatorTraining):
    """Generator and discriminator on their way; all that is given is on one device.

    `logits` are log-shares of the labels, (labels,), one 0 where there is no label, which may be `learned` too;
    `encode` goes from the generator to discriminator inputs; `records` are expected in a step.
    """

    def __init__(
        self,
        config: AdversarialConfig,
        generator: Generator,
        logits: Float[Tensor, " classes"],
        *,
        learned: bool,
        encode: DiscriminatorInput,
        discriminator: Discriminator,
        gradients: FakeGradients,
        records: float,
    ) -> None:
        rate = config.discriminator_learning_rate
        super().__init__(
            discriminator, learning_rate=rate, records=records, beta1=_BETA1
        )
        # In training mode throughout: what it makes for either step is normalised by the batch, and running statistics,
        # which are released, see every batch.
        self.config, self.generator = config, generator.train()
        self._logits, self._learned, self._encode, self._gradients = (
            logits.clone(),
            learned,
            encode,
            gradients,
        )
        trained = dict(generator.named_parameters()) | self._learned_logits()
        self._generator_adam = Adam(
            trained, learning_rate=config.generator_learning_rate, beta1=_BETA1
        )

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, and the logits of the labels if they are learned."""
        return self.generator.state_dict() | self._learned_logits()

    def generated(
        self, random: torch.Generator
    ) -> tuple[Float[Tensor, "batch _"], Int64[Tensor, " batch"]]:
        """Returns discriminator inputs of generated records, (batch, inputs + classes), and their labels, (batch,)."""
        shares = self._logits.detach().softmax(dim=0).cpu()
        labels = torch.multinomial(
            shares, self.config.batch, replacement=True, generator=random
        )
        noise = self.generator.noise(self.config.batch, random).to(self._logits.device)
        labels = labels.to(self._logits.device)
        return self.discriminator.rows(
            self._encode(self.generator, noise, labels, random), labels
        ), labels

    def fake_gradients(self) -> dict[str, Tensor]:
        """Returns the mean gradient at generated records."""
        with torch.no_grad():
            rows, _ = self.generated(
                stream(self.config.seed, _DISCRIMINATOR, self.steps)
            )
        return self._gradients(self.discriminator, rows)

    def after_step(self) -> None:
        """Moves the generator in its turn."""
        if self.steps % self.config.discriminator_steps == 0:
            self.generator_step(stream(self.config.seed, _GENERATOR, self.steps))

    def generator_step(self, random: torch.Generator) -> None:
        """Moves the generator, and the shares of the labels if they are learned."""
        rows, labels = self.generated(random)
        losses = softplus(-self.discriminator(rows))
        descent = gradients(losses.mean(), dict(self.generator.named_parameters()))
        if self._learned:
            # REINFORCE with a batch-mean baseline (Williams 1992, https://doi.org/10.1007/BF00992696).
            advantage = (losses - losses.mean()).detach() / len(losses)
            chosen = torch.zeros_like(self._logits).index_add_(0, labels, advantage)
            descent[LABELS] = chosen - advantage.sum() * self._logits.softmax(dim=0)
        self._generator_adam.step(descent)

    def parts(self) -> dict[str, Any]:
        """Returns both networks and both optimisers."""
        networks = {"discriminator": self.discriminator, "generator": self.result()}
        return {**networks, "first": self._adam, "second": self._generator_adam}

    def _learned_logits(self) -> dict[str, Tensor]:
        return {LABELS: self._logits} if self._learned else {}


def mean_gradients(
    discriminator: Discriminator,
    rows: Float[Tensor, "records _"],
    *,
    real: bool = False,
) -> dict[str, Tensor]:
    """Returns the mean gradient of the loss at fake rows, or at real ones; nothing is clipped."""
    scores = discriminator(rows)
    return gradients(
        softplus(-scores if real else scores).mean(),
        dict(discriminator.named_parameters()),
    )


def pretrain(
    config: AdversarialConfig,
    generator: Generator,
    discriminator: Discriminator,
    rows: Float[Tensor, "records _"],
    *,
    encode: DiscriminatorInput,
    steps: int,
) -> None:
    """Trains both in place for so many steps on public rows, labels one-hot, (records, inputs + classes)."""
    classes, shares = discriminator.classes, torch.ones(1, device=rows.device)
    if classes:
        shares = rows[:, -classes:].mean(dim=0).clamp_min(1e-6)
    training = AdversarialTraining(
        config,
        generator,
        shares.log(),
        learned=False,
        encode=encode,
        discriminator=discriminator,
        gradients=mean_gradients,
        records=1.0,
    )
    for step in range(steps):
        chosen = torch.randint(
            len(rows), (config.batch,), generator=stream(config.seed, _REAL, step)
        ).to(rows.device)
        training.step(mean_gradients(discriminator, rows[chosen], real=True))


class DensityRatioTraining(DiscriminatorTraining):
    """A discriminator on its way between private records and references, (references, dim).

    `labels` are theirs, (references,), None where each stands for every label; a step has `records` private ones,
    expected, and a `batch` of references. Weights after `burn_in` steps are averaged to what is released.
    """

    def __init__(
        self,
        discriminator: Discriminator,
        features: npt.NDArray[np.float32],
        labels: npt.NDArray[np.int64] | None,
        *,
        records: float,
        batch: int,
        learning_rate: float,
        burn_in: int,
        seed: int,
    ) -> None:
        super().__init__(discriminator, learning_rate=learning_rate, records=records)
        device = next(discriminator.parameters()).device
        self._features, self._seed = torch.from_numpy(features).to(device), seed
        self._labels = None if labels is None else torch.from_numpy(labels).to(device)
        self._batch, self._burn_in = min(batch, len(features)), burn_in
        self._means = {
            name: value.detach().clone() for name, value in self._weights.items()
        }

    def result(self) -> dict[str, Tensor]:
        """Returns the mean of the weights over the last steps: most of what noise did to single ones cancels."""
        return {name: value.clone() for name, value in self._means.items()}

    def fake_gradients(self) -> dict[str, Tensor]:
        """Returns the gradient of the mean of −log(1 − D) over references that are drawn at random."""
        drawn = torch.randint(
            len(self._features),
            (self._batch,),
            generator=stream(self._seed, self.steps),
        )
        drawn = drawn.to(self._features.device)
        labels = None if self._labels is None else self._labels[drawn]
        return gradients(
            softplus(
                self.discriminator.label_scores(self._features[drawn], labels)
            ).mean(),
            self._weights,
        )

    def after_step(self) -> None:
        """Averages the weights; until the averaging begins, the mean is the latest."""
        share = 1 / max(self.steps - self._burn_in, 1)
        for name, value in self._weights.items():
            self._means[name].lerp_(value.detach(), share)

    def parts(self) -> dict[str, Any]:
        """Returns weights, their mean, and the optimiser."""
        return {"weights": self.discriminator, "mean": self._means, "adam": self._adam}


def density_ratios(
    discriminator: Discriminator,
    vectors: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64] | None,
    *,
    most: float,
) -> npt.NDArray[np.float64]:
    """Returns the weight of each reference, in proportion to w = D/(1 − D) = exp(s), divided by the largest one."""
    # Of features, (references, features), and labels, (references,), or None, by a discriminator on the CPU: (labels,
    # references), or (1, references) where references have labels of their own, or there are none. Scores s are cut at
    # the logarithm of the `most` that w may be, known beforehand, so that no weight is infinite.
    parts = []
    with torch.no_grad():
        for start in range(0, len(vectors), _ROWS):
            rows = slice(start, start + _ROWS)
            own = None if labels is None else torch.from_numpy(labels[rows])
            parts.append(
                discriminator.label_scores(torch.from_numpy(vectors[rows]), own)
            )
    scores = np.minimum(
        torch.cat(parts, dim=1).numpy().astype(np.float64), math.log(most)
    )
    return np.asarray(np.exp(scores - scores.max()))
