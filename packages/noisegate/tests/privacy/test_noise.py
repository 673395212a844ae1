"""Guarantees G-04 and G-18, measured: the noise has the stated scale, two-sided, and nothing about it repeats.

The noise has no seed, so each test states how often it fails by chance: at most 1e-9.
"""

import math

import numpy as np
import pytest
from scipy import stats

from noisegate.errors import CalibrationError
from noisegate.privacy import noise
from noisegate.privacy.events import Sampler
from noisegate.privacy.noise import (
    EXACT_COORDINATES,
    NARROWEST,
    add_noise,
    choose_samplers,
    convolved_std,
)

CHANCE = 1e-9
DRAWS = 20_000
EXACT = Sampler.DISCRETE_GAUSSIAN
FAST = Sampler.CONVOLVED_GAUSSIAN
SAMPLERS = [(EXACT, 4000.0), (FAST, convolved_std(1e6))]


def draw(sampler, std, size=DRAWS):
    return add_noise(np.zeros(size, dtype=np.int64), noise_std=std, sampler=sampler)


def variance_fits(sample, std):
    """Whether Σz²/σ² lies where a χ² of so many degrees lies, except with probability CHANCE."""
    statistic = np.square(sample / std).sum()
    return (
        stats.chi2.ppf(CHANCE / 2, sample.size)
        < statistic
        < stats.chi2.isf(CHANCE / 2, sample.size)
    )


def shape_fits(sample, std):
    """Whether the empirical distribution is as close to N(0, σ²) as Dvoretzky, Kiefer and Wolfowitz allow.

    Noise on integers, or on a grid of at most σ/16, makes the distribution function a staircase. It is compared
    half-way between two levels, where staircase and Φ agree; beside the gaps of the far tails up to 0.002.
    """
    levels, counts = np.unique(sample, return_counts=True)
    below = np.cumsum(counts) / sample.size
    middle = np.append((levels[:-1] + levels[1:]) / 2, levels[-1] + 0.5)
    distance = np.abs(below - stats.norm.cdf(middle / std)).max()
    return distance < math.sqrt(math.log(2 / CHANCE) / (2 * sample.size)) + 0.002


@pytest.mark.parametrize("fits", [variance_fits, shape_fits])
@pytest.mark.parametrize(
    ("sampler", "std"),
    [(EXACT, 16.0), (EXACT, 1000.5), (EXACT, 3e6), (EXACT, 2.0**40)]
    + [(FAST, convolved_std(std)) for std in (2 * NARROWEST, 3e6, 2.0**40)],
)
def test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_rejected(
    sampler, std, fits
):
    sample = draw(sampler, std)
    assert fits(sample, std)
    assert not fits(sample, std * 2 / 3)
    assert not fits(sample, std * 3 / 2)


def correlation(left, right, std):
    """Mean product in standard errors; by Bernstein's inequality beyond 7.5 with probability below CHANCE."""
    return float((left * right).sum() / std**2 / math.sqrt(left.size))


@pytest.mark.parametrize(("sampler", "std"), SAMPLERS)
def test_coordinates_and_calls_are_independent(sampler, std):
    sample = add_noise(
        np.zeros((200, 100), dtype=np.int64), noise_std=std, sampler=sampler
    ).astype(float)
    again = add_noise(
        np.zeros((200, 100), dtype=np.int64), noise_std=std, sampler=sampler
    ).astype(float)
    flat = sample.ravel()
    pairs = [
        (flat[:-1], flat[1:]),
        (flat[:-2], flat[2:]),
        (sample[:, :-1], sample[:, 1:]),
        (sample[:-1], sample[1:]),
    ]
    pairs += [(sample, again), (sample, sample[::-1, ::-1])]
    for left, right in pairs[:-1]:
        assert abs(correlation(left, right, std)) < 7.5
    # Rows and columns have no common part either: sums along them vary as sums of independent draws do.
    assert variance_fits(sample.sum(axis=0), std * math.sqrt(200))
    assert variance_fits(sample.sum(axis=1), std * math.sqrt(100))
    assert abs(correlation(sample, sample, std)) > 7.5


@pytest.mark.parametrize(("sampler", "std"), SAMPLERS)
def test_chunks_of_a_large_release_are_drawn_independently(sampler, std, monkeypatch):
    monkeypatch.setattr(noise, "_CHUNK_SIZE", 1000)
    sample = draw(sampler, std, 2500)
    assert sample.shape == (2500,)
    assert (
        abs(
            correlation(
                sample[:1000].astype(float), sample[1000:2000].astype(float), std
            )
        )
        < 7.5
    )
    assert variance_fits(sample[2000:], std)


@pytest.mark.parametrize(("sampler", "std"), [(EXACT, 16.0), *SAMPLERS])
def test_noise_is_never_the_same_twice(sampler, std):
    seen = {draw(sampler, std, 64).tobytes() for _ in range(50)}
    assert len(seen) == 50


@pytest.mark.parametrize(("sampler", "std"), SAMPLERS)
def test_the_sums_are_not_changed_and_their_shape_is_kept(sampler, std):
    sums = np.arange(10).reshape(2, 5)
    noisy = add_noise(sums, noise_std=std, sampler=sampler)
    assert noisy.shape == (2, 5)
    assert noisy.dtype == np.int64
    assert sums.ravel().tolist() == list(range(10))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("sampler", "std"), [(EXACT, 20.0), (FAST, convolved_std(NARROWEST))]
)
def test_a_large_sum_is_added_exactly(sampler, std, sign):
    # float64 holds 2**60 + 12345 in steps of 256 only, so noise of 20 units would be lost in it.
    large = sign * (2**60 + 12345)
    noisy = add_noise(
        np.full(DRAWS, large, dtype=np.int64), noise_std=std, sampler=sampler
    )
    difference = np.array([int(value) - large for value in noisy])
    assert variance_fits(difference, std)
    assert (
        abs(difference.mean())
        < stats.norm.isf(CHANCE / 2) * std / math.sqrt(DRAWS) + 0.5
    )
    assert len(set((difference % 256).tolist())) > 50


LARGE = EXACT_COORDINATES + 1
VGG = 3_031_040


@pytest.mark.parametrize(
    ("coordinates", "epsilon", "expected"),
    [
        ([1], 1.0, "d"),
        ([EXACT_COORDINATES], 1.0, "d"),
        ([LARGE], 1.0, "c"),
        ([LARGE], 100.0, "c"),
        ([LARGE], 100.1, "d"),
        ([LARGE], 1000.0, "d"),
        # A million is counted over the plan, the smallest questions first.
        ([EXACT_COORDINATES, 1], 1.0, "cd"),
        ([600_000, 10, 600_000], 1.0, "ddc"),
        ([10, 600_000, 400_001, 500_000], 1.0, "dcdd"),
        ([LARGE, 10, LARGE], 1.0, "cdc"),
        ([VGG, VGG, 5504, 5504, 10], 10.0, "ccddd"),
    ],
)
def test_samplers_are_chosen_by_a_public_rule(coordinates, epsilon, expected):
    samplers = choose_samplers(coordinates, epsilon=epsilon)
    assert samplers == tuple({"d": EXACT, "c": FAST}[letter] for letter in expected)


def test_the_module_takes_no_seed(monkeypatch):
    # Were NumPy's global generator or Python's used, seeding them would repeat the noise.
    import random

    for sampler, std in SAMPLERS:
        seen = []
        for _ in range(2):
            random.seed(1)
            np.random.seed(1)
            seen.append(draw(sampler, std, 200).tolist())
        assert seen[0] != seen[1]


@pytest.mark.parametrize("std", [0.0, 15.9, 2.0**51, 2.0**80, float("nan")])
@pytest.mark.parametrize("sampler", list(Sampler))
def test_noise_outside_what_is_proved_is_never_drawn(std, sampler):
    with pytest.raises(CalibrationError, match="outside"):
        add_noise(np.zeros(3, dtype=np.int64), noise_std=std, sampler=sampler)


@pytest.mark.parametrize(
    ("sampler", "how"),
    [
        (Sampler.SUMMED_GAUSSIAN, "drawn in shares"),
        (Sampler.ROUNDED_GAUSSIAN, "drawn no more: calibrate a new plan"),
    ],
)
def test_noise_in_shares_or_of_an_earlier_version_is_never_drawn_in_one_piece(
    sampler, how
):
    with pytest.raises(CalibrationError, match=how):
        draw(sampler, 1e6)
