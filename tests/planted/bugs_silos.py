"""Planted bugs in what several silos release: who pays, and what all of them ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
