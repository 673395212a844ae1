"""What an audit found: the lower bound beside the claim, and whether the noise is the stated one."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit found.

    Attributes:
        lower_bound: The ε that the attack shows to be exceeded, but for a chance of 1 − `confidence`: the larger part.
        from_noise: That which rests on how loud the noise was measured to be.
        from_guesses: That which rests on how often the two worlds were told apart.
        noise: Limits of the measured noise over the stated one, in all directions; (0, inf) where it cannot be told.
        along: The same along the difference of the worlds, the smallest and largest of all questions.
        runs: How many runs there were, over both worlds.
        guessed: Where one column of a record is guessed, how often right: in runs with the record, and without.
    """

    method: str
    kind: str
    claim: float
    delta: float
    adjacency: str
    lower_bound: float
    from_noise: float = 0.0
    from_guesses: float
    noise: tuple[float, float] = (0.0, math.inf)
    along: tuple[float, float] = (0.0, math.inf)
    runs: int
    confidence: float
    guessed: tuple[float, float] | None = None

    @property
    def exceeded(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.lower_bound > self.claim

    @property
    def too_little_noise(self) -> bool:
        """Whether the noise is surely smaller than stated."""
        return min(self.noise[1], self.along[1]) < 1

    @property
    def too_much_noise(self) -> bool:
        """Whether the noise is surely larger than stated: no danger, but not what was paid for."""
        return max(self.noise[0], self.along[0]) > 1

    @property
    def holds(self) -> bool:
        """Whether nothing was found: the claim is not exceeded, and the noise is as stated."""
        return not (self.exceeded or self.too_little_noise or self.too_much_noise)

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        if self.exceeded:
            return "the claim is exceeded"
        if self.too_little_noise:
            return "less noise than stated"
        return "more noise than stated" if self.too_much_noise else "nothing found against the claim"

    def to_json(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        told = {name: value for name, value in asdict(self).items() if value is not None}
        return {**told, "holds": self.holds, "verdict": self.verdict}
