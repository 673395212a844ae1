"""Estimates with intervals: functions of released sums, with their noise and sampling.

An estimate is a quotient θ = a/b of functions of sums s, with gradients A and B. Its
interval is Fieller's (Journal of the Royal Statistical Society B, 1954): all θ for
which a − θb is within so many of its standard errors of 0. By the delta method, with
G = A − θB, the variance of a − θb is the sum of

- that of the noise, G·N·N'·G', where N has a column for each of its independent
  sources and is known exactly;
- that of sampling, n·G·C·G', where C is the covariance of the entries of a record, by
  records of the model;
- that of a bias, where sums follow from cells that have a width.

What the noise does beyond gradients is found by drawing it again. A shift is taken off,
and a wider spread counts. Where either is no longer small, or the interval has no end,
there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_moments import MomentEstimates
from noisegate.answers.noisy_table import NoisyTable

Statistic: TypeAlias = Callable[[Floats], Floats]
"""From sums, (sums,), to numerators and denominators, (2, estimates).

Where denominators are 1, it may return the estimates alone, (estimates,). Numbers are
NaN where they are not defined.
"""

TOO_NOISY = "too noisy for an interval"
"""What the refusal of an answer says first."""

# How often the noise is drawn again.
_REDRAWS = 200
# An estimate is refused where the spread of redrawn ones is so many times what its
# gradient says, or their median is so many standard errors off ...
_MAX_SPREAD_RATIO = 1.5
_MAX_SHIFT = 1.0
# ... unless the noise is this small a part of all errors;
_MIN_NOISE_PART = 0.1
# ... and where more than this part of redrawn estimates is not defined.
_MAX_UNDEFINED = 0.02
# Ends of the middle 95 % of redrawn estimates are so many standard deviations apart.
_SPAN_OF_95_PERCENT = 2 * 1.96
# Derivatives are differences over this part of a standard deviation of the noise; of a
# sum without noise over this part of the largest sum.
_STEP = 0.05
_MIN_RELATIVE_SCALE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number that was asked for.

    Attributes:
        question: The question, as it was asked.
        name: What the number is: a column, a group, a coefficient.
        value: The estimate; None if it is too noisy.
        low: Lower end of its interval; None where there is none.
        high: Upper end; None likewise.
        noise: Standard error by the noise of the release.
        sampling: Standard error by the sampling of the records from a population.
        bias: What the width of cells may add, as a standard error.
        p: Of a test, the probability that chance alone gives as much.
        refused: Why there is no answer.
        notes: What else has to be known.
    """

    question: str
    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float = 0.0
    sampling: float = 0.0
    bias: float = 0.0
    p: float | None = None
    refused: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns all fields as JSON values."""
        return {**asdict(self), "notes": list(self.notes)}

    def widened_by(self, bound: float) -> Estimate:
        """Returns the same with an interval that reaches further by a bound."""
        if self.low is None or self.high is None or not math.isfinite(bound):
            return self
        return replace(
            self,
            low=self.low - bound,
            high=self.high + bound,
            bias=math.hypot(self.bias, bound),
        )

    def with_error(self, error: float, z: float) -> Estimate:
        """Returns the same with a further, independent error.

        Args:
            error: Its standard deviation.
            z: How many standard errors the interval reaches to either side.
        """
        has_interval = None not in (self.value, self.low, self.high)
        if not has_interval or not math.isfinite(error):
            return self
        assert self.value is not None
        assert self.low is not None
        assert self.high is not None
        return replace(
            self,
            low=self.value - math.hypot(self.value - self.low, z * error),
            high=self.value + math.hypot(self.high - self.value, z * error),
            bias=math.hypot(self.bias, error),
        )

    def exponential(self) -> Estimate:
        """Returns the answer whose logarithm this one is."""
        if self.value is None or self.low is None or self.high is None:
            return self
        return replace(
            self,
            value=math.exp(self.value),
            low=math.exp(self.low),
            high=math.exp(self.high),
        )


@dataclass(frozen=True)
class Intervals:
    """Which intervals are wanted.

    Attributes:
        level: Their level, between 0 and 1.
        finite: Whether answers are about the records themselves, and not about the
            population that these are a sample of.
    """

    level: float = 0.95
    finite: bool = False

    @property
    def z(self) -> float:
        """How many standard errors an interval reaches to either side."""
        return NormalDist().inv_cdf(0.5 + self.level / 2)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Sums, and how they vary.

    Attributes:
        values: The sums, (sums,).
        noise: Their noise, as standard deviations with signs, a column for each of its
            independent sources, (sums, sources).
        bias: What each may be off by beside, likewise, a column for each independent
            cause, (sums, causes).
        sampling: Their covariance as records are sampled, (sums, sums).
    """

    values: Floats
    noise: Floats
    bias: Floats
    sampling: Floats


def spread_of_moments(
    evidence: Evidence, moments: MomentEstimates, intervals: Intervals
) -> Spread:
    """Returns how sums of products vary.

    Sampling is taken from records of the model.
    """
    n_products = len(moments.values)
    covariance = np.zeros((n_products, n_products))
    if not intervals.finite:
        products = moments.feature_map.products(evidence.sample).astype(np.float64)
        of_one_record = np.atleast_2d(np.cov(products, rowvar=False))
        covariance = max(evidence.total.value, 1.0) * of_one_record
    return Spread(
        values=moments.values,
        noise=moments.noise,
        bias=moments.bias,
        sampling=covariance,
    )


def spread_of_table(table: NoisyTable, intervals: Intervals) -> Spread:
    """Returns how the counts of a table vary, which are multinomial.

    Args:
        table: Counts with independent noise; its cells become sums in their order.
        intervals: Which intervals are wanted.
    """
    values = table.counts.ravel()
    n_cells = len(values)
    covariance = np.zeros((n_cells, n_cells))
    if not intervals.finite:
        positive = np.maximum(values, 0)
        total = max(float(positive.sum()), 1.0)
        covariance = np.diag(positive) - np.outer(positive, positive) / total
    return Spread(
        values=values,
        noise=np.diag(np.sqrt(table.variance.ravel())),
        bias=np.zeros((n_cells, 0)),
        sampling=covariance,
    )


def estimate(
    question: str,
    names: Sequence[str],
    statistic: Statistic,
    spread: Spread,
    intervals: Intervals,
    *,
    redraws: int = _REDRAWS,
    notes: tuple[str, ...] = (),
) -> list[Estimate]:
    """Estimates functions of sums, with intervals.

    Args:
        question: The question, as it was asked.
        names: What each estimate is.
        statistic: Computes them from sums.
        spread: The sums, and how they vary.
        intervals: Which intervals are wanted.
        redraws: How often the noise is drawn again: half as many draws, each with
            both signs, so that what is linear in the noise is shifted by nothing.
        notes: What else has to be known of each estimate.
    """
    quotients = _quotients(statistic(spread.values))
    noise_std = np.linalg.norm(spread.noise, axis=1)
    gradients = _gradients(statistic, spread.values, noise_std)
    random = np.random.default_rng(0)
    redrawn = []
    for _ in range(redraws // 2):
        noise = spread.noise @ random.normal(size=spread.noise.shape[1])
        redrawn.append(_quotients(statistic(spread.values + noise)))
        redrawn.append(_quotients(statistic(spread.values - noise)))
    redrawn_quotients = np.array(redrawn)
    estimates = []
    for k, name in enumerate(names):
        quotient = _Quotient(
            values=quotients[:, k],
            gradients=gradients[:, k],
            redrawn=redrawn_quotients[:, :, k],
        )
        answer = quotient.estimate(spread, intervals)
        estimates.append(replace(answer, question=question, name=name, notes=notes))
    return estimates


@dataclass(frozen=True, kw_only=True)
class _Quotient:
    """A quotient a/b of functions of noisy sums.

    Attributes:
        values: a and b, (2,).
        gradients: Their derivatives by the sums, (2, sums).
        redrawn: a and b with noise that is drawn again, (redraws, 2).
    """

    values: Floats
    gradients: Floats
    redrawn: Floats

    def estimate(self, spread: Spread, intervals: Intervals) -> Estimate:
        """Returns the quotient with its interval, or why there is no answer."""
        by_noise = self.gradients @ spread.noise
        by_bias = self.gradients @ spread.bias
        errors = _Errors(
            noise=by_noise @ by_noise.T,
            sampling=self.gradients @ spread.sampling @ self.gradients.T,
            bias=by_bias @ by_bias.T,
        )
        is_defined = np.isfinite(self.redrawn).all(axis=1)
        if not self._is_usable(errors) or is_defined.mean() < 1 - _MAX_UNDEFINED:
            return _refused(TOO_NOISY)

        numerator, denominator = self.values.tolist()
        # Of a − θb.
        direction = np.array([1.0, -numerator / denominator])
        noise = _error_along(direction, errors.noise)
        other_errors = _error_along(direction, errors.sampling + errors.bias)
        low, median, high = np.quantile(
            self.redrawn[is_defined] @ direction, [0.025, 0.5, 0.975]
        ).tolist()
        spread_ratio = 1.0
        if noise > 0:
            spread_ratio = max((high - low) / (_SPAN_OF_95_PERCENT * noise), 1.0)
        is_bent = spread_ratio > _MAX_SPREAD_RATIO or abs(median) > _MAX_SHIFT * noise
        if is_bent and noise > _MIN_NOISE_PART * other_errors:
            moves_by = spread_ratio * noise / denominator
            return _refused(
                f"{TOO_NOISY}: the noise alone moves it by about {moves_by:.2g}"
            )

        errors = errors._replace(noise=spread_ratio**2 * errors.noise)
        ends = _fieller_interval(
            numerator - median, denominator, intervals.z**2 * errors.total
        )
        if ends is None:
            return _refused(f"{TOO_NOISY}: it would be unbounded")
        return Estimate(
            question="",
            name="",
            value=(numerator - median) / denominator,
            low=ends[0],
            high=ends[1],
            noise=_error_along(direction, errors.noise) / denominator,
            sampling=_error_along(direction, errors.sampling) / denominator,
            bias=_error_along(direction, errors.bias) / denominator,
        )

    def _is_usable(self, errors: _Errors) -> bool:
        """Tells whether all numbers are finite, and the denominator is positive."""
        numbers = [*self.values, *errors.noise.ravel(), *errors.sampling.ravel()]
        return bool(np.isfinite(numbers).all()) and bool(self.values[1] > 0)


class _Errors(NamedTuple):
    """Covariances of a and b, (2, 2) each: by the noise, by sampling and by a bias."""

    noise: Floats
    sampling: Floats
    bias: Floats

    @property
    def total(self) -> Floats:
        """Their sum, as they are independent."""
        return self.noise + self.sampling + self.bias


def _refused(reason: str) -> Estimate:
    """Returns an estimate that says why there is none."""
    return Estimate(question="", name="", refused=reason)


def _error_along(direction: Floats, covariance: Floats) -> float:
    """Returns the standard deviation of a combination of a and b."""
    return math.sqrt(max(float(direction @ covariance @ direction), 0.0))


def _fieller_interval(
    numerator: float, denominator: float, covariance: Floats
) -> tuple[float, float] | None:
    """Computes Fieller's interval of a/b.

    It holds all θ with (a − θb)² ≤ V_aa − 2θ·V_ab + θ²·V_bb.

    Args:
        numerator: The estimate of a.
        denominator: That of b.
        covariance: V, of a and b, times the square of how many standard errors the
            interval reaches, (2, 2).

    Returns:
        Both ends; None where the interval has none.
    """
    (v_aa, v_ab), (_, v_bb) = covariance.tolist()
    # θ² coefficient, half of that of −θ, and the constant of the quadratic inequality.
    square = denominator**2 - v_bb
    half_linear = numerator * denominator - v_ab
    constant = numerator**2 - v_aa
    discriminant = half_linear**2 - square * constant
    if square <= 0 or discriminant < 0:
        return None
    root = math.sqrt(discriminant)
    return (half_linear - root) / square, (half_linear + root) / square


def _quotients(values: Floats) -> Floats:
    """Returns the numerators and denominators of a statistic, (2, estimates)."""
    if values.ndim == 2:
        return values
    return np.stack([values, np.ones_like(values)])


def _gradients(statistic: Statistic, values: Floats, noise_std: Floats) -> Floats:
    """Returns derivatives by each sum, as central differences, (2, estimates, sums)."""
    largest = max(float(np.abs(values).max()), 1.0)
    steps = _STEP * np.maximum(noise_std, _MIN_RELATIVE_SCALE * largest)
    derivatives = []
    for k, step in enumerate(steps.tolist()):
        below = values.copy()
        below[k] -= step
        above = values.copy()
        above[k] += step
        difference = _quotients(statistic(above)) - _quotients(statistic(below))
        derivatives.append(difference / (2 * step))
    return np.stack(derivatives, axis=2)
