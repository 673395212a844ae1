"""All planted bugs, each room's in a file of its own; and some that are made up, which the harness is tried on."""

from tests.planted import (  # noqa: F401 - each registers its bugs
    bugs_data,
    bugs_handed_out,
    bugs_methods,
    bugs_plans,
    bugs_privacy,
    bugs_sums,
)
from tests.planted.patches import BUGS as ALL
from tests.planted.patches import Plant, bug

BUGS = dict(ALL)
SENSITIVITY = "test_the_sensitivity_in_grid_units_is_rounded_up"


@bug(SENSITIVITY)
def harmless(plant: Plant) -> None:
    """Nothing is wrong."""
    plant.rewrite("grid.GridBound", "self.units * self.units", "self.units**2")


@bug(SENSITIVITY, "test_no_noise_to_speak_of_and_no_query_at_all")
def found_by_half(plant: Plant) -> None:
    """Only the first of its tests sees it."""
    plant.rewrite("grid.GridBound", "self.units * self.units", "self.units")


@bug(SENSITIVITY)
def broken(plant: Plant) -> None:
    """The library cannot be run at all."""
    plant.rewrite("grid.GridBound", "self.units * self.units", "self.no_such_units")


@bug(SENSITIVITY)
def gone(plant: Plant) -> None:
    """What it is about is not there any more."""
    plant.wrap("grid.NoSuchClass.sensitivity")(lambda right: right())


MADE_UP = {name: one for name, one in ALL.items() if name not in BUGS}
