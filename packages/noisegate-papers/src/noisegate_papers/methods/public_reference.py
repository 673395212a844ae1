"""A public reference set: public records of the same schema, as many of them as may travel with a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, ModelError, OptionError, said
from noisegate.features.feature_map import FeatureMap
from noisegate.records import Images, Rows
from noisegate.schema import Schema
from noisegate_papers.models.public_features import PublicReference
from noisegate_papers.models.record_sets import tensors_of

# Rows of a block that a map is called with on the public side; a network there may be run on more than at the gate.
_ROWS = 256

Source = Annotated[Any, lambda source: str(source) if isinstance(source, Path) else source]
"""A setting that holds a path of public records, or a table in memory."""


def read_reference(source: Any, schema: Schema, *, most: int, labelled: bool, seed: int) -> PublicReference:
    """Returns public records; where there are more than `most`, so many drawn at random, each with the same chance.

    Args:
        source: A path of a table or of images, or a table in memory; the same kinds as of private records.
        schema: Of the private records, which public ones must fit.
        most: Records kept at most.
        labelled: Whether they have the label of the schema. If not, a column or folder of that name is not looked at.
        seed: Which ones are drawn; public.
    """
    # Here, so that a plan needs no library of tables.
    from noisegate.data.sources import digest_of, open_source

    if source is None:
        raise OptionError(
            "public=None: this method weighs public records to look like private ones. Give some: "
            f"{said('public', 'PATH')}, of the same schema."
        )
    read = schema if labelled else schema.unlabelled()
    try:
        records, total = _drawn(open_source(source, read, show_values=True).batches(), most, seed)
        source_sha256 = digest_of(Path(source)) if isinstance(source, str | Path) else None
    except DataError as error:
        cure = (
            "" if read.layout.label is None else " If the public records have no such label, set public_labels=false."
        )
        raise DataError(f"public: {error}{cure}") from None
    if read is not schema:
        assert schema.layout.label is not None
        records = _with_label(records, schema.layout.label)
    known, sha256 = read.layout.label is not None, _digest(records)
    return PublicReference(records=records, of=total, labelled=known, sha256=sha256, source_sha256=source_sha256)


def features_of(records: Rows, feature_map: FeatureMap) -> npt.NDArray[np.float32]:
    """Returns the features of public records, (records, dim), in small memory."""
    blocks = [feature_map(records.rows(slice(start, start + _ROWS))) for start in range(0, len(records), _ROWS)]
    return np.concatenate(blocks)


class Axes(NamedTuple):
    """Public directions along which features are looked at."""

    values: npt.NDArray[np.float64]
    """Orthonormal columns, (features, axes)."""
    facts: dict[str, Any]
    """What a certificate says of them."""

    def checked(self, public: Mapping[str, Any], source: Any) -> npt.NDArray[np.float64]:
        """Returns the directions; a ModelError if a certificate speaks of others."""
        if public.get("axes", {}).get("sha256") != self.facts["sha256"]:
            raise ModelError(
                f"public={source!r}: the axes of a full covariance are not those of the release; give the same public "
                "images as then."
            )
        return self.values


def public_axes(source: Any, schema: Schema, feature_map: FeatureMap, count: int, *, most: int, seed: int) -> Axes:
    """Returns the principal axes of features of public records, or random ones where `source` is None."""
    from noisegate_papers.features.transforms import axes_digest, principal_axes, random_axes

    if source is None:
        values = random_axes(feature_map.dim, count, seed=seed)
        return Axes(values, {"from": "random directions", "sha256": axes_digest(values)})
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


def _with_label(records: Rows, label: int) -> Rows:
    """Returns records with codes of 0 in place of the label that they came without."""
    codes = np.insert(records.codes, label, 0, axis=1)
    return Images(records.pixels, codes[:, 0]) if isinstance(records, Images) else Rows(records.numeric, codes)


def _digest(records: Rows) -> str:
    numeric, codes = tensors_of(records).values()
    head = repr((numeric.shape, codes.shape, str(numeric.dtype))).encode()
    return hashlib.sha256(head + numeric.tobytes() + codes.tobytes()).hexdigest()
