"""Methods that train on noisy gradients: a private loss of a record, and a `Trainer` that sees noisy sums.

A method says what the loss of a record is (private, behind the gate) and what is done
with the noisy sums of its clipped gradients (a `Trainer`: public, it sees nothing
else). Every step uses the records, so training is asking.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from noisegate.errors import OptionError, said
from noisegate.methods.method import Method
from noisegate.models.checkpoint import Checkpoint, Resumable, check_finite
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, StepPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
    from noisegate.queries.feature_map import FeatureMap

STATE_FILE, JOURNAL_FILE = "training.safetensors", "steps.journal"
_CURE = (
    "What it held is lost and its cost stays spent; remove its folder to start again."
)


class Trainer(Resumable, Protocol):
    """The public half of a run: what it is and does follows from public randomness and noisy sums alone."""

    def parameters(self) -> Mapping[str, Tensor]:
        """Returns where the next gradient is taken, of the shapes of the plan's `parameters`."""

    def step(self, noisy: Mapping[str, Tensor], /) -> None:
        """Does with a noisy sum of gradients what the method does."""

    def result(self) -> Mapping[str, Tensor]:
        """Returns what was trained, of the shapes of the plan's `released`."""


class GradientMethod(Method):
    """Base of methods that take noisy gradients: plan, training loop and release follow from what a method states.

    Examples:
        >>> from noisegate import Budget, DPGAN, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> plan = DPGAN(steps=100, sampling_probability=0.125).plan(schema, Budget(epsilon=1.0))
        >>> [(event.name, event.steps, event.rate) for event in plan.events], plan.epsilon <= 1.0
        ([('generator', 100, 0.125)], True)
    """

    resumable: ClassVar[bool] = True
    """Whether an interrupted run can go on: not where the gate keeps something private between steps."""

    @abstractmethod
    def gradient_plan(self, schema: Schema, budget: Budget) -> StepPlan:
        """Returns the steps, and the queries after them if there are any, before it is known with what noise."""

    def loss(self, schema: Schema) -> RecordLoss | FactoredLoss:
        """Returns the loss of one record, which the gate differentiates; or a method has a `session` of its own."""
        raise NotImplementedError

    def session(
        self,
        gate: Gate,
        plan: CalibratedGradientPlan,
        *,
        journal: Path | None,
        **options: Any,
    ) -> Any:
        """Returns the session of the steps at a gate, gradients of `loss`; `options` are those of `Gate.gradients`."""
        options |= {
            "method": self.name,
            "public": self.public_facts(gate.schema),
            "journal": journal,
        }
        return gate.gradients(
            plan,
            self.loss(gate.schema),
            represent=self.represent(gate.schema),
            **options,
        )

    @abstractmethod
    def training(
        self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str
    ) -> Trainer:
        """Returns the training at its start; `batch` is the expected number of records of a step."""

    def represent(self, schema: Schema) -> FeatureMap | None:
        """Returns the public map whose vectors the loss sees in place of numeric columns; None for the columns."""
        return None

    def before_steps(self, gate: Gate, session: Any, training: Any) -> None:
        """Asks queries that come before the steps, and starts the training from their answers; here, none."""

    def queries(
        self, schema: Schema, budget: Budget, trained: Mapping[str, Tensor]
    ) -> Mapping[str, FeatureMap]:
        """Returns the feature map of each query that follows the steps, by what was trained."""
        raise NotImplementedError

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; an OptionError if no number of records is public."""
        super().check_gate(gate)
        if gate.records is None:
            raise OptionError(
                "records=None: sums of gradients are divided by the expected size of a sample, which takes a number of "
                "records that is public, for instance a rounded one, as the true one is private. Give "
                f"{said('records')}."
            )

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data."""
        return self.gradient_plan(schema, budget).calibrate(budget)

    def query(
        self,
        gate: Gate,
        plan: CalibratedGradientPlan | None = None,
        *,
        report: Callable[[int], None] | None = None,
        device: str = "cpu",
        folder: Path | None = None,
        microbatch: int | None = None,
    ) -> Release:
        """Returns what was trained as a release: every step of the training uses the private records.

        Args:
            gate: Private records and a budget; with `records`, the number of records as far as the public knows.
            plan: What `plan` gave for them; None to make it.
            report: Called with the number of steps done after each of them.
            device: Where torch computes.
            folder: Where to keep the state of an interrupted run, and to resume it. Steps whose outcome was lost in a
                crash stay spent; the run is shorter by them. Runs with queries, or on shards, cannot be resumed.
            microbatch: Records whose gradients are computed at once; None for what fits into memory.

        Raises:
            UserError: if the schema or the gate is unusable for this method; nothing is spent.
            BudgetRefusedError: if the ledger refuses.
            DivergedError: if what is trained is not finite any more; what was spent stays spent.
        """
        self.check_gate(gate)
        assert gate.records is not None
        plan = plan or self.plan(gate.schema, gate.budget)
        training = self.training(
            gate.schema, plan, plan.plan.sampling_probability * gate.records, device
        )
        # Found now and not when all is spent.
        plan.plan.check_trained_shapes(
            {name: tuple(value.shape) for name, value in training.result().items()}
        )
        folder = None if plan.releases or not self.resumable else folder
        journal, state = (
            (None, None)
            if folder is None
            else (folder / JOURNAL_FILE, folder / STATE_FILE)
        )
        session = self.session(
            gate, plan, journal=journal, device=device, microbatch=microbatch
        )
        checkpoint = Checkpoint(state, training, journal=journal, cure=_CURE)
        checkpoint.resume()
        with session, checkpoint:
            self.before_steps(gate, session, training)
            while session.remaining_steps:
                noisy, done = (
                    session.step(training.parameters()),
                    plan.plan.steps - session.remaining_steps,
                )
                with checkpoint.step():
                    training.step(noisy)
                    check_finite(training.parameters(), done)
                if report is not None:
                    report(done)
            if session.open_queries:
                session.ask(self.queries(gate.schema, gate.budget, training.result()))
            released: Release = session.release(training.result())
            return released
