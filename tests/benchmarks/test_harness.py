"""The harness of the benchmarks: options, rows on disk, pages, commands in processes of their own."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from harness.commands import run_logged
from harness.options import choice, choices, needed, optional, read_options
from harness.printing import filled, markdown_table, mean_and_spread
from harness.results import Lines, Rows, kept, write_json


def test_the_type_of_an_option_is_that_of_its_default():
    arguments = [
        "--data",
        "d",
        "--epsilon",
        "1",
        "10",
        "--seeds",
        "2",
        "--settings",
        "{}",
        "--again",
    ]
    options = read_options(
        "text",
        arguments,
        data=needed(Path),
        epsilon=[0.5],
        seeds=1,
        settings={"a": 1},
        again=False,
        device=choice(["cpu", "cuda"]),
        parts=choices(["one", "two"]),
        json=optional(Path),
    )
    assert options.data == Path("d")
    assert options.epsilon == [1.0, 10.0]
    assert options.seeds == 2
    assert options.settings == {}
    assert options.again
    assert options.device == "cpu"
    assert options.parts == ["one", "two"]
    assert options.json is None


@pytest.mark.parametrize(
    "arguments", ["--seeds 0", "--epsilon 1 0", "--settings [1]", "--device gpu"]
)
def test_a_wrong_option_ends_the_script(arguments):
    with pytest.raises(SystemExit) as ended:
        read_options(
            "text",
            arguments.split(),
            seeds=1,
            epsilon=[1.0],
            settings={},
            device=choice(["cpu", "cuda"]),
        )
    assert ended.value.code == 2


def test_a_number_may_be_0_where_its_default_is_or_where_it_has_none():
    options = read_options(
        "text", ["--seed", "0", "--first", "0"], seed=needed(int), first=0
    )
    assert (options.seed, options.first) == (0, 0)


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


def test_what_is_kept_is_computed_once_and_leaves_no_half_of_a_file(tmp_path):
    path = tmp_path / "kept.json"
    assert kept(path, lambda: [1]) == [1]
    assert kept(path, lambda: pytest.fail("computed again")) == [1]
    with pytest.raises(TypeError):
        write_json(path, object())
    assert path.read_text() == "[\n  1\n]\n"


def test_a_page_is_filled_between_its_marks():
    page = "a\n<!-- rows -->\nold\n<!-- end of rows -->\nb\n"
    lines = markdown_table(["x", "y"], [["1", 2]], n_left=1)
    assert lines == ["| x | y |", "| --- | ---: |", "| 1 | 2 |"]
    assert filled(page, "new", "rows") == page.replace("old", "new")


def test_a_spread_is_of_several_values():
    assert mean_and_spread([1.0]) == "1.000"
    assert mean_and_spread([1.0, 3.0], digits=1) == "2.0 ± 1.4"


def test_a_command_that_takes_too_long_is_told_to_stop(tmp_path):
    log = tmp_path / "log.txt"
    python = [sys.executable, "-c"]
    assert run_logged([*python, "print(1); raise SystemExit(3)"], log, 60) == 3
    assert log.read_text() == "1\n"
    assert run_logged([*python, "import time; time.sleep(60)"], log, 0.5) is None
