"""Words that follow from the noise, by what real tables came to."""

import json
from pathlib import Path

import pytest

from noisegate.answers.verdict import WORDS
from noisegate.methods.word_odds import (
    CERTAINTY,
    ODDS,
    likely_word,
    word_shares,
)

RESULTS = Path(__file__).parents[4] / "benchmarks" / "verdicts" / "results.jsonl"
NOISES = [10 ** (step / 10) for step in range(-50, 21)]


@pytest.mark.parametrize("certainty", [0.5, CERTAINTY, 0.9])
def test_more_noise_never_has_a_better_word(certainty):
    words = [WORDS.index(likely_word(noise, certainty)) for noise in NOISES]
    assert words == sorted(words, reverse=True)


@pytest.mark.parametrize("noise", NOISES)
def test_shares_of_words_come_to_one(noise):
    shares = word_shares(noise)
    assert list(shares) == list(reversed(WORDS))
    assert min(shares.values()) >= 0
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("word", ODDS)
@pytest.mark.parametrize("certainty", [0.5, CERTAINTY, 0.9])
def test_at_the_noise_of_a_certainty_so_many_reach_the_word(word, certainty):
    noise = ODDS[word].noise_for(certainty)
    assert ODDS[word].probability(noise) == pytest.approx(certainty)


@pytest.fixture(scope="module")
def runs():
    if not RESULTS.exists():
        pytest.skip("the results of benchmarks/verdicts are not in this package")
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return [run for run in map(json.loads, lines) if "error" not in run]


def found_in(run):
    """What an evaluation found, as a place in `WORDS`."""
    return WORDS.index(run["evaluate"]["word"])


def said_by_fit(run):
    """What a fit says, by its noise and by what else lowers its word, as such a place."""
    words = [likely_word(run["noise"])]
    words += [
        part["word"]
        for part in run["fit_parts"]
        if part["question"] != "forecast" and part["word"] is not None
    ]
    return min(map(WORDS.index, words))


def test_words_of_plans_are_rarely_above_what_evaluations_of_real_tables_found(runs):
    said = [WORDS.index(likely_word(run["noise"])) for run in runs]
    above = sum(word > found_in(run) for word, run in zip(said, runs, strict=True))
    assert above / len(runs) <= 0.15


def test_words_of_fits_are_hardly_ever_above_and_never_by_two(runs):
    above = [said_by_fit(run) - found_in(run) for run in runs]
    assert sum(step > 0 for step in above) / len(runs) <= 0.05
    assert max(above) <= 1
