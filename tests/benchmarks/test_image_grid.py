"""The grid of images: a run that is there is not made again, real images stand beside, the page is what runs say."""

import importlib
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
GRID = importlib.import_module("images.grid")
sys.path.remove(str(BENCHMARKS))

ASKED = ["--sets", "sklearn", "--records", "1400", "--epsilon", "10", "--steps", "2", "--images", "60"]


@pytest.fixture
def quick(monkeypatch):
    """One classifier, the quickest."""
    monkeypatch.setattr(GRID, "KINDS", ("logistic",))


def test_runs_end_in_files_and_are_not_made_again(quick, tmp_path, monkeypatch):
    asked = [f"--out={tmp_path}", *ASKED, "--settings", "real", "pose-0"]
    assert GRID.main(asked) == 0
    (real,) = (json.loads(path.read_text()) for path in tmp_path.glob("*-real-0-0.json"))
    (made,) = (json.loads(path.read_text()) for path in tmp_path.glob("*-pose-0-0-2.json"))
    assert real["logistic"] > 0.9 > made["logistic"]
    assert (made["generator"], made["steps"], made["epsilon"]) == ("sub-pixel", 2, 10)
    monkeypatch.setattr(GRID, "_figures", lambda *_: pytest.fail("made again"))
    assert GRID.main(asked) == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [(["--sets", "mnistt"], "invalid choice: 'mnistt'"), (["--sets", "mnist"], "--sets mnist: --data says")],
)
def test_a_set_that_is_not_there_is_refused(asked, says, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        GRID.main([f"--out={tmp_path / 'out'}", *asked])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def row(settings, cnn, seed=0, epsilon=1.0):
    figures = {"cnn": cnn, "mlp": 0.5, "logistic": 0.5, "distance": 1.5, "agreement": 0.8, "generator": "drawing"}
    return {
        **dict(zip(GRID.Run._fields, ("glyphs", 8000, epsilon, settings, seed, 9), strict=True)),
        **figures,
        "steps": 9,
    }


def test_a_cell_says_means_over_seeds_and_how_far_behind_the_best():
    lines = list(GRID.table(GRID.collected([row("auto", 0.7, 1), row("pose-0", 0.9), row("auto", 0.6)])))
    assert lines[0].startswith("| glyphs | 8,000 | 1 | **auto** | **.650 / .500 / .500** | .250 | drawing, 9 |")
    assert lines[1].startswith("| glyphs | 8,000 | 1 | pose-0 | .900 / .500 / .500 | .000 |")


def test_the_page_is_what_its_rows_say():
    assert GRID.PAGE.read_text("utf-8") == GRID.page()
