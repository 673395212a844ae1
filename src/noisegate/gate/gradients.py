"""Gradients in steps: noisy sums of clipped per-example gradients over Poisson samples, as many as were paid for.

Each step draws a fresh Poisson sample of the records, adds up their gradients on the integer grid, and hands out the
sum with noise, and nothing else: how many records were in the sample stays private. (How long a step takes tells about
that number; keep the clock of a run from those who get the result.) The parameters of a step may depend on everything
that was handed out before; rate, clipping norm and noise may not.

Guarantee G-21 (steps). A run costs at most what its plan's events cost, resumed or not.

The encoded records are held in memory, 4 bytes a column and record; or what a public map made of them once, on reading
(`gate.represented`).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.data.sources import RecordSource
from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.booking import Booking
from noisegate.gate.engines.engine import Engine, Progress
from noisegate.gate.execution import Execution
from noisegate.gate.gradient_probe import choose_execution, represent_execution
from noisegate.gate.journal import Journal
from noisegate.gate.losses import FactoredLoss, RecordLoss
from noisegate.gate.per_example import GradientSource, block_gradients, gradient_source
from noisegate.gate.poisson import poisson_sample
from noisegate.gate.represented import represented
from noisegate.gate.session import Session
from noisegate.privacy import noise
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import event_to_json
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.grid import RECORD_LIMIT, UNITS
from noisegate.privacy.release import Release

if TYPE_CHECKING:
    from torch import Tensor


class GradientSession(Session):
    """The steps of one plan, and its questions if it has any; to be had from `Gate.gradients`.

    Use it in a ``with`` block, and call `release` with the final parameters. The whole plan is reserved before the
    first record is read, and stays spent from the first noise on, however many steps follow.

    Args:
        plan: Steps and questions with their noise.
        source: The private records.
        loss: The loss of one record.
        records: The number of records where it is public and exact, or None.
        method: Name of the method, for the certificate.
        public: What was taken as public, for the certificate.
        engine: Where sums of questions run.
        progress: Called with the number of records read.
        booking: Where the cost is reserved.
        once: Lock of the gate: whoever holds it has the gate's one answer.
        journal: File that counts steps across interruptions, or None.
        device: Where gradients are computed.
        physical_batch: Records whose gradients are computed at once, at most; None for what fits.
        represent: Map whose vector takes the place of a record's numeric columns, once, on reading; None for none.
    """

    def __init__(
        self,
        plan: CalibratedGradientPlan,
        source: RecordSource,
        loss: RecordLoss | FactoredLoss,
        *,
        records: int | None,
        method: str,
        public: Mapping[str, Any],
        engine: Engine,
        progress: Progress | None,
        booking: Booking,
        once: threading.Lock,
        journal: Path | None = None,
        device: str = "cpu",
        physical_batch: int | None = None,
        represent: FeatureMap | None = None,
    ) -> None:
        self._gradients: GradientSource = gradient_source(loss, plan.plan, physical_batch)
        settings: dict[str, Any] = {
            "norm": plan.plan.norm,
            "factored": plan.plan.factored,
            "parameters": _json(plan.plan.parameters),
        }
        if plan.plan.trained is not None:
            settings["trained"] = _json(plan.plan.trained)
        if represent is not None:
            settings["represented"] = {"by": type(represent).__name__, "dim": represent.dim}
        super().__init__(
            plan,
            source,
            records=records,
            method=method,
            public={**public, "gradients": {plan.plan.name: settings}},
            engine=engine,
            progress=progress,
            booking=booking,
            once=once,
        )
        self._steps, self._device, self._represent = plan, device, represent
        self._represented: tuple[FeatureMap, Execution] | None = None
        self._begun_steps = self._own_steps = 0
        self._table: tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]] | None = None
        self._probed = False
        self._journal: Journal | None = None
        self._resumed: Mapping[str, Any] | None = None
        if journal is not None:
            self._open_journal(journal)

    @property
    def steps_left(self) -> int:
        """How many steps were paid for and not begun."""
        return max(self._steps.plan.steps - self._begun_steps, 0)

    def step(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the noisy sum of clipped gradients over a fresh Poisson sample, in the units of the gradients.

        Args:
            parameters: The parameters to differentiate at, of the planned shapes. They are public.

        Raises:
            OptionError: if no step is left, or parameters or loss do not fit (nothing is read or used up then).
            DataError: if the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        with self._turn:
            if not self.steps_left:
                raise OptionError(
                    f"all {self._steps.plan.steps} steps were used; more would cost more. Plan them before the run."
                )
            tensors = self._checked(parameters)
            if not self._probed:
                layout, name = self._source.schema.layout, self._steps.plan.name
                if self._represent is not None:
                    self._represented = self._represent, represent_execution(self._represent, layout)
                choose_execution(self._gradients, tensors, layout, self._device, name, self._represented)
                self._probed = True
            self._begin()
            try:
                sums = self._sum(tensors)
            except BaseException as error:
                self._ended = True
                # In no step was any noise drawn, nor in another process with the same journal.
                if not self._drawn and (self._journal is None or self._journal.withdraw(self._own_steps)):
                    self._booking.void(error)
                raise
            return self._unpacked(sums)

    def release(self, parameters: Mapping[str, Tensor] | None = None) -> Release:
        """Returns what was trained, and answers if any, with their certificate, and commits the reservation.

        Args:
            parameters: What was trained on the sums that `step` returned: of the shapes of `plan.released`.

        Raises:
            OptionError: if they are missing or do not fit, a question is open, or it was called before.
        """
        if parameters is None:
            raise OptionError("release() of a gradient run takes what was trained.")
        plan = self._steps.plan
        arrays = {name: value.detach().cpu().numpy() for name, value in parameters.items()}
        with self._turn:
            if not self._begun:
                if self._resumed is None:
                    raise OptionError("no step was taken, so there is nothing to release.")
                # All steps were taken before the interruption.
                self._begin()
                self._booking.confirm()
            self._values[plan.name] = plan.pack(arrays)
        released = super().release()
        if self._journal:
            self._journal.remove()
        return released

    def _stds(self) -> dict[str, float]:
        return {**super()._stds(), self._steps.plan.name: self._steps.noise_std_natural}

    def _open_journal(self, path: Path) -> None:
        if self._steps.releases:
            raise OptionError(
                "journal: a run with questions cannot be resumed, as its answers are kept in memory; ask them at a "
                "gate of their own, or leave out the journal."
            )
        self._journal = Journal(path, self._digest())
        self._resumed = self._journal.resume()
        if self._resumed is not None:
            self._begun_steps = self._journal.begun()
            self._booking.resume(self._resumed.get("reservation"))

    def _begin(self) -> None:
        first = not self._begun
        super()._begin()
        if not first or self._journal is None:
            return
        if self._resumed is not None:
            # The run that was interrupted may have drawn noise: from here on nothing is given back.
            self._drawn = True
            return
        try:
            self._journal.create((self._booking.place or {}).get("reservation"))
        except BaseException as error:
            self._ended = True
            self._booking.void(error)
            raise

    def _digest(self) -> str:
        """Returns what tells this run from any other, for its journal."""
        told = {"events": [event_to_json(event) for event in self._plan.events], "method": self._method}
        budget = self._plan.budget
        guarantee = [budget.epsilon, budget.delta, budget.adjacency.value, budget.unit, budget.contributions]
        return hashlib.sha256(canonical_json({**told, "budget": guarantee, "public": self._public})).hexdigest()

    def _checked(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        import torch

        tensors = {name: value.detach().to(self._device, torch.float32) for name, value in parameters.items()}
        shapes = {name: tuple(value.shape) for name, value in tensors.items()}
        if shapes != self._steps.plan.parameters:
            raise OptionError(f"parameters of shapes {shapes}, the plan has {dict(self._steps.plan.parameters)}.")
        return tensors

    def _sum(self, parameters: Mapping[str, Tensor]) -> npt.NDArray[np.int64]:
        """Returns the noisy sum of one step, in grid units."""
        numeric, codes = self._records_in_memory()
        plan, event = self._steps.plan, self._steps.event
        # Begun, hence used, before anything is drawn: an interrupted step is not drawn again.
        number = self._journal.begin() if self._journal else self._begun_steps
        self._begun_steps = number + 1
        self._own_steps += 1
        if number >= plan.steps:
            raise OptionError(f"all {plan.steps} steps were used, maybe by another process with the same journal.")
        sampled, rows = poisson_sample(len(numeric), plan.rate), self._gradients.execution.rows
        sums = np.zeros(plan.count, dtype=np.int64)
        for start in range(0, len(sampled), rows):
            block = sampled[start : start + rows]
            # Always of one shape: kernels may round differently for another (DESIGN 1.5).
            padded = block[np.minimum(np.arange(rows), len(block) - 1)]
            vectors = block_gradients(self._gradients, parameters, numeric[padded], codes[padded], self._device)
            self._gradients.add(sums, tuple(part[: len(block)] for part in vectors))
        self._booking.confirm()
        self._drawn = True
        return noise.add_noise(sums, noise_std=event.noise_std, sampler=event.sampler)

    def _records_in_memory(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        if self._table is None:
            numeric: list[npt.NDArray[np.float32]] = []
            codes: list[npt.NDArray[np.int32]] = []
            seen = 0
            for read in self._source.batches():
                records = read if self._represented is None else represented(read, *self._represented)
                numeric.append(records.numeric.astype(np.float32))
                codes.append(records.codes)
                seen += len(records)
                if self._progress:
                    self._progress(seen)
            self._check_records(seen)
            if seen > RECORD_LIMIT * UNITS // self._steps.plan.units:
                raise OverflowError("too many records: the sum could leave 64 bits.")
            self._table = np.concatenate(numeric), np.concatenate(codes)
        return self._table

    def _unpacked(self, sums: npt.NDArray[np.int64]) -> dict[str, Tensor]:
        import torch

        plan = self._steps.plan
        arrays = plan.unpack(sums.astype(np.float64) / plan.scale)
        return {name: torch.from_numpy(array).to(self._device) for name, array in arrays.items()}


def _json(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in shapes.items()}
