"""The gate: the only thing through which a method sees private data.

A `Gate` is opened on records and a budget, and answers one plan. It has one method for
each kind of query. The method checks that the plan fits, and gives a `Session` access
to the records, which pays, reads, and draws the noise (`noisegate.gate.session`)::

    open, sum    sums of a vector of each record, in rounds
    gradients    steps: sums of clipped gradients over samples
    batch        steps: one clipped vector of each sample
    shards       steps: sums of one vector of each shard
    marginals    tables that OpenDP's AIM or MST chooses
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from noisegate.errors import OptionError
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
from noisegate.gate.session import Session, open_steps
from noisegate.gate.sessions.gradients import GradientVectors
from noisegate.gate.sessions.shards import (
    BatchVectors,
    SampleVector,
    ShardVectors,
    Teacher,
)
from noisegate.gate.sums import Engine, LocalEngine, Progress
from noisegate.gate.transaction import (
    Access,
    Reservation,
    SingleUse,
    Transaction,
    check_public_record_count,
    resolve_ledger,
)
from noisegate.gate.unbooked import UnbookedRun
from noisegate.ledger.ledger import Ledger
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import RECORD, Adjacency
from noisegate.privacy.gradient_plan import (
    GradientQuery,
    NoisySteps,
    StepQuery,
    steps_of,
)
from noisegate.privacy.marginal_plan import NoisyMarginals
from noisegate.privacy.plan import (
    Budget,
    NoisySum,
    Plan,
    linked_unit,
    resolve_unit,
)
from noisegate.privacy.release import Release
from noisegate.privacy.schema_certificate import (
    DISCOVERY_KEY,
    check_matches_schema,
    discovery_claim,
)
from noisegate.privacy.shard_plan import BatchQuery, ShardQuery
from noisegate.queries.binning import NumericBins
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema
from noisegate.schema.schema import is_linked, is_schema
from noisegate.sources.overlap import check_apart
from noisegate.sources.sources import open_records
from noisegate.sources.tables.tables import Source
from noisegate.sources.units import UnitLimit

_Answerer = TypeVar("_Answerer")


class Gate(SingleUse):
    """Private records with a privacy budget. A gate answers one plan once, with noise.

    Args:
        data: Path of a CSV or Parquet file, of another file of records (see
            `docs/schema.md`), or of a folder of them; or a table: pandas, Polars (lazy
            frames are streamed), PyArrow, a dict of columns, a NumPy array (structured,
            or with the columns of the schema in order), or a Hugging Face data set.
            With a schema of images: also the path of images, or images in memory (see
            `noisegate_images.sources.images.ImageSource` and
            `noisegate_images.sources.memory.memory_images`). For linked tables: a
            mapping from their names to such paths or tables, or a folder with one file
            for each table.
        schema: Public knowledge about the table. Required, because bounds and levels
            that are read from the data would reveal private values. For linked tables:
            a `noisegate.schema.linked.schema.LinkedSchema`. The privacy unit is then a
            record of the first table with all records that belong to it.
        epsilon: ε of the guarantee, in [0.01, 1000].
        delta: δ of the guarantee.
        adjacency: "add-remove" or "replace-one".
        records: Number of records, if it is public. "replace-one" requires it, and the
            gate checks it. With "add-remove" it is a public estimate that is used for
            planning only; the exact number stays private.
        ledger: Ledger that records the cost, or its path or URL; None for no ledger.
        dataset: Name of the data set in the ledger.
        unit: Name of the privacy unit (what one record stands for), for the
            certificate.
        unit_column: Column of the data that identifies the unit of each record, such as
            a patient's number. The guarantee then covers all records of one unit
            together. The column is not in the schema, and synthetic records do not have
            it.
        contributions: With `unit_column`, the largest number of records used per unit:
            the first ones in the data. The noise grows in proportion.
        engine: Where sums are computed: threads of this machine, or the machines of a
            cluster (`RayEngine`).
        show_values: Whether errors may quote private values.
        progress: Called with the number of records summed so far; for the operator
            only.
        on_error: What to do with an image that cannot be used: "refuse" stops the run,
            "skip" leaves the image out. `skipped` counts the images that were left out,
            for the operator.
        discovery: Certificate of the discovery that estimated the schema, if there was
            one. The certificate of the release names it, and states the cost of both
            together.

    Raises:
        UserError: if an argument is unusable.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Gate, Schema
        >>> from noisegate.queries.feature_map import Counts
        >>> from noisegate.privacy.plan import Query, plan_sums
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill")], label="ill")
        >>> records = pa.table({"ill": [True, False, True]})
        >>> gate = Gate(records, schema=schema, epsilon=1.0)
        >>> query = Query.of("counts", Counts(), columns=2, share=1.0)
        >>> plan = plan_sums(gate.budget, (query,))
        >>> release = gate.sum(plan, method="counts", public={})
        >>> release.values["counts"].shape, round(release.certificate.check(), 6)
        ((1, 2), 1.0)
    """

    counted = True
    """Whether this process counts the runs without a ledger, and warns of their total
    cost (`noisegate.gate.unbooked`)."""

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
                "schema=None: a schema is required. Bounds, levels and missing-ness "
                "read off private data would leak it; write down what is publicly "
                "known (`noisegate schema init` drafts it from a public sample)."
            )
        relation = Adjacency.parse(adjacency)
        if is_linked(schema):
            _check_linked(
                relation,
                {
                    "unit": unit,
                    "unit_column": unit_column,
                    "on_error": on_error,
                    "discovery": discovery,
                },
            )
            certified_unit = linked_unit(schema.names)
        else:
            certified_unit = resolve_unit(unit, unit_column, contributions)
        self.budget = Budget(
            epsilon=epsilon,
            delta=delta,
            adjacency=relation,
            unit=certified_unit,
            contributions=contributions,
        )
        check_public_record_count(records, relation)
        if relation is Adjacency.REPLACE_ONE and on_error == "skip":
            raise OptionError(
                "on_error='skip': adjacency='replace-one' takes the number of records "
                "as public, and that of the images that can be used is not; use "
                "adjacency='add-remove'."
            )
        self.schema: Any = schema.usable()
        self._ledger = resolve_ledger(ledger, dataset)
        self._dataset = dataset
        self.records = records
        units: UnitLimit | None = None
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
        # What `check_apart` compares with public data: of linked tables, the one that
        # holds the units.
        if is_linked(schema):
            self._data: Any = schema.parts(data)[schema.root.name]
        else:
            self._data = data
        self._engine = engine or LocalEngine()
        self._progress = progress
        self._single_use_lock = threading.Lock()
        self._discovery = discovery
        self.journal: AnswerJournal | None = None
        """File of the queries begun and their noisy results. With it, a run can
        continue after a crash; None for a run that cannot. Set it before the first
        query."""
        self.heading: Mapping[str, str] = {}
        """Public texts of the owner about the model, by name, for the certificate. Set
        them before the first query."""
        self.watched = _unwatched
        """Returns the computation that answers a plan: its steps, or the bins of its
        marginals. An audit sets it, to observe the records that it simulated. The audit
        observes sums over all records through the engine instead
        (`noisegate_evaluate.auditing.watched`)."""
        if discovery is not None and isinstance(schema, Schema):
            check_matches_schema(discovery, schema)
        self._source.check_against_schema()

    @property
    def skipped(self) -> int:
        """Number of images that the latest pass left out; private, for the operator."""
        return int(getattr(self._source, "skipped", 0))

    @property
    def about(self) -> int | None:
        """Estimated number of records, computed from the size of the files.

        The number is private, and for the operator only. None if the data is not in
        files.
        """
        if not isinstance(self._source, Source):
            return None
        return self._source.estimate_record_count()

    def check_apart(self, public: Any) -> None:
        """Checks that a public data set contains no file of the private one.

        Public data is released without noise, so private files in it would be
        disclosed. Complete files are compared (see `noisegate.sources.stores`). Nothing
        is spent.

        Args:
            public: The public data set, a path or table.

        Raises:
            DataError: if the two share a file, or are the same table.
        """
        check_apart(self._data, public)

    def open(self, plan: Plan, *, method: str, public: Mapping[str, Any]) -> Session:
        """Opens a session that answers the queries of a plan, in one or several rounds.

        A round is one pass over the records. Queries of later rounds may depend on the
        noisy results of earlier rounds. Nothing is read or spent before the first query
        of the session.

        Args:
            plan: The queries with their noise, calibrated for the budget of this gate.
            method: Name of the method, for the certificate.
            public: Public facts and settings of the method, by name, for the
                certificate. Their values must be JSON values.

        Returns:
            The session, which sums the vectors of all records for each query.

        Raises:
            OptionError: if the plan is of another kind or calibrated for another
                budget, or the engine cannot answer it.
        """
        access = self._grant_access(plan, NoisySum, method, public)
        # The size of an adaptive query depends on earlier answers. The certificate
        # states its largest size, so it says which queries are adaptive.
        adaptive_queries = [
            release.query.name for release in plan.releases if release.query.adaptive
        ]
        if adaptive_queries:
            public_facts = {**access.public, "adaptive": adaptive_queries}
            access = replace(access, public=public_facts)
        return Session(Transaction(access))

    def sum(
        self,
        plan: Plan,
        maps: Mapping[str, FeatureMap] | None = None,
        *,
        method: str,
        public: Mapping[str, Any],
    ) -> Release:
        """Answers all queries of a plan, in one pass over the records.

        The cost is reserved before the first record is read. If reading fails, nothing
        is released and the reservation is voided. Once noise is drawn, the cost stays
        spent.

        Args:
            plan: The queries with their noise, calibrated for the budget of this gate.
            maps: For each query, by name, the map from a record to its vector; None for
                the maps that the plan contains.
            method: Name of the method, for the certificate.
            public: Public facts and settings of the method, by name, for the
                certificate. Their values must be JSON values.

        Returns:
            The noisy sum for each query, (dim, columns), with its certificate.

        Raises:
            UserError: if the maps do not fit the plan, or the data does not fit the
                schema.
            BudgetRefusedError: if the ledger refuses the cost.
        """
        with self.open(plan, method=method, public=public) as session:
            feature_maps = plan.maps if maps is None else maps
            # All at once: there is one pass.
            if set(session.open_queries) != set(feature_maps):
                raise OptionError(
                    f"feature maps {sorted(feature_maps)} do not match the plan's "
                    "queries."
                )
            session.ask(feature_maps)
        return session.release()

    def gradients(
        self,
        plan: Plan,
        loss: RecordLoss | FactoredLoss,
        *,
        method: str,
        public: Mapping[str, Any],
        journal: Path | None = None,
        device: str = "cpu",
        microbatch: int | None = None,
        represent: FeatureMap | None = None,
    ) -> Session:
        """Opens a session for DP-SGD. Each step returns one noisy sum of gradients.

        Opening computes no gradient. Nothing is read or spent before the first step. In
        a step, the session:

        1. draws a Poisson sample of the records;
        2. computes the gradient of the loss at each of them, and clips it;
        3. returns the sum of the clipped gradients with noise.

        Args:
            plan: The steps with their noise, calibrated for the budget of this gate.
                The plan may also have queries (sums over all records), which the
                session answers.
            loss: The loss of one record: a `FactoredLoss` if the plan is `factored`,
                that is for a model that is linear in its one parameter; otherwise any
                function.
            method: Name of the method, for the certificate.
            public: Public facts and settings of the method, by name, for the
                certificate. Their values must be JSON values.
            journal: File that counts the steps begun. With the same file, an
                interrupted run continues at no further cost.
            device: Device on which torch computes gradients.
            microbatch: Number of records whose gradients are computed at once; None for
                as many as fit into memory.
            represent: A public feature map, such as a frozen network. Its vector,
                (map.dim,), replaces the numeric columns of a record in the loss. The
                vectors are computed once, when the records are read, in blocks of one
                fixed shape, and kept in memory. None uses the records as they are.

        Returns:
            The session. Its `step` returns a noisy sum, and `release` returns the
            trained parameters with their certificate.

        Raises:
            OptionError: if the plan is of another kind or calibrated for another
                budget, or the engine cannot answer it (`_grant_access`); or if loss,
                microbatch or journal do not fit the plan.
        """
        access = self._grant_access(plan, GradientQuery, method, public, device=device)
        vectors = GradientVectors(
            cast("GradientQuery", steps_of(plan).query),
            loss,
            device=device,
            microbatch=microbatch,
            represent=represent,
        )
        return open_steps(access, self.watched(plan, vectors), journal=journal)

    def batch(
        self,
        plan: Plan,
        vector: SampleVector,
        *,
        method: str,
        public: Mapping[str, Any],
        journal: Path | None = None,
    ) -> Session:
        """Opens a session whose steps each return one noisy vector of a whole sample.

        The vector may be any function of the sample. It is clipped as one vector, not
        record by record. Nothing is read or spent before the first step.

        Args:
            plan: The steps of a `BatchQuery`, calibrated for the budget of this gate.
            vector: Function from public parameters, and from the numeric and coded
                columns of a sample, to arrays of the planned shapes, by name.
            method: Name of the method, for the certificate.
            public: Public facts and settings of the method, by name, for the
                certificate. Their values must be JSON values.
            journal: File that counts the steps begun. With the same file, an
                interrupted run continues at no further cost.

        Returns:
            The session. Its `step` returns a noisy vector, and `release` returns the
            trained parameters with their certificate.

        Raises:
            OptionError: if the plan or the journal do not fit.
        """
        access = self._grant_access(plan, BatchQuery, method, public)
        query = cast("BatchQuery", steps_of(plan).query)
        if journal is not None and query.shards > 1:
            raise OptionError(
                "journal: a run on shards cannot be resumed, as who is in which one is "
                "private and kept in memory; use Poisson samples (shards=1), or leave "
                "out the journal."
            )
        vectors = self.watched(plan, BatchVectors(query, vector))
        return open_steps(access, vectors, journal=journal)

    def shards(
        self,
        plan: Plan,
        teacher: Teacher,
        *,
        method: str,
        public: Mapping[str, Any],
        device: str = "cpu",
    ) -> Session:
        """Opens a session whose steps return noisy sums over disjoint shards.

        The records are split at random into shards. A separate model is
        trained on each shard, and gives one vector, which is clipped. The session
        cannot be resumed: the split and the trained models are private, and in memory
        only. Nothing is read or spent before the first step.

        Args:
            plan: The steps of a `ShardQuery`, calibrated for the budget of this gate.
            teacher: How a shard trains its model, and which vector it returns: arrays
                of the planned shapes.
            method: Name of the method, for the certificate.
            public: Public facts and settings of the method, by name, for the
                certificate. Their values must be JSON values.
            device: Device on which torch computes.

        Returns:
            The session. Its `step` returns a noisy sum, and `release` returns the
            trained parameters with their certificate.

        Raises:
            OptionError: if the plan does not fit.
        """
        access = self._grant_access(plan, ShardQuery, method, public)
        query = cast("ShardQuery", steps_of(plan).query)
        vectors = ShardVectors(query, teacher, device=device)
        return open_steps(access, self.watched(plan, vectors))

    def marginals(
        self,
        plan: Plan,
        bins: Sequence[NumericBins],
        *,
        method: str,
        public: Mapping[str, Any],
    ) -> Release:
        """Releases the noisy marginal tables that OpenDP's AIM or MST selects.

        AIM and MST select the tables by the data, with part of the budget. All records
        are held in memory.

        Args:
            plan: What OpenDP may spend, calibrated for the budget of this gate.
            bins: Public bins of the numeric columns, in the order of the columns.
            method: Name of the method, for the certificate.
            public: Public facts and settings of the method, by name, for the
                certificate. Their values must be JSON values.

        Returns:
            The noisy counts of each table, (cells, 1), with their certificate.

        Raises:
            UserError: if the plan does not fit, the data does not fit the schema, or
                OpenDP's extra is not installed.
            BudgetRefusedError: if the ledger refuses the cost.
        """
        # Imported here, since other kinds of query do without OpenDP's marginals.
        from noisegate.gate.sessions.marginals import MarginalSession

        access = self._grant_access(plan, NoisyMarginals, method, public)
        return MarginalSession(access, self.watched(plan, bins)).release()

    def _grant_access(
        self,
        plan: Any,
        kind: type[NoisySum | NoisyMarginals | StepQuery],
        method: str,
        public: Mapping[str, Any],
        *,
        device: str = "cpu",
    ) -> Access:
        """Checks a plan, and returns what a session needs to answer it.

        Nothing is reserved or read. Any number of sessions may be granted access, but
        only the first that reads may answer: they share one lock.

        A change must preserve that a plan for another budget is refused;
        `test_a_plan_for_another_budget_is_refused` checks it.

        Args:
            plan: The calibrated plan.
            kind: What the plan must consist of: sums, marginals, or a class of steps.
            method: Name of the method, for the certificate.
            public: Public facts and settings that the method used, by name.
            device: Device on which torch computes gradients.

        Returns:
            The plan, the records, and the means: ledger entry, lock, engine, journal.

        Raises:
            OptionError: if the plan is of another kind or calibrated for another
                budget, or the engine cannot answer it.
        """
        if not isinstance(plan, Plan) or not _asks_for(plan, kind):
            raise OptionError(
                f"plan={type(plan).__name__}: this query takes a Plan of a "
                f"{kind.__name__}; make it with the budget of the gate, by "
                f"{_PLANNED_BY[kind]}."
            )
        if plan.budget != self.budget:
            raise OptionError(
                f"the plan is calibrated for {plan.budget}, the gate has "
                f"{self.budget}; use gate.budget."
            )
        asks_for_sums = kind is NoisySum
        # Rows of linked tables have weights, which only sums of counts allow.
        if self._source.is_weighted and not (asks_for_sums and self._engine.in_parts):
            raise OptionError(
                "linked tables support counts of cells only: use method='linked' "
                "and an engine of this library."
            )
        uses_engine = asks_for_sums or kind is GradientQuery
        self._engine.check(self._source, sums=uses_engine, device=device)

        public_facts: dict[str, Any] = {
            "schema": self.schema.to_json(),
            "records": self.records,
            **public,
        }
        if self.heading:
            public_facts["heading"] = dict(self.heading)
        if self._discovery is not None:
            # The schema was estimated from the records too, at a cost of its own.
            public_facts[DISCOVERY_KEY] = discovery_claim(
                self._discovery, self.budget, plan.events
            )

        unbooked_run: UnbookedRun | None = None
        if self._ledger is None and self.counted:
            unbooked_run = UnbookedRun(plan, self.schema.names)
        return Access(
            plan=plan,
            source=self._source,
            public_record_count=self.records,
            method=method,
            public=public_facts,
            reservation=Reservation(self._ledger, self._dataset),
            single_use_lock=self._single_use_lock,
            engine=self._engine,
            progress=self._progress,
            journal=self.journal,
            unbooked_run=unbooked_run,
        )


def _unwatched(plan: Plan, answerer: _Answerer) -> _Answerer:
    """Returns what answers a plan, as it is."""
    return answerer


def _asks_for(plan: Plan, kind: type[NoisySum | NoisyMarginals | StepQuery]) -> bool:
    """Returns whether a plan is of the kind that a session answers.

    Args:
        plan: The plan.
        kind: `NoisySum` for sums only, `NoisyMarginals`, or a class of steps, which may
            have sums in addition.
    """
    if kind is NoisySum:
        return plan.has_only_sums
    others = [
        mechanism
        for mechanism in plan.mechanisms
        if not isinstance(mechanism, NoisySum)
    ]
    if len(others) != 1:
        return False
    (asked,) = others
    if isinstance(asked, NoisySteps):
        return isinstance(asked.query, kind)
    return isinstance(asked, kind) and not plan.releases


# The function that makes a plan, by what it asks for.
_PLANNED_BY: dict[type[Any], str] = {
    NoisySum: "plan_sums",
    NoisyMarginals: "plan_marginals",
    GradientQuery: "plan_steps",
    BatchQuery: "plan_steps",
    ShardQuery: "plan_steps",
}


def _check_linked(adjacency: Adjacency, options: Mapping[str, object]) -> None:
    """Refuses options that have no meaning for linked tables.

    Their schema determines the privacy unit: a record of the first table with all
    records that belong to it.

    Args:
        adjacency: The neighbouring relation.
        options: Values of the options, by name.

    Raises:
        OptionError: if one of them is not at its default.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        raise OptionError(
            "adjacency='replace-one' takes the number of records as public, and how "
            "many belong to a unit is not; with linked tables use "
            "adjacency='add-remove'."
        )
    for name, value in options.items():
        # Each of the options has one of these as its default.
        is_default = value in (None, RECORD, "refuse")
        if not is_default:
            raise OptionError(
                f"{name}={value!r}: linked tables take none; the unit is a record of "
                "their first table."
            )
