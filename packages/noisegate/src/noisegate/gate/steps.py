"""Steps: noisy vectors of fresh samples of the records (G-19, G-21, G-24, G-26).

Each step returns one noisy vector. The parameters of a step may depend on everything
that earlier steps returned; sampling probability, clipping norm and noise may not, as
the plan fixes them (G-21). The number of records in a sample stays private, but the
time that a step takes tells about it (G-19).

What a step computes is up to its `StepVectors`::

    GradientVectors    sums of clipped gradients of a loss   (`sessions.gradients`)
    BatchVectors       one clipped vector of a whole sample  (`sessions.shards`)
    ShardVectors       sums of one vector of each shard      (`sessions.shards`)

How to read it: `Steps.take` is a step, and `StepCounter` gives each step to one of the
processes that share a journal.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.devices import gate_threads
from noisegate.errors import OptionError
from noisegate.gate.journal import Journal
from noisegate.gate.samples import PoissonSamples
from noisegate.gate.transaction import (
    Integers,
    Reservation,
    State,
    Transaction,
    Values,
)
from noisegate.privacy.gradient_plan import StepQuery, steps_of
from noisegate.privacy.grid import RECORD_LIMIT, UNITS
from noisegate.schema import Layout


class StepVectors(Protocol):
    """What a step computes: the exact vector of a sample of the records."""

    @property
    def query(self) -> StepQuery:
        """The steps, as they were asked for."""

    @property
    def public_settings(self) -> Mapping[str, Any]:
        """Public settings, for the certificate. A run that is resumed has the same."""

    def checked(self, parameters: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Checks the parameters of a step, and converts them as they are needed.

        Args:
            parameters: Public parameters, by name.

        Raises:
            OptionError: if they do not fit the plan.
        """

    def probe(
        self, parameters: Mapping[str, Any], layout: Layout, threads: int, /
    ) -> None:
        """Tries the computation on simulated records.

        Args:
            parameters: Parameters of the first step, from `checked`.
            layout: Columns of the records.
            threads: Threads that torch uses here and in all steps.

        Raises:
            OptionError: if what it computes is not a function of a record, or of a
                sample.
        """

    def read(
        self,
        transaction: Transaction,
        samples: PoissonSamples,
        parameters: Mapping[str, Any],
        /,
    ) -> Any:
        """Reads all records into memory, for all steps.

        Args:
            transaction: Has the records, and the engine.
            samples: Draws the sample of each step.
            parameters: Parameters of the first step, from `checked`.

        Returns:
            An object that holds them, with their number as `record_count`; private.
        """

    def total(
        self,
        held_records: Any,
        samples: PoissonSamples,
        number: int,
        parameters: Mapping[str, Any],
        /,
    ) -> Integers:
        """Computes the exact vector of a step.

        Args:
            held_records: What `read` returned; private.
            samples: Draws the sample of the step.
            number: Number of the step, from 0.
            parameters: Its parameters, from `checked`.

        Returns:
            The vector, (count,), in grid units; private.
        """

    def unpacked(self, noisy: Integers, /) -> dict[str, Any]:
        """Splits the noisy vector of a step into arrays, in the units of the gradients.

        Args:
            noisy: The vector in grid units, (count,).

        Returns:
            Arrays of the planned shapes, by name.
        """


class StepCounter:
    """Counts the steps of a run that were begun, by a journal if there is one.

    Args:
        planned: How many steps are paid for.
    """

    def __init__(self, planned: int) -> None:
        self._planned = planned
        # Number of steps begun by all processes with the journal, when it was read
        # last.
        self._begun = 0
        # Number of steps that this process has begun; without a journal all of them.
        self._begun_here = 0
        # The file that counts steps; None for a run that cannot be resumed.
        self._journal: Journal | None = None
        # Whether this process has created that file, for a new run.
        self._has_created_journal = False
        # First line of the journal, if a run is resumed; None for a new run.
        self._resumed_header: Mapping[str, Any] | None = None

    def open_journal(self, path: Path, run: str, reservation: Reservation) -> None:
        """Opens the journal, and continues the run that it counts, if there is one.

        It only reads the file. Later, before the first record is read, the transaction
        asks the ledger, and creates the journal of a new run. What follows from the
        file::

            file             steps begun      reservation of this run
            none             0                a new one
            of this run      those of it      that of the journal, at no cost
            of another run   refused
            no journal       refused

        After an error, or a crash before the ledger is asked, nothing is reserved, and
        the file is as it was. A journal with all steps begun is taken up too: no step
        is left, and the run may be released.

        What a change must keep: a run that is taken up costs nothing again, and the
        steps in the file count as begun. The tests in `test_gradient_journal.py` notice
        if this changes.

        Args:
            path: The file of the journal.
            run: Hash of everything that a run must share which continues with this one.
            reservation: The entry in the ledger that pays for the run.

        Raises:
            OptionError: if it is of another run.
        """
        self._journal = Journal(path, run)
        self._resumed_header = self._journal.resume()
        # Several processes may confirm the reservation, as the journal gives each step
        # to one of them: also that of a new run, which another process may take up
        # while this one is still at work.
        reservation.is_shared = True
        if self._resumed_header is not None:
            # For now: `begin` takes the number of a step from the journal.
            self._begun = self._journal.begun_step_count()
            reservation.resume(self._resumed_header.get("reservation"))

    @property
    def is_resumed(self) -> bool:
        """Whether the run continues that an interrupted process had begun."""
        return self._resumed_header is not None

    @property
    def remaining(self) -> int:
        """How many steps were paid for and not begun."""
        return max(self._planned - self._begun, 0)

    def begin(self) -> int:
        """Marks the next step as begun, before its sample is drawn.

        With a journal, several processes may take steps of one run, and the journal
        gives each step to one of them. The step is marked first and its number compared
        with the plan afterwards, since any number that was read before may be out of
        date. So if another process has begun the last step, the journal counts one step
        more than planned. This is harmless: no noise is drawn for it, and `remaining`
        is 0 from then on.

        Returns:
            Number of the step, from 0.

        Raises:
            OptionError: if another process has begun the last step.
        """
        number = self._journal.begin_step() if self._journal else self._begun
        self._begun = number + 1
        self._begun_here += 1
        if number >= self._planned:
            raise OptionError(
                f"all {self._planned} steps were used, maybe by another process with "
                "the same journal."
            )
        return number

    def create_journal(self, reservation: str | None) -> None:
        """Creates the journal of a new run, if it has one; see `BegunSteps`."""
        if self._journal is not None:
            self._journal.create(reservation)
            self._has_created_journal = True

    def withdraw(self) -> bool:
        """Removes the journal that this process created; see `BegunSteps`."""
        if self._journal is None or not self._has_created_journal:
            return True
        return self._journal.withdraw(self._begun_here)

    def remove_journal(self) -> None:
        """Removes the journal, if there is one: the run has ended."""
        if self._journal is not None:
            self._journal.remove()


class Steps:
    """The steps of a session.

    Args:
        transaction: Pays for the plan.
        vectors: What a step computes.
        counter: Counts the steps that were begun.
    """

    def __init__(
        self, transaction: Transaction, vectors: StepVectors, counter: StepCounter
    ) -> None:
        self.vectors = vectors
        self.samples = PoissonSamples(rate=vectors.query.sampling_probability)
        """Draws the sample of each step."""
        self.held_records: Any = None
        """The records in memory, here or in workers; None before the first step."""
        self._transaction = transaction
        self._counter = counter
        # Whether the query was tried on simulated records.
        self._is_probed = False
        # Threads of torch in the probe and in all steps: the bits may depend on them.
        self._threads = 1
        # Parameters of the latest step, by name, converted as the query needs them.
        self._parameters: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        """What the event and the final parameters are called."""
        return self.vectors.query.name

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a step, in the units of its vector."""
        return steps_of(self._transaction.plan).noise_std_natural

    @property
    def remaining(self) -> int:
        """How many steps were paid for and not begun."""
        return self._counter.remaining

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Checks parameters, and probes the query in the first call.

        Args:
            parameters: Public parameters, by name.

        Raises:
            OptionError: if parameters, loss or function do not fit.
        """
        self._parameters = self.vectors.checked(parameters)
        if not self._is_probed:
            self._threads = self._thread_count()
            layout: Layout = self._transaction.access.source.schema.layout
            with gate_threads(self._threads):
                self.vectors.probe(self._parameters, layout, self._threads)
            self._is_probed = True

    def take(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Takes a step; see `Session.step`.

        Args:
            parameters: Public parameters, by name.

        Returns:
            The noisy vector as arrays of the planned shapes, by name.
        """
        if not self.remaining:
            raise OptionError(
                f"all {self.vectors.query.steps} steps were used; more would cost "
                "more. Plan them before the run."
            )
        self.prepare(parameters)
        transaction = self._transaction
        with transaction.reading_records():
            if self.held_records is None:
                self.held_records = self._read_checked_records()
            number = self._counter.begin()
            # With the threads of the probe, whatever the caller has set since.
            with gate_threads(self._threads):
                total = self.vectors.total(
                    self.held_records, self.samples, number, self._parameters
                )
            event = steps_of(transaction.plan).event
            noisy_total = transaction.add_noise(total, event)
        return self.vectors.unpacked(noisy_total)

    def packed(self, parameters: Mapping[str, Any] | None) -> Values:
        """Returns what was trained as a release has it.

        A resumed run may have had all its steps taken before. Its reservation is taken
        up and confirmed here, without a step.

        Args:
            parameters: Public parameters that were trained on what the steps returned,
                by name.

        Returns:
            All numbers in the planned order, (numbers, 1).

        Raises:
            OptionError: if the parameters are missing or do not fit, or no step was
                taken.
        """
        if parameters is None:
            raise OptionError("release() of a gradient run takes what was trained.")
        arrays = {name: _as_array(value) for name, value in parameters.items()}
        transaction = self._transaction
        if transaction.state is State.PLANNED and not self._counter.is_resumed:
            raise OptionError("no step was taken, so there is nothing to release.")
        packed = self.vectors.query.pack(arrays)
        if transaction.state is State.PLANNED:
            with transaction.reading_records():
                transaction.confirm()
        return packed

    def remove_journal(self) -> None:
        """Removes the journal, if there is one: the run was released."""
        self._counter.remove_journal()

    def _thread_count(self) -> int:
        """Returns the number of threads that torch uses in the probe and in all steps.

        The bits of a gradient may depend on it, so it is chosen once.
        """
        engine = self._transaction.access.engine
        uses_one_core = engine is not None and engine.one_core
        if "torch" not in sys.modules or uses_one_core:
            return 1
        import torch

        return torch.get_num_threads()

    def _read_checked_records(self) -> Any:
        """Reads all records into memory for the steps, and checks their number.

        Returns:
            The records, as `StepVectors.read` returns them; private.

        Raises:
            DataError: if the number is 0, or not the public one where that must be
                exact.
            OverflowError: if the sum of a step could leave 64 bits.
        """
        transaction = self._transaction
        held_records = self.vectors.read(transaction, self.samples, self._parameters)
        record_count = held_records.record_count
        transaction.check_record_count(record_count)
        # `RECORD_LIMIT` holds for vectors of norm `UNITS`. Here a record may add as
        # much as the sensitivity to the sum.
        max_records = RECORD_LIMIT * UNITS // self.vectors.query.sensitivity
        if record_count > max_records:
            raise OverflowError("too many records: the sum could leave 64 bits.")
        return held_records


def _as_array(value: Any) -> npt.NDArray[Any]:
    """Converts an array, or a tensor on any device, to an array."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu())
    return np.asarray(value)
