"""Questions in rounds: the door for the questions of a plan.

A session answers the questions of one plan, each once, in one round or in several. Each round is one pass over the
records. The maps of a later round may depend on the values that earlier rounds released; what they cost may not: norms,
shares and noise of all questions are in the plan, and the whole cost is reserved before the first record is read.

Guarantee G-13 (rounds). Whatever depends on what was released, the composed cost is that of the plan's events.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.data.sources import RecordSource
from noisegate.errors import DataError, OptionError
from noisegate.features.contingency import Contingency
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.booking import Booking
from noisegate.gate.engines.engine import Engine, Progress
from noisegate.gate.independence import map_execution
from noisegate.gate.sums import SumTask, block_rows
from noisegate.privacy import noise
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.plan import CalibratedPlan, PlannedRelease
from noisegate.privacy.release import Release, array_hashes, release_arrays

Values = npt.NDArray[np.float64]


class Session:
    """The rounds of one plan, to be had from `Gate.open`.

    Use it in a ``with`` block, and call `release` once every question is answered, inside the block or behind it. An
    error before any noise was drawn voids the reservation. Just before the first noise it is confirmed, and can only be
    committed from there on: a session that is left before every question is answered counts as spent.

    Args:
        plan: Questions with their noise.
        source: The private records.
        records: The number of records where it is public and exact, or None.
        method: Name of the method, for the certificate.
        public: What was taken as public, for the certificate.
        engine: Where sums run.
        progress: Called with the number of records summed so far in a round.
        booking: Where the cost is reserved.
        once: Lock of the gate: whoever holds it has the gate's one answer.
    """

    def __init__(
        self,
        plan: CalibratedPlan | CalibratedGradientPlan,
        source: RecordSource,
        *,
        records: int | None,
        method: str,
        public: Mapping[str, Any],
        engine: Engine,
        progress: Progress | None,
        booking: Booking,
        once: threading.Lock,
    ) -> None:
        self._plan, self._source, self._public_records = plan, source, records
        self._method, self._public = method, public
        self._engine, self._progress, self._booking, self._once = engine, progress, booking, once
        self._turn = threading.Lock()
        self._values: dict[str, Values] = {}
        self._records: int | None = None
        self._begun = self._drawn = self._ended = self._released = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True

    @property
    def open_questions(self) -> tuple[str, ...]:
        """Names of the questions that are not answered yet."""
        names = (release.question.name for release in self._plan.releases)
        return tuple(name for name in names if name not in self._values)

    def ask(self, maps: Mapping[str, FeatureMap]) -> dict[str, Values]:
        """Answers some of the plan's questions in one pass over the records.

        Args:
            maps: For each of these questions, the map from a record to its vector.

        Returns:
            For each, the noisy sum, (dim, columns), in the units of the vectors. The release will hold the same arrays.

        Raises:
            UserError: if a map does not fit its question (nothing is read then, and it may be asked with another map),
                or the data does not fit the schema, or changed since the last round.
            BudgetRefusedError: if the ledger refuses.
        """
        with self._turn:
            tasks = self._tasks(maps)
            self._begin()
            try:
                totals = self._engine.sum(self._source.unread(), tasks, self._progress)
                self._check_records(totals.records)
                self._booking.confirm()
                self._drawn = True
                values = {name: _noisy(totals.sums[name], self._plan.release(name)) for name in tasks}
            except BaseException as error:
                self._ended = True
                if not self._drawn:
                    # Nothing was released: in no round was any noise drawn.
                    self._booking.void(error)
                raise
            self._values |= values
            return values

    def release(self) -> Release:
        """Returns everything that was answered, with its certificate, and commits the reservation.

        Raises:
            OptionError: if a question is open, or the release was handed out before.
        """
        with self._turn:
            if self.open_questions:
                raise OptionError(
                    f"questions {list(self.open_questions)} have no answer yet; ask all of the plan before release()."
                )
            if self._released:
                raise OptionError("this session has handed out its release; keep that one.")
            self._released = True
            stds = self._stds()
            values = {name: self._values[name] for name in stds}
            budget = self._plan.budget
            certificate = Certificate(
                epsilon=budget.epsilon,
                delta=budget.delta,
                adjacency=budget.adjacency,
                unit=budget.unit,
                contributions=budget.contributions,
                events=self._plan.events,
                method=self._method,
                public=self._public,
                hashes=array_hashes(release_arrays(values, stds)),
                ledger=self._booking.place,
            )
            self._booking.commit(certificate)
            return Release(values=values, noise_std=stds, certificate=certificate)

    def _stds(self) -> dict[str, float]:
        """Returns, for each value of the release, the standard deviation of its noise."""
        return {release.question.name: release.noise_std_natural for release in self._plan.releases}

    def _begin(self) -> None:
        """Before the first record is read: takes the gate's one answer, and reserves the cost of the whole plan."""
        if self._ended:
            raise OptionError("this session has ended; open another gate, which costs again.")
        if self._begun:
            return
        if not self._once.acquire(blocking=False):
            raise OptionError("this gate has answered its plan; a second answer would cost again: open another gate.")
        self._begun = True
        try:
            self._booking.reserve(self._plan, self._method)
        except BaseException:
            # Or the next question would find the session begun, and be answered at no cost.
            self._ended = True
            raise

    def _tasks(self, maps: Mapping[str, FeatureMap]) -> dict[str, SumTask]:
        unknown = [name for name in maps if name not in self.open_questions]
        if unknown or not maps:
            raise OptionError(
                f"feature maps {sorted(maps)} do not match the plan's open questions {list(self.open_questions)}; "
                "each question is asked once."
            )
        return {name: self._task(name, feature_map) for name, feature_map in maps.items()}

    def _task(self, name: str, feature_map: FeatureMap) -> SumTask:
        question, layout = self._plan.release(name).question, self._source.schema.layout
        label = layout.label if question.columns > 1 else None
        columns = 1 if label is None else layout.coded[label].size
        fits = feature_map.dim <= question.dim if question.adaptive else feature_map.dim == question.dim
        if not fits or columns != question.columns:
            raise OptionError(
                f"question {name!r} was planned as {'at most ' * question.adaptive}{question.dim} x "
                f"{question.columns}, its map and the schema give {feature_map.dim} x {columns}."
            )
        task = SumTask(feature_map=feature_map, grid=question.grid, columns=columns, label=label)
        if isinstance(feature_map, Contingency):
            sizes = tuple(column.size for column in layout.coded)
            if len(feature_map.bins) != len(layout.numeric) or feature_map.coded != sizes:
                raise OptionError(
                    f"question {name!r}: its tables are of {len(feature_map.bins)} numeric columns and coded ones of "
                    f"sizes {feature_map.coded}; the schema has {len(layout.numeric)} and {sizes}."
                )
        # What is counted is integers of the record alone (G-12, G-23); there is nothing to probe.
        if task.weights is None and task.lookups is None:
            return replace(task, chosen=map_execution(name, feature_map, layout, block_rows(feature_map)))
        return task

    def _check_records(self, records: int) -> None:
        if self._plan.budget.adjacency is Adjacency.REPLACE_ONE and records != self._public_records:
            raise DataError(
                f"records={self._public_records} was given as public knowledge, but the data has another number; "
                "replace-one needs the exact number. Correct it, or use adjacency='add-remove'."
            )
        if not records:
            raise DataError(
                f"{self._source.name}: every image was skipped, so there is nothing to copy; without "
                "on_error='skip' the first one is named."
            )
        if self._records is not None and records != self._records:
            raise DataError(
                f"{self._source.name}: the number of records changed between two rounds; the cost stays reserved. "
                "Make sure that nothing writes to the data during a run."
            )
        self._records = records


def _noisy(sums: npt.NDArray[np.int64], release: PlannedRelease) -> Values:
    """Returns the noisy sum in the units of the vectors, (dim, columns)."""
    noisy = noise.add_noise(sums, noise_std=release.noise_std, sampler=release.sampler)
    return np.ascontiguousarray(release.question.grid.restore(noisy).T)
