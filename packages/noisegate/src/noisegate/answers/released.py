"""Tables of counts as they were released."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.queries.binning import (
    CoarseHistogram,
    Histogram,
    NumericBins,
    denoise,
    holds_atom,
    relative_widths,
)
from noisegate.queries.contingency import Contingency
from noisegate.schema import NumericColumn

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = npt.NDArray[Any]


# Strengths a of the prior; the last before infinity leaves a cell a hundredth part of its count.
_STRENGTHS = np.geomspace(0.1, 10_000, 11)
# A gamma density this narrow or peaked is beyond the quadrature.
_LEAST_SHAPE = 0.05
# Points of the quadrature, and how many standard deviations of the noise, and of the prior, it spans.
_POINTS, _NOISE_SPAN, _PRIOR_SPAN = 40, 7.0, 9.0
# A share that the prior rules out altogether would be ruled out whatever the counts say.
_LEAST_PRIOR = 1e-6

_log_gamma = np.vectorize(math.lgamma, otypes=[float])


def posterior_shares(
    noisy: Float[Any, " cells"],
    noise_std: float,
    prior: Float[Any, " cells"],
    total: float,
) -> Floats:
    """Returns the posterior mean of the shares of cells, (cells,), positive and 1 in all.

    Counts x ≥ 0 are seen as y = x + noise. Their shares are Dirichlet about the prior q: each count is a gamma variable
    of mean total · q and shape a · k · q, k the number of cells. The strength a is not known: the posterior means under
    several, from 0.1 (most cells are empty) to ∞ (shares are q), are averaged by their evidence (empirical Bayes;
    Robbins 1956, Efron and Morris 1973; averaging, Hoeting et al. 1999). Where everything is below the noise that is q.

    Args:
        noisy: Counts with Gaussian noise, in units of records.
        noise_std: Its standard deviation on each, positive.
        prior: Shares as they are thought to be before, 1 in all.
        total: Number of records in all cells, as well as it is known; positive.

    Examples:
        >>> import numpy as np
        >>> uniform = np.full(4, 0.25)
        >>> posterior_shares(np.array([900.0, 60.0, 40.0, 0.0]), 5.0, uniform, 1000.0).round(2).tolist()
        [0.9, 0.06, 0.04, 0.0]
        >>> posterior_shares(np.array([900.0, 60.0, 40.0, 0.0]), 50_000.0, uniform, 1000.0).round(2).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    prior = np.maximum(prior, _LEAST_PRIOR)
    prior = prior / prior.sum()
    means, evidence = _gamma_posterior(noisy, noise_std, prior * total)
    means /= means.sum(axis=1, keepdims=True)
    apart = (noisy - total * prior) / noise_std
    means, evidence = (
        np.vstack([means, prior]),
        np.append(evidence, -0.5 * float(apart @ apart)),
    )
    weights = np.exp(evidence - evidence.max())
    return np.asarray(weights @ means / weights.sum())


def _gamma_posterior(
    noisy: Floats, noise_std: float, expected: Floats
) -> tuple[Floats, Floats]:
    """Returns posterior means of counts, (strengths, cells), and the log evidence of each strength, (strengths,)."""
    shapes = np.maximum(
        _STRENGTHS[:, None] * (expected / expected.mean()), _LEAST_SHAPE
    )
    # What neither the noise nor the prior leaves possible is not looked at.
    spread = _PRIOR_SPAN / np.sqrt(shapes)
    lowest, highest = (
        expected * np.maximum(1 - spread, 0),
        expected * (1 + spread + 40 / shapes),
    )
    low = np.maximum(noisy - _NOISE_SPAN * noise_std, lowest)
    high = np.minimum(np.maximum(noisy, 0) + _NOISE_SPAN * noise_std, highest)
    low, high = np.where(low < high, low, lowest), np.where(low < high, high, highest)
    # Points are even in x^b, b at most the shape: the density may have a pole at 0.
    power = np.minimum(shapes, 1)[..., None]
    ratio = (low / high)[..., None] ** power
    logs = (
        np.log(ratio + (1 - ratio) * (np.arange(_POINTS) + 0.5) / _POINTS) / power
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
    width = (
        power[..., 0] * np.log(high)
        + np.log1p(-ratio[..., 0])
        - np.log(power[..., 0] * _POINTS)
    )
    constant = shapes * np.log(rates) - _log_gamma(shapes)
    evidence = (np.log(mass) + peak + width + constant).sum(axis=1)
    return (density * points).sum(axis=2) / mass, evidence


Floats = npt.NDArray[np.float64]
Values = Mapping[str, Floats]


class Answered(Protocol):
    """What some queries gave: a release, or the answers of a session that is not over."""

    @property
    def values(self) -> Values:
        """The noisy sum of each query."""

    @property
    def noise_std(self) -> Mapping[str, float]:
        """The noise on each number of it."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One released table.

    Attributes:
        columns: Its columns, ascending.
        counts: Noisy counts, shaped by the sizes of the columns.
        noise_std: Standard deviation of the noise on each count.
    """

    columns: tuple[int, ...]
    counts: Floats
    noise_std: float


def best_table(
    tables: Iterable[Table], columns: tuple[int, ...]
) -> tuple[Floats, float] | None:
    """Returns the counts of some columns with the least noise that a table gives, and that noise; None of no table."""
    best: tuple[Floats, float] | None = None
    for table in tables:
        if not set(columns) <= set(table.columns):
            continue
        others = tuple(
            axis for axis, column in enumerate(table.columns) if column not in columns
        )
        std = table.noise_std * math.sqrt(
            math.prod(table.counts.shape[axis] for axis in others)
        )
        if best is None or std < best[1]:
            best = table.counts.sum(axis=others), std
    return best


def read_tables(tables: Contingency, values: Floats, noise_std: float) -> list[Table]:
    """Returns the tables of one query, from its answer and the noise on each number of it.

    Raises:
        ValueError: if the answer has another length.
    """
    if len(values) != tables.dim:
        raise ValueError(f"{len(values)} numbers for tables of {tables.dim} cells")
    return [
        Table(columns=columns, counts=counts, noise_std=noise_std / weight)
        for columns, counts, weight in zip(
            tables.tables, tables.counts(values), tables.weights, strict=True
        )
    ]


HISTOGRAMS, COARSE = "fine", "coarse"
Tables = Mapping[int, Table]

# About how many cells a coarse histogram has, beside the fine one.
_GROUPS = 32


@dataclass(frozen=True, kw_only=True)
class Histograms:
    """The cells of the histograms of a table.

    Attributes:
        columns: All numeric columns.
        fine: The fine cells of each.
        bought: Columns of which histograms are bought.
    """

    columns: Sequence[NumericColumn]
    fine: tuple[NumericBins, ...]
    bought: tuple[int, ...]

    @cached_property
    def widths(self) -> tuple[Floats, ...]:
        """What each fine cell is counted for where nothing is known; see `relative_widths`."""
        return tuple(
            relative_widths(column, bins)
            for column, bins in zip(self.columns, self.fine, strict=True)
        )

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """How many fine cells a coarse one holds in each column, a power of two; 1 where the fine ones are few."""
        return tuple(_group(len(bins.cuts) + 1) for bins in self.fine)

    @cached_property
    def coarse(self) -> tuple[NumericBins, ...]:
        """The coarse cells of each numeric column."""
        return tuple(
            NumericBins(bins.cuts[group - 1 :: group], bins.nullable)
            for bins, group in zip(self.fine, self.groups, strict=True)
        )

    def asked(self) -> dict[str, tuple[NumericBins, ...]]:
        """Returns the cells of each query, by its name."""
        if not self.bought:
            return {}
        return {HISTOGRAMS: self.fine} | ({COARSE: self.coarse} if self.long else {})

    @cached_property
    def long(self) -> tuple[int, ...]:
        """Columns with a coarse histogram too."""
        return tuple(place for place in self.bought if self.groups[place] > 1)

    def denoised(
        self, tables: Mapping[str, Tables], *, scaled: bool, again: Tables | None = None
    ) -> dict[int, Histogram]:
        """Returns the denoised histogram of each bought column, missing left out.

        Args:
            tables: The histograms of each query, by column.
            scaled: Whether to look at how many records there are.
            again: Further counts on the coarse cells.
        """
        found, records = {}, records_of(tables) if scaled and tables else None
        for place, table in tables.get(HISTOGRAMS, {}).items():
            few, more = tables.get(COARSE, {}).get(place), (again or {}).get(place)
            present = slice(None, -1 if self.fine[place].nullable else None)
            if few is None:
                table = _together(table, more)
                coarse = None
            else:
                few = _together(few, more)
                coarse = CoarseHistogram(
                    counts=few.counts[present],
                    group_size=self.groups[place],
                    noise_std=few.noise_std,
                )
            atoms = holds_atom(self.columns[place], self.fine[place])
            found[place] = denoise(
                table.counts[present],
                table.noise_std,
                coarse,
                atoms,
                record_count=records,
                widths=self.widths[place],
            )
        return found

    def shares(
        self,
        found: Mapping[int, Histogram],
        bins: Sequence[NumericBins],
        missing: float,
    ) -> dict[int, Floats]:
        """Returns the shares of `bins` in each bought column; missing values, in no histogram, have `missing`."""
        shares = {}
        for place, histogram in found.items():
            fine, few = self.fine[place], bins[place]
            begins = [0, *(np.searchsorted(fine.cuts, few.cuts) + 1)]
            masses = (
                histogram.masses
                if histogram.masses.any()
                else np.diff((0.0, *fine.cuts, 1.0))
            )
            shares[place] = np.add.reduceat(masses, begins) / masses.sum()
            if few.nullable:
                shares[place] = np.append(shares[place] * (1 - missing), missing)
        return shares


def records_of(tables: Mapping[str, Tables]) -> float:
    """Returns how many records histograms say there are, at least one standard deviation of the noise on that."""
    # A sum over few cells has less noise.
    best = {**tables.get(HISTOGRAMS, {}), **tables.get(COARSE, {})}.values()
    precision = [1 / (table.counts.size * table.noise_std**2) for table in best]
    total = sum(
        float(table.counts.sum()) * weight
        for table, weight in zip(best, precision, strict=True)
    )
    return max(total / sum(precision), 1 / math.sqrt(sum(precision)))


def _group(cells: int) -> int:
    return 1 if cells <= 2 * _GROUPS else 1 << math.ceil(math.log2(cells / _GROUPS))


def _together(one: Table, other: Table | None) -> Table:
    """Returns two measurements of the same counts as one, weighted by inverse variance."""
    if other is None:
        return one
    weight = one.noise_std**-2 / (one.noise_std**-2 + other.noise_std**-2)
    noise_std = (one.noise_std**-2 + other.noise_std**-2) ** -0.5
    return replace(
        one,
        counts=weight * one.counts + (1 - weight) * other.counts,
        noise_std=noise_std,
    )


def table_dependence(table: Table) -> float:
    """Returns how far a noisy table of two columns is from independence, in standard deviations of its noise.

    The squared distance to the product of the table's own margins, in units of the noise, has a mean of about
    (rows − 1)·(columns − 1) when the columns are independent, and twice that as its variance.
    """
    counts = table.counts
    total = max(float(counts.sum()), table.noise_std)
    apart = counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    free = float(max((counts.shape[0] - 1) * (counts.shape[1] - 1), 1))
    energy = float(np.square(apart / table.noise_std).sum())
    return (energy - free) / math.sqrt(2 * free)


def choose_pairs(tables: Sequence[Table], *, most: int) -> tuple[tuple[int, ...], ...]:
    """Returns at most `most` pairs to measure, in ascending order, by coarse tables of all.

    Those that stand out come first, the strongest before others, then a spanning forest of the rest.
    """
    scores = {table.columns: table_dependence(table) for table in tables}
    ranked = sorted(scores, key=lambda pair: (-scores[pair], pair))
    clear = [pair for pair in ranked if scores[pair] > 2]
    # A column whose every dependence drowns is still tied to its likeliest partner.
    return tuple(sorted(list(dict.fromkeys([*clear, *_forest(ranked)]))[:most]))


def _forest(ranked: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Returns the pairs of a maximum spanning forest (Kruskal), given all pairs with the strongest first."""
    parent: dict[int, int] = {}

    def root(column: int) -> int:
        while (above := parent.setdefault(column, column)) != column:
            # The way is halved for the next one (Tarjan and van Leeuwen, 1984).
            parent[column] = parent[above]
            column = above
        return column

    chosen: list[tuple[int, ...]] = []
    for first, second in ranked:
        low, high = root(first), root(second)
        if low != high:
            parent[low] = high
            chosen.append((first, second))
    return chosen
