"""Planted bugs in exact sums, and in the blocks in which maps run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, find, table, wrong

# Maps, and the blocks in which they run.


@bug("test_a_first_half_is_computed_once_for_all_that_share_it")
def a_first_half_of_another_block(plant: Plant) -> None:
    """What maps share is computed for the first block and kept for all."""
    kept: dict[Any, Any] = {}
    plant.wrap("execution.parts_of")(lambda parts_of, feature_map, block, _: parts_of(feature_map, block, kept))


@wrong("execution.parts_of", "test_a_first_half_is_computed_once_for_all_that_share_it")
def first_halves_mixed_up(parts_of: Any, feature_map: Any, block: Any, shared: Any) -> Any:
    """Any first half that was computed for a block is taken for that of every map."""
    if shared and hasattr(feature_map, "first_half"):
        shared[id(feature_map.first_half)] = next(iter(shared.values()))
    return parts_of(feature_map, block, shared)


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

MOVED = "test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are"


@wrong("families.transitions", MOVED)
def children_count_whole(transitions: Any, found: Any, link: Any, grid: int = 2**20) -> Any:
    """Each row of a family counts as much as a family."""
    made = transitions(found, link, grid)
    return dataclasses.replace(made, weights=np.full_like(made.weights, grid))


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
    wrap families.Families.shares: lambda shares, found: found.parents["share"][found.of]
number-of-others-in-the-share: What a row counts depends on how many families there are.
    by test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are
    wrap families.transitions: lambda transitions, found, link, grid=2 ** 20: transitions(found, link, grid //
        max(len(found.parents), 1))
parts-counted-whole: Weighted rows are counted as whole records.
    by test_counts_of_parts_are_those_of_long_hand
        test_a_unit_moves_the_sums_by_no_more_than_is_stated_and_leaves_others_as_they_are
    rewrite contingency.Contingency.exact_sum: records.weights if isinstance(records, WeightedRows) else None => None
any-map-is-reviewed: The gate believes whatever norm a map states of itself, a stranger's too.
    by test_the_gate_believes_the_norms_of_reviewed_maps_alone
    wrap sums.is_reviewed: lambda _, kind, *names: True
any-map-takes-parts: Weighted rows are handed to maps that know nothing of weights.
    by test_only_counts_of_cells_take_records_in_part
    wrap sums.SumTask.takes_parts: lambda takes, task: True
orientations-that-round: Cells may be so large that sums over them leave the whole numbers that float64 holds.
    by test_cells_whose_sums_would_round_are_refused test_values_whose_squares_would_round_are_refused
    wrap orientation.Orientations._check_exact: lambda *_: None
""")
