"""Cells of roughly equal mass: not too many, none below the noise, and one for each value that stands out."""

import numpy as np
import pytest

from noisegate.queries.binning import (
    CoarseHistogram,
    Histogram,
    NumericBins,
    denoise,
    max_merged_bins,
    merged_bins,
    with_exponential_tails,
)

CELLS = 256
FINE = NumericBins(tuple(index / CELLS for index in range(1, CELLS)), nullable=True)


def histogram(masses, std=1.0, spikes=()):
    flags = np.zeros(len(masses), dtype=np.bool_)
    flags[list(spikes)] = True
    return Histogram(
        masses=np.asarray(masses, dtype=float), is_spike=flags, noise_std=std
    )


def held(bins, masses):
    """The mass of each cell, by the comparison that puts values into cells."""
    middles = (np.arange(CELLS) + 0.5) / CELLS
    return np.bincount(bins.codes(middles), masses, len(bins.cuts) + 1)


def random_masses(seed):
    """Masses of many characters: sparse, heavy-tailed, flat, with spikes, and nothing but noise."""
    random = np.random.default_rng(seed)
    masses = random.gamma(
        random.choice([0.01, 0.3, 5.0]), random.choice([1.0, 50.0, 1e5]), CELLS
    )
    masses[random.integers(0, CELLS, random.integers(0, 6))] += random.choice(
        [0, 1e3, 1e6]
    )
    return masses * (random.uniform(size=CELLS) < random.choice([0.02, 0.5, 1.0]))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("cells", [1, 2, 3, 8, 36])
def test_never_too_many_cells_and_none_below_three_noise_standard_deviations(
    seed, cells
):
    random = np.random.default_rng(1000 + seed)
    std = random.choice([1e-9, 1.0, 100.0, 1e4])
    masses = random_masses(seed)
    bins = merged_bins(
        FINE,
        histogram(masses, std, np.flatnonzero(masses > 5 * std)),
        target_count=cells,
    )
    assert 1 <= len(bins.cuts) + 1 <= max_merged_bins(cells)
    assert set(bins.cuts) <= set(FINE.cuts)
    assert bins.nullable
    if bins.cuts:
        assert held(bins, masses).min() >= 3 * std


def test_a_value_that_holds_more_than_an_equal_share_has_its_own_cell():
    masses = np.full(CELLS, 10.0)
    masses[[0, 77, CELLS - 1]] = (3000, 1000, 500)
    bins = merged_bins(
        FINE, histogram(masses, spikes=(0, 77, CELLS - 1)), target_count=16
    )
    cell_masses = held(bins, masses)
    assert cell_masses[0] == 3000
    assert cell_masses[-1] == 500
    assert 1000 in cell_masses


def test_nothing_but_noise_makes_few_cells():
    counts = []
    for seed in range(20):
        raw = np.random.default_rng(seed).normal(scale=50.0, size=CELLS)
        counts.append(
            len(merged_bins(FINE, denoise(raw, 50.0), target_count=24).cuts) + 1
        )
    # The noise of all 256 cells adds up to 16 standard deviations of one, and a cell needs 3.
    assert np.mean(counts) < 4
    assert max(counts) < 12


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_thin_end_falls_off_and_neither_reaches_the_bound_nor_takes_the_mass_of_others(
    mirrored,
):
    random = np.random.default_rng(4)
    edges = np.linspace(0, 1, 513)
    true = 8_000 * -np.diff(np.exp(-edges * 40))
    worst = {"before": [], "after": []}
    for _ in range(20):
        there = true[::-1] if mirrored else true
        few = CoarseHistogram(
            counts=there.reshape(-1, 32).sum(axis=1) + random.normal(scale=20, size=16),
            group_size=32,
            noise_std=20,
        )
        denoised = denoise(
            there + random.normal(scale=20.0, size=512), 20.0, few, record_count=8_000.0
        )
        after = with_exponential_tails(denoised, edges)
        assert after.sum() == pytest.approx(denoised.masses.sum())
        assert (after >= 0).all()
        for kind, masses in (("before", denoised.masses), ("after", after)):
            shares = (masses[::-1] if mirrored else masses).cumsum() / masses.sum()
            worst[kind].append(edges[np.searchsorted(shares, 0.999) + 1])
    right = np.log(1_000) / 40
    assert np.median(worst["before"]) > 1.7 * right
    assert 0.6 * right < np.median(worst["after"]) < 1.4 * right


def test_a_single_value_and_a_clear_group_at_the_end_stay_and_so_does_a_bound_of_no_length():
    edges = np.linspace(0, 1, 101)
    masses = np.zeros(100)
    spikes = np.arange(100) == 99
    masses[:30] = 200.0
    masses[95] = 400.0
    masses[99] = 30.0
    after = with_exponential_tails(
        Histogram(masses=masses, is_spike=spikes, noise_std=20.0), edges
    )
    assert after[99] == 30
    assert after[95] == pytest.approx(400)
    assert after[:30] == pytest.approx(200)
    edges[1] = 5e-324
    masses[:2] = (40, 100)
    assert np.isfinite(
        with_exponential_tails(
            Histogram(masses=masses, is_spike=spikes, noise_std=20.0), edges
        )
    ).all()
