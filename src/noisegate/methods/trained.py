"""What all methods that train on noisy gradients do in the same way: every step uses the records; training is asking.

A method says what the loss of a record is (private, behind the gate) and what is done with the noisy sums of its
gradients (`kept_training.Training`, public: it sees nothing else). The run between them is the same for all, and may be
interrupted: what was begun stays counted in a journal beside the state of the training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from noisegate.errors import OptionError
from noisegate.methods.from_json import method_from_json
from noisegate.methods.kept_training import KeptTraining, Training, check_finite
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.features.feature_map import FeatureMap
    from noisegate.gate.gate import Gate
    from noisegate.gate.losses import FactoredLoss, RecordLoss


class Trained(ABC):
    """Mixed into a method, a frozen dataclass of settings: `ask` by way of its `plan`, `loss` and `training`; JSON."""

    name: str

    @abstractmethod
    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data."""

    @abstractmethod
    def loss(self, schema: Schema) -> RecordLoss | FactoredLoss:
        """Returns the loss of one record, which the gate differentiates."""

    @abstractmethod
    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> Training:
        """Returns the training at its start.

        Args:
            schema: The columns.
            plan: What was calibrated.
            batch: Expected number of records of a step.
            device: Where to compute.
        """

    def represent(self, schema: Schema) -> FeatureMap | None:
        """Returns the public map whose vectors the loss sees in place of numeric columns; None for the columns."""
        return None

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what is taken as public, for the certificate."""
        return {"settings": self.to_json()}

    def check_gate(self, gate: Gate) -> None:
        """Finds what would stop the training at a gate, before anything is spent.

        Raises:
            OptionError: if no number of records is public.
        """
        if gate.records is None:
            raise OptionError(
                "records=None: sums of gradients are divided by the expected size of a sample, which takes a number of "
                "records that is public, for instance a rounded one, as the true one is private. Give records=NUMBER "
                "(--records NUMBER)."
            )

    def ask(
        self,
        gate: Gate,
        *,
        report: Callable[[int], None] | None = None,
        device: str = "cpu",
        folder: Path | None = None,
        physical_batch: int | None = None,
    ) -> Release:
        """Returns what was trained as a release: every step of the training uses the private records.

        Args:
            gate: Private records and a budget; with `records`, the number of records as far as the public knows.
            report: Called with the number of steps done after each of them.
            device: Where torch computes.
            folder: Where to keep the state of an interrupted run, and to take it up again. Steps that were begun and
                whose outcome was lost in a crash stay spent; the run is shorter by them.
            physical_batch: Records whose gradients are computed at once; None for what fits into memory.

        Raises:
            UserError: if the schema or the gate is unusable for this method; nothing is spent.
            BudgetRefusedError: if the ledger refuses.
            DivergedError: if what is trained is not finite any more; what was spent stays spent.
        """
        self.check_gate(gate)
        assert gate.records is not None
        plan, loss = self.plan(gate.schema, gate.budget), self.loss(gate.schema)
        training = self.training(gate.schema, plan, plan.plan.rate * gate.records, device)
        # Found now and not when all is spent.
        plan.plan.check({name: tuple(value.shape) for name, value in training.result().items()})
        kept = KeptTraining(folder, training)
        session = gate.gradients(
            plan,
            loss,
            method=self.name,
            public=self.public_facts(gate.schema),
            journal=kept.journal,
            device=device,
            physical_batch=physical_batch,
            represent=self.represent(gate.schema),
        )
        kept.take_up()
        with session, kept:
            while session.steps_left:
                noisy, done = session.step(training.parameters()), plan.plan.steps - session.steps_left
                with kept.changing():
                    training.step(noisy)
                    check_finite(training.parameters(), done)
                if report is not None:
                    report(done)
            return session.release(training.result())

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        settings = asdict(self)  # type: ignore[call-overload]
        settings.pop("name")
        return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object.

        Raises:
            ModelError: if a setting is missing or not known.
        """
        return method_from_json(cls, data)
