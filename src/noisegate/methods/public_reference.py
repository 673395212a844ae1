"""A public reference set: public records of the same schema, as many of them as may travel with a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.generators.compact_records import CompactRecords
from noisegate.schema import EncodedTable, Schema

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

    records: CompactRecords
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
        records, total = _drawn(open_source(source, read, show_values=True).batches(), read, most, seed)
        whole = digest_of(Path(source)) if isinstance(source, str | Path) else None
    except DataError as error:
        cure = " If the public records have no such label, set public_labels=false." if _labels(read) else ""
        raise DataError(f"public: {error}{cure}") from None
    if read is not schema:
        assert schema.layout.label is not None
        records = replace(records, codes=np.insert(records.codes, schema.layout.label, 0, axis=1))
    return PublicReference(
        records=records, of=total, labelled=_labels(read), sha256=_digest(records), source_sha256=whole
    )


def features_of(records: CompactRecords, feature_map: FeatureMap) -> npt.NDArray[np.float32]:
    """Returns the features of public records, (records, dim), in small memory."""
    blocks = [feature_map(records.rows(slice(start, start + _ROWS))) for start in range(0, len(records), _ROWS)]
    return np.concatenate(blocks)


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


def _drawn(batches: Iterator[EncodedTable], schema: Schema, most: int, seed: int) -> tuple[CompactRecords, int]:
    """Returns the `most` records with the smallest random numbers, of all, and how many there are; in small memory."""
    random = np.random.Generator(np.random.Philox(seed))
    held: list[CompactRecords] = []
    numbers: npt.NDArray[np.float64] = np.zeros(0)
    total = 0
    for batch in batches:
        total += len(batch)
        held.append(CompactRecords.of(batch, schema))
        numbers = np.concatenate([numbers, random.random(len(batch))])
        if len(numbers) > most:
            chosen = np.sort(np.argpartition(numbers, most)[:most])
            held, numbers = [CompactRecords.concatenate(held).kept(chosen)], numbers[chosen]
    return CompactRecords.concatenate(held), total


def _digest(records: CompactRecords) -> str:
    found = hashlib.sha256(repr((records.numeric.shape, records.codes.shape, str(records.numeric.dtype))).encode())
    found.update(np.ascontiguousarray(records.numeric).tobytes())
    found.update(np.ascontiguousarray(records.codes).tobytes())
    return found.hexdigest()
