"""`make papers`: what it runs, what it leaves out and says, what it keeps, and the page that it writes."""

import json
import shlex
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers import run as harness
from papers.items import ROOT, read_items
from papers.page import PAGE, page
from papers.runs import RESULTS, Figure, Run, read_result, read_runs

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

ITEMS, RUNS = read_items(), read_runs()


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
