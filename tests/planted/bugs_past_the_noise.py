"""Planted bugs that the noise does not cover: a private number in a log, a warning, a shape, a divisor or a file."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table

BLIND = "test_nothing_that_leaves_a_fit_knows_more_than_its_noise"
SUMS, STEPS, IMAGES = f"{BLIND}[dp-merf]", f"{BLIND}[dp-llm]", f"{BLIND}[dp-mge]"
SILO, LINE = "test_nothing_is_known_of_a_silo", "test_nothing_is_known_to_the_command_line"
STOPPED = "test_nothing_is_known_to_a_run_that_stopped_or_to_what_goes_on"
DISCOVERED, UNITS = "test_nothing_is_known_to_a_discovery", "test_nothing_is_known_of_units"


def _of_the_number(plant: Plant, tell: Callable[[int], Any]) -> None:
    """Tells the private number of records of every pass."""

    @plant.wrap("session.Session._check_records")
    def _(right: Any, session: Any, seen: int, link: Any = None) -> Any:
        tell(seen)
        return right(session, seen, link)


@bug(SUMS, STEPS, f"{BLIND}[linked]", f"{BLIND}[mst]", SILO, DISCOVERED, UNITS, LINE, STOPPED)
def number_of_records_in_the_log(plant: Plant) -> None:
    """The log says how many records were read."""
    _of_the_number(plant, lambda seen: logging.getLogger("noisegate").info("%d records", seen))


@bug(SUMS, STEPS, IMAGES)
def warning_of_few_records(plant: Plant) -> None:
    """A warning says that there are few records, and how many."""
    _of_the_number(plant, lambda seen: seen < 50 and warnings.warn(f"only {seen} records", UserWarning, stacklevel=2))


@bug(SUMS, STEPS)
def number_of_records_in_the_model(plant: Plant) -> None:
    """A file of the model has the true number of records beside its tensors."""
    numbers: list[int] = []
    _of_the_number(plant, numbers.append)

    @plant.wrap("folder.write_model")
    def _(right: Any, folder: Any, *, release: Any, tensors: Any, model: Any) -> Any:
        return right(folder, release=release, tensors={**tensors, "records": np.array(numbers[-1:])}, model=model)


def _of_answers(plant: Plant, changed: Callable[[Any, int], Any]) -> None:
    """Changes the noisy answers of a release by the private number of records."""
    numbers: list[int] = []
    _of_the_number(plant, numbers.append)

    @plant.wrap("session.Session._release")
    def _(right: Any, session: Any, values: Any, stds: Any) -> Any:
        return right(session, {name: changed(value, numbers[-1]) for name, value in values.items()}, stds)


@bug(STEPS, f"{BLIND}[dp-gan]", STOPPED)
def divisor_of_the_sample(plant: Plant) -> None:
    """A noisy step is divided by how many records are in its sample."""
    numbers: list[int] = []

    @plant.wrap("samples.PoissonSamples.places")
    def _(right: Any, *given: Any) -> Any:
        found = right(*given)
        numbers.append(max(len(found), 1))
        return found

    plant.wrap("gradients_query.StepSession._unpacked")(
        lambda right, session, noisy: {name: value / numbers[-1] for name, value in right(session, noisy).items()}
    )


table(
    """
private-divisor: Noisy sums are divided by the exact number of records, noise and all.
    by test_nothing_that_leaves_a_fit_knows_more_than_its_noise[dp-merf]
        test_nothing_that_leaves_a_fit_knows_more_than_its_noise[aim] test_nothing_is_known_of_a_silo
    answers: lambda value, records: value / records
shape-of-the-records: There are as many noisy numbers as there are records.
    by test_nothing_is_known_of_a_silo[False]
    answers: lambda value, records: np.resize(value, (records, 1))
skipped-images-told: A run tells how many images it left out.
    by test_nothing_that_leaves_a_fit_knows_more_than_its_noise[dp-mge]
    wrap run_folder.Observer.queried: lambda right, observer, gate: observer.say(f'{gate.skipped} images were left out')
        or right(observer, gate)
skipped-images-told-wherever-it-is-kept: The command line tells how many images it left out, though what it tells is
        redirected.
    by test_nothing_is_known_to_the_command_line[images]
    rewrite cli_fit: gate.skipped and ERR.is_terminal => gate.skipped
""",
    answers=_of_answers,
)
