"""The scale of verdicts, and how several make one."""

import io
import json
from importlib.resources import files

import pytest
from rich.console import Console

from noisegate import Verdict
from noisegate.answers.findings import ANSWERS, QUESTIONS, VerdictFinding
from noisegate.answers.verdict import (
    KEPT,
    KEPT_SCALE,
    MISPLACED,
    MISPLACED_SCALE,
    WORDS,
    not_known,
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
    assert both.word == "rough"
    assert both.reasons == (
        "reason of good",
        "reason of None",
        "reason of rough",
    )
    assert both.cures == ("a", "b", "c")
    assert both.figures == {"x": 1}
    assert Verdict.together([]) is None
    assert Verdict.together([verdict(None)]).word is None


@pytest.mark.parametrize("word", [*WORDS, None])
def test_a_verdict_is_read_back_from_its_json(word):
    original = verdict(
        word, cures=("more",), figures={"share": 0.1, "needed": {"good": 10}}
    )
    assert Verdict.from_json(json.loads(json.dumps(original.to_json()))) == original


def finding(answer, detail="why", question="pairs of columns"):
    return VerdictFinding(question=question, answer=answer, detail=detail)


def test_what_is_good_is_kept_and_what_is_worse_than_rough_is_lost():
    for scale, limits, worse in (
        (MISPLACED_SCALE, MISPLACED, 1e-9),
        (KEPT_SCALE, KEPT, -1e-9),
    ):
        assert scale.answer(limits["good"]) == "kept"
        assert scale.answer(limits["good"] + worse) == "weakened"
        assert scale.answer(limits["rough"]) == "weakened"
        assert scale.answer(limits["rough"] + worse) == "lost"
        assert scale.answer(float("nan")) == "not known"


@pytest.mark.parametrize("better", range(len(ANSWERS) - 1))
def test_the_worst_answer_to_each_question_counts(better):
    """Lost is worse than not known, which is worse than weakened."""
    other = finding("kept", question="single columns")
    first, second = (finding(ANSWERS[better + off], f"{off}") for off in (0, 1))
    parts = [verdict("good", findings=(part,)) for part in (first, second, other)]
    assert Verdict.together(parts).findings == (other, second)


def test_two_reasons_of_the_same_answer_stay():
    parts = [verdict("good", findings=(finding("weakened", why),)) for why in "abbc"]
    assert Verdict.together(parts).findings == (finding("weakened", "a; b"),)


def test_a_verdict_answers_what_is_asked_and_nothing_else():
    original = verdict(
        "good", findings=(finding("kept"), finding("lost", "x", "groups"))
    )
    requested = ("means and tails", "pairs of columns", "single columns")
    unknown = {requested[0]: not_known(requested[0], "needs more")}
    answers = original.answering(requested, unknown).findings
    assert [answer.question for answer in answers] == list(requested[::-1])
    assert answers[1] == finding("kept")
    assert answers[2] == not_known("means and tails", "needs more")
    assert answers[0].answer == "not known"


def test_a_verdict_of_an_older_model_has_no_findings():
    stored = verdict("rough").to_json()
    del stored["findings"]
    assert Verdict.from_json(stored) == verdict("rough")
    original = verdict("rough", findings=(finding("lost"),))
    assert Verdict.from_json(json.loads(json.dumps(original.to_json()))) == original


@pytest.mark.parametrize("wrong", [("pears", "kept"), ("groups", "fine")])
def test_a_finding_is_of_the_vocabulary(wrong):
    with pytest.raises(ValueError, match="expected one of"):
        VerdictFinding.from_json(
            {"question": wrong[0], "answer": wrong[1], "detail": ""}
        )


def test_findings_are_lines_that_any_console_shows():
    original = verdict(
        "good",
        findings=tuple(
            not_known(question, "needs much " * 5) for question in QUESTIONS
        ),
    )
    console = Console(file=io.StringIO(), width=80, legacy_windows=False)
    console.print(original.render())
    shown = console.file.getvalue()
    assert shown.encode("cp1252")
    for question in QUESTIONS:
        row = f" {question:<30}  not known  needs much"
        assert any(line.startswith(row) for line in shown.splitlines()), shown
        assert row in str(original)


def test_the_form_of_the_output_has_the_vocabulary():
    text = files("noisegate.app.cli").joinpath("json_output.json").read_text("utf-8")
    form = json.loads(text)["parts"]["finding"]["properties"]
    assert form["question"]["enum"] == list(QUESTIONS)
    assert form["answer"]["enum"] == list(ANSWERS)
