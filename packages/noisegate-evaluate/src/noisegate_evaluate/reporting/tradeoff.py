"""What is left to an attacker: how well any test can tell whether a record took part, by what was run (G-28)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import SampledGaussianEvent

_PARTS = tuple(10 ** (-exponent / 24) for exponent in range(8, 145))  # from a half down to 1e-6
_DELTAS = (*(1 - part for part in _PARTS[:48]), *_PARTS)
_FEW = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)  # where each takes up to a second


@dataclass(frozen=True)
class Tradeoff:
    """Pairs (ε, δ) for each of which what was run is differentially private.

    Examples:
        >>> from noisegate_evaluate.reporting.tradeoff import Tradeoff
        >>> pure = Tradeoff(((1.0, 0.0),))
        >>> round(pure.catches(0.05), 3), round(pure.right, 3)
        (0.136, 0.731)
    """

    pairs: tuple[tuple[float, float], ...]

    def catches(self, false_alarms: float) -> float:
        """Returns the largest share of cases that a test catches which raises at most this share of false alarms."""
        return min(min(_forward(*pair, false_alarms), _backward(*pair, false_alarms)) for pair in self.pairs)

    @property
    def right(self) -> float:
        """The largest share of guesses that are right where both cases are equally likely; of coins it is one half."""
        return min(_right(*pair) for pair in self.pairs)


def tradeoff(certificate: Certificate) -> Tradeoff:
    """Returns what follows from all that a certificate states; its own pair is among these."""
    events, adjacency = certificate.composed, certificate.adjacency
    slow = any(isinstance(event, SampledGaussianEvent) and event.rate < 1 for event in events)
    found = [(accounting.epsilon(events, delta, adjacency), delta) for delta in (_FEW if slow else _DELTAS)]
    pairs = [(epsilon, delta) for epsilon, delta in found if math.isfinite(epsilon)]
    return Tradeoff(((certificate.epsilon, certificate.delta), *pairs))


def _forward(epsilon: float, delta: float, alarms: float) -> float:
    return min(math.exp(min(epsilon, 700)) * alarms + delta, 1.0) if alarms else delta


def _backward(epsilon: float, delta: float, alarms: float) -> float:
    return 1 - math.exp(-epsilon) * max(1 - delta - alarms, 0.0)


def _right(epsilon: float, delta: float) -> float:
    # (e^ε + δ)/(e^ε + 1), by what cannot overflow.
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
