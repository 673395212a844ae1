"""The door. The only place where private records meet noise."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.data.tables import TableSource
from noisegate.errors import DataError, LedgerError, LedgerWarning, OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.engines.engine import Engine, Progress
from noisegate.gate.engines.local import LocalEngine
from noisegate.gate.independence import check_row_independence
from noisegate.gate.sums import BLOCK_ROWS, SumTask, Totals
from noisegate.privacy import noise
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.ledger import Ledger
from noisegate.privacy.plan import Budget, CalibratedPlan, PlannedRelease
from noisegate.privacy.release import Release, array_hashes, release_arrays
from noisegate.schema import Schema


class Gate:
    """Private records behind, a budget in front.

    Args:
        data: Path of a CSV or Parquet file or of a folder of them, or a pandas, Polars or PyArrow table.
        schema: Public knowledge about the table. Required: bounds and levels read off the data would leak.
        epsilon: ε of the guarantee, in [0.01, 1000].
        delta: δ of the guarantee.
        adjacency: "add-remove" or "replace-one".
        records: The number of records, when it is public: required for "replace-one", and checked; for "add-remove" it
            is a public estimate used for planning only, the true number stays private.
        ledger: Ledger, its path or its URL, to book the cost on; None for no ledger.
        dataset: Name of the data set in the ledger.
        unit: What one record stands for, in the words of the certificate.
        engine: Where sums run.
        show_values: Whether errors may quote private values.

    Raises:
        UserError: if any of these is unusable.
    """

    def __init__(
        self,
        data: Any,
        *,
        schema: Schema,
        epsilon: float,
        delta: float = 1e-5,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        records: int | None = None,
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        unit: str = "record",
        engine: Engine | None = None,
        show_values: bool = False,
        progress: Progress | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise OptionError(
                "schema=None: a schema is required. Bounds, levels and missing-ness read off private data would leak "
                "it; write down what is publicly known (`noisegate schema init` drafts it from a public sample)."
            )
        self.schema = schema
        self.budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.parse(adjacency), unit=unit)
        if records is not None and (isinstance(records, bool) or not isinstance(records, int) or records < 1):
            raise OptionError(f"records={records!r} must be a positive whole number.")
        if self.budget.adjacency is Adjacency.REPLACE_ONE and records is None:
            raise OptionError("adjacency='replace-one' takes the number of records as public: give records=N.")
        if (ledger is None) != (dataset is None):
            raise OptionError(f"ledger={ledger!r} and dataset={dataset!r} go together: give both, or neither.")
        self.records = records
        self._source = TableSource(data, schema, show_values=show_values)
        self._ledger = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
        self._dataset = dataset
        self._engine = engine or LocalEngine()
        self._progress = progress
        self._once = threading.Lock()
        self._source.check()

    def sum(
        self, plan: CalibratedPlan, maps: Mapping[str, FeatureMap], *, method: str, public: Mapping[str, Any]
    ) -> Release:
        """Answers every question of `plan` in one pass over the records.

        The cost is reserved before the first record is read. If reading fails, nothing has left the gate and the
        reservation is voided; once noise is drawn it can only be committed.

        Args:
            plan: Questions with their noise, within this gate's budget.
            maps: For each question, the map from a record to its vector.
            method: Name of the method, for the certificate.
            public: What the method took as public, for the certificate.

        Raises:
            UserError: if plan and maps do not fit, or the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        tasks = self._tasks(plan, maps)
        if not self._once.acquire(blocking=False):
            raise OptionError("this gate has answered its plan; a second answer would cost again: open another gate.")
        reservation = self._reserve(plan, method)
        try:
            totals = self._engine.sum(self._source.unread(), tasks, self._progress)
            self._check_records(totals)
        except BaseException as error:
            # Nothing was released: no noise is drawn before this point.
            self._void(reservation, error)
            raise
        values = {name: _noisy(totals.sums[name], plan.release(name)) for name in tasks}
        stds = {name: plan.release(name).noise_std_natural for name in tasks}
        certificate = Certificate(
            epsilon=plan.budget.epsilon,
            delta=plan.budget.delta,
            adjacency=plan.budget.adjacency,
            unit=plan.budget.unit,
            events=plan.events,
            method=method,
            public={"schema": self.schema.to_json(), "records": self.records, **public},
            hashes=array_hashes(release_arrays(values, stds)),
            ledger={"dataset": self._dataset or "", "reservation": reservation} if reservation else None,
        )
        self._commit(reservation, certificate)
        return Release(values=values, noise_std=stds, certificate=certificate)

    def _tasks(self, plan: CalibratedPlan, maps: Mapping[str, FeatureMap]) -> dict[str, SumTask]:
        if not isinstance(plan, CalibratedPlan):
            raise OptionError(
                f"plan={type(plan).__name__}: the gate takes a CalibratedPlan; call plan.calibrate(budget)."
            )
        if plan.budget != self.budget:
            raise OptionError(f"the plan is calibrated for {plan.budget}, the gate has {self.budget}; use gate.budget.")
        if {release.question.name for release in plan.releases} != set(maps):
            raise OptionError(f"feature maps {sorted(maps)} do not match the plan's questions.")
        tasks = {}
        for name, feature_map in maps.items():
            question = plan.release(name).question
            label = self.schema.layout.label if question.columns > 1 else None
            columns = 1 if label is None else self.schema.layout.coded[label].size
            if (feature_map.dim, columns) != (question.dim, question.columns):
                raise OptionError(
                    f"question {name!r} was planned as {question.dim} x {question.columns}, "
                    f"its map and the schema give {feature_map.dim} x {columns}."
                )
            check_row_independence(name, feature_map, self.schema.layout, BLOCK_ROWS)
            tasks[name] = SumTask(feature_map=feature_map, grid=question.grid, columns=columns, label=label)
        return tasks

    def _reserve(self, plan: CalibratedPlan, method: str) -> str | None:
        if self._ledger is None or self._dataset is None:
            return None
        return self._ledger.reserve(
            self._dataset, plan.events, adjacency=plan.budget.adjacency, unit=plan.budget.unit, purpose=method
        )

    def _commit(self, reservation: str | None, certificate: Certificate) -> None:
        if self._ledger and reservation:
            try:
                self._ledger.commit(reservation, certificate=certificate.digest())
            except LedgerError as error:
                # The release is paid for: losing it now would waste the budget, and a reservation counts as spent.
                warnings.warn(f"the release is whole, but its reservation stays open: {error}", LedgerWarning, 3)

    def _void(self, reservation: str | None, error: BaseException) -> None:
        if self._ledger and reservation:
            # Were this to fail too, the cost would stay booked, which is the safe side; the first error matters more.
            with contextlib.suppress(LedgerError):
                self._ledger.void(reservation, reason=f"stopped by {type(error).__name__} before any release")

    def _check_records(self, totals: Totals) -> None:
        if self.budget.adjacency is Adjacency.REPLACE_ONE and totals.records != self.records:
            raise DataError(
                f"records={self.records} was given as public knowledge, but the data has another number; "
                "replace-one needs the exact number. Correct it, or use adjacency='add-remove'."
            )


def _noisy(sums: npt.NDArray[np.int64], release: PlannedRelease) -> npt.NDArray[np.float64]:
    """Returns the noisy sum in the units of the vectors, (dim, columns)."""
    noisy = noise.add_noise(sums, noise_std=release.noise_std, sampler=release.sampler)
    return np.ascontiguousarray(release.question.grid.restore(noisy).T)
