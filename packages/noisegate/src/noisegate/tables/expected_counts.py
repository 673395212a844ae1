"""What a mixture of products expects of released tables, how far that is from them, and the gradient of that distance.

In a class of n records, component k has weight w_k and probabilities p_ak, one distribution over the cells a of each
column. With all cells laid side by side, p is a matrix (D, K), and the expected counts of all pairs of cells are its
second moment::

    M = n p diag(w) pᵀ = A Aᵀ,    A = p diag(n w)^½,    m = n p w

where m are those of single cells. Released are S with noise σ, symmetric here as M is, and s with noise τ. The distance
and its gradient, with G = (M − S) / σ² where a pair was released and 0 elsewhere, and g = 2 (m − s) / τ², are::

    L = ½ Σ_ab (M_ab − S_ab)² / σ_ab²  +  Σ_a (m_a − s_a)² / τ_a²
    ∂L/∂p = (2 G p + g 1ᵀ) diag(n w),    ∂L/∂w_k = n (p_kᵀ G p_k + gᵀ p_k)

Where few of all pairs were released, only their blocks of M are computed: those of one column and its partners at a
time, each on one side of the diagonal. A table of three columns adds its own squares: the sum over k of
n w_k p_ak p_bk p_dk against its counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.tables.tables import ClassTables

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
    """Expected counts of every cell of some tables, by class: blocks of pairs, single columns, triples as matrices."""

    pairs: tuple[Float32[Array, "classes _ _"], ...]
    singles: Float32[Array, "classes D"]
    triples: tuple[Float32[Array, "classes _ _"], ...]


# Below this share of all pairs of cells, the released ones are computed block by block.
_FEW = 0.25


class _Block:
    """Released pairs of some cells with others, or where both are None of all with all, each on both sides of M."""

    def __init__(
        self, tables: ClassTables, rows: npt.NDArray[np.intp] | None = None, columns: npt.NDArray[np.intp] | None = None
    ) -> None:
        self.whole = rows is None or columns is None
        self._rows, self._columns = (slice(None) if each is None else each for each in (rows, columns))
        precision, pairs = tables.precision, tables.pairs
        if rows is None or columns is None:
            precision, pairs = precision + precision.T, pairs + pairs.transpose(0, 2, 1)
        else:
            precision, pairs = precision[np.ix_(rows, columns)], pairs[:, rows[:, None], columns]
        # Counts over their noise.
        self._precision, self._counts = precision, pairs * precision

    def expected(self, scaled: Float32[Array, "classes D K"]) -> Float32[Array, "classes _ _"]:
        """Returns the block of M in each class, with A for `scaled`."""
        out = np.empty(self._counts.shape, dtype=np.float32)
        for each, found in zip(scaled, out, strict=True):
            # Of a matrix with itself the product is symmetric, and computed at half the cost.
            np.matmul(each[self._rows], (each if self.whole else each[self._columns]).T, out=found)
        return out

    def residual(self, expected: Float32[Array, "classes _ _"], row: int) -> Array:
        """Returns how far the counts of a class are from those expected, over their noise."""
        found: Array = expected[row] * self._precision
        found -= self._counts[row]
        return found

    def pull(self, residual: Array, cells: Float32[Array, "D K"], into: Float32[Array, "D K"]) -> None:
        """Adds 2 G p to `into`; takes the residual for its own."""
        residual *= 2 * self._precision
        into[self._rows] += residual @ cells[self._columns]
        if not self.whole:
            into[self._columns] += residual.T @ cells[self._rows]


def _blocks(tables: ClassTables) -> list[_Block]:
    """Returns the blocks that hold all released pairs."""
    released = tables.precision > 0
    if 2 * released.mean() > _FEW:
        return [_Block(tables)]
    partners = ((span, np.flatnonzero(released[span].any(axis=0))) for span in tables.spans)
    return [_Block(tables, np.arange(span.start, span.stop), others) for span, others in partners if len(others)]


class Distance:
    """The squared distance of expected counts to tables, in units of their noise."""

    def __init__(self, tables: ClassTables) -> None:
        self._spans, self._counts = tables.spans, tables.counts.astype(np.float32)
        self.cells = tables.larger
        self._blocks = _blocks(tables)
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
        pairs = tuple(block.expected(scaled) for block in self._blocks)
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
            for block, found in zip(self._blocks, expected.pairs, strict=True):
                total += (0.5 if block.whole else 1.0) * _squared(block.residual(found, row))
            total += sum(_squared(self._triple_residual(expected, row, place)) for place in range(len(self._triples)))
        return total

    def gradient(self, expected: Expected, components: Components) -> Components:
        """Returns the gradient of the distance to all tables at a mixture's weights and cells."""
        rows = [self._class_gradient(expected, components, row) for row in range(len(self._counts))]
        return Components(weights=np.stack([row[0] for row in rows]), cells=np.stack([row[1] for row in rows]))

    def _class_gradient(self, expected: Expected, components: Components, row: int) -> tuple[Array, Array]:
        cells, count = components.cells[row], self._counts[row]
        records = components.weights[row] * count
        at_cells = np.zeros_like(cells)
        for block, found in zip(self._blocks, expected.pairs, strict=True):
            block.pull(block.residual(found, row), cells, at_cells)
        single = 2 * (expected.singles[row] - self._singles[row]) * self._singles_precision**2
        # What is pulled at a pair is pulled at both of its cells.
        at_records = 0.5 * np.einsum("ak,ak->k", at_cells, cells) + single @ cells
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
