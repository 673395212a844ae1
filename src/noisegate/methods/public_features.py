"""Public records and the features that private ones are compared with them by: all of it is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field

from noisegate.errors import ModelError, OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.features.transforms import Whitened, whitened
from noisegate.methods.encoders import EncodedImages
from noisegate.methods.public_reference import PublicReference, features_of, read_reference
from noisegate.models.classifier_inputs import input_features
from noisegate.models.image_network import check_image_schema
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, Seed, Unit, derived, settings

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.models.decoder import LoadedDecoder
    from noisegate.models.record_model import RecordModel

PUBLIC = "public"
"""The decoder that gives for a feature the public record that it came from."""

Source = Annotated[Any, BeforeValidator(lambda source: str(source) if isinstance(source, Path) else source)]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicFeatures:
    """A reference set, its features, and what they are decoded by.

    Attributes:
        reference: The public records.
        features: From any record to its features, centred and stretched by what public ones are like.
        plain: Features of the public records before they are centred and stretched, (references, features).
        labels: Labels of the public records, (references,) int64; None where they have none.
        encoder: SHA-256 of the weights of the encoder; None for tables.
        decoder: From plain features to images; None where public records are handed out as they are.
    """

    reference: PublicReference
    features: Whitened
    plain: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | None
    encoder: str | None
    decoder: LoadedDecoder | None

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Features of the public records, (references, dim)."""
        return self.features.after(self.plain)

    def tensors(self, device: str) -> tuple[Tensor, Tensor | None]:
        """Returns the vectors and the labels on a device."""
        import torch

        labels = None if self.labels is None else torch.from_numpy(self.labels).to(device)
        return torch.from_numpy(self.vectors).to(device), labels

    def model(self, weights: npt.NDArray[np.float64], schema: Schema) -> RecordModel:
        """Returns the public records, or what the decoder makes of their features, drawn by weight.

        Args:
            weights: (labels, references), or (1, references) where references have labels of their own or there are
                none.
            schema: Of the records.
        """
        label = schema.layout.label
        if self.decoder is None:
            from noisegate.models.record_sets import WeightedReference

            return WeightedReference(records=self.reference.records, weights=weights, label=label)
        from noisegate.models.decoded import DecodedReference, WeightedFeatures

        if self.labels is not None and label is not None:
            codes = np.arange(schema.layout.classes)
            weights = np.where(codes[:, None] == self.labels[None], weights, 0.0)
        source = WeightedFeatures(vectors=self.plain, weights=weights)
        return DecodedReference(source=source, decoder=self.decoder, weights=source.shares, labelled=label is not None)

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate says of it: digests of references, features, encoder and decoder."""
        features: dict[str, Any] = {"dim": self.features.dim, "sha256": self.features.digest()}
        if self.encoder is not None:
            features["encoder_sha256"] = self.encoder
        facts = {"reference": self.reference.to_json(), "features": features}
        return facts if self.decoder is None else {**facts, "decoder": {"sha256": self.decoder.digest}}

    def check(self, public: Mapping[str, Any]) -> None:
        """Checks that it is the one that a certificate speaks of.

        Raises:
            ModelError: if the public records or what was made of them are others.
        """
        here = self.to_json()
        for part, what in (
            ("decoder", "the decoder is another one than was named; give the same one"),
            ("reference", "the public records are others than those that were used; give the same ones"),
            ("features", "this machine makes other features of the public records; fit where they were asked"),
        ):
            if public.get(part) != here.get(part):
                raise ModelError(f"public: {what}. The certificate says {public.get(part)}, found {here.get(part)}.")


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
        kept: dict[str, PublicFeatures] = self._kept
        if schema.digest() not in kept:
            kept[schema.digest()] = self._read(schema)
        return kept[schema.digest()]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object; a public table in memory is not in it."""
        public = self.public if isinstance(self.public, str) else None
        return super(ReferenceSettings, replace(self, public=public)).to_json()

    @cached_property
    def _kept(self) -> dict[str, PublicFeatures]:
        return {}

    def _read(self, schema: Schema) -> PublicFeatures:
        label, plain = schema.layout.label, self.plain_features(schema)
        decoder = None if self.decoder == PUBLIC else self.checked_decoder()
        most, labelled = self.references, self.public_labels
        reference = read_reference(self.public, schema, most=most, labelled=labelled, seed=self.seed)
        found, dim = features_of(reference.records, plain), min(self.dimensions, plain.dim)
        known = label is not None and reference.labelled
        return PublicFeatures(
            reference=reference,
            features=whitened(plain, found, dim=dim, exponent=self.whitening, length=self.length),
            plain=found,
            labels=reference.records.codes[:, label].astype(np.int64) if known else None,
            encoder=None if self.image is None else self.encoder().sha256,
            decoder=decoder,
        )
