"""What a method holds: private records behind, a budget in front, and three doors to ask through.

These are sessions, sessions of gradients, and marginals that OpenDP chooses. A schema is bought at a door of its own
(`discovery`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisegate.data.same_files import check_apart
from noisegate.data.sources import open_source
from noisegate.data.units import UnitLimit
from noisegate.errors import OptionError
from noisegate.features.binning import NumericBins
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.booking import Booking, ledger_of
from noisegate.gate.engines.engine import Engine, Progress
from noisegate.gate.engines.local import LocalEngine
from noisegate.gate.gradients import GradientSession
from noisegate.gate.losses import FactoredLoss, RecordLoss
from noisegate.gate.session import Session
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Event
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.ledger import Ledger
from noisegate.privacy.marginal_plan import MarginalPlan
from noisegate.privacy.plan import Budget, CalibratedPlan
from noisegate.privacy.release import Release
from noisegate.privacy.units import RECORD, unit_text
from noisegate.schema import Schema
from noisegate.schema_cost import KEY, check_fits, stated


class Gate:
    """Private records behind, a budget in front.

    Args:
        data: Path of a CSV or Parquet file or of a folder of them, or a pandas, Polars or PyArrow table. With a schema
            of images, also the path of images: see `noisegate.data.images.ImageSource`.
        schema: Public knowledge about the table. Required: bounds and levels read off the data would leak.
        epsilon: ε of the guarantee, in [0.01, 1000].
        delta: δ of the guarantee.
        adjacency: "add-remove" or "replace-one".
        records: The number of records, when it is public: required for "replace-one", and checked; for "add-remove" it
            is a public estimate used for planning only, the true number stays private.
        ledger: Ledger, its path or its URL, to book the cost on; None for no ledger.
        dataset: Name of the data set in the ledger.
        unit: What one record stands for, in the words of the certificate.
        unit_column: Column of the data that says whose record each one is, such as a patient's number. The guarantee is
            then for all records of one unit together. It is not in the schema, and is not copied.
        contributions: With `unit_column`, how many records of a unit are used at most: the first ones in the data. The
            noise grows in proportion.
        engine: Where sums run.
        show_values: Whether errors may quote private values.
        progress: Called with the number of records summed so far; for the operator only.
        on_error: What is done with an image that cannot be used: "refuse" the run, or "skip" the image, which `skipped`
            counts for the operator.
        discovery: Certificate of the discovery that the schema was bought with, if it was: the certificate of what is
            released names it, and states what both cost together.

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
        unit: str = RECORD,
        unit_column: str | None = None,
        contributions: int | None = None,
        engine: Engine | None = None,
        show_values: bool = False,
        progress: Progress | None = None,
        on_error: str = "refuse",
        discovery: Certificate | None = None,
    ) -> None:
        if not isinstance(schema, Schema):
            raise OptionError(
                "schema=None: a schema is required. Bounds, levels and missing-ness read off private data would leak "
                "it; write down what is publicly known (`noisegate schema init` drafts it from a public sample)."
            )
        self.schema = schema.usable()
        self.budget = Budget(
            epsilon=epsilon,
            delta=delta,
            adjacency=Adjacency.parse(adjacency),
            unit=unit_text(unit, unit_column, contributions),
            contributions=contributions,
        )
        if records is not None and (isinstance(records, bool) or not isinstance(records, int) or records < 1):
            raise OptionError(f"records={records!r} must be a positive whole number.")
        if self.budget.adjacency is Adjacency.REPLACE_ONE and records is None:
            raise OptionError("adjacency='replace-one' takes the number of records as public: give records=N.")
        if self.budget.adjacency is Adjacency.REPLACE_ONE and on_error == "skip":
            raise OptionError(
                "on_error='skip': adjacency='replace-one' takes the number of records as public, and that of the "
                "images that can be used is not; use adjacency='add-remove'."
            )
        if (ledger is None) != (dataset is None):
            raise OptionError(f"ledger={ledger!r} and dataset={dataset!r} go together: give both, or neither.")
        self.records = records
        units = None
        if unit_column and contributions:
            units = UnitLimit(column=unit_column.strip(), contributions=contributions)
        self._source = open_source(data, schema, show_values=show_values, units=units, on_error=on_error)
        self._data = data
        self._ledger = ledger_of(ledger)
        self._dataset = dataset
        self._engine = engine or LocalEngine()
        self._progress = progress
        self._once = threading.Lock()
        self._discovery = discovery
        if discovery is not None:
            check_fits(discovery, schema)
        self._source.check()

    @property
    def skipped(self) -> int:
        """How many images the latest pass over the records left out; private, for the operator only."""
        return int(getattr(self._source, "skipped", 0))

    def check_apart(self, public: Any) -> None:
        """Checks that a public data set, which will be handed out as it is, holds no file of the private one.

        Nothing is spent by it. What is compared is whole files: see `noisegate.data.same_files`.

        Args:
            public: Path of a file or folder, or a table in memory.

        Raises:
            DataError: if they share a file, or are the same table.
        """
        check_apart(self._data, public)

    def _known(self, events: tuple[Event, ...], public: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a certificate lists as public, and what the schema cost if it was bought."""
        cost = {} if self._discovery is None else {KEY: stated(self._discovery, self.budget, events)}
        return {"schema": self.schema.to_json(), "records": self.records, **public, **cost}

    def open(self, plan: CalibratedPlan, *, method: str, public: Mapping[str, Any]) -> Session:
        """Returns a session that answers `plan` in rounds; nothing is read or spent before its first question.

        Args:
            plan: Questions with their noise, within this gate's budget.
            method: Name of the method, for the certificate.
            public: What the method took as public, for the certificate.

        Raises:
            OptionError: if the plan is not calibrated for this gate's budget.
        """
        if not isinstance(plan, CalibratedPlan):
            raise OptionError(
                f"plan={type(plan).__name__}: the gate takes a CalibratedPlan; call plan.calibrate(budget)."
            )
        if plan.budget != self.budget:
            raise OptionError(f"the plan is calibrated for {plan.budget}, the gate has {self.budget}; use gate.budget.")
        return Session(
            plan,
            self._source,
            records=self.records,
            method=method,
            public={**self._known(plan.events, public), **_adaptive(plan)},
            engine=self._engine,
            progress=self._progress,
            booking=Booking(self._ledger, self._dataset),
            once=self._once,
        )

    def sum(
        self, plan: CalibratedPlan, maps: Mapping[str, FeatureMap], *, method: str, public: Mapping[str, Any]
    ) -> Release:
        """Answers every question of `plan` in one pass over the records: a session of one round.

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
        with self.open(plan, method=method, public=public) as session:
            if set(session.open_questions) != set(maps):
                raise OptionError(f"feature maps {sorted(maps)} do not match the plan's questions.")
            session.ask(maps)
        return session.release()

    def gradients(
        self,
        plan: CalibratedGradientPlan,
        loss: RecordLoss | FactoredLoss,
        *,
        method: str,
        public: Mapping[str, Any],
        journal: Path | None = None,
        device: str = "cpu",
        physical_batch: int | None = None,
        represent: FeatureMap | None = None,
    ) -> GradientSession:
        """Returns a session that hands out noisy sums of gradients; nothing is read or spent before its first step.

        Args:
            plan: Steps, and maybe questions, with their noise, within this gate's budget.
            loss: The loss of one record; a `FactoredLoss` if the plan is factored.
            method: Name of the method, for the certificate.
            public: What the method took as public, for the certificate.
            journal: File that counts the steps begun, so that an interrupted run can be resumed by giving it again.
            device: Where torch computes gradients.
            physical_batch: Records whose gradients are computed at once; None for what fits into memory.
            represent: A public map, such as a frozen network, whose vector takes the place of a record's numeric
                columns: computed once, on reading, in blocks of one fixed shape as for sums, and kept in memory. The
                loss then sees (map.dim,) numbers. None to leave records as they are.

        Raises:
            OptionError: if plan, loss or journal do not fit.
        """
        if not isinstance(plan, CalibratedGradientPlan) or plan.budget != self.budget:
            raise OptionError(f"the plan is not a calibrated plan of gradients for {self.budget}; use gate.budget.")
        return GradientSession(
            plan,
            self._source,
            loss,
            records=self.records,
            method=method,
            public=self._known(plan.events, public),
            engine=self._engine,
            progress=self._progress,
            booking=Booking(self._ledger, self._dataset),
            once=self._once,
            journal=journal,
            device=device,
            physical_batch=physical_batch,
            represent=represent,
        )

    def marginals(
        self, plan: MarginalPlan, bins: Sequence[NumericBins], *, method: str, public: Mapping[str, Any]
    ) -> Release:
        """Answers a plan of marginals that OpenDP chooses on the way; holds all records in memory.

        Args:
            plan: What OpenDP may spend, within this gate's budget.
            bins: Cells of the numeric columns of the schema.
            method: Name of the method, for the certificate.
            public: What the method took as public, for the certificate.

        Raises:
            UserError: if the plan does not fit, the data does not fit the schema, or OpenDP's extra is not installed.
            BudgetRefusedError: if the ledger refuses.
        """
        from noisegate.gate.marginals import release_marginals

        if not isinstance(plan, MarginalPlan) or plan.budget != self.budget:
            raise OptionError(f"the plan is not a marginal plan for {self.budget}; use gate.budget.")
        return release_marginals(
            plan,
            self._source,
            bins,
            records=self.records,
            method=method,
            public=self._known(plan.events, public),
            progress=self._progress,
            booking=Booking(self._ledger, self._dataset),
            once=self._once,
        )


def _adaptive(plan: CalibratedPlan) -> dict[str, list[str]]:
    """Returns which questions were chosen after earlier answers, for the certificate: those state the largest size."""
    names = [release.question.name for release in plan.releases if release.question.adaptive]
    return {"adaptive": names} if names else {}
