import numpy as np
import pytest
import torch

from noisegate.models.stratified import (
    MAX_GROUPS,
    CellSampler,
    stratified_uniforms,
    systematic_codes,
)
from noisegate.seeds import public_random

ALMOST_ONE = np.nextafter(1.0, 0.0)


def test_cells_come_in_their_shares_within_each_group():
    masses = np.array([1.0, 3.0, 2.0, 2.0, 4.0])
    groups = np.array([0, 0, 1, 1, 1])
    even = (np.arange(80_000) + 0.5) / 80_000
    sampler = CellSampler(masses, groups)
    for group, shares in ((0, [0.25, 0.75, 0, 0, 0]), (1, [0, 0, 0.25, 0.25, 0.5])):
        found = np.bincount(
            sampler.pick(np.full(len(even), group), even), minlength=5
        ) / len(even)
        np.testing.assert_allclose(found, shares, atol=1e-4)


def test_a_cell_of_mass_zero_is_never_chosen_at_either_end():
    sampler = CellSampler(
        np.array([0.0, 1.0, 0.0, 0.0, 2.0, 0.0]), np.array([0, 0, 0, 1, 1, 1])
    )
    ends = np.array([0.0, ALMOST_ONE, 0.5])
    assert sampler.pick(np.zeros(3, int), ends).tolist() == [1, 1, 1]
    assert sampler.pick(np.ones(3, int), ends).tolist() == [4, 4, 4]


def test_no_draw_leaves_its_group_however_many_there_are():
    groups = np.repeat(np.arange(MAX_GROUPS), 2)
    sampler = CellSampler(np.tile([1.0, 0.0], MAX_GROUPS), groups)
    last = np.arange(MAX_GROUPS - 1000, MAX_GROUPS)
    assert (sampler.pick(last, np.full(1000, ALMOST_ONE)) == 2 * last).all()


GROUPS = np.random.default_rng(0).choice(4, 3000, p=[0.01, 0.09, 0.3, 0.6])


def spread_out(groups, seed=0, **options):
    return stratified_uniforms(groups, torch.Generator().manual_seed(seed), **options)


def offsets(uniform):
    """For each group, what is left of its n numbers in ascending order times n, less 0, ..., n - 1."""
    by_group = [np.sort(uniform[np.flatnonzero(group == GROUPS)]) for group in range(4)]
    return [numbers * len(numbers) - np.arange(len(numbers)) for numbers in by_group]


def test_every_nth_part_of_the_unit_interval_holds_one_of_the_n_numbers_of_a_group():
    for drawn in offsets(spread_out(GROUPS)):
        assert drawn.min() >= -1e-9
        assert drawn.max() <= 1 + 1e-9
        assert np.ptp(drawn) > 0.8  # of at least 27 independent ones


def test_systematic_numbers_of_a_group_share_one_offset_and_those_of_two_groups_do_not():
    drawn = offsets(spread_out(GROUPS, systematic=True))
    assert max(map(np.ptp, drawn)) < 1e-9
    assert len({round(float(offset[0]), 6) for offset in drawn}) == 4


@pytest.mark.parametrize("systematic", [False, True])
def test_each_number_alone_is_uniform_and_those_of_two_calls_are_independent(
    systematic,
):
    """False alarms: 9 chi-squares at 1e-6."""
    groups = np.array(
        [0, 2, 2, 5, 5, 5, 5, 5]
    )  # one, two and five rows, some groups empty
    random = torch.Generator().manual_seed(0)
    numbers = np.array(
        [
            stratified_uniforms(groups, random, systematic=systematic)
            for _ in range(4000)
        ]
    )
    tenths = (numbers * 10).astype(int)
    for row in tenths.T:
        assert (
            (np.bincount(row, minlength=10) - 400) ** 2 / 400
        ).sum() < 46  # 9 degrees of freedom
    both = np.bincount(tenths[:-1].ravel() * 10 + tenths[1:].ravel(), minlength=100)
    expected = both.sum() / 100
    assert ((both - expected) ** 2 / expected).sum() < 180  # 99 degrees of freedom


def test_every_row_has_its_own_probabilities_and_classes_come_in_their_numbers():
    numbers = np.random.default_rng(0)
    probabilities = numbers.dirichlet([0.5, 1, 2], size=50)
    order = numbers.permutation(50)
    counts = np.zeros_like(probabilities)
    for seed in range(4000):
        codes = systematic_codes(probabilities, order, public_random(seed))
        counts[np.arange(50), codes] += 1 / 4000
        # In any stretch of the order the first class comes as often as expected, up to one.
        assert (
            np.abs(
                np.cumsum((codes == 0)[order]) - np.cumsum(probabilities[order, 0])
            ).max()
            <= 1 + 1e-9
        )
    np.testing.assert_allclose(counts, probabilities, atol=5 * 0.5 / np.sqrt(4000))
