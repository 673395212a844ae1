"""Words for linked tables: the worst link decides, and what is said of children."""

from dataclasses import replace

import pytest

from noisegate import Budget
from noisegate.answers.verdict import WORDS
from noisegate.methods.linked import Linked
from noisegate.methods.linked_words import LinkedForecast, LinkNoise

from .test_linked import SCHEMA

BUDGET = Budget(epsilon=1.0)
LINK = LinkNoise(
    parent="patients",
    child="visits",
    noise=0.0005,
    first_share=0.5,
    next_share=0.5,
    is_ordered=True,
)


def forecast(*links, records=1000):
    return LinkedForecast(root="patients", records=records, links=links, source="plan")


def test_each_word_is_said_from_the_number_of_records_on_that_it_takes():
    unknown = Linked().verdict(SCHEMA, BUDGET)
    needed = unknown.figures["records_for"]
    assert list(needed) == ["good", "usable", "rough"]
    assert unknown.word is None
    for word, count in needed.items():
        assert Linked().verdict(SCHEMA, BUDGET, count).word == word
        # Numbers are rounded up to two digits.
        fewer = Linked().verdict(SCHEMA, BUDGET, round(count * 0.9)).word
        assert WORDS.index(fewer) == WORDS.index(word) - 1
    assert f"usable from {needed['usable']:,}" in unknown.reasons[0]


def test_a_fit_takes_more_records_for_each_word_than_a_plan():
    plan = forecast(LINK)
    fit = replace(plan, source="fit").records_for()
    assert all(count < fit[word] for word, count in plan.records_for().items())


def test_the_worst_link_decides():
    noisy = replace(LINK, parent="visits", child="codes", noise=0.3, next_share=0.0)
    both = forecast(LINK, noisy)
    assert forecast(LINK).word == "good"
    assert both.word == forecast(noisy).word == "noise"
    assert len(both.verdict(1.0).reasons) == 3


@pytest.mark.parametrize(
    ("noise", "expected"), [(0.0001, "kept"), (0.02, "blurred"), (10.0, "lost")]
)
def test_how_children_follow_each_other_is_said(noise, expected):
    reasons = forecast(replace(LINK, noise=noise)).verdict(1.0).reasons
    assert (
        f"visits of one record of patients follow each other is {expected}:"
        in (reasons[1])
    )


def test_one_child_follows_none():
    assert len(forecast(replace(LINK, next_share=0.0)).verdict(1.0).reasons) == 1


def test_what_has_no_order_keeps_none():
    reasons = forecast(replace(LINK, is_ordered=False)).verdict(1.0).reasons
    assert "visits have no `order` in the schema" in reasons[-1]


def test_first_children_of_many_are_lost_first():
    many = replace(LINK, noise=0.05, first_share=1 / 24)
    assert many.loses_first_child
    assert not replace(many, first_share=0.5).loses_first_child
    assert not replace(many, is_ordered=False).loses_first_child
    assert (
        "when the first of visits comes may be lost: 4% of rows"
        in (forecast(many).verdict(1.0).reasons[-1])
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "kept"),
        ({"is_ordered": False}, "weakened"),
        ({"noise": 0.02}, "weakened"),
        ({"noise": 0.05, "first_share": 1 / 24}, "lost"),
        ({"noise": 10.0}, "lost"),
    ],
)
def test_children_of_one_parent_are_answered_for(changes, expected):
    good = replace(LINK, noise=0.00001)
    findings = forecast(replace(good, **changes)).verdict(1.0).findings
    answers = {finding.question: finding.answer for finding in findings}
    assert answers["children of one parent"] == expected
    pairs = answers["pairs of columns"]
    assert answers["parents and children"] == answers["single columns"] == pairs


def test_what_few_rows_show_takes_more_records():
    def needed(**changes):
        return forecast(replace(LINK, **changes)).records_for()["usable"]

    assert needed() < needed(first_share=0.2) < needed(first_share=0.04)
    assert needed() < needed(next_share=0.2) < needed(next_share=0.04)
    assert needed(is_ordered=False, first_share=0.04) == needed()
    # What may be noise on the numbers of children counts as no next child at all.
    assert needed(next_share=0.001) == needed(next_share=0.0) == needed()


def test_a_better_word_is_offered_but_for_the_best():
    assert not forecast(LINK).verdict(1.0).cures
    cures = forecast(replace(LINK, noise=0.05)).verdict(1.0).cures
    assert cures[0].startswith("usable with ")
    assert cures[0].endswith(" records of patients or more")
