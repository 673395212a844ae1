"""A record source, a privacy budget and the kinds of query: what a method holds of private data."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisegate.errors import OptionError
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
from noisegate.gate.session import (
    Access,
    Reservation,
    Single,
    check_public_records,
    ledger_of,
)
from noisegate.gate.sessions.gradients import GradientSession
from noisegate.gate.sessions.shards import (
    BatchSession,
    SampleVector,
    ShardSession,
    Teacher,
)
from noisegate.gate.sessions.sums import SumSession
from noisegate.gate.sums import Engine, LocalEngine, Progress
from noisegate.gate.unbooked import Unbooked
from noisegate.ledger.ledger import Ledger
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import RECORD, Adjacency
from noisegate.privacy.gradient_plan import CalibratedStepPlan, GradientPlan, StepPlan
from noisegate.privacy.marginal_plan import MarginalPlan
from noisegate.privacy.plan import Budget, CalibratedPlan, linked_unit, unit_text
from noisegate.privacy.release import Release
from noisegate.privacy.schema_certificate import (
    DISCOVERY_KEY,
    check_matches_schema,
    discovery_claim,
)
from noisegate.privacy.shard_plan import BatchPlan, ShardPlan
from noisegate.queries.binning import NumericBins
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema
from noisegate.schema.schema import is_linked, is_schema
from noisegate.sources.overlap import check_apart
from noisegate.sources.sources import open_records
from noisegate.sources.tables.tables import Source
from noisegate.sources.units import UnitLimit


class Gate(Single):
    """Private records behind, a budget in front.

    Args:
        data: Path of a CSV or Parquet file or of a folder of them; or a table: of pandas, Polars (lazy ones stream)
            or PyArrow, a dict of columns, a NumPy array (structured, or with the columns of the schema in order), or a
            Hugging Face data set. With a schema of images, also the path of images or images in memory: see
            `noisegate_images.sources.images.ImageSource`, `noisegate_images.sources.memory.memory_images`.
            Of linked tables, a mapping from their names to such paths or tables, or a folder with a file for each.
        schema: Public knowledge about the table. Required: bounds and levels read off
            the data would leak. That of linked tables is a
            `noisegate.schema.linked.schema.LinkedSchema`, and the unit a record of the
            first with all that belongs to it.
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
        engine: Where sums run: threads of this machine, or the machines of a cluster (`RayEngine`).
        show_values: Whether errors may quote private values.
        progress: Called with the number of records summed so far; for the operator only.
        on_error: What is done with an image that cannot be used: "refuse" the run, or "skip" the image, which `skipped`
            counts for the operator.
        discovery: Certificate of the discovery that estimated the schema, if it was: the certificate of what is
            released names it, and states what both cost together.

    Raises:
        UserError: if any of these is unusable.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Gate, Schema
        >>> from noisegate.queries.feature_map import Counts
        >>> from noisegate.privacy.plan import Plan, Query
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill")], label="ill")
        >>> gate = Gate(pa.table({"ill": [True, False, True]}), schema=schema, epsilon=1.0)
        >>> plan = Plan(queries=(Query.of("counts", Counts(), columns=2, share=1.0),)).calibrate(gate.budget)
        >>> release = gate.sum(plan, method="counts", public={})
        >>> release.values["counts"].shape, round(release.certificate.check(), 6)
        ((1, 2), 1.0)
    """

    counted = True
    """Whether this process counts runs without a ledger, and warns (`noisegate.gate.unbooked`)."""

    def __init__(
        self,
        data: Any,
        *,
        schema: Any,
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
        if not is_schema(schema):
            raise OptionError(
                "schema=None: a schema is required. Bounds, levels and missing-ness read off private data would leak "
                "it; write down what is publicly known (`noisegate schema init` drafts it from a public sample)."
            )
        relation = Adjacency.parse(adjacency)
        if is_linked(schema):
            _check_linked(
                relation,
                unit=unit,
                unit_column=unit_column,
                on_error=on_error,
                discovery=discovery,
            )
            unit = linked_unit(schema.names)
        else:
            unit = unit_text(unit, unit_column, contributions)
        self.budget = Budget(
            epsilon=epsilon,
            delta=delta,
            adjacency=relation,
            unit=unit,
            contributions=contributions,
        )
        check_public_records(records, relation)
        if relation is Adjacency.REPLACE_ONE and on_error == "skip":
            raise OptionError(
                "on_error='skip': adjacency='replace-one' takes the number of records as public, and that of the "
                "images that can be used is not; use adjacency='add-remove'."
            )
        self.schema: Any = schema.usable()
        self._ledger, self._dataset = ledger_of(ledger, dataset), dataset
        self.records = records
        units = None
        if unit_column and contributions:
            units = UnitLimit(column=unit_column.strip(), contributions=contributions)
        self._source: Any = open_records(
            data,
            schema,
            show_values=show_values,
            progress=progress,
            units=units,
            on_error=on_error,
        )
        # Linked tables are told from others by the one that holds the units.
        self._data = schema.parts(data)[schema.root.name] if is_linked(schema) else data
        self._engine = engine or LocalEngine()
        self._progress = progress
        self._single_use_lock = threading.Lock()
        self._discovery = discovery
        self.journal: AnswerJournal | None = None
        """Where a run writes down what it asks, to go on after a crash; set before the first query."""
        if discovery is not None and isinstance(schema, Schema):
            check_matches_schema(discovery, schema)
        self._source.check()

    @property
    def skipped(self) -> int:
        """How many images the latest pass over the records left out; private, for the operator only."""
        return int(getattr(self._source, "skipped", 0))

    @property
    def about(self) -> int | None:
        """About how many records there are, where files tell; private, for the operator only."""
        return self._source.about() if isinstance(self._source, Source) else None

    def check_apart(self, public: Any) -> None:
        """Checks that a public data set, which will be handed out as it is, holds no file of the private one.

        Nothing is spent by it. What is compared is whole files: see `noisegate.sources.overlap`.

        Raises:
            DataError: if they share a file, or are the same table.
        """
        check_apart(self._data, public)

    def open(
        self, plan: CalibratedPlan, *, method: str, public: Mapping[str, Any]
    ) -> SumSession:
        """Returns a session that answers `plan` in rounds; nothing is read or spent before its first question.

        Raises:
            OptionError: if the plan is not calibrated for this gate's budget.
        """
        access = self._access(plan, CalibratedPlan, method, public)
        # Which questions are chosen after earlier answers: of those the certificate states the largest size.
        adaptive = [
            release.query.name for release in plan.releases if release.query.adaptive
        ]
        access = (
            replace(access, public={**access.public, "adaptive": adaptive})
            if adaptive
            else access
        )
        return SumSession(access)

    def sum(
        self,
        plan: CalibratedPlan,
        maps: Mapping[str, FeatureMap] | None = None,
        *,
        method: str,
        public: Mapping[str, Any],
    ) -> Release:
        """Answers every question of `plan` in one pass over the records: a session of one round.

        The cost is reserved before the first record is read. If reading fails, nothing has left the gate and the
        reservation is voided; once noise is drawn it can only be committed.

        Args:
            plan: Questions with their noise, within this gate's budget.
            maps: For each question, the map from a record to its vector; None for those that the plan carries.
            method: Name of the method, for the certificate.
            public: What the method took as public, for the certificate.

        Raises:
            UserError: if plan and maps do not fit, or the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        with self.open(plan, method=method, public=public) as session:
            maps = plan.maps if maps is None else maps
            if set(session.open_questions) != set(maps):
                raise OptionError(
                    f"feature maps {sorted(maps)} do not match the plan's queries."
                )
            session.ask(maps)
        return session.release()

    def gradients(
        self,
        plan: CalibratedStepPlan,
        loss: RecordLoss | FactoredLoss,
        *,
        method: str,
        public: Mapping[str, Any],
        journal: Path | None = None,
        device: str = "cpu",
        microbatch: int | None = None,
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
            microbatch: Records whose gradients are computed at once; None for what fits into memory.
            represent: A public map, such as a frozen network, whose vector takes the place of a record's numeric
                columns: computed once, on reading, in blocks of one fixed shape as for sums, and kept in memory. The
                loss then sees (map.dim,) numbers. None to leave records as they are.

        Raises:
            OptionError: if plan, loss or journal do not fit.
        """
        access = self._access(
            plan, CalibratedStepPlan, method, public, of=GradientPlan, device=device
        )
        options: dict[str, Any] = {
            "device": device,
            "microbatch": microbatch,
            "represent": represent,
        }
        return GradientSession(access, loss, journal=journal, **options)

    def batch(
        self,
        plan: CalibratedStepPlan,
        vector: SampleVector,
        *,
        method: str,
        public: Mapping[str, Any],
        journal: Path | None = None,
    ) -> BatchSession:
        """Returns a session that hands out one noisy vector of a whole sample a step, from any function of it.

        The `plan` is a calibrated `BatchPlan`; `vector` makes arrays of the planned shapes of public parameters and the
        numeric and coded columns of a sample. The others are as for `gradients`.

        Raises:
            OptionError: if plan or journal do not fit.
        """
        access = self._access(plan, CalibratedStepPlan, method, public, of=BatchPlan)
        return BatchSession(access, vector, journal=journal)

    def shards(
        self,
        plan: CalibratedStepPlan,
        teacher: Teacher,
        *,
        method: str,
        public: Mapping[str, Any],
        device: str = "cpu",
    ) -> ShardSession:
        """Returns a session that hands out noisy sums of one vector of each disjoint shard, from a state of its own.

        It cannot be resumed: who is in which shard, and what the shards have learnt, is private and kept in memory. The
        `plan` is a calibrated `ShardPlan`; the `teacher` says what a shard learns and answers, arrays of the planned
        shapes. The others are as for `gradients`.

        Raises:
            OptionError: if the plan does not fit.
        """
        access = self._access(plan, CalibratedStepPlan, method, public, of=ShardPlan)
        return ShardSession(access, teacher, device=device)

    def marginals(
        self,
        plan: MarginalPlan,
        bins: Sequence[NumericBins],
        *,
        method: str,
        public: Mapping[str, Any],
    ) -> Release:
        """Answers a plan of marginals that OpenDP chooses on the way; holds all records in memory.

        The `plan` is what OpenDP may spend, `bins` are cells of the numeric columns; the others are as for `sum`.

        Raises:
            UserError: if the plan does not fit, the data does not fit the schema, or OpenDP's extra is not installed.
            BudgetRefusedError: if the ledger refuses.
        """
        from noisegate.gate.sessions.marginals import MarginalSession

        return MarginalSession(
            self._access(plan, MarginalPlan, method, public), bins
        ).release()

    def _access(
        self,
        plan: Any,
        kind: type[Any],
        method: str,
        public: Mapping[str, Any],
        of: type[StepPlan] | None = None,
        device: str = "cpu",
    ) -> Access:
        """Returns what one query is granted; refuses a plan of another kind, or calibrated for another budget."""
        if not isinstance(plan, kind) or (
            of is not None and not isinstance(plan.plan, of)
        ):
            wanted = kind.__name__ + (f" of a {of.__name__}" if of else "")
            raise OptionError(
                f"plan={type(plan).__name__}: this query takes a {wanted}; call plan.calibrate(budget)."
            )
        if plan.budget != self.budget:
            raise OptionError(
                f"the plan is calibrated for {plan.budget}, the gate has {self.budget}; use gate.budget."
            )
        if self._source.in_parts and not (
            kind is CalibratedPlan and self._engine.in_parts
        ):
            raise OptionError(
                "linked tables are queried for counts of cells: method='linked', and an engine of this library."
            )
        self._engine.check(
            self._source,
            sums=kind is CalibratedPlan or of is GradientPlan,
            device=device,
        )
        # What the schema cost, if it was bought.
        cost = (
            {}
            if self._discovery is None
            else {
                DISCOVERY_KEY: discovery_claim(
                    self._discovery, self.budget, plan.events
                )
            }
        )
        return Access(
            plan=plan,
            source=self._source,
            records=self.records,
            method=method,
            public={
                "schema": self.schema.to_json(),
                "records": self.records,
                **public,
                **cost,
            },
            reservation=Reservation(self._ledger, self._dataset),
            single_use_lock=self._single_use_lock,
            engine=self._engine,
            progress=self._progress,
            journal=self.journal,
            unbooked=Unbooked(plan, self.schema.names)
            if self._ledger is None and self.counted
            else None,
        )


def _check_linked(adjacency: Adjacency, **given: Any) -> None:
    """Refuses what linked tables have no use for: their schema says what the unit is."""
    if adjacency is Adjacency.REPLACE_ONE:
        raise OptionError(
            "adjacency='replace-one' takes the number of records as public, and how many belong to a unit is not; with "
            "linked tables use adjacency='add-remove'."
        )
    for name, value in given.items():
        if value not in (None, RECORD, "refuse"):
            raise OptionError(
                f"{name}={value!r}: linked tables take none; the unit is a record of their first table."
            )
