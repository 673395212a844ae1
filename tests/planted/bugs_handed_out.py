"""Planted bugs in what is handed out, in the audit that looks for bugs, and in what is told past the noise."""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong

SAID = "test_what_a_certificate_may_not_say"
AUDIT = "test_right_sums_stay_below_their_claim_and_are_seen"


@wrong("certificate.Certificate.check", SAID)
def any_contributions_pass(check: Any, certificate: Any) -> Any:
    """A limit on the records of a unit may be stated without a unit column."""
    free = certificate.contributions is not None and not certificate.unit.startswith(
        "all records of one"
    )
    return check(
        dataclasses.replace(certificate, contributions=None) if free else certificate
    )


# The audit itself.


@wrong("audit_bounds.spread_limits", AUDIT)
def an_audit_that_believes_the_quietest_noise(
    spread_limits: Any, *arguments: Any, **options: Any
) -> Any:
    """Noise is taken for as quiet as it may be, which says more of ε than is known."""
    low, _ = spread_limits(*arguments, **options)
    return low, low


# That the noise does not cover: a private number in a log, a warning, a shape, a divisor or a file.


BLIND = "test_nothing_that_leaves_a_fit_knows_more_than_its_noise"
SUMS = f"{BLIND}[dp-merf]"
STEPS = f"{BLIND}[dp-llm]"
IMAGES = f"{BLIND}[dp-mge]"
SILO = "test_nothing_is_known_of_a_silo"
LINE = "test_nothing_is_known_to_the_command_line"
STOPPED = "test_nothing_is_known_to_a_run_that_stopped_or_to_what_goes_on"
DISCOVERED = "test_nothing_is_known_to_a_discovery"
UNITS = "test_nothing_is_known_of_units"


def _of_the_number(plant: Plant, tell: Callable[[int], Any]) -> None:
    """Tells the private number of records of every pass."""

    @plant.wrap("transaction.Transaction.check_record_count")
    def _(
        right: Any, transaction: Any, seen: int, link: Any = None, **options: Any
    ) -> Any:
        tell(seen)
        return right(transaction, seen, link, **options)


@bug(
    SUMS,
    STEPS,
    f"{BLIND}[linked]",
    f"{BLIND}[mst]",
    SILO,
    DISCOVERED,
    UNITS,
    LINE,
    STOPPED,
)
def number_of_records_in_the_log(plant: Plant) -> None:
    """The log says how many records were read."""
    _of_the_number(
        plant, lambda seen: logging.getLogger("noisegate").info("%d records", seen)
    )


@bug(SUMS, STEPS, IMAGES)
def warning_of_few_records(plant: Plant) -> None:
    """A warning says that there are few records, and how many."""
    _of_the_number(
        plant,
        lambda seen: (
            seen < 50
            and warnings.warn(f"only {seen} records", UserWarning, stacklevel=2)
        ),
    )


@bug(SUMS, STEPS)
def number_of_records_in_the_model(plant: Plant) -> None:
    """A file of the model has the true number of records beside its tensors."""
    numbers: list[int] = []
    _of_the_number(plant, numbers.append)

    @plant.wrap("folder.write_model")
    def _(right: Any, folder: Any, *, release: Any, tensors: Any, model: Any) -> Any:
        return right(
            folder,
            release=release,
            tensors={**tensors, "records": np.array(numbers[-1:])},
            model=model,
        )


def _of_answers(plant: Plant, changed: Callable[[Any, int], Any]) -> None:
    """Changes the noisy answers of a release by the private number of records."""
    numbers: list[int] = []
    _of_the_number(plant, numbers.append)

    @plant.wrap("transaction.Transaction.release")
    def _(right: Any, session: Any, values: Any, stds: Any) -> Any:
        return right(
            session,
            {name: changed(value, numbers[-1]) for name, value in values.items()},
            stds,
        )


@bug(STEPS, f"{BLIND}[dp-gan]", STOPPED)
def divisor_of_the_sample(plant: Plant) -> None:
    """A noisy step is divided by how many records are in its sample."""
    numbers: list[int] = []

    @plant.wrap("samples.PoissonSamples.indices")
    def _(right: Any, *given: Any) -> Any:
        found = right(*given)
        numbers.append(max(len(found), 1))
        return found

    plant.wrap("steps.Steps.take")(
        lambda right, steps, parameters: {
            name: value / numbers[-1]
            for name, value in right(steps, parameters).items()
        }
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
    wrap run_folder.LogObserver.queried: lambda right, observer, gate: observer.say(
        f'{gate.skipped} images were left out')
        or right(observer, gate)
skipped-images-told-wherever-it-is-kept: The command line tells how many images it left out, though what it tells is
        redirected.
    by test_nothing_is_known_to_the_command_line[images]
    rewrite cli_fit: gate.skipped and ERR.is_terminal => gate.skipped
""",
    answers=_of_answers,
)


table("""
many-records-stop-the-run: Whether a run ends well depends on whether it has ten thousand records.
    by test_ten_thousand_records_are_fitted_and_spent_once
    rewrite runs._ReadingProgress.__call__: if self.bar is not None: self.bar(record_count) =>
        assert record_count < 10_000
certificate-always-true: Whatever ε a certificate states is taken for what its events cost.
    by test_a_certificate_that_states_too_little_is_refused test_events_that_cost_more_than_is_stated_are_refused
    wrap certificate.Certificate.check: lambda _, certificate: certificate.epsilon
any-noise-source-passes: Noise from a seed is as good as noise from the operating system.
    by test_what_a_certificate_may_not_say
    wrap certificate.Certificate.from_json: lambda from_json, cls, data: from_json(cls, {**data, "noise_source":
        "operating system, unseeded"})
unknown-fields-pass: A certificate may say things that nobody understands.
    by test_what_a_certificate_may_not_say
    wrap certificate._check_fully_understood: lambda *_: None
hashes-not-checked: Other numbers than those that the certificate speaks of are read.
    by test_what_the_certificate_does_not_speak_of_is_refused
    rewrite release: array_hashes(any_arrays) != any_certificate.hashes => False
no-noise-passes: A release may state that it has no noise.
    by test_what_arrays_may_not_be
    rewrite release: 0 < std[0] < math.inf => True
data-hidden-in-a-deviation: Beside the standard deviation of a noise there may be other numbers.
    by test_what_arrays_may_not_be
    rewrite release: any_std.shape != (1,) => any_std.size < 1
text-beside-arrays-passes: A file of arrays may carry text that no hash covers.
    by test_text_beside_arrays_is_refused
    rewrite release: any_file.metadata() => False
links-pass: What is verified may lie elsewhere.
    by test_a_link_in_the_folder_is_refused
    rewrite folder: any_path.is_symlink() => False
page-not-bound: The page in plain words may say something else than the certificate.
    by test_a_page_that_states_less_is_noticed
    rewrite folder: any_page == render(any_certificate) => True
events-not-bound: The certificate of a folder may be of other releases than the folder holds.
    by test_a_forged_certificate_with_right_hashes_is_noticed
    wrap folder._check_events: lambda *_: None
any-rho-passes: Tables with less noise than their ρ allows are believed to have cost it.
    by test_noise_that_costs_more_than_the_stated_rho_is_noticed
    wrap folder._check_rho: lambda *_: None
any-sum-taken-for-trained: Any release may have another size than was paid for, if the certificate says that it was
        trained.
    by test_shapes_of_what_was_trained_excuse_no_sum_over_all_records
    rewrite folder: isinstance(any_events.get(any_name), StepEvent) => any_name in any_events
an-audit-that-takes-rates-as-they-are-found: How often an attacker was right is taken for how often it is right.
    by test_limits_of_a_rate_are_exact
    wrap audit_bounds.rate_limits: lambda _, found, trials, chance: (found / trials, found / trials)
the-number-of-records-in-the-file-of-a-run: What `--log` writes tells how many records were read.
    by test_the_file_of_a_run_is_the_same_for_any_number_of_records
    wrap runs._Execution._query: lambda right, run, ask, gate, *more: run.folder.record(f'{len(gate._data)} records')
        or right(run, ask, gate, *more)
the-number-of-records-in-the-log: A line of the log tells how many records were read, rounded down.
    by test_the_log_of_reading_tells_time_and_no_count
    rewrite progress.reading: lambda _done: tell(0, '') => lambda done: tell(0, f'over {done // 10_000:,}')
noise-of-events-not-compared: A certificate may state more noise than the values have.
    by test_an_event_with_other_noise_than_the_release_is_refused
        test_a_release_with_other_noise_than_its_event_is_refused
    wrap release.check_stated_noise: lambda *_: None
multiples-of-the-noise-believed: A certificate may state twice the noise that the values have, as whole numbers are
        whole on a finer grid too.
    by test_an_event_with_other_noise_than_the_release_is_refused
    rewrite release._are_on_grid: len(any_numbers) < _MIN_NUMBERS_FOR_DIVISOR or any_rest => True
""")
