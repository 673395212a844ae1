"""What `auto` says that it does is what the design does, and follows from public facts."""

import pytest

from noisegate.methods.pairwise import Pairwise, cells_for
from noisegate.methods.registry import AUTO, make_method
from noisegate.schema import Boolean, Categorical, Continuous, Schema

X = Continuous(name="x", lower=0.0, upper=1.0)


def booleans(count, label=None):
    return Schema(tuple(Boolean(name=f"b{place}") for place in range(count)), label=label)


def test_auto_is_the_pairwise_method_with_its_defaults():
    assert make_method(AUTO, {}) == Pairwise()


def test_the_reason_names_the_pairs_the_label_and_the_cells():
    schema = Schema((X, Boolean(name="a"), Boolean(name="b"), Boolean(name="ill")), label="ill")
    said = Pairwise().why(schema, 1.0)
    assert "the 3 pairs of 3 columns" in said
    assert "in each class of 'ill'" in said
    assert f"about {cells_for(4, 1.0)} cells at epsilon=1" in said
    assert "drowns" not in Pairwise(pairs="all").why(schema, 1.0)


def test_the_reason_says_that_pairs_of_wide_tables_are_chosen():
    said = Pairwise().why(booleans(60), 1.0)
    assert "60 columns have 1,770 pairs, so at most 1,000 are chosen" in said
    assert "cells" not in said
    assert "class" not in said


@pytest.mark.parametrize(
    ("settings", "columns", "said"),
    [
        ({"pairs": "none"}, 4, "of the 6 pairs of columns 0 are measured"),
        ({"pairs": (("b0", "b1"),)}, 4, "of the 6 pairs of columns 1 are measured"),
        ({}, 1, "of the 0 pairs of columns 0 are measured"),
        ({"pairs": "all"}, 4, "the 6 pairs of 4 columns are few enough"),
    ],
)
def test_the_reason_does_not_claim_pairs_that_are_not_measured(settings, columns, said):
    assert said in make_method(AUTO, settings).why(booleans(columns), 1.0)


def test_a_label_that_is_one_more_column_is_not_said_to_be_told_apart():
    label = Categorical(name="k", levels=tuple("abcdefg"))
    assert "class" not in Pairwise().why(Schema((X, label), label="k"), 1.0)


@pytest.mark.parametrize("columns", [1, 5, 15, 16, 60, 5000])
def test_cells_are_fewer_where_there_is_more_noise(columns):
    assert 4 <= cells_for(columns, 1.0) <= cells_for(columns, 10.0)
    assert cells_for(4 * columns, 1.0) <= cells_for(columns, 1.0) <= 24


def test_the_number_of_cells_by_hand():
    """24 below ε = 3 and 36 from there on, in tables of up to fifteen columns; wider ones have fewer."""
    assert [cells_for(15, epsilon) for epsilon in (0.1, 2.99, 3.0, 10.0)] == [24, 24, 36, 36]
    assert [cells_for(60, epsilon) for epsilon in (1.0, 3.0)] == [12, 18]
    assert cells_for(10_000, 10.0) == 4
