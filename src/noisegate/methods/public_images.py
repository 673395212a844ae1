"""Public images that a method begins with, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from noisegate.errors import ModelError
from noisegate.methods.encoders import EncodedImages
from noisegate.methods.public_features import Source
from noisegate.methods.public_reference import read_reference
from noisegate.models.image_network import check_image_schema
from noisegate.schema import Schema
from noisegate.settings import Seed, TwoOrMore, settings

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.public_features import PublicReference


@settings
class PublicImageSettings(EncodedImages):
    """Settings that say which images are public."""

    public: Source = field(default=None, compare=False)
    """Public images of the same size, a path in any form that private ones may have, or a table in memory; None where
    the method does without. They are part of what is made, so they must hold no private one."""
    references: TwoOrMore = 10_000
    """How many of them are used at most, drawn at random."""
    public_labels: bool = False
    """Whether they have labels of the schema."""
    seed: Seed = 0
    """Of the public randomness. Never of the private noise."""

    def reference(self, schema: Schema) -> PublicReference | None:
        """Returns the public images, read once, or None; a DataError if they cannot be read or do not fit."""
        if self.public is None:
            return None
        if schema.digest() not in self._references:
            labelled = self.public_labels and schema.layout.label is not None
            found = read_reference(self.public, schema, most=self.references, labelled=labelled, seed=self.seed)
            self._references[schema.digest()] = found
        return self._references[schema.digest()]

    def reference_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what a certificate says of the public images."""
        reference = self.reference(schema)
        return {} if reference is None else {"reference": reference.to_json()}

    def check_reference(self, schema: Schema, public: Mapping[str, Any]) -> None:
        """Raises a ModelError if the public images are others than a certificate says."""
        here, there = self.reference_facts(schema).get("reference"), public.get("reference")
        if here != there:
            raise ModelError(
                f"public: these are not the public images that the release was made with; give the same ones. The "
                f"certificate says {there}, found {here}."
            )

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; a DataError if the public images are private ones too, by what their files hold."""
        super().check_gate(gate)
        check_image_schema(gate.schema, self.shape, labelled=False)
        if self.public is not None:
            gate.check_apart(self.public)
            self.reference(gate.schema)

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object; a public table in memory is not in it."""
        public = self.public if isinstance(self.public, str) else None
        return super(PublicImageSettings, replace(self, public=public)).to_json()

    @cached_property
    def _references(self) -> dict[str, PublicReference]:
        return {}
