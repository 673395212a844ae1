"""Synthetic records as a Croissant data set (https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from noisegate.models.packages.described import MEDIA_TYPES, PictureColumns, description, resource_columns, title
from noisegate.privacy.release import Release
from noisegate.schema import Boolean, Column, Continuous, Date, Datetime, Decimal

_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
# The context of the specification, whole: readers warn of any other.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
# As the specification calls it, and mlcroissant reads it.
_FORMATS = MEDIA_TYPES | {".parquet": "application/x-parquet"}
_RECORDS = "records"


def croissant(name: str, release: Release, *, files: Mapping[str, str], licence: str | None) -> dict[str, Any]:
    """Returns the description of the records in the file `name`, among files whose SHA-256 is given by name."""
    columns = resource_columns(name, release.schema)
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": title(release),
        "description": description(release),
        "isLiveDataset": False,
        "distribution": [_file(one, sha256) for one, sha256 in files.items()],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": _RECORDS,
                "name": _RECORDS,
                "field": _pictures(name, columns)
                if isinstance(columns, PictureColumns)
                else [_field(name, column.name, _data_type(column)) for column in columns],
            }
        ],
    }
    return described | ({} if licence is None else {"license": licence})


def _file(name: str, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": _FORMATS[Path(name).suffix],
        "sha256": sha256,
    }


def _field(name: str, column: str, data_type: str, **more: Any) -> dict[str, Any]:
    source = {"fileObject": {"@id": name}, "extract": {"column": column}, **more}
    place = f"{_RECORDS}/{quote(column, safe='')}"
    return {"@type": "cr:Field", "@id": place, "name": column, "dataType": data_type, "source": source}


def _pictures(name: str, columns: PictureColumns) -> list[dict[str, Any]]:
    fields = [_field(name, columns.image, "sc:ImageObject", transform={"jsonPath": "bytes"})]
    if columns.label is not None:
        meaning = {"description": columns.meaning} if columns.names else {}
        fields.append(_field(name, columns.label, "sc:Integer") | meaning)
    return fields


def _data_type(column: Column) -> str:
    kinds = {Continuous: "Float", Decimal: "Float", Date: "Date", Datetime: "DateTime", Boolean: "Boolean"}
    texts = not column.numeric and isinstance(column.levels[0], str)
    return f"sc:{kinds.get(type(column), 'Text' if texts else 'Integer')}"
