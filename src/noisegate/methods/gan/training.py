"""The public half of a private GAN: it sees noisy sums of the discriminator's gradients, and no record.

A step of the discriminator adds two mean gradients: that on real records, a noisy sum over the size that is expected,
and that on generated ones, which costs no privacy, since generator and discriminator follow from earlier sums. After
`discriminator_steps` of them the generator takes one step. The loss is the logistic one that does not saturate
(Goodfellow et al., NeurIPS 2014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from noisegate.generators.generator import Generator
    from noisegate.generators.shown import Shown
    from noisegate.networks.discriminator import Discriminator

LABELS = "labels"
"""What the learned shares of the labels are called, as logits."""

# Of Adam, as in DCGAN (Radford et al., ICLR 2016) and in Bie et al.
_KEPT = 0.5
_DISCRIMINATOR, _GENERATOR = 0, 1
# Generated records whose gradients are held at once.
_BLOCK = 64


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How the two play; none of it uses private records.

    Attributes:
        discriminator_steps: Steps of the discriminator to one of the generator (n_D).
        batch: Generated records in each step of either.
        norm: L2 norm that the gradient at each generated record is clipped to, as those at real ones are; None where
            nothing is clipped, as there is no private record.
        discriminator_rate: Learning rate of the discriminator.
        generator_rate: Learning rate of the generator.
        seed: Of noise, labels and draws; public.
    """

    discriminator_steps: int
    batch: int
    norm: float | None
    discriminator_rate: float
    generator_rate: float
    seed: int

    def random(self, player: int, step: int) -> torch.Generator:
        """Returns the randomness of a step: the same when a run is taken up again."""
        import torch

        seed = int(np.random.SeedSequence([self.seed, player, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        return torch.Generator().manual_seed(seed)


class AdversarialTraining:
    """Generator and discriminator on their way.

    Args:
        rules: How they play.
        generator: At its start, on the device.
        shares: Log-shares of the labels, (labels,), on the device; one 0 where there is no label.
        learned: Whether the shares are learned too.
        shown: What the discriminator sees of a generated record.
        discriminator: At its start, on the device.
        records: Expected number of real records in a step.
    """

    def __init__(
        self,
        rules: Rules,
        generator: Generator,
        shares: Tensor,
        *,
        learned: bool,
        shown: Shown,
        discriminator: Discriminator,
        records: float,
    ) -> None:
        from torch.nn.functional import softplus

        from noisegate.fitting.adam import Adam
        from noisegate.gate.losses import module_loss

        self.steps = 0
        self._rules, self._shown, self._records = rules, shown, records
        # In training mode throughout: what it makes for either step is normalised by the batch, and running statistics,
        # which are released, see every batch.
        self._generator, self._discriminator = generator.train(), discriminator
        self._shares, self._learned = shares.clone(), learned
        self._moved = {**dict(generator.named_parameters()), **({LABELS: self._shares} if learned else {})}
        self._adversary = dict(discriminator.named_parameters())
        self._loss = module_loss(discriminator, lambda run, row, codes: softplus(run(row[None]))[0])
        self._first = Adam(self._adversary, learning_rate=rules.discriminator_rate, kept=_KEPT)
        self._second = Adam(self._moved, learning_rate=rules.generator_rate, kept=_KEPT)

    def parameters(self) -> dict[str, Tensor]:
        """Returns the discriminator's weights, where the next gradient is to be taken."""
        return {name: value.detach() for name, value in self._adversary.items()}

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, and the shares of the labels if they are learned."""
        return {**self._generator.state_dict(), **({LABELS: self._shares} if self._learned else {})}

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Moves the discriminator after a noisy sum of gradients at real records, and the generator in its turn."""
        rows = self._generated(self._rules.random(_DISCRIMINATOR, self.steps))
        made = self._slopes(rows)
        self._first.step({name: noisy[name] / self._records + made[name] for name in self._adversary})
        self.steps += 1
        if self.steps % self._rules.discriminator_steps == 0:
            self._move_generator(self._rules.random(_GENERATOR, self.steps))

    def state(self) -> dict[str, Tensor]:
        """Returns both networks, both optimisers and the number of steps."""
        import torch

        parts = {"discriminator": self.parameters(), "generator": self.result()}
        parts |= {"first": self._first.state(), "second": self._second.state()}
        named = {f"{part}/{name}": value for part, tensors in parts.items() for name, value in tensors.items()}
        return {**named, "steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        import torch

        parts: dict[str, dict[str, Tensor]] = {"discriminator": {}, "generator": {}, "first": {}, "second": {}}
        for path, value in tensors.items():
            part, _, name = path.partition("/")
            if name:
                parts[part][name] = value
        with torch.no_grad():
            if self._learned:
                self._shares.copy_(parts["generator"].pop(LABELS))
        self._generator.load_state_dict(parts["generator"])
        self._discriminator.load_state_dict(parts["discriminator"])
        self._first.restore(parts["first"])
        self._second.restore(parts["second"])
        self.steps = int(tensors["steps"])

    def _generated(self, random: torch.Generator) -> Tensor:
        """Returns generated records as the discriminator sees them, (rows, inputs + labels), without slopes."""
        import torch

        with torch.no_grad():
            return self._made(random)[0]

    def _made(self, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Returns generated records as the discriminator sees them, and their labels."""
        import torch
        from torch.nn.functional import one_hot

        shares = self._shares.detach().softmax(dim=0).cpu()
        labels = torch.multinomial(shares, self._rules.batch, replacement=True, generator=random)
        noise = self._generator.noise(self._rules.batch, random).to(self._shares.device)
        labels = labels.to(self._shares.device)
        shown = self._shown(self._generator, noise, labels, random)
        if not self._discriminator.classes:
            return shown, labels
        return torch.cat([shown, one_hot(labels, len(self._shares)).to(shown.dtype)], dim=1), labels

    def _slopes(self, rows: Tensor) -> dict[str, Tensor]:
        """Returns the mean over generated records of the clipped gradient of the discriminator's loss."""
        import torch
        from torch.nn.functional import softplus

        from noisegate.gate.captured import captured

        if self._rules.norm is None:
            loss = softplus(self._discriminator(rows)).mean()
            plain = torch.autograd.grad(loss, list(self._adversary.values()))
            return dict(zip(self._adversary, plain, strict=True))
        # What the gate uses, for the same clipping; no record comes near it here.
        parameters = self.parameters()
        total = {name: torch.zeros_like(value) for name, value in parameters.items()}
        for block in torch.split(rows, _BLOCK):
            found = captured(self._loss, parameters, block, torch.zeros(len(block), 0, device=rows.device))
            squares = [value.flatten(1).square().sum(dim=1) for value in found.whole.values()]
            squares += [x.square().sum(dim=1) * d.square().sum(dim=1) for x, d in found.products.values()]
            lengths = torch.stack(squares).sum(dim=0).sqrt()
            weights = (self._rules.norm / lengths.clamp_min(1e-30)).clamp_max(1.0) / len(rows)
            for name, value in found.whole.items():
                total[name] += torch.tensordot(weights, value, dims=1)
            for name, (inputs, slopes) in found.products.items():
                total[name] += (slopes * weights[:, None]).T @ inputs
        return total

    def _move_generator(self, random: torch.Generator) -> None:
        import torch
        from torch.nn.functional import softplus

        rows, labels = self._made(random)
        losses = softplus(-self._discriminator(rows))
        weights = dict(self._generator.named_parameters())
        gradients = dict(zip(weights, torch.autograd.grad(losses.mean(), list(weights.values())), strict=True))
        if self._learned:
            # The score function with the mean as baseline: a label that fools more than others gets a larger share.
            luck = (losses - losses.mean()).detach() / len(losses)
            chosen = torch.zeros_like(self._shares).index_add_(0, labels, luck)
            gradients[LABELS] = chosen - luck.sum() * self._shares.softmax(dim=0)
        self._second.step(gradients)
