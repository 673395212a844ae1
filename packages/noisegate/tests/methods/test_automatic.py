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
