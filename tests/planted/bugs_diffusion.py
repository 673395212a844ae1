"""Planted bugs in diffusion models: what a record adds to a step, and the means that come before the steps."""

from __future__ import annotations

from typing import Any

from tests.planted.patches import Plant, bug, table, wrong


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
