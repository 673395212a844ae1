"""DP-Sinkhorn: a generator pulled towards real records by noisy gradients of an optimal transport loss (G-24).

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
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.gradient import AsksSamples, GradientMethod, TrainsModel
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import BatchQuery
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, Unit, settings
from noisegate_papers.methods.guided import GuidedGenerator
from noisegate_papers.methods.record_generator import by_records
from noisegate_papers.methods.steps import GENERATOR, StepSettings

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.sessions.shards import SampleVector
    from noisegate.models.record_model import RecordModel
    from noisegate_papers.training.guided import TransportTraining


@register("dp-sinkhorn")
@settings
class DPSinkhorn(
    GuidedGenerator, StepSettings, TrainsModel, AsksSamples, GradientMethod
):
    """DP-Sinkhorn: a generator fitted by optimal transport (Cao et al. 2021).

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
    """L2 norm that the gradient of the loss of a complete sample is clipped to."""
    batch: Count = 50
    """Number of generated records in X₁. X₁ and X₂ are the two generated batches of the debiased loss."""
    fresh: Unit = 0.4
    """Share of X₂ that is not in X₁. At 0, the loss has its full bias; at 1, it has no bias, but a larger variance."""
    regularisation: Positive = 0.05
    """Regularisation of the transport (λ), in units of the cost, which is a sum over inputs."""
    iterations: Count = 50
    """Number of iterations of Sinkhorn's algorithm, each for both potentials."""
    label_cost: Positive = 1.0
    """Cost for each input between records with different labels, in addition to the sum over inputs."""
    learning_rate: Positive = by_records(table=3e-3, images=2e-3)
    """Learning rate of the generator, for Adam."""

    def __post_init__(self) -> None:
        self.check_generator()

    @property
    def generated_count(self) -> int:
        """Number of records that are generated in a step: those of X₁, and those of X₂ that are not in X₁."""
        return self.batch + round(self.fresh * self.batch)

    def gradient_plan(self, schema: Schema, budget: Budget) -> BatchQuery:
        """Returns the steps; refuses a schema that does not fit the settings."""
        shape = (self.generated_count, self.input_count(schema))
        return BatchQuery(
            name=GENERATOR,
            parameters={"records": shape},
            trained=self.trained_shapes(schema),
            steps=self.steps,
            sampling_probability=self.sampling_probability,
            clip_norm=self.clip_norm,
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> TransportTraining:
        """Returns the training of the generator in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.guided import TransportTraining

        start = self.guided_start(
            schema, batch=self.generated_count, seed=self.seed, device=device
        )
        fresh_count = self.generated_count - self.batch
        return TransportTraining(replace(start, relabelled=fresh_count))

    def model(self, release: Release) -> RecordModel:
        """Returns the released generator, to sample from."""
        return self.released_generator(release)

    def sample_vector(self, schema: Schema) -> SampleVector:
        """Returns the gradient of the loss at generated records, as a function of a sample of real ones."""
        import torch

        from noisegate_papers.training.transport import transport_gradient

        label = schema.layout.label
        inputs = self.real_inputs(schema)

        def vector(
            parameters: Mapping[str, Any], numeric: Any, codes: Any
        ) -> dict[str, Tensor]:
            coded = torch.from_numpy(codes).long()
            if label is None:
                labels = torch.zeros(len(coded), dtype=torch.long)
            else:
                labels = coded[:, label]
            generated = (parameters["records"].cpu(), parameters["labels"].cpu())
            real = (inputs(torch.from_numpy(numeric), coded), labels)
            gradient = transport_gradient(
                generated,
                real,
                first=self.batch,
                label_cost=self.label_cost,
                regularisation=self.regularisation,
                iterations=self.iterations,
            )
            return {"records": gradient}

        return vector
