"""Training in steps: noisy sums of clipped gradients over fresh samples (G-19, G-21).

Each step returns one noisy vector. The parameters of a step may depend on everything
that earlier steps returned; sampling probability, clipping norm and noise may not, as
the plan fixes them (G-21). The number of records in a sample stays private, but the
time that a step takes tells about it (G-19).

The kinds of query in steps are subclasses::

    StepSession             steps, the journal, the release
    ├── GradientSession     sums of clipped gradients of a loss, of a Poisson sample
    └── SampleSession       vectors of a sample that this process holds as a whole
        ├── ShardSession    (`sessions.shards`)
        └── BatchSession    (`sessions.shards`)
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.devices import gate_threads
from noisegate.errors import OptionError
from noisegate.gate.execution import Representation, map_execution
from noisegate.gate.journal import Journal
from noisegate.gate.per_example.gradients import (
    FactoredLoss,
    RecordLoss,
    choose_execution,
    gradient_source,
)
from noisegate.gate.samples import HeldRecords, PoissonSamples, Records, StepTask
from noisegate.gate.session import Access, Integers, State
from noisegate.gate.sessions.sums import SumSession
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.grid import RECORD_LIMIT, UNITS
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap

if TYPE_CHECKING:
    from torch import Tensor


class StepSession(SumSession):
    """Answers the steps of one plan, and its queries if it has any.

    Use it in a ``with`` block, and call `release` with the trained parameters. The cost
    of the whole plan is reserved before the first record is read, and stays spent from
    the first noise on, however many steps follow.

    Args:
        access: The records, the plan, which has steps, and the means.
        settings: Public settings of the kind of query, for the certificate. A run that
            is resumed must have the same.
        journal: File that counts the steps begun, so that an interrupted run can go on;
            None for a run that cannot.

    Raises:
        OptionError: if the journal is of another run, or the plan cannot be resumed.
    """

    def __init__(
        self,
        access: Access,
        settings: Mapping[str, Any],
        *,
        journal: Path | None = None,
    ) -> None:
        plan = steps_of(access.plan).query
        public_settings = {**settings, "parameters": _shapes(plan.parameters)}
        if plan.trained is not None:
            public_settings["trained"] = _shapes(plan.trained)
        public = {**access.public, "gradients": {plan.name: public_settings}}
        super().__init__(replace(access, public=public))

        # Whether the query was tried on made-up records.
        self._is_probed = False
        # Threads of torch in the probe and in all steps: the bits may depend on them.
        self._torch_threads = 1
        # Parameters of the latest step, by name, converted as the query needs them.
        self._parameters: Mapping[str, Any] = {}
        self._samples = PoissonSamples(rate=plan.sampling_probability)
        # The records in memory, here or in workers; None before the first step.
        self._held_records: Any = None

        # Number of steps begun by all processes with the journal, when it was read
        # last.
        self._begun_steps = 0
        # Number of steps that this process has begun; without a journal all of them.
        self._steps_begun_here = 0
        # The file that counts steps; None for a run that cannot be resumed.
        self._journal: Journal | None = None
        # Whether this process has created that file, for a new run.
        self._has_created_journal = False
        # First line of the journal, if a run is resumed; None for a new run.
        self._resumed_header: Mapping[str, Any] | None = None
        if journal is not None:
            self._open_journal(journal)

    @property
    def _step_plan(self) -> Any:
        """The steps, a `StepQuery`, as they were asked for."""
        return steps_of(self.plan).query

    def _open_journal(self, path: Path) -> None:
        """Opens the journal, and goes on with the run that it counts, if there is one.

        Called last in the constructor, since the digest that identifies a run is of all
        public settings. It only reads the file. Later, before the first record is read,
        `_reserve` asks the ledger, and creates the journal of a new run. What follows
        from the file::

            file             steps begun      reservation of this session
            none             0                a new one
            of this run      those of it      that of the journal, at no cost
            of another run   refused
            no journal       refused

        After an error, or a crash before `_reserve`, nothing is reserved, and the file
        is as it was. A journal with all steps begun is taken up too: no step is left,
        and the run may be released.

        What a change must keep: a run that is taken up costs nothing again, and the
        steps in the file count as begun. The tests in `test_gradient_journal.py` notice
        if this changes.

        Args:
            path: The file of the journal.

        Raises:
            OptionError: if it is of another run, or the plan cannot be resumed.
        """
        # Before the file is looked at: such a plan can use no journal at all.
        if self.plan.releases:
            raise OptionError(
                "journal: a run with queries cannot be resumed, as their results are "
                "kept in memory; run them at a gate of their own, or leave out the "
                "journal."
            )
        self._journal = Journal(path, self._run_digest())
        self._resumed_header = self._journal.resume()
        reservation = self._access.reservation
        # Several processes may confirm the reservation, as the journal gives each step
        # to one of them: also that of a new run, which another process may take up
        # while this one is still at work.
        reservation.is_shared = True
        if self._resumed_header is not None:
            # For now: `_begin_step` takes the number of a step from the journal.
            self._begun_steps = self._journal.begun_step_count()
            reservation.resume(self._resumed_header.get("reservation"))

    @property
    def remaining_steps(self) -> int:
        """How many steps were paid for and not begun."""
        steps: int = self._step_plan.steps
        return max(steps - self._begun_steps, 0)

    def prepare_steps(self, parameters: Mapping[str, Any]) -> None:
        """Checks parameters, and probes the query in the first call.

        The probe tries the computation on made-up records: what it computes of a record
        must not depend on other records. No private record is read, and nothing is
        spent. `step` does the same by itself. Call this first where queries come before
        the steps, so that they are not paid for in vain if a step would be refused.

        Args:
            parameters: Public parameters, by name, of the shapes of the plan.

        Raises:
            OptionError: if parameters, loss or function do not fit.
        """
        with self._lock:
            self._parameters = self._checked_parameters(parameters)
            if not self._is_probed:
                self._torch_threads = self._thread_count()
                with gate_threads(self._torch_threads):
                    self._probe()
                self._is_probed = True

    def step(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Computes the vector of a fresh sample of the records, and adds noise.

        For gradients, the vector is the sum of the clipped gradients at the records in
        a Poisson sample. A step is marked as begun before its sample is drawn, and its
        noise is drawn last. If it is interrupted in between, the step is used up: it is
        paid for, and no other noise is drawn for it.

        Args:
            parameters: Public parameters, by name: those with respect to which
                gradients are taken, or those that the function of a sample gets.

        Returns:
            The noisy vector as arrays of the planned shapes, by name, in the units of
            the gradients.

        Raises:
            OptionError: if no step is left, or parameters, loss or function do not fit
                (nothing is read or used then).
            DataError: if the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        with self._lock:
            if not self.remaining_steps:
                raise OptionError(
                    f"all {self._step_plan.steps} steps were used; more would cost "
                    "more. Plan them before the run."
                )
            self.prepare_steps(parameters)
            with self._reading_records():
                if self._held_records is None:
                    self._held_records = self._read_checked_records()
                number = self._begin_step()
                # With the threads of the probe, whatever the caller has set since.
                with gate_threads(self._torch_threads):
                    total = self._total(number)
                noisy_total = self._add_noise(total, steps_of(self.plan).event)
                self._stop_engine_if_answered()
            return self._unpacked(noisy_total)

    def _begin_step(self) -> int:
        """Marks the next step as begun, before its sample is drawn.

        With a journal, several processes may take steps of one run, and the journal
        gives each step to one of them. The step is marked first and its number compared
        with the plan afterwards, since any number that was read before may be out of
        date. So if another process has begun the last step, the journal counts one step
        more than planned. This is harmless: no noise is drawn for it, and
        `remaining_steps` is 0 from then on.

        Returns:
            Number of the step, from 0.

        Raises:
            OptionError: if another process has begun the last step.
        """
        number = self._journal.begin_step() if self._journal else self._begun_steps
        self._begun_steps = number + 1
        self._steps_begun_here += 1
        if number >= self._step_plan.steps:
            raise OptionError(
                f"all {self._step_plan.steps} steps were used, maybe by another "
                "process with the same journal."
            )
        return number

    def release(self, parameters: Mapping[str, Any] | None = None) -> Release:
        """Releases the trained parameters and all answers, with their certificate.

        The reservation in the ledger is committed, and then the journal removed. If the
        process dies before the commit, the run may be resumed and released again.

        Args:
            parameters: Public parameters that were trained on what the steps returned,
                by name, of the shapes of the plan's `released`. They are required;
                the argument is optional only because `SumSession.release` has none.

        Returns:
            The parameters and the answers to the queries, with their certificate.

        Raises:
            OptionError: if the parameters are missing or do not fit, a query is not
                answered, no step was taken, or the release was handed out before.
        """
        if parameters is None:
            raise OptionError("release() of a gradient run takes what was trained.")
        plan = self._step_plan
        arrays = {name: _as_array(value) for name, value in parameters.items()}
        with self._lock:
            if self.state is State.PLANNED and self._resumed_header is None:
                raise OptionError("no step was taken, so there is nothing to release.")
            packed = plan.pack(arrays)
            if self.state is State.PLANNED:
                # A resumed run whose steps were all taken before. Its reservation is
                # taken up and confirmed without a step.
                with self._reading_records():
                    self._confirm()
            self._values[plan.name] = packed
            release = super().release()
        if self._journal:
            self._journal.remove()
        return release

    def _thread_count(self) -> int:
        """Returns the number of threads that torch uses in the probe and in all steps.

        The bits of a gradient may depend on it, so it is chosen once.
        """
        engine = self._access.engine
        uses_one_core = engine is not None and engine.one_core
        if "torch" not in sys.modules or uses_one_core:
            return 1
        import torch

        return torch.get_num_threads()

    def _read_checked_records(self) -> Any:
        """Reads all records into memory for the steps, and checks their number.

        Returns:
            The records, as `_read_records` returns them; private.

        Raises:
            DataError: if the number is 0, or not the public one where that must be
                exact.
            OverflowError: if the sum of a step could leave 64 bits.
        """
        held_records = self._read_records()
        record_count = held_records.record_count
        self._check_record_count(record_count)
        # `RECORD_LIMIT` holds for vectors of norm `UNITS`. Here a record may add as
        # much as the sensitivity to the sum.
        max_records = RECORD_LIMIT * UNITS // int(self._step_plan.sensitivity)
        if record_count > max_records:
            raise OverflowError("too many records: the sum could leave 64 bits.")
        return held_records

    # What the kinds of query in steps differ in.

    def _checked_parameters(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Checks the parameters of a step, and converts them as the query needs them.

        Args:
            parameters: Public parameters, by name.

        Raises:
            OptionError: if they do not fit the plan.
        """
        return parameters

    @abstractmethod
    def _probe(self) -> None:
        """Tries the query on made-up records, at the parameters of the first step.

        Raises:
            OptionError: if what it computes is not a function of a record, or of a
                sample.
        """

    @abstractmethod
    def _read_records(self) -> Any:
        """Reads all records into memory, for all steps.

        Returns:
            An object that holds them, with their number as `record_count`; private.
        """

    @abstractmethod
    def _total(self, number: int) -> Integers:
        """Computes the exact vector of a step.

        Args:
            number: Number of the step, from 0.

        Returns:
            The vector, (count,), in grid units; private.
        """

    def _unpacked(self, noisy: Integers) -> dict[str, Any]:
        """Splits the noisy vector of a step into arrays, in the units of the gradients.

        Args:
            noisy: The vector in grid units, (count,).

        Returns:
            Arrays of the planned shapes, by name.
        """
        plan = self._step_plan
        arrays: dict[str, Any] = plan.unpack(noisy.astype(np.float64) / plan.scale)
        return arrays

    # The state machine with a journal.

    def _stds(self) -> dict[str, float]:
        """Returns the standard deviations of the noise of answers, and of each step."""
        return {
            **super()._stds(),
            self._step_plan.name: steps_of(self.plan).noise_std_natural,
        }

    def _reserve(self) -> None:
        """Reserves the cost, or goes on with the reservation of a resumed run.

        A new run reserves in the ledger before it creates the journal of its steps. If
        the process dies in between, that reservation stays open without any noise drawn
        on it, and the next run reserves anew.

        A resumed run costs nothing again, and gives nothing back: it may have drawn
        noise. If the run also has a journal of queries (`AnswerJournal`), this process
        becomes its owner.

        Raises:
            OptionError: if the reservation of a resumed run is closed, or of another
                plan.
            BudgetRefusedError: if the ledger refuses.
        """
        answer_journal = self._access.journal
        if self._resumed_header is None:
            super()._reserve()
        else:
            # The journal of the steps has identified the run and its reservation.
            self._access.reservation.reserve(self.plan, self._access.method)
            if answer_journal is not None and answer_journal.exists:
                answer_journal.become_owner(None)
            else:
                self._access = replace(self._access, journal=None)

        if self._resumed_header is not None:
            self._advance_to(State.CONFIRMED)
        elif self._journal is not None:
            reference = self._access.reservation.ledger_reference or {}
            self._journal.create(reference.get("reservation"))
            self._has_created_journal = True

    def _withdraw_run(self) -> bool:
        """Removes the journal that this process created, unless another one uses it.

        So no other process can begin a step of this run after its cost was given back.

        Returns:
            Whether the cost may be given back. It may not if another process has begun
            a step; the journal stays then.
        """
        if self._journal is None or not self._has_created_journal:
            return True
        return self._journal.withdraw(self._steps_begun_here)

    @property
    def _is_answered(self) -> bool:
        """Whether no query and no step is left."""
        return super()._is_answered and not self.remaining_steps


def _shapes(arrays: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    """Returns shapes by name as lists, which JSON can express."""
    return {name: list(shape) for name, shape in arrays.items()}


def _as_array(value: Any) -> npt.NDArray[Any]:
    """Converts an array, or a tensor on any device, to an array."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu())
    return np.asarray(value)


class SampleSession(StepSession):
    """Steps whose vector is computed from a sample as a whole, in this process.

    All records are held in the memory of this process. A subclass computes the vector
    of a sample.
    """

    def _read_records(self) -> HeldRecords:
        """Reads all records into the memory of this process, as one part."""
        held_records = HeldRecords()
        held_records.add_part(0, self._access.source, self._access.progress)
        return held_records

    def _total(self, number: int) -> Integers:
        """Draws the sample of a step, and computes its exact vector.

        Args:
            number: Number of the step, from 0.

        Returns:
            The vector, (count,), in grid units; private.
        """
        records = self._held_records.all_records()
        sample = self._sample(len(records.numeric), number)
        return self._exact_vector(records, sample)

    def _sample(self, record_count: int, number: int) -> npt.NDArray[np.intp]:
        """Draws the sample of a step.

        Args:
            record_count: Number of records; private.
            number: Number of the step, from 0.

        Returns:
            Indices of the records in the sample, ascending; private.
        """
        return self._samples.indices(record_count, number)

    @abstractmethod
    def _exact_vector(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        """Computes the exact vector of a step's sample.

        Args:
            records: All records; private.
            sample: Indices that `_sample` has drawn; private.

        Returns:
            The vector, (count,), in grid units; private.
        """


class GradientSession(StepSession):
    """Steps of DP-SGD: noisy sums of clipped gradients; `Gate.gradients` returns it.

    Args:
        access: The records, the plan of a `GradientQuery`, and the means.
        loss: The loss of one record; a `FactoredLoss` if the plan is factored.
        journal: File that counts the steps begun, so that an interrupted run can go on;
            None for a run that cannot.
        device: Device on which torch computes gradients.
        microbatch: Number of records whose gradients are computed at once; None for
            what fits into memory.
        represent: A public feature map whose vector replaces the numeric columns of a
            record; None to leave records as they are.

    Raises:
        OptionError: if loss or journal do not fit the plan.
    """

    def __init__(
        self,
        access: Access,
        loss: RecordLoss | FactoredLoss,
        *,
        journal: Path | None = None,
        device: str = "cpu",
        microbatch: int | None = None,
        represent: FeatureMap | None = None,
    ) -> None:
        plan: Any = steps_of(access.plan).query
        self._gradients = gradient_source(loss, plan, microbatch)
        self._device = device
        self._represent = represent
        # The map `represent` with how it is computed, after the probe; None without
        # one.
        self._representation: Representation | None = None
        settings: dict[str, Any] = {"norm": plan.clip_norm, "factored": plan.factored}
        if represent is not None:
            settings["represented"] = {
                "by": type(represent).__name__,
                "dim": represent.dim,
            }
        super().__init__(access, settings, journal=journal)

    def _checked_parameters(
        self, parameters: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """Checks the shapes of parameters, and converts them to float32 on the device.

        Args:
            parameters: Parameters, by name.

        Returns:
            The parameters, detached from any graph, on the device of the session.

        Raises:
            OptionError: if they have other shapes than planned.
        """
        import torch

        used_parameters = {
            name: value.detach().to(self._device, torch.float32)
            for name, value in parameters.items()
        }
        shapes = {name: tuple(value.shape) for name, value in used_parameters.items()}
        planned_shapes = self._step_plan.parameters
        if shapes != planned_shapes:
            raise OptionError(
                f"parameters of shapes {shapes}, the plan has {dict(planned_shapes)}."
            )
        return used_parameters

    def _probe(self) -> None:
        """Tries map and loss on made-up records, and chooses how they are computed.

        Raises:
            OptionError: if the vector or the gradient of a record depends on other
                records.
        """
        layout = self._access.source.schema.layout
        threads = self._torch_threads
        if self._represent is not None:
            execution = map_execution(
                type(self._represent).__name__, self._represent, layout, threads=threads
            )
            self._representation = Representation(self._represent, execution)
        choose_execution(
            self._gradients,
            self._parameters,
            layout,
            self._device,
            self._step_plan.name,
            self._representation,
            threads=threads,
        )

    def _read_records(self) -> Any:
        """Makes the engine read all records into memory, here or in its workers.

        Returns:
            The records, whose `total(step, parameters)` sums over a step's sample.
        """
        task = StepTask(
            gradients=self._gradients,
            samples=self._samples,
            initial_parameters=self._parameters,
            count=self._step_plan.count,
            device=self._device,
            representation=self._representation,
        )
        engine = self._started_engine()
        return engine.hold(self._access.source, task, self._access.progress)

    def _total(self, number: int) -> Integers:
        """Computes the exact sum of the clipped gradients in a step's sample.

        Args:
            number: Number of the step, from 0.

        Returns:
            The sum, (count,), in grid units; private.
        """
        return np.asarray(self._held_records.total(number, self._parameters))

    def _unpacked(self, noisy: Integers) -> dict[str, Tensor]:
        """Splits the noisy sum of a step into tensors, in the units of the gradients.

        Args:
            noisy: The sum in grid units, (count,).

        Returns:
            Tensors of the planned shapes on the device of the session, by name.
        """
        import torch

        return {
            name: torch.from_numpy(array).to(self._device)
            for name, array in super()._unpacked(noisy).items()
        }
