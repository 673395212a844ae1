"""What a mixture of products expects of tables, how far that is, and the gradient.

In a class of n records, component k has weight w_k and probabilities p_ak of the cells a
of all columns, side by side (D, K). Expected counts of pairs and of single cells are, with
S and s released, of noise σ and τ, and G = (M − S)/σ² where a pair was, g = 2 (m −
s)/τ²

    M = n p diag(w) pᵀ = A Aᵀ,    A = p diag(n w)^½,    m = n p w
    L = ½ Σ_ab (M_ab − S_ab)²/σ_ab² + Σ_a (m_a − s_a)²/τ_a²
    ∂L/∂p = (2 G p + g 1ᵀ) diag(n w),    ∂L/∂w_k = n (p_kᵀ G p_k + gᵀ p_k)

Where few pairs were released, only their blocks of M are computed, those of one column
and its partners at a time, each on one side of the diagonal. A table of three columns
adds the squares of Σ_k n w_k p_ak p_bk p_dk against its counts.

G gets a part of itself once more: what of it lies along the products of two columns'
scores (normal scores of cells in an order, or two cells), which is how correlations are
off. Descent comes to it last, though it is far clearer than single cells. Left out
where there are fewer components than cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.models.tables.packed_tables import PackedTables, likely_shares, scores_of

if TYPE_CHECKING:
    from jaxtyping import Float32

    Array = npt.NDArray[np.float32]


# How many times more than others the one number counts that says how far a pair of ordered columns moves together:
# analyses rest on it, it is much clearer than single cells, and plain descent comes to it last. With a larger part many
# columns follow its noise, and regressions get worse.
_STRESS = 2.0


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
        self,
        tables: PackedTables,
        scores: Float32[Array, "D scores"],
        rows: slice | None = None,
        columns: npt.NDArray[np.intp] | None = None,
    ) -> None:
        self.whole = rows is None or columns is None
        self._rows, self._columns = (
            slice(None) if each is None else each for each in (rows, columns)
        )
        precision, pairs = tables.precision, tables.pairs
        self._scores = scores[self._rows], scores[self._columns]
        if rows is None or columns is None:
            precision, pairs = precision + precision.T, pairs + pairs.transpose(0, 2, 1)
        else:
            precision, pairs = precision[rows, columns], pairs[:, rows, columns]
        # Counts over their noise.
        self._precision, self._counts = precision, pairs * precision

    def expected(
        self, scaled: Float32[Array, "classes D K"]
    ) -> Float32[Array, "classes _ _"]:
        """Returns the block of M in each class, with A for `scaled`."""
        out = np.empty(self._counts.shape, dtype=np.float32)
        for each, found in zip(scaled, out, strict=True):
            # Of a matrix with itself the product is symmetric, and computed at half the cost.
            np.matmul(
                each[self._rows],
                (each if self.whole else each[self._columns]).T,
                out=found,
            )
        return out

    def residual(self, expected: Float32[Array, "classes _ _"], row: int) -> Array:
        """Returns how far the counts of a class are from those expected, over their noise."""
        found: Array = expected[row] * self._precision
        found -= self._counts[row]
        return found

    def pull(
        self, residual: Array, cells: Float32[Array, "D K"], into: Float32[Array, "D K"]
    ) -> None:
        """Adds 2 G p to `into`, scores with more weight if there are components enough; overwrites the residual."""
        left, right = self._scores
        if len(cells) <= cells.shape[1]:
            residual += left @ (left.T @ residual @ right) @ right.T
        residual *= 2 * self._precision
        into[self._rows] += residual @ cells[self._columns]
        if not self.whole:
            into[self._columns] += residual.T @ cells[self._rows]


def _unit_scores(tables: PackedTables) -> Float32[Array, "D scores"]:
    """Returns scores of columns in an order, or of two cells, so long that they count as much as they are to."""
    shares, found = (
        likely_shares(tables).mean(axis=0) if tables.ordered else tables.prior,
        [],
    )
    for span, few in zip(tables.spans, tables.ordered, strict=False):
        if few > 1 or span.stop - span.start == 2:
            found.append(np.zeros(len(shares), dtype=np.float32))
            own = scores_of(shares[span] / shares[span].sum(), few)[:, -1]
            found[-1][span] = own * _STRESS**0.25 / np.sqrt(np.square(own).sum())
    return (
        np.stack(found, axis=1)
        if found
        else np.zeros((len(shares), 0), dtype=np.float32)
    )


def _blocks(tables: PackedTables) -> list[_Block]:
    released, scores = tables.precision > 0, _unit_scores(tables)
    if 2 * released.mean() > _FEW:
        return [_Block(tables, scores)]
    partners = (
        (span, np.flatnonzero(released[span].any(axis=0))) for span in tables.spans
    )
    return [
        _Block(tables, scores, span, others) for span, others in partners if len(others)
    ]


class Distance:
    """The squared distance of expected counts to tables, in units of their noise."""

    def __init__(self, tables: PackedTables) -> None:
        self._spans, self._counts = tables.spans, tables.counts.astype(np.float32)
        self.cells = tables.larger
        self._blocks = _blocks(tables)
        self._singles = tables.singles.astype(np.float32)
        self._singles_precision = (1 / tables.singles_std).astype(np.float32)
        self._triples = [
            (
                columns,
                (counts / noise)
                .reshape(len(counts), -1, counts.shape[-1])
                .astype(np.float32),
                1 / noise,
            )
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
            first, second, third = (
                components.cells[:, self._spans[column]] for column in columns
            )
            triples.append(
                np.matmul(
                    _outer(first * records[:, None], second), third.transpose(0, 2, 1)
                )
            )
        return Expected(pairs=pairs, singles=singles, triples=tuple(triples))

    def of(self, expected: Expected) -> float:
        """Returns the squared distance to pairs and triples, summed over their cells."""
        total = 0.0
        for row in range(len(self._counts)):
            for block, found in zip(self._blocks, expected.pairs, strict=True):
                total += (0.5 if block.whole else 1.0) * _squared(
                    block.residual(found, row)
                )
            total += sum(
                _squared(self._triple_residual(expected, row, place))
                for place in range(len(self._triples))
            )
        return total

    def gradient(self, expected: Expected, components: Components) -> Components:
        """Returns the gradient of the distance to all tables at a mixture's weights and cells."""
        rows = [
            self._class_gradient(expected, components, row)
            for row in range(len(self._counts))
        ]
        return Components(
            weights=np.stack([row[0] for row in rows]),
            cells=np.stack([row[1] for row in rows]),
        )

    def _class_gradient(
        self, expected: Expected, components: Components, row: int
    ) -> tuple[Array, Array]:
        cells, count = components.cells[row], self._counts[row]
        records = components.weights[row] * count
        at_cells = np.zeros_like(cells)
        for block, found in zip(self._blocks, expected.pairs, strict=True):
            block.pull(block.residual(found, row), cells, at_cells)
        single = (
            2
            * (expected.singles[row] - self._singles[row])
            * self._singles_precision**2
        )
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
            at_cells[spans[2]] += (
                residual.T @ _outer((first * records)[None], second[None])[0]
            )
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
