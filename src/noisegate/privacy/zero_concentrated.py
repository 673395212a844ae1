"""From zero-concentrated differential privacy to (ε, δ), in closed form up to one minimum.

A mechanism is ρ-zCDP when its Rényi divergence of every order α > 1 between neighbours is at most αρ (Bun, Steinke
2016). Any α then gives a valid ε (Canonne, Kamath, Steinke 2020, Proposition 12):

    ε(α) = αρ + (log(1/δ) + (α − 1)·log(1 − 1/α) − log α) / (α − 1).

The least one is looked for numerically: where the search stops costs tightness, never validity.
"""

from __future__ import annotations

import math

# Results are moved to the safe side by this relative amount, far above the rounding error of the formula on the orders
# below, where no term exceeds 1e11.
_SAFETY = 1e-9
_LOWEST, _HIGHEST = math.log(1e-4), math.log(1e10)  # of α − 1
_GOLDEN = (math.sqrt(5) - 1) / 2


def rho_of_gaussian(mu: float) -> float:
    """Returns the least ρ for which every μ-GDP mechanism is ρ-zCDP (Dong, Roth, Su 2019, Corollary B.6)."""
    return mu * mu / 2


def epsilon_of(rho: float, delta: float) -> float:
    """Returns an ε ≥ 0 for which every ρ-zCDP mechanism is (ε, δ)-DP.

    Args:
        rho: At least 0.
        delta: In (0, 1).
    """
    low, high = _LOWEST, _HIGHEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _epsilon_at(left, rho, delta), _epsilon_at(right, rho, delta)
    for _ in range(100):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _epsilon_at(left, rho, delta)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _epsilon_at(right, rho, delta)
    return max(min(at_left, at_right) * (1 + _SAFETY), 0.0)


def rho_for(epsilon: float, delta: float) -> float:
    """Returns a lower bound on the largest ρ for which `epsilon_of(ρ, delta)` is at most `epsilon`.

    Args:
        epsilon: Positive.
        delta: In (0, 1).
    """
    low, high = 0.0, 1.0
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    # Twice the safety of `epsilon_of`, so that an event calibrated here is found to cost no more than was asked.
    return low * (1 - 4 * _SAFETY)


def _epsilon_at(log_excess: float, rho: float, delta: float) -> float:
    """Returns ε(α) for α = 1 + exp(log_excess)."""
    excess = math.exp(log_excess)
    alpha = 1 + excess
    return alpha * rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / excess
