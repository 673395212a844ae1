"""Graphical models from noisy tables: fitted by Private-PGM, or by what PrivBayes asks after the pairwise rounds.

McKenna, Sheldon and Miklau (2019); PrivBayes, sections 4 and 5; Friedman, Geiger and Goldszmidt (1997). Columns are
numbered as in `PackedTables`, the label left out.

A fit by mirror descent (McKenna, Sheldon, Miklau 2019) is taken apart into conditional
tables. Of PrivBayes see sections 4 and 5. Columns are numbered as in `PackedTables`, the
label left out: where its classes are distinguished, it is a parent of every other column
(Friedman, Geiger and Goldszmidt, 1997). A noisy table is shrunk towards what a smaller
one says, as far as the table itself tells (empirical Bayes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.answers.design import Design
from noisegate.answers.rounds import Answered, Rounds
from noisegate.errors import MissingExtraError, ModelError
from noisegate.models.checkpoint import FitState
from noisegate.models.tables.mixture_fit import within_cells
from noisegate.models.tables.packed_tables import (
    PackedTables,
    estimate_shares,
    pack_tables,
)
from noisegate.privacy.marginal_plan import marginal_columns
from noisegate.privacy.plan import Query
from noisegate.privacy.release import Release
from noisegate.queries.binning import Histogram, NumericBins
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate_papers.models.graphical import BayesianNetwork, Conditional


class NoisyMarginal(NamedTuple):
    """Noisy counts of the cells of some columns, (cells,), the last column fastest, each with noise of `std`."""

    columns: tuple[int, ...]
    counts: npt.NDArray[np.float64]
    std: float


def read_marginals(release: Release, event: str) -> tuple[NoisyMarginal, ...]:
    """Returns the marginals that came of `event`, in the order in which they were measured."""
    names = [name for name in release.values if name.startswith(f"{event}/")]
    if not names:
        raise ModelError(
            f"the release holds no marginals of {event!r}; it holds {sorted(release.values)}."
        )
    names.sort(key=lambda name: int(name.removeprefix(f"{event}/").partition(":")[0]))
    counts = {name: release.values[name].reshape(-1) for name in names}
    return tuple(
        NoisyMarginal(marginal_columns(name), counts[name], release.noise_std[name])
        for name in names
    )


class GraphicalFit:
    """One fit by mirror descent. It starts over when it is taken up again: it is short against what it follows."""

    step = 0
    discrepancy = math.inf
    factors: tuple[Conditional, ...]
    """The fitted model; `run` comes first."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        marginals: tuple[NoisyMarginal, ...],
        *,
        iterations: int,
    ) -> None:
        self._sizes, self._marginals, self.steps = sizes, marginals, iterations

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Fits; a MissingExtraError where the optional packages are not here."""
        try:
            import mbi
            from mbi.estimation import mirror_descent
        except ImportError as error:
            says = f"fitting a graphical model needs optional packages ({error.name} is missing)"
            raise MissingExtraError(
                f"{says}; install them with: pip install 'noisegate[marginals]'"
            ) from None

        def count(_: Any) -> None:
            self.step += 1
            if report:
                report(
                    FitState(
                        step=self.step, steps=self.steps, discrepancy=self.discrepancy
                    )
                )

        self.step = 0
        domain = mbi.Domain.fromdict(
            {str(column): size for column, size in enumerate(self._sizes)}
        )
        measured = [
            mbi.LinearMeasurement(
                marginal.counts, tuple(map(str, marginal.columns)), stddev=marginal.std
            )
            for marginal in self._marginals
        ]
        model = mirror_descent(domain, measured, iters=self.steps, callback_fn=count)
        self.discrepancy = self._distance(model)
        self.factors = _conditionals(model)

    def state_dict(self) -> dict[str, Any]:
        """Returns an empty state: the fit starts over."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Resumes nothing."""

    def _distance(self, model: Any) -> float:
        """Returns the mean squared residual in noise standard deviations: 1 is what noise alone would leave."""
        fitted = (
            model.project(tuple(map(str, each.columns))).values
            for each in self._marginals
        )
        pairs = zip(fitted, self._marginals, strict=True)
        residuals = [
            (np.asarray(values).reshape(-1) - each.counts) / each.std
            for values, each in pairs
        ]
        return float(np.square(np.concatenate(residuals)).mean())


def _conditionals(model: Any) -> tuple[Conditional, ...]:
    """Returns the tables of the Bayesian network along the reverse of an elimination order of the model's graph."""
    from mbi import junction_tree, marginal_oracles

    tree, order = junction_tree.make_junction_tree(
        model.domain, [set(clique) for clique in model.cliques]
    )
    cliques = [set(clique) for clique in tree.nodes]
    marginals = marginal_oracles.message_passing_stable(
        model.potentials.expand(list(tree.nodes))
    )
    factors: list[Conditional] = []
    known: set[str] = set()
    for column in reversed(order):
        neighbours = set().union(*(clique for clique in cliques if column in clique))
        parents = tuple(sorted(known & neighbours, key=int))
        known.add(column)
        table = np.asarray(
            marginals.project((*parents, column)).values, dtype=np.float64
        )
        before = tuple(map(int, parents))
        table = np.maximum(table, 0)
        total = table.sum(axis=-1, keepdims=True)
        # Uniform where it is empty; below, the quotient of two subnormal numbers would be no distribution.
        held = total > 1e-280
        shares = np.where(held, table / np.where(held, total, 1), 1 / table.shape[-1])
        factors.append(
            Conditional(column=int(column), parents=before, probabilities=shares)
        )
    return tuple(factors)


Floats = npt.NDArray[np.float64]

_TINY = 1e-9
# Mutual information is distinguished to so many decimals, in nats: what rounding leaves of none is none on any machine.
_DECIMALS = 7


class Family(NamedTuple):
    """A column and the columns that it depends on, the strongest first; the label is not among them."""

    column: int
    parents: tuple[int, ...]


def shrunk(counts: Floats, expected: Floats, noise_std: float) -> Floats:
    """Returns noisy counts moved towards expected ones, none negative: the posterior mean of expected·(1 + u)."""
    apart, square = counts - expected, np.square(expected)
    variance = max(float((np.square(apart) - noise_std**2).sum()), 0.0) / max(
        float(square.sum()), _TINY
    )
    kept = variance * square / (variance * square + noise_std**2)
    return np.maximum(expected + kept * apart, 0.0)


def pair_counts(
    tables: PackedTables, shares: Floats, first: int, second: int
) -> Floats | None:
    """Returns the shrunk counts of a pair of columns in each class, (classes, cells, cells); None if not released."""
    low, high = sorted((first, second))
    rows, columns = tables.column_slices[low], tables.column_slices[high]
    if not tables.pair_inverse_std[rows.start, columns.start]:
        return None
    noisy = tables.pair_counts[:, rows, columns].astype(np.float64)
    expected = (
        tables.class_counts[:, None, None]
        * shares[:, rows, None]
        * shares[:, None, columns]
    )
    found = shrunk(
        noisy, expected, 1 / float(tables.pair_inverse_std[rows.start, columns.start])
    )
    return found if first == low else found.transpose(0, 2, 1)


def mutual_information(counts: Floats) -> float:
    """Returns the mutual information of two columns given the class, in nats, of counts (classes, cells, cells)."""
    total = counts.sum()
    if not total > 0:
        return 0.0
    joint = counts / total
    given = joint.sum(axis=(1, 2), keepdims=True) * joint
    apart = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    held = joint > 0
    return max(float((joint[held] * np.log(given[held] / apart[held])).sum()), 0.0)


def choose_families(
    tables: PackedTables, shares: Floats, *, degree: int, most_cells: float
) -> tuple[Family, ...]:
    """Returns the family of each column, parents first, by the shares of cells in each class, (classes, D)."""
    # The first parents are a tree of greatest mutual information (Chow and Liu, 1968). A further parent is that which
    # tells most beside what it shares with the earlier ones (Peng, Long and Ding, 2005), where the table keeps to
    # `most_cells`; with more, it would be below the noise.
    columns, sizes = range(len(tables.sizes)), tables.sizes
    known = np.zeros((len(sizes), len(sizes)))
    for first in columns:
        for second in range(first):
            counts = pair_counts(tables, shares, first, second)
            told = (
                0.0 if counts is None else round(mutual_information(counts), _DECIMALS)
            )
            known[first, second] = known[second, first] = told
    families = [Family(int(known.sum(axis=0).argmax()), ())]
    left = [column for column in columns if column != families[0].column]
    while left:
        drawn = [family.column for family in families]
        reach = known[np.ix_(left, drawn)]
        row, place = np.unravel_index(int(reach.argmax()), reach.shape)
        column, parents = (
            left.pop(int(row)),
            [drawn[int(place)]] * bool(reach[row, place] > 0),
        )
        while parents and len(parents) < degree:
            cells = len(tables.class_counts) * math.prod(
                sizes[one] for one in (column, *parents)
            )
            gains = {
                other: known[column, other] - known[other, parents].mean()
                for other in drawn
                if other not in parents and cells * sizes[other] <= most_cells
            }
            best = max(gains, key=lambda other: gains[other], default=None)
            if best is None or gains[best] <= 0:
                break
            parents.append(best)
        families.append(Family(column, tuple(parents)))
    return tuple(families)


def conditional_tables(
    tables: PackedTables,
    families: Sequence[Family],
    counts: Sequence[Floats],
    noise_std: float,
) -> tuple[Floats, ...]:
    """Returns each family's column given class and parents, (classes, parents ..., cells), by noisy `counts`."""
    shares = estimate_shares(tables)
    pairs = zip(families, counts, strict=True)
    return tuple(
        _conditional(tables, shares, family, noisy, noise_std)
        for family, noisy in pairs
    )


def _conditional(
    tables: PackedTables,
    shares: Floats,
    family: Family,
    counts: Floats,
    noise_std: float,
) -> Floats:
    """Returns the distribution of one column, from the smallest table that says something of it to the largest."""
    column, parents = family
    alone = shares[:, tables.column_slices[column]]
    if not parents:
        noise = float(tables.one_way_std[tables.offsets[column]])
        return _posterior(
            counts,
            noise_std,
            tables.one_way_counts[:, tables.column_slices[column]],
            noise,
            alone,
        )
    rows, cells = sorted(
        (tables.column_slices[parents[0]], tables.column_slices[column]),
        key=lambda span: span.start,
    )
    pairs, prior = (
        tables.pair_counts[:, rows, cells].astype(np.float64),
        alone[:, None, :],
    )
    pairs = pairs if parents[0] < column else pairs.transpose(0, 2, 1)
    noise = 1 / float(tables.pair_inverse_std[rows.start, cells.start])
    if len(parents) == 1:
        return _posterior(counts, noise_std, pairs, noise, prior)
    first = _posterior(pairs, noise, None, 0.0, prior)
    return _posterior(
        counts,
        noise_std,
        None,
        0.0,
        first.reshape(*first.shape[:2], *[1] * (len(parents) - 1), -1),
    )


def _posterior(
    counts: Floats,
    noise_std: float,
    more: Floats | None,
    more_std: float,
    prior: Floats,
) -> Floats:
    """Returns the distribution along the last axis that counts, and more counts of the same cells, leave of a prior."""
    if more is not None:
        weight = noise_std**-2 / (noise_std**-2 + more_std**-2)
        counts, noise_std = (
            weight * counts + (1 - weight) * more,
            (noise_std**-2 + more_std**-2) ** -0.5,
        )
    expected = np.maximum(counts.sum(axis=-1, keepdims=True), 0.0) * prior
    # A little of the prior is always left, so that every row sums to something.
    found = shrunk(counts, expected, noise_std) + _TINY * prior
    return np.asarray(found / found.sum(axis=-1, keepdims=True))


def factors_of(
    tables: PackedTables,
    families: Sequence[Family],
    distributions: Sequence[Floats],
    label: int | None,
) -> tuple[Conditional, ...]:
    """Returns the factors of a network over all columns, the label among them, which comes first where there is one."""
    shift = {
        column: column + (label is not None and column >= label)
        for column in range(len(tables.sizes))
    }
    above = () if label is None else (label,)
    factors = [
        Conditional(
            column=shift[family.column],
            parents=(*above, *(shift[parent] for parent in family.parents)),
            probabilities=one[0] if label is None else one,
        )
        for family, one in zip(families, distributions, strict=True)
    ]
    shares = tables.class_counts / tables.class_counts.sum()
    return (
        *(Conditional(column=one, parents=(), probabilities=shares) for one in above),
        *factors,
    )


FAMILIES = "families"  # the query for the table of each column with its parents

_CELLS = 300_000


class Chosen(NamedTuple):
    """What follows from the answers before the last round, and the map that asks for the tables of families."""

    bins: tuple[NumericBins, ...]
    histograms: Mapping[int, Histogram]
    tables: PackedTables
    families: tuple[Family, ...]
    counted: Contingency


@dataclass(frozen=True, kw_only=True)
class NetworkDesign:
    """The last query about one table, after those of `pairwise`; see the settings of `PrivBayes`."""

    pairwise: Design
    degree: int
    usefulness: float
    largest: int | None

    @property
    def most_cells(self) -> int:
        """Most cells of a table of two parents; 0 where there are none."""
        return (self.largest or _CELLS // len(self.pairwise.columns)) * (
            self.degree > 1
        )

    def query(self, share: float) -> Query:
        """Returns the query, as large as it may come to be whatever the parents are."""
        sizes, columns = self.pairwise.max_sizes, self.pairwise.columns
        classes = 1 if self.pairwise.label is None else sizes[self.pairwise.label]
        others = [
            max((sizes[other] for other in columns if other != column), default=1)
            for column in columns
        ]
        cells = (
            classes * sizes[column] * other
            for column, other in zip(columns, others, strict=True)
        )
        dim = sum(max(pair, self.most_cells) for pair in cells)
        fixed: dict[str, Any] = {
            "columns": 1,
            "norm": 1.0,
            "nonnegative": True,
            "adaptive": True,
        }
        return Query(name=FAMILIES, dim=dim, share=share, tables=len(columns), **fixed)

    def chosen(self, answers: Answered) -> Chosen:
        """Returns what follows from the answers before the last round."""
        design = self.pairwise
        rounds = Rounds(design, answers)
        released = rounds.measurements()
        bins = rounds.bins
        histograms = rounds.histograms
        tables = pack_tables(
            released.tables,
            released.domain,
            design.label,
            design.prior_shares(histograms, bins),
        )
        noise = answers.noise_std[FAMILIES] * math.sqrt(len(design.columns))
        useful = min(
            self.most_cells,
            float(tables.class_counts.sum()) / (self.usefulness * noise),
        )
        families = choose_families(
            tables, estimate_shares(tables), degree=self.degree, most_cells=useful
        )
        above = () if design.label is None else (design.label,)
        asked = [
            (*above, *(design.columns[one] for one in (*family.parents, family.column)))
            for family in families
        ]
        return Chosen(
            bins,
            histograms,
            tables,
            families,
            equally_weighted(bins, design.coded_sizes, asked),
        )

    def network(self, release: Release) -> BayesianNetwork:
        """Returns the network that a release says; a ModelError if it is not one of this design."""
        design, (bins, histograms, tables, families, counted) = (
            self.pairwise,
            self.chosen(release),
        )
        noise = release.noise_std[FAMILIES] / counted.weights[0]
        if len(release.values[FAMILIES]) != counted.dim:
            raise ModelError(
                "the release does not hold the tables of columns with the parents that follow from it."
            )
        counts = counted.counts(release.values[FAMILIES])
        if design.label is None:
            counts = [one[None] for one in counts]
        found = conditional_tables(tables, families, counts, noise)
        return BayesianNetwork(
            bins=bins,
            coded=counted.coded,
            factors=factors_of(tables, families, found, design.label),
            within=within_cells(design, bins, histograms),
        )
