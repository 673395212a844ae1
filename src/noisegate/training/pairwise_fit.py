"""A mixture fitted to the tables of a release: components of all classes side by side, and values inside cells."""

from __future__ import annotations

import numpy as np
import torch

from noisegate.features.binning import NumericBins
from noisegate.models.mixture import Mixture, WithinCell
from noisegate.privacy.release import Release
from noisegate.schema import Continuous, NumericColumn
from noisegate.training.fit import MixtureSettings
from noisegate.training.histogram import Histogram
from noisegate.training.mixture_fit import MixtureFit
from noisegate.training.pairwise import Design


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design; see `MixtureFit`."""

    def __init__(
        self, design: Design, release: Release, settings: MixtureSettings, *, seed: int, device: torch.device
    ) -> None:
        self._design, self._release = design, release
        self._bins, tables = design.read(release)
        sizes = [*(bins.size for bins in self._bins), *(column.size for column in design.layout.coded)]
        super().__init__(tables, sizes, design.label, settings, seed=seed, device=device)

    def mixture(self) -> Mixture:
        """Returns the model that the fit has reached."""
        design = self._design
        shares, parts = self.components()
        classes, each = shares.shape
        weights = (self.shares[:, None] * shares).ravel()
        fitted = dict(zip(design.columns, parts, strict=True))
        sure = np.repeat(np.eye(classes, dtype=np.float32), each, axis=0)
        columns = len(design.layout.numeric) + len(design.layout.coded)
        probabilities = [
            sure if column == design.label else fitted[column].reshape(classes * each, -1) for column in range(columns)
        ]
        histograms = design.read_histograms(self._release.values, self._release.noise_std)
        cells = zip(design.layout.numeric, design.fine, self._bins, strict=True)
        within = tuple(
            _within(column, fine, bins, histograms.get(place)) for place, (column, fine, bins) in enumerate(cells)
        )
        return Mixture(
            layout=design.layout, within=within, weights=weights / weights.sum(), probabilities=tuple(probabilities)
        )


def _within(column: NumericColumn, fine: NumericBins, bins: NumericBins, histogram: Histogram | None) -> WithinCell:
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    masses = np.ones(len(edges) - 1) if histogram is None else histogram.masses
    # The outermost fine cells of a continuous column are its two bounds.
    single = np.zeros(len(masses), dtype=np.bool_)
    if isinstance(column, Continuous):
        single[[0, -1]] = True
    return WithinCell.from_edges(column, bins, edges=edges, masses=masses, spikes=single)
