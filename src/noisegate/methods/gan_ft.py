"""DP-GAN-FT: a GAN in feature space that has learnt public features before it is shown private ones.

A baseline of Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 4.1, algorithm 2; see
`feature_gan`. First it plays the same game with public features, where nothing is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import OptionError, said
from noisegate.methods.feature_gan import FeatureGAN
from noisegate.methods.public_reference import features_of, read_reference
from noisegate.methods.registry import register
from noisegate.models.public_features import PublicReference
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, settings

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.models.generator import Generator
    from noisegate.networks.discriminator import Discriminator


@register("dp-gan-ft")
@settings
class DPGANFineTuned(FeatureGAN):
    """Settings of DP-GAN-FT: see `FeatureGAN`."""

    renamed: ClassVar[Mapping[str, str]] = {"pretraining_rate": "pretraining_learning_rate"}

    generator_learning_rate: Positive = 3e-4
    public: str | None = None
    """Public images, whose features both networks are trained on first."""
    public_labels: bool = False
    """Whether they have the label of the schema; if not, they are given labels at random."""
    public_records: Count = 10_000
    """How many are encoded at most."""
    pretraining_steps: Count = 20_000
    """Steps of the discriminator on public features."""
    pretraining_learning_rate: Fraction = 1e-3
    """Of both networks there, by Adam."""

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; a DataError if the public images are private ones too, by what their files hold."""
        super().check_gate(gate)
        self._check_public()
        gate.check_apart(self.public)

    def check_fit(self, device: str) -> None:
        """See `Method`; an OptionError if there are no public images."""
        super().check_fit(device)
        self._check_public()

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings and digests of what was taken as public, for the certificate."""
        return {**super().public_facts(schema), "public": self._reference(schema).to_json()}

    def start(self, schema: Schema, generator: Generator, discriminator: Discriminator, device: str) -> None:
        """Trains both networks on public features, in place."""
        from noisegate.training.adversarial import pretrain

        rate, rows = self.pretraining_learning_rate, self.public_rows(schema).to(device)
        config = replace(self, discriminator_learning_rate=rate, generator_learning_rate=rate)
        encode, steps = self.inputs(schema)[1], self.pretraining_steps
        pretrain(config, generator, discriminator, rows, encode=encode, steps=steps)

    def public_rows(self, schema: Schema) -> Float[Tensor, "records _"]:
        """Returns discriminator inputs of public features, (records, features + labels); labels may be random."""
        import torch
        from torch.nn.functional import one_hot

        from noisegate.models.inputs import feature_scale

        reference, encoding, classes = self._reference(schema), self.encoding(), schema.layout.classes
        features = torch.from_numpy(features_of(reference.records, encoding)) * feature_scale(encoding.dim)
        if not classes:
            return features
        if reference.labelled:
            labels = torch.from_numpy(reference.records.codes[:, schema.layout.label]).long()
        else:
            labels = torch.randint(classes, (len(features),), generator=torch.Generator().manual_seed(self.seed))
        return torch.cat([features, one_hot(labels, classes).to(features.dtype)], dim=1)

    def _check_public(self) -> None:
        if self.public is None:
            raise OptionError(
                "public=None: dp-gan-ft starts from a GAN of public features. Give public images of the same schema: "
                f"{said('public', 'PATH')}, or take dp-gan-mi, which starts from random weights."
            )

    def _reference(self, schema: Schema) -> PublicReference:
        return _read(self.public, schema, self.public_records, self.public_labels, self.seed)


@lru_cache(maxsize=1)
def _read(public: Any, schema: Schema, most: int, labelled: bool, seed: int) -> PublicReference:
    return read_reference(public, schema, most=most, labelled=labelled, seed=seed)
