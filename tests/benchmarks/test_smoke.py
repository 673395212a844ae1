"""Every script of the benchmarks is read and tells its options, and every page is what its rows say.

What a script finds is on its page; whether it still finds it is a run by hand.
"""

import ast
import importlib
import json
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
# Pages and tables are written by a call without options.
SILENT = {
    "baselines/page.py",
    "linked/page.py",
    "dp_mepf/table_7.py",
    "dp_mepf/table_8.py",
}
SCRIPTS = [
    name
    for path in sorted(BENCHMARKS.glob("*/*.py"))
    if (name := str(path.relative_to(BENCHMARKS))) not in SILENT
    and '__name__ == "__main__"' in path.read_text("utf-8")
]
PAGES = ("baselines.page", "images.peers_page", "linked.page", "scoreboard.board")


@pytest.fixture(autouse=True)
def alone():
    """Hides modules of the benchmarks that other tests imported, and gives them back.

    Several folders have one of the same name.
    """
    path = list(sys.path)
    hidden = {name: sys.modules.pop(name) for name in _benchmark_modules()}
    yield
    sys.path[:] = path
    for name in _benchmark_modules():
        del sys.modules[name]
    sys.modules.update(hidden)


def _benchmark_modules():
    """Returns the names of imported modules that are files of the benchmarks."""
    return [
        name
        for name, module in list(sys.modules.items())
        if str(BENCHMARKS) in str(getattr(module, "__file__", ""))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_tells_its_options(name, monkeypatch, capsys):
    script = BENCHMARKS / name
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert not ended.value.code and "usage" in capsys.readouterr().out.lower()


def test_every_file_is_python_that_can_be_read():
    for path in BENCHMARKS.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path
    for path in BENCHMARKS.rglob("*.toml"):
        tomllib.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_rows_say(name, monkeypatch):
    monkeypatch.setattr(
        sys,
        "path",
        [str(BENCHMARKS / name.partition(".")[0]), str(BENCHMARKS), *sys.path],
    )
    module = importlib.import_module(name)
    assert module.PAGE.read_text("utf-8") == module.page(), (
        f"run benchmarks/{name.replace('.', '/')}.py"
    )


@pytest.mark.parametrize("rows", ["baselines/rows.json", "images/peers.json"])
def test_epsilon_of_each_row_is_certified(rows):
    for row in json.loads((BENCHMARKS / rows).read_text("utf-8")):
        assert 0.9 * row["epsilon"] < row["certified_epsilon"] <= row["epsilon"], row


def test_items_of_the_papers_are_in_known_states_and_name_what_is_there(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    items = importlib.import_module("papers.items").read_items()
    assert (
        len(items) == 191
        and [problem for item in items for problem in item.wrong()] == []
    )
