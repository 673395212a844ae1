"""A table of counts with Gaussian noise, and what can be computed of it.

All operations but `reconcile` (in `reconcile.py`) keep the noise of different cells
independent, so that one array of variances describes it::

    project     sums over columns        variances add up
    condition   one level of a column    variances are selected
    group       sums of cells            variances add up
    combine     two estimates as one     weighted by inverse variance

The model is `Factor` of mbi (https://github.com/ryan112358/mbi), with noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noisegate.answers.domain import Domain, Floats, Level, nest

if TYPE_CHECKING:
    import pandas as pd
    from jaxtyping import Float

# Keeps a quotient of two variances finite where both are zero.
_TINY = 1e-300

# Strengths of the prior that are averaged, but for infinity. With the weakest most
# cells are empty; the strongest leaves a cell a hundredth part of its count.
_STRENGTHS = np.geomspace(0.1, 10_000, 11)
# A gamma density that is narrower or more peaked is beyond the quadrature.
_MIN_SHAPE = 0.05
# Points of the quadrature. They span so many standard deviations of the noise, and of
# the prior, and so many means of its exponential tail.
_N_POINTS = 40
_NOISE_SPAN = 7.0
_PRIOR_SPAN = 9.0
_TAIL_SPAN = 40
# A share that the prior rules out would be ruled out whatever the counts say.
_MIN_PRIOR = 1e-6

_log_gamma = np.vectorize(math.lgamma, otypes=[float])


class NoisyNumber(NamedTuple):
    """A number with the variance of its noise."""

    value: float
    variance: float


class Shares(NamedTuple):
    """Shares of records in groups, with their noise.

    Attributes:
        shares: The shares, in the shape of a table.
        errors: Their standard errors by the noise, in the same shape.
        records: Records in each group, at least one and one standard deviation of the
            noise; broadcasts to the shape of the table.
    """

    shares: Floats
    errors: Floats
    records: Floats


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Counts of records by cell, with Gaussian noise.

    Attributes:
        domain: Columns and cells of the table.
        counts: Noisy counts, shaped as the domain.
        variance: Variance of the noise on each count, shaped as the domain.
        is_independent: Whether the noise of different cells is independent.

    Raises:
        ValueError: if the arrays are not shaped as the domain.

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.domain import Domain
        >>> from noisegate.answers.noisy_table import NoisyTable
        >>> domain = Domain.of({"sex": ("f", "m"), "ill": (False, True)})
        >>> counts = np.array([[30.0, 10.0], [40.0, 20.0]])
        >>> table = NoisyTable.of(domain, counts, noise_std=2.0)
        >>> table.project(["ill"]).counts, table.project(["ill"]).variance
        (array([70., 30.]), array([8., 8.]))
        >>> table.condition(sex="m").counts
        array([40., 20.])
        >>> float(table.combine(table).variance[0, 0])
        2.0
    """

    domain: Domain
    counts: Floats
    variance: Floats
    is_independent: bool = True

    @classmethod
    def of(cls, domain: Domain, counts: Floats, *, noise_std: float) -> NoisyTable:
        """Returns a table whose noise has the same standard deviation in all cells."""
        return cls(domain, counts, np.full(domain.shape, noise_std * noise_std))

    @classmethod
    def of_number(cls, number: NoisyNumber) -> NoisyTable:
        """Returns a number of records as a table without columns."""
        domain = Domain((), ())
        return cls(domain, np.array(number.value), np.array(number.variance))

    def __post_init__(self) -> None:
        """Checks the shapes."""
        if not self.counts.shape == self.variance.shape == self.domain.shape:
            raise ValueError(
                "Counts, variance and domain differ in shape: "
                f"{self.counts.shape}, {self.variance.shape}, {self.domain.shape}."
            )

    @property
    def total(self) -> NoisyNumber:
        """The sum of all counts."""
        table = self.project([])
        return NoisyNumber(float(table.counts), float(table.variance))

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on each count, where all have the same.

        It is that which `of` was given, to the last bit.
        """
        return math.sqrt(float(self.variance.flat[0]))

    def project(self, names: Sequence[str]) -> NoisyTable:
        """Returns the counts of some columns: sums over all others.

        Args:
            names: The columns, in the order of the axes to be.
        """
        self._check_independent()
        others = [name for name in self.domain.names if name not in names]
        summed_axes = self.domain.axes(others)
        remaining = [name for name in self.domain.names if name in names]
        order = [remaining.index(name) for name in names]
        return NoisyTable(
            self.domain.project(names),
            self.counts.sum(axis=summed_axes).transpose(order),
            self.variance.sum(axis=summed_axes).transpose(order),
        )

    def condition(self, /, **levels: Level) -> NoisyTable:
        """Returns the counts of the records that have a level in each of some columns.

        Args:
            levels: The level of each column, by its name.

        Returns:
            A table of the other columns.
        """
        index: list[int | slice] = [slice(None)] * len(self.domain.names)
        for name, level in levels.items():
            axis = self.domain.names.index(name)
            index[axis] = self.domain.position(name, level)
        others = [name for name in self.domain.names if name not in levels]
        return replace(
            self,
            domain=self.domain.project(others),
            counts=self.counts[tuple(index)],
            variance=self.variance[tuple(index)],
        )

    def group(self, name: str, cells: Sequence[Level]) -> NoisyTable:
        """Sums the cells of a numeric column into wider ones that they nest in.

        Args:
            name: The column.
            cells: The wider cells.

        Raises:
            ValueError: if a cell of the table lies in none of `cells`.
        """
        self._check_independent()
        nesting = nest(self.domain.by_name[name], cells)
        # Whether a cell of the table lies in a wider one, (cells, wider cells).
        membership = np.eye(len(cells))[nesting]
        axis = self.domain.names.index(name)

        def sum_cells(array: Floats) -> Floats:
            return np.moveaxis(np.moveaxis(array, axis, -1) @ membership, -1, axis)

        domain = self.domain.with_cells(name, cells)
        return NoisyTable(domain, sum_cells(self.counts), sum_cells(self.variance))

    def combine(self, other: NoisyTable) -> NoisyTable:
        """Returns one estimate from two of the same counts with independent noise.

        Each is weighted by the inverse of its variance, cell by cell, which gives the
        least variance. Where an estimate is exact, it is taken as it is.

        Raises:
            ValueError: if the other table has another domain.
        """
        if self.domain != other.domain:
            raise ValueError(f"{self.domain.names} is not {other.domain.names}.")
        both = self.variance + other.variance
        weight = np.where(
            self.variance > 0, other.variance / np.where(both > 0, both, 1.0), 1.0
        )
        return NoisyTable(
            self.domain,
            weight * self.counts + (1 - weight) * other.counts,
            weight**2 * self.variance + (1 - weight) ** 2 * other.variance,
        )

    def normalize(self, groups: NoisyTable | None = None) -> Shares:
        """Computes the shares of the cells in their groups.

        A cell of a group has the noisy count x, with variance v, and its group the
        noisy number of records n, with variance V. The share is s = x / n, and by the
        delta method, from ds = (dx - s dn) / n, its noise has the variance ::

            (v - 2 s Cov(x, n) + s² V) / n²

        The sum of the counts in the group, y, has noise of variance Σv, as cells are
        independent. n is a best linear unbiased estimate, so that its covariance with
        any other unbiased estimate of the same number is its own variance:
        Cov(y, n) = V. As n depends on the cells of this table through y alone, each of
        them has a part in proportion to its variance: Cov(x, n) = V v / Σv.

        Args:
            groups: Best estimates of the numbers of records that shares are of: a table
                of some columns of this one, in its order. None for the sum of all
                counts.

        Returns:
            The shares, their standard errors by the noise, and the number of records in
            each group, which is taken as one and as √V at least.
        """
        if groups is None:
            groups = self.project([])
        names = groups.domain.names
        inner = self.domain.axes([x for x in self.domain.names if x not in names])
        group_variance = np.expand_dims(groups.variance, inner)
        min_records = np.maximum(np.sqrt(group_variance), 1.0)
        records = np.maximum(np.expand_dims(groups.counts, inner), min_records)
        shares = self.counts / records
        variance_of_sum = self.variance.sum(axis=inner, keepdims=True)
        covariance = group_variance * self.variance / np.maximum(variance_of_sum, _TINY)
        noise = self.variance - 2 * shares * covariance + shares**2 * group_variance
        return Shares(shares, np.sqrt(np.maximum(noise, 0)) / records, records)

    def contract(self, scores: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """Computes sums of products of scores over the records.

        Args:
            scores: Scores of the cells of every column, (cells, scores of the column).

        Returns:
            The sums and the variances of their noise, each with one axis a column, of
            as many entries as it has scores.
        """
        self._check_independent()
        sums = self.counts
        variance = self.variance
        for name in self.domain.names:
            # The first axis goes, and that of the scores comes last.
            sums = np.tensordot(sums, scores[name], axes=(0, 0))
            variance = np.tensordot(variance, np.square(scores[name]), axes=(0, 0))
        return sums, variance

    def to_pandas(self) -> pd.DataFrame:
        """Returns the table as a data frame with a row for each cell.

        Returns:
            The cell of each column, a level, a `NumberRange` or None for missing
            values; ``count``, which noise may have made negative; and ``noise_std``,
            the standard deviation of its noise.
        """
        import pandas as pd

        cells = list(product(*self.domain.cells))
        frame = pd.DataFrame(cells, columns=list(self.domain.names), dtype=object)
        frame["count"] = self.counts.ravel()
        frame["noise_std"] = np.sqrt(self.variance).ravel()
        return frame

    def _check_independent(self) -> None:
        """Refuses sums of cells whose noise is correlated, as variances do not say."""
        if not self.is_independent:
            raise ValueError("The noise is correlated between cells; project first.")


def posterior_shares(
    noisy: Float[Any, " cells"],
    noise_std: float,
    prior: Float[Any, " cells"],
    total: float,
) -> Floats:
    """Computes the posterior mean of the shares of cells.

    Counts x ≥ 0 are seen as y = x + noise. Their shares are Dirichlet about the prior
    q: each count is a gamma variable of mean total·q and shape a·k·q, with k the number
    of cells. The strength a is not known. So the posterior means under several
    strengths, from 0.1 (most cells are empty) to ∞ (shares are q), are averaged by
    their evidence (empirical Bayes: Robbins 1956, Efron and Morris 1973; averaging:
    Hoeting and others 1999). Where everything is below the noise, the result is q.

    Args:
        noisy: Counts with Gaussian noise, in records.
        noise_std: Standard deviation of the noise on each, positive.
        prior: Shares as they are thought to be before; they sum to 1.
        total: Number of records in all cells, as well as it is known; positive.

    Returns:
        The shares, (cells,), positive; they sum to 1.

    Examples:
        >>> import numpy as np
        >>> uniform = np.full(4, 0.25)
        >>> noisy = np.array([900.0, 60.0, 40.0, 0.0])
        >>> posterior_shares(noisy, 5.0, uniform, 1000.0).round(2).tolist()
        [0.9, 0.06, 0.04, 0.0]
        >>> posterior_shares(noisy, 50_000.0, uniform, 1000.0).round(2).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    positive_prior = np.maximum(prior, _MIN_PRIOR)
    shares_before = positive_prior / positive_prior.sum()
    means, evidence = _gamma_posterior(noisy, noise_std, shares_before * total)
    means /= means.sum(axis=1, keepdims=True)
    # Of infinite strength.
    distance = (noisy - total * shares_before) / noise_std
    all_means = np.vstack([means, shares_before])
    all_evidence = np.append(evidence, -0.5 * float(distance @ distance))
    weights = np.exp(all_evidence - all_evidence.max())
    return np.asarray(weights @ all_means / weights.sum())


def _gamma_posterior(
    noisy: Floats, noise_std: float, expected: Floats
) -> tuple[Floats, Floats]:
    """Computes the posterior of counts under each strength of the prior.

    Args:
        noisy: Noisy counts, (cells,).
        noise_std: Standard deviation of their noise.
        expected: Means of the prior, (cells,).

    Returns:
        Posterior means, (strengths, cells), and the logarithm of the evidence of each
        strength, (strengths,).
    """
    shapes = np.maximum(_STRENGTHS[:, None] * (expected / expected.mean()), _MIN_SHAPE)
    low, high = _integration_bounds(noisy, noise_std, expected, shapes)
    # Points are even in x^b, with b at most the shape, as the density may have a pole
    # at 0.
    power = np.minimum(shapes, 1)[..., None]
    ratio = (low / high)[..., None] ** power
    logs = (
        np.log(ratio + (1 - ratio) * (np.arange(_N_POINTS) + 0.5) / _N_POINTS) / power
        + np.log(high)[..., None]
    )
    points = np.exp(logs)
    rates = shapes / expected
    log_density = (shapes[..., None] - power) * logs - rates[..., None] * points
    log_density -= 0.5 * ((points - noisy[:, None]) / noise_std) ** 2
    peak = log_density.max(axis=2)
    density = np.exp(log_density - peak[..., None])
    mass = density.sum(axis=2)
    # The width of a step in x^b, and the constant of the gamma density.
    log_width = (
        power[..., 0] * np.log(high)
        + np.log1p(-ratio[..., 0])
        - np.log(power[..., 0] * _N_POINTS)
    )
    log_constant = shapes * np.log(rates) - _log_gamma(shapes)
    evidence = (np.log(mass) + peak + log_width + log_constant).sum(axis=1)
    return (density * points).sum(axis=2) / mass, evidence


def _integration_bounds(
    noisy: Floats, noise_std: float, expected: Floats, shapes: Floats
) -> tuple[Floats, Floats]:
    """Returns between which counts the quadrature looks, (strengths, cells) each.

    What neither the noise nor the prior leaves possible is left out; where they
    contradict each other, the prior decides.
    """
    spread = _PRIOR_SPAN / np.sqrt(shapes)
    prior_low = expected * np.maximum(1 - spread, 0)
    prior_high = expected * (1 + spread + _TAIL_SPAN / shapes)
    low = np.maximum(noisy - _NOISE_SPAN * noise_std, prior_low)
    high = np.minimum(np.maximum(noisy, 0) + _NOISE_SPAN * noise_std, prior_high)
    is_possible = low < high
    return np.where(is_possible, low, prior_low), np.where(
        is_possible, high, prior_high
    )
