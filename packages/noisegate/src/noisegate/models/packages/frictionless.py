"""Synthetic records as a Frictionless Data Package (https://datapackage.org/standard/data-package/)."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

from noisegate.models.packages.described import MEDIA_TYPES, PictureColumns, description, resource_columns, title
from noisegate.privacy.release import CERTIFICATE_FILE, Release
from noisegate.schema import Boolean, Column, Date, Datetime, Integer, Schema

# As the CSV writer spells moments.
_MOMENT = "%Y-%m-%d %H:%M:%S.%f"


def data_package(name: str, release: Release, *, sha256: str, size: int, licence: str | None) -> dict[str, Any]:
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
        "sources": [{"title": f"Privacy certificate: {release.certificate.guarantee}", "path": CERTIFICATE_FILE}],
        "resources": [resource | ({"encoding": "utf-8"} if csv else {})],
    }
    if licence is not None:
        descriptor["licenses"] = [{"path" if "://" in licence else "name": licence}]
    return descriptor


def table_schema(name: str, schema: Schema) -> dict[str, Any]:
    """Returns the Table Schema of the file `name`: what the public schema says, in Frictionless's words."""
    columns, csv = resource_columns(name, schema), name.endswith(".csv")
    if isinstance(columns, PictureColumns):
        fields: list[dict[str, Any]] = [{"name": columns.image, "type": "object", "description": "A PNG file."}]
        if columns.label is not None:
            known = [{"value": place, "label": label} for place, label in enumerate(columns.names)]
            fields.append({"name": columns.label, "type": "integer"} | ({"categories": known} if known else {}))
        return {"fields": fields}
    spelled = schema.missing_values[0] if schema.missing_values and "" not in schema.missing_values else ""
    return {"fields": [_field(column, csv) for column in columns], "missingValues": [spelled]}


def _field(column: Column, csv: bool) -> dict[str, Any]:
    limits: dict[str, Any] = {"required": not column.missing}
    if column.numeric:
        whole = {Integer: "integer", Date: "date", Datetime: "datetime"}
        field = {"name": column.name, "type": whole.get(type(column), "number")}
        lowest, highest = min(column.lower, *column.atoms, column.lower), max(column.upper, *column.atoms, column.upper)
        limits |= {"minimum": lowest, "maximum": highest}
    elif isinstance(column, Boolean):
        field = {"name": column.name, "type": "boolean"}
    else:
        field = {"name": column.name, "type": "string" if isinstance(column.levels[0], str) else "integer"}
        limits["enum"] = list(column.levels)
    if isinstance(column, Datetime) and csv:
        field["format"] = _MOMENT + ("Z" if column.aware else "")
    return field | {"constraints": {key: _plain(value, field.get("format")) for key, value in limits.items()}}


def _plain(value: Any, form: str | None) -> Any:
    """Returns a bound as JSON has it; a moment is spelled as those of its column are."""
    if isinstance(value, datetime):
        return value.strftime(form) if form else value.isoformat()
    return value.isoformat() if isinstance(value, date) else value
