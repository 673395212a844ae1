"""Queries in steps: noisy vectors over fresh samples of the records, as many as were paid for.

The encoded records are held in memory, 4 bytes a column and record; or what a public map made of them once, on reading.
How many records were in a sample stays private. (How long a step takes tells about that number; keep the clock of a run
from those who get the result.)

Guarantee G-21 (steps). A run costs at most what its plan's events cost, resumed or not.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import Execution, embedded_records
from noisegate.gate.journal import Journal
from noisegate.gate.queries.sums import SumSession
from noisegate.gate.session import Access, Integers, State
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import event_to_json
from noisegate.privacy.grid import RECORD_LIMIT, UNITS
from noisegate.privacy.release import Release
from noisegate.records import POSITIONS, Images

Records = tuple[npt.NDArray[Any], npt.NDArray[np.int32]]
"""Numeric and coded columns of all records, (records, columns) each; images as bytes: see `as_floats`."""

_INTENSITIES = POSITIONS.astype(np.float32)


def as_floats(numeric: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Returns numeric columns as float32; bytes as intensities in [0, 1]."""
    return _INTENSITIES.take(numeric) if numeric.dtype == np.uint8 else numeric.astype(np.float32, copy=False)


class StepSession(SumSession):
    """The steps of one plan, and its questions if it has any.

    Use it in a ``with`` block, and call `release` with what was trained. The whole plan is reserved before the first
    record is read, and stays spent from the first noise on, however many steps follow.

    Args:
        access: What the gate grants; its plan has steps.
        journal: File that counts steps across interruptions, or None.
        represent: Map whose vector takes the place of a record's numeric columns, once, on reading; None for none.

    Raises:
        OptionError: if the journal is of another run, or the plan cannot be resumed.
    """

    def __init__(self, access: Access, *, journal: Path | None = None, represent: FeatureMap | None = None) -> None:
        super().__init__(access)
        self._represent = represent
        self._represented: tuple[FeatureMap, Execution] | None = None
        self._begun = self._own = 0
        self._records: Records | None = None
        self._journal: Journal | None = None
        self._created = False
        self._resumed: Mapping[str, Any] | None = None
        if journal is not None:
            if access.plan.releases:
                raise OptionError(
                    "journal: a run with questions cannot be resumed, as its answers are kept in memory; ask them at a "
                    "gate of their own, or leave out the journal."
                )
            self._journal = Journal(journal, self._digest())
            self._resumed = self._journal.resume()
        if self._journal is not None and self._resumed is not None:
            self._begun = self._journal.begun()
            access.reservation.resume(self._resumed.get("reservation"))

    @property
    def steps_left(self) -> int:
        """How many steps were paid for and not begun."""
        steps: int = self.plan.plan.steps
        return max(steps - self._begun, 0)

    def release(self, parameters: Mapping[str, Any] | None = None) -> Release:
        """Returns what was trained, and answers if any, with their certificate, and commits the reservation.

        Args:
            parameters: What was trained on what the steps returned: of the shapes of the plan's `released`.

        Raises:
            OptionError: if they are missing or do not fit, a question is open, or it was called before.
        """
        if parameters is None:
            raise OptionError("release() of a gradient run takes what was trained.")
        plan = self.plan.plan
        arrays = {
            name: np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
            for name, value in parameters.items()
        }
        with self._lock:
            if self.state is State.PLANNED and self._resumed is None:
                raise OptionError("no step was taken, so there is nothing to release.")
            packed = plan.pack(arrays)
            if self.state is State.PLANNED:  # all steps were taken before the interruption
                with self._asking():
                    self._confirm()
            self._values[plan.name] = packed
            released = super().release()
        if self._journal:
            self._journal.remove()
        return released

    @abstractmethod
    def _exact(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        """Returns what a step's sample comes to, in grid units."""

    @abstractmethod
    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        """Returns the places of the records that a step uses."""

    def _unpacked(self, noisy: Integers) -> Any:
        """Returns the noisy vector of a step, array by array, in its own units."""
        plan = self.plan.plan
        return plan.unpack(noisy.astype(np.float64) / plan.scale)

    def _step(self) -> Any:
        """Takes a step: reads the records if it is the first, and returns the noisy vector of its sample."""
        plan, event = self.plan.plan, self.plan.event
        with self._asking():
            records = self._in_memory()
            # Begun, hence used, before anything is drawn: an interrupted step is not drawn again.
            number = self._journal.begin() if self._journal else self._begun
            self._begun = number + 1
            self._own += 1
            if number >= plan.steps:
                raise OptionError(f"all {plan.steps} steps were used, maybe by another process with the same journal.")
            exact = self._exact(records, self._sample(len(records[0]), number))
            noisy = self._noisy(exact, event)
        return self._unpacked(noisy)

    def _check_steps(self) -> None:
        if not self.steps_left:
            raise OptionError(
                f"all {self.plan.plan.steps} steps were used; more would cost more. Plan them before the run."
            )

    def _stds(self) -> dict[str, float]:
        return {**super()._stds(), self.plan.plan.name: self.plan.noise_std_natural}

    def _reserve(self) -> None:
        super()._reserve()
        if self._resumed is not None:
            # The run that was interrupted may have drawn noise: nothing is given back.
            self.state = self.state.to(State.CONFIRMED)
        elif self._journal is not None:
            self._journal.create((self._access.reservation.place or {}).get("reservation"))
            self._created = True

    def _may_give_back(self) -> bool:
        # In no step was any noise drawn, nor in another process with the same journal.
        return self._journal is None or not self._created or self._journal.withdraw(self._own)

    def _digest(self) -> str:
        """Returns what tells this run from any other, for its journal."""
        told = {"events": [event_to_json(event) for event in self.plan.events], "method": self._access.method}
        budget = self.plan.budget
        guarantee = [budget.epsilon, budget.delta, budget.adjacency.value, budget.unit, budget.contributions]
        return hashlib.sha256(canonical_json({**told, "budget": guarantee, "public": self._access.public})).hexdigest()

    def _in_memory(self) -> Records:
        if self._records is None:
            numeric: list[npt.NDArray[Any]] = []
            codes: list[npt.NDArray[np.int32]] = []
            seen = 0
            for read in self._access.source.batches():
                records = read if self._represented is None else embedded_records(read, *self._represented)
                images = records.pixels.reshape(len(records), -1) if isinstance(records, Images) else None
                numeric.append(records.numeric.astype(np.float32) if images is None else images)
                codes.append(records.codes)
                seen += len(records)
                if self._access.progress:
                    self._access.progress(seen)
            self._check_records(seen)
            if seen > RECORD_LIMIT * UNITS // int(self.plan.event.sensitivity):
                raise OverflowError("too many records: the sum could leave 64 bits.")
            self._records = np.concatenate(numeric), np.concatenate(codes)
        return self._records
