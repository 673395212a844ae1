"""Every planted bug is found by its tests, and none is planted by itself: see `patches.py` and `run.py`."""

import pytest
from tests.planted.all_bugs import BUGS, MADE_UP
from tests.planted.finders import located
from tests.planted.patches import CannotPlantError, Plant
from tests.planted.run import check


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_a_planted_bug_fits_the_library(bug):
    """The quick half: whether each is found, `make test-slow` says. One that stays would not fit a second time."""
    with Plant() as plant:
        bug.apply(plant)
        assert plant.patches


@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_the_tests_that_a_bug_names_are_there(bug):
    assert all(located(test) for test in bug.tests)


@pytest.mark.slow
def test_the_named_tests_pass_when_nothing_is_planted():
    assert "passed" in check(None)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    told = check(bug)
    if told.startswith("SKIPPED"):
        pytest.skip(told)


@pytest.mark.parametrize(
    "seam", ["no_such_seam", "grid.NoSuchClass", "grid.Grid.no_such_method"]
)
def test_a_bug_whose_target_is_gone_is_an_error_and_not_a_success(seam):
    with (
        Plant() as plant,
        pytest.raises(CannotPlantError, match=seam.rpartition(".")[2]),
    ):
        plant.wrap(seam)(lambda right: right())


@pytest.mark.parametrize(
    ("old", "times"), [("no_such_name", 0), ("self.nonnegative", 2), ("pass", 0)]
)
def test_a_rewrite_that_does_not_fit_exactly_once_is_an_error(old, times):
    with (
        Plant() as plant,
        pytest.raises(CannotPlantError, match=f"{times} times, not once"),
    ):
        plant.rewrite("grid.GridBound", old, "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("harmless", "MISSED packages/noisegate/tests/privacy/test_bounded.py"),
        (
            "found-by-half",
            "MISSED packages/noisegate/tests/privacy/test_gaussian_mechanism.py",
        ),
        (
            "broken",
            "BROKEN packages/noisegate/tests/privacy/test_bounded.py.* AttributeError",
        ),
        ("gone", "cannot be planted: grid.NoSuchClass"),
    ],
)
def test_what_finds_nothing_is_not_taken_for_found(name, message):
    with pytest.raises(AssertionError, match=message):
        check(MADE_UP[name])
