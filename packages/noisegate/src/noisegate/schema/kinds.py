"""Schemas of whatever kind: of one table or of images, or of several tables, which a package adds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisegate.registry import extension
from noisegate.schema.files import parse_toml, read_text
from noisegate.schema.schema import Schema


def is_linked(schema: object) -> bool:
    """Returns whether a schema describes several tables that are linked; what it says of them is its package's."""
    return getattr(schema, "links", None) is not None


def is_schema(value: object) -> bool:
    """Returns whether something is a schema of whatever kind."""
    return isinstance(value, Schema) or is_linked(value)


def read_schema(path: str | Path) -> Any:
    """Returns the schema in a file; a `SchemaError` says what is wrong with it."""
    text, origin = read_text(path, "schema file"), f"schema file {path}"
    return _kind(parse_toml(text, origin)).loads(text, origin=origin)


def schema_from_json(form: Mapping[str, Any]) -> Any:
    """Returns the schema that its `to_json` gave."""
    return _kind(form).from_json(form)


def _kind(form: Mapping[str, Any]) -> Any:
    return extension("noisegate.schemas", "linked", "what reads linked tables") if "tables" in form else Schema
