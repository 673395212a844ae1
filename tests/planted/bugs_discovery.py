"""Planted bugs where something is chosen by the data: the discovery of a schema, and OpenDP's marginals."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug

ALONE = "test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files"
ALIKE = "test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more"
MOVED = "test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity"


@bug(ALONE)
def levels_without_threshold(plant: Plant) -> None:
    """Every level that occurs is seen."""
    plant.wrap("noise.noisy_counts_above")(
        lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std, threshold=1)
    )


@bug(ALIKE, MOVED)
def level_counted_twice(plant: Plant) -> None:
    """A record adds two to the count of its level."""

    @plant.wrap("exact_counts.LevelCounter.counts")
    def _(counts: Any, counter: Any) -> Any:
        names, numbers = counts(counter)
        return names, 2 * numbers


@bug(MOVED)
def look_counted_twice(plant: Plant) -> None:
    """A record adds two to its cell of a numeric column."""

    @plant.wrap("exact_counts.read_counts")
    def _(read_counts: Any, *arguments: Any, **options: Any) -> Any:
        found = read_counts(*arguments, **options)
        found.bins = {name: 2 * counts for name, counts in found.bins.items()}
        return found


@bug("test_bounds_and_levels_are_found")
def order_of_levels_from_the_data(plant: Plant) -> None:
    """Levels stand in the order in which the records have them."""

    @plant.wrap("findings.from_levels")
    def _(from_levels: Any, gap: Any, levels: Any, *more: Any) -> Any:
        found = from_levels(gap, levels, *more)
        if found.column is None:
            return found
        other = found.column.other
        return dataclasses.replace(found, column=dataclasses.replace(found.column, levels=(*levels, other)))


@bug(ALIKE)
def level_noise_halved(plant: Plant) -> None:
    """Counts of levels get half of their noise."""
    plant.wrap("noise.noisy_counts_above")(
        lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std / 2, threshold=threshold)
    )


@bug(ALONE)
def threshold_from_the_data(plant: Plant) -> None:
    """The most frequent level is always seen."""

    @plant.wrap("noise.noisy_counts_above")
    def _(above: Any, counts: Any, *, noise_std: float, threshold: int) -> Any:
        return above(counts, noise_std=noise_std, threshold=min(threshold, int(counts.max(initial=1))))


@bug("test_the_noise_on_both_looks_has_the_stated_scale")
def looks_without_noise(plant: Plant) -> None:
    """The counts along a column are exact."""
    plant.wrap("noise.add_noise")(lambda _, sums, **__: sums)


@bug("test_a_record_with_an_extreme_value_hardly_moves_the_bounds")
def bounds_from_exact_counts(plant: Plant) -> None:
    """Bounds are found in exact counts."""
    plant.rewrite(
        "discovery.SchemaGate._bounds",
        "occupied(any_noisy, any_std, any_zero)",
        "occupied(first.bins[name].astype(float), any_std, any_zero)",
    )


# Marginals that OpenDP chooses.


@bug("test_opendp_finds_the_cost_of_a_neighbour_within_the_plan")
def opendp_spends_twice(plant: Plant) -> None:
    """OpenDP is told to spend twice what was paid."""
    plant.wrap("marginal_plan.MarginalPlan.spendable")(lambda spendable, plan: 2 * spendable(plan))


@bug("test_marginals::test_a_refusal_of_the_ledger_comes_before_the_records")
def opendp_not_booked(plant: Plant) -> None:
    """Marginals are not booked."""
    plant.wrap("session.Session._reserve")(
        lambda reserve, session: None if type(session).__name__ == "MarginalSession" else reserve(session)
    )


@bug("test_every_record_becomes_its_public_cell")
def keys_read_off_the_records(plant: Plant) -> None:
    """The cells of a column are those that occur."""
    plant.wrap("marginals._read")(
        lambda read, *given: np.stack([np.unique(codes, return_inverse=True)[1] for codes in read(*given)])
    )


@bug("test_what_opendp_says_when_it_stops_is_not_passed_on")
def message_of_opendp_passed_on(plant: Plant) -> None:
    """What OpenDP says of the records is told."""
    plant.rewrite("marginals._run", "type(any_error).__name__", "str(any_error)")
