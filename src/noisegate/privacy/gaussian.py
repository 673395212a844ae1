"""The privacy curve of the Gaussian mechanism in closed form, without SciPy so that the command line starts at once.

A Gaussian release with sensitivity Δ and standard deviation σ is μ-GDP with μ = Δ/σ, and k of them compose to
√(Σ μᵢ²)-GDP (Dong, Roth, Su 2019, Theorem 2.7 and Corollary 3.3). μ-GDP is (ε, δ)-DP exactly when

    δ ≥ Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)          (Balle, Wang 2018, Theorem 8).

`dp_accounting` computes the same curve; it is the oracle of the tests here, and takes over two seconds to import, which
is why it is not used for this case.
"""

from __future__ import annotations

import math

# Results are moved to the safe side by this relative amount, far above the rounding error of the functions below.
_SAFETY = 1e-9
_SMALLEST_MU = 1e-5
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


def _log_normal_cdf(x: float) -> float:
    """Returns log Φ(x) for any finite x."""
    if x > 0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2)))
    if x > -25:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Asymptotic expansion of the Mills ratio; below −25 the first dropped term is under 1e-13.
    square = x * x
    term, total = 1.0, 1.0
    for k in range(1, 9):
        term *= -(2 * k - 1) / square
        total += term
    return -0.5 * square - math.log(-x) - _LOG_ROOT_2PI + math.log(total)


def log_delta(mu: float, epsilon: float) -> float:
    """Returns log δ such that the μ-GDP mechanism is exactly (ε, δ)-DP; −inf when δ is 0 in float64."""
    if mu <= 0:
        return -math.inf
    first = _log_normal_cdf(mu / 2 - epsilon / mu)
    second = epsilon + _log_normal_cdf(-mu / 2 - epsilon / mu)
    gap = second - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


def epsilon_of(mu: float, delta: float) -> float:
    """Returns an upper bound on the smallest ε ≥ 0 for which the μ-GDP mechanism is (ε, δ)-DP.

    Args:
        mu: The Gaussian-DP parameter, at least 0.
        delta: In (0, 1).
    """
    # Below 1e-5 the two terms of the curve cancel to rounding error; the curve grows with μ, so this is the safe side.
    mu = max(mu, _SMALLEST_MU)
    target = math.log(delta)
    if log_delta(mu, 0.0) <= target - _SAFETY:
        return 0.0
    low, high = 0.0, 1.0
    while log_delta(mu, high) > target:
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if log_delta(mu, middle) > target else (low, middle)
    return high * (1 + _SAFETY)


def mu_for(epsilon: float, delta: float) -> float:
    """Returns a lower bound on the largest μ for which the μ-GDP mechanism is (ε, δ)-DP.

    Args:
        epsilon: Positive.
        delta: In (0, 1).
    """
    target = math.log(delta)
    low, high = 0.0, 1.0
    while log_delta(high, epsilon) <= target:
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if log_delta(middle, epsilon) <= target else (low, middle)
    # Twice the safety of `epsilon_of`, so that an event calibrated here is found to cost no more than was asked.
    return low * (1 - 4 * _SAFETY)
