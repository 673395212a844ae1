"""Planted bugs in the price: accounting and compositions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong


def _is(event: Any, kind: str) -> bool:
    return type(event).__name__ == f"{kind}Event"


def _priced(plant: Plant, wrong: Callable[[list[Any], Any], list[Any]]) -> None:
    """Makes ε that of other events than those that were run: `wrong(events, adjacency)`."""

    @plant.wrap("accounting.epsilon")
    def _(epsilon: Any, events: Any, delta: float, *adjacency: Any, **options: Any) -> Any:
        relation = [*adjacency, *options.values()]
        return epsilon(wrong(list(events), relation[0] if relation else None), delta, *relation)


@bug("test_shares_are_relative_parts_of_mu_squared", "test_epsilon_follows_from_the_file_alone")
def only_the_dearest_question_paid(plant: Plant) -> None:
    """Of several Gaussian events only the one with the least noise is paid for."""

    def wrong(events: list[Any], _: Any) -> list[Any]:
        gaussians = [event for event in events if _is(event, "Gaussian")]
        dearest = min(gaussians, key=lambda event: event.noise_multiplier, default=None)
        return [event for event in events if event is dearest or not _is(event, "Gaussian")]

    _priced(plant, wrong)


@bug("test_events_of_all_records_are_exactly_gaussian")
def a_replaced_record_moves_once(plant: Plant) -> None:
    """A replaced record is paid for like an added one where every record is in every sample."""

    def wrong(events: list[Any], adjacency: Any) -> list[Any]:
        twice = getattr(adjacency, "value", "") == "replace-one"
        return [
            dataclasses.replace(e, noise_std=2 * e.noise_std)
            if twice and _is(e, "SampledGaussian") and e.rate == 1
            else e
            for e in events
        ]

    _priced(plant, wrong)


@bug("test_together_with_poisson_samples_they_are_refused")
def zcdp_beside_samples(plant: Plant) -> None:
    """Together with samples, what is stated in zCDP is left out instead of refused."""

    def wrong(events: list[Any], _: Any) -> list[Any]:
        sampled = any(_is(event, "SampledGaussian") for event in events)
        return [event for event in events if not (sampled and _is(event, "ZeroConcentrated"))]

    _priced(plant, wrong)


# Steps on samples.


@wrong("composition._normal_masses", "test_probabilities_are_rounded_up_by_their_error")
def probabilities_not_rounded_up(normal_masses: Any, places: Any) -> Any:
    """Probabilities of one step are taken for exact."""
    masses, errors = normal_masses(places)
    return masses, np.zeros_like(errors)


@wrong("composition.lattice_losses", "test_a_step_on_the_lattice_is_never_below_the_exact_one")
def losses_rounded_down(lattice_losses: Any, *arguments: Any) -> Any:
    """Losses between two points of the lattice go to the lower one."""
    right = lattice_losses(*arguments)
    return right and dataclasses.replace(right, first=right.first - 1)


@wrong("composition.lattice_losses", "test_points_that_are_found_badly_cost_tightness_and_nothing_else")
def misplaced_losses_not_raised(lattice_losses: Any, *arguments: Any) -> Any:
    """Losses are believed to be where they were looked for."""
    right = lattice_losses(*arguments)
    return right and dataclasses.replace(right, widened=0.0)


# Thresholds.


@wrong(
    "promise.tradeoff",
    "test_gaussian_sums_have_their_exact_curve",
    "test_no_threshold_on_the_noise_itself_beats_the_curve",
)
def an_attacker_who_sees_half(tradeoff: Any, certificate: Any) -> Any:
    """The curve of what an attacker catches is that of half of each epsilon."""
    curve = tradeoff(certificate)
    return dataclasses.replace(curve, pairs=tuple((epsilon / 2, delta) for epsilon, delta in curve.pairs))


table(
    """
only-one-step-paid: Of many steps, on samples or on all records, the first is paid for.
    by test_sampled_steps_cost_what_dp_accounting_says test_events_of_all_records_are_exactly_gaussian
    priced: lambda events, _: [dataclasses.replace(e, steps=1) if _is(e, 'SampledGaussian') else e for e in events]
rho-halved: Half of a mechanism's ρ is paid for.
    by test_events_in_zcdp_add_up
    priced: lambda events, _: [dataclasses.replace(e, rho=e.rho / 2) if _is(e, 'ZeroConcentrated') else e for e in
        events]
threshold-not-charged: That a level of one record may pass the threshold costs nothing.
    by test_the_accounted_cost_covers_the_exact_curve_and_not_much_more
    wrap accounting.sampler_slack: lambda slack, events, epsilon: slack([e for e in events if not _is(e,
        'ThresholdedGaussian')], epsilon)
threshold-charged-for-one-key: Of the levels of a record only one is charged for.
    by test_the_accounted_cost_covers_the_exact_curve_and_not_much_more
    wrap accounting.threshold_odds: lambda odds, events: odds([dataclasses.replace(e, keys=1) if _is(e,
        'ThresholdedGaussian') else e for e in events])
gaussians-beside-zcdp-not-paid: A Gaussian beside ρ-zCDP counts half.
    by test_gaussian_events_join_them_with_half_the_square_of_mu
    wrap accounting.rho_of_gaussian: lambda rho_of_gaussian, mu: rho_of_gaussian(mu) / 2
zcdp-conversion-without-delta: The conversion to ε forgets δ.
    by test_a_gaussian_costs_no_less_through_zcdp_than_exactly
    wrap accounting.zcdp_epsilon: lambda epsilon_of, rho, delta: epsilon_of(rho, 1.0)
discrete-noise-paid-as-continuous: The discrete Gaussian costs no more than a continuous one.
    by test_the_discrete_gaussian_is_charged_as_one_with_four_units_less_variance
    wrap accounting.effective_multiplier: lambda _, event: event.noise_multiplier
sampler-distance-not-paid: The distance of the fast samplers from the ideal adds nothing to δ.
    by test_the_rounded_gaussian_is_charged_its_distance_on_every_coordinate
        test_a_convolved_draw_is_charged_its_distance_on_every_coordinate_of_every_step
    wrap accounting.sampler_slack: lambda slack, events, epsilon: (slack(events, epsilon)[0],
        find("accounting.threshold_odds")(events))
convolved-noise-halved: Convolutions reach half of the width that was asked for.
    by test_multipliers_reach_the_width_and_stay_smooth
        test_a_calibrated_plan_with_a_fast_sampler_costs_what_was_asked_and_hardly_less
    wrap noise.reached: lambda reached, std: reached(std) / 2
one-level-only: Of the draws that are convolved, only the narrow one is made.
    by test_convolution::test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_rejected
    rewrite noise._convolved_gaussian: multipliers(any_std) => multipliers(any_std)[:1]
levels-not-smooth: Convolved draws leave gaps that the proof of their smoothness does not allow.
    by test_multipliers_reach_the_width_and_stay_smooth
    set noise._SMOOTH: 0.3
ties-not-resolved: A word that equals a boundary is continued by zeros instead of further random bits.
    by test_a_word_that_equals_a_boundary_is_continued
    wrap noise.GaussianTable.numbers: lambda numbers, table, words, _: numbers(table, words, lambda: 0)
boundaries-compared-once: Of the boundaries that share the leading bits of a word only one is looked at.
    by test_boundaries_below_a_word_are_counted_as_by_a_binary_search
    rewrite noise.GaussianTable: range(_COMPARED) => range(1)
rounding-of-the-transform-not-charged: What the Fourier transform gives is taken for exact.
    by test_a_composition_is_above_the_exact_convolution_of_its_parts_everywhere
    wrap composition._convolved: lambda convolved, *arguments: (convolved(*arguments)[0], 0.0)
rounding-of-products-not-bounded: The bound on the error of the transform leaves out the products between the
        transforms.
    by test_the_error_of_the_transform_is_bounded_and_small
    rewrite composition: any_moduli * (sums + gamma) => any_moduli * gamma / size
cut-tails-not-charged: The probability of losses beyond the lattice is dropped.
    by test_a_composition_is_above_the_exact_convolution_of_its_parts_everywhere
    wrap composition._composed: lambda composed, *arguments: dataclasses.replace(composed(*arguments), infinite=0.0)
only-the-present-record: Of both ways in which neighbours differ, the cheaper one is paid for.
    by test_one_step_costs_what_high_precision_says
    wrap composition.composed_epsilon: lambda epsilon_of, steps, pairs, delta: min(epsilon_of(steps, [pair], delta)
        for pair in pairs)
sampling-amplifies-twice: A step on a sample is accounted as if its record were sampled half as often.
    by test_a_single_step_costs_its_closed_form_and_hardly_more_on_the_lattice
    rewrite accounting.single_step_epsilon: gaussian_epsilon(shift, delta / rate) => gaussian_epsilon(shift, min(2 *
        delta / rate, 0.99))
""",
    _is=_is,
    priced=_priced,
)
