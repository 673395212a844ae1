"""A folder to hand out: synthetic records, two machine-readable descriptions of them, and the certificate.

DIR/
  synthetic.csv        or .parquet, under the name that was asked for
  datapackage.json     Frictionless Data Package: types, levels and bounds of columns, from the public schema
  croissant.json       the same for machine learning: MLCommons Croissant 1.0, JSON-LD
  certificate.json     the queries on the private records with their noise, and (ε, δ)
  certificate.md       the same in plain words
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from importlib.resources import files as resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from noisegate.atomic import new_folder
from noisegate.errors import OptionError, said
from noisegate.models.folder import PAGE_FILE, file_hash
from noisegate.privacy.certificate import Certificate, render
from noisegate.privacy.release import CERTIFICATE_FILE, Release
from noisegate.registry import extension
from noisegate.schema import (
    Boolean,
    Column,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Integer,
    Schema,
)

MEDIA_TYPES = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".md": "text/markdown",
}
_CROISSANT = json.loads(
    (resources("noisegate.models") / "croissant.json").read_text(encoding="utf-8")
)
"""The context of the specification, whole, as readers warn of any other; and what is said of all synthetic records."""
# As the specification calls it, and mlcroissant reads it.
_FORMATS = MEDIA_TYPES | {".parquet": "application/x-parquet"}
_RECORDS = "records"


def croissant(
    name: str, release: Release, *, files: Mapping[str, str], licence: str | None
) -> dict[str, Any]:
    """Returns the description of the records in the file `name`, among files whose SHA-256 is given by name."""
    columns = resource_columns(name, release.schema)
    described = {
        "@context": _CROISSANT["@context"],
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": title(release),
        "description": description(release),
        "version": "1.0.0",
        "datePublished": date.today().isoformat(),
        "citeAs": f"{title(release)}: synthetic records with {release.certificate.guarantee}.",
        "isLiveDataset": False,
        "distribution": [_file(one, sha256) for one, sha256 in files.items()],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": _RECORDS,
                "name": _RECORDS,
                "field": _pictures(name, columns)
                if isinstance(columns, PictureColumns)
                else [
                    _croissant_field(name, column.name, _data_type(column))
                    for column in columns
                ],
            }
        ],
    }
    return (
        described
        | _responsible(release.certificate)
        | ({} if licence is None else {"license": licence})
    )


def _responsible(certificate: Certificate) -> dict[str, Any]:
    """Returns how the records came to be and what they are for, by Croissant's vocabulary for responsible AI."""
    return {
        f"rai:{name}": text.format(certificate)
        if isinstance(text, str)
        else [one.format(certificate) for one in text]
        for name, text in _CROISSANT["rai"].items()
    }


def _file(name: str, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": _FORMATS[Path(name).suffix],
        "sha256": sha256,
    }


def _croissant_field(
    name: str, column: str, data_type: str, **more: Any
) -> dict[str, Any]:
    source = {"fileObject": {"@id": name}, "extract": {"column": column}, **more}
    place = f"{_RECORDS}/{quote(column, safe='')}"
    return {
        "@type": "cr:Field",
        "@id": place,
        "name": column,
        "dataType": data_type,
        "source": source,
    }


def _pictures(name: str, columns: PictureColumns) -> list[dict[str, Any]]:
    fields = [
        _croissant_field(
            name, columns.image, "sc:ImageObject", transform={"jsonPath": "bytes"}
        )
    ]
    if columns.label is not None:
        told = ", ".join(f"{place}: {name}" for place, name in enumerate(columns.names))
        meaning = {"description": told} if told else {}
        fields.append(_croissant_field(name, columns.label, "sc:Integer") | meaning)
    return fields


def _data_type(column: Column) -> str:
    kinds = {
        Continuous: "Float",
        Decimal: "Float",
        Date: "Date",
        Datetime: "DateTime",
        Boolean: "Boolean",
    }
    texts = not column.numeric and isinstance(column.levels[0], str)
    return f"sc:{kinds.get(type(column), 'Text' if texts else 'Integer')}"


_MOMENT = "%Y-%m-%d %H:%M:%S.%f"  # as the CSV writer spells moments


def data_package(
    name: str, release: Release, *, sha256: str, size: int, licence: str | None
) -> dict[str, Any]:
    """Returns the descriptor of a package with one resource, the file `name` of `size` bytes."""
    csv = name.endswith(".csv")
    resource: dict[str, Any] = {
        "name": "records",
        "type": "table",
        "path": name,
        "format": Path(name).suffix[1:],
        "mediatype": MEDIA_TYPES[Path(name).suffix],
        "hash": f"sha256:{sha256}",
        "bytes": size,
        "schema": table_schema(name, release.schema),
    }
    descriptor = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": title(release),
        "title": "Synthetic records",
        "description": description(release),
        "sources": [
            {
                "title": f"Privacy certificate: {release.certificate.guarantee}",
                "path": CERTIFICATE_FILE,
            }
        ],
        "resources": [resource | ({"encoding": "utf-8"} if csv else {})],
    }
    if licence is not None:
        descriptor["licenses"] = [{"path" if "://" in licence else "name": licence}]
    return descriptor


def table_schema(name: str, schema: Schema) -> dict[str, Any]:
    """Returns the Table Schema of the file `name`: what the public schema says, in Frictionless's words."""
    columns, csv = resource_columns(name, schema), name.endswith(".csv")
    if isinstance(columns, PictureColumns):
        fields: list[dict[str, Any]] = [
            {"name": columns.image, "type": "object", "description": "A PNG file."}
        ]
        if columns.label is not None:
            known = [
                {"value": place, "label": label}
                for place, label in enumerate(columns.names)
            ]
            fields.append(
                {"name": columns.label, "type": "integer"}
                | ({"categories": known} if known else {})
            )
        return {"fields": fields}
    spelled = (
        schema.missing_values[0]
        if schema.missing_values and "" not in schema.missing_values
        else ""
    )
    return {
        "fields": [_field(column, csv) for column in columns],
        "missingValues": [spelled],
    }


def _field(column: Column, csv: bool) -> dict[str, Any]:
    limits: dict[str, Any] = {"required": not column.missing}
    if column.numeric:
        whole = {Integer: "integer", Date: "date", Datetime: "datetime"}
        field = {"name": column.name, "type": whole.get(type(column), "number")}
        lowest, highest = (
            min(column.lower, *column.atoms, column.lower),
            max(column.upper, *column.atoms, column.upper),
        )
        limits |= {"minimum": lowest, "maximum": highest}
    elif isinstance(column, Boolean):
        field = {"name": column.name, "type": "boolean"}
    else:
        field = {
            "name": column.name,
            "type": "string" if isinstance(column.levels[0], str) else "integer",
        }
        limits["enum"] = list(column.levels)
    if isinstance(column, Datetime) and csv:
        field["format"] = _MOMENT + ("Z" if column.aware else "")
    return field | {
        "constraints": {
            key: _plain(value, field.get("format")) for key, value in limits.items()
        }
    }


def _plain(value: Any, form: str | None) -> Any:
    if isinstance(value, datetime):
        return value.strftime(form) if form else value.isoformat()
    return value.isoformat() if isinstance(value, date) else value


@dataclass(frozen=True, kw_only=True)
class PictureColumns:
    """The columns of Parquet that hold images: PNG files, and labels, which stand for `names` by position if any."""

    image: str
    label: str | None
    names: tuple[str, ...]


def resource_columns(name: str, schema: Schema) -> tuple[Column, ...] | PictureColumns:
    """Returns the columns that a file of synthetic records has: of the schema, or of pictures."""
    if schema.images is None or name.endswith(".csv"):
        return tuple(schema.columns)
    metadata = extension("noisegate.pictures", "rows", "what writes images")(
        schema.images
    )[0].metadata
    features: Mapping[str, Any] = json.loads(metadata[b"huggingface"])["info"][
        "features"
    ]
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
        f"{certificate.guarantee}; method: {certificate.method}.{kept} certificate.json states the queries."
    )


DATA_PACKAGE, CROISSANT = "datapackage.json", "croissant.json"


@contextmanager
def new_package(
    folder: Path, asked: Path | None, release: Release, *, licence: str | None = None
) -> Iterator[Path]:
    """Yields the file to write records to; the folder appears, described, when the block ends well, or not at all."""
    # `asked` names the file; None for synthetic.csv, or synthetic.parquet of images. Croissant cannot say how CSV
    # spells missing cells, where the schema wants them other than empty: take .parquet then.
    name = _file_name(release.schema, asked)
    if licence is not None and not licence.strip():
        cure = "name one, such as CC-BY-4.0, give its address, or leave it out."
        raise OptionError(f"licence {licence!r} is empty; {cure}")
    with new_folder(folder, "package") as beside:
        yield beside / name
        certificate = release.certificate
        _write_json(beside / CERTIFICATE_FILE, certificate.to_json())
        (beside / PAGE_FILE).write_text(render(certificate), encoding="utf-8")
        files = {
            name: file_hash(beside / name)
            for name in (name, CERTIFICATE_FILE, PAGE_FILE)
        }
        size = (beside / name).stat().st_size
        described = data_package(
            name, release, sha256=files[name], size=size, licence=licence
        )
        _write_json(beside / DATA_PACKAGE, described)
        _write_json(
            beside / CROISSANT, croissant(name, release, files=files, licence=licence)
        )


def _file_name(schema: Schema, asked: Path | None) -> str:
    if asked is None:
        return "synthetic.csv" if schema.images is None else "synthetic.parquet"
    if asked.name != str(asked) or asked.suffix not in (".csv", ".parquet"):
        raise OptionError(
            f"{said('out', asked)}: with {said('package')}, it must be the name of a file in there, "
            "which ends in .csv or .parquet."
        )
    return asked.name


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(
        json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        encoding="utf-8",
    )
