"""Cosine series: a density estimate of each numeric column in each class, from sums of cos(πkx) with noise.

The coefficients of a density on [0, 1] in the cosine basis are means of cos(πkx) over the records (Efromovich,
Nonparametric Curve Estimation, Springer 1999, section 2.4). Here the sums are released once, with noise, and the series
is integrated over the cells of a column. Coded columns are released as one-hot codes. Columns are independent within a
class: what they have in common beyond the label is lost.

The method needs no torch: its model follows from the noisy sums in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate import Release, Schema
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod, class_counts
from noisegate.methods.registry import register
from noisegate.models.mixture import Mixture
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins, fine_bins
from noisegate.queries.feature_map import Levels
from noisegate.records import Rows
from noisegate.schema import Layout
from noisegate.settings import Count, Share, settings

Floats = npt.NDArray[np.float64]

_MAX_CELLS = 200  # of a numeric column in the model; finer ones would show nothing that a short series knows


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Maps a record to cos(πkx)/√dim for each numeric column x in [0, 1] and each order k from 0 to `orders`.

    The coordinate of order 0 counts the records whose value is present. A missing value has zeros everywhere. No
    coordinate exceeds 1/√dim, so no vector is longer than 1.

    Attributes:
        columns: Number of numeric columns.
        orders: Highest order k.
    """

    columns: int
    orders: int
    norm: float = 1.0
    nonnegative: bool = False

    @property
    def dim(self) -> int:
        """Number of coordinates: columns times orders, the order 0 among them."""
        return self.columns * (self.orders + 1)

    @property
    def frequencies(self) -> Floats:
        """πk for each order, (orders + 1,)."""
        return np.pi * np.arange(self.orders + 1)

    def __call__(self, records: Rows) -> npt.NDArray[np.float32]:
        """Computes the vector of each record from that record alone.

        Args:
            records: Their numeric columns scaled to [0, 1], NaN where a value is missing.

        Returns:
            The vectors, float32 of shape (rows, dim), column by column.
        """
        cosines = np.cos(records.numeric[:, :, None] * self.frequencies)
        scaled = np.nan_to_num(cosines * self.dim**-0.5, nan=0.0)
        return scaled.reshape(len(records), self.dim).astype(np.float32)

    def cell_counts(self, sums: Floats, cuts: tuple[float, ...]) -> Floats:
        """Estimates how many records lie in each cell of a column: the integral of its cosine series.

        Args:
            sums: The noisy sums of one column in one class, (orders + 1,).
            cuts: Inner ends of the cells, ascending in (0, 1).

        Returns:
            The estimates, (len(cuts) + 1,); where noise makes one negative, it is 0.
        """
        coefficients = sums * self.dim**0.5
        edges = np.array([0.0, *cuts, 1.0])
        counts = coefficients[0] * np.diff(edges)
        for frequency, coefficient in zip(
            self.frequencies[1:], coefficients[1:], strict=True
        ):
            counts += 2 * coefficient * np.diff(np.sin(frequency * edges)) / frequency
        return np.maximum(counts, 0.0)


@register("cosines")
@settings
class CosineSeries(ClosedForm, MeanEmbeddingMethod):
    """Settings of the cosine series; none of them depends on private data."""

    needs_torch: ClassVar[bool] = False

    orders: Count = 20
    """Highest order; more show sharper peaks and get more noise."""
    cosines_share: Share = 1.0
    """Budget share of the cosines."""
    levels_share: Share = 0.5
    """Budget share of the one-hot codes."""

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Chooses the queries; the plan, its calibration, the release and the certificate follow from them."""
        layout = schema.layout
        queries = {}
        if layout.numeric:
            queries["cosines"] = Embedding(self._cosines(layout), self.cosines_share)
        if layout.others:
            queries["levels"] = Embedding(_levels(layout), self.levels_share)
        return queries

    def model(self, release: Release) -> Mixture:
        """Estimates the distribution of every column in every class.

        Args:
            release: The noisy sums of each query, (dim, classes), as `embeddings` asked for them.

        Returns:
            A mixture with one component for each class, or one in all without a label.
        """
        layout = release.schema.layout
        record_counts = np.maximum(class_counts(release), 1.0)
        numeric_bins = [
            fine_bins(column, max_bins=_MAX_CELLS) for column in layout.numeric
        ]
        numeric_tables = [
            self._numeric_table(release, column_index, bins, record_counts)
            for column_index, bins in enumerate(numeric_bins)
        ]
        return Mixture(
            layout=layout,
            within=tuple(map(_evenly_filled, layout.numeric, numeric_bins)),
            weights=record_counts / record_counts.sum(),
            probabilities=(
                *numeric_tables,
                *self._coded_tables(release, len(record_counts)),
            ),
        )

    def _cosines(self, layout: Layout) -> Cosines:
        return Cosines(columns=len(layout.numeric), orders=self.orders)

    def _numeric_table(
        self,
        release: Release,
        column_index: int,
        bins: NumericBins,
        record_counts: Floats,
    ) -> Floats:
        """Estimates the probability of each cell of a numeric column, (classes, cells), a missing value's last."""
        cosines = self._cosines(release.schema.layout)
        first = column_index * (self.orders + 1)
        sums = release.values["cosines"][first : first + self.orders + 1]
        counts = np.array(
            [cosines.cell_counts(class_sums, bins.cuts) for class_sums in sums.T]
        )
        if bins.nullable:
            missing_counts = np.maximum(record_counts - counts.sum(axis=1), 0.0)
            counts = np.column_stack([counts, missing_counts])
        return _probabilities(counts)

    def _coded_tables(self, release: Release, class_count: int) -> list[Floats]:
        """Estimates the probability of each code of each coded column, (classes, codes); of the label it is known."""
        layout = release.schema.layout
        tables: dict[int, Floats] = {}
        if layout.label is not None:
            tables[layout.label] = np.eye(class_count)
        if layout.others:
            levels = _levels(layout)
            boundaries = np.cumsum(levels.sizes)[:-1]
            tables |= {
                column: _probabilities(np.maximum(sums.T, 0.0))
                for column, sums in zip(
                    levels.columns,
                    np.split(release.values["levels"], boundaries),
                    strict=True,
                )
            }
        return [tables[column] for column in range(len(layout.coded))]


def _levels(layout: Layout) -> Levels:
    """Makes the map to one-hot codes of every coded column but the label."""
    return Levels(
        columns=layout.others,
        sizes=tuple(layout.coded[column].size for column in layout.others),
    )


def _evenly_filled(column: Any, bins: NumericBins) -> WithinCell:
    """Spreads values evenly within each cell of a numeric column."""
    edges = np.array([0.0, *bins.cuts, 1.0])
    return WithinCell.from_edges(
        column, bins, edges=edges, masses=np.zeros(len(edges) - 1)
    )


def _probabilities(counts: Floats) -> Floats:
    """Divides each row by its sum; a row without any records is taken as uniform."""
    totals = counts.sum(axis=1, keepdims=True)
    uniform = np.full_like(counts, 1 / counts.shape[1])
    return np.divide(counts, totals, out=uniform, where=totals > 0)
