"""Tables so wide that their pairs could never be gone through are refused at once, with the reason."""

import time

import pytest

from noisegate.errors import OptionError
from noisegate.methods.registry import make_method
from noisegate.privacy.plan import Budget
from noisegate.schema import Boolean, Continuous, Schema

WIDE = Schema((*(Boolean(name=f"b{place}") for place in range(20_000)), Continuous(name="x", lower=0, upper=1)))
BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("name", ["pairwise", "dp-merf", "dp-hp", "aim", "mst"])
def test_twenty_thousand_columns_are_refused_in_seconds(name):
    started = time.process_time()
    with pytest.raises(OptionError, match=r"20,001 columns have [0-9,]+ groups of [23], and at most 2,000,000"):
        make_method(name, {}).plan(WIDE, BUDGET)
    assert time.process_time() - started < 10


def test_what_the_refusal_proposes_is_planned_in_seconds():
    started = time.process_time()
    assert make_method("pairwise", {"pairs": "none"}).plan(WIDE, BUDGET).releases
    assert time.process_time() - started < 10
