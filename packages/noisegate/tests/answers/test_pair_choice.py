"""Choosing pairs: those that depend are found, those that do not are mostly left, and every column is tied."""

from itertools import combinations

import numpy as np
import pytest
from tests.shared.noisy_tables import numbered_table

from noisegate.answers.pair_choice import choose_pairs, table_dependence

STD = 10.0


def pair(columns, joint, records=5000, std=STD, seed=0):
    counts = records * np.asarray(joint) / np.sum(joint)
    noise = np.random.default_rng([seed, *columns]).normal(scale=std, size=counts.shape)
    return numbered_table(columns=columns, counts=counts + noise, noise_std=std)


def product(rows=3, columns=4):
    return np.outer(np.arange(1, rows + 1), np.arange(1, columns + 1))


def tied(strength):
    """Shares of two columns of three cells; with strength 1 they are the same."""
    return strength * np.eye(3) / 3 + (1 - strength) * np.ones((3, 3)) / 9


def test_the_score_of_an_independent_pair_is_like_a_standard_normal_one():
    scores = [
        table_dependence(pair((0, 1), product(6, 7), records=100_000, seed=seed))
        for seed in range(300)
    ]
    # Six standard errors of the mean; the spread is that of a chi-square with 30 degrees of freedom.
    assert abs(np.mean(scores)) < 6 / 300**0.5
    assert np.std(scores) == pytest.approx(1, abs=0.25)


def screened(columns, planted, strength=0.5, seed=0):
    joints = {
        pair: tied(strength) if pair in planted else tied(0)
        for pair in combinations(range(columns), 2)
    }
    return {one: pair(one, joint, seed=seed) for one, joint in joints.items()}


def test_planted_pairs_are_found_and_others_mostly_not():
    planted = {(0, 5), (1, 2), (3, 11), (8, 9), (2, 9)}
    for seed in range(5):
        chosen = choose_pairs(screened(12, planted, seed=seed), max_pairs=1000)
        assert planted <= set(chosen)
        # Eleven of a forest, five of which may be planted, and of 61 others those that stand out by chance.
        assert len(chosen) < 66 / 2
        assert list(chosen) == sorted(chosen)


def test_every_column_is_tied_to_all_others_even_in_noise_alone():
    chosen = choose_pairs(screened(12, set()), max_pairs=1000)
    joined = {0}
    for _ in range(12):
        joined |= {column for pair in chosen if joined & set(pair) for column in pair}
    assert joined == set(range(12))


@pytest.mark.parametrize("most", [1, 3, 11, 20, 66])
def test_there_are_at_most_as_many_as_asked_for_and_the_strongest_are_among_them(most):
    planted = {(0, 5), (1, 2), (3, 11)}
    tables = screened(12, planted)
    chosen = choose_pairs(tables, max_pairs=most)
    assert min(most, 11) <= len(chosen) <= most
    assert len(set(chosen)) == len(chosen)
    if most >= 3:
        assert planted <= set(chosen)
    else:
        assert set(chosen) <= planted
