"""Planted bugs in features and methods, and in what a user is told by a run."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong

FITS = "test_every_map_is_a_planned_question_and_fits_it"

# The pairwise method.


def _exact_sums(plant: Plant) -> dict[str, Any]:
    """Returns the sums of all queries before their noise, as they come to be known."""
    exact: dict[str, Any] = {}

    @plant.wrap("sums.LocalEngine.sum")
    def _(sum_: Any, engine: Any, batches: Any, tasks: Any, *more: Any) -> Any:
        totals = sum_(engine, batches, tasks, *more)
        exact.update(
            {
                name: tasks[name].grid.restore(sums).T
                for name, sums in totals.sums.items()
            }
        )
        return totals

    return exact


def _answered_exactly(plant: Plant) -> None:
    exact = _exact_sums(plant)
    plant.wrap("session.Session.ask")(
        lambda ask, session, maps: {name: exact[name] for name in ask(session, maps)}
    )


def _at_full_weight(plant: Plant, *seams: str) -> None:
    def full(one: Any) -> Any:
        return dataclasses.replace(one, weights=(1.0,) * len(one.weights))

    @plant.wrap(*seams)
    def _(maps: Any, *arguments: Any) -> Any:
        return {name: full(one) for name, one in maps(*arguments).items()}


@wrong("design.Design.queries", FITS)
def a_histogram_not_in_the_plan(queries: Any, design: Any, *arguments: Any) -> Any:
    """The second set of histograms is asked and was not planned."""
    left_out = list(design.histogram_maps())[1:]
    return tuple(one for one in queries(design, *arguments) if one.name not in left_out)


@bug("test_cells_and_pairs_follow_from_what_was_released_and_from_nothing_else")
def cells_cut_from_the_records(plant: Plant) -> None:
    """What is chosen after the first round follows from exact counts, though noisy ones are released."""
    _answered_exactly(plant)


# PrivBayes.

FAMILY = "test_a_record_moves_one_cell_of_each_family_whatever_its_parents"


@wrong("network_design.NetworkDesign.chosen", FAMILY)
def families_at_full_weight(chosen: Any, *arguments: Any) -> Any:
    """A record counts in the table of each column with its parents as if it were the only one."""
    found = chosen(*arguments)
    weights = (1.0,) * len(found.counted.weights)
    return found._replace(counted=dataclasses.replace(found.counted, weights=weights))


@wrong("network_design.NetworkDesign.chosen", FAMILY)
def families_weighted_by_their_parents(chosen: Any, *arguments: Any) -> Any:
    """A table of three columns counts a record for each of its parents."""
    found = chosen(*arguments)
    tables = found.counted.tables
    (weight, *_) = found.counted.weights
    weights = tuple(weight * max(len(table) - 1, 1) for table in tables)
    return found._replace(counted=dataclasses.replace(found.counted, weights=weights))


@bug("test_families_follow_from_what_was_released_and_from_nothing_else")
def families_chosen_by_the_records(plant: Plant) -> None:
    """Parents follow from exact counts, though noisy ones are released."""
    exact = _exact_sums(plant)

    @plant.wrap("network_design.NetworkDesign.chosen")
    def _(chosen: Any, design: Any, answers: Any) -> Any:
        if hasattr(answers, "certificate"):
            return chosen(design, answers)
        return chosen(
            design,
            dataclasses.replace(
                answers, values={name: exact[name] for name in answers.values}
            ),
        )


# Tab-PE.

VOTES = "test_a_record_votes_once_and_moves_the_sum_by_the_bound_and_no_more"
ROUNDS = "test_a_record_votes_once_in_every_round_whatever_the_candidates"


@wrong("votes.NearestVotes.exact_sum", VOTES, ROUNDS)
def a_record_votes_twice(exact_sum: Any, features: Any, grid: Any) -> Any:
    """A record adds a vote to its nearest candidate, and another one to the next."""
    found = exact_sum(features, grid)

    def add(sums: Any, records: Any) -> None:
        once = np.zeros_like(sums)
        found.add(once, records)
        sums += once + np.roll(once, 1)

    return dataclasses.replace(found, add=add)


@wrong(
    "votes.NearestVotes.nearest",
    "test_a_vote_does_not_depend_on_the_other_records_nor_on_their_number",
)
def votes_spread_over_the_candidates(nearest: Any, features: Any, records: Any) -> Any:
    """A record does not vote for the candidate that the record before it has voted for."""
    found = nearest(features, records)
    return np.where(np.diff(found, prepend=-1) == 0, (found + 1) % features.dim, found)


@bug("test_candidates_follow_from_what_was_released_and_from_nothing_else")
def candidates_selected_by_the_records(plant: Plant) -> None:
    """The candidates of a round follow from exact votes, though noisy ones are released."""
    _answered_exactly(plant)


# Private Evolution of images.


@bug("test_the_shares_of_labels_are_those_that_were_bought")
def shares_of_labels_counted_for_nothing(plant: Plant) -> None:
    """As many candidates are made of each label as there are private images of it, as the published program does."""
    exact = _exact_sums(plant)
    plant.wrap("image_evolution.ImageEvolution.__init__")(
        lambda init, evolution, counts, *more, **options: init(
            evolution, exact["counts"][0], *more, **options
        )
    )


@bug("test_candidates_of_an_evolution_follow_from_the_release_and_not_from_the_images")
def rounds_that_look_at_the_images(plant: Plant) -> None:
    """Candidates are selected by exact votes, as by a callback that sees the private images in every round."""
    exact = _exact_sums(plant)

    @plant.wrap("image_evolution.ImageEvolution.select")
    def _(select: Any, evolution: Any, votes: Any) -> None:
        known = [exact.pop(name)[:, 0] for name in list(exact) if "votes" in name]
        select(evolution, known[-1] if known else votes)


@wrong(
    "votes.ImageVotes.__call__",
    "test_an_image_votes_for_its_label_once_and_moves_the_sum_by_the_bound_and_no_more",
)
def an_image_votes_for_every_near_candidate(call: Any, votes: Any, records: Any) -> Any:
    """An image votes for its nearest candidate and for the one beside it."""
    once = call(votes, records)
    return once + np.roll(once, 1, axis=1)


# Features.


@wrong(
    "products.Products.norm",
    "test_the_norm_is_the_truncated_supremum_and_no_record_exceeds_it",
)
def norm_forgets_the_other_columns_of_a_product(_: Any, products: Any) -> float:
    """The bound on a product leaves out factors."""
    least = [
        min(products.tables[column].squared_supremum for column in group)
        for group in products.groups
    ]
    return math.sqrt(
        sum(
            weight**2 * one**9
            for weight, one in zip(products.weights, least, strict=True)
        )
    )


@wrong(
    "error_bounds.error_bound",
    "test_more_labels_and_fewer_records_ask_for_fewer_features",
)
def bound_of_the_error_forgets_the_classes(
    error_bound: Any, release: Any, **options: Any
) -> Any:
    """The error that is foreseen is that of one class."""
    question = dataclasses.replace(release.query, columns=1)
    return error_bound(dataclasses.replace(release, query=question), **options)


@wrong(
    "named.ChosenLayers.__init__",
    "test_a_network_in_training_mode_is_put_into_evaluation_mode",
)
def network_left_in_training_mode(
    init: Any, layers: Any, network: Any, *arguments: Any, **options: Any
) -> None:
    """A network that was handed over in training mode stays in it."""
    init(layers, network, *arguments, **options)
    layers.network.train(network.training)


# DP-LLM as an estimator.


@wrong("gate.Gate.__init__", "test_what_is_not_public_must_be_told")
def records_counted_unasked(
    init: Any, gate: Any, data: Any, *, records: int | None = None, **options: Any
) -> None:
    """The number of records is counted where nobody gave it, and stated as public."""
    init(gate, data, records=records or data.num_rows, **options)


@wrong(
    "locally_linear_maps.LocallyLinearMaps.fit",
    "test_an_unknown_label_is_refused_without_quoting_it",
)
def classes_read_off_the_labels(fit: Any, estimator: Any, x: Any, y: Any = None) -> Any:
    """The classes are those that occur."""
    estimator.classes = np.unique(y).tolist()
    return fit(estimator, x, y)


@wrong(
    "gate.Gate.__init__",
    "test_llm::test_the_public_number_divides_the_sums_and_not_the_true_one",
)
def sums_divided_by_the_true_number(
    init: Any, gate: Any, data: Any, *, records: int | None = None, **options: Any
) -> None:
    """The mean of the gradients is over as many records as there are, whatever the public number says."""
    init(gate, data, records=records and data.num_rows, **options)


# What a user is told, and what a run keeps.


@wrong("run_folder.Run.write", "test_a_run_keeps_no_address_of_a_database")
def password_of_a_ledger_kept(write: Any, run: Any, folder: Any) -> None:
    """The address of a ledger, which may hold a password, is kept beside a run."""
    write(run, folder)
    (file,) = [
        path
        for path in folder.iterdir()
        if path.suffix == ".json" and "ledger" in path.read_text("utf-8")
    ]
    kept = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**kept, "ledger": run.ledger}), encoding="utf-8")


TANGENTS = "test_a_gradient_moves_the_sum_by_the_bound_and_no_more"


@wrong("tangent.NeuralTangent.parts", TANGENTS)
def gradients_as_long_as_they_are(parts: Any, features: Any, values: Any) -> Any:
    """Gradients are added up half as long again as the plan says."""
    active, inputs, outputs = parts(features, values)
    return active, inputs * np.float32(1.5), outputs * np.float32(1.5)


@wrong("tangent.PairTangents.exact_sum", TANGENTS)
def a_cell_counted_twice(exact_sum: Any, features: Any, grid: Any) -> Any:
    """A record adds the vectors of its cells in pairs of columns twice."""
    found = exact_sum(features, grid)
    return dataclasses.replace(
        found, add=lambda *sums: (found.add(*sums), found.add(*sums))
    )


@wrong(
    "tangent.NeuralTangent.parts",
    "test_a_gradient_does_not_depend_on_the_other_records",
)
def gradients_scaled_by_the_longest_of_a_block(
    parts: Any, features: Any, values: Any
) -> Any:
    """A block's gradients are divided by the longest norm among them: bounded, and no function of one record."""
    active, inputs, outputs = parts(features, values)
    shortest = inputs[:, -1:].min(initial=1.0)
    return active, inputs * shortest, outputs * shortest


@wrong(
    "checkpoint.Checkpoint.__exit__",
    "test_a_step_that_was_cut_in_two_is_lost_but_never_kept",
)
def half_changed_training_kept(
    _: Any, checkpoint: Any, kind: Any, error: Any, trace: Any
) -> None:
    """A training that was stopped in the middle of a step is kept as it was then."""
    if error is not None:
        checkpoint.save()


table(
    """
every-table-at-full-weight: A record counts in each table of the last round as if it were the only one.
    by test_every_map_is_a_planned_question_and_fits_it
        test_a_record_moves_one_cell_of_each_table_and_the_sum_by_the_bound_and_no_more
    full: 'rounds.Rounds.last_maps'
histograms-at-full-weight: A record counts in each histogram as if it were the only one.
    by test_every_map_is_a_planned_question_and_fits_it
        test_a_record_moves_one_cell_of_each_table_and_the_sum_by_the_bound_and_no_more
    full: 'design.Design.histogram_maps'
more-cells-than-planned: The plan is made for fewer cells a column than it may come to have.
    by test_round_numbers_make_more_cells_than_were_aimed_at_and_no_more_than_were_planned
    rewrite design.Design.max_sizes: max_merged_bins(any_cells) => any_cells
more-pairs-than-planned: Twice as many pairs are chosen as were planned.
    by test_every_map_is_a_planned_question_and_fits_it
    wrap rounds.Rounds.last_maps: lambda last_maps, rounds: last_maps(dataclasses.replace(rounds,
        design=dataclasses.replace(rounds.design, max_pairs=2 * rounds.design.max_pairs)))
a-chosen-pair-not-in-the-plan: A pair that a triple names as well takes a place of the planned ones.
    by test_every_map_is_a_planned_question_and_fits_it
    rewrite design.Design: any_pair not in self.triples => True
families-larger-than-planned: The plan is made as if no column had a parent.
    by test_families_are_never_larger_than_planned
    wrap network_design.NetworkDesign.query: lambda query, design, share: dataclasses.replace(query(design, share),
        dim=sum(design.pairwise.max_sizes))
points-finer-than-float32-holds: Points of a row together are longer than what is summed without rounding.
    by test_every_distance_is_exact_however_many_columns_there_are
    set votes.LARGEST: 2**31
features-finer-than-float32-sums: Features are rounded more finely than what is added up without rounding.
    by test_whole_numbers_are_no_longer_than_float32_sums_exactly
    set votes.SCALE: 2**14
votes-probed-in-place-of-features: The gate probes votes, which hide what a network rounds by a record's place.
    by test_what_a_network_rounds_is_probed_and_not_what_votes_hide
    rewrite session.Session._task: is_reviewed(type(feature_map), ENCODED) => False
angles-probed-in-place-of-features: The gate probes random Fourier features of an encoder s vectors, which hide most
        of what it rounds by place.
    by test_what_the_encoder_of_strokes_rounds_is_probed_and_not_what_angles_hide
    rewrite session.Session._task: is_reviewed(type(feature_map), ENCODED) => hasattr(feature_map, "candidates")
strangers-encoding-is-believed: The gate probes what a stranger's map calls its encoding, and not that map.
    by test_a_strangers_map_is_probed_itself_whatever_it_calls_its_encoding
    rewrite session.Session._task: is_reviewed(type(feature_map), ENCODED) => hasattr(feature_map, "encoding")
truncated-supremum-is-a-mean: The bound on the rows of a column is their mean.
    by test_the_norm_is_the_truncated_supremum_and_no_record_exceeds_it
    wrap column_tables.ColumnTable.squared_supremum: lambda _, table: float(np.square(table.rows,
        dtype=np.float64).sum(axis=1).mean())
signed-activations-taken-for-nonnegative: Activations are believed to be non-negative whatever the layer.
    by test_signed_activations_have_the_sensitivity_of_signed_vectors
    wrap perceptual.Perceptual.nonnegative: lambda *_: True
explained-cells-told-unasked: The cells of a record are told with the reasons for its class.
    by test_explain::test_cells_are_shown_only_when_asked_for
    wrap explain.record_reasons: lambda reasons, *asked: reasons(*asked[:-1], True)
cost-so-far-told-too-small: The steps that will be taken until the next look are left out of what is told.
    by test_what_was_spent_so_far_is_that_of_the_steps_so_far
    rewrite runs: min(any_most, total) => min(done, total)
""",
    full=_at_full_weight,
)
