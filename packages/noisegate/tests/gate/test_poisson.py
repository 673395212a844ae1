"""Guarantee G-19: every record enters a sample by itself, with the rate exactly, and anew each time.

The sample has no seed; each acceptance fails by chance with probability at most 1e-9.
"""

import pickle

import numpy as np
import pytest
from scipy import stats

from noisegate.gate import samples
from noisegate.gate.samples import PoissonSamples, poisson_sample
from noisegate.privacy.gradient_plan import RATES

CHANCE = 1e-9


def fits(count, draws, rate):
    low = stats.binom.ppf(CHANCE / 2, draws, rate)
    high = stats.binom.isf(CHANCE / 2, draws, rate)
    return bool(low <= count <= high)


def members(records, rate, times, parts=1):
    """Who is in which of the samples of a session: the steps of one of them, by records in so many parts."""
    drawn = PoissonSamples(rate=rate)
    is_member = np.zeros((times, parts, records // parts), dtype=bool)
    for step, row in enumerate(is_member):
        for number, part in enumerate(row):
            part[drawn.indices(len(part), step, number)] = True
    return is_member.reshape(times, -1)


@pytest.mark.parametrize("rate", [1 / 64, 0.25, 0.75])
def test_the_rate_is_that_which_is_accounted(rate):
    is_member = members(5000, rate, 40)
    assert fits(is_member.sum(), is_member.size, rate)
    assert not fits(is_member.sum(), is_member.size, rate * 2 / 3)
    assert not fits(is_member.sum(), is_member.size, rate * 5 / 4)


def test_sizes_of_samples_vary_as_binomial_ones_do():
    # Fixed sizes, as of shuffled batches, have no variance at all.
    sizes = members(400, 0.25, 3000).sum(axis=1)
    statistic = np.square(sizes - 100).sum() / (400 * 0.25 * 0.75)
    assert stats.chi2.ppf(1e-6, 3000) < statistic < stats.chi2.isf(1e-6, 3000)


@pytest.mark.parametrize("parts", [1, 40])
def test_records_and_samples_are_independent(parts):
    signs = members(2000, 0.5, 200, parts).astype(float) * 2 - 1
    record = 2000 // parts % 2000
    pairs = [(signs[:, :-by], signs[:, by:]) for by in {1, 7, record} - {0}]
    for left, right in (*pairs, (signs[:-1], signs[1:])):
        assert abs((left * right).sum() / np.sqrt(left.size)) < 7.5


def test_every_record_has_the_same_rate_whatever_its_place(monkeypatch):
    monkeypatch.setattr(samples, "_WORDS_PER_BLOCK", 100)
    per_record = members(250, 0.5, 2000).sum(axis=0)
    assert (
        stats.chi2.ppf(CHANCE, 250)
        < (np.square(per_record - 1000) / 500).sum()
        < stats.chi2.isf(CHANCE, 250)
    )


def test_words_are_compared_exactly():
    words = np.array([0, 1, 2, 3, RATES - 1], dtype=np.uint32)
    for rate, expected in ((1, 1), (3, 3), (RATES - 1, 4), (RATES, 5)):
        assert poisson_sample(
            5, rate / RATES, lambda count: words[:count]
        ).tolist() == list(range(expected))


def test_words_are_those_of_shake256_of_key_and_step_and_part_and_block(monkeypatch):
    """By another implementation: FIPS 202."""
    from cryptography.hazmat.primitives.hashes import SHAKE256, Hash

    monkeypatch.setattr(samples, "_WORDS_PER_BLOCK", 700)
    stream = b""
    for block, records in enumerate((700, 300)):
        drawn = Hash(SHAKE256(4 * records))
        drawn.update(
            bytes(range(32))
            + b"".join(number.to_bytes(8, "little") for number in (3, 5, block))
        )
        stream += drawn.finalize()
    expected = np.flatnonzero(np.frombuffer(stream, "<u4") < RATES // 8)
    assert (
        PoissonSamples(rate=0.125, key=bytes(range(32))).indices(1000, 3, 5).tolist()
        == expected.tolist()
    )


def test_a_step_that_is_redone_has_the_same_sample_and_no_other_has_it():
    drawn = PoissonSamples(rate=0.5)
    other = PoissonSamples(rate=0.5)
    first = drawn.indices(300, 2, 1).tolist()
    assert (
        pickle.loads(pickle.dumps(drawn)).indices(300, 2, 1).tolist() == first
    )  # wherever it is drawn
    for indices in (
        drawn.indices(300, 1, 2),
        drawn.indices(300, 2, 0),
        drawn.indices(300, 3, 1),
        other.indices(300, 2, 1),
    ):
        assert indices.tolist() != first
    assert len(drawn.key) == 32
    assert drawn.key.hex() not in repr(drawn)
    assert repr(drawn.key) not in repr(drawn)


def test_samples_of_nothing_and_of_everything():
    assert PoissonSamples(rate=0.5).indices(0, 0).tolist() == []
    assert PoissonSamples(rate=1.0).indices(7, 0).tolist() == list(range(7))
    assert PoissonSamples(rate=1 / RATES).indices(50, 0).size <= 1
