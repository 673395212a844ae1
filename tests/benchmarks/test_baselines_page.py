"""The table of baselines is what rows.json and published.toml say; a row that is not full says what was reduced."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "baselines"
_SPEC = importlib.util.spec_from_file_location("baselines_page", FOLDER / "page.py")
PAGE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(PAGE)


def test_the_page_has_every_row():
    assert PAGE.PAGE.read_text("utf-8") == PAGE.page(), "run python benchmarks/baselines/page.py"


def test_a_row_says_what_was_reduced_and_what_is_published(monkeypatch, tmp_path):
    row = {"method": "datalens", "data_set": "mnist", "epsilon": 1.0, "cnn": 0.5, "seconds": {"cpu": 7}}
    reduced = {"reduced": True, "records": 1000, "made": None, "settings": {"steps": 3}}
    (tmp_path / "rows.json").write_text(json.dumps([row | reduced, row | {"reduced": False}]), encoding="utf-8")
    monkeypatch.setattr(PAGE, "ROWS", tmp_path / "rows.json")
    short, full = PAGE.table().splitlines()[2:]
    assert "| CNN .500 | CNN .712 | reduced: the first 1,000 records, steps 3 | 7 |" in short
    assert "| full | 7 |" in full


@pytest.mark.parametrize("row", json.loads((FOLDER / "rows.json").read_text("utf-8")))
def test_epsilon_of_a_row_is_certified(row):
    assert 0.9 * row["epsilon"] < row["certified_epsilon"] <= row["epsilon"]
