"""Base of methods that train step by step on noisy sums over private records.

A method states what the gate computes in a step, by one of three abilities:

- `LearnsByGradients`: the loss of one record, whose gradient the gate clips and sums;
- `AsksSamples`: a vector of a whole sample;
- `AsksTeachers`: how the teacher of a shard is trained, and what it returns.

It also states a `Trainer`, which receives the noisy sums only. `GradientMethod` derives
the plan, the training loop and the release. Every step uses the records, so the
complete training is part of the query.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from noisegate.methods.abilities import TrainsAtGate
from noisegate.methods.method import Method
from noisegate.models.checkpoint import (
    Checkpoint,
    FinishedFit,
    Fit,
    FitSummary,
    Resumable,
    check_finite,
)
from noisegate.privacy.events import StepEvent
from noisegate.privacy.gradient_plan import StepQuery, plan_steps, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
    from noisegate.gate.session import Session
    from noisegate.gate.sessions.shards import SampleVector, Teacher
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.queries.feature_map import FeatureMap

STATE_FILE = "training.safetensors"
"""The file in a run's folder from which a training continues."""
JOURNAL_FILE = "steps.journal"
"""The file in a run's folder that counts the steps which were begun, and are spent."""

_CURE_OF_BROKEN_STATE = (
    "What it held is lost and its cost stays spent; remove its folder to start again."
)


class Trainer(Resumable, Protocol):
    """The public half of a training.

    All that it does follows from public randomness and noisy sums alone.
    """

    def parameters(self) -> Mapping[str, Tensor]:
        """Returns where the next gradient is taken.

        Names and shapes are those of the plan's `parameters`.
        """

    def step(self, noisy: Mapping[str, Tensor], /) -> None:
        """Takes a step.

        Args:
            noisy: The noisy sum of clipped gradients, by parameter.
        """

    def result(self) -> Mapping[str, Tensor]:
        """Returns what was trained.

        Names and shapes are those of the plan's `released`.
        """


class LearnsByGradients(ABC):
    """The ability to learn from noisy sums of clipped gradients of single records."""

    @abstractmethod
    def loss(self, schema: Schema) -> RecordLoss | FactoredLoss:
        """Returns the loss of one record, which the gate differentiates.

        Args:
            schema: Public schema of the records.
        """


class SeesFeatures(ABC):
    """The ability to learn from a public map of each record, by `LearnsByGradients`."""

    @abstractmethod
    def represent(self, schema: Schema) -> FeatureMap:
        """Returns the map whose vectors the loss sees in place of numeric columns.

        Args:
            schema: Public schema of the records.
        """


class AsksSamples(ABC):
    """The ability to learn from one noisy vector of the whole sample of a step."""

    @abstractmethod
    def sample_vector(self, schema: Schema) -> SampleVector:
        """Returns the function of a sample; its vector is clipped as a whole.

        Args:
            schema: Public schema of the records.
        """


class AsksTeachers(ABC):
    """The ability to learn from noisy sums of what teachers of disjoint shards answer.

    Such a training cannot be resumed: the gate keeps the teachers in memory alone.
    """

    @abstractmethod
    def teacher(self, schema: Schema) -> Teacher:
        """Returns what a teacher learns, and what it answers.

        Args:
            schema: Public schema of the records.
        """


class AsksBeforeSteps(ABC):
    """Ability to have queries in the same plan before the first step."""

    @abstractmethod
    def before_steps(self, gate: Gate, session: Session, training: Any) -> None:
        """Releases the results of the queries, and passes them to the training.

        Args:
            gate: The gate, for its public facts.
            session: The session, which answers queries of the plan.
            training: What `GradientMethod.training` returned.
        """


class AsksAfterSteps(ABC):
    """Ability to have queries in the same plan that depend on trained parameters."""

    @abstractmethod
    def queries(
        self, schema: Schema, budget: Budget, trained: Mapping[str, Tensor]
    ) -> Mapping[str, FeatureMap]:
        """Returns the feature map of each query.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee of the run.
            trained: The result of the training.
        """


class GradientMethod(Settings, Method, TrainsAtGate):
    """Base of methods that train step by step.

    A method implements `gradient_plan` and `training`, and one of the abilities
    `LearnsByGradients`, `AsksSamples` and `AsksTeachers`. It also states the result of
    a release: a model (ability `TrainsModel`), or what a generator is fitted to.

    Examples:
        >>> from noisegate import Budget, DPGAN, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> method = DPGAN(steps=100, sampling_probability=0.125)
        >>> plan = method.plan(schema, Budget(epsilon=1.0))
        >>> [(event.name, event.steps, event.rate) for event in plan.events]
        [('generator', 100, 0.125)]
        >>> plan.epsilon <= 1.0
        True
    """

    needs_record_count = True

    @abstractmethod
    def gradient_plan(self, schema: Schema, budget: Budget) -> StepQuery:
        """Returns the steps, and any further queries, without their noise."""

    @abstractmethod
    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the training in its initial state.

        Args:
            schema: Public schema of the records.
            plan: The calibrated plan.
            batch: Expected number of records in the sample of a step.
            device: Device on which torch computes.
        """

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Plans the steps and calibrates their noise to a budget; reads no data."""
        return plan_steps(budget, self.gradient_plan(schema, budget))

    def is_resumable(self, plan: Plan) -> bool:
        """Returns whether an interrupted run of a plan can continue.

        It cannot if results of further queries would be lost, or if the gate holds
        teachers in memory only.
        """
        return not plan.releases and not isinstance(self, AsksTeachers)

    def session(
        self,
        gate: Gate,
        plan: Plan,
        *,
        journal: Path | None,
        device: str = "cpu",
        microbatch: int | None = None,
    ) -> Session:
        """Opens the session of the steps at a gate.

        Args:
            gate: Private records and a budget.
            plan: The calibrated plan.
            journal: File that counts the steps begun; None for a run that is not
                resumed.
            device: Device on which torch computes.
            microbatch: Number of records whose gradients are computed at once; None for
                as many as fit into memory.
        """
        schema = gate.schema
        public_facts = self.public_facts(schema)
        if isinstance(self, AsksTeachers):
            return gate.shards(
                plan,
                self.teacher(schema),
                method=self.name,
                public=public_facts,
                device=device,
            )
        if isinstance(self, AsksSamples):
            return gate.batch(
                plan,
                self.sample_vector(schema),
                method=self.name,
                public=public_facts,
                journal=journal,
            )
        assert isinstance(self, LearnsByGradients)
        represent = self.represent(schema) if isinstance(self, SeesFeatures) else None
        return gate.gradients(
            plan,
            self.loss(schema),
            method=self.name,
            public=public_facts,
            journal=journal,
            device=device,
            microbatch=microbatch,
            represent=represent,
        )

    def query(
        self,
        gate: Gate,
        plan: Plan | None = None,
        *,
        report: Callable[[int], None] | None = None,
        device: str = "cpu",
        folder: Path | None = None,
        microbatch: int | None = None,
    ) -> Release:
        """Trains at the gate, and returns the trained parameters as a release.

        Args:
            gate: Private records and a budget; with `records`, the number of records as
                publicly known.
            plan: The result of `plan` for them; None computes it.
            report: Called with the number of steps done, after each step.
            device: Device on which torch computes.
            folder: Folder of the state of an interrupted run, to save and to resume it.
                Steps whose result was lost in a crash stay spent; the run has fewer
                steps then. Runs with further queries, or on shards, cannot be resumed.
            microbatch: Number of records whose gradients are computed at once; None for
                as many as fit into memory.

        Raises:
            UserError: if the schema or the gate is unusable for this method; nothing is
                spent.
            BudgetRefusedError: if the ledger refuses the cost.
            DivergedError: if the parameters become infinite or NaN. The cost is not
                refunded.
        """
        self.check_gate(gate)
        assert gate.records is not None
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        steps = steps_of(plan).query
        expected_batch = steps.sampling_probability * gate.records
        training = self.training(gate.schema, plan, expected_batch, device)
        # Before anything is spent, and not when all is.
        steps.check_trained_shapes(
            {name: tuple(value.shape) for name, value in training.result().items()}
        )

        journal = None
        state_file = None
        if folder is not None and self.is_resumable(plan):
            journal = folder / JOURNAL_FILE
            state_file = folder / STATE_FILE
        session = self.session(
            gate, plan, journal=journal, device=device, microbatch=microbatch
        )
        checkpoint = Checkpoint(
            state_file, training, journal=journal, cure=_CURE_OF_BROKEN_STATE
        )
        checkpoint.resume()
        with session, checkpoint:
            if isinstance(self, AsksBeforeSteps):
                self.before_steps(gate, session, training)
            _train(session, training, checkpoint, steps.steps, report)
            if session.open_queries and isinstance(self, AsksAfterSteps):
                maps = self.queries(gate.schema, gate.budget, training.result())
                session.ask(maps)
            return session.release(training.result())


class TrainsModel(ABC):
    """The ability to train a model of records at the gate.

    Nothing is left to be fitted.
    """

    @abstractmethod
    def model(self, release: Release) -> RecordModel:
        """Returns the model in a release.

        Raises:
            ModelError: if it is of another method, schema or settings.
        """

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns a fit that is done: the training was part of the query."""
        return FinishedFit()

    def synthesizer(self, release: Release, fitting: Any = None) -> Synthesizer:
        """Returns the synthesizer in a release, at no cost in privacy."""
        return trained_synthesizer(release, self.model(release))


def trained_synthesizer(
    release: Release, model: RecordModel, notes: Mapping[str, Any] | None = None
) -> Synthesizer:
    """Returns the synthesizer of a model that was trained at the gate.

    Args:
        release: The release that contains the model.
        model: The model of records.
        notes: Remarks of the report, in addition to the steps.
    """
    from noisegate.models.synthesizer import Synthesizer

    step_count = sum(
        event.steps
        for event in release.certificate.events
        if isinstance(event, StepEvent)
    )
    summary = FitSummary(
        step=step_count, steps=step_count, discrepancy=math.inf, notes=notes or {}
    )
    synthesizer = Synthesizer(release=release, model=model, summary=summary)
    if release.schema.has_rules:
        return synthesizer.with_verdict_of_rules()
    return synthesizer


def _train(
    session: Session,
    training: Trainer,
    checkpoint: Checkpoint,
    step_count: int,
    report: Callable[[int], None] | None,
) -> None:
    """Takes the steps that remain.

    Args:
        session: The session of the steps.
        training: What is trained.
        checkpoint: The file that its state is saved to.
        step_count: Number of steps of the plan.
        report: Called with the number of steps done after each of them.

    Raises:
        DivergedError: if a parameter is not finite any more.
    """
    while session.remaining_steps:
        noisy = session.step(training.parameters())
        steps_done = step_count - session.remaining_steps
        with checkpoint.step():
            training.step(noisy)
            check_finite(training.parameters(), steps_done)
        if report is not None:
            report(steps_done)
