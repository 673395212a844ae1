"""What a mixture of products expects of released tables, how far that is from them, and the gradient of that distance.

In a class of n records, component k has weight w_k and probabilities p_ak, one distribution over the cells a of each
column. With all cells laid side by side, p is a matrix (D, K), and the expected counts of all pairs of cells are its
second moment::

    M = n p diag(w) pᵀ = A Aᵀ,    A = p diag(n w)^½,    m = n p w

where m are those of single cells. Released are S with noise σ, symmetric here as M is, and s with noise τ. The distance
and its gradient, with G = (M − S) / σ² where a pair was released and 0 elsewhere, and g = 2 (m − s) / τ², are::

    L = ½ Σ_ab (M_ab − S_ab)² / σ_ab²  +  Σ_a (m_a − s_a)² / τ_a²
    ∂L/∂p = (2 G p + g 1ᵀ) diag(n w),    ∂L/∂w_k = n (p_kᵀ G p_k + gᵀ p_k)

A table of three columns adds its own squares: the sum over k of n w_k p_ak p_bk p_dk against its counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.training.tables import ClassTables

if TYPE_CHECKING:
    from jaxtyping import Float32

    Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Components:
    """Components of each class.

    Attributes:
        weights: Their shares of the class, (classes, K).
        cells: Their probabilities of the cells of all columns, (classes, D, K).
    """

    weights: Float32[Array, "classes K"]
    cells: Float32[Array, "classes D K"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Expected counts of every cell of some tables, by class: pairs, single columns, and triples as matrices."""

    pairs: Float32[Array, "classes D D"]
    singles: Float32[Array, "classes D"]
    triples: tuple[Float32[Array, "classes _ _"], ...]


class Distance:
    """The squared distance of expected counts to tables, in units of their noise."""

    def __init__(self, tables: ClassTables) -> None:
        self._spans, self._counts = tables.spans, tables.counts.astype(np.float32)
        self.cells = tables.larger
        self._precision = tables.precision + tables.precision.T
        # Counts over their noise, on both sides of the diagonal, as M is.
        self._pairs = (tables.pairs + tables.pairs.transpose(0, 2, 1)) * self._precision
        self._singles = tables.singles.astype(np.float32)
        self._singles_precision = (1 / tables.singles_std).astype(np.float32)
        self._triples = [
            (columns, (counts / noise).reshape(len(counts), -1, counts.shape[-1]).astype(np.float32), 1 / noise)
            for columns, counts, noise in tables.triples
        ]

    def expected(self, components: Components) -> Expected:
        """Returns what a mixture with these tables' numbers of records expects of them."""
        records = components.weights * self._counts[:, None]
        roots = np.sqrt(records)
        scaled = components.cells * roots[:, None]
        pairs = np.empty((len(scaled), *self._precision.shape), dtype=np.float32)
        for each, out in zip(scaled, pairs, strict=True):
            np.matmul(each, each.T, out=out)  # symmetric, at half the cost of another product
        singles = np.matmul(components.cells, records[:, :, None])[:, :, 0]
        triples = []
        for columns, _, _ in self._triples:
            first, second, third = (components.cells[:, self._spans[column]] for column in columns)
            triples.append(np.matmul(_outer(first * records[:, None], second), third.transpose(0, 2, 1)))
        return Expected(pairs=pairs, singles=singles, triples=tuple(triples))

    def of(self, expected: Expected) -> float:
        """Returns the squared distance to pairs and triples, summed over their cells."""
        total = 0.0
        for row in range(len(self._counts)):
            total += 0.5 * _squared(self._pair_residual(expected, row))
            total += sum(_squared(self._triple_residual(expected, row, place)) for place in range(len(self._triples)))
        return total

    def gradient(self, expected: Expected, components: Components) -> Components:
        """Returns the gradient of the distance to all tables at a mixture's weights and cells."""
        rows = [self._class_gradient(expected, components, row) for row in range(len(self._counts))]
        return Components(weights=np.stack([row[0] for row in rows]), cells=np.stack([row[1] for row in rows]))

    def _class_gradient(self, expected: Expected, components: Components, row: int) -> tuple[Array, Array]:
        cells, count = components.cells[row], self._counts[row]
        records = components.weights[row] * count
        apart = self._pair_residual(expected, row)
        apart *= self._precision
        single = 2 * (expected.singles[row] - self._singles[row]) * self._singles_precision**2
        at_cells = apart @ cells
        at_records = np.einsum("ak,ak->k", at_cells, cells) + single @ cells
        at_cells *= 2
        at_cells += single[:, None]
        at_cells *= records
        for place, (columns, _, precision) in enumerate(self._triples):
            residual = self._triple_residual(expected, row, place)
            residual *= 2 * precision
            spans = [self._spans[column] for column in columns]
            first, second, third = (cells[span] for span in spans)
            # The gradient at the product of the first two, and what of it each of them gets.
            pulled = (residual @ third).reshape(len(first), len(second), -1)
            at_first = np.einsum("abk,bk->ak", pulled, second)
            at_records += np.einsum("ak,ak->k", at_first, first)
            at_cells[spans[0]] += at_first * records
            at_cells[spans[1]] += np.einsum("abk,ak->bk", pulled, first * records)
            at_cells[spans[2]] += residual.T @ _outer((first * records)[None], second[None])[0]
        return at_records * count, at_cells

    def _pair_residual(self, expected: Expected, row: int) -> Array:
        residual: Array = expected.pairs[row] * self._precision
        residual -= self._pairs[row]
        return residual

    def _triple_residual(self, expected: Expected, row: int, place: int) -> Array:
        _, counts, precision = self._triples[place]
        residual: Array = expected.triples[place][row] * np.float32(precision)
        residual -= counts[row]
        return residual


def _outer(
    first: Float32[Array, "classes A K"], second: Float32[Array, "classes B K"]
) -> Float32[Array, "classes _ K"]:
    """Returns the products of a cell of the first and one of the second, component by component."""
    return (first[:, :, None] * second[:, None]).reshape(len(first), -1, first.shape[2])


def _squared(residual: Array) -> float:
    return float(np.vdot(residual, residual))
