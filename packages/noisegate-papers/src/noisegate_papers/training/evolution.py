"""Private Evolution of a table: candidates from noisy one-way tables; all of it follows from the release and a seed.

Everything here follows from public facts, from a public seed and from what was
released, so that the candidates of a round are the same when they are asked for and
when a release is read. See `noisegate_papers.methods.pe`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.answers.design import Design
from noisegate.answers.rounds import Answered, Rounds
from noisegate.models.mixture import Mixture
from noisegate.models.stratified import CellSampler, stratified_uniforms
from noisegate.models.tables.mixture_fit import within_cells
from noisegate.models.tables.packed_tables import (
    PackedTables,
    estimate_shares,
    pack_tables,
)
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.seeds import public_random, uniform
from noisegate_papers.queries.votes import NearestVotes, check_votes, lattice

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float, Int32

    Array = npt.NDArray[Any]

Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int32]

FEWEST = 20  # candidates that there are at least

# Weights are brought to the one-way tables in so many passes, in each by no more than this factor.
_PASSES, _FACTOR = 20, 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class OneWay:
    """What was released before the first vote, by the queries of a design, and what can be drawn from it."""

    design: Design
    bins: tuple[NumericBins, ...]  # cells of numeric columns
    within: tuple[WithinCell, ...]  # where in these values lie
    tables: PackedTables  # noisy counts of each column
    shares: Floats  # of cells of each column but the label, side by side, in each class, (classes, D)

    @classmethod
    def read(cls, design: Design, answers: Answered) -> Self:
        """Returns what the answers say."""
        rounds = Rounds(design, answers)
        released = rounds.measurements()
        tables = pack_tables(
            released.tables,
            released.domain,
            design.label,
            design.prior_shares(rounds.histograms, rounds.bins),
        )
        return cls(
            design=design,
            bins=rounds.bins,
            within=within_cells(design, rounds.bins, rounds.histograms),
            tables=tables,
            shares=estimate_shares(tables),
        )

    def classes(self, rows: int, random: torch.Generator) -> npt.NDArray[np.intp]:
        """Returns classes of the label in their shares, (rows,)."""
        whole = np.zeros(rows, dtype=np.int64)
        counts = self.tables.class_counts
        return CellSampler(counts, np.zeros(len(counts), dtype=np.int64)).pick(
            whole, stratified_uniforms(whole, random)
        )

    def draw(
        self, place: int, classes: npt.NDArray[np.intp], random: torch.Generator
    ) -> npt.NDArray[np.intp]:
        """Returns a cell of one column, numbered without the label, for each of the given classes, (rows,)."""
        size, table = (
            self.tables.sizes[place],
            self.shares[:, self.tables.column_slices[place]],
        )
        sampler = CellSampler(table.ravel(), np.repeat(np.arange(len(table)), size))
        return (
            sampler.pick(classes, stratified_uniforms(classes, random)) - classes * size
        )


class Evolution:
    """The candidates of one round after the other; for the settings see `TabPE`.

    Candidates are `distinct`, but in releases of before; all combinations of cells, where there are fewer.
    """

    def __init__(
        self,
        one_way: OneWay,
        *,
        candidates: int,
        noise_std: float,
        rounds: int,
        variation: float,
        label_weight: float,
        seed: int,
        distinct: bool = True,
    ) -> None:
        self._one_way, self._noise_std, self._rounds, self._variation = (
            one_way,
            noise_std,
            rounds,
            variation,
        )
        self._random, self._round = public_random(seed), 0
        design, bins = one_way.design, one_way.bins
        coded = tuple(column.size for column in design.layout.coded)
        self._points = lattice(
            bins, coded, label=design.label, label_weight=label_weight
        )
        # As many as may have more votes each than the noise.
        rows = int(
            np.clip(
                float(one_way.tables.class_counts.sum()) / noise_std,
                min(FEWEST, candidates),
                candidates,
            )
        )
        sizes = (*(one.size for one in bins), *coded)
        self._complete = distinct and math.prod(sizes) < rows
        if self._complete:
            self.candidates: Cells = (
                np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
            )
            return
        classes = one_way.classes(rows, self._random)
        self.candidates = np.zeros((rows, len(sizes)), dtype=np.int32)
        if design.label is not None:
            self.candidates[:, design.label] = classes
        for place, column in enumerate(design.columns):
            self.candidates[:, column] = one_way.draw(place, classes, self._random)
        if distinct:  # of equal ones the first would have all votes, the others noise
            self.candidates = self.candidates[
                np.sort(np.unique(self.candidates, axis=0, return_index=True)[1])
            ]

    @property
    def votes(self) -> NearestVotes:
        """The map that asks for the votes of this round."""
        return NearestVotes(
            bins=self._one_way.bins, points=self._points, candidates=self.candidates
        )

    def select(self, votes: Float[Array, " candidates"]) -> None:
        """Makes the candidates of the next round: the half with the most noisy votes, and a variation of each."""
        check_votes(votes, len(self.candidates), self._round)
        self._round += 1
        if self._complete:
            return
        kept = self.candidates[
            np.argsort(-votes, kind="stable")[: (len(votes) + 1) // 2]
        ]
        varied = self._varied(
            kept[: len(votes) // 2], self._variation * (1 - self._round / self._rounds)
        )
        self.candidates = np.concatenate([kept, varied])

    def mixture(
        self, votes: Float[Array, " candidates"], *, smoothing: float
    ) -> Mixture:
        """Returns candidates weighted by their noisy votes, as far as these exceed the noise, as a mixture."""
        # Weights are brought to the one-way tables, whose noise is less: votes say which cells come together. A
        # component is a candidate with each of its cells, but for a part `smoothing`, which is drawn from the one-way
        # tables; none is where every combination of cells was voted for.
        check_votes(votes, len(self.candidates), self._round)
        one_way, smoothing = self._one_way, 0.0 if self._complete else smoothing
        design, tables, classes = (
            one_way.design,
            one_way.tables,
            self._classes(self.candidates),
        )
        weights = np.maximum(votes - self._noise_std, 0.0)
        weights = self._raked(weights if weights.any() else np.ones_like(weights))
        live = weights > 0
        weights, candidates, classes = (
            weights[live],
            self.candidates[live],
            classes[live],
        )
        probabilities: list[npt.NDArray[np.float32]] = []
        sizes = (
            *(bins.size for bins in one_way.bins),
            *(column.size for column in design.layout.coded),
        )
        shares = iter(tables.column_slices)
        for column, size in enumerate(sizes):
            alone = np.eye(size)[candidates[:, column]]
            if column != design.label:
                alone = (1 - smoothing) * alone + smoothing * one_way.shares[
                    classes, next(shares)
                ]
            probabilities.append(alone.astype(np.float32))
        return Mixture(
            layout=design.layout,
            within=one_way.within,
            weights=weights / weights.sum(),
            probabilities=tuple(probabilities),
        )

    def _classes(
        self, candidates: Int32[Array, "rows columns"]
    ) -> npt.NDArray[np.intp]:
        label = self._one_way.design.label
        return (
            np.zeros(len(candidates), np.intp)
            if label is None
            else candidates[:, label].astype(np.intp)
        )

    def _varied(self, candidates: Int32[Array, "rows columns"], part: float) -> Cells:
        """Returns candidates with a part of their cells drawn again, given their labels."""
        varied, classes = candidates.copy(), self._classes(candidates)
        for place, column in enumerate(self._one_way.design.columns):
            fresh = self._one_way.draw(place, classes, self._random)
            varied[:, column] = np.where(
                uniform(self._random, len(varied)) < part, fresh, varied[:, column]
            )
        return varied

    def _raked(self, weights: Floats) -> Floats:
        """Returns weights that agree with the one-way tables (iterative proportional fitting; Deming, Stephan 1940)."""
        one_way, classes = self._one_way, self._classes(self.candidates)
        tables, weights = one_way.tables, weights / weights.sum()
        counts = tables.class_counts / tables.class_counts.sum()
        for _ in range(_PASSES):
            for place, (column, span) in enumerate(
                zip(one_way.design.columns, tables.column_slices, strict=True)
            ):
                goal = (counts[:, None] * one_way.shares[:, span]).ravel()
                cells = classes * tables.sizes[place] + self.candidates[:, column]
                held = np.bincount(cells, weights, len(goal))
                factor = np.divide(goal, held, out=np.ones_like(goal), where=held > 0)
                weights = weights * np.clip(factor, 1 / _FACTOR, _FACTOR)[cells]
                weights /= weights.sum()
        return np.asarray(weights)
