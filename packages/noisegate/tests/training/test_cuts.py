"""Cells of roughly equal mass: not too many, none below the noise, and one for each value that stands out."""

import numpy as np
import pytest

from noisegate.features.binning import Histogram, NumericBins, denoise, merged_bins, most_cells

CELLS = 256
FINE = NumericBins(tuple(place / CELLS for place in range(1, CELLS)), nullable=True)


def histogram(masses, std=1.0, spikes=()):
    flags = np.zeros(len(masses), dtype=np.bool_)
    flags[list(spikes)] = True
    return Histogram(masses=np.asarray(masses, dtype=float), spikes=flags, noise_std=std)


def held(bins, masses):
    """The mass of each cell, by the comparison that puts values into cells."""
    middles = (np.arange(CELLS) + 0.5) / CELLS
    return np.bincount(bins.codes(middles), masses, len(bins.cuts) + 1)


def random_masses(seed):
    """Masses of many characters: sparse, heavy-tailed, flat, with spikes, and nothing but noise."""
    random = np.random.default_rng(seed)
    masses = random.gamma(random.choice([0.01, 0.3, 5.0]), random.choice([1.0, 50.0, 1e5]), CELLS)
    masses[random.integers(0, CELLS, random.integers(0, 6))] += random.choice([0, 1e3, 1e6])
    return masses * (random.uniform(size=CELLS) < random.choice([0.02, 0.5, 1.0]))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("cells", [1, 2, 3, 8, 36])
def test_never_too_many_cells_and_none_below_three_noise_standard_deviations(seed, cells):
    random = np.random.default_rng(1000 + seed)
    std = random.choice([1e-9, 1.0, 100.0, 1e4])
    masses = random_masses(seed)
    bins = merged_bins(FINE, histogram(masses, std, np.flatnonzero(masses > 5 * std)), cells=cells)
    assert 1 <= len(bins.cuts) + 1 <= most_cells(cells) and set(bins.cuts) <= set(FINE.cuts) and bins.nullable
    if bins.cuts:
        assert held(bins, masses).min() >= 3 * std


def test_a_value_that_holds_more_than_an_equal_share_has_its_own_cell():
    masses = np.full(CELLS, 10.0)
    masses[[0, 77, CELLS - 1]] = (3000, 1000, 500)
    bins = merged_bins(FINE, histogram(masses, spikes=(0, 77, CELLS - 1)), cells=16)
    found = held(bins, masses)
    assert found[0] == 3000 and found[-1] == 500 and 1000 in found


def test_nothing_but_noise_makes_few_cells():
    counts = []
    for seed in range(20):
        raw = np.random.default_rng(seed).normal(scale=50.0, size=CELLS)
        counts.append(len(merged_bins(FINE, denoise(raw, 50.0), cells=24).cuts) + 1)
    # The noise of all 256 cells adds up to 16 standard deviations of one, and a cell needs 3.
    assert np.mean(counts) < 4 and max(counts) < 12
