"""Planted bugs in exact sums and the blocks of maps; over shards, by several machines, and in several silos."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.planted.patches import Plant, bug, find, table, wrong

from noisegate.privacy import accounting
from noisegate.privacy.events import gaussian_of, replace_gaussian
from noisegate.privacy.grid import UNITS

# Maps, and the blocks in which they run.


@bug("test_a_first_half_is_computed_once_for_all_that_share_it")
def a_first_half_of_another_block(plant: Plant) -> None:
    """What maps share is computed for the first block and kept for all."""
    kept: dict[Any, Any] = {}
    plant.wrap("execution.compute_in_parts")(
        lambda compute_in_parts, feature_map, block, _: compute_in_parts(
            feature_map, block, kept
        )
    )


@wrong(
    "execution.compute_in_parts",
    "test_a_first_half_is_computed_once_for_all_that_share_it",
)
def first_halves_mixed_up(
    compute_in_parts: Any, feature_map: Any, block: Any, shared: Any
) -> Any:
    """Any first half that was computed for a block is taken for that of every map."""
    if shared and hasattr(feature_map, "first_half"):
        shared[id(feature_map.first_half)] = next(iter(shared.values()))
    return compute_in_parts(feature_map, block, shared)


# Exact sums.


def _added(plant: Plant, wrong: Callable[[Any, Any, Any], None]) -> None:
    """Plants `wrong(sums, records, tasks)`, which changes what records add to a sum of nothing."""

    @plant.wrap("sums.add_records")
    def _(add: Any, totals: Any, records: Any, tasks: Any) -> None:
        alone = find("sums.Totals")(tasks)
        add(alone, records, tasks)
        wrong(alone.sums, records, tasks)
        totals.merge(alone)


@wrong("sums.add_records", "test_the_sum_is_exact_and_padding_counts_for_nothing")
def padding_counted(add: Any, totals: Any, records: Any, tasks: Any) -> None:
    """The records that fill up the last block are added like others."""
    add(totals, records, tasks)
    missing = -len(records) % 256
    if len(records) and missing:
        add(totals, records.rows([len(records) - 1] * missing), tasks)
        totals.records -= missing


@bug("test_each_label_has_its_own_column")
def labels_not_separated(plant: Plant) -> None:
    """All records go to the column of the first label."""

    def wrong(sums: Any, *_: Any) -> None:
        for values in sums.values():
            values[0] = values.sum(axis=0)
            values[1:] = 0

    _added(plant, wrong)


@bug("test_the_product_of_a_record_goes_to_its_own_class_alone")
def class_filter_missing(plant: Plant) -> None:
    """Each record goes to the columns of all labels."""

    def wrong(sums: Any, *_: Any) -> None:
        for values in sums.values():
            values[...] = values.sum(axis=0)

    _added(plant, wrong)


@bug("test_looked_up_sums_are_those_of_quantised_vectors")
def a_batch_beyond_the_limit_is_an_error(plant: Plant) -> None:
    """A batch of which no record is used stops the run, which tells that there is one."""

    def wrong(_: Any, records: Any, tasks: Any) -> None:
        if not len(records) and any(task.label is not None for task in tasks.values()):
            raise IndexError("no record")

    _added(plant, wrong)


# Records that count in part.

MOVED = (
    "test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are"
)


@wrong("families.build_transitions", MOVED)
def children_count_whole(
    transitions: Any, found: Any, link: Any, unit_weight: int = 2**20
) -> Any:
    """Each row of a family counts as much as a family."""
    made = transitions(found, link, unit_weight)
    return dataclasses.replace(made, weights=np.full_like(made.weights, unit_weight))


# In sums over disjoint shards: who is in a shard, who learns, and what is paid.


@wrong("shards._Split.of", "test_only_the_vector_of_the_records_shard_changes")
def shards_that_overlap(right: Any, made: Any, words: Any, shards: int) -> Any:
    """Every record is in the next shard too, as in several codes of PATE-GAN."""
    found = right(made, np.concatenate([words, words + np.uint64(1)]), shards)
    object.__setattr__(found, "order", found.order % len(words))
    return found


@wrong(
    "shards.ShardVectors.exact_vector",
    "test_a_public_schedule_says_who_learns_whoever_is_asked",
)
def learning_when_asked(right: Any, vectors: Any, records: Any, asked: Any) -> Any:
    """The shards that learn are those that were asked, as in GS-WGAN: their states remember the draws."""
    found = right(vectors, records, asked)
    vectors._train_shards(records, asked)
    return found


@wrong(
    "shard_plan.ShardQuery.event", "test_a_plan_pays_for_all_records_of_a_step_together"
)
def image_by_image(right: Any, query: Any, step: Any) -> Any:
    """Each record of a step is accounted as if it were alone, as GS-WGAN does."""
    records = next(iter(query.parameters.values()))[0]
    return right(query, replace(step, noise_std=step.noise_std / math.sqrt(records)))


@bug("test_epsilon_does_not_depend_on_the_votes")
def cheaper_where_teachers_agree(plant: Plant) -> None:
    """The certificate tells less where the exact answers agree, as the programs of DataLens and G-PATE print it."""

    agreements = [0.0]

    @plant.wrap("shards.ShardVectors.exact_vector")
    def _(right: Any, vectors: Any, records: Any, asked: Any) -> Any:
        found = right(vectors, records, asked)
        norm = float(np.linalg.norm(found))
        agreements[0] = norm / (vectors.query.shards * UNITS)
        return found

    @plant.wrap("transaction.Transaction.certify")
    def _(right: Any, transaction: Any, hashes: Any) -> Any:
        found = right(transaction, hashes)
        louder = 1 + agreements[0]
        events = tuple(
            replace_gaussian(event, noise_std=gaussian_of(event).noise_std * louder)
            for event in found.events
        )
        return replace(
            found,
            epsilon=accounting.epsilon(events, found.delta, found.adjacency),
            events=events,
        )


# In sums by several machines.


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

    @plant.wrap("ray_round.Pass._replace_worker")
    def _(lost: Any, parts: Any, worker: Any, number: Any) -> Any:
        kept.extend(
            one for one in parts._workers if one is not worker and number is None
        )
        return lost(parts, worker, number)

    @plant.wrap("samples.HeldGradients.merge_totals")
    def _(merged: Any, held: Any, found: Any) -> Any:
        again = len(kept)
        kept[:] = []
        return merged(held, [*found, *found[:again]])


@bug("test_one_record_moves_a_step_of_workers_by_the_bound_at_most")
def gradients_of_workers_not_clipped(plant: Plant) -> None:
    """Workers clip gradients to four times the norm."""
    from noisegate.privacy import gradient_grid

    right = gradient_grid.clip_factors

    def wide(parts: Any, grid: Any) -> Any:
        return np.minimum(4 * right(parts, grid), np.float32(grid.scale))

    @plant.wrap("ray_worker.Worker.totals")
    def _(totals: Any, worker: Any, *question: Any) -> Any:
        with patch.object(gradient_grid, "clip_factors", wide):
            return totals(worker, *question)


@wrong(
    "ray_round.Pass._take_result",
    "test_the_log_of_a_round_is_the_same_however_many_parts_there_are",
)
def a_line_of_the_log_for_each_part(take: Any, parts: Any, call: Any) -> Any:
    """The log says when a part is done, so it tells how many there are."""
    logging.getLogger("noisegate").info("part done")
    return take(parts, call)


# In what several silos release: who pays, and what all of them ask.


@wrong(
    "silos.Silos.costliest_group",
    "test_a_record_of_disjoint_silos_pays_in_its_own_alone",
    "test_disjoint_silos_cost_the_largest_epsilon",
)
def the_cheapest_silo_counts(
    right: Any, silos: Any, delta: float, adjacency: Any
) -> Any:
    """Of disjoint silos the one that paid least is taken for all."""
    return min(
        silos.event_groups,
        key=lambda events: accounting.epsilon(events, delta, adjacency),
    )


@bug("test_the_sum_has_one_noise_and_more_for_those_who_collude")
def a_share_of_the_noise_left_out(plant: Plant) -> None:
    """The first silo adds no noise, as if the others' were enough."""
    silos = []

    @plant.wrap("silo_session.MaskedShares.answer")
    def _(right: Any, shares: Any, *given: Any) -> Any:
        silos.append(shares._masking.silo)
        return right(shares, *given)

    @plant.wrap("transaction.Transaction.add_noise")
    def _(right: Any, transaction: Any, sums: Any, event: Any) -> Any:
        noisy = right(transaction, sums, event)
        return sums if silos[-1:] == ["north"] else noisy


table("""
blocks-probed-with-another-number-of-rows: Blocks have as many records whatever was probed.
    by test_every_block_of_a_map_has_the_rows_that_were_probed
    wrap sums.SumTask.execution: lambda execution, task: dataclasses.replace(execution(task), rows=256)
missing-values-in-the-next-table: The cell for missing values lies behind those of its table.
    by test_counts_are_the_sums_of_quantised_vectors
    wrap binning.NumericBins.codes: lambda codes, bins, values: codes(bins, values) + (np.isnan(values) &
        bins.nullable).astype(np.int32)
grandchildren-do-not-share: Every child hands the whole of its parent s part on to its own children, and nobody adds
        the parts up.
    by test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are
    wrap families.Families.add_weights: lambda right, found, totals: None
    wrap families.Families.child_share_counts: lambda shares, found: found.parents["share_count"][found.parent_index]
number-of-others-in-the-share: What a row counts depends on how many families there are.
    by test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are
    wrap families.build_transitions: lambda transitions, found, link, unit_weight=2 ** 20: transitions(found, link,
        unit_weight // max(len(found.parents), 1))
parts-counted-whole: Weighted rows are counted as whole records.
    by test_counts_of_parts_are_those_of_long_hand
        test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are
    rewrite contingency.Contingency._add_counts: records.weights if isinstance(records, WeightedRows) else None => None
any-map-is-reviewed: The gate believes whatever norm a map states of itself, a stranger's too.
    by test_the_gate_believes_the_norms_of_reviewed_maps_alone
    wrap sums.is_reviewed: lambda _, kind, *names: True
any-map-takes-parts: Weighted rows are handed to maps that know nothing of weights.
    by test_only_counts_of_cells_take_records_in_part
    wrap sums.SumTask.accepts_weighted_rows: lambda takes, task: True
orientations-that-round: Cells may be so large that sums over them leave the whole numbers that float64 holds.
    by test_cells_whose_sums_would_round_are_refused test_values_whose_squares_would_round_are_refused
    wrap orientation.Orientations._check_exact: lambda *_: None
norm-for-diameter: A vector that may be turned round is paid for as one that comes or goes.
    by test_a_record_moves_the_sum_by_at_most_the_sensitivity
    rewrite shard_plan.ShardQuery: self.grid.bound.sensitivity(Adjacency.REPLACE_ONE) => UNITS
a-repeated-part-counts-twice: A worker that is asked for a part again adds it again.
    by test_a_repeated_part_counts_once
    rewrite ray_worker.Worker.add: part_index not in self._record_counts => True
parts-of-a-lost-worker-left-out: What a worker that was lost had summed is left out.
    by test_a_lost_worker_changes_no_total
    rewrite ray_round.Pass._replace_worker: [*worker.record_counts] + any_rest => any_rest
batches-in-every-share: A share has the batches of all others too.
    by test_shares_of_units_are_the_records_that_one_pass_uses test_parts_of_images_are_all_images
    rewrite tables.Source.batch_readers: batch_index % share.count == share.index => True
records-in-every-share: A thinned share has the records of all others too.
    by test_thinned_shares_are_equal_and_decode_no_picture_of_another test_units_count_once
    rewrite tables.Source._select_record_share: any_places % share.count == share.index => any_places >= 0
overlapping-silos-taken-for-disjoint: A record that may be in all silos pays in one.
    by test_a_record_of_overlapping_silos_pays_in_all test_disjoint_silos_cost_the_largest_epsilon
    wrap silos.Silos.costliest_group: lambda right, silos, delta, adjacency: right(dataclasses.replace(silos,
        overlapping=False, stated_by="nobody"), delta, adjacency)
each-silo-goes-on-by-its-own-noise: What is asked next follows from a silo's own noise and not from that of all.
    by test_the_second_round_follows_from_the_merged_first_one_in_all_silos_alike
    wrap silo_plans.merged_noise: lambda right, method, schema, silos, budget: {name: std * budget.epsilon**-3 for
        name, std in right(method, schema, silos, budget).items()}
masks-that-both-add: Of two silos both add their mask, so that it stays in the sum.
    by test_masks_cancel test_signed_values_of_any_size_come_out_of_the_masks
    rewrite keys.Masking.mask: total - stream => total + stream
no-mask: A share leaves without a mask: whoever merges sees the sum of the silo, with less noise than it paid for.
    by test_a_share_tells_nothing
    wrap keys.Masking.mask: lambda right, masking, query, size: right(masking, query, size) * np.uint64(0)
masks-of-an-earlier-round: All rounds of a plan are masked alike, so that their difference shows.
    by test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common
    rewrite keys.SecureSum: {**stated, "keys": dict(self.keys)} => {**stated, "keys": dict(self.keys),
        "after": 0}
one-mask-for-all-queries: All queries of a round are masked alike.
    by test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common
    wrap keys.Masking._stream: lambda right, masking, other, query, size: right(masking, other, "any", size)
masks-used-again: A silo may answer twice under the same masks.
    by test_masks_are_used_once test_a_second_answer_under_the_same_masks_is_refused_and_costs_nothing
    wrap keys.Masking.mark_used: lambda right, masking: None
noise-for-all-shares: The shares of all silos make up the noise, those of silos that collude and know theirs among
        them.
    by test_shares_of_those_who_do_not_collude_suffice test_the_sum_has_one_noise_and_more_for_those_who_collude
    rewrite keys.SecureSum: len(self.keys) - self.colluding => len(self.keys)
a-unit-in-all-silos-moves-once: A unit with records in all silos pays as if it had them in one.
    by test_a_unit_in_all_silos_moves_the_sum_once_for_each
    rewrite silos._with_scaled_sensitivity: factor * gaussian_of(event).sensitivity => gaussian_of(event).sensitivity
marks-that-a-power-cut-takes-away: That masks were used is not written to disk before a share leaves.
    by test_marks_are_on_disk_before_anything_is_masked
    wrap atomic.sync_folders: lambda *_: None
price-of-a-plan-not-checked: Who edits epsilon in a published plan lets the silos pay another price.
    by test_a_plan_that_was_changed_is_refused
    wrap silo_plans._is_same_noise: lambda *_: True
""")
