"""Shares of cells from noisy counts: exact where the noise is small, what was known where it drowns them."""

import math

import numpy as np
import pytest

from noisegate.answers.noisy_table import _STRENGTHS, _gamma_posterior, posterior_shares

UNIFORM = np.full(6, 1 / 6)


def error(shares, truth):
    return np.abs(shares - truth).sum() / 2


def noisy(truth, total, std, seed):
    return total * truth + np.random.default_rng(seed).normal(
        scale=std, size=len(truth)
    )


@pytest.mark.parametrize(
    "truth",
    [np.array([1.0, 0, 0, 0, 0, 0]), np.array([5, 3, 1, 1, 0, 0]) / 10, UNIFORM],
)
def test_small_noise_leaves_the_counts_as_they_are(truth):
    assert (
        error(posterior_shares(noisy(truth, 1e6, 10.0, 0), 10.0, UNIFORM, 1e6), truth)
        < 1e-4
    )


@pytest.mark.parametrize("prior", [UNIFORM, np.array([10, 5, 1, 1, 1, 2]) / 20])
def test_noise_beyond_all_counts_leaves_what_was_known(prior):
    for seed in range(5):
        shares = posterior_shares(noisy(UNIFORM, 100, 1e5, seed), 1e5, prior, 100.0)
        assert error(shares, prior) < 2e-3  # as exact as the quadrature is


@pytest.mark.parametrize("cells", [1, 2, 3, 24, 500])
def test_shares_are_positive_and_sum_to_one(cells):
    uniform = np.full(cells, 1 / cells)
    for std in (1e-3, 1.0, 1e3, 1e7):
        for total in (1.0, 1e3, 1e7):
            shares = posterior_shares(
                noisy(uniform, total, std, 1), std, uniform, total
            )
            assert shares.min() > 0
            assert shares.sum() == pytest.approx(1)


def test_no_truth_is_met_worse_than_by_the_prior_in_the_mean():
    """From even shares to a single level, from clear counts to nothing but noise."""
    cells = 12
    uniform = np.full(cells, 1 / cells)
    truths = {
        "even": uniform,
        "one level": np.eye(cells)[3],
        "falling": 0.5 ** np.arange(cells) / (0.5 ** np.arange(cells)).sum(),
        "mild": (1 + 0.3 * np.cos(np.arange(cells))) / cells,
    }
    for name, truth in truths.items():
        for std in (3.0, 30.0, 100.0, 300.0, 1000.0, 10_000.0):
            errors = [
                error(
                    posterior_shares(
                        noisy(truth, 1000, std, seed), std, uniform, 1000.0
                    ),
                    truth,
                )
                for seed in range(40)
            ]
            # Where the prior is the truth, chance now and then tells a little against it.
            assert np.mean(errors) <= error(uniform, truth) + 0.06, (name, std)


def test_two_cells_against_a_fine_integration():
    """One strength by hand: the mean of a gamma variable seen through noise, by the midpoint rule on a dense grid."""
    seen = np.array([130.0, -20.0])
    std = 40.0
    expected = np.array([60.0, 60.0])
    means, evidence = _gamma_posterior(seen, std, expected)
    for row, strength in enumerate(_STRENGTHS):
        if not 0.4 < strength < 100:
            continue
        total = 0.0
        for cell in range(2):
            x = (np.arange(2_000_000) + 0.5) * (1000 / 2_000_000)
            log_prior = (strength - 1) * np.log(x) - strength / 60 * x
            log_prior += strength * math.log(strength / 60) - math.lgamma(strength)
            density = np.exp(log_prior - 0.5 * ((x - seen[cell]) / std) ** 2)
            assert means[row, cell] == pytest.approx(
                (x * density).sum() / density.sum(), rel=0.02
            )
            total += math.log(density.sum() * 1000 / 2_000_000)
        assert evidence[row] == pytest.approx(total, abs=0.05)
