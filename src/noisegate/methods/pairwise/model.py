"""From a finished fit to a model of records: components of all classes side by side, and values inside cells."""

from __future__ import annotations

import numpy as np

from noisegate.features.binning import NumericBins
from noisegate.fitting.histogram import Histogram
from noisegate.fitting.mixture import MixtureFit
from noisegate.generators.mixture import Mixture
from noisegate.generators.within_cell import WithinCell
from noisegate.methods.pairwise.design import Design
from noisegate.privacy.release import Release
from noisegate.schema import Continuous, NumericColumn


def mixture_of(design: Design, release: Release, fitting: MixtureFit) -> Mixture:
    """Returns the model that a fit has reached."""
    shares, parts = fitting.components()
    classes, each = shares.shape
    weights = (fitting.shares[:, None] * shares).ravel()
    fitted = dict(zip(design.columns, parts, strict=True))
    sure = np.repeat(np.eye(classes, dtype=np.float32), each, axis=0)
    columns = len(design.layout.numeric) + len(design.layout.coded)
    probabilities = [
        sure if column == design.label else fitted[column].reshape(classes * each, -1) for column in range(columns)
    ]
    histograms = design.read_histograms(release.values, release.noise_std)
    cells = zip(design.layout.numeric, design.fine, design.bins(release.values, release.noise_std), strict=True)
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
