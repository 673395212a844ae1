"""The distribution of a number, by least squares over all counts of it.

A number is counted on cells of several widths: a fine histogram, a coarse one, and the
cells of tables. A sum of many fine cells has much noise, where a coarse cell says the
same with little. So the counts of the finest cells are estimated from all of them
together (generalised least squares), and shares below a cut follow with their errors.

Intervals of quantiles are Woodruff's (Journal of the American Statistical Association,
1952): those of the share below, turned around. The ends of the cells in which they lie
are taken, since nothing is known within.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisegate.answers.domain import Floats, Level, NumberRange, nest
from noisegate.answers.estimates import Intervals
from noisegate.answers.evidence import Evidence, NotMeasuredError
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.schema.layout import bounds_of

# Keeps the weight of an exact count finite.
_MIN_VARIANCE = 1e-12
# Keeps a quotient finite where a cell is empty.
_MIN_SHARE = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Distribution:
    """Shares of the records with a number that lie in or below each of its cells.

    Attributes:
        low: Lowest number of each cell, ascending, (cells,).
        high: Highest number of each cell, (cells,).
        shares: Estimates of the shares, which never fall, (cells,).
        noise: Their standard errors by the noise, (cells,).
        records: How many records have a number, at least 1.
    """

    low: Floats
    high: Floats
    shares: Floats
    noise: Floats
    records: float

    def below(self, n_cells: int) -> tuple[float, float]:
        """Returns the share of records in the first cells, and its noise."""
        if n_cells == 0:
            return 0.0, 0.0
        return float(self.shares[n_cells - 1]), float(self.noise[n_cells - 1])

    def sampling_error(self, share: float) -> float:
        """Returns the standard error of a share as records are sampled."""
        return math.sqrt(share * (1 - share) / self.records)

    def quantile(
        self, probability: float, intervals: Intervals
    ) -> tuple[float, float, float]:
        """Estimates a quantile.

        Args:
            probability: The share of records that lie below, between 0 and 1.
            intervals: Which interval is wanted.

        Returns:
            The quantile, and both ends of its interval.
        """
        cell = self._cell_of(probability)
        sampling = 0.0 if intervals.finite else self.sampling_error(probability)
        half_width = intervals.z * math.hypot(float(self.noise[cell]), sampling)
        lowest_cell = self._cell_of(probability - half_width)
        highest_cell = self._cell_of(probability + half_width)
        # Within its cell records are taken to be even.
        share_before, _ = self.below(cell)
        share_inside = max(float(self.shares[cell]) - share_before, _MIN_SHARE)
        part = min(max((probability - share_before) / share_inside, 0.0), 1.0)
        low = float(self.low[cell])
        value = low + part * (float(self.high[cell]) - low)
        return (
            value,
            min(value, float(self.low[lowest_cell])),
            max(value, float(self.high[highest_cell])),
        )

    def _cell_of(self, share: float) -> int:
        """Returns the first cell in or below which there is at least a share."""
        return min(int(np.searchsorted(self.shares, share)), len(self.shares) - 1)


def censored_distribution(evidence: Evidence, column: str) -> Distribution:
    """Returns the distribution of a number, with limits where they may lie.

    Args:
        evidence: What a release says.
        column: A numeric column.

    Raises:
        OptionError: if there is no such column.
        NotMeasuredError: if nothing counted the column.
    """
    evidence.check_column(column)
    distribution = distribution_of(evidence.measurements, column)
    return with_limits(distribution, evidence, column)


def with_limits(
    distribution: Distribution, evidence: Evidence, column: str
) -> Distribution:
    """Returns a distribution with the limits of its column where they may lie.

    A limit that points down, such as "<0.5", lies anywhere below the lower bound; one
    that points up anywhere above the upper one.

    Args:
        distribution: The distribution, in which limits are numbers.
        evidence: Knows the column.
        column: A numeric column.
    """
    number_column = evidence.numeric_column(column)
    if number_column is None or not number_column.limits:
        return distribution
    lower, upper = bounds_of(number_column)
    low = distribution.low.copy()
    high = distribution.high.copy()
    for number in number_column.limit_numbers.values():
        is_below = number < lower
        low_end = -math.inf if is_below else math.nextafter(upper, math.inf)
        high_end = math.nextafter(lower, -math.inf) if is_below else math.inf
        low[distribution.low == number] = low_end
        high[distribution.high == number] = high_end
    return replace(distribution, low=low, high=high)


def distribution_of(measurements: Measurements, column: str) -> Distribution:
    """Estimates the distribution of a number by all counts of it.

    Args:
        measurements: All that a release states.
        column: A numeric column.

    Raises:
        NotMeasuredError: if nothing counted the column.
    """
    try:
        of_tables = measurements.best((column,))
    except LookupError:
        raise NotMeasuredError(f"{column!r} was not measured.") from None
    return distribution_of_tables([*measurements.histograms(column), of_tables])


def distribution_of_tables(tables: Sequence[NoisyTable]) -> Distribution:
    """Estimates the distribution of a number by tables that count it alone.

    Args:
        tables: Counts of one number, on cells of which the finest nest in all others.
    """
    cells = [_present_cells(table) for table in tables]
    finest = max(cells, key=len)
    counts, covariance = _least_squares(tables, cells, finest)

    n_cells = len(finest)
    total = float(counts.sum())
    total_variance = float(covariance.sum())
    records = max(total, math.sqrt(total_variance), 1.0)
    shares = np.clip(np.cumsum(counts) / records, 0, 1)
    # Never falling: between the lowest such curve above and the highest below.
    above = np.maximum.accumulate(shares)
    below = np.minimum.accumulate(shares[::-1])[::-1]
    shares = (above + below) / 2
    # By the delta method, share·total is taken off each sum of counts.
    contrasts = np.tri(n_cells) - shares[:, None]
    variance = np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts, optimize=True)
    return Distribution(
        low=np.array([cell.low for cell in finest]),
        high=np.array([cell.high for cell in finest]),
        shares=shares,
        noise=np.sqrt(np.maximum(variance, 0.0)) / records,
        records=records,
    )


def _present_cells(table: NoisyTable) -> list[NumberRange]:
    """Returns the cells of a table of one number, without that of missing values."""
    (cells,) = table.domain.cells
    return [cell for cell in cells if isinstance(cell, NumberRange)]


def _least_squares(
    tables: Sequence[NoisyTable],
    cells: Sequence[Sequence[NumberRange]],
    finest: Sequence[NumberRange],
) -> tuple[Floats, Floats]:
    """Estimates the counts of the finest cells.

    Args:
        tables: Counts of one number, on several cells.
        cells: Those of each table, without that of missing values.
        finest: Cells that nest in all others; one table is on them.

    Returns:
        The estimates, (finest,), and the covariance of their noise, (finest, finest).
    """
    n_finest = len(finest)
    precision = np.zeros((n_finest, n_finest))
    weighted_counts = np.zeros(n_finest)
    for table, cells_of_table in zip(tables, cells, strict=True):
        n_cells = len(cells_of_table)
        weights = 1 / np.maximum(table.variance[:n_cells], _MIN_VARIANCE)
        levels: Sequence[Level] = cells_of_table
        nesting = nest(finest, levels)
        shares_cell = nesting[:, None] == nesting[None, :]
        precision += shares_cell * weights[nesting]
        weighted_counts += (weights * table.counts[:n_cells])[nesting]
    covariance: Floats = np.linalg.inv(precision).astype(np.float64)
    return covariance @ weighted_counts, covariance
