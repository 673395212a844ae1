"""Planted bugs in sums by several machines."""

from __future__ import annotations

from typing import Any

from tests.planted.patches import Plant, bug


@bug("test_a_repeated_part_counts_once")
def a_repeated_part_counts_twice(plant: Plant) -> None:
    """A worker that is asked for a part again adds it again."""
    plant.rewrite("ray_worker.Worker.add", "number not in self._parts", "True")


@bug("test_a_round_begins_with_nothing", "test_a_run_over_a_cluster_that_is_played_has_the_bits_of_one_machine")
def sums_of_the_round_before(plant: Plant) -> None:
    """A worker keeps what it added up in the round before."""

    @plant.wrap("ray_worker.Worker.begin")
    def _(begin: Any, worker: Any, tasks: Any, layout: Any) -> Any:
        before = worker._totals
        told = begin(worker, tasks, layout)
        for name in set(before.sums) & set(tasks):
            worker._totals.sums[name] += before.sums[name]
        worker._totals.records += before.records
        return told


@bug("test_a_lost_worker_changes_no_total")
def parts_of_a_lost_worker_left_out(plant: Plant) -> None:
    """What a worker that was lost had summed is left out."""
    plant.rewrite("ray_round.Pass._lost", "[*shift.parts] + any_rest", "any_rest")


@bug("test_shares_of_units_are_the_records_that_one_pass_uses", "test_parts_of_images_are_all_images")
def batches_in_every_share(plant: Plant) -> None:
    """A share has the batches of all others too."""
    plant.rewrite("tables.Source.unread", "next(batches) % shares == share", "True")
