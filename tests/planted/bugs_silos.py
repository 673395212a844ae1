"""Planted bugs in what several silos release: who pays, and what all of them ask."""

from __future__ import annotations

from typing import Any

from tests.planted.patches import table, wrong

from noisegate.privacy import accounting


@wrong(
    "silos.Silos.costliest",
    "test_a_record_of_disjoint_silos_pays_in_its_own_alone",
    "test_disjoint_silos_cost_the_largest_epsilon",
)
def the_cheapest_silo_counts(right: Any, silos: Any, delta: float, adjacency: Any) -> Any:
    """Of disjoint silos the one that paid least is taken for all."""
    return min(silos.groups, key=lambda events: accounting.epsilon(events, delta, adjacency))


@wrong("session.Session._noisy", "test_the_sum_has_one_noise_and_more_for_those_who_collude")
def a_share_of_the_noise_left_out(right: Any, session: Any, sums: Any, event: Any) -> Any:
    """The first silo adds no noise, as if the others' were enough."""
    noisy = right(session, sums, event)
    masking = getattr(session, "_masking", None)
    return sums if masking is not None and masking.silo == "north" else noisy


table("""
overlapping-silos-taken-for-disjoint: A record that may be in all silos pays in one.
    by test_a_record_of_overlapping_silos_pays_in_all test_disjoint_silos_cost_the_largest_epsilon
    wrap silos.Silos.costliest: lambda right, silos, delta, adjacency: right(dataclasses.replace(silos,
        overlapping=False, stated_by="nobody"), delta, adjacency)
each-silo-goes-on-by-its-own-noise: What is asked next follows from a silo's own noise and not from that of all.
    by test_the_second_round_follows_from_the_merged_first_one_in_all_silos_alike
    wrap silo_rounds.merged_noise: lambda right, method, schema, silos, budget: {name: std * budget.epsilon**-3 for
        name, std in right(method, schema, silos, budget).items()}
masks-that-both-add: Of two silos both add their mask, so that it stays in the sum.
    by test_masks_cancel test_signed_values_of_any_size_come_out_of_the_masks
    rewrite keys.Masking.mask: total - stream => total + stream
no-mask: A share leaves without a mask: whoever merges sees the sum of the silo, with less noise than it paid for.
    by test_a_share_tells_nothing
    wrap keys.Masking.mask: lambda right, masking, query, size: right(masking, query, size) * np.uint64(0)
masks-of-an-earlier-round: All rounds of a plan are masked alike, so that their difference shows.
    by test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common
    rewrite keys.SecureSum: {**vars(self), "keys": dict(self.keys)} => {**vars(self), "keys": dict(self.keys),
        "after": 0}
one-mask-for-all-queries: All queries of a round are masked alike.
    by test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common
    wrap keys.Masking._stream: lambda right, masking, other, query, size: right(masking, other, "any", size)
masks-used-again: A silo may answer twice under the same masks.
    by test_masks_are_used_once test_a_second_answer_under_the_same_masks_is_refused_and_costs_nothing
    wrap keys.Masking.begin: lambda right, masking: None
noise-for-all-shares: The shares of all silos make up the noise, those of silos that collude and know theirs among
        them.
    by test_shares_of_those_who_do_not_collude_suffice test_the_sum_has_one_noise_and_more_for_those_who_collude
    rewrite keys.SecureSum: len(self.keys) - self.colluding => len(self.keys)
a-unit-in-all-silos-moves-once: A unit with records in all silos pays as if it had them in one.
    by test_a_unit_in_all_silos_moves_the_sum_once_for_each
    rewrite silos._moved: times * event.sensitivity => event.sensitivity
marks-that-a-power-cut-takes-away: That masks were used is not written to disk before a share leaves.
    by test_marks_are_on_disk_before_anything_is_masked
    wrap atomic.sync_folders: lambda *_: None
price-of-a-plan-not-checked: Who edits epsilon in a published plan lets the silos pay another price.
    by test_a_plan_that_was_changed_is_refused
    rewrite rounds._check_price: set(noise) != set(own) or any_difference => False
""")
