"""Planted bugs in what several silos release: who pays, and what all of them ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug

from noisegate.privacy import accounting


@bug("test_a_record_of_disjoint_silos_pays_in_its_own_alone", "test_disjoint_silos_cost_the_largest_epsilon")
def the_cheapest_silo_counts(plant: Plant) -> None:
    """Of disjoint silos the one that paid least is taken for all."""

    @plant.wrap("silos.Silos.costliest")
    def _(right: Any, silos: Any, delta: float, adjacency: Any) -> Any:
        return min(silos.groups, key=lambda events: accounting.epsilon(events, delta, adjacency))


@bug("test_a_record_of_overlapping_silos_pays_in_all", "test_disjoint_silos_cost_the_largest_epsilon")
def overlapping_silos_taken_for_disjoint(plant: Plant) -> None:
    """A record that may be in all silos pays in one."""

    @plant.wrap("silos.Silos.costliest")
    def _(right: Any, silos: Any, delta: float, adjacency: Any) -> Any:
        return right(replace(silos, overlapping=False, stated_by="nobody"), delta, adjacency)


@bug("test_the_second_round_follows_from_the_merged_first_one_in_all_silos_alike")
def each_silo_goes_on_by_its_own_noise(plant: Plant) -> None:
    """What is asked next follows from a silo's own noise and not from that of all."""

    @plant.wrap("silo_rounds.merged_noise")
    def _(right: Any, method: Any, schema: Any, silos: Any, budget: Any) -> Any:
        return {name: std * budget.epsilon**-3 for name, std in right(method, schema, silos, budget).items()}


@bug("test_masks_cancel", "test_signed_values_of_any_size_come_out_of_the_masks")
def masks_that_both_add(plant: Plant) -> None:
    """Of two silos both add their mask, so that it stays in the sum."""
    plant.rewrite("masks.Masking.mask", "total - stream", "total + stream")


@bug("test_a_share_tells_nothing")
def no_mask(plant: Plant) -> None:
    """A share leaves without a mask: whoever merges sees the sum of the silo, with less noise than it paid for."""

    @plant.wrap("masks.Masking.mask")
    def _(right: Any, masking: Any, query: str, size: int) -> Any:
        return right(masking, query, size) * np.uint64(0)


@bug("test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common")
def masks_of_an_earlier_round(plant: Plant) -> None:
    """All rounds of a plan are masked alike, so that their difference shows."""
    plant.rewrite(
        "masks.SecureSum",
        '{**vars(self), "keys": dict(self.keys)}',
        '{**vars(self), "keys": dict(self.keys), "after": 0}',
    )


@bug("test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common")
def one_mask_for_all_queries(plant: Plant) -> None:
    """All queries of a round are masked alike."""

    @plant.wrap("masks.Masking._stream")
    def _(right: Any, masking: Any, other: str, query: str, size: int) -> Any:
        return right(masking, other, "any", size)


@bug("test_masks_are_used_once", "test_a_second_answer_under_the_same_masks_is_refused_and_costs_nothing")
def masks_used_again(plant: Plant) -> None:
    """A silo may answer twice under the same masks."""

    @plant.wrap("masks.Masking.begin")
    def _(right: Any, masking: Any) -> None:
        return None


@bug("test_the_sum_has_one_noise_and_more_for_those_who_collude")
def a_share_of_the_noise_left_out(plant: Plant) -> None:
    """The first silo adds no noise, as if the others' were enough."""

    @plant.wrap("session.Session._noisy")
    def _(right: Any, session: Any, sums: Any, event: Any) -> Any:
        noisy = right(session, sums, event)
        masking = getattr(session, "_masking", None)
        return sums if masking is not None and masking.silo == "north" else noisy


@bug("test_shares_of_those_who_do_not_collude_suffice", "test_the_sum_has_one_noise_and_more_for_those_who_collude")
def noise_for_all_shares(plant: Plant) -> None:
    """The shares of all silos make up the noise, those of silos that collude and know theirs among them."""
    plant.rewrite("masks.SecureSum", "len(self.keys) - self.colluding", "len(self.keys)")


@bug("test_a_unit_in_all_silos_moves_the_sum_once_for_each")
def a_unit_in_all_silos_moves_once(plant: Plant) -> None:
    """A unit with records in all silos pays as if it had them in one."""
    plant.rewrite("silos._moved", "times * event.sensitivity", "event.sensitivity")


@bug("test_marks_are_on_disk_before_anything_is_masked")
def marks_that_a_power_cut_takes_away(plant: Plant) -> None:
    """That masks were used is not written to disk before a share leaves."""
    plant.wrap("atomic.sync_folders")(lambda *_: None)


@bug("test_a_plan_that_was_changed_is_refused")
def price_of_a_plan_not_checked(plant: Plant) -> None:
    """Who edits epsilon in a published plan lets the silos pay another price."""
    plant.rewrite("published._check_price", "set(noise) != set(own) or any_difference", "False")
