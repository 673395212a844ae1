"""Where the components of a mixture begin.

Components begin as narrow kernels about points whose scores have the correlations that
pairs say (a Gaussian copula: Sklar 1959; Li, Xiong and Jiang, EDBT 2014, draw tables
from one alone). Kernels weaken correlations, so those of the points are raised for a
few rounds. Components that began alike, about independent columns, kept .90 of
correlations and half of a regression of a clear release within the same steps.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.tables.packed_tables import (
    Floats,
    PackedTables,
    likely_shares,
    scores_of,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

    Array = npt.NDArray[Any]

# How wide the kernels are that components begin as, in standard deviations of the scores, and the part that is left to
# all cells; rounds that bring their correlations near, and the least variance of their points along any axis.
_KERNEL, _SHARED, _ROUNDS, _LEAST = 0.3, 0.02, 4, 1e-3


def initial_logits(
    tables: PackedTables, components: int, seed: int
) -> tuple[Float32[Array, "classes K"], Float32[Array, "classes D K"]]:
    """Returns the logits of the weights and of the cells that a mixture sets out from, before it is spread."""
    if tables.start is None:
        shares = likely_shares(tables)
        each = max(components // len(shares), 1)
        random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
        drawn = random.standard_normal((tables.singles.shape[1], each))
        cells = np.stack(
            [_latent_cells(tables, row, own, drawn) for row, own in enumerate(shares)]
        )
        return np.zeros((len(shares), each), dtype=np.float32), np.log(cells).astype(
            np.float32
        )
    start = tables.start
    # A rare kind has some of the components too.
    each = np.maximum(
        np.rint(components * np.sqrt(start.weights) / np.sqrt(start.weights).sum()), 1
    ).astype(int)
    kinds = np.repeat(np.arange(len(each)), each)
    weights, cells = np.log(start.weights / each)[kinds], np.log(start.cells)[kinds].T
    return weights[None].astype(np.float32), cells[None].astype(np.float32)


def _latent_cells(
    tables: PackedTables, row: int, shares: Floats, drawn: Floats
) -> Float64[Array, "D K"]:
    """Returns cells of components that are spread as the pairs of one class say, like points of a Gaussian copula.

    Each column has scores, of mean 0 and variance 1 under its `shares`, (D,): normal ones of cells in an order, and
    one for each other cell. Points are given the correlations of all scores; a component is a narrow kernel about one.
    What kernels take off the correlations is made up for in a few rounds. With fewer components than cells, too
    few to be near all of them, each is as the shares say.
    """
    if drawn.shape[1] < len(shares):
        return np.repeat(shares[:, None], drawn.shape[1], axis=1)
    scores = [
        scores_of(shares[span], few)
        for span, few in zip(tables.spans, tables.ordered, strict=True)
    ]
    ends = np.cumsum([0, *(each.shape[1] for each in scores)])
    places = [slice(start, end) for start, end in pairwise(ends)]
    wanted = np.eye(ends[-1])
    for one, other in combinations(range(len(scores)), 2):
        cells = np.s_[tables.spans[one], tables.spans[other]]
        if tables.precision[cells].any():
            apart = tables.pairs[row][cells] / max(tables.counts[row], 1.0) - np.outer(
                shares[cells[0]], shares[cells[1]]
            )
            wanted[places[one], places[other]] = scores[one].T @ apart @ scores[other]
            wanted[places[other], places[one]] = wanted[places[one], places[other]].T
    wanted = np.clip(wanted, -1.0, 1.0)
    given, points = wanted, drawn[: ends[-1]]
    # Points of a variance of exactly 1 and no correlations of their own.
    left, _, right = np.linalg.svd(
        points - points.mean(axis=1, keepdims=True), full_matrices=False
    )
    points = left @ right * math.sqrt(points.shape[1])
    for _ in range(_ROUNDS):
        sizes, axes = np.linalg.eigh(given)
        root = axes * np.sqrt(np.maximum(sizes, _LEAST)) @ axes.T
        at = root @ points / np.sqrt(np.square(root).sum(axis=1))[:, None]
        parts = zip(tables.spans, scores, places, strict=True)
        found = [_kernels(shares[span], each, at[own]) for span, each, own in parts]
        means = np.concatenate(
            [each.T @ own for each, own in zip(scores, found, strict=True)]
        )
        given = np.where(
            wanted == 0, 0.0, np.clip(given + wanted - np.cov(means), -1.0, 1.0)
        )
        np.fill_diagonal(given, 1.0)
    return np.concatenate(found)


def _kernels(shares: Floats, scores: Floats, points: Floats) -> Floats:
    """Returns a column's cells in each component, (cells, K): kernels of its scores, and some of its shares."""
    apart = np.square(scores).sum(axis=1)[:, None] - 2 * scores @ points
    logits = np.log(shares)[:, None] - apart / (2 * _KERNEL**2)
    cells = np.exp(logits - logits.max(axis=0))
    return np.asarray(
        (1 - _SHARED) * cells / cells.sum(axis=0) + _SHARED * shares[:, None]
    )
