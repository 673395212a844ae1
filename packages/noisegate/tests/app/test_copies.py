"""Copies and their refits: what is computed from each has an interval that holds, though models lose associations."""

import numpy as np
import pytest
from tests.shared.columns import boolean, continuous

from noisegate import Schema, synthesize
from noisegate.app.copies import combine, copies
from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise

SCHEMA = Schema(
    (
        continuous("x", -4, 4),
        continuous("y", -4, 4),
        boolean("ill"),
    )
)


def records(rows, seed):
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    return {
        "x": x,
        "y": 0.7 * x + 0.5 * random.normal(size=rows),
        "ill": random.random(rows) < 0.3,
    }


def fitted(**budget):
    method = Pairwise(fit_options={"steps": 100})
    return synthesize(
        records(3_000, 1), schema=SCHEMA, method=method, epsilon=1.0, **budget
    )


@pytest.fixture(scope="module")
def model():
    return fitted()


def correlation(table):
    return float(np.corrcoef(table["x"].to_numpy(), table["y"].to_numpy())[0, 1])


def test_what_refits_lose_is_given_back_and_counted():
    # The model lost .3 of 1, and its refits .2 of what was left; 2 · .7 − .5 = .9.
    combined = combine([[0.7, 5.0], [0.5, 5.1], [0.5, 4.9]], level=0.9)
    assert combined.value == pytest.approx([0.9, 5.0])
    assert combined.error == pytest.approx([0.08**0.5, 0.1])
    assert combined.high - combined.value == pytest.approx(2.919986 * combined.error)


def test_an_interval_of_copies_holds_what_the_copy_alone_misses(model):
    correlations = [correlation(table) for table in copies(model, 6, 3_000, seed=3)]
    assert len(set(correlations)) == 7
    combined = combine(correlations)
    true = 0.7 / np.sqrt(0.74)
    assert combined.low < true < combined.high
    assert abs(combined.value - true) < 0.15
    assert abs(correlations[0] - true) > 3 * (1 - correlations[0] ** 2) / np.sqrt(
        3_000
    )  # a textbook's interval of the copy misses


def test_the_records_that_are_drawn_follow_the_seed(model):
    first, again = (next(copies(model, 2, 50, seed=7)) for _ in range(2))
    assert first.equals(again)
    assert not first.equals(next(copies(model, 2, 50)))


def test_what_cannot_be_done_again_is_refused(model):
    shared = synthesize(
        {**records(90, 1), "who": np.arange(90) // 3},
        schema=SCHEMA, epsilon=1.0, unit_column="who", contributions=3,
    )  # fmt: skip
    for of, number, message in ((shared, 3, "one record"), (model, 1, "at least 2")):
        with pytest.raises(OptionError, match=message):
            copies(of, number, 10)
    with pytest.raises(OptionError, match="at least two refits"):
        combine([1.0, 2.0])
