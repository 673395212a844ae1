"""A user's commands, names and errors are what they were, unless a commit means to change them."""

import json

import pytest

from . import surface
from .names import HERE

GOLDEN = json.loads((HERE / "surface.json").read_text())


def test_nothing_is_added_or_lost_unnoticed():
    assert list(surface.cases()) == list(GOLDEN)


@pytest.mark.parametrize("case", GOLDEN)
def test_it_reads_as_it_did(case):
    assert surface.surface(case) == GOLDEN[case], (
        "made anew by `python -m tests.golden.make surface`"
    )
