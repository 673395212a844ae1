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


@pytest.mark.parametrize("test", ["test_no_such_thing", "test_the_tests_that_a_bug_names_are_there::test_x"])
def test_a_test_that_is_not_there_is_an_error(test):
    with pytest.raises(CannotPlantError, match="there are 0 tests"):
        located(test)


@pytest.mark.slow
def test_the_named_tests_pass_when_nothing_is_planted():
    assert "passed" in check(None)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug):
    told = check(bug)
    if told.startswith("SKIPPED"):
        pytest.skip(told)


@pytest.mark.parametrize("seam", ["no_such_seam", "grid.NoSuchClass", "grid.Grid.no_such_method"])
def test_a_bug_whose_target_is_gone_is_an_error_and_not_a_success(seam):
    with Plant() as plant, pytest.raises(CannotPlantError, match=seam.rpartition(".")[2]):
        plant.wrap(seam)(lambda right: right())


@pytest.mark.parametrize(("old", "times"), [("no_such_name", 0), ("self.nonnegative", 2), ("pass", 0)])
def test_a_rewrite_that_does_not_fit_exactly_once_is_an_error(old, times):
    with Plant() as plant, pytest.raises(CannotPlantError, match=f"{times} times, not once"):
        plant.rewrite("grid.GridBound", old, "0")


def test_layout_and_names_do_not_matter_to_a_rewrite():
    from noisegate.privacy.events import Adjacency
    from noisegate.privacy.grid import GridBound

    bound = GridBound(units=3, nonnegative=True)
    assert bound.sensitivity(Adjacency.REPLACE_ONE) == 5
    with Plant() as plant:
        plant.rewrite("grid.GridBound", "any_root if (any_root*any_root)==any_square  else any_root + 1", "-any_root")
        assert bound.sensitivity(Adjacency.REPLACE_ONE) == -4
    assert bound.sensitivity(Adjacency.REPLACE_ONE) == 5


def test_a_wrapped_function_is_wrong_wherever_it_was_imported_before():
    from noisegate.privacy.accounting import mu_for

    right = mu_for(1.0, 1e-5)
    with Plant() as plant:
        plant.wrap("accounting.mu_for")(lambda mu_for, epsilon, delta: -mu_for(epsilon, delta))
        assert mu_for(1.0, delta=1e-5) == -right
    assert mu_for(1.0, 1e-5) == right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("harmless", "MISSED packages/noisegate/tests/privacy/test_bounded.py"),
        ("found-by-half", "MISSED packages/noisegate/tests/privacy/test_gaussian.py"),
        ("broken", "BROKEN packages/noisegate/tests/privacy/test_bounded.py.* AttributeError"),
        ("gone", "cannot be planted: grid.NoSuchClass"),
    ],
)
def test_what_finds_nothing_is_not_taken_for_found(name, message):
    with pytest.raises(AssertionError, match=message):
        check(MADE_UP[name])
