"""DP-Sinkhorn: a generator pulled towards real records by noisy gradients of an optimal transport loss (G-24).

Cao, Bie, Vahdat, Fidler and Kreis (NeurIPS 2021), https://arxiv.org/abs/2111.01177. The loss is 2·W(X₁, Y) − W(X₁, X₂),
with entropic transport W: Cuturi (NeurIPS 2013), https://arxiv.org/abs/1306.0895.

Cao, Bie, Vahdat, Fidler and Kreis (NeurIPS 2021), https://arxiv.org/abs/2111.01177. The
gradient at generated records of a loss between them and a sample of real ones, clipped
as a whole and noised at the gate (`Gate.batch`, G-24), is all that the generator learns
from. The loss is 2·W(X₁, Y) − W(X₁, X₂), where W is entropic transport, Cuturi (NeurIPS
2013), https://arxiv.org/abs/1306.0895, and X₂ shares all but a part of its records with
X₁. W(X₁, Y) is the mean over parts of the sample about as large as X₂, as the bias that
the second term takes off depends on how many there are. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.shard_plan import BatchQuery
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, Unit, settings
from noisegate_papers.methods.gan import GuidedMethod, by_records
from noisegate_papers.methods.generative import GENERATOR, shapes_of

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.gate.session import Session
    from noisegate.gate.sessions.shards import SampleVector
    from noisegate_papers.training.teachers import TransportTraining


@register("dp-sinkhorn")
@settings
class DPSinkhorn(GuidedMethod):
    """DP-Sinkhorn: a generator matched by optimal transport (Cao et al. 2021).

    Examples:
        >>> from noisegate import Budget, DPSinkhorn, Schema
        >>> from noisegate.schema import Integer
        >>> plan = DPSinkhorn(steps=10).plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0))
        >>> [(steps.name, steps.steps, steps.event.sensitivity / 2**22) for steps in plan.events]  # twice the norm
        [('generator', 10, 2.0)]
    """

    audit_settings: ClassVar = {
        **AUDITED_STEPS,
        "hidden": (8,),
        "latent": 4,
        "batch": 16,
        "iterations": 10,
    }

    steps: Count = by_records(table=600, images=2000)
    sampling_probability: Fraction = by_records(table=0.05, images=256 / 60_000)
    clip_norm: Positive = 0.5
    """L2 norm that the gradient of the loss of a whole sample is clipped to."""
    batch: Count = 50
    """Generated records in X₁."""
    fresh: Unit = 0.4
    """Part of X₂ that is not in X₁: 0 for a loss with all of its bias, 1 for none, and a larger variance."""
    regularisation: Positive = 0.05
    """Of the transport (λ), in units of the cost, which is a sum over inputs."""
    iterations: Count = 50
    """Of Sinkhorn's algorithm, each of both potentials."""
    label_cost: Positive = 1.0
    """Cost between records of different labels, beside the sum over inputs, for each input."""
    learning_rate: Positive = by_records(table=3e-3, images=2e-3)
    """Of the generator, by Adam."""

    def gradient_plan(self, schema: Schema, budget: Budget) -> BatchQuery:
        """Returns the steps; refuses a schema that does not fit the settings."""
        (gan, inputs), generated = (
            self.checked(schema),
            self.batch + round(self.fresh * self.batch),
        )
        trained = shapes_of(gan.generator(schema).state_dict())
        return BatchQuery(
            name=GENERATOR,
            parameters={"records": (generated, inputs)},
            trained=trained,
            **self.descent,
        )

    def session(
        self,
        gate: Gate,
        plan: Plan,
        *,
        journal: Path | None,
        **options: Any,
    ) -> Session:
        """Returns a session of vectors of whole samples."""
        public, vector = self.public_facts(gate.schema), self._vector(gate.schema)
        return gate.batch(
            plan, vector, method=self.name, public=public, journal=journal
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> TransportTraining:
        """Returns the generator at its start."""
        from noisegate_papers.training.teachers import TransportTraining

        records = steps_of(plan).query.parameters["records"][0]
        return TransportTraining(
            **self.generator_training(schema, records, device),
            again=records - self.batch,
        )

    def _vector(self, schema: Schema) -> SampleVector:
        """Returns the gradient of the loss with respect to generated records, of those and a sample of real ones."""
        import torch

        from noisegate_papers.training.teachers import transport_gradient

        label, inputs = schema.layout.label, self.gan(schema).inputs(schema)[0]
        loss = {
            "label_cost": self.label_cost,
            "regularisation": self.regularisation,
            "iterations": self.iterations,
        }

        def vector(
            parameters: Mapping[str, Any], numeric: Any, codes: Any
        ) -> dict[str, Tensor]:
            coded = torch.from_numpy(codes).long()
            labels = (
                coded[:, label]
                if label is not None
                else torch.zeros(len(coded), dtype=torch.long)
            )
            generated = parameters["records"].cpu(), parameters["labels"].cpu()
            real = inputs(torch.from_numpy(numeric), coded), labels
            return {
                "records": transport_gradient(
                    generated,
                    real,
                    first=self.batch,
                    **loss,  # type: ignore[arg-type]
                )
            }

        return vector
