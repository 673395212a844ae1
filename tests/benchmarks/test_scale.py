"""The scale benchmark at tiny size: the bare count is that of the gate, and what misses a goal is told."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "scale"))

import bare_counts
import measures
import scale_table
import steps

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

_found = importlib.util.spec_from_file_location("scale_run", Path(measures.__file__).with_name("run.py"))
assert _found is not None
assert _found.loader is not None
scale_run = importlib.util.module_from_spec(_found)
_found.loader.exec_module(scale_run)


@pytest.fixture
def small_parts(monkeypatch):
    for module in (scale_table, measures):
        monkeypatch.setattr(module, "PART_ROWS", 500)


@pytest.mark.parametrize("kind", scale_table.KINDS)
def test_a_folder_of_links_has_the_sums_of_one_part_times_the_links(kind, tmp_path, small_parts):
    folder, parts = scale_table.linked_folder(tmp_path, kind, 1500)
    files = sorted(folder.iterdir())
    assert (parts, len(files), bare_counts.scan(files)) == (3, 3, 1500)
    weights = scale_table.task().feature_map.integer_weights(scale_table.task().grid)
    bare = bare_counts.bare_counts(files)
    assert np.array_equal(bare, 3 * bare_counts.bare_counts(files[:1]))
    assert np.array_equal(measures._local(folder, 1)().sums["pairs"][0], weights[0] * bare)
    if kind == "parquet":
        found = measures.local(tmp_path, 1500, 2)
        assert found["sums"] == measures.expected_sums(tmp_path, 1500)
        assert found["driver_megabytes"] > 10


def test_steps_are_timed_without_the_first_which_reads(tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(steps, "PART_ROWS", 500)
    monkeypatch.setattr(steps.torch, "set_num_threads", lambda _: None)  # of all tests that follow
    found = steps.steps(tmp_path, 1500, "local", 1, 2)
    assert found["steps_per_second"] == 2 / found["seconds"] and found["start_seconds"] > 0
    assert scale_run._steps_row(found)[-1] == ""  # there is no worker


def test_what_misses_a_goal_is_told():
    race = {"ratio": 0.8}
    good = {
        "one core": {"parquet": race, "csv": race},
        "expected": {"sums": "a"},
        "local 1": {"sums": "a", "seconds": 9.0},
        "ray 1": {"sums": "a", "seconds": 10.0},
        "ray 2": {"sums": "a", "seconds": 5.5},
    }
    assert scale_run._missed(good) == []
    bad = good | {"one core": {"csv": {"ratio": 0.6}}, "local 1": {"sums": "b"}, "ray 2": {"sums": "a", "seconds": 6.0}}
    assert [problem.partition(":")[0] for problem in scale_run._missed(bad)] == ["csv", "local 1", "two workers"]
