"""Queries in steps: noisy sums of clipped per-example gradients over fresh Poisson samples (G-19, G-21).

The parameters of a step may depend on everything that was handed out before; sampling
probability, clipping norm and noise may not (G-21). How many records were in a sample
stays private; the clock of a run tells about it (G-19).
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
from noisegate.gate.execution import Execution, map_execution
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
from noisegate.privacy.grid import RECORD_LIMIT, UNITS
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap

if TYPE_CHECKING:
    from torch import Tensor


class StepSession(SumSession):
    """The steps of one plan, and its questions if it has any.

    Use it in a ``with`` block, and call `release` with what was trained. The whole plan is reserved before the first
    record is read, and stays spent from the first noise on, however many steps follow. A journal, the path of a file,
    counts steps across interruptions; what tells the run from others, `settings` too, is in the certificate.

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
        plan = access.plan.plan
        told = {
            **settings,
            "parameters": {
                name: list(shape) for name, shape in plan.parameters.items()
            },
        }
        if plan.trained is not None:
            told["trained"] = {
                name: list(shape) for name, shape in plan.trained.items()
            }
        super().__init__(
            replace(access, public={**access.public, "gradients": {plan.name: told}})
        )
        self._probed = self._created = False
        self._torch_threads = 1
        self._parameters: Mapping[str, Any] = {}
        self._begun = self._own = 0
        self._samples = PoissonSamples(rate=plan.sampling_probability)
        self._held: Any = None
        self._journal: Journal | None = None
        self._resumed: Mapping[str, Any] | None = None
        if journal is not None:
            if access.plan.releases:
                raise OptionError(
                    "journal: a run with queries cannot be resumed, as their results are kept in memory; run them at a "
                    "gate of their own, or leave out the journal."
                )
            self._journal = Journal(journal, self._run_digest())
            self._resumed = self._journal.resume()
            # Who may draw which noise is said by the steps' journal.
            access.reservation.shared = True
            if self._resumed is not None:
                self._begun = self._journal.begun()
                access.reservation.resume(self._resumed.get("reservation"))

    @property
    def remaining_steps(self) -> int:
        """How many steps were paid for and not begun."""
        steps: int = self.plan.plan.steps
        return max(steps - self._begun, 0)

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Refuses now what the first step would refuse at such parameters; nothing is read or spent for it.

        Call it where questions come before the steps, whose cost would be lost.
        """
        with self._lock:
            self._parameters = self._usable(parameters)
            if not self._probed:
                self._torch_threads = self._chosen_threads()
                with gate_threads(self._torch_threads):
                    self._probe()
                self._probed = True

    def step(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the noisy vector of a fresh sample, array by array, in its own units.

        The public `parameters` are what gradients are taken at, or what the function of a sample gets.

        Raises:
            OptionError: if no step is left, or parameters, loss or function do not fit (nothing is read or used then).
            DataError: if the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        plan = self.plan.plan
        with self._lock:
            if not self.remaining_steps:
                raise OptionError(
                    f"all {plan.steps} steps were used; more would cost more. Plan them before the run."
                )
            self.prepare(parameters)
            with self._asking():
                if self._held is None:
                    held = self._read()
                    self._check_records(held.records)
                    if held.records > RECORD_LIMIT * UNITS // int(
                        self.plan.event.sensitivity
                    ):
                        raise OverflowError(
                            "too many records: the sum could leave 64 bits."
                        )
                    self._held = held
                # Begun, hence used, before anything is drawn: an interrupted step is not drawn again.
                number = self._journal.begin() if self._journal else self._begun
                self._begun = number + 1
                self._own += 1
                if number >= plan.steps:
                    raise OptionError(
                        f"all {plan.steps} steps were used, maybe by another process with the same journal."
                    )
                # As the probe did, whatever number of threads the caller has set since.
                with gate_threads(self._torch_threads):
                    total = self._total(number)
                noisy = self._noisy(total, self.plan.event)
                self._close_if_answered()
            return self._unpacked(noisy)

    def release(self, parameters: Mapping[str, Any] | None = None) -> Release:
        """Returns what was trained, and answers if any, with their certificate, and commits the reservation.

        The `parameters` are what was trained on what the steps returned, of the shapes of the plan's `released`.

        Raises:
            OptionError: if they are missing or do not fit, a question is open, or it was called before.
        """
        if parameters is None:
            raise OptionError("release() of a gradient run takes what was trained.")
        plan = self.plan.plan
        arrays = {
            name: np.asarray(
                value.detach().cpu() if hasattr(value, "detach") else value
            )
            for name, value in parameters.items()
        }
        with self._lock:
            if self.state is State.PLANNED and self._resumed is None:
                raise OptionError("no step was taken, so there is nothing to release.")
            packed = plan.pack(arrays)
            if (
                self.state is State.PLANNED
            ):  # all steps were taken before the interruption
                with self._asking():
                    self._confirm()
            self._values[plan.name] = packed
            released = super().release()
        if self._journal:
            self._journal.remove()
        return released

    def _chosen_threads(self) -> int:
        """Returns with how many threads torch computes the steps, as it computes the probe: bits may depend on it."""
        engine = self._access.engine
        if "torch" not in sys.modules or (engine is not None and engine.one_core):
            return 1
        import torch

        return torch.get_num_threads()

    # What the kinds of query in steps differ in.

    def _usable(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the parameters of a step as they are used; refuses those that do not fit."""
        return parameters

    @abstractmethod
    def _probe(self) -> None:
        """Refuses, on made-up records, what would not be a function of a record or of a sample."""

    @abstractmethod
    def _read(self) -> Any:
        """Reads all records, to be held for the steps."""

    @abstractmethod
    def _total(self, number: int) -> Integers:
        """Returns what a step comes to, in grid units: by whoever holds the records."""

    def _unpacked(self, noisy: Integers) -> dict[str, Any]:
        """Returns the noisy vector of a step, array by array, in its own units."""
        unpacked: dict[str, Any] = self.plan.plan.unpack(
            noisy.astype(np.float64) / self.plan.plan.scale
        )
        return unpacked

    # The state machine with a journal.

    def _stds(self) -> dict[str, float]:
        return {**super()._stds(), self.plan.plan.name: self.plan.noise_std_natural}

    def _reserve(self) -> None:
        answers = self._access.journal
        if self._resumed is None:
            super()._reserve()
        else:
            # The steps' journal says what was begun.
            self._access.reservation.reserve(self.plan, self._access.method)
            if answers is not None and answers.exists:
                answers.take_up(None)
            else:
                self._access = replace(self._access, journal=None)
        if self._resumed is not None:
            # The run that was interrupted may have drawn noise: nothing is given back.
            self.state = self.state.to(State.CONFIRMED)
        elif self._journal is not None:
            self._journal.create(
                (self._access.reservation.place or {}).get("reservation")
            )
            self._created = True

    def _may_give_back(self) -> bool:
        # In no step was any noise drawn, nor in another process with the same journal.
        return (
            self._journal is None
            or not self._created
            or self._journal.rollback(self._own)
        )

    @property
    def _answered(self) -> bool:
        return super()._answered and not self.remaining_steps


class SampleSession(StepSession):
    """Steps that take a whole sample of the records, which this process holds."""

    def _read(self) -> HeldRecords:
        held = HeldRecords()
        held.add(0, self._access.source, self._access.progress)
        return held

    def _total(self, number: int) -> Integers:
        records = self._held.together()
        return self._exact(records, self._sample(len(records[0]), number))

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        """Returns the places of the records that a step uses."""
        return self._samples.places(records, number)

    @abstractmethod
    def _exact(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        """Returns what a step's sample comes to, in grid units."""


class GradientSession(StepSession):
    """The steps of one plan of gradients, to be had from `Gate.gradients`, which says what its options are."""

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
        plan = access.plan.plan
        self._gradients = gradient_source(loss, plan, microbatch)
        self._device, self._represent = device, represent
        self._represented: tuple[FeatureMap, Execution] | None = None
        settings: dict[str, Any] = {"norm": plan.clip_norm, "factored": plan.factored}
        if represent is not None:
            settings["represented"] = {
                "by": type(represent).__name__,
                "dim": represent.dim,
            }
        super().__init__(access, settings, journal=journal)

    def _usable(self, parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        import torch

        used = {
            name: value.detach().to(self._device, torch.float32)
            for name, value in parameters.items()
        }
        shapes, planned = (
            {name: tuple(value.shape) for name, value in used.items()},
            self.plan.plan.parameters,
        )
        if shapes != planned:
            raise OptionError(
                f"parameters of shapes {shapes}, the plan has {dict(planned)}."
            )
        return used

    def _probe(self) -> None:
        layout, represent, name = (
            self._access.source.schema.layout,
            self._represent,
            self.plan.plan.name,
        )
        threads = self._torch_threads
        if represent is not None:
            way = map_execution(
                type(represent).__name__, represent, layout, threads=threads
            )
            self._represented = represent, way
        choose_execution(
            self._gradients,
            self._parameters,
            layout,
            self._device,
            name,
            self._represented,
            threads=threads,
        )

    def _read(self) -> Any:
        task = StepTask(
            gradients=self._gradients,
            samples=self._samples,
            start=self._parameters,
            count=self.plan.plan.count,
            device=self._device,
            represented=self._represented,
        )
        return self._running().hold(self._access.source, task, self._access.progress)

    def _total(self, number: int) -> Integers:
        return np.asarray(self._held.total(number, self._parameters))

    def _unpacked(self, noisy: Integers) -> dict[str, Tensor]:
        import torch

        return {
            name: torch.from_numpy(array).to(self._device)
            for name, array in super()._unpacked(noisy).items()
        }
