"""A package to hand out: a folder of synthetic records that describes itself.

::

    DIR/
      synthetic.csv        the records; or .parquet, under the name that was given
      datapackage.json     Frictionless Data Package: types, levels, bounds of columns
      croissant.json       MLCommons Croissant 1.0: the same for machine learning
      certificate.json     the queries on private records, their noise, and (ε, δ)
      certificate.md       the same in plain words

Both descriptions follow from the public schema and the certificate alone. So they say
what values a column can have, never what values the private records have.

- `new_package` writes the folder.
- `_data_package` and `_croissant` build the two descriptions.
- `_resource_columns` returns the columns that the file of records has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    Column,
    Schema,
)

DATA_PACKAGE_FILE = "datapackage.json"
CROISSANT_FILE = "croissant.json"

# Of the files in a package, by ending.
_MEDIA_TYPES = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".md": "text/markdown",
}

# The specification of Croissant, and mlcroissant, have another name for Parquet.
_CROISSANT_MEDIA_TYPES = {**_MEDIA_TYPES, ".parquet": "application/x-parquet"}

_CROISSANT_TEMPLATE = json.loads(
    (resources("noisegate.models") / "croissant.json").read_text(encoding="utf-8")
)
"""The parts that all descriptions share: under "@context" the context of the
specification, complete, as readers warn of any other; under "rai" texts that are true
of all synthetic records, with places for fields of the certificate."""

_RECORD_SET = "records"
"""The id of the only record set in a Croissant description."""


@dataclass(frozen=True, kw_only=True)
class _ImageColumns:
    """The columns of a Parquet file of images."""

    image: str  # of PNG files
    label: str | None  # of codes, from 0 on; None where images have none
    label_names: tuple[str, ...]  # what the codes stand for; may be empty


@contextmanager
def new_package(
    folder: Path,
    file_name: Path | None,
    release: Release,
    *,
    licence: str | None = None,
) -> Iterator[Path]:
    """Makes a package around a file of synthetic records.

    Croissant cannot express missing cells in CSV other than empty ones. If the schema
    has no empty missing value, choose a .parquet file.

    Args:
        folder: New folder.
        file_name: Name of the file of records, which ends in .csv or .parquet; None for
            synthetic.csv, or synthetic.parquet if they are images.
        release: What the model was fitted to.
        licence: Licence of the records: an SPDX name, or its address.

    Yields:
        The file to write the records to. When the block ends well, the folder appears
        with all descriptions; otherwise it does not appear.

    Raises:
        OptionError: if the folder exists or cannot be written, the name is no such
            name, or the licence is empty.
    """
    name = _checked_file_name(release.schema, file_name)
    if licence is not None and not licence.strip():
        raise OptionError(
            f"licence {licence!r} is empty; name one, such as CC-BY-4.0, give its "
            "address, or leave it out."
        )
    with new_folder(folder, "package") as unfinished:
        yield unfinished / name
        certificate = release.certificate
        _write_json(unfinished / CERTIFICATE_FILE, certificate.to_json())
        (unfinished / PAGE_FILE).write_text(render(certificate), encoding="utf-8")
        hashes = {
            described_name: file_hash(unfinished / described_name)
            for described_name in (name, CERTIFICATE_FILE, PAGE_FILE)
        }
        data_package = _data_package(
            name,
            release,
            sha256=hashes[name],
            size=(unfinished / name).stat().st_size,
            licence=licence,
        )
        _write_json(unfinished / DATA_PACKAGE_FILE, data_package)
        croissant = _croissant(name, release, hashes=hashes, licence=licence)
        _write_json(unfinished / CROISSANT_FILE, croissant)


def _checked_file_name(schema: Schema, file_name: Path | None) -> str:
    """Returns the name of the file of records.

    Raises:
        OptionError: if it is a path with folders, or has another ending.
    """
    if file_name is None:
        return "synthetic.csv" if schema.images is None else "synthetic.parquet"
    is_in_folder = file_name.name == str(file_name)
    if not is_in_folder or file_name.suffix not in (".csv", ".parquet"):
        raise OptionError(
            f"{said('out', file_name)}: with {said('package')}, it must be the name of "
            "a file in there, which ends in .csv or .parquet."
        )
    return file_name.name


def _data_package(
    name: str, release: Release, *, sha256: str, size: int, licence: str | None
) -> dict[str, Any]:
    """Builds the descriptor of a Frictionless Data Package with one resource.

    Args:
        name: Name of the file of records.
        release: What the model was fitted to.
        sha256: Hash of the file, hexadecimal.
        size: Size of the file in bytes.
        licence: An SPDX name or an address; None for no licence.
    """
    suffix = Path(name).suffix
    resource: dict[str, Any] = {
        "name": "records",
        "type": "table",
        "path": name,
        "format": suffix.removeprefix("."),
        "mediatype": _MEDIA_TYPES[suffix],
        "hash": f"sha256:{sha256}",
        "bytes": size,
        "schema": _table_schema(name, release.schema),
    }
    if suffix == ".csv":
        resource["encoding"] = "utf-8"
    certificate_source = {
        "title": f"Privacy certificate: {release.certificate.guarantee}",
        "path": CERTIFICATE_FILE,
    }
    descriptor: dict[str, Any] = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": _title(release),
        "title": "Synthetic records",
        "description": _description(release),
        "sources": [certificate_source],
        "resources": [resource],
    }
    if licence is not None:
        licence_key = "path" if "://" in licence else "name"
        descriptor["licenses"] = [{licence_key: licence}]
    return descriptor


def _table_schema(name: str, schema: Schema) -> dict[str, Any]:
    """Translates the public schema into a Table Schema of Frictionless.

    Args:
        name: Name of the file of records.
        schema: Schema of the records.
    """
    columns = _resource_columns(name, schema)
    if isinstance(columns, _ImageColumns):
        return {"fields": _image_table_fields(columns)}

    # As `sample_file` writes missing cells.
    missing_text = ""
    if schema.missing_values and "" not in schema.missing_values:
        missing_text = schema.missing_values[0]
    is_csv = name.endswith(".csv")
    return {
        "fields": [_table_field(column, is_csv=is_csv) for column in columns],
        "missingValues": [missing_text],
    }


def _image_table_fields(columns: _ImageColumns) -> list[dict[str, Any]]:
    """Returns the fields of images and their labels for a Table Schema."""
    image_field = {
        "name": columns.image,
        "type": "object",
        "description": "A PNG file.",
    }
    if columns.label is None:
        return [image_field]
    label_field: dict[str, Any] = {"name": columns.label, "type": "integer"}
    if columns.label_names:
        label_field["categories"] = [
            {"value": code, "label": label}
            for code, label in enumerate(columns.label_names)
        ]
    return [image_field, label_field]


def _table_field(column: Column, *, is_csv: bool) -> dict[str, Any]:
    """Returns the field of a column for a Table Schema, with its constraints.

    A column of integers from 0 to 9, for instance, is::

        {"name": "pain", "type": "integer",
         "constraints": {"required": True, "minimum": 0, "maximum": 9}}
    """
    constraints: dict[str, Any] = {"required": not column.missing}
    # Texts such as "<0.5" stand among the numbers, so that none of them has a type.
    has_limits = bool(column.limits)
    if column.numeric and column.has_bounds_in_table_schema and not has_limits:
        # Point masses, such as the code of an open end, may lie outside of the bounds.
        constraints["minimum"] = min([column.lower, *column.atoms])
        constraints["maximum"] = max([column.upper, *column.atoms])
    elif not (column.numeric or column.is_truth_value):
        constraints["enum"] = list(column.levels)

    field: dict[str, Any] = {
        "name": column.name,
        "type": "string" if has_limits else column.table_schema_type,
    }
    time_format = _csv_time_format(column) if is_csv else None
    if time_format is not None:
        field["format"] = time_format
    field["constraints"] = {
        key: _json_value(column.form_value(value), time_format)
        for key, value in constraints.items()
    }
    return field


def _csv_time_format(column: Column) -> str | None:
    """Returns how Arrow's CSV writer writes a column of points in time.

    Returns:
        The fields, for `strftime`; None for a column of other values.
    """
    import pyarrow.types as pt

    from noisegate.schema.arrow_types import public_values

    arrow_type = public_values(column).type
    if not pt.is_timestamp(arrow_type):
        return None
    return "%Y-%m-%d %H:%M:%S.%f" + ("Z" if arrow_type.tz else "")


def _json_value(value: Any, time_format: str | None) -> Any:
    """Returns a bound as JSON has it: dates as text, anything else as it is."""
    if isinstance(value, datetime) and time_format is not None:
        return value.strftime(time_format)
    if isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    return value


def _croissant(
    name: str, release: Release, *, hashes: Mapping[str, str], licence: str | None
) -> dict[str, Any]:
    """Builds the Croissant description of a package.

    Args:
        name: Name of the file of records.
        release: What the model was fitted to.
        hashes: SHA-256 of each file that is described, by name, hexadecimal.
        licence: An SPDX name or an address; None for no licence.
    """
    title = _title(release)
    certificate = release.certificate
    record_set = {
        "@type": "cr:RecordSet",
        "@id": _RECORD_SET,
        "name": _RECORD_SET,
        "field": _croissant_fields(name, _resource_columns(name, release.schema)),
    }
    content = {
        "@context": _CROISSANT_TEMPLATE["@context"],
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": title,
        "description": _description(release),
        "version": "1.0.0",
        "datePublished": date.today().isoformat(),
        "citeAs": f"{title}: synthetic records with {certificate.guarantee}.",
        "isLiveDataset": False,
        "distribution": [
            _croissant_file(file, sha256) for file, sha256 in hashes.items()
        ],
        "recordSet": [record_set],
        **_responsible_ai_properties(certificate),
    }
    if licence is not None:
        content["license"] = licence
    return content


def _responsible_ai_properties(certificate: Certificate) -> dict[str, Any]:
    """Returns how the records were made and what they are for.

    The names are those of Croissant's vocabulary for responsible AI, such as
    "rai:dataCollection".
    """
    properties: dict[str, Any] = {}
    for name, texts in _CROISSANT_TEMPLATE["rai"].items():
        if isinstance(texts, str):
            properties[f"rai:{name}"] = texts.format(certificate)
        else:
            properties[f"rai:{name}"] = [text.format(certificate) for text in texts]
    return properties


def _croissant_file(name: str, sha256: str) -> dict[str, Any]:
    """Describes a file of the package for Croissant."""
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": _CROISSANT_MEDIA_TYPES[Path(name).suffix],
        "sha256": sha256,
    }


def _croissant_fields(
    name: str, columns: Sequence[Column] | _ImageColumns
) -> list[dict[str, Any]]:
    """Describes the columns of the file of records for Croissant."""
    if not isinstance(columns, _ImageColumns):
        return [
            _croissant_field(
                name, column.name, "sc:Text" if column.limits else column.croissant_type
            )
            for column in columns
        ]

    image_field = _croissant_field(name, columns.image, "sc:ImageObject")
    # A cell is a struct with the bytes of the file.
    image_field["source"]["transform"] = {"jsonPath": "bytes"}
    if columns.label is None:
        return [image_field]
    label_field = _croissant_field(name, columns.label, "sc:Integer")
    if columns.label_names:
        label_field["description"] = ", ".join(
            f"{code}: {label}" for code, label in enumerate(columns.label_names)
        )
    return [image_field, label_field]


def _croissant_field(name: str, column_name: str, data_type: str) -> dict[str, Any]:
    """Describes one column for Croissant.

    Args:
        name: Name of the file that has it.
        column_name: Its name, any text; quoted in the id.
        data_type: A type of schema.org, such as "sc:Float".
    """
    return {
        "@type": "cr:Field",
        "@id": f"{_RECORD_SET}/{quote(column_name, safe='')}",
        "name": column_name,
        "dataType": data_type,
        "source": {"fileObject": {"@id": name}, "extract": {"column": column_name}},
    }


def _resource_columns(name: str, schema: Schema) -> tuple[Column, ...] | _ImageColumns:
    """Returns the columns of a file of synthetic records.

    CSV has the columns of the schema, pixels too. Parquet has images as PNG files in
    one column; which one, the package that writes them says in the file's metadata.

    Args:
        name: Name of the file.
        schema: Schema of the records.
    """
    if schema.images is None or name.endswith(".csv"):
        return tuple(schema.columns)
    arrow_schema = extension("noisegate.pictures", "rows", "what writes images")(
        schema.images
    )[0]
    hugging_face = json.loads(arrow_schema.metadata[b"huggingface"])
    features: Mapping[str, Any] = hugging_face["info"]["features"]
    image = next(iter(features))
    label = schema.images.label
    label_names = () if label is None else features[label].get("names", ())
    return _ImageColumns(image=image, label=label, label_names=tuple(label_names))


def _title(release: Release) -> str:
    """Returns a name that only the records of one model have."""
    return f"synthetic-{release.certificate.digest()[:12]}"


def _description(release: Release) -> str:
    """Describes the records in words: synthetic, with a guarantee, and their rules."""
    certificate = release.certificate
    schema = release.schema
    constraints = [str(rule) for rule in (*schema.relations, *schema.constraints)]
    rules = f" Every record keeps to: {'; '.join(constraints)}." if constraints else ""
    return (
        "Synthetic records, drawn from a model, made by noisegate "
        f"{certificate.version} with {certificate.guarantee}; method: "
        f"{certificate.method}.{rules} certificate.json states the queries."
    )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
