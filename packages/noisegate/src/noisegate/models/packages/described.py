"""What every description of synthetic records says of them, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisegate.privacy.release import Release
from noisegate.registry import extension
from noisegate.schema import Column, Schema

MEDIA_TYPES = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".md": "text/markdown",
}


@dataclass(frozen=True, kw_only=True)
class PictureColumns:
    """The columns of Parquet that hold images: PNG files, and labels, which stand for `names` by position if any."""

    image: str
    label: str | None
    names: tuple[str, ...]

    @property
    def meaning(self) -> str:
        """What the label's numbers stand for, in words."""
        return ", ".join(f"{place}: {name}" for place, name in enumerate(self.names))


def resource_columns(name: str, schema: Schema) -> tuple[Column, ...] | PictureColumns:
    """Returns the columns that a file of synthetic records has: of the schema, or of pictures."""
    if schema.images is None or name.endswith(".csv"):
        return tuple(schema.columns)
    metadata = extension("noisegate.pictures", "rows", "what writes images")(schema.images)[0].metadata
    features: Mapping[str, Any] = json.loads(metadata[b"huggingface"])["info"]["features"]
    label = schema.images.label
    names = () if label is None else features[label].get("names", ())
    return PictureColumns(image=next(iter(features)), label=label, names=tuple(names))


def title(release: Release) -> str:
    """Returns a name by which synthetic records of one model are told from those of another."""
    return f"synthetic-{release.certificate.digest()[:12]}"


def description(release: Release) -> str:
    """Returns what the records are, in words: made up, of which guarantee, and by which rules."""
    certificate = release.certificate
    rules = [str(rule) for rule in release.schema.constraints]
    kept = f" Every record keeps to: {'; '.join(rules)}." if rules else ""
    return (
        f"Synthetic records, none of which is a real one, made by noisegate {certificate.version} with "
        f"{certificate.guarantee}; method: {certificate.method}.{kept} certificate.json states what was asked of the "
        "private records."
    )
