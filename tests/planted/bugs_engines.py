"""Planted bugs in sums by several machines."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong


@wrong(
    "ray_worker.Worker.begin",
    "test_a_round_begins_with_nothing",
    "test_a_run_over_a_cluster_that_is_played_has_the_bits_of_one_machine",
)
def sums_of_the_round_before(begin: Any, worker: Any, job: Any, layout: Any) -> Any:
    """A worker keeps what it added up in the round before."""
    before = worker._job.total()
    told = begin(worker, job, layout)
    now = worker._job.total()
    for name in set(before.sums) & set(now.sums):
        now.sums[name] += before.sums[name]
    now.records += before.records
    return told


@bug("test_a_lost_worker_changes_no_step")
def answers_before_a_loss_count_twice(plant: Plant) -> None:
    """Where a worker is lost in a step, what the others had answered is added to what all answer then."""
    kept: list[Any] = []

    @plant.wrap("ray_round.Pass._lost")
    def _(lost: Any, parts: Any, shift: Any, number: Any) -> Any:
        kept.extend(one for one in parts._shifts if one is not shift and number is None)
        return lost(parts, shift, number)

    @plant.wrap("samples.HeldGradients.merged")
    def _(merged: Any, held: Any, found: Any) -> Any:
        again, kept[:] = len(kept), []
        return merged(held, [*found, *found[:again]])


@bug("test_one_record_moves_a_step_of_workers_by_the_bound_at_most")
def gradients_of_workers_not_clipped(plant: Plant) -> None:
    """Workers clip gradients to four times the norm."""
    from noisegate.privacy import grid

    right = grid.clip_factors

    def wide(parts: Any, grid: Any) -> Any:
        return np.minimum(4 * right(parts, grid), np.float32(grid.scale))

    @plant.wrap("ray_worker.Worker.totals")
    def _(totals: Any, worker: Any, *question: Any) -> Any:
        with patch.object(grid, "clip_factors", wide):
            return totals(worker, *question)


table("""
a-repeated-part-counts-twice: A worker that is asked for a part again adds it again.
    by test_a_repeated_part_counts_once
    rewrite ray_worker.Worker.add: number not in self._parts => True
parts-of-a-lost-worker-left-out: What a worker that was lost had summed is left out.
    by test_a_lost_worker_changes_no_total
    rewrite ray_round.Pass._lost: [*shift.parts] + any_rest => any_rest
batches-in-every-share: A share has the batches of all others too.
    by test_shares_of_units_are_the_records_that_one_pass_uses test_parts_of_images_are_all_images
    rewrite tables.Source.unread: next(batches) % shares == share => True
records-in-every-share: A thinned share has the records of all others too.
    by test_thinned_shares_are_equal_and_decode_no_picture_of_another test_units_count_once
    rewrite tables.Source._kept: any_places % step == first => any_places >= 0
""")
