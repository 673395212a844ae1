"""DP-GAN-FT: a GAN in feature space that has learnt public features before it is shown private ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from noisegate.errors import OptionError
from noisegate.methods.gan.features import FeatureGAN, classes_of
from noisegate.methods.gan.pretraining import pretrain, shown_scale
from noisegate.methods.public_reference import PublicReference, read_reference
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.generators.feature_network import FeatureGenerator
    from noisegate.networks.discriminator import Discriminator


@dataclass(frozen=True, kw_only=True)
class DPGANFineTuned(FeatureGAN):
    """Settings of DP-GAN-FT, beside those of `FeatureGAN`.

    Attributes:
        public: Public images, whose features both networks are trained on first.
        public_labels: Whether they have the label of the schema; if not, they are given labels at random.
        public_records: How many are encoded at most.
        pretraining_steps: Steps of the discriminator on public features.
        pretraining_rate: Learning rate of both networks there, by Adam.
    """

    public: str | None = None
    public_labels: bool = False
    public_records: int = 10_000
    pretraining_steps: int = 20_000
    pretraining_rate: float = 1e-3
    generator_rate: float = 3e-4

    name: Literal["dp-gan-ft"] = field(default="dp-gan-ft", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("public_records", "pretraining_steps"):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{option}={value!r} must be a positive whole number.")
        rate = self.pretraining_rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
            raise OptionError(f"pretraining_rate={rate!r} must be a number above 0, at most 1.")
        if not isinstance(self.public_labels, bool):
            raise OptionError(f"public_labels={self.public_labels!r} must be true or false.")

    def check_gate(self, gate: Gate) -> None:
        """Finds what would stop the training at a gate, before anything is spent.

        Raises:
            DataError: if the public images are private ones too, by what their files hold.
        """
        super().check_gate(gate)
        self._check_public()
        gate.check_apart(self.public)

    def check_fit(self, device: str) -> None:
        """Finds what would stop the training, before any budget is spent.

        Raises:
            OptionError: if the device is not here, or there are no public images.
        """
        super().check_fit(device)
        self._check_public()

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings and digests of what was taken as public, for the certificate."""
        return {**super().public_facts(schema), "public": self._reference(schema).to_json()}

    def start(self, schema: Schema, generator: FeatureGenerator, discriminator: Discriminator, device: str) -> None:
        """Trains both networks on public features, in place."""
        rows = self.public_rows(schema).to(device)
        rate = self.pretraining_rate
        rules = replace(self.rules(None), discriminator_rate=rate, generator_rate=rate)
        pretrain(rules, generator, discriminator, rows, steps=self.pretraining_steps)

    def _check_public(self) -> None:
        if self.public is None:
            raise OptionError(
                "public=None: dp-gan-ft starts from a GAN of public features. Give public images of the same schema: "
                "public=PATH (--public FILE_OR_FOLDER), or take dp-gan-mi, which starts from random weights."
            )

    def _reference(self, schema: Schema) -> PublicReference:
        return _read(self.public, schema, self.public_records, self.public_labels, self.seed)

    def public_rows(self, schema: Schema) -> Tensor:
        """Returns public features as the discriminator sees them, with labels: their own, or drawn at random.

        The features, brought to entries of size 1 or so, stand before the one-hot labels, (records, features + labels).
        """
        import torch
        from torch.nn.functional import one_hot

        from noisegate.methods.public_reference import features_of

        reference, encoding, classes = self._reference(schema), self.represent(schema), classes_of(schema)
        features = torch.from_numpy(features_of(reference.records, encoding)) * shown_scale(encoding.dim)
        if not classes:
            return features
        if reference.labelled:
            labels = torch.from_numpy(reference.records.codes[:, schema.layout.label]).long()
        else:
            labels = torch.randint(classes, (len(features),), generator=torch.Generator().manual_seed(self.seed))
        return torch.cat([features, one_hot(labels, classes).to(features.dtype)], dim=1)


@lru_cache(maxsize=1)
def _read(public: Any, schema: Schema, most: int, labelled: bool, seed: int) -> PublicReference:
    return read_reference(public, schema, most=most, labelled=labelled, seed=seed)
