"""Fits a mixture of product distributions to released contingency tables, whose noise is taken off before.

Each class has components of its own, and the expected counts of its pairs are the second moment of its records; see
`noisegate.models.tables.distance.Distance`. It is fitted by gradient descent, on the CPU, to what `denoised_pairs`
makes of them, and to its end: what could be overfitted is gone. All of it is post-processing, which costs no privacy.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and Wu 2021) fit relaxed tables and
generators to noisy queries by gradient descent.

Takes noise off released pairs before a mixture is fitted to them: post-processing,
which costs no privacy.

A pair's table is, in each class l, what independent columns would have, r_l c_l'/n_l of
the margins that all tables say together, and a residual. That is written in orthonormal
bases Q of the vectors that sum to zero, of either column, and in one of the classes: C
= Σ_l q_l Q_i' (T_l − r_l c_l'/n_l) Q_j. So the noise on the coefficients is as large as
that on the counts, and as independent but for what the margins have of it. The signal
is not spread so: of columns in an order it is in the coefficients of low orders, of
classes in what they have in common.

Coefficients are shrunk in groups, of one pair and product of orders, of what classes
have in common or of the rest, by the mean of f = τ²/(τ² + 1) over variances τ² of the
signal, in units of the noise: by how likely each makes the squares of the group, and
how frequent it is among all pairs (empirical Bayes on a grid, by EM: Stephens,
Biostatistics 2017, https://doi.org/10.1093/biostatistics/kxw041). What is left of the
noise of a pair is √f of it, in the mean.

Bases of residuals: ResidualPlanner, Xiao, He, Zhang and Kifer (NeurIPS 2023),
https://arxiv.org/abs/2305.08175.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.answers.cells import ends_of
from noisegate.answers.design import Design
from noisegate.answers.released import Table
from noisegate.devices import one_thread
from noisegate.models.checkpoint import FitState, joined, under
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.tables.descent import MixtureSettings, Search
from noisegate.models.tables.distance import Components
from noisegate.models.tables.label_fit import MOST_LABELS, LabelFit
from noisegate.models.tables.packed_tables import (
    Floats,
    PackedTables,
    pack_tables,
    split,
)
from noisegate.models.within_cell import WithinCell
from noisegate.privacy.release import Release
from noisegate.queries.binning import (
    Histogram,
    NumericBins,
    falling_ends,
    single_cells,
)
from noisegate.schema import Continuous, Layout, NumericColumn, Schema
from noisegate.schema.layout import numbers_at

FAR = 2.0
"""A fit that ends at a larger distance from its release, in units of its noise, says so."""
# Nothing tells records apart where more than this part of a column lies in the same fine cell.
_BLIND = 0.5

if TYPE_CHECKING:
    from jaxtyping import Float64

    Array = npt.NDArray[Any]

# Variances τ² of the signal that a group may have, in units of the noise, and how many pairs each is seen in before.
_SIGNALS = np.array([0.0, *np.geomspace(0.25, 2**20, 12)])
_BEFORE = np.array([1.0, *[1 / 12] * 12])
_ROUNDS = 30
# Tables are fitted to as if they had this part of their noise at least.
_LEAST_NOISE = 0.15
_TINY = 1e-9


def denoised_pairs(tables: PackedTables, ordered: Sequence[int]) -> PackedTables:
    """Returns tables whose pairs have less noise, and the precision that they have then.

    Args:
        tables: As they were released, arranged by class.
        ordered: How many cells of each column, the first ones, stand in an order; 0 for none.
    """
    counts = np.maximum(tables.counts, _TINY)
    singles = np.maximum(tables.singles, 0.0)
    margins = [singles[:, span] for span in tables.spans]
    margins = [
        each * (counts / np.maximum(each.sum(axis=1), _TINY))[:, None]
        for each in margins
    ]
    bases = [
        column_basis(each.sum(axis=0), few)
        for each, few in zip(margins, ordered, strict=True)
    ]
    # An orthonormal basis over the classes, in rows; in the first one they differ by their counts alone.
    classes = np.linalg.qr(
        np.column_stack([np.maximum(counts, 1.0), np.eye(len(counts))[:, :-1]])
    )[0].T
    most = max((int(orders.max(initial=1)) for _, orders in bases), default=1) ** 2 + 1
    found = []
    for first, second in combinations(range(len(margins)), 2):
        rows, columns = tables.spans[first], tables.spans[second]
        precision = float(tables.precision[rows.start, columns.start])
        (left, low), (right, high) = bases[first], bases[second]
        if precision <= 0 or not (low.size and high.size):
            continue
        independent = (
            margins[first][:, :, None]
            * margins[second][:, None]
            / counts[:, None, None]
        )
        residual = precision * (tables.pairs[:, rows, columns] - independent)
        coefficients = np.einsum("kl,lpq->kpq", classes, left.T @ residual @ right)
        # A number for each group: the product of orders, whether classes differ, which columns have an order.
        groups = np.broadcast_to(low[:, None] * high, coefficients.shape).copy()
        groups[1:] += most
        groups += 2 * most * ((ordered[first] > 1) + (ordered[second] > 1))
        found.append(
            (rows, columns, precision, independent, left, right, coefficients, groups)
        )
    pairs, precisions = tables.pairs.copy(), tables.precision.copy()
    shrunk = _kept([(coefficients, groups) for *_, coefficients, groups in found])
    for (
        rows,
        columns,
        precision,
        independent,
        left,
        right,
        coefficients,
        _,
    ), kept in zip(found, shrunk, strict=True):
        residual = (
            left @ np.einsum("kl,kpq->lpq", classes, kept * coefficients) @ right.T
        )
        pairs[:, rows, columns] = independent + residual / precision
        precisions[rows, columns] = precision / max(
            float(np.sqrt(kept.mean())), _LEAST_NOISE
        )
    return replace(tables, pairs=pairs, precision=precisions, ordered=tuple(ordered))


def _kept(found: Sequence[tuple[Array, Array]]) -> list[Array]:
    """Returns the part of each coefficient of each pair that is kept; given are coefficients and their groups."""
    if not found:
        return []
    names, places = np.unique(
        np.concatenate([groups.ravel() for _, groups in found]), return_inverse=True
    )
    parts = np.split(places, np.cumsum([groups.size for _, groups in found])[:-1])
    squares, numbers = np.empty((2, len(found), len(names)))
    for row, ((coefficients, _), part) in enumerate(zip(found, parts, strict=True)):
        squares[row] = np.bincount(part, coefficients.ravel() ** 2, len(names))
        numbers[row] = np.bincount(part, minlength=len(names))
    total = 1 + _SIGNALS
    likelihood = -0.5 * (
        numbers[..., None] * np.log(total) + squares[..., None] / total
    )
    likelihood = np.exp(likelihood - likelihood.max(axis=2, keepdims=True)) * (
        numbers[..., None] > 0
    )
    weights = np.broadcast_to(_BEFORE, (len(names), len(total)))
    for _ in range(_ROUNDS):
        posterior = likelihood * weights
        posterior /= np.maximum(posterior.sum(axis=2, keepdims=True), _TINY)
        weights = posterior.sum(axis=0) + _BEFORE
        weights = weights / weights.sum(axis=1, keepdims=True)
    part_kept = posterior @ (_SIGNALS / total)
    return [
        one[part].reshape(groups.shape)
        for one, part, (_, groups) in zip(part_kept, parts, found, strict=True)
    ]


def column_basis(
    shares: Floats, ordered: int
) -> tuple[Float64[Array, "cells orders"], npt.NDArray[np.int64]]:
    """Returns an orthonormal basis of the vectors over a column's cells that sum to zero, and the order of each.

    Cells in an order have Legendre polynomials of their ranks, weighted by their shares, each made orthogonal to those
    before; further cells, and those without an order, are all of order 1.

    Examples:
        >>> import numpy as np
        >>> basis, orders = column_basis(np.array([0.4, 0.3, 0.2, 0.1]), 4)
        >>> np.allclose(basis.T @ basis, np.eye(3)), np.allclose(basis.sum(axis=0), 0), orders.tolist()
        (True, True, [1, 2, 3])
    """
    size = len(shares)
    weights = np.maximum(shares, _TINY) / np.maximum(shares, _TINY).sum()
    few = ordered if ordered > 1 else 0
    alone = np.diag(weights)[:, few:] if few else np.diag(weights)[:, :-1]
    # After the constant vector the others sum to zero, also where cells are empty and vectors hardly differ.
    vectors, orders = [np.ones((size, 1)), alone], [1] * alone.shape[1]
    if few:
        inside = weights[:few] / weights[:few].sum()
        ranks = 2 * np.cumsum(inside) - inside - 1
        smooth = np.zeros((size, few - 1))
        smooth[:few] = (
            weights[:few, None]
            * np.polynomial.legendre.legvander(ranks, few - 1)[:, 1:]
        )
        vectors, orders = [*vectors, smooth], [*orders, *range(1, few)]
    return np.linalg.qr(np.concatenate(vectors, axis=1))[0][:, 1:], np.array(
        orders, dtype=np.int64
    )


class MixtureFit:
    """One fit; a `noisegate.models.checkpoint.Resumable`. For tables, sizes and label see `pack_tables`.

    `ordered` says how many cells of each column, the first ones, stand in an order.

    Attributes:
        tables: The released tables without what was taken for noise, which the fit is fitted to.
        trial_tables: With a label, noisier ones, which a trial is fitted to.
        judge_tables: With a label, those with independent noise, by which the trial is judged.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        sizes: Sequence[int],
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        ordered: Sequence[int],
        prior: Mapping[int, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        self.settings, self._seed = settings, seed
        others = [few for column, few in enumerate(ordered) if column != label]
        trial, judge = split(tables, np.random.default_rng(seed))
        released, tried, self.judge_tables = (
            pack_tables(one, sizes, label, prior) for one in (tables, trial, judge)
        )
        self._searches: dict[str, Search] = {}
        with one_thread():
            self.trial_tables, self.tables = (
                self._known(denoised_pairs(one, others)) for one in (tried, released)
            )
            if label is not None:
                self._searches["trial"] = Search(
                    self.trial_tables, tried, settings, seed=seed
                )
            self._searches["fit"] = Search(self.tables, released, settings, seed=seed)

    def _known(self, tables: PackedTables) -> PackedTables:
        """Returns tables that are fitted to with what is known of them beforehand, if anything is."""
        return tables

    @property
    def step(self) -> int:
        """Steps done, of the trial and of the fit."""
        return sum(search.step for search in self._searches.values())

    @property
    def steps(self) -> int:
        """Steps that there will be, as far as is known."""
        return sum(search.steps for search in self._searches.values())

    @property
    def discrepancy(self) -> float:
        """Mean squared distance to the released pairs and triples, in units of their noise; infinite before the end."""
        return self._searches["fit"].discrepancy

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None where nothing is."""
        if not FAR < self.discrepancy < math.inf:
            return None
        settings = f'{{"components": {2 * self.settings.components}, "steps": {3 * self.settings.steps}}}'
        return (
            f"the fit has ended far from its release: the distance is {self.discrepancy:.2g} times what the noise "
            f"explains, where 1 is as near as can be and above {FAR:g} tables of the synthetic records are off by more "
            "than their noise. The release is whole, and may be fitted again at no cost: "
            f"noisegate.Pairwise(seed=1, fit_options={settings}).fit_release(model.release); columns that nearly say "
            "the same are best asked for as one."
        )

    @property
    def reached(self) -> Components:
        """The mixture that the fit has reached."""
        return self._searches["fit"].components

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit."""
        with one_thread():
            for search in self._searches.values():
                while search.advance():
                    if report:
                        report(
                            FitState(
                                step=self.step,
                                steps=self.steps,
                                discrepancy=self.discrepancy,
                            )
                        )

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        return joined(
            **{kind: one.state_dict() for kind, one in self._searches.items()}
        )

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the fit where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "fit/search" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        with one_thread():
            for kind, search in self._searches.items():
                search.load_state_dict(under(arrays, f"{kind}/"))


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design: components of all classes side by side, values inside cells."""

    def __init__(
        self, design: Design, release: Release, settings: MixtureSettings, *, seed: int
    ) -> None:
        self.design, self._label = design, label_column(release.schema)
        self._bins, self.released = design.read(release)
        sizes = [
            *(bins.size for bins in self._bins),
            *(column.size for column in design.layout.coded),
        ]
        self._histograms = design.read_histograms(release)
        prior = design.prior(self._histograms, self._bins)
        self.ordered = [bins.size - bins.nullable for bins in self._bins] + [0] * len(
            design.layout.coded
        )
        super().__init__(
            self.released,
            sizes,
            design.label,
            settings,
            seed=seed,
            ordered=self.ordered,
            prior=prior,
        )

    def model(self) -> Mixture | LabelledMixture:
        """Returns the model that the fit has reached, with a model of the label where there is one."""
        mixture = self._mixture(self.reached, self.tables)
        column = self._label
        if (
            column is None
            or not 1 < mixture.sizes[column] <= MOST_LABELS
            or len(mixture.sizes) == 1
        ):
            return mixture
        ordered = [few for place, few in enumerate(self.ordered) if place != column]
        told_apart = self.design.label is not None
        tables = (
            self.tables
            if told_apart
            else pack_tables(self.released, mixture.sizes, column)
        )
        fit = LabelFit(column, tables, ordered, seed=self._seed)
        with one_thread():
            weight = 0.0
            if told_apart:
                tried = self._mixture(
                    self._searches["trial"].components, self.trial_tables
                )
                weight = fit.weight(self.trial_tables, self.judge_tables, tried)
            return LabelledMixture(mixture=mixture, label=fit.model(mixture, weight))

    @property
    def names(self) -> list[str]:
        """Names of the columns, by their numbers."""
        return [
            column.name
            for column in (*self.design.layout.numeric, *self.design.layout.coded)
        ]

    def expected(self, columns: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Returns the shares of the cells of one column, or of the pairs of cells of two, in what was fitted."""
        at, label, tables = self.reached, self.design.label, self.tables
        weights = tables.counts[:, None] * at.weights / tables.counts.sum()
        others = [column for column in range(len(self.names)) if column != label]
        spans = [
            tables.spans[others.index(column)] for column in columns if column != label
        ]
        found = np.asarray(
            weights, dtype=np.float64
        )  # (classes, K), and the cells of each column behind
        for axes, span in zip(("lk,lak->lka", "lka,lbk->lkab"), spans, strict=False):
            found = np.einsum(axes, found, at.cells[:, span], optimize=True)
        shares: npt.NDArray[np.float64] = found.sum(axis=1)
        if label not in columns:
            return np.asarray(shares.sum(axis=0))
        return shares if columns[0] == label else shares.T

    def blind(self) -> Iterator[tuple[NumericColumn, float, float, float]]:
        """Yields numeric columns of which a fine cell of several values holds most records: its share and its ends."""
        widths = self.design.fine_widths
        for place, histogram in self._histograms.items():
            column, fine = self.design.layout.numeric[place], self.design.fine[place]
            low, high, single = _cells(column, fine)
            masses = np.where(single | (widths[place] < 1), 0.0, histogram.masses)
            most, share = (
                int(masses.argmax()),
                float(masses.max() / max(histogram.masses.sum(), 1.0)),
            )
            if share > _BLIND:
                yield (
                    column,
                    share,
                    *numbers_at(column, np.array([low[most], high[most]])).tolist(),
                )

    def inside(self, column: int) -> float:
        """Returns the part of the variance of a number's values that lies inside its cells."""
        shares = self.expected((column,))[: self.ordered[column]]
        return float(
            1 - shares @ self.values(column)[: len(shares), 0] ** 2 / shares.sum()
        )

    def values(self, column: int) -> Floats:
        """Returns scores of a number's cells by their mean values, (cells, 1); values have variance 1 in the model."""
        parts = (
            self.design.layout.numeric[column],
            self.design.fine[column],
            self._bins[column],
        )
        fine = _within(*parts, self._histograms.get(column))
        low, high = fine.low, fine.high
        mean, square = (
            np.bincount(fine.bin_of, fine.shares * each)
            for each in ((low + high) / 2, (low**2 + low * high + high**2) / 3)
        )
        shares = self.expected((column,))[: len(mean)]
        shares /= shares.sum()
        found = np.zeros((parts[2].size, 1))
        found[: len(mean), 0] = mean - shares @ mean
        return found / math.sqrt(
            max(float(shares @ square - (shares @ mean) ** 2), _TINY)
        )

    def _mixture(self, components: Components, tables: PackedTables) -> Mixture:
        within = within_cells(self.design, self._bins, self._histograms)
        return mixture_of(
            components, tables, self.design.layout, within, self.design.label
        )


def mixture_of(
    components: Components,
    tables: PackedTables,
    layout: Layout,
    within: tuple[WithinCell, ...],
    label: int | None = None,
) -> Mixture:
    """Returns the mixture of all classes of a label, which come as often as their tables say."""
    cells = components.cells.transpose(0, 2, 1)
    classes, each, _ = cells.shape
    weights = (tables.counts[:, None] * components.weights).ravel()
    probabilities = [
        np.ascontiguousarray(cells[:, :, span]).reshape(classes * each, -1)
        for span in tables.spans
    ]
    if label is not None:
        probabilities.insert(
            label, np.repeat(np.eye(classes, dtype=np.float32), each, axis=0)
        )
    return Mixture(
        layout=layout,
        within=within,
        weights=weights / weights.sum(),
        probabilities=tuple(probabilities),
        copula=True,
    )


def label_column(schema: Schema) -> int | None:
    """Returns the number of the label's column, numeric ones first; None without a label."""
    names = [column.name for column in (*schema.layout.numeric, *schema.layout.coded)]
    return None if schema.label is None else names.index(schema.label)


def _cells(
    column: NumericColumn, bins: NumericBins
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Returns lowest and highest position of each cell, and which are a single value."""
    low, high, size = ends_of(column, np.asarray([0.0, *bins.cuts, 1.0]))
    return (
        low,
        high,
        single_cells(column, bins) if isinstance(column, Continuous) else size <= 1,
    )


def _within(
    column: NumericColumn,
    fine: NumericBins,
    bins: NumericBins,
    histogram: Histogram | None,
) -> WithinCell:
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    masses = (
        np.ones(len(edges) - 1) if histogram is None else falling_ends(histogram, edges)
    )
    return WithinCell.from_edges(
        column, bins, edges=edges, masses=masses, spikes=single_cells(column, fine)
    )


def within_cells(
    design: Design, bins: Sequence[NumericBins], histograms: Mapping[int, Histogram]
) -> tuple[WithinCell, ...]:
    """Returns where in its cells each numeric column lies, by the histograms of those that have one."""
    columns = enumerate(zip(design.layout.numeric, design.fine, bins, strict=True))
    return tuple(_within(*parts, histograms.get(place)) for place, parts in columns)
