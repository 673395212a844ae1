"""The scale of verdicts, and how several make one."""

import json

import pytest

from noisegate import Verdict
from noisegate.answers.verdict import (
    KEPT,
    MISPLACED,
    WORDS,
    word_of_kept,
    word_of_misplaced,
)


def verdict(word, **more):
    return Verdict(word=word, source="fit", reasons=(f"reason of {word}",), **more)


def test_a_limit_belongs_to_the_better_word():
    for word in MISPLACED:
        assert word_of_misplaced(MISPLACED[word]) == word_of_kept(KEPT[word]) == word
        assert (
            WORDS.index(word_of_misplaced(MISPLACED[word] + 1e-9))
            == WORDS.index(word) - 1
        )
        assert WORDS.index(word_of_kept(KEPT[word] - 1e-9)) == WORDS.index(word) - 1


@pytest.mark.parametrize("nothing", [float("nan"), float("inf")])
def test_what_is_no_share_is_noise(nothing):
    assert word_of_misplaced(nothing) == word_of_kept(-nothing) == "noise"


def test_the_worst_word_counts_and_all_reasons_and_cures_stay():
    parts = [
        verdict("good", cures=("a", "b")),
        verdict(None, figures={"x": 1}),
        verdict("rough", cures=("b", "c")),
    ]
    both = Verdict.together(parts)
    assert both.word == "rough" and both.reasons == (
        "reason of good",
        "reason of None",
        "reason of rough",
    )
    assert (both.cures, both.figures) == (
        ("a", "b", "c"),
        {"x": 1},
    ) and Verdict.together([]) is None
    assert Verdict.together([verdict(None)]).word is None


@pytest.mark.parametrize("word", [*WORDS, None])
def test_a_verdict_is_read_back_from_its_json(word):
    told = verdict(
        word, cures=("more",), figures={"share": 0.1, "needed": {"good": 10}}
    )
    assert Verdict.from_json(json.loads(json.dumps(told.to_json()))) == told
