"""Planted bugs in steps on samples: who is in one, how often, how gradients are clipped; and in diffusion models."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong

MOVED = "test_adding_removing_or_changing_a_record"


# What is looked at before the first record is read.


@bug("test_products_that_round_by_place_are_replaced_by_exact_ones")
def exact_kernels_not_used(plant: Plant) -> None:
    """Kernels that round by place are found and used all the same."""
    plant.wrap("execution.Execution.kernels")(lambda *_: contextlib.nullcontext())


@wrong("execution.embedded_records", "test_the_map_is_run_once_in_blocks_of_one_shape")
def represented_in_blocks_of_any_shape(embedded_records: Any, records: Any, feature_map: Any, execution: Any) -> Any:
    """The last block of a map that represents records is shorter than was probed."""
    rows = execution.rows
    whole = len(records) // rows * rows
    parts = [slice(0, whole), slice(whole, len(records))]
    ways = [execution, dataclasses.replace(execution, rows=max(len(records) - whole, 1))]
    made = [embedded_records(records.rows(part), feature_map, way) for part, way in zip(parts, ways, strict=True)]
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

    right = "block_gradients(source, parameters, *seen, self._task.device)"
    by_place = "part * np.linspace(1, 1.0001, len(part), dtype=np.float32)[:, None]"
    plant.rewrite("samples.HeldGradients.total", right, f"tuple({by_place} for part in {right})")


table(
    """
half-factor-not-shrunk: A factor of a layer's weight is rounded to a grid of twice as many units.
    by test_adding_removing_or_changing_a_record
    doubled: 'grid.add_products'
factor-not-shrunk: A factor of a factored gradient is rounded to a grid of twice as many units.
    by test_adding_removing_or_changing_a_record
    doubled: 'grid.add_factored'
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
    wrap grid.clip_factors: lambda clip_factors, parts, grid: np.minimum(4 * clip_factors(parts, grid),
        np.float32(grid.scale))
clipped-part-by-part: The norm that a gradient is clipped to leaves out some of the weights that come as products.
    by test_adding_removing_or_changing_a_record
    wrap grid.clip_factors: lambda clip_factors, parts, grid: np.minimum(clip_factors(parts[:1], grid), 4 *
        clip_factors(parts, grid))
norms-added-in-memory-order: The norm of a row is a sum that rounds.
    by test_a_norm_does_not_depend_on_memory_order_and_neighbours
    wrap grid.row_norms: lambda _, rows: np.sqrt(np.square(rows.astype(np.float64)).sum(axis=-1, keepdims=True))
factored-nan-kept: Of inputs that are no numbers the others are kept.
    by test_a_gradient_that_is_no_number_adds_nothing
    wrap grid.add_factored: lambda add, total, inputs, *more: add(total, np.where(np.isfinite(inputs), inputs, 0),
        *more)
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
    "gradients.RecordGradients.add", "test_a_record_adds_at_most_the_norm_whatever_it_is_and_however_many_draws_it_has"
)
def draws_clipped_one_by_one(add: Any, source: Any, sums: Any, vectors: Any) -> None:
    """Each draw of a record counts as a record: clipped alone, and their sum not at all."""
    for _ in range(5):
        add(source, sums, vectors)


table("""
means-over-the-records-that-there-are: The noisy sum of a class is divided by the number of its records, which is
        private: as DP-FETA s program does.
    by test_means_are_the_released_sums_over_the_records_that_the_public_expects
    rewrite dpdm.DPFETA.before_steps: gate.records * any_shares => sum(np.bincount(read.codes[:, 0], minlength=2) for
        read in gate._source.batches()) + 1e-9
means-bought-before-the-loss-is-tried: Whether gradients can be taken at all is found out when the means are paid for.
    by test_a_loss_that_the_gate_refuses_costs_nothing
    wrap gradients_query.StepSession.prepare: lambda prepare, session, parameters: prepare(session, parameters) if
        session._values else None
""")
