"""Guarantee G-18: the table is the discrete Gaussian's, ties are resolved, multipliers are smooth, and widths fit.

The noise has no seed; each acceptance fails by chance with probability at most 1e-9.
"""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from noisegate.errors import CalibrationError
from noisegate.privacy.events import Sampler
from noisegate.privacy.noise import (
    NARROWEST,
    WIDTH,
    add_noise,
    convolution_multipliers,
    convolved_std,
    gaussian_table,
)

from .test_noise import CHANCE, variance_fits

REACH = 20 * WIDTH
STDS = [NARROWEST, 4.1e6, 3.0 * 2**24, 2.0**49]


def draw(std, size=40_000):
    zeros = np.zeros(size, dtype=np.int64)
    return add_noise(zeros, noise_std=std, sampler=Sampler.CONVOLVED_GAUSSIAN)


def test_the_table_holds_the_probabilities_of_the_discrete_gaussian():
    boundaries = [0, *gaussian_table().boundaries, 1 << 384]
    masses = [after - before for before, after in itertools.pairwise(boundaries)]
    with localcontext() as context:
        context.prec = 150
        # By Poisson summation, Σ exp(−k²/2t²) is t√2π up to a factor 1 ± 10⁻¹⁰⁰⁰⁰⁰⁰.
        pi = Decimal(
            "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
        )
        total = WIDTH * (2 * pi).sqrt()
        for k in (-REACH, -50_000, -4096, -1, 0, 1, 2, 4095, 30_000, REACH):
            wanted = (Decimal(-k * k) / (2 * WIDTH**2)).exp() / total * 2**384
            # The last one also takes what rounding left.
            assert (
                abs(masses[k + REACH] - wanted) < wanted * Decimal("1e-60") + 2**40
            ), k
    assert sum(masses) == 1 << 384


def test_boundaries_below_a_word_are_counted_as_by_a_binary_search():
    table = gaussian_table()
    edges = np.arange(2**18, dtype=np.uint32) << np.uint32(14)
    near = [
        array + np.uint32(step)
        for array in (table.words, edges)
        for step in (0, 1, 2**32 - 1)
    ]
    random = np.frombuffer(np.random.default_rng(0).bytes(4 * 500_000), dtype=np.uint32)
    words = np.concatenate([*near, random, np.array([0, 2**32 - 1], dtype=np.uint32)])
    assert np.array_equal(
        table._count_boundaries_below(words),
        np.searchsorted(table.words, words, side="left"),
    )
    # The tails are crowded, the middle is not: both ways are taken.
    assert 0 < table._search_start.is_crowded.sum() < 2**17


def test_a_word_that_equals_a_boundary_is_continued():
    table = gaussian_table()
    boundary = REACH + 5  # the boundary between 5 and 6
    word = table.words[boundary : boundary + 1]
    assert (table.words == word).sum() == 1
    rest = table.boundaries[boundary] & ((1 << 352) - 1)
    assert table.invert(word, lambda: rest - 1).tolist() == [5]
    assert table.invert(word, lambda: rest).tolist() == [6]
    assert table.invert(word, lambda: (1 << 352) - 1).tolist() == [6]
    # Far out, many boundaries share a word; more bits tell them apart.
    far = table.invert(np.zeros(1, dtype=np.uint32), lambda: 0).tolist()
    assert far == [-REACH]


@pytest.mark.parametrize("std", [*STDS, 70_000.0, 123_456.7, 2.0**50])
def test_multipliers_reach_the_width_and_stay_smooth(std):
    multipliers = convolution_multipliers(std)
    assert multipliers[0] == 1
    assert len(multipliers) <= 6
    square = WIDTH**2
    for c in multipliers[1:]:
        # v² = 1/(1/t² + c²/S²) ≥ 4, as the proof needs.
        assert 1 / (1 / WIDTH**2 + c * c / square) >= 4
        square += (c * WIDTH) ** 2
    assert square >= math.ceil(std) ** 2 or (std < 2**26 and square >= std**2)
    assert std * (1 - 1e-12) <= convolved_std(std) <= std * 1.07
    assert convolved_std(std) ** 2 <= square


def test_noise_that_is_too_narrow_is_refused():
    with pytest.raises(CalibrationError, match=str(NARROWEST)):
        draw(NARROWEST - 1)


def shape_fits(sample, std):
    distance = stats.kstest(sample / std, "norm").statistic
    return distance < math.sqrt(math.log(2 / CHANCE) / (2 * sample.size)) + 1e-4


@pytest.mark.parametrize("fits", [variance_fits, shape_fits])
@pytest.mark.parametrize("std", STDS)
def test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_rejected(
    std, fits
):
    sample = draw(std)
    std = convolved_std(std)
    assert fits(sample, std)
    assert not fits(sample, std * 2 / 3)
    assert not fits(sample, std * 3 / 2)


@pytest.mark.parametrize("modulus", [2, 16, 1026, 1950])
def test_no_residue_is_favoured(modulus):
    counts = np.bincount(draw(4.1e6, 200_000) % modulus, minlength=modulus)
    assert stats.chisquare(counts).pvalue > CHANCE


def test_coordinates_and_calls_are_independent():
    std = 1e6
    first = draw(std).astype(float)
    again = draw(std).astype(float)
    for left, right in (
        (first[:-1], first[1:]),
        (first, again),
        (first[:-2], first[2:]),
    ):
        assert abs((left * right).sum() / std**2 / math.sqrt(left.size)) < 7.5
