"""What DP-DRE knows before it asks: the public references, and the features that records are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError
from noisegate.features.feature_map import FeatureMap
from noisegate.features.whitening import Whitened, whitened
from noisegate.methods.dre.settings import Asked
from noisegate.methods.generator_choice import read_shape
from noisegate.methods.public_reference import PublicReference, features_of, read_reference
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.generators.decoder import LoadedDecoder

PUBLIC = "public"
"""The decoder that gives for a feature the public record that it came from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Everything here is public.

    Attributes:
        reference: The public records.
        features: From any record to its features, centred and stretched by what public ones are like.
        plain: Features of the public records before they are centred and stretched, (references, features).
        vectors: Those after, (references, dim).
        labels: Labels of the public records, (references,) int64; None where they have none.
        encoder: SHA-256 of the weights of the encoder; None for tables.
        decoder: From plain features to images; None where public records are handed out as they are.
    """

    reference: PublicReference
    features: Whitened
    plain: npt.NDArray[np.float32]
    vectors: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | None
    encoder: str | None
    decoder: LoadedDecoder | None

    @classmethod
    def of(cls, method: Asked, schema: Schema, plain: FeatureMap) -> Design:
        """Returns the design for the records of a schema.

        Args:
            method: Settings.
            schema: Of private and public records.
            plain: Their features before they are centred and stretched.

        Raises:
            UserError: if the public records are not there, do not fit the schema, or are all alike; or the decoder is
                not there or does not fit.
        """
        decoder = decoder_of(method)
        reference = read_reference(
            method.public, schema, most=method.references, labelled=method.public_labels, seed=method.seed
        )
        found = features_of(reference.records, plain)
        dim = min(method.dimensions, plain.dim)
        features = whitened(plain, found, dim=dim, exponent=method.whitening, length=method.length)
        encoder = None
        if method.image is not None:
            from noisegate.methods.encoding import encoding_digest

            encoder = encoding_digest(method.network, method.weights, method.sha256)
        label = schema.layout.label
        known = label is not None and reference.labelled
        return cls(
            reference=reference,
            features=features,
            plain=found,
            vectors=features.after(found),
            labels=reference.records.codes[:, label].astype(np.int64) if known else None,
            encoder=encoder,
            decoder=decoder,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate says of it: digests of references, features, encoder and decoder."""
        features: dict[str, Any] = {"dim": self.features.dim, "sha256": self.features.digest()}
        if self.encoder is not None:
            features["encoder_sha256"] = self.encoder
        told = {"reference": self.reference.to_json(), "features": features}
        return told if self.decoder is None else {**told, "decoder": {"sha256": self.decoder.digest}}

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


def decoder_of(method: Asked) -> LoadedDecoder | None:
    """Returns the decoder that a method was asked to use; None where public records are handed out.

    Raises:
        UserError: if there is none, it cannot be read, or does not fit images and encoder.
    """
    if method.decoder == PUBLIC:
        return None
    from noisegate.methods.decoding import matching_decoder
    from noisegate.methods.encoding import encoding_digest, image_encoding

    shape, known = read_shape(method.image), (method.network, method.weights, method.sha256)
    encoding = image_encoding(*known, method.layer, shape)
    return matching_decoder(method.decoder, method.decoder_sha256, shape, encoding, encoding_digest(*known))
