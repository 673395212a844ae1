"""A public reference set and its features, by which private records are compared with it: all of it is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError
from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate_papers.features.transforms import Whitened
from noisegate_papers.models.record_sets import WeightedReference

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate_images.networks.decoder import LoadedDecoder


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicReference:
    """What is taken as public.

    Attributes:
        records: Those that were drawn, in the order of the data.
        of: How many there are in the data.
        labelled: Whether they came with labels of the schema; the codes of the label are 0 where not.
        sha256: Of the records that were drawn, encoded: what travels with a model.
        source_sha256: Of the file or folder that they came from; None for a table in memory.
    """

    records: Rows
    of: int
    labelled: bool
    sha256: str
    source_sha256: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate says of the set."""
        return {**vars(self), "records": len(self.records)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicFeatures:
    """A reference set, its features, and what they are decoded by."""

    reference: PublicReference
    features: Whitened
    """From any record to its features, centred and stretched by what public ones are like."""
    plain: npt.NDArray[np.float32]
    """Features of the public records before they are centred and stretched, (references, features)."""
    labels: npt.NDArray[np.int64] | None
    """Labels of the public records, (references,) int64; None where they have none."""
    encoder: str | None
    """SHA-256 of the weights of the encoder; None for tables."""
    decoder: LoadedDecoder | None
    """From plain features to images; None where public records are handed out as they are."""

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Features of the public records, (references, dim)."""
        return self.features.after(self.plain)

    def model(self, weights: npt.NDArray[np.float64], schema: Schema) -> RecordModel:
        """Returns the public records, or what the decoder makes of their features, drawn by weight.

        `weights` are (labels, references), or (1, references) where references have labels of their own or none.
        """
        label = schema.layout.label
        if self.decoder is None:
            return WeightedReference(records=self.reference.records, weights=weights, label=label)
        from noisegate_papers.models.decoded import DecodedReference, WeightedFeatures

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
        """Raises a ModelError if the public records, or what was made of them, are others than a certificate says."""
        here = self.to_json()
        for part, what in (
            ("decoder", "the decoder is another one than was named; give the same one"),
            ("reference", "the public records are others than those that were used; give the same ones"),
            ("features", "this machine makes other features of the public records; fit where they were asked"),
        ):
            if public.get(part) != here.get(part):
                raise ModelError(f"public: {what}. The certificate says {public.get(part)}, found {here.get(part)}.")
