"""A mixture of product distributions: regions and conditionals are sums over components; and a copula within cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import NumericBins
from noisegate.models.record_model import Array
from noisegate.models.stratified import (
    MAX_GROUPS,
    CellSampler,
    stratified_uniforms,
)
from noisegate.models.within_cell import WithinCell
from noisegate.schema import EncodedTable, Layout, Region, Schema
from noisegate.seeds import uniform

if TYPE_CHECKING:
    import torch


_SWEEPS = 2
# Of correlations of scores: smaller ones are not followed, larger ones taken for this.
_LEAST, _MOST = 0.1, 0.95
_RIDGE = 0.03  # the smallest eigenvalue of their matrix
_GRID = (
    2.0**-20
)  # what matrices are rounded to, so that a sample is the same on every processor
_FAR = 8.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Copula:
    """How numbers go together within their cells: normal scores of some columns of a model.

    A mixture says which cells go together, and nothing of where in them two values lie. Drawn independently there, they
    lose what of a correlation lies within cells: most of it in the outer cells of long tails. So each number has a
    normal score, its cell an interval of scores; two columns' scores correlate as the means of cells do, over the part
    of a score's variance that these have. Scores are drawn given all cells, by sweeps of truncated normals (Geman and
    Geman 1984), and the values of a cell, whose distribution stays, take their order. Computed from a model alone, it
    costs no privacy.
    """

    columns: tuple[int, ...]
    ends: tuple[
        Floats, ...
    ]  # for each of these the share below each end of a cell, (cells + 1,); missing left out
    precision: Floats  # of their scores, (columns, columns)

    @classmethod
    def of(cls, weights: Floats, tables: Sequence[Floats]) -> Self | None:
        """Returns that of a mixture's numeric columns, or None where no two of them go together."""
        # `weights` are shares of components, (K,); `tables` for each numeric column the probabilities of its cells but
        # that of missing values, (K, cells).
        ends, means, present = [], [], np.array([table.sum(axis=1) for table in tables])
        for table in tables:
            below = np.append(0.0, np.cumsum(weights @ table))
            ends.append(below / max(below[-1], 1e-300))
            shares, density = (
                np.diff(ends[-1]),
                np.exp(-(quantiles(ends[-1]) ** 2) / 2) / math.sqrt(2 * math.pi),
            )
            mean = np.divide(
                density[:-1] - density[1:],
                shares,
                out=np.zeros_like(shares),
                where=shares > 0,
            )
            means.append(table @ mean / max(math.sqrt(float(shares @ mean**2)), 1e-6))
        scores = np.array(means).reshape(-1, len(weights))
        found = (
            (scores * weights)
            @ scores.T
            / np.maximum((present * weights) @ present.T, 1e-6)
        )
        found = np.clip(found, -_MOST, _MOST) * (np.abs(found) >= _LEAST)
        np.fill_diagonal(found, 1.0)
        columns = np.flatnonzero((found != 0).sum(axis=1) > 1)
        if not len(columns):
            return None
        values, vectors = np.linalg.eigh(
            np.round(found[np.ix_(columns, columns)] / _GRID) * _GRID
        )
        precision = np.linalg.inv((vectors * np.maximum(values, _RIDGE)) @ vectors.T)
        return cls(
            columns=tuple(columns.tolist()),
            ends=tuple(ends[column] for column in columns),
            precision=np.round(precision / _GRID) * _GRID,
        )

    def draw(
        self, cells: Sequence[npt.NDArray[np.integer]], random: torch.Generator
    ) -> dict[int, Floats]:
        """Returns for each of `columns` where in its cell each record's score lies, (rows,), from 0 to below 1."""
        rows = len(cells[0])
        held = [
            cells[column] < len(ends) - 1
            for column, ends in zip(self.columns, self.ends, strict=True)
        ]
        low, high = (
            np.array([np.where(there, ends[np.minimum(cells[column], len(ends) - 2) + side], float(side))
                      for column, ends, there in zip(self.columns, self.ends, held, strict=True)])
            for side in (0, 1)
        )  # fmt: skip
        least, most = quantiles(low), quantiles(high)
        scores = quantiles(
            low + uniform(random, low.size).reshape(low.shape) * (high - low)
        )
        for _ in range(_SWEEPS):
            for at, own in enumerate(np.diag(self.precision).tolist()):
                mean = scores[at] - self.precision[at] @ scores / own
                first, last = (
                    shares((end[at] - mean) * math.sqrt(own)) for end in (least, most)
                )
                drawn = (
                    quantiles(first + uniform(random, rows) * (last - first))
                    / math.sqrt(own)
                    + mean
                )
                scores[at] = np.clip(drawn, least[at], most[at])
        within = (shares(scores) - low) / np.maximum(high - low, 1e-300)
        return dict(zip(self.columns, np.clip(within, 0.0, 1 - 2.0**-53), strict=True))


@cache
def _normal() -> tuple[Floats, Floats]:
    """Returns scores and the shares below them."""
    scores = np.linspace(-_FAR, _FAR, 2**13 + 1)
    return scores, np.array(
        [math.erfc(-score / math.sqrt(2)) / 2 for score in scores.tolist()]
    )


def shares(scores: Floats) -> Floats:
    """Returns the share of a normal distribution below each score, to about 1e-6.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.mixture import quantiles, shares
        >>> shares(quantiles(np.array([0.25, 0.975]))).round(4).tolist()
        [0.25, 0.975]
    """
    at, below = _normal()
    return np.interp(scores, at, below)


def quantiles(shares: Floats) -> Floats:
    """Returns the score below which each share of a normal distribution lies, from -8 to 8."""
    at, below = _normal()
    return np.interp(shares, below, at)


_BLOCK = 2**21  # numbers of a block of rows x components
_MOST_COLUMNS = 4

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """K components, each with one distribution over the cells of every column."""

    layout: Layout  # the columns; numeric ones come first, then coded ones, the label among them
    within: tuple[
        WithinCell, ...
    ]  # for each numeric column, its bins and where in them values lie
    weights: npt.NDArray[np.floating[Any]]  # share of each component, (K,)
    probabilities: tuple[
        npt.NDArray[np.floating[Any]], ...
    ]  # for each column, (K, cells); a row sums to 1

    copula: bool = False  # whether numbers go together within their cells too, see `noisegate.models.mixture`

    kind: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        shapes = tuple(np.shape(table) for table in self.probabilities)
        expected = tuple((len(self.weights), size) for size in self.sizes)
        if shapes != expected or not 1 <= len(self.weights) <= MAX_GROUPS:
            raise ValueError(
                f"expected probabilities of shape {expected}, found {shapes}"
            )
        for masses in (self.weights[None], *self.probabilities):
            if not (
                (masses >= 0).all()
                and np.allclose(masses.sum(axis=1, dtype=np.float64), 1, atol=1e-3)
            ):
                raise ValueError(
                    "weights and probabilities must not be negative and must sum to 1"
                )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column, numeric ones first."""
        return (
            *(cells.bins.size for cells in self.within),
            *(column.size for column in self.layout.coded),
        )

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, spread out over the mixture; `random` is public randomness, on the CPU.

        Each record alone is a draw from the mixture. Together they are negatively dependent, as in a stratified survey:
        components come in their expected numbers up to one, and so do the cells of each column in the records of a
        component up to two. What is counted over several columns varies at most n / (n - 1) times as much as in n
        independent records of a component, and mostly less (Stein, 1987; Owen, 1997). They come in random order.
        With a `copula`, numbers that go together by their cells do so within them, see `Copula`.
        """
        whole = np.zeros(rows, dtype=np.int64)
        components = CellSampler(
            self._weights, np.zeros(len(self.weights), dtype=np.int64)
        )
        component = components.pick(
            whole, stratified_uniforms(whole, random, systematic=True)
        )
        cells = [
            choice.pick(component, stratified_uniforms(component, random))
            - component * size
            for choice, size in zip(self._choices, self.sizes, strict=True)
        ]
        along = (
            self._scores.draw(cells[: len(self.within)], random)
            if self._scores is not None
            else {}
        )
        numeric = [
            within.draw(cells[at], random, along.get(at))
            for at, within in enumerate(self.within)
        ]
        return EncodedTable(
            _columns(numeric, rows, np.float64),
            _columns(cells[len(numeric) :], rows, np.int32),
        )

    def cells(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Returns the cell of each record in each column, (rows, columns)."""
        numeric = [
            within.bins.codes(records.numeric[:, place])
            for place, within in enumerate(self.within)
        ]
        return np.stack([*numeric, *records.codes.T], axis=1)

    def log_joint(
        self, cells: npt.NDArray[np.integer[Any]], column: int
    ) -> npt.NDArray[np.float64]:
        """Returns log p(x, k) for every cell k of a column, (rows, cells), x the row's cells in all others."""
        others = [table for place, table in enumerate(self._tables) if place != column]
        cells, shares = (
            np.delete(cells, column, axis=1),
            self._weights[:, None] * self._tables[column],
        )
        sizes, rows = [table.shape[1] for table in others], None
        if sizes and math.prod(sizes) < len(
            cells
        ):  # many records are alike: each kind of them is computed once
            strides = np.append(np.cumprod(sizes[:0:-1], dtype=np.int64)[::-1], 1)
            _, first, rows = np.unique(
                cells @ strides, return_index=True, return_inverse=True
            )
            cells = cells[first]
        sums, block = (
            np.empty((len(cells), shares.shape[1])),
            max(_BLOCK // len(shares), 1),
        )
        with np.errstate(divide="ignore"):
            logs = [np.log(table.T) for table in others]
            for start in range(0, len(cells), block):
                terms = np.zeros((len(cells[start : start + block]), len(shares)))
                for log, codes in zip(
                    logs, cells[start : start + block].T, strict=True
                ):
                    terms += log[codes]
                highest = terms.max(axis=1, keepdims=True)
                shift = np.where(np.isfinite(highest), highest, 0.0)
                sums[start : start + block] = shift + np.log(
                    np.exp(terms - shift) @ shares
                )
        return sums if rows is None else sums[rows]

    def marginal(self, columns: Sequence[int]) -> npt.NDArray[np.float64]:
        """Returns the joint distribution, by cells, of one to four distinct columns, numeric ones first."""
        if not 1 <= len(columns) <= _MOST_COLUMNS or len(set(columns)) < len(columns):
            raise ValueError(
                f"a marginal is of one to four distinct columns, found {list(columns)}"
            )
        chosen = [self._tables[column] for column in columns]
        half = (len(chosen) + 1) // 2
        # Two halves, so that most of the work is one matrix product.
        left = _outer([self._weights[:, None], *chosen[:half]])
        joint = (
            left.T @ _outer(chosen[half:]) if half < len(chosen) else left.sum(axis=0)
        )
        return np.asarray(joint.reshape([self.sizes[column] for column in columns]))

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in `region`."""
        return float(self._shares(self.factors(region)).sum())

    def given(self, region: Region) -> Mixture:
        """Returns the mixture of the records in `region`, or a ValueError where its probability is zero."""
        factors = self.factors(region)
        shares = self._shares(factors)
        live = shares > 0
        if not live.any():
            raise ValueError("the region has probability zero")
        tables = []
        for column, table in enumerate(self._tables):
            kept = table[live] * factors.get(column, 1.0)
            tables.append(kept / kept.sum(axis=1, keepdims=True))
        spans = region.spans.items()
        cut = {
            place: self.within[place].restricted(span)[0]
            for place, span in spans
            if span is not None
        }
        within = tuple(cut.get(place, cells) for place, cells in enumerate(self.within))
        weights = shares[live] / shares.sum()
        return replace(
            self, within=within, weights=weights, probabilities=tuple(tables)
        )

    def tensors(self) -> dict[str, Array]:
        """Returns weights, probabilities and fine cells."""
        tensors: dict[str, Array] = {"weights": self.weights}
        tensors |= {
            f"probabilities/{column}": table
            for column, table in enumerate(self.probabilities)
        }
        for place, cells in enumerate(self.within):
            parts = {
                "cuts": np.asarray(cells.bins.cuts),
                "low": cells.low,
                "high": cells.high,
                "shares": cells.shares,
            }
            tensors |= {f"within/{place}/{name}": part for name, part in parts.items()}
        return tensors

    def to_json(self) -> dict[str, Any]:
        """Returns the number of components and of cells; everything else is in `tensors`."""
        return {
            "components": len(self.weights),
            "cells": list(self.sizes),
            "copula": self.copula,
        }

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        layout = schema.layout
        within = []
        for place, column in enumerate(layout.numeric):
            cuts, low, high, shares = (
                tensors[f"within/{place}/{name}"]
                for name in ("cuts", "low", "high", "shares")
            )
            nullable = description["cells"][place] > len(cuts) + 1
            bins = NumericBins(tuple(cuts.tolist()), nullable)
            within.append(
                WithinCell(column=column, bins=bins, low=low, high=high, shares=shares)
            )
        columns = len(layout.numeric) + len(layout.coded)
        probabilities = tuple(
            tensors[f"probabilities/{column}"] for column in range(columns)
        )
        return cls(
            layout=layout,
            within=tuple(within),
            weights=tensors["weights"],
            probabilities=probabilities,
            copula=description.get("copula", False),  # older models have none
        )

    @cached_property
    def _weights(self) -> Floats:
        weights = self.weights.astype(np.float64)
        return np.asarray(weights / weights.sum())

    @cached_property
    def _tables(self) -> tuple[Floats, ...]:
        """Probabilities whose rows sum to 1 to float64's precision, whatever they were fitted in."""
        tables = (table.astype(np.float64) for table in self.probabilities)
        return tuple(table / table.sum(axis=1, keepdims=True) for table in tables)

    @cached_property
    def _scores(self) -> Copula | None:
        numeric = zip(self._tables, self.within, strict=False)
        cells = [table[:, : len(within.bins.cuts) + 1] for table, within in numeric]
        return (
            Copula.of(self._weights, cells) if self.copula and len(cells) > 1 else None
        )

    @cached_property
    def _choices(self) -> tuple[CellSampler, ...]:
        """For each column, the cells of all components, one group a component."""
        groups = np.arange(len(self.weights))
        return tuple(
            CellSampler(table.ravel(), np.repeat(groups, table.shape[1]))
            for table in self._tables
        )

    def factors(self, region: Region) -> dict[int, Floats]:
        """Returns, for each column that the region names, the share of each cell that lies in it, (cells,)."""
        factors = {}
        for place, span in region.spans.items():
            cells = self.within[place]
            missing = np.arange(cells.bins.size) > len(cells.bins.cuts)
            factors[place] = (
                missing.astype(np.float64)
                if span is None
                else cells.restricted(span)[1]
            )
        for place, code in region.codes.items():
            factors[len(self.within) + place] = np.eye(self.layout.coded[place].size)[
                code
            ]
        return factors

    def _shares(self, factors: Mapping[int, Floats]) -> Floats:
        """Returns the probability of each component together with the region, (K,)."""
        shares = self._weights
        for column, factor in factors.items():
            shares = shares * (self._tables[column] @ factor)
        return shares


def _columns(
    columns: Sequence[npt.NDArray[Any]], rows: int, kind: type
) -> npt.NDArray[Any]:
    """Returns columns side by side, (rows, columns), of which there may be none."""
    return (
        np.stack(columns, axis=1).astype(kind)
        if columns
        else np.empty((rows, 0), dtype=kind)
    )


def _outer(tables: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Returns the products of one entry of each table, component by component, (K, product of their widths)."""
    joint = tables[0]
    for table in tables[1:]:
        joint = (joint[:, :, None] * table[:, None, :]).reshape(len(joint), -1)
    return joint
