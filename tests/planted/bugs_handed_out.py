"""Planted bugs in what is handed out: certificates, releases, model folders; and in the audit that looks for bugs."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.planted.patches import Plant, bug

SAID = "test_what_a_certificate_may_not_say"
ARRAYS = "test_what_arrays_may_not_be"
AUDIT = "test_right_sums_stay_below_their_claim_and_are_seen"


@bug(
    "test_a_certificate_that_states_too_little_is_refused",
    "test_events_that_cost_more_than_is_stated_are_refused",
)
def certificate_always_true(plant: Plant) -> None:
    """Whatever ε a certificate states is taken for what its events cost."""
    plant.wrap("certificate.Certificate.check")(lambda _, certificate: certificate.epsilon)


@bug(SAID)
def any_noise_source_passes(plant: Plant) -> None:
    """Noise from a seed is as good as noise from the operating system."""

    @plant.wrap("certificate.Certificate.from_json")
    def _(from_json: Any, cls: Any, data: Any) -> Any:
        return from_json(cls, {**data, "noise_source": "operating system, unseeded"})


@bug(SAID)
def unknown_fields_pass(plant: Plant) -> None:
    """A certificate may say things that nobody understands."""
    plant.wrap("certificate._check_nothing_else")(lambda *_: None)


@bug(SAID)
def any_contributions_pass(plant: Plant) -> None:
    """A limit on the records of a unit may be stated without a unit column."""

    @plant.wrap("certificate.Certificate.check")
    def _(check: Any, certificate: Any) -> Any:
        free = certificate.contributions is not None and not certificate.unit.startswith("all records of one")
        return check(dataclasses.replace(certificate, contributions=None) if free else certificate)


@bug("test_what_the_certificate_does_not_speak_of_is_refused")
def hashes_not_checked(plant: Plant) -> None:
    """Other numbers than those that the certificate speaks of are read."""
    plant.rewrite("release", "array_hashes(any_arrays) != any_certificate.hashes", "False")


@bug(ARRAYS)
def no_noise_passes(plant: Plant) -> None:
    """A release may state that it has no noise."""
    plant.rewrite("release", "0 < any_std < math.inf", "True")


@bug(ARRAYS)
def data_hidden_in_a_deviation(plant: Plant) -> None:
    """Beside the standard deviation of a noise there may be other numbers."""
    plant.rewrite("release", "any_std.shape != (1,)", "any_std.size < 1")


@bug("test_text_beside_arrays_is_refused")
def text_beside_arrays_passes(plant: Plant) -> None:
    """A file of arrays may carry text that no hash covers."""
    plant.rewrite("release", "any_file.metadata()", "False")


@bug("test_a_link_in_the_folder_is_refused")
def links_pass(plant: Plant) -> None:
    """What is verified may lie elsewhere."""
    plant.rewrite("folder", "any_path.is_symlink()", "False")


@bug("test_a_page_that_states_less_is_noticed")
def page_not_bound(plant: Plant) -> None:
    """The page in plain words may say something else than the certificate."""
    plant.rewrite("folder", "any_page != render(any_certificate)", "False")


@bug("test_a_forged_certificate_with_right_hashes_is_noticed")
def events_not_bound(plant: Plant) -> None:
    """The certificate of a folder may be of other releases than the folder holds."""
    plant.wrap("folder._check_events")(lambda *_: None)


@bug("test_noise_that_costs_more_than_the_stated_rho_is_noticed")
def any_rho_passes(plant: Plant) -> None:
    """Tables with less noise than their ρ allows are believed to have cost it."""
    plant.wrap("folder._check_rho")(lambda *_: None)


@bug("test_shapes_of_what_was_trained_excuse_no_sum_over_all_records")
def any_sum_taken_for_trained(plant: Plant) -> None:
    """Any release may have another size than was paid for, if the certificate says that it was trained."""
    plant.rewrite("folder", "isinstance(any_events.get(any_name), SampledGaussianEvent)", "any_name in any_events")


# The audit itself.


@bug(AUDIT)
def an_audit_that_believes_the_quietest_noise(plant: Plant) -> None:
    """Noise is taken for as quiet as it may be, which says more of ε than is known."""

    @plant.wrap("audit_bounds.spread_limits")
    def _(spread_limits: Any, *arguments: Any, **options: Any) -> Any:
        low, _ = spread_limits(*arguments, **options)
        return low, low


@bug("test_limits_of_a_rate_are_exact")
def an_audit_that_takes_rates_as_they_are_found(plant: Plant) -> None:
    """How often an attacker was right is taken for how often it is right."""
    plant.wrap("audit_bounds.rate_limits")(lambda _, found, trials, chance: (found / trials, found / trials))


@bug("test_the_log_of_reading_tells_time_and_no_count")
def the_number_of_records_in_the_log(plant: Plant) -> None:
    """A line of the log tells how many records were read, rounded down."""
    plant.rewrite("progress.reading", "lambda _done: tell(0, '')", "lambda done: tell(0, f'over {done // 10_000:,}')")


@bug("test_ten_thousand_records_are_fitted_and_spent_once")
def many_records_stop_the_run(plant: Plant) -> None:
    """Whether a run ends well depends on whether it has ten thousand records."""
    plant.rewrite("runs._Work.release", "if read is not None: read(done)", "assert done < 10_000")


@bug(
    "test_an_event_with_other_noise_than_the_release_is_refused",
    "test_a_release_with_other_noise_than_its_event_is_refused",
)
def noise_of_events_not_compared(plant: Plant) -> None:
    """A certificate may state more noise than the values have."""
    plant.wrap("stated_noise.check_stated_noise")(lambda *_: None)


@bug("test_an_event_with_other_noise_than_the_release_is_refused")
def multiples_of_the_noise_believed(plant: Plant) -> None:
    """A certificate may state twice the noise that the values have, as whole numbers are whole on a finer grid too."""
    plant.rewrite("stated_noise._whole", "len(any_numbers) < _ENOUGH or any_rest", "True")
