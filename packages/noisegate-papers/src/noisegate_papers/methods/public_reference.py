"""A public reference set: public records of the same schema, as many as may travel with a model, and their features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, ModelError, OptionError, said
from noisegate.queries.feature_map import FeatureMap
from noisegate.records import Images, Rows
from noisegate.schema import Schema
from noisegate_papers.models.record_sets import WeightedReference, tensors_of
from noisegate_papers.queries.transforms import (
    Whitened,
    axes_digest,
    principal_axes,
    random_axes,
)

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate_images.networks.decoder import LoadedDecoder

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicReference:
    """What is taken as public: the records that were drawn, in the order of the data."""

    records: Rows
    of: int  # how many the data has
    labelled: bool  # if not, codes of the label are 0
    sha256: str  # of the records as encoded, which travel with a model
    source_sha256: (
        str | None
    )  # of the file or folder that they came from; None for a table in memory

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate says of the set."""
        return {**vars(self), "records": len(self.records)}


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicFeatures:
    """A reference set, what centres and stretches features as public ones are like, and what they are decoded by."""

    reference: PublicReference
    features: Whitened
    plain: npt.NDArray[
        np.float32
    ]  # of the public records before that, (references, features)
    labels: npt.NDArray[np.int64] | None  # theirs, (references,), if any
    encoder: str | None  # the SHA-256 of its weights; None for tables
    decoder: LoadedDecoder | None  # without one records are released as they are

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Features of the public records, (references, dim)."""
        return self.features.after(self.plain)

    def model(self, weights: npt.NDArray[np.float64], schema: Schema) -> RecordModel:
        """Returns the public records, or what their features decode to, drawn by weights (labels or 1, references)."""
        label = schema.layout.label
        if self.decoder is None:
            return WeightedReference(
                records=self.reference.records, weights=weights, label=label
            )
        from noisegate_papers.models.decoded import DecodedReference, WeightedFeatures

        if self.labels is not None and label is not None:
            codes = np.arange(schema.layout.classes)
            weights = np.where(codes[:, None] == self.labels[None], weights, 0.0)
        source = WeightedFeatures(vectors=self.plain, weights=weights)
        return DecodedReference(
            source=source,
            decoder=self.decoder,
            weights=source.shares,
            labelled=label is not None,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate says of it: digests of references, features, encoder and decoder."""
        features: dict[str, Any] = {
            "dim": self.features.dim,
            "sha256": self.features.digest(),
        }
        if self.encoder is not None:
            features["encoder_sha256"] = self.encoder
        facts = {"reference": self.reference.to_json(), "features": features}
        return (
            facts
            if self.decoder is None
            else {**facts, "decoder": {"sha256": self.decoder.digest}}
        )


def check_same(here: Mapping[str, Any], stated: Mapping[str, Any]) -> None:
    """Raises a ModelError if public records, or what was made of them, are others than a certificate states."""
    for part, what in (
        ("decoder", "the decoder is another one than was named; give the same one"),
        (
            "reference",
            "the public records are others than those that were used; give the same ones",
        ),
        (
            "features",
            "this machine makes other features of the public records; fit where they were asked",
        ),
    ):
        if stated.get(part) != here.get(part):
            raise ModelError(
                f"public: {what}. The certificate says {stated.get(part)}, found {here.get(part)}."
            )


# Rows of a block that a map is called with on the public side; a network there may be run on more than at the gate.
_ROWS = 256

Source = Annotated[
    Any, lambda source: str(source) if isinstance(source, Path) else source
]
"""A setting that holds a path of public records, or a table in memory."""


def read_reference(
    source: Any, schema: Schema, *, most: int, labelled: bool, seed: int
) -> PublicReference:
    """Returns public records; where there are more than `most`, so many drawn at random, each with the same chance."""
    # The source is a path or a table of any kind that private records may have, and must fit their schema. Where
    # records are not `labelled`, a column or folder of that name is not examined. `seed` is public.
    # Here, so that a plan needs no library of tables.
    from noisegate.sources.overlap import digest_of
    from noisegate.sources.sources import open_source

    require_public(source, "this method uses public records")
    read = schema if labelled else schema.unlabelled()
    try:
        records, total = _drawn(
            open_source(source, read, show_values=True).batches(), most, seed
        )
        source_sha256 = (
            digest_of(Path(source)) if isinstance(source, str | Path) else None
        )
    except DataError as error:
        cure = (
            ""
            if read.layout.label is None
            else " If the public records have no such label, set public_labels=false."
        )
        raise DataError(f"public: {error}{cure}") from None
    if read is not schema:
        assert schema.layout.label is not None
        # They came without their label: codes of 0 stand in its place.
        codes = np.insert(records.codes, schema.layout.label, 0, axis=1)
        records = (
            Images(records.pixels, codes[:, 0])
            if isinstance(records, Images)
            else Rows(records.numeric, codes)
        )
    numeric, codes = tensors_of(records).values()
    head = repr((numeric.shape, codes.shape, str(numeric.dtype))).encode()
    sha256 = hashlib.sha256(head + numeric.tobytes() + codes.tobytes()).hexdigest()
    known = read.layout.label is not None
    return PublicReference(
        records=records,
        of=total,
        labelled=known,
        sha256=sha256,
        source_sha256=source_sha256,
    )


def once(owner: Any, schema: Schema, read: Callable[[], _Kept]) -> _Kept:
    """Returns what a method reads of public records: once for each schema, and then what it has kept."""
    known: dict[str, _Kept] = vars(owner).setdefault("_kept", {})
    if schema.digest() not in known:
        known[schema.digest()] = read()
    return known[schema.digest()]


def require_public(source: Any, why: str, otherwise: str = "") -> None:
    """Raises an OptionError that says why there must be public records, if there are none."""
    if source is None:
        cure = f"give some of the same schema: {said('public', 'PATH')}"
        raise OptionError(f"public=None: {why}; {cure}{otherwise}.")


def features_of(records: Rows, feature_map: FeatureMap) -> npt.NDArray[np.float32]:
    """Returns the features of public records, (records, dim), in small memory."""
    blocks = [
        feature_map(records.rows(slice(start, start + _ROWS)))
        for start in range(0, len(records), _ROWS)
    ]
    return np.concatenate(blocks)


class Axes(NamedTuple):
    """Public directions along which features are examined."""

    values: npt.NDArray[np.float64]  # orthonormal columns, (features, axes)
    facts: dict[str, Any]  # what a certificate says of them

    def checked(
        self, public: Mapping[str, Any], source: Any
    ) -> npt.NDArray[np.float64]:
        """Returns the directions; a ModelError if a certificate speaks of others."""
        if public.get("axes", {}).get("sha256") != self.facts["sha256"]:
            cure = "give the same public images as then."
            raise ModelError(
                f"public={source!r}: the axes of a full covariance are not those of the release; {cure}"
            )
        return self.values


def public_axes(
    source: Any,
    schema: Schema,
    feature_map: FeatureMap,
    count: int,
    *,
    most: int,
    seed: int,
) -> Axes:
    """Returns the principal axes of features of public records, or random ones where `source` is None."""
    if source is None:
        values = random_axes(feature_map.dim, count, seed=seed)
        return Axes(
            values, {"from": "random directions", "sha256": axes_digest(values)}
        )
    reference = read_reference(source, schema, most=most, labelled=False, seed=seed)
    values = principal_axes(features_of(reference.records, feature_map), count)
    facts = {"from": "principal axes of public images", "public": reference.to_json()}
    return Axes(values, {**facts, "sha256": axes_digest(values)})


def _drawn(batches: Iterator[Rows], most: int, seed: int) -> tuple[Rows, int]:
    """Returns the `most` records with the smallest random numbers, of all, and how many there are; in small memory."""
    random = np.random.Generator(np.random.Philox(seed))
    held, numbers, total = list[Rows](), np.zeros(0), 0
    for batch in batches:
        total += len(batch)
        held.append(batch)
        numbers = np.concatenate([numbers, random.random(len(batch))])
        if len(numbers) > most:
            chosen = np.sort(np.argpartition(numbers, most)[:most])
            held, numbers = [Rows.concatenate(held).rows(chosen)], numbers[chosen]
    return Rows.concatenate(held), total
