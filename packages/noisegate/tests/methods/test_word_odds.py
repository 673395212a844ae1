"""Words that follow from the noise, by what real tables came to."""

import json
from pathlib import Path

import pytest

from noisegate.answers.verdict import WORDS
from noisegate.methods.forecast import Forecast
from noisegate.methods.word_odds import (
    CERTAINTY,
    ODDS,
    likely_word,
    word_shares,
)

HELD_OUT = Path(__file__).parents[4] / "benchmarks" / "verdicts" / "held_out.jsonl"
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


@pytest.mark.parametrize(
    ("measured", "word"), [(10, "good"), (9, "rough"), (0, "rough")]
)
def test_pairs_that_are_not_measured_make_it_rough_at_best(measured, word):
    expected = Forecast(
        records=1e6,
        noise=1e-5,
        columns=5,
        paired=True,
        measured_pairs=measured,
        planned_pairs=10,
    )
    assert expected.word == word


@pytest.mark.parametrize("paired", [True, False])
def test_what_is_noise_by_most_tables_is_noise_whatever_is_measured(paired):
    expected = Forecast(
        records=100, noise=0.4, columns=5, paired=paired, planned_pairs=10
    )
    assert expected.word == "noise"


@pytest.fixture(scope="module")
def runs():
    """Runs of tables on which no constant was chosen."""
    if not HELD_OUT.exists():
        pytest.skip("the results of benchmarks/verdicts are not in this package")
    lines = HELD_OUT.read_text(encoding="utf-8").splitlines()
    return [run for run in map(json.loads, lines) if "error" not in run]


def reached_words(run):
    """What an evaluation found, as a place in `WORDS`."""
    return WORDS.index(run["evaluate"]["word"])


def test_the_noise_is_rarely_above_what_evaluations_of_held_out_tables_found(runs):
    likely_words = [WORDS.index(likely_word(run["noise"])) for run in runs]
    above = sum(
        word > reached_words(run) for word, run in zip(likely_words, runs, strict=True)
    )
    assert above / len(runs) <= 0.15
