"""`make papers`: what it runs, what it leaves out and says, what it keeps, and the page that it writes."""

import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers.items import ROOT, read_items
from papers.page import PAGE, SUMMARY, page, summary
from papers.runs import RESULTS, read_result, read_runs

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

ITEMS, RUNS = read_items(), read_runs()


def test_every_command_belongs_to_items_names_a_file_and_its_figures() -> None:
    ids = {item.id for item in ITEMS}
    for one in RUNS:
        assert set(one.items) <= ids, one.id
        assert (ROOT / shlex.split(one.command)[0]).is_file(), one.id
        assert "{json}" in one.command, one.id
        assert one.figures, one.id
        assert (
            Counter(figure.name for figure in one.figures).most_common(1)[0][1] == 1
        ), one.id
        one.arguments(Path("data"), Path("out"))  # no other place than those known


def test_results_are_of_commands_that_are_there() -> None:
    runs = {one.id: one for one in RUNS}
    for file in RESULTS.glob("*.json"):
        assert file.stem in runs, f"{file} is of no command of runs.toml"
        result = read_result(runs[file.stem])
        assert result is not None
        assert set(result.figures) <= {
            figure.name for figure in runs[file.stem].figures
        }, file


def test_no_item_is_called_reproduced_whose_figure_is_short() -> None:
    held = {item.id for item in ITEMS if item.state in ("reproduced", "better")}
    for one in RUNS:
        result = read_result(one)
        for figure in one.figures if result and held & set(one.items) else ():
            values = result.figures[figure.name]
            assert figure.verdict(sum(values) / len(values)) != "short", (
                one.id,
                figure.name,
            )


def test_the_page_is_what_the_items_and_results_make() -> None:
    results = {one.id: result for one in RUNS if (result := read_result(one))}
    assert PAGE.read_text("utf-8") == page(ITEMS, RUNS, results), (
        "benchmarks/papers/results.md is not what its generator makes; write it again with: make papers PAPERS=--page"
    )
    assert SUMMARY.read_text("utf-8") == summary(ITEMS, RUNS, results)
