"""Planted bugs in how private records are read, and in steps on samples of them; and in diffusion models."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from tests.planted.patches import Plant, bug, find, table, wrong

FIRST = "test_the_first_records_of_each_unit_are_used"
SWALLOWED = "test_what_could_swallow_records_is_refused_with_its_line"

# Units with several records.


@wrong("unit_counter.UnitCounter.__init__", FIRST)
def a_record_more_of_each_unit(
    init: Any, counter: Any, limit: Any, missing: Any
) -> None:
    """One record more than the limit is used of each unit."""
    init(
        counter,
        dataclasses.replace(limit, contributions=limit.contributions + 1),
        missing,
    )


@wrong(
    "tables.TableSource.batch_readers",
    "test_every_kind_of_source_uses_the_same_records",
)
def units_counted_anew_in_each_file(batch_readers: Any, source: Any) -> Any:
    """The limit on a unit's records is one for each file."""
    for origin in source._origins:
        alone = copy.copy(source)
        alone._origins = [origin]
        yield from batch_readers(alone)


@wrong(
    "unit_counter.UnitCounter.count_and_select",
    "test_a_record_without_a_unit_stops_the_run",
)
def records_without_a_unit(select: Any, counter: Any, units: Any) -> Any:
    """Records whose unit is missing are used, as many as there are."""
    try:
        return select(counter, units)
    except find("unit_counter.Problem") as problem:
        if "is missing" in problem.message:
            return np.ones(len(units), dtype=np.bool_)
        raise


@wrong(
    "unit_counter.UnitLimit.__init__",
    "test_hashes_depend_on_a_key_that_is_secret_and_new_for_every_run",
)
def hashes_with_a_fixed_key(init: Any, limit: Any, **fields: Any) -> None:
    """Units can be made up beforehand that push out the records of others."""
    init(limit, **{"key": b"noisegate", **fields})


# Records of CSV files.


@wrong("csv_file._check_quotes", SWALLOWED)
def csv_quotes_anywhere(check: Any, *arguments: Any, **options: Any) -> None:
    """A quote in the middle of a cell is let pass."""
    try:
        check(*arguments, **options)
    except find("csv_file.RecordProblem") as problem:
        if "neither begins nor ends a cell" not in problem.reason:
            raise


# Tables.


@bug("test_a_cell_is_the_same_beside_any_other_object")
def one_type_for_all_objects(plant: Plant) -> None:
    """The type of a column of Python objects is guessed from all of them together."""
    plant.wrap("memory_tables.objects_to_arrow")(
        lambda _, cells: pa.array(cells, from_pandas=True)
    )


@wrong(
    "native_table.NativeForm.__call__",
    "test_polars_categories_become_the_levels_of_the_schema",
)
def private_texts_in_polars_categories(call: Any, form: Any, table: Any) -> Any:
    """Synthetic categories share a table of texts with the private ones."""
    import polars as pl

    frame = call(form, table)
    if form.kind == "polars":
        return frame.with_columns(
            pl.col(name).cast(pl.String).cast(pl.Categorical) for name in form.families
        )
    return frame


# Public records that are none.


@wrong("overlap.check_apart", "test_a_file_of_the_private_data_is_found")
def copies_of_private_files_as_public_ones(
    check_apart: Any, private: Any, public: Any
) -> None:
    """A copy of a private file passes for a public one."""
    paths = isinstance(private, str | Path) and isinstance(public, str | Path)
    if not paths or Path(private) == Path(public):
        check_apart(private, public)


# Images as they come.


@wrong(
    "image_decode.decode_picture",
    "test_a_file_that_cannot_be_read_is_refused_even_where_bad_images_are_skipped",
)
def a_failing_disk_skips_images(decode: Any, *arguments: Any) -> Any:
    """An image that could not be read this time is skipped like one that is broken."""
    try:
        return decode(*arguments)
    except OSError as error:
        raise find("image_decode.PictureProblem")(str(error.strerror)) from None


@wrong(
    "gate.Gate.__init__", "test_skipping_is_for_add_remove_only_and_not_for_all_images"
)
def skipped_images_counted_by_replace_one(
    init: Any, gate: Any, data: Any, **options: Any
) -> None:
    """Images are skipped under replace-one, where their number is public."""
    if options.get("on_error") != "skip":
        return init(gate, data, **options)
    adjacency = options.pop("adjacency", "add-remove")
    init(gate, data, **options)
    relation = type(gate.budget.adjacency)(adjacency)
    gate.budget = dataclasses.replace(gate.budget, adjacency=relation)
    return None


@wrong(
    "image_folder.ImageFolder.locate",
    "test_a_bad_image_is_refused_by_its_place_and_nothing_is_spent",
)
def file_names_in_errors(place: Any, folder: Any, row: int) -> str:
    """Names of private files are quoted unasked."""
    options = dataclasses.replace(folder.options, show_values=True)
    return str(place(dataclasses.replace(folder, options=options), row))


table("""
units-forgotten-between-batches: Each batch is counted for itself.
    by test_the_first_records_of_each_unit_are_used
    wrap unit_counter.HashTable.add: lambda add, *arguments: 0 * add(*arguments)
records-of-a-batch-not-counted: All records of a unit in one batch count as the first of them.
    by test_the_first_records_of_each_unit_are_used
    wrap unit_counter._ranks_within_units: lambda _, places, met: np.zeros_like(places)
units-forgotten-when-the-table-grows: The table of units is empty again when it was full.
    by test_the_table_counts_like_a_dictionary_while_it_grows
    rewrite unit_counter.HashTable._grow: any_table._counts[any_slots] = any_counts =>
limit-not-kept: All records of a unit are used.
    by test_the_first_records_of_each_unit_are_used
    wrap unit_counter.UnitCounter.count_and_select: lambda select, *arguments: select(*arguments) | True
units-beyond-64-bits-are-one: Units whose numbers were clamped to one are taken for one.
    by test_numbers_beyond_64_bits_stop_the_run_since_readers_clamp_them
    wrap unit_counter._find_clamped: lambda clamped, units: clamped(units) & False
csv-cut-inside-quotes: A piece of a file ends at any line end, also at one inside quotes.
    by test_pieces_of_any_size_give_the_records_that_python_reads
    wrap csv_file._find_records_end: lambda _, buffer, quotes: max(buffer.rfind(b"\\n"), buffer.rfind(b"\\r")) + 1
csv-mark-at-the-start-of-a-piece: What looks like a byte order mark is dropped at the start of each piece.
    by test_pieces_of_any_size_give_the_records_that_python_reads
    rewrite csv_file._parse_records: b'\\n' + any_records => any_records
csv-quote-never-closed: A file may end inside quotes, in a cell of many records.
    by test_what_could_swallow_records_is_refused_with_its_line
    wrap csv_file._check_quotes: lambda check, *arguments, is_last: check(*arguments, is_last=False)
record-quoted-as-header: The first line of a file is quoted, though it may be a record.
    by test_a_column_without_a_kind_is_asked_for
    wrap raw.RawTable.may_quote_names: lambda *_: True
private-records-as-public-ones: Whether public data holds private records is not asked.
    by test_a_public_set_that_is_the_private_one_is_refused_before_anything_is_spent
    wrap gate.Gate.check_apart: lambda *_: None
an-image-listed-twice: One image may be two records.
    by test_a_wrong_set_of_images_is_refused_and_nothing_is_spent
    rewrite image_folder.ImageList._problem: any_file in seen_files => False
types-of-the-private-frame: A model keeps of which family of pandas a private column was, which one record may decide.
    by test_dtypes_do_not_depend_on_the_records
    rewrite native_table.native_form: exact or (kind != "arrow" and has_categories) => True
children-in-the-order-of-the-file: Children of one day stand in the order in which the file has them.
    by test_where_records_stand_changes_nothing
        test_children_without_an_order_stand_in_one_that_their_place_does_not_tell
    rewrite families._sort_by_family: np.lexsort((tie_breaks, rank, any_keys, any_others)) =>
        np.lexsort((rank, any_keys, any_others))
every-child-counts-whole: A child counts as much as if it were the only one.
    by test_weights_of_a_unit_come_to_the_grid_and_never_to_more test_rows_are_those_of_a_slow_reading
        test_right_linked_tables_stay_below_their_claim_and_are_seen
    rewrite families.Families: _multiply_capped(any_shares, np.maximum(self.child_counts, 1)) => any_shares
grandchildren-count-by-their-parents-alone: The share of a visit is not split among the visits of its person.
    by test_weights_of_a_unit_come_to_the_grid_and_never_to_more
        test_codes_of_a_visit_count_by_the_visits_of_its_person
    rewrite families.Families: _multiply_capped(self.parents['share_count'], self.child_counts) =>
        self.parents['share_count']
shares-that-wrap: Shares are multiplied in 64 bits, beyond which they begin again.
    by test_shares_beyond_64_bits_count_nothing
    wrap families._multiply_capped: lambda right, share, among: share * among
weights-that-nobody-adds-up: What the rows of a unit count together is not looked at.
    by test_a_unit_that_counted_more_than_the_grid_would_stop_the_run_before_it_is_asked_anything
    wrap families.Families.add_weights: lambda right, found, totals: None
families-in-every-share: A share has the families of all others too.
    by test_workers_that_have_shares_of_the_parents_add_up_to_one_machine
    wrap families.Families.select_share: lambda right, families, index, count: families
two-units-of-one-key: Two parents may have one key, and the children of both go to the first.
    by test_two_parents_with_one_key_are_refused
    rewrite families.group_families: (~is_first & ~is_child).any() => False
keys-run-together: A key of several columns is their text, one behind the other.
    by test_a_key_of_several_columns_is_that_of_another_record_only_where_all_of_them_are
    rewrite encode.join_names: [length.cast(pa.binary()), name.cast(pa.binary())] => [name.cast(pa.binary())]
gaps-from-one-family-to-the-next: The first child of a parent is taken for one that follows the last of another.
    by test_a_person_more_or_less_changes_no_row_of_the_others
    rewrite families.Families: self.parent_index[1:] == self.parent_index[:-1] => self.parent_index[1:] >= 0
children-beside-the-parents-of-others: What relates a child to its parent is computed from somebody else's parent.
    by test_what_relates_children_to_their_parent_follows_from_their_family_alone
    rewrite families.Families: self.parents['numeric'][self.parent_index] =>
        self.parents['numeric'][self.parent_index[::-1]]
private-records-under-a-name: What does not fit into memory is kept in a file that stays.
    by test_what_is_kept_on_disk_has_no_name_and_goes
    rewrite spill.Spill.write_out: tempfile.TemporaryFile(prefix=any_name) => tempfile.NamedTemporaryFile()
""")


MOVED = "test_adding_removing_or_changing_a_record"


# What is looked at before the first record is read.


@bug("test_products_that_round_by_place_are_replaced_by_exact_ones")
def exact_kernels_not_used(plant: Plant) -> None:
    """Kernels that round by place are found and used all the same."""
    plant.wrap("execution.Execution.kernels")(lambda *_: contextlib.nullcontext())


@wrong(
    "execution.map_execution",
    "test_a_map_that_rounds_by_place_on_one_thread_is_summed_record_by_record",
)
def probed_on_other_threads(map_execution: Any, *given: Any, **options: Any) -> Any:
    """The probe computes on as many threads as there are, and sums on one."""
    with patch(
        "noisegate.gate.execution.gate_threads", lambda *_: contextlib.nullcontext()
    ):
        return map_execution(*given, **options)


@wrong("execution.embedded_records", "test_the_map_is_run_once_in_blocks_of_one_shape")
def represented_in_blocks_of_any_shape(
    embedded_records: Any, records: Any, feature_map: Any, execution: Any
) -> Any:
    """The last block of a map that represents records is shorter than was probed."""
    rows = execution.rows
    whole = len(records) // rows * rows
    parts = [slice(0, whole), slice(whole, len(records))]
    ways = [
        execution,
        dataclasses.replace(execution, rows=max(len(records) - whole, 1)),
    ]
    made = [
        embedded_records(records.rows(part), feature_map, way)
        for part, way in zip(parts, ways, strict=True)
    ]
    return type(records).concatenate(made)


# The clipping of gradients.


def _doubled(plant: Plant, seam: str) -> None:
    @plant.wrap(seam)
    def _(add: Any, total: Any, *arguments: Any) -> None:
        alone = np.zeros_like(total)
        add(alone, *arguments)
        total += 2 * alone


@bug("test_where_a_record_stands_changes_no_sum_of_a_step[dp-sgd]")
def gradients_round_by_place(plant: Plant) -> None:
    """Kernels that passed the probe on made-up records round real ones by their place in the block."""

    right = (
        "compute_block_gradients(source, parameters, numeric, codes, self._task.device)"
    )
    by_place = "part * np.linspace(1, 1.0001, len(part), dtype=np.float32)[:, None]"
    plant.rewrite(
        "samples.HeldGradients.total",
        right,
        "(lambda block: replace(block, arrays=tuple("
        f"{by_place} for part in block.arrays)))({right})",
    )


table(
    """
half-factor-not-shrunk: A factor of a layer's weight is rounded to a grid of twice as many units.
    by test_adding_removing_or_changing_a_record
    doubled: 'gradient_grid.add_products'
factor-not-shrunk: A factor of a factored gradient is rounded to a grid of twice as many units.
    by test_adding_removing_or_changing_a_record
    doubled: 'gradient_grid.add_factored'
sample-larger-than-paid: Each record is half as likely again to be in a sample as is accounted.
    by test_the_rate_is_that_which_is_accounted
    wrap samples.poisson_sample: lambda sample, records, rate, words: sample(records, min(1.5 * rate, 1.0), words)
sample-from-the-model-stream: Whoever knows a seed knows who is in a sample.
    by test_records_and_samples_are_independent
    wrap samples.poisson_sample: lambda _, records, rate, words:
        np.flatnonzero(np.random.default_rng(0).random(records) < rate)
key-of-a-sample-repeats-each-step: The key of a sample follows from the part alone: all steps have one sample.
    by test_a_step_that_is_redone_has_the_same_sample_and_no_other_has_it test_records_and_samples_are_independent
    rewrite samples.PoissonSamples._stream: step.to_bytes(8, 'little') + any_part => any_part
one-sample-for-all-parts: The key of a sample follows from the step alone: records at the same place of two parts are
        in it together.
    by test_records_and_samples_are_independent
    rewrite samples.PoissonSamples._stream: any_step + part.to_bytes(8, 'little') => any_step
same-words-in-every-block: The words of a sample follow from step and part alone: all blocks of a part have the same.
    by test_words_are_those_of_shake256_of_key_and_step_and_part_and_block
    rewrite samples.PoissonSamples._stream: any_first + block.to_bytes(8, 'little') => any_first
one-key-for-all-sessions: The key of samples is no secret of one session.
    by test_every_session_has_a_key_of_its_own_which_nobody_is_told
    wrap samples.PoissonSamples._stream: lambda stream, drawn, step, part: stream(dataclasses.replace(drawn,
        key=bytes(32)), step, part)
integers-not-probed: That a block adds what its records add alone is believed.
    by test_a_block_that_adds_something_else_than_its_records_is_refused
    rewrite gradients: np.array_equal(any_filled, any_together) => True
batch-norm-accepted: Layers that compute over the batch are let pass.
    by test_layers_that_mix_records_or_draw_randomness_are_refused_by_name
    rewrite gradients: isinstance(any_layer, _BatchNorm) => False
products-cut-off-too-late: Products that are to be exact round like others.
    by test_what_is_small_beside_what_cancels_is_cut_off_in_every_order
    wrap execution.product: lambda _, left, right: (left.double() @ right.double()).to(left.dtype)
gradients-not-clipped: Gradients are rounded, and clipped to four times the norm.
    by test_adding_removing_or_changing_a_record
    wrap gradient_grid.clip_factors: lambda clip_factors, parts, grid: np.minimum(4 * clip_factors(parts, grid),
        np.float32(grid.scale))
clipped-part-by-part: The norm that a gradient is clipped to leaves out some of the weights that come as products.
    by test_adding_removing_or_changing_a_record
    wrap gradient_grid.clip_factors: lambda clip_factors, parts, grid: np.minimum(clip_factors(parts[:1], grid), 4 *
        clip_factors(parts, grid))
norms-added-in-memory-order: The norm of a row is a sum that rounds.
    by test_a_norm_does_not_depend_on_memory_order_and_neighbours
    wrap gradient_grid.row_norms: lambda _, rows: np.sqrt(np.square(rows.astype(np.float64)).sum(axis=-1,
        keepdims=True))
factored-nan-kept: Of inputs that are no numbers the others are kept.
    by test_a_gradient_that_is_no_number_adds_nothing
    wrap gradient_grid.add_factored: lambda add, total, inputs, *more: add(total, np.where(np.isfinite(inputs), inputs,
        0), *more)
""",
    doubled=_doubled,
)


# In diffusion models: what a record adds to a step, and the means that come before the steps.


@bug("test_what_a_record_adds_is_a_function_of_it_and_of_the_number_of_the_step")
def draws_with_a_memory(plant: Plant) -> None:
    """The noise of a record depends on how often noise was drawn before."""
    drawn: list[Any] = []

    @plant.wrap("denoising.NoiseDraws.__call__")
    def _(call: Any, draws: Any, step: Any, intensities: Any) -> Any:
        drawn.append(step)
        return call(draws, step + len(drawn), intensities)


@wrong(
    "gradients.RecordGradients.add_clipped",
    "test_a_record_adds_at_most_the_norm_whatever_it_is_and_however_many_draws_it_has",
)
def draws_clipped_one_by_one(add: Any, source: Any, sums: Any, vectors: Any) -> None:
    """Each draw of a record counts as a record: clipped alone, and their sum not at all."""
    for _ in range(5):
        add(source, sums, vectors)


table("""
means-over-the-records-that-there-are: The noisy sum of a class is divided by the number of its records, which is
        private: as DP-FETA s program does.
    by test_means_are_the_released_sums_over_the_records_that_the_public_expects
    rewrite dp_feta.DPFETA.before_steps: gate.records * any_shares => sum(np.bincount(read.codes[:, 0], minlength=2) for
        read in gate._source.batches()) + 1e-9
means-bought-before-the-loss-is-tried: Whether gradients can be taken at all is found out when the means are paid for.
    by test_a_loss_that_the_gate_refuses_costs_nothing
    wrap session.Session.prepare_steps: lambda prepare, session, parameters: prepare(session, parameters) if
        session._values else None
""")


# Relations.


@wrong(
    "coordinates.Coordinates.measure", "test_formulas_never_see_a_record_of_the_file"
)
def formulas_of_private_records(measure: Any, coordinates: Any, values: Any) -> Any:
    """Relations are measured on what formulas make of private records."""
    restored = dict(values)
    for relation in coordinates._ordered:
        restored |= relation.measure(restored, coordinates._columns)
        restored |= relation.restore(restored, coordinates._columns)
    return measure(coordinates, restored)


@wrong(
    "ordered.Ordered.measure",
    "test_what_is_measured_of_a_record_depends_on_no_other[1]",
)
def differences_from_the_least_one(
    measure: Any, relation: Any, values: Any, columns: Any
) -> Any:
    """Differences are counted from the smallest among all records."""
    measured = measure(relation, values, columns)
    differences = measured[relation.difference_name]
    shifted = dataclasses.replace(
        differences, numbers=differences.numbers - differences.numbers.min()
    )
    return {relation.difference_name: shifted}
