"""Base of DP-Sinkhorn and of methods on shards: a generator that follows noisy gradients at generated records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, LabelShares, Positive, settings
from noisegate_papers.methods.record_generator import RecordGenerator, record_model
from noisegate_papers.methods.steps import (
    GENERATOR,
    Shapes,
    public_shares,
    released_arrays,
    shapes_of,
)

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate_papers.training.guided import GuidedStart


@settings
class GuidedGenerator(RecordGenerator):
    """Settings of a generator that follows noisy gradients at generated records."""

    batch: Count = 16
    """Number of generated records in a step."""
    learning_rate: Positive = 2e-3
    """Learning rate of the generator, for Adam."""
    label_shares: LabelShares | None = None
    """Share of each level of the label, as public knowledge; None for equal shares."""

    def input_count(self, schema: Schema) -> int:
        """Returns how many inputs a record has, the label left out; refuses a schema that does not fit."""
        public_shares(schema, self.label_shares)
        return len(self.record_inputs(schema).names)

    def trained_shapes(self, schema: Schema) -> Shapes:
        """Returns the shape of each array that is released."""
        return shapes_of(self.initial_generator(schema, seed=0).state_dict())

    def guided_start(
        self, schema: Schema, *, batch: int, seed: int, device: str
    ) -> GuidedStart:
        """Returns the generator in its initial state.

        Args:
            schema: Public schema of the records.
            batch: Number of generated records in a step.
            seed: Seed of weights, noise vectors and labels.
            device: Device on which torch computes.
        """
        import torch

        from noisegate_papers.training.guided import GuidedStart

        label_shares = public_shares(schema, self.label_shares) or (1.0,)
        return GuidedStart(
            generator=self.initial_generator(schema, seed=seed).to(device),
            label_shares=torch.tensor(label_shares),
            encode=self.generated_inputs(schema),
            batch=batch,
            learning_rate=self.learning_rate,
            seed=seed,
            device=device,
        )

    def released_generator(self, release: Release) -> RecordModel:
        """Returns the generator in a release, to sample from.

        Raises:
            ModelError: if it is of another method, schema or settings.
        """
        schema = release.schema
        generator = self.initial_generator(schema, seed=0)
        shapes = shapes_of(generator.state_dict())
        number_count = sum(int(np.prod(shape)) for shape in shapes.values())
        arrays = released_arrays(
            release, GENERATOR, shapes, what=f"generator of {number_count} numbers"
        )
        generator.load_state_dict(arrays)
        label_shares = public_shares(schema, self.label_shares) or (1.0,)
        trained = generator.requires_grad_(False).eval()
        return record_model(schema, trained, np.asarray(label_shares))
