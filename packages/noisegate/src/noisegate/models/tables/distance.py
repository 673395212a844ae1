"""The squared distance between a mixture of products and released tables.

In a class of n records, component k of a mixture has weight w_k and probabilities p_ak
of the cells a of all columns, laid side by side: p is (D, K). The mixture expects the
counts M of pairs of cells and m of single cells::

    M = n p diag(w) pᵀ = A Aᵀ    with A = p diag(n w)^½
    m = n p w

With released counts S of pairs and s of single cells, whose noise has standard
deviations σ and τ, the loss and its gradients are::

    L = ½ Σ_ab (M_ab - S_ab)² / σ_ab² + Σ_a (m_a - s_a)² / τ_a²
    ∂L/∂p = (2 G p + g 1ᵀ) diag(n w)          with G = (M - S) / σ², 0 if not released
    ∂L/∂w_k = n (p_kᵀ G p_k + gᵀ p_k)         and  g = 2 (m - s) / τ²

M is symmetric, and each released pair stands on both sides of its diagonal, hence the
½. If few pairs were released, only their blocks of M are computed, on one side of the
diagonal. A table of three columns adds the squares of Σ_k n w_k p_ak p_bk p_ck less its
counts, over their variance.

The gradient is not exactly that of L: the part of G along the products of two columns'
scores counts more than once, see `_SCORE_WEIGHT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.models.tables.packed_tables import (
    PackedTables,
    PackedTriple,
    estimate_shares,
    orthonormal_scores,
)

if TYPE_CHECKING:
    from jaxtyping import Float32

Array = npt.NDArray[np.float32]

# The added weight, in the gradient, of the one number of a pair of columns that says
# how they are correlated. Analyses rest on it and it is much clearer than single cells,
# yet plain descent fits it last. With a larger weight, many columns follow its noise,
# and regressions get worse.
_SCORE_WEIGHT = 2.0
# Above this share of released pairs among all pairs of cells, one product for all is
# faster than many small ones for the blocks.
_MAX_BLOCKWISE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Components:
    """The components of a mixture in each class.

    Attributes:
        weights: Their shares of the class, (classes, K).
        cells: Their probabilities of the cells of all columns, (classes, D, K).
    """

    weights: Float32[Array, "classes K"]
    cells: Float32[Array, "classes D K"]


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """The gradient of a distance at the components of a mixture.

    Attributes:
        weights: With respect to their weights, (classes, K).
        cells: With respect to their probabilities of cells, (classes, D, K).
    """

    weights: Float32[Array, "classes K"]
    cells: Float32[Array, "classes D K"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The counts that a mixture expects in released tables, by class.

    Attributes:
        pair_blocks: Blocks of M, (classes, row cells, column cells) each.
        one_way: Counts m of single cells, (classes, D).
        triples: Tables of three columns, (classes, cells of the first two columns,
            cells of the third) each.
    """

    pair_blocks: tuple[Float32[Array, "classes _ _"], ...]
    one_way: Float32[Array, "classes D"]
    triples: tuple[Float32[Array, "classes _ _"], ...]


class Distance:
    """The squared distance of expected counts to tables, in units of their noise.

    Args:
        tables: The tables.

    Attributes:
        n_cells: Number of cells of pairs and triples, over all classes.
    """

    def __init__(self, tables: PackedTables) -> None:
        self.n_cells = tables.n_joint_cells
        self._column_slices = tables.column_slices
        self._class_counts = tables.class_counts.astype(np.float32)
        self._pair_blocks = list(_pair_blocks(tables))
        self._one_way_counts = tables.one_way_counts.astype(np.float32)
        self._one_way_inverse_std = (1 / tables.one_way_std).astype(np.float32)
        self._triples = [_ScaledTriple.of(triple) for triple in tables.triples]

    def expected(self, components: Components) -> Expected:
        """Computes the counts that a mixture expects in every released table.

        In a class of n records, component k has the weight w_k, so r_k = n w_k records,
        and the probabilities p_ak of the cells a of all columns. It expects ::

            M_ab = Σ_k r_k p_ak p_bk            in a pair of cells
            m_a = Σ_k r_k p_ak                  in a cell
            Σ_k r_k p_ak p_bk p_ck              in a cell of three columns

        M is A Aᵀ with A_ak = p_ak √r_k, which is why cells are scaled by roots.

        Args:
            components: The components, whose weights sum to 1 in each class.

        Returns:
            Counts in records, float32.
        """
        records = components.weights * self._class_counts[:, None]  # (classes, K)
        roots = np.sqrt(records)
        scaled_cells = components.cells * roots[:, None]
        one_way = np.matmul(components.cells, records[:, :, None])[:, :, 0]
        triples = []
        for triple in self._triples:
            first, second, third = (
                components.cells[:, self._column_slices[column]]
                for column in triple.columns
            )
            first_two = _outer_products(first * records[:, None], second)
            triples.append(np.matmul(first_two, third.transpose(0, 2, 1)))
        return Expected(
            pair_blocks=tuple(
                block.expected(scaled_cells) for block in self._pair_blocks
            ),
            one_way=one_way,
            triples=tuple(triples),
        )

    def squared_distance(self, expected: Expected) -> float:
        """Computes the squared distance to pairs and triples, summed over their cells.

        It is Σ (expected - released)² / σ² over all classes and over every released
        cell of a pair or a triple, each once, where σ is the standard deviation of the
        noise on its count. Single columns are left out. If the expected counts are
        right, so that only the noise is left, its expectation is `n_cells`.

        Args:
            expected: What the mixture expects.
        """
        total = 0.0
        for class_index in range(len(self._class_counts)):
            for block, counts in zip(
                self._pair_blocks, expected.pair_blocks, strict=True
            ):
                # A symmetric block has each pair twice.
                factor = 0.5 if block.is_symmetric else 1.0
                residual = block.residual(counts, class_index)
                total += factor * _sum_of_squares(residual)
            total += sum(
                _sum_of_squares(triple.residual(counts, class_index))
                for triple, counts in zip(self._triples, expected.triples, strict=True)
            )
        return total

    def gradient(self, expected: Expected, components: Components) -> Gradient:
        """Computes the gradient of the distance to all tables, single columns too.

        Classes are independent of each other; `_class_gradient` has the formulas.

        Args:
            expected: What the mixture expects.
            components: Its components, those that `expected` was computed of.
        """
        gradients = [
            self._class_gradient(expected, components, class_index)
            for class_index in range(len(self._class_counts))
        ]
        return Gradient(
            weights=np.stack([weights for weights, _ in gradients]),
            cells=np.stack([cells for _, cells in gradients]),
        )

    def _class_gradient(
        self, expected: Expected, components: Components, class_index: int
    ) -> tuple[Float32[Array, " K"], Float32[Array, "D K"]]:
        """Computes the gradient of the squared distance of one class.

        The class has n records. Component k has the weight w_k, so r_k = n w_k records,
        and the probabilities p_ak of the D cells of all columns; p is (D, K). The class
        expects M = p diag(r) pᵀ records in pairs of cells and m = p r in cells. Their
        released counts are S and s, with noise of standard deviations σ and τ. The
        objective is ::

            L = Σ_(a<b) (M_ab - S_ab)² / σ_ab² + Σ_a (m_a - s_a)² / τ_a² + triples

        over the pairs of cells that were released, and the gradient ::

            ∂L/∂p_ak = r_k ((2 G p)_ak + g_a) + triples
            ∂L/∂w_k = n (p_kᵀ G p_k + gᵀ p_k + triples)

        Here G = (M - S) / σ², (D, D), stands on both sides of the diagonal and is 0
        where no pair was released, and g = 2 (m - s) / τ², (D,). The stages are 2 G p
        of the pairs, g of the single columns, both gradients of these two, and what
        triples add (`_add_triple_gradient`).

        It differs from the gradient of L in one thing: some directions of G count more
        than once, see `_PairBlock.add_gradient`. A change must keep that, and the order
        of the operations: fits are reproducible to the last bit.

        Args:
            expected: What the mixture expects.
            components: Its components.
            class_index: The class.

        Returns:
            ∂L/∂w, (K,), and ∂L/∂p, (D, K), both float32.
        """
        cells = components.cells[class_index]
        n_records = self._class_counts[class_index]
        records = components.weights[class_index] * n_records
        pair_gradient = self._pair_gradient(expected, cells, class_index)
        one_way_gradient = (
            2
            * (expected.one_way[class_index] - self._one_way_counts[class_index])
            * self._one_way_inverse_std**2
        )
        # p_kᵀ (2 G p_k) has each pair of cells twice, hence the half.
        record_gradient = (
            0.5 * np.einsum("ak,ak->k", pair_gradient, cells) + one_way_gradient @ cells
        )
        cell_gradient = pair_gradient + one_way_gradient[:, None]
        cell_gradient *= records
        for triple, counts in zip(self._triples, expected.triples, strict=True):
            residual = triple.residual(counts, class_index)
            record_gradient += self._add_triple_gradient(
                cell_gradient, triple, residual, cells, records
            )
        return record_gradient * n_records, cell_gradient

    def _pair_gradient(
        self, expected: Expected, cells: Float32[Array, "D K"], class_index: int
    ) -> Float32[Array, "D K"]:
        """Computes 2 G p of one class, with G = (M - S) / σ² of its released pairs.

        Args:
            expected: What the mixture expects, M in blocks.
            cells: Probabilities p of the cells in each component of the class.
            class_index: The class.

        Returns:
            The gradient at p for one record in each component, float32.
        """
        pair_gradient = np.zeros_like(cells)
        for block, counts in zip(self._pair_blocks, expected.pair_blocks, strict=True):
            residual = block.residual(counts, class_index)
            block.add_gradient(pair_gradient, residual, cells)
        return pair_gradient

    def _add_triple_gradient(
        self,
        cell_gradient: Float32[Array, "D K"],
        triple: _ScaledTriple,
        residual: Float32[Array, "_ _"],
        cells: Float32[Array, "D K"],
        records: Float32[Array, " K"],
    ) -> Float32[Array, " K"]:
        """Adds the gradient of the squared distance to a table of three columns.

        With T_abc = Σ_k r_k p_ak p_bk p_ck the expected and U the released counts of a
        class, whose noise has the standard deviation υ, the distance is
        Σ_abc (T_abc - U_abc)² / υ². With Q_abc = 2 (T_abc - U_abc) / υ² ::

            ∂/∂p_ak = r_k Σ_bc Q_abc p_bk p_ck      and likewise for b and c
            ∂/∂r_k = Σ_abc Q_abc p_ak p_bk p_ck

        where a, b and c are cells of the first, second and third column.

        Args:
            cell_gradient: Gradient at the cells of a class, (D, K), which is added to
                in the rows of the three columns.
            triple: The table.
            residual: (T - U) / υ, (cells of the first two columns, cells of the third),
                which is overwritten by Q.
            cells: Probabilities of the cells in each component of the class.
            records: Expected number of records in each component.

        Returns:
            ∂/∂r, the gradient at the number of records in each component, (K,).
        """
        residual *= 2 * triple.inverse_std
        slices = [self._column_slices[column] for column in triple.columns]
        first, second, third = (cells[column_slice] for column_slice in slices)
        # Σ_c Q_abc p_ck: the gradient at products p_ak p_bk, (cells, cells, K).
        product_gradient = (residual @ third).reshape(len(first), len(second), -1)
        first_gradient = np.einsum("abk,bk->ak", product_gradient, second)
        record_gradient = np.einsum("ak,ak->k", first_gradient, first)
        cell_gradient[slices[0]] += first_gradient * records
        cell_gradient[slices[1]] += np.einsum(
            "abk,ak->bk", product_gradient, first * records
        )
        cell_gradient[slices[2]] += (
            residual.T @ _outer_products((first * records)[None], second[None])[0]
        )
        return np.asarray(record_gradient)


@dataclass(frozen=True, kw_only=True, eq=False)
class _PairBlock:
    """Released pairs of some cells, the rows, with others, the columns.

    The rows and columns of a symmetric block are all cells, so that it has every
    released pair on both sides of its diagonal.

    Attributes:
        rows: Cells of the rows, among the D.
        columns: Cells of the columns.
        inverse_std: One over the standard deviation of the noise on each count, 0 where
            no pair was released, (rows, columns).
        scaled_counts: Released counts over that standard deviation, (classes, rows,
            columns).
        row_scores: Scores of the row cells, see `_weighted_scores`, (rows, scores).
        column_scores: Scores of the column cells, (columns, scores).
        is_symmetric: Whether rows and columns are all cells.
    """

    rows: slice
    columns: slice | npt.NDArray[np.intp]
    inverse_std: Float32[Array, "rows columns"]
    scaled_counts: Float32[Array, "classes rows columns"]
    row_scores: Float32[Array, "rows scores"]
    column_scores: Float32[Array, "columns scores"]
    is_symmetric: bool

    @classmethod
    def of_all(
        cls, tables: PackedTables, scores: Float32[Array, "D scores"]
    ) -> _PairBlock:
        """Makes the symmetric block of all cells."""
        inverse_std = tables.pair_inverse_std + tables.pair_inverse_std.T
        counts = tables.pair_counts + tables.pair_counts.transpose(0, 2, 1)
        return cls(
            rows=slice(None),
            columns=slice(None),
            inverse_std=inverse_std,
            scaled_counts=counts * inverse_std,
            row_scores=scores,
            column_scores=scores,
            is_symmetric=True,
        )

    @classmethod
    def of_column(
        cls,
        tables: PackedTables,
        scores: Float32[Array, "D scores"],
        column_slice: slice,
        partner_cells: npt.NDArray[np.intp],
    ) -> _PairBlock:
        """Makes the block of one column and its partners in released pairs.

        Args:
            tables: The tables.
            scores: Scores of all cells.
            column_slice: Cells of the column.
            partner_cells: Cells of the columns after it that were released with it,
                ascending.
        """
        inverse_std = tables.pair_inverse_std[column_slice, partner_cells]
        counts = tables.pair_counts[:, column_slice, partner_cells]
        return cls(
            rows=column_slice,
            columns=partner_cells,
            inverse_std=inverse_std,
            scaled_counts=counts * inverse_std,
            row_scores=scores[column_slice],
            column_scores=scores[partner_cells],
            is_symmetric=False,
        )

    def expected(
        self, scaled_cells: Float32[Array, "classes D K"]
    ) -> Float32[Array, "classes rows columns"]:
        """Computes the block of M = A Aᵀ, the expected counts of pairs, in each class.

        Args:
            scaled_cells: The matrix A of each class: the probability of each cell in
                each component, times the root of the component's records.

        Returns:
            Expected counts, in records.
        """
        block = np.empty(self.scaled_counts.shape, dtype=np.float32)
        for class_cells, class_block in zip(scaled_cells, block, strict=True):
            if self.is_symmetric:
                # NumPy computes a product of a matrix with itself at half the cost.
                np.matmul(class_cells, class_cells.T, out=class_block)
            else:
                np.matmul(
                    class_cells[self.rows],
                    class_cells[self.columns].T,
                    out=class_block,
                )
        return block

    def residual(
        self, expected: Float32[Array, "classes rows columns"], class_index: int
    ) -> Float32[Array, "rows columns"]:
        """Computes (M - S) / σ of a class: expected less released counts, over noise.

        Where no pair was released both are 0.

        Args:
            expected: Expected counts M of the block, in each class.
            class_index: The class.

        Returns:
            A new array, which the caller may overwrite.
        """
        residual: Array = expected[class_index] * self.inverse_std
        residual -= self.scaled_counts[class_index]
        return residual

    def add_gradient(
        self,
        gradient: Float32[Array, "D K"],
        residual: Float32[Array, "rows columns"],
        cells: Float32[Array, "D K"],
    ) -> None:
        """Adds 2 G p of one class, where products of scores weigh more in G.

        With R = (M - S) / σ the residual, U the scores of the row cells and V those of
        the column cells ::

            G = (R + U Uᵀ R V Vᵀ) / σ
            gradient[rows] += 2 G p[columns]
            gradient[columns] += 2 Gᵀ p[rows]       unless the block is symmetric

        The second term of G is the part of R along the correlation of each pair of
        columns: it counts _SCORE_WEIGHT times besides. A symmetric block has each pair
        on both sides of its diagonal, so that its rows are all that is to be added.

        Args:
            gradient: Gradient at p for one record in each component, which is added to.
            residual: The residual R of the class, which is overwritten by 2 G.
            cells: Probabilities p of the cells in each component of the class.
        """
        n_cells, n_components = cells.shape
        # With fewer components than cells a mixture cannot follow all scores.
        if n_cells <= n_components:
            projected = self.row_scores.T @ residual @ self.column_scores
            residual += self.row_scores @ projected @ self.column_scores.T
        residual *= 2 * self.inverse_std
        gradient[self.rows] += residual @ cells[self.columns]
        if not self.is_symmetric:
            gradient[self.columns] += residual.T @ cells[self.rows]


@dataclass(frozen=True, kw_only=True, eq=False)
class _ScaledTriple:
    """A released table of three columns as a matrix, in units of its noise.

    Attributes:
        columns: The columns.
        scaled_counts: Released counts over the standard deviation of their noise,
            (classes, cells of the first two columns, cells of the third).
        inverse_std: One over that standard deviation.
    """

    columns: tuple[int, int, int]
    scaled_counts: Float32[Array, "classes _ _"]
    inverse_std: float

    @classmethod
    def of(cls, triple: PackedTriple) -> _ScaledTriple:
        """Makes a matrix of a table."""
        n_classes, *_, n_third_cells = triple.counts.shape
        scaled_counts = triple.counts / triple.noise_std
        return cls(
            columns=triple.columns,
            scaled_counts=scaled_counts.reshape(n_classes, -1, n_third_cells).astype(
                np.float32
            ),
            inverse_std=1 / triple.noise_std,
        )

    def residual(
        self, expected: Float32[Array, "classes _ _"], class_index: int
    ) -> Float32[Array, "_ _"]:
        """Computes expected less released counts of a class, over their noise.

        Args:
            expected: Expected counts, in each class.
            class_index: The class.

        Returns:
            A new array, which the caller may overwrite.
        """
        residual: Array = expected[class_index] * np.float32(self.inverse_std)
        residual -= self.scaled_counts[class_index]
        return residual


def _pair_blocks(tables: PackedTables) -> Iterator[_PairBlock]:
    """Yields blocks that hold all released pairs.

    They are one symmetric block, or if few pairs were released, one for each column
    that was released with later ones. Both give the same distance; only the time
    differs, and the rounding.
    """
    is_released = tables.pair_inverse_std > 0
    scores = _weighted_scores(tables)
    # Pairs are stored above the diagonal, and are half of the cells at most.
    if 2 * is_released.mean() > _MAX_BLOCKWISE_SHARE:
        yield _PairBlock.of_all(tables, scores)
        return
    for column_slice in tables.column_slices:
        partner_cells = np.flatnonzero(is_released[column_slice].any(axis=0))
        if len(partner_cells):
            yield _PairBlock.of_column(tables, scores, column_slice, partner_cells)


def _weighted_scores(tables: PackedTables) -> Float32[Array, "D scores"]:
    """Computes one score for each column that has an order or two cells.

    A score is a number for each cell of a column, of mean 0 under the shares of the
    cells. With u and v the scores of two columns, u vᵀ / |u| |v| is the direction in
    the table of the two in which their correlation changes. `_PairBlock.add_gradient`
    takes u uᵀ R v vᵀ of a residual R, which is |u|² |v|² times the part of R along that
    direction. So scores have the length _SCORE_WEIGHT^¼: then |u|² |v|² is
    _SCORE_WEIGHT.

    Returns:
        A column for each score, zero but for the cells of its own column, float32. It
        has no columns, (D, 0), if the tables do not state which cells have an order, or
        no column of theirs has a score.
    """
    n_cells = len(tables.prior_shares)
    if not tables.n_ordered:
        return np.zeros((n_cells, 0), dtype=np.float32)
    shares = estimate_shares(tables).mean(axis=0)
    scores = []
    for column_slice, n_ordered in zip(
        tables.column_slices, tables.n_ordered, strict=True
    ):
        n_column_cells = column_slice.stop - column_slice.start
        if n_ordered > 1 or n_column_cells == 2:
            column_shares = shares[column_slice] / shares[column_slice].sum()
            # The first score is that of the order, or of two cells. Those behind it,
            # of cells beside the order such as missing values, say nothing of how the
            # numbers are correlated.
            column_scores = orthonormal_scores(column_shares, n_ordered)[:, 0]
            length = np.sqrt(np.square(column_scores).sum())
            score = np.zeros(n_cells, dtype=np.float32)
            score[column_slice] = column_scores * _SCORE_WEIGHT**0.25 / length
            scores.append(score)
    if not scores:
        return np.zeros((n_cells, 0), dtype=np.float32)
    return np.stack(scores, axis=1)


def _outer_products(
    first: Float32[Array, "classes A K"], second: Float32[Array, "classes B K"]
) -> Float32[Array, "classes A*B K"]:
    """Multiplies each cell of one column with each of another, in each component.

    Returns:
        The products; those of the first cell of the first column come first.
    """
    n_classes, _, n_components = first.shape
    products = first[:, :, None] * second[:, None]
    return products.reshape(n_classes, -1, n_components)


def _sum_of_squares(residual: Array) -> float:
    return float(np.vdot(residual, residual))
