"""A public reference set: public records of the same schema, as many of them as may travel with a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.models.record_sets import tensors_of
from noisegate.records import Images, Rows
from noisegate.schema import Schema

# Rows of a block that a map is called with on the public side; a network there may be run on more than at the gate.
_ROWS = 256


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
        told: dict[str, Any] = {"records": len(self.records), "of": self.of, "labelled": self.labelled}
        return told | {"sha256": self.sha256, "source_sha256": self.source_sha256}


def read_reference(source: Any, schema: Schema, *, most: int, labelled: bool, seed: int) -> PublicReference:
    """Returns public records; where there are more than `most`, so many drawn at random, each with the same chance.

    Args:
        source: A path of a table or of images, or a table in memory; the same kinds as of private records.
        schema: Of the private records, which public ones must fit.
        most: Records kept at most.
        labelled: Whether the public records have the label of the schema, where it has one. If not, a column or a
            folder of that name is not looked at.
        seed: Which ones are drawn; public.

    Raises:
        OptionError: if there is no source.
        DataError: if it cannot be read or does not fit the schema; values are quoted, as they are public.
    """
    # Here, so that a plan needs no library of tables.
    from noisegate.data.same_files import digest_of
    from noisegate.data.sources import open_source

    if source is None:
        raise OptionError(
            "public=None: this method weighs public records to look like private ones. Give some: public=PATH "
            "(--public FILE_OR_FOLDER), of the same schema."
        )
    read = schema if labelled else without_label(schema)
    try:
        records, total = _drawn(open_source(source, read, show_values=True).batches(), most, seed)
        whole = digest_of(Path(source)) if isinstance(source, str | Path) else None
    except DataError as error:
        cure = " If the public records have no such label, set public_labels=false." if _labels(read) else ""
        raise DataError(f"public: {error}{cure}") from None
    if read is not schema:
        assert schema.layout.label is not None
        records = _with_label(records, schema.layout.label)
    return PublicReference(
        records=records, of=total, labelled=_labels(read), sha256=_digest(records), source_sha256=whole
    )


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


def public_axes(source: Any, schema: Schema, feature_map: FeatureMap, count: int, *, most: int, seed: int) -> Axes:
    """Returns the principal axes of public records, or random ones if there are no such records.

    Args:
        source: A path of public records, or a table in memory; None for random axes.
        schema: Of the private records, which public ones must fit.
        feature_map: From a record to the vector whose axes they are.
        count: Number of axes.
        most: Records that are looked at, at most.
        seed: Of random axes, and of which records; public.

    Raises:
        UserError: if the public records cannot be read, do not fit, or are fewer than axes.
    """
    from noisegate.features.transforms import axes_digest, principal_axes, random_axes

    if source is None:
        values = random_axes(feature_map.dim, count, seed=seed)
        return Axes(values, {"from": "random directions", "sha256": axes_digest(values)})
    reference = read_reference(source, schema, most=most, labelled=False, seed=seed)
    values = principal_axes(features_of(reference.records, feature_map), count)
    facts = {"from": "principal axes of public images", "public": reference.to_json()}
    return Axes(values, {**facts, "sha256": axes_digest(values)})


def without_label(schema: Schema) -> Schema:
    """Returns the schema of records whose label, if they have one, is not read; `schema` itself if it has no codes."""
    if not _labels(schema):
        return schema
    columns = tuple(column for column in schema.columns if column.name != schema.label)
    ignored = (*schema.ignore, str(schema.label))
    images = None if schema.images is None else schema.images.unlabelled()
    return replace(schema, columns=columns, label=None, ignore=ignored, constraints=(), images=images)


def _labels(schema: Schema) -> bool:
    return schema.layout.label is not None


def _drawn(batches: Iterator[Rows], most: int, seed: int) -> tuple[Rows, int]:
    """Returns the `most` records with the smallest random numbers, of all, and how many there are; in small memory."""
    random = np.random.Generator(np.random.Philox(seed))
    held: list[Rows] = []
    numbers: npt.NDArray[np.float64] = np.zeros(0)
    total = 0
    for batch in batches:
        total += len(batch)
        held.append(batch)
        numbers = np.concatenate([numbers, random.random(len(batch))])
        if len(numbers) > most:
            chosen = np.sort(np.argpartition(numbers, most)[:most])
            held, numbers = [Rows.concatenate(held).rows(chosen)], numbers[chosen]
    return Rows.concatenate(held), total


def _with_label(records: Rows, place: int) -> Rows:
    """Returns records with codes of 0 in place of the label that they came without."""
    codes = np.insert(records.codes, place, 0, axis=1)
    return Images(records.pixels, codes[:, 0]) if isinstance(records, Images) else Rows(records.numeric, codes)


def _digest(records: Rows) -> str:
    numeric, codes = tensors_of(records).values()
    found = hashlib.sha256(repr((numeric.shape, codes.shape, str(numeric.dtype))).encode())
    found.update(np.ascontiguousarray(numeric).tobytes())
    found.update(np.ascontiguousarray(codes).tobytes())
    return found.hexdigest()
