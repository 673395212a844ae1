"""Every planted privacy bug makes the suite fail, and without one it passes: see `planted_bugs.py`."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("planted_bugs.py")


def _load():
    spec = importlib.util.spec_from_file_location("planted_bugs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


planted = _load()


@pytest.mark.slow
def test_the_copy_passes_when_it_is_not_broken():
    assert "passed" in planted.check(None)


@pytest.mark.slow
@pytest.mark.parametrize("bug", planted.BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    assert planted.check(bug).startswith("tests/")


def test_a_bug_that_does_not_fit_is_an_error_and_not_a_success(tmp_path):
    planted.copy(tmp_path)
    for old in ("no such text", "import "):
        bug = planted.one("stale", planted.GRID, old, "", planted.T_GRID)
        with pytest.raises(ValueError, match="not once"):
            planted.plant(bug, tmp_path)


def test_a_change_that_breaks_nothing_is_not_taken_for_found():
    harmless = planted.one(
        "harmless", planted.BOUNDED, "square = self.units * self.units", "square = self.units**2", planted.T_BOUNDED
    )
    with pytest.raises(AssertionError, match="'harmless' was not found"):
        planted.check(harmless)


def test_a_copy_that_cannot_be_run_is_not_taken_for_found():
    broken = planted.one("broken", planted.BOUNDED, "square = self.units * self.units", "square =", planted.T_BOUNDED)
    with pytest.raises(AssertionError, match="exit code"):
        planted.check(broken)


@pytest.mark.parametrize("bug", planted.BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_still_fits_the_source(bug):
    """The quick half: whether each is found, `make test-slow` says."""
    for file, old, _ in bug.edits:
        assert (planted.ROOT / "src" / "noisegate" / file).read_text("utf-8").count(old) == 1
