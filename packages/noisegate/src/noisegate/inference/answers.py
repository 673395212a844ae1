"""Estimates with intervals: functions of what a release says, with its noise and the sampling of the records.

An estimate f(s) of sums s has the gradient J. By the delta method its variance is J diag(v) J' of the noise, v known
exactly, and n J C J' of sampling, C the covariance of the entries of a record, by records of the model. What sums may
be off by, since cells have a width, is counted like noise. What the noise does to f beyond its gradient is found by
drawing it again: the shift of the median is taken off, and where it is no longer small beside the spread, f is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from noisegate.inference.evidence import Evidence, Sums
from noisegate.tables.released import Floats

Function = Callable[[Floats], Floats]
"""From values, (dim,), to estimates, (estimates,); NaN where it is not defined."""

_DRAWS = 200
# Of the noise: how far its spread may be above that of the gradient, and its shift beside it.
_BEYOND, _SHIFTED = 1.5, 1.0
_UNDEFINED = 0.02


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One number that was asked for.

    Attributes:
        question: As it was asked.
        name: What it is: a column, a group, a coefficient.
        value: The estimate; None where the noise forbids one.
        low, high: Ends of its interval; None where there is none.
        noise: Standard error by the noise of the release.
        sampling: Standard error by the sampling of the records from a population.
        bias: What the width of cells may add.
        p: Of a test, that what was seen comes of chance alone.
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
        """Returns it as it is written down."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How values vary: by the noise, independently, by sampling, and what they may be off by."""

    values: Floats
    variance: Floats
    bias: Floats
    sampling: Floats  # covariance of the values as records are sampled, (dim, dim)


def spread_of_sums(evidence: Evidence, sums: Sums, *, finite: bool) -> Spread:
    """Returns how sums vary; `finite` for the records themselves, which are no sample then."""
    covariance = np.zeros((sums.terms.dim,) * 2)
    if not finite:
        entries = sums.terms.products(evidence.sample).astype(np.float64)
        covariance = max(evidence.records[0], 1.0) * np.atleast_2d(np.cov(entries, rowvar=False))
    return Spread(values=sums.values, variance=sums.variance, bias=sums.bias, sampling=covariance)


def spread_of_counts(counts: Floats, variance: float, *, finite: bool) -> Spread:
    """Returns how counts of cells vary."""
    flat, positive = counts.ravel(), np.maximum(counts.ravel(), 0)
    covariance = np.diag(positive) - np.outer(positive, positive) / max(float(positive.sum()), 1.0)
    return Spread(
        values=flat,
        variance=np.full(len(flat), variance),
        bias=np.zeros(len(flat)),
        sampling=covariance * (not finite),
    )


def estimate(
    question: str,
    names: Sequence[str],
    function: Function,
    spread: Spread,
    *,
    level: float,
    draws: int = _DRAWS,
    notes: tuple[str, ...] = (),
) -> list[Answer]:
    """Returns the estimates of a function of values."""
    values, scale = spread.values, np.sqrt(spread.variance)
    at = function(values)
    gradient = _gradient(function, values, np.maximum(scale, 1e-6 * max(float(np.abs(values).max()), 1.0)))
    noise = np.sqrt(np.square(gradient) @ spread.variance)
    sampling = np.sqrt(np.maximum(np.einsum("ea,ab,eb->e", gradient, spread.sampling, gradient), 0))
    bias = np.sqrt(np.square(gradient) @ np.square(spread.bias))
    random = np.random.default_rng(0)
    tried = np.array([function(values + scale * random.normal(size=len(values))) for _ in range(draws)])
    defined = np.isfinite(tried).mean(axis=0)
    with np.errstate(all="ignore"):
        low, middle, high = np.nanquantile(np.where(defined > 0, tried, 0.0), [0.025, 0.5, 0.975], axis=0)
    seen, shift = (high - low) / (2 * 1.96), middle - at
    times, found = NormalDist().inv_cdf(0.5 + level / 2), []
    for place, name in enumerate(names):
        told = {"question": question, "name": name, "notes": notes}
        usable = np.isfinite([at[place], noise[place], sampling[place]]).all() and defined[place] >= 1 - _UNDEFINED
        bent = not usable or seen[place] > _BEYOND * noise[place] + 1e-12 or abs(shift[place]) > _SHIFTED * noise[place]
        if bent and not (usable and noise[place] < 0.1 * sampling[place]):
            span = f": about {low[place]:.3g} to {high[place]:.3g} by its noise alone" if usable else ""
            found.append(Answer(refused=f"the noise forbids an answer{span}", **told))  # type: ignore[arg-type]
            continue
        by_noise = max(float(noise[place]), float(seen[place]))
        half = times * math.hypot(by_noise, sampling[place], bias[place])
        value = float(at[place] - shift[place])
        errors = {"noise": by_noise, "sampling": float(sampling[place]), "bias": float(bias[place])}
        found.append(Answer(value=value, low=value - half, high=value + half, **errors, **told))  # type: ignore[arg-type]
    return found


def _gradient(function: Function, values: Floats, scale: Floats) -> Floats:
    """Returns the derivatives by central differences a hundredth of the noise apart, (estimates, dim)."""
    columns = []
    for place, step in enumerate(0.05 * scale):
        ends = []
        for side in (-1, 1):
            moved = values.copy()
            moved[place] += side * step
            ends.append(function(moved))
        columns.append((ends[1] - ends[0]) / (2 * step))
    return np.stack(columns, axis=1)
