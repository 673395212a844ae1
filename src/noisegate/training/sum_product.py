"""Weigh the product kernel against the sum kernel, and match products one after another (DP-HP, equation 16).

    min over the generator of  ‖μ_sum − μ̂_sum‖² + γ · ‖μ_product − μ̂_product‖²

for class-wise mean embeddings of maps of norm 1. The paper's code draws the columns of the product once an epoch,
releases its embedding then, and matches that one until the next; releases of one plan can all be made at once, so that
here only the matching goes in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisegate.training.moment_matching import HalvesMatching, Target


class SumProductMatching(HalvesMatching):
    """`HalvesMatching` with a weight on all blocks but one.

    Args:
        sum_block: The block that is always matched, with weight 1.
        gamma: γ, the weight of the others' squared distance beside it; None weighs every block by its noise, as maximum
            likelihood does.
        in_turn: Whether the other blocks are matched one after another, each for an equal part of the steps, and each
            with all of γ; else all at once, with γ shared among them.
        arguments: Those of `HalvesMatching`.
    """

    def __init__(self, *arguments: Any, sum_block: str, gamma: float | None, in_turn: bool, **named: Any) -> None:
        self._sum, self._gamma, self._in_turn = sum_block, gamma, in_turn
        super().__init__(*arguments, **named)

    def _set_up(self, target: Target) -> None:
        # Residuals are in noise standard deviations; the distance in embeddings weighs them by their variances.
        variances = {name: float(stds[0]) ** 2 for name, stds in target.noise_std.items()}
        self._variance = {name: variance / variances[self._sum] for name, variance in variances.items()}
        super()._set_up(target)

    def _factors(self) -> Mapping[str, float]:
        others = [name for name in self._embeddings if name != self._sum]
        if self._in_turn and others:
            others = [others[min(self.step * len(others) // self.steps, len(others) - 1)]]
        if self._gamma is None:
            return dict.fromkeys((self._sum, *others), 1.0)
        each = self._gamma / max(len(others), 1)
        return {self._sum: 1.0} | {name: each * self._variance[name] for name in others}
