"""Public records and the features that private ones are compared with them by: all of it is public."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.features.transforms import whitened
from noisegate.methods.encoders import EncodedImages
from noisegate.methods.public_reference import features_of, read_reference
from noisegate.models.image_network import check_image_schema
from noisegate.models.inputs import input_features
from noisegate.models.public_features import PublicFeatures
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, Seed, Unit, derived, settings

if TYPE_CHECKING:
    pass

PUBLIC = "public"
"""The decoder that gives for a feature the public record that it came from."""

Source = Annotated[Any, BeforeValidator(lambda source: str(source) if isinstance(source, Path) else source)]


@settings
class ReferenceSettings(EncodedImages):
    """Settings that say what is public, and how records are compared."""

    public: Source = field(default=None, compare=False)
    """Path of the public records, of the same schema and in any form that private ones may have, or a table in memory.
    They are handed out as they are, so they must hold no private record."""
    references: Annotated[int, Field(ge=2), "a whole number, 2 or more"] = 10_000
    """How many of them are used at most, drawn at random; they travel with the model."""
    public_labels: bool = derived(lambda given: given["image"] is None)
    """Whether they have the label of the schema. By default true for tables and false for images."""
    decoder: str = PUBLIC
    """What images are handed out: "public", those that the features came from, or what a decoder makes of the features:
    its name or file, see `noisegate.models.decoder.load_decoder`."""
    dimensions: Count = 64
    """Directions of the features that are kept, those first in which public ones vary most."""
    whitening: Unit = 0.5
    """How far directions are brought to the same spread, from 0 to 1."""
    length: Positive = 2.0
    """Of the features, on average over the public ones."""
    seed: Seed = 0
    """Of the public randomness: which references are drawn, and more."""

    def __post_init__(self) -> None:
        if self.image is not None:
            _ = self.shape
        elif self.decoder != PUBLIC:
            raise OptionError(f"decoder={self.decoder!r} makes images; of a table, public rows are handed out.")

    def plain_features(self, schema: Schema) -> FeatureMap:
        """Returns the features of records before they are centred and stretched."""
        if self.image is None:
            return input_features(schema, otherwise="there is nothing to weigh records by")
        check_image_schema(schema, self.shape, labelled=False)
        return self.encoding()

    def public_features(self, schema: Schema) -> PublicFeatures:
        """Returns public records and their features; reads the former once.

        Raises:
            UserError: if the public records are not there, do not fit the schema, or are all alike; or the encoder or
                decoder is not there or does not fit.
        """
        known: dict[str, PublicFeatures] = self._public_features
        if schema.digest() not in known:
            label, encode = schema.layout.label, self.plain_features(schema)
            decoder = None if self.decoder == PUBLIC else self.checked_decoder()
            most, labelled = self.references, self.public_labels
            reference = read_reference(self.public, schema, most=most, labelled=labelled, seed=self.seed)
            plain, dim = features_of(reference.records, encode), min(self.dimensions, encode.dim)
            labels = reference.records.codes[:, label].astype(np.int64) if reference.labelled else None
            known[schema.digest()] = PublicFeatures(
                reference=reference,
                features=whitened(encode, plain, dim=dim, exponent=self.whitening, length=self.length),
                plain=plain,
                labels=labels,
                encoder=None if self.image is None else self.encoder().sha256,
                decoder=decoder,
            )
        return known[schema.digest()]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object; a public table in memory is not in it."""
        public = self.public if isinstance(self.public, str) else None
        return super(ReferenceSettings, replace(self, public=public)).to_json()

    @cached_property
    def _public_features(self) -> dict[str, PublicFeatures]:
        return {}
