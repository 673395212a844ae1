"""`make papers`: what it runs, what it leaves out and says, what it keeps, and the page that it writes."""

import json
import os
import shlex
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers import run as harness
from papers.items import ROOT, SECTIONS, read_items
from papers.page import PAGE, page
from papers.runs import RESULTS, Figure, Result, Run, figures_of, read_result, read_runs

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

ITEMS, RUNS = read_items(), read_runs()
RESULT = Result(figures={"error": (1.0, 2.0)}, date="2026-11-23", seconds=60.0)


def made(figures: tuple[Figure, ...] = (Figure(name="error", at="runs.*.error"),), command: str = "", **more) -> Run:
    fields = {"id": "one", "items": ("mnist",), "command": command, "minutes": 1.0, "protocol": "two seeds"}
    return Run(**fields | more, figures=figures)


def test_every_command_belongs_to_items_names_a_file_and_its_figures() -> None:
    ids = {item.id for item in ITEMS}
    for one in RUNS:
        assert set(one.items) <= ids, one.id
        assert (ROOT / shlex.split(one.command)[0]).is_file(), one.id
        assert "{json}" in one.command, one.id
        assert one.figures, one.id
        assert Counter(figure.name for figure in one.figures).most_common(1)[0][1] == 1, one.id
        one.arguments(Path("data"), Path("out"))  # no other place than those known


def test_results_are_of_commands_that_are_there() -> None:
    runs = {one.id: one for one in RUNS}
    for file in RESULTS.glob("*.json"):
        assert file.stem in runs, f"{file} is of no command of runs.toml"
        result = read_result(runs[file.stem])
        assert result is not None
        assert set(result.figures) <= {figure.name for figure in runs[file.stem].figures}, file


def test_no_item_is_called_reproduced_whose_figure_is_short() -> None:
    held = {item.id for item in ITEMS if item.state in ("reproduced", "better")}
    for one in RUNS:
        result = read_result(one)
        for figure in one.figures if result and held & set(one.items) else ():
            values = result.figures[figure.name]
            assert figure.verdict(sum(values) / len(values)) != "short", (one.id, figure.name)


def test_the_page_is_what_the_items_and_results_make() -> None:
    results = {one.id: result for one in RUNS if (result := read_result(one))}
    assert PAGE.read_text("utf-8") == page(ITEMS, RUNS, results), (
        "docs/papers.md is not what benchmarks/papers makes; write it again with: make papers PAPERS=--page"
    )


def test_the_page_has_every_item_once_and_totals_that_add_up() -> None:
    text = page(ITEMS, RUNS, {})
    assert f"| {len(ITEMS)} |" in next(line for line in text.splitlines() if line.startswith("| **all**"))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| **" in line and "**all**" not in line]
    assert len(rows) == len(ITEMS)
    assert all(f"## {title}" in text for title in SECTIONS.values())


def test_the_page_shows_a_figure_beside_the_papers_and_says_what_was_not_run() -> None:
    figure = Figure(name="error", at="x", paper=2.0, tolerance=0.1, better="lower")
    ran, waits = made((figure,)), made(id="two", command="benchmarks/x.py --data {mnist}")
    text = page(ITEMS, [ran, waits], {"one": RESULT})
    assert "| `one` | error | 1.5 ± 0.71 (2) | 2 | 0.1 | better | two seeds | 2026-11-23 | 1.0 |" in text
    assert "- `two` (about 1 minutes of a core): `python benchmarks/x.py --data DATA/mnist`" in text


@pytest.mark.parametrize(
    ("better", "ours", "verdict"),
    [
        ("higher", 0.87, "short"),
        ("higher", 0.89, "reproduced"),
        ("higher", 0.92, "better"),
        ("lower", 0.87, "better"),
        ("lower", 0.92, "short"),
        ("near", 0.91, "reproduced"),
        ("near", 0.87, "short"),
        ("near", 0.92, "short"),
    ],
)
def test_a_figure_is_judged_by_the_papers_and_its_tolerance(better, ours: float, verdict: str) -> None:
    assert Figure(name="x", at="x", paper=0.895, tolerance=0.02, better=better).verdict(ours) == verdict
    assert Figure(name="x", at="x", better=better).verdict(ours) is None


def test_figures_are_found_by_names_numbers_and_all() -> None:
    content = {"runs": [{"error": 1, "model": {"a": 3.0}}, {"error": 2.5, "model": {"a": 4.0, "b": 5.0}}]}
    for at, values in {
        "runs.*.error": (1.0, 2.5),
        "runs.1.error": (2.5,),
        "runs.-1.error": (2.5,),
        "runs.*.model.*": (3.0, 4.0, 5.0),
        "runs.*.model.b": (5.0,),
    }.items():
        assert figures_of(made((Figure(name="x", at=at),)), content) == {"x": values}
    for at in ("runs.2.error", "run.*.error", "runs.*", "runs.0.error.more"):
        with pytest.raises(ValueError, match="has no number at"):
            figures_of(made((Figure(name="x", at=at),)), content)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs the harness with commands of the test's own, in folders of its own."""
    monkeypatch.setenv("COLUMNS", "300")  # so that no path is broken across lines
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    places = ["--out", tmp_path / "out", "--results", tmp_path / "results", "--to", tmp_path / "page.md"]

    def call(runs: list[Run], *arguments: object, data: bool = True) -> tuple[int, str]:
        monkeypatch.setattr(harness, "read_runs", lambda: tuple(runs))
        given = [*(["--data", tmp_path / "data"] if data else []), *places, *arguments]
        code = harness.main([str(argument) for argument in given])
        return code, " ".join(capsys.readouterr().out.split())

    return call


def program(tmp_path: Path, text: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(text)
    return f"{file} {{json}}"


WRITES = "import sys; open(sys.argv[1], 'w').write('{\"runs\": [{\"error\": 1.5}]}'); "


def test_a_command_is_run_once_its_figures_are_kept_and_the_page_is_written(call, tmp_path: Path) -> None:
    one = made(command=program(tmp_path, WRITES + "sys.exit(1)"))  # a missed target has figures too
    assert call([one]) == (0, f"1 of 1 one: done {tmp_path}/page.md: written, 1 of 1 commands run.")
    kept = json.loads((tmp_path / "results" / "one.json").read_text())
    assert kept["figures"] == {"error": [1.5]}
    assert "| `one` | error | 1.5 |" in (tmp_path / "page.md").read_text()
    code, said = call([one])
    assert (code, "1 of 1 one: kept" in said, "as it was" in said) == (0, True, True)
    broken = replace(one, command=program(tmp_path, "import sys; sys.exit(2)"))
    code, said = call([broken], "--again")
    assert (code, "ended with code 2" in said) == (1, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [("import sys", "without figures"), (WRITES.replace("error", "other"), "no number at 'runs.*.error'")],
)
def test_a_command_without_figures_failed(call, tmp_path: Path, text: str, said: str) -> None:
    code, told = call([made(command=program(tmp_path, text))])
    assert code == 1
    assert said in told
    assert not (tmp_path / "results").exists()


def test_a_traceback_after_an_earlier_run_is_no_missed_target(call, tmp_path: Path) -> None:
    one = made(command=program(tmp_path, "raise ValueError"))
    (tmp_path / "out" / "one").mkdir(parents=True)
    earlier = tmp_path / "out" / "one" / "figures.json"
    earlier.write_text('{"runs": [{"error": 1.5}]}')
    os.utime(earlier, (0, 0))
    code, told = call([one])
    assert (code, "ended with code 1 and without figures" in told) == (1, True)


def test_what_has_no_data_or_no_time_is_said_and_left_for_another_time(call, tmp_path: Path) -> None:
    writes = program(tmp_path, WRITES)
    runs = [
        made(id="elsewhere", command=f"{writes} {{cifar10}}"),
        made(id="long", command=writes, minutes=61.0),
        made(id="short", command=f"{writes} {{mnist}}", minutes=59.0),
    ]
    code, said = call(runs, "--hours", 1)
    assert code == 0
    assert "1 of 3 elsewhere: no data" in said
    assert "2 of 3 long: takes 61 minutes, 60 are left" in said
    assert "3 of 3 short: done" in said
    assert "1 of 1 short: done" not in call(runs, "--only", "long", "--hours", 1)[1]


def test_a_command_that_does_not_end_is_stopped_with_the_budget(call, tmp_path: Path) -> None:
    one = made(command=program(tmp_path, "import time; time.sleep(60)"), minutes=0.0)
    code, said = call([one], "--hours", 0.0002)
    assert code == 1
    assert "stopped at the end of the budget" in said


def test_a_list_runs_nothing_and_wrong_options_end_it(call, tmp_path: Path) -> None:
    one = made(command=program(tmp_path, WRITES))
    assert call([one], "--list", "--json", tmp_path / "list.json", data=False)[0] == 0
    (row,) = json.loads((tmp_path / "list.json").read_text())
    assert (row["id"], row["run"], row["minutes"]) == ("one", None, 1.0)
    assert not (tmp_path / "out").exists()
    assert call([one], "--only", "two")[0] == 2
    code, said = call([one], data=False)
    assert (code, "--data: name the folder" in said) == (2, True)
