"""The harness of the benchmarks: options, rows on disk, commands in processes of their own."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from harness.commands import run_logged
from harness.options import choice, needed, read_options
from harness.results import Lines, Rows, kept

OPTIONS = {
    "epsilon": [0.5],
    "seeds": 1,
    "first": 0,
    "settings": {"a": 1},
    "again": False,
    "device": choice(["cpu", "cuda"]),
}


def test_the_type_of_an_option_is_that_of_its_default():
    line = "--data d --epsilon 1 10 --first 0 --settings {} --again"
    options = read_options("text", line.split(), data=needed(Path), **OPTIONS)
    assert vars(options) == {
        "data": Path("d"),
        "epsilon": [1.0, 10.0],
        "seeds": 1,
        "first": 0,
        "settings": {},
        "again": True,
        "device": "cpu",
    }


@pytest.mark.parametrize(
    "arguments", ["--seeds 0", "--epsilon 1 0", "--settings [1]", "--device gpu"]
)
def test_a_wrong_option_ends_the_script(arguments):
    with pytest.raises(SystemExit, match="2"):
        read_options("text", arguments.split(), **OPTIONS)


def test_a_row_is_made_once(tmp_path):
    path = tmp_path / "rows.json"
    key = {"method": "one", "seed": 0}
    made = Rows(path).make(key, lambda: {"score": 1.0})
    again = Rows(path).make(key, lambda: pytest.fail("made again"))
    assert made == again == {"method": "one", "seed": 0, "score": 1.0}


def test_lines_are_found_again_by_their_keys(tmp_path):
    path = tmp_path / "folder" / "lines.jsonl"
    Lines(path).add({"set": "a", "epsilon": 1.0})
    assert Lines(path).keys("set", "epsilon") == {("a", 1.0)}


def test_what_is_kept_is_computed_once(tmp_path):
    path = tmp_path / "kept.json"
    assert kept(path, lambda: [1]) == [1]
    assert kept(path, lambda: pytest.fail("computed again")) == [1]


def test_a_command_that_takes_too_long_is_told_to_stop(tmp_path):
    log = tmp_path / "log.txt"
    python = [sys.executable, "-c"]
    assert run_logged([*python, "print(1); raise SystemExit(3)"], log, 60) == 3
    assert log.read_text() == "1\n"
    assert run_logged([*python, "import time; time.sleep(60)"], log, 0.5) is None
