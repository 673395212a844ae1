"""Planted bugs in the price: accounting and compositions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
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
    "public.tradeoff",
    "test_gaussian_sums_have_their_exact_curve",
    "test_no_threshold_on_the_noise_itself_beats_the_curve",
)
def an_attacker_who_sees_half(tradeoff: Any, certificate: Any) -> Any:
    """The curve of what an attacker catches is that of half of each epsilon."""
    curve = tradeoff(certificate)
    return dataclasses.replace(curve, pairs=tuple((epsilon / 2, delta) for epsilon, delta in curve.pairs))


table(Path(__file__).with_name("cost.txt").read_text(encoding="utf-8"), _is=_is, priced=_priced)


# Streams: what every period adds, and what one record pays for all of them.
table(
    """
noise-of-a-period-forgotten: No period takes earlier noise back, so that it adds up.
    by test_every_release_is_the_exact_total_with_the_stated_noise
    rewrite stream_session.StreamSession._answer: sums - taken_back(weights, before) => sums
noise-drawn-twice: A period that is played again gets fresh noise.
    by test_a_period_has_one_answer_and_its_records_no_second_one
    rewrite stream_session.StreamSession._answer: self._state.read(period, name) is None => True
matrix-priced-unrounded: The sensitivity is that of the matrix before it is rounded, and of noise that is not.
    by test_the_stated_sensitivity_is_that_of_the_rounded_matrix_and_of_rounded_noise[7]
    wrap accounting.continual_sensitivity: lambda right, weights, record, corrected, numbers: record * math.sqrt(
        corrected * sum(math.prod((2 * j - 1) / (2 * j) for j in range(1, k + 1)) ** 2 for k in range(len(weights))))
corrections-not-paid: A record that is amended pays like one that stays as it was.
    by test_a_record_moves_a_whole_stream_by_at_most_the_stated_sensitivity[amended-None]
    wrap stream_plans.Horizon.corrected: lambda right, horizon, query: 1
withdrawn-twice: What is withdrawn leaves the sums twice.
    by test_periods_add_up_under_the_cells_of_the_first
    rewrite stream_session._Periodic.sum: totals.sums[name] -= sums => totals.sums[name] -= 2 * sums
period-answered-again: Records that were released are released again, as those of another period.
    by test_a_period_has_one_answer_and_its_records_no_second_one
    wrap stream_state.StreamState.check_new: lambda right, *arguments, **options: None
noise-kept-for-ever: Noise that no later period takes back is not erased.
    by test_noise_that_no_later_period_takes_back_is_erased
    wrap stream_state.StreamState.forget: lambda right, *arguments: None
"""
)
