"""The plugin that tries mutants, on a small module whose mutants are known."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # beside `make mutation`, which it is about

ROOT = Path(__file__).parents[2]

MODULE = """
import os


def double(x):
    mutant = os.environ["MUTANT_UNDER_TEST"]
    if mutant.endswith("_2"):
        return x + 2
    if mutant.endswith("_3"):
        os._exit(3)
    return 2 * x
"""
TESTS = """
import pytest
from room.small import double


def test_two():
    assert double(2) == 4


def test_five():
    assert double(5) == 10


@pytest.fixture
def postgres():
    raise AssertionError("no mutant is worth a server")


def test_server(postgres):
    assert double(0) == 0
"""
TWO, FIVE, SERVER = (f"test_small.py::test_{name}" for name in ("two", "five", "server"))


def verdicts(folder, covering):
    """Tries mutants 1 (none), 2 (found by the five alone) and 3 (ends the process)."""
    (folder / "room").mkdir()
    (folder / "room" / "small.py").write_text(MODULE)
    (folder / "test_small.py").write_text(TESTS)
    statistics = {"tests_by_mangled_function_name": {"room.small.x_double": covering}}
    statistics["duration_by_test"] = {TWO: 0.1, FIVE: 0.2, SERVER: 0.0}
    (folder / "mutmut-stats.json").write_text(json.dumps(statistics))
    (folder / "sample").write_text("".join(f"room.small.x_double__mutmut_{number}\n" for number in (1, 2, 3)))
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "MUTANT_UNDER_TEST": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.forked", "-p", "no:cacheprovider"]
    command += ["--mutants=sample", "--verdicts=verdicts", "--rootdir=.", "test_small.py"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    found = [line.split() for line in (folder / "verdicts").read_text().splitlines()]
    return {int(name[-1]): verdict for verdict, name in found}


def test_mutants_that_a_covering_test_notices_are_found(tmp_path):
    assert verdicts(tmp_path, [FIVE, SERVER, TWO]) == {1: "survived", 2: "found", 3: "found"}


def test_only_tests_that_call_the_function_are_asked(tmp_path):
    assert verdicts(tmp_path, [TWO, SERVER]) == {1: "survived", 2: "survived", 3: "found"}


def test_where_tests_fail_without_a_mutant_nothing_is_taken_for_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "MODULE", MODULE.replace("2 * x", "3 * x"))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        verdicts(tmp_path, [FIVE, TWO])
    assert "without any mutant" in caught.value.stdout.decode() + caught.value.stderr.decode()
    assert not (tmp_path / "verdicts").exists()


def test_a_mutant_that_no_test_calls_is_said_to_be_untested(tmp_path):
    assert set(verdicts(tmp_path, [SERVER]).values()) == {"untested"}
