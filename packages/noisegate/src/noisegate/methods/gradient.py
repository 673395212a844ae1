"""Methods that train on noisy gradients of private records.

A method states the loss of one record, which the gate differentiates, clips and sums,
and a `Trainer`, which sees nothing but the noisy sums. `GradientMethod` derives the
plan, the training loop and the release from the two. Every step uses the records, so
that the whole training is part of the query.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from noisegate.methods.method import Method
from noisegate.models.checkpoint import (
    Checkpoint,
    FinishedFit,
    Fit,
    Resumable,
    check_finite,
)
from noisegate.privacy.gradient_plan import StepQuery, plan_steps, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
    from noisegate.gate.session import Session
    from noisegate.queries.feature_map import FeatureMap

STATE_FILE = "training.safetensors"
"""The file in a run's folder from which a training goes on."""
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


class GradientMethod(Method):
    """Base of methods that take noisy gradients.

    A method states `gradient_plan`, `loss` and `training`; where it asks queries as
    well, also `before_steps` or `queries`.

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
    resumable: ClassVar[bool] = True
    """Whether an interrupted run can go on.

    It cannot where the gate keeps something private between steps.
    """

    @abstractmethod
    def gradient_plan(self, schema: Schema, budget: Budget) -> StepQuery:
        """Returns the steps, and any queries beside them, without their noise."""

    def loss(self, schema: Schema) -> RecordLoss | FactoredLoss:
        """Returns the loss of one record, which the gate differentiates.

        A method that overrides `session` needs none.
        """
        raise NotImplementedError

    def session(
        self,
        gate: Gate,
        plan: Plan,
        *,
        journal: Path | None,
        device: str = "cpu",
        microbatch: int | None = None,
    ) -> Session:
        """Returns the session of the steps at a gate: here, gradients of `loss`.

        Args:
            gate: Private records and a budget.
            plan: The calibrated plan.
            journal: File that counts the steps begun; None for a run that is not
                resumed.
            device: Where torch computes.
            microbatch: Records whose gradients are computed at once; None for what fits
                into memory.
        """
        return gate.gradients(
            plan,
            self.loss(gate.schema),
            method=self.name,
            public=self.public_facts(gate.schema),
            journal=journal,
            device=device,
            microbatch=microbatch,
            represent=self.represent(gate.schema),
        )

    @abstractmethod
    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the training at its start.

        Args:
            schema: Public schema of the records.
            plan: The calibrated plan.
            batch: Expected number of records in the sample of a step.
            device: Where torch computes.
        """

    def represent(self, schema: Schema) -> FeatureMap | None:
        """Returns the public map whose vectors the loss sees.

        They take the place of a record's numeric columns; None leaves these as they
        are.
        """
        return None

    def before_steps(self, gate: Gate, session: Session, training: Any) -> None:
        """Asks queries that come before the steps; here, none.

        Args:
            gate: The gate, for what is public of it.
            session: The session, which answers queries of the plan.
            training: What `training` returned, which starts from their answers.
        """

    def queries(
        self, schema: Schema, budget: Budget, trained: Mapping[str, Tensor]
    ) -> Mapping[str, FeatureMap]:
        """Returns the feature map of each query that follows the steps.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee of the run.
            trained: The result of the training.
        """
        raise NotImplementedError

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Plans the steps and calibrates their noise to a budget; reads no data."""
        return plan_steps(budget, self.gradient_plan(schema, budget))

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns a fit that is done: the training was part of the query."""
        return FinishedFit()

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
        """Trains at the gate, and returns what was trained as a release.

        Args:
            gate: Private records and a budget; with `records`, the number of records as
                far as the public knows.
            plan: What `plan` gave for them; None to make it.
            report: Called with the number of steps done after each of them.
            device: Where torch computes.
            folder: Where to keep the state of an interrupted run, and to resume it.
                Steps whose outcome was lost in a crash stay spent; the run is shorter
                by them. Runs with queries, or on shards, cannot be resumed.
            microbatch: Records whose gradients are computed at once; None for what fits
                into memory.

        Raises:
            UserError: if the schema or the gate is unusable for this method; nothing is
                spent.
            BudgetRefusedError: if the ledger refuses.
            DivergedError: if what is trained is not finite any more; what was spent
                stays spent.
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
        can_resume = self.resumable and not plan.releases
        if folder is not None and can_resume:
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
            self.before_steps(gate, session, training)
            _train(session, training, checkpoint, steps.steps, report)
            if session.open_queries:
                maps = self.queries(gate.schema, gate.budget, training.result())
                session.ask(maps)
            return session.release(training.result())


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
