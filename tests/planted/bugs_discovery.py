"""Planted bugs where something is chosen by the data: the discovery of a schema, and OpenDP's marginals."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.planted.patches import table, wrong

ALIKE = "test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more"
MOVED = "test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity"


@wrong("exact_counts.LevelCounter.counts", ALIKE, MOVED)
def level_counted_twice(counts: Any, counter: Any) -> Any:
    """A record adds two to the count of its level."""
    names, numbers = counts(counter)
    return names, 2 * numbers


@wrong("exact_counts.read_counts", MOVED)
def look_counted_twice(read_counts: Any, *arguments: Any, **options: Any) -> Any:
    """A record adds two to its cell of a numeric column."""
    found = read_counts(*arguments, **options)
    found.bins = {name: 2 * counts for name, counts in found.bins.items()}
    return found


@wrong("findings.from_levels", "test_bounds_and_levels_are_found")
def order_of_levels_from_the_data(from_levels: Any, gap: Any, levels: Any, *more: Any) -> Any:
    """Levels stand in the order in which the records have them."""
    found = from_levels(gap, levels, *more)
    if found.column is None:
        return found
    other = found.column.other
    return dataclasses.replace(found, column=dataclasses.replace(found.column, levels=(*levels, other)))


table("""
levels-without-threshold: Every level that occurs is seen.
    by test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files
    wrap noise.noisy_counts_above: lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std,
        threshold=1)
level-noise-halved: Counts of levels get half of their noise.
    by test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more
    wrap noise.noisy_counts_above: lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std /
        2, threshold=threshold)
threshold-from-the-data: The most frequent level is always seen.
    by test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files
    wrap noise.noisy_counts_above: lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std,
        threshold=min(threshold, int(counts.max(initial=1))))
looks-without-noise: The counts along a column are exact.
    by test_the_noise_on_both_looks_has_the_stated_scale
    wrap noise.add_noise: lambda _, sums, **__: sums
bounds-from-exact-counts: Bounds are found in exact counts.
    by test_a_record_with_an_extreme_value_hardly_moves_the_bounds
    rewrite discovery.SchemaGate._bounds: occupied(any_noisy, any_std, any_zero) =>
        occupied(first.bins[name].astype(float), any_std, any_zero)
opendp-spends-twice: OpenDP is told to spend twice what was paid.
    by test_opendp_finds_the_cost_of_a_neighbour_within_the_plan
    wrap marginal_plan.MarginalPlan.spendable: lambda spendable, plan: 2 * spendable(plan)
opendp-not-booked: Marginals are not booked.
    by test_marginals::test_a_refusal_of_the_ledger_comes_before_the_records
    wrap session.Session._reserve: lambda reserve, session: None if type(session).__name__ == "MarginalSession" else
        reserve(session)
keys-read-off-the-records: The cells of a column are those that occur.
    by test_every_record_becomes_its_public_cell
    wrap marginals._read: lambda read, *given: np.stack([np.unique(codes, return_inverse=True)[1] for codes in
        read(*given)])
message-of-opendp-passed-on: What OpenDP says of the records is told.
    by test_what_opendp_says_when_it_stops_is_not_passed_on
    rewrite marginals._run: type(any_error).__name__ => str(any_error)
""")
