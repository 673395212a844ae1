"""The state of the papers' items: each of the 191 is there once, in a known state, and what it names exists."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers.items import SECTIONS, read_items

ITEMS = read_items()
# How many items an audit of the five papers counted in each section.
COUNTS = {"algorithms": 72, "baselines": 23, "data": 23, "tables": 46, "metrics": 13, "theory": 14}


def test_every_item_of_the_papers_has_its_entry() -> None:
    assert Counter(item.section for item in ITEMS) == COUNTS
    assert sum(COUNTS.values()) == 191
    assert [item.section for item in ITEMS] == sorted((item.section for item in ITEMS), key=list(SECTIONS).index)


def test_states_are_known_have_reasons_and_name_what_is_there() -> None:
    assert [problem for item in ITEMS for problem in item.wrong()] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "done"}, "state 'done'"),
        ({"section": "extras"}, "section 'extras'"),
        ({"state": "short", "note": ""}, "without a note"),
        ({"state": "left out", "note": ""}, "without a note"),
        ({"state": "not run", "note": "x", "where": ()}, "without `where`"),
        ({"where": ()}, "without `where`"),
        ({"where": ("src/noisegate/nowhere.py",)}, "src/noisegate/nowhere.py is not there"),
        ({"command": "benchmarks/dp_hp/figure_0.py --data DIR"}, "benchmarks/dp_hp/figure_0.py is not there"),
        ({"note": "See docs/nowhere.md."}, "docs/nowhere.md is not there"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(change: dict, said: str) -> None:
    good = next(item for item in ITEMS if item.state == "faithful")
    assert list(good.wrong()) == []
    (problem,) = replace(good, **change).wrong()
    assert said in problem


@pytest.mark.parametrize("line", ['stat = "short"', 'id = "twice"'])
def test_an_entry_that_cannot_be_read_is_refused(line: str, tmp_path: Path) -> None:
    entry = '[[item]]\nid = "twice"\nsection = "data"\nitem = "x"\nsource = ""\nstate = "short"\nnote = "x"\n'
    file = tmp_path / "items.toml"
    file.write_text(entry + (entry if "twice" in line else line))
    with pytest.raises(ValueError, match="twice"):
        read_items(file)
