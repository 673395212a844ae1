"""The public half of a private GAN: it sees noisy sums of the discriminator's gradients, and no record.

A step of the discriminator adds two mean gradients of the logistic loss: that at real records, a noisy sum over the
size that is expected, and that at fake ones, which costs no privacy, since generator and discriminator follow from
earlier sums. Now and then the generator takes a step of its own, by the loss that does not saturate (Goodfellow et al.,
NeurIPS 2014, https://arxiv.org/abs/1406.2661).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from noisegate.models.checkpoint import joined, under
from noisegate_images.models.generator import Generator
from noisegate_images.training.adam import Adam, gradients
from noisegate_papers.models.inputs import DiscriminatorInput
from noisegate_papers.networks.discriminator import Discriminator
from noisegate_papers.training.schedules import AdversarialConfig

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

LABELS = "labels"
"""What the learned shares of the labels are called, as logits."""

FakeGradients = Callable[[Discriminator, Tensor], dict[str, Tensor]]
"""From a discriminator and fake rows, (rows, inputs + classes), to a mean of gradients of softplus(score)."""

# Of Adam, as in DCGAN (Radford et al., ICLR 2016) and in Bie et al.
_BETA1 = 0.5
_DISCRIMINATOR, _GENERATOR, _REAL = 0, 1, 2


def stream(*seeds: int) -> torch.Generator:
    """Returns public randomness on the CPU that follows from some seeds: the same when a run is resumed."""
    seed = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> np.uint64(1)
    return torch.Generator().manual_seed(int(seed))


class DiscriminatorTraining(ABC):
    """A discriminator between real records, of which noisy sums of gradients come, and fake ones.

    A step divides the noisy sum by `records`, the expected number of real records in it, and is one of Adam.
    """

    def __init__(
        self, discriminator: Discriminator, *, learning_rate: float, records: float, beta1: float = 0.9
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
        self._adam.step({name: noisy[name] / self._records + fake[name] for name in self._weights})
        self.steps += 1
        self.after_step()


class AdversarialTraining(DiscriminatorTraining):
    """Generator and discriminator on their way; all that is given is on one device.

    Args:
        config: How they are trained.
        generator: At its start.
        logits: Log-shares of the labels, (labels,); one 0 where there is no label.
        learned: Whether the shares are learned too.
        encode: From the generator to discriminator inputs.
        discriminator: At its start.
        gradients: Gradients at fake records.
        records: Expected number of real records in a step.
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
        super().__init__(discriminator, learning_rate=rate, records=records, beta1=_BETA1)
        # In training mode throughout: what it makes for either step is normalised by the batch, and running statistics,
        # which are released, see every batch.
        self.config, self.generator = config, generator.train()
        self._logits, self._learned, self._encode, self._gradients = logits.clone(), learned, encode, gradients
        trained = dict(generator.named_parameters()) | self._learned_logits()
        self._generator_adam = Adam(trained, learning_rate=config.generator_learning_rate, beta1=_BETA1)

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, and the logits of the labels if they are learned."""
        return self.generator.state_dict() | self._learned_logits()

    def generated(self, random: torch.Generator) -> tuple[Float[Tensor, "batch _"], Int64[Tensor, " batch"]]:
        """Returns discriminator inputs of generated records, (batch, inputs + classes), and their labels, (batch,)."""
        shares = self._logits.detach().softmax(dim=0).cpu()
        labels = torch.multinomial(shares, self.config.batch, replacement=True, generator=random)
        noise = self.generator.noise(self.config.batch, random).to(self._logits.device)
        labels = labels.to(self._logits.device)
        rows = self._encode(self.generator, noise, labels, random)
        if not self.discriminator.classes:
            return rows, labels
        return torch.cat([rows, one_hot(labels, len(self._logits)).to(rows.dtype)], dim=1), labels

    def fake_gradients(self) -> dict[str, Tensor]:
        """Returns the mean gradient at generated records."""
        with torch.no_grad():
            rows, _ = self.generated(stream(self.config.seed, _DISCRIMINATOR, self.steps))
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

    def state_dict(self) -> dict[str, Tensor]:
        """Returns both networks, both optimisers and the number of steps."""
        networks = joined(discriminator=self.parameters(), generator=self.result())
        adams = joined(first=self._adam.state_dict(), second=self._generator_adam.state_dict())
        return {**networks, **adams, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        generator = under(tensors, "generator/")
        if self._learned:
            self._logits.copy_(generator.pop(LABELS))
        self.generator.load_state_dict(generator)
        self.discriminator.load_state_dict(under(tensors, "discriminator/"))
        self._adam.load_state_dict(under(tensors, "first/"))
        self._generator_adam.load_state_dict(under(tensors, "second/"))
        self.steps = int(tensors["steps"])

    def _learned_logits(self) -> dict[str, Tensor]:
        return {LABELS: self._logits} if self._learned else {}


def mean_gradients(
    discriminator: Discriminator, rows: Float[Tensor, "records _"], *, real: bool = False
) -> dict[str, Tensor]:
    """Returns the mean gradient of the loss at fake rows, or at real ones; nothing is clipped."""
    scores = discriminator(rows)
    return gradients(softplus(-scores if real else scores).mean(), dict(discriminator.named_parameters()))


def pretrain(
    config: AdversarialConfig,
    generator: Generator,
    discriminator: Discriminator,
    rows: Float[Tensor, "records _"],
    *,
    encode: DiscriminatorInput,
    steps: int,
) -> None:
    """Trains a generator and a discriminator in place on public records, before they see gradients at private ones.

    `rows` are discriminator inputs of public records, with one-hot labels if there are any, (records, inputs +
    classes); `steps` are the discriminator's.
    """
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
        chosen = torch.randint(len(rows), (config.batch,), generator=stream(config.seed, _REAL, step)).to(rows.device)
        training.step(mean_gradients(discriminator, rows[chosen], real=True))
