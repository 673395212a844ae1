import numpy as np
import pytest
import torch

from noisegate.models.within_cell import MOST_GROUPS, Choice, stratified_uniforms

ALMOST_ONE = np.nextafter(1.0, 0.0)


def test_cells_come_in_their_shares_within_each_group():
    masses, groups = np.array([1.0, 3.0, 2.0, 2.0, 4.0]), np.array([0, 0, 1, 1, 1])
    even = (np.arange(80_000) + 0.5) / 80_000
    choice = Choice(masses, groups)
    for group, shares in ((0, [0.25, 0.75, 0, 0, 0]), (1, [0, 0, 0.25, 0.25, 0.5])):
        found = np.bincount(
            choice.pick(np.full(len(even), group), even), minlength=5
        ) / len(even)
        np.testing.assert_allclose(found, shares, atol=1e-4)


def test_a_cell_of_mass_zero_is_never_chosen_at_either_end():
    choice = Choice(
        np.array([0.0, 1.0, 0.0, 0.0, 2.0, 0.0]), np.array([0, 0, 0, 1, 1, 1])
    )
    ends = np.array([0.0, ALMOST_ONE, 0.5])
    assert choice.pick(np.zeros(3, int), ends).tolist() == [1, 1, 1]
    assert choice.pick(np.ones(3, int), ends).tolist() == [4, 4, 4]


def test_no_draw_leaves_its_group_however_many_there_are():
    groups = np.repeat(np.arange(MOST_GROUPS), 2)
    choice = Choice(np.tile([1.0, 0.0], MOST_GROUPS), groups)
    last = np.arange(MOST_GROUPS - 1000, MOST_GROUPS)
    assert (choice.pick(last, np.full(1000, ALMOST_ONE)) == 2 * last).all()


GROUPS = np.random.default_rng(0).choice(4, 3000, p=[0.01, 0.09, 0.3, 0.6])


def spread_out(groups, seed=0, **options):
    return stratified_uniforms(groups, torch.Generator().manual_seed(seed), **options)


def offsets(uniform):
    """For each group, what is left of its n numbers in ascending order times n, less 0, ..., n - 1."""
    by_group = [np.sort(uniform[np.flatnonzero(group == GROUPS)]) for group in range(4)]
    return [numbers * len(numbers) - np.arange(len(numbers)) for numbers in by_group]


def test_every_nth_part_of_the_unit_interval_holds_one_of_the_n_numbers_of_a_group():
    for found in offsets(spread_out(GROUPS)):
        assert found.min() >= -1e-9 and found.max() <= 1 + 1e-9
        assert np.ptp(found) > 0.8  # of at least 27 independent ones


def test_systematic_numbers_of_a_group_share_one_offset_and_those_of_two_groups_do_not():
    found = offsets(spread_out(GROUPS, systematic=True))
    assert (
        max(map(np.ptp, found)) < 1e-9
        and len({round(float(offset[0]), 6) for offset in found}) == 4
    )


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
