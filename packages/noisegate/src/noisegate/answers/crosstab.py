"""Shares of all cells of two columns, each with an interval."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from noisegate.answers.domain import Domain, Floats
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable, Shares
from noisegate.answers.reconcile import reconcile

# A release whose noise on the number of records is a larger part of it tells nothing.
_MIN_SIGNAL = 4.0


class Crosstab(NamedTuple):
    """Shares of the cells of two columns, arrays of the shape of their table.

    Attributes:
        domain: The two columns and their cells.
        shares: Estimates of the shares of all records.
        low: Lower ends of the intervals.
        high: Upper ends of the intervals.
        noise: Standard errors by the noise.
        sampling: Standard errors by the sampling of the records from a population.
    """

    domain: Domain
    shares: Floats
    low: Floats
    high: Floats
    noise: Floats
    sampling: Floats


def crosstab(
    measurements: Measurements, row: str, column: str, *, level: float, finite: bool
) -> Crosstab | None:
    """Estimates the shares of all cells of two columns.

    Args:
        measurements: All that a release states.
        row: Name of the first column.
        column: Name of the second one.
        level: Level of each interval, between 0 and 1.
        finite: Whether shares of the records themselves are asked for, and not of the
            population that they are a sample of.

    Returns:
        The shares; None if the number of records does not exceed the noise.

    Raises:
        LookupError: if the columns were not measured together.
    """
    counts = reconcile(measurements, (row, column))
    total = measurements.total
    if total.value < _MIN_SIGNAL * np.sqrt(total.variance):
        return None
    estimates = counts.normalize(NoisyTable.of_number(total))
    z = NormalDist().inv_cdf(0.5 + level / 2)
    low, high = _score_interval(estimates, z, finite=finite)
    inside = np.clip(estimates.shares, 0.0, 1.0)
    sampling = np.sqrt(inside * (1 - inside) / estimates.records) * (not finite)
    return Crosstab(
        domain=counts.domain,
        shares=estimates.shares,
        low=low,
        high=high,
        noise=estimates.errors,
        sampling=sampling,
    )


def _score_interval(
    estimates: Shares, z: float, *, finite: bool
) -> tuple[Floats, Floats]:
    """Computes score intervals of shares, with noise.

    They hold the shares p with (share − p)² ≤ z²·(error² + p·(1 − p)/records), which is
    Wilson's interval without noise (Journal of the American Statistical Association
    1927). Where only the noise counts, they are share ± z·error.

    Args:
        estimates: The shares.
        z: How many standard errors an interval reaches to either side.
        finite: Whether only the noise counts.

    Returns:
        Both ends, within 0 and 1.
    """
    shares = estimates.shares
    if finite:
        half = z * estimates.errors
        return np.clip(shares - half, 0, 1), np.clip(shares + half, 0, 1)
    # A quadratic equation in p: (1 + w)·p² − 2·middle·p + constant ≤ 0.
    weight = z**2 / estimates.records
    middle = shares + weight / 2
    constant = shares**2 - (z * estimates.errors) ** 2
    half = np.sqrt(np.maximum(middle**2 - (1 + weight) * constant, 0.0))
    low = (middle - half) / (1 + weight)
    high = (middle + half) / (1 + weight)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
