"""Denoised histograms: nearer to the truth than what was released, and nothing made up where there is nothing."""

import numpy as np
import pytest

from noisegate.queries.binning import CoarseHistogram, denoise

STD = 10.0


def shapes(cells=512):
    """Known counts of one heavy-tailed, one smooth and one spiky column, 20,000 records each."""
    at = (np.arange(cells) + 0.5) / cells
    heavy = np.exp(-at * 30)
    bell = np.exp(-0.5 * ((at - 0.4) / 0.1) ** 2)
    spiky = np.full(cells, 0.2)
    spiky[[0, 100, cells - 1]] = (150, 60, 90)
    return {
        name: 20_000 * shape / shape.sum()
        for name, shape in (("heavy", heavy), ("bell", bell), ("spiky", spiky))
    }


def noisy(truth, std, seed=0):
    return truth + np.random.default_rng(seed).normal(scale=std, size=truth.shape)


def coarse_of(truth, std, group=16, seed=7):
    return CoarseHistogram(
        counts=noisy(
            np.add.reduceat(truth, np.arange(0, len(truth), group)), std, seed
        ),
        group_size=group,
        noise_std=std,
    )


def distance(estimate, truth):
    return np.abs(estimate / max(estimate.sum(), 1) - truth / truth.sum()).sum() / 2


@pytest.mark.parametrize("name", ["heavy", "bell", "spiky"])
@pytest.mark.parametrize("std", [3.0, 30.0])
def test_it_is_nearer_to_the_truth_than_the_noisy_counts_and_than_a_flat_guess(
    name, std
):
    truth = shapes()[name]
    flat = np.full(len(truth), truth.mean())
    for seed in range(3):
        raw = noisy(truth, std, seed)
        distance_left = distance(denoise(raw, std).masses, truth)
        assert distance_left < 0.7 * distance(np.maximum(raw, 0), truth)
        assert distance_left < 0.9 * distance(flat, truth)


def test_spikes_are_kept_and_nothing_else_is_taken_for_one():
    truth = np.full(512, 40.0)
    truth[[0, 200, 511]] += (2000, 300, 5000)
    for seed in range(5):
        denoised = denoise(noisy(truth, STD, seed), STD)
        assert np.flatnonzero(denoised.is_spike).tolist() == [0, 200, 511]
        assert denoised.masses[[0, 200, 511]] == pytest.approx(
            truth[[0, 200, 511]], abs=5 * STD
        )
        # The neighbours of a spike get nothing of it.
        assert denoised.masses[[1, 199, 201, 510]].max() < 40 + 5 * STD
        assert denoised.noise_std == STD


@pytest.mark.parametrize("cells", [1, 2, 5, 64, 65, 1024, 1026])
@pytest.mark.parametrize("std", [1e-9, 1.0, 1e6])
def test_masses_are_finite_and_never_negative(cells, std):
    random = np.random.default_rng(cells)
    for raw in (
        np.zeros(cells),
        np.full(cells, 7.0),
        np.full(cells, -7.0),
        random.normal(scale=std, size=cells),
    ):
        denoised = denoise(raw, std)
        assert denoised.masses.shape == denoised.is_spike.shape == (cells,)
        assert np.isfinite(denoised.masses).all()
        assert (denoised.masses >= 0).all()


def test_a_coarse_histogram_lowers_the_error_where_noise_is_high():
    truth = shapes()["heavy"]
    std = 100.0
    alone = []
    both = []
    for seed in range(10):
        raw = noisy(truth, std, seed)
        alone.append(distance(denoise(raw, std).masses, truth))
        both.append(
            distance(
                denoise(raw, std, coarse_of(truth, std, seed=100 + seed)).masses, truth
            )
        )
    assert np.mean(both) < 0.8 * np.mean(alone)
