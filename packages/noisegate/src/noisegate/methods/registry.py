"""Names to methods: ours, and those of installed packages."""

import inspect
from collections.abc import Mapping
from typing import Any

from noisegate import registry
from noisegate.errors import OptionError, said
from noisegate.methods.method import Method
from noisegate.privacy.certificate import Certificate
from noisegate.registry import Registry, one_name_each
from noisegate.schema import Schema
from noisegate.schema.schema import is_linked

AUTO = "auto"
"""The choice that a data steward need not make: a method and its settings, from public facts (docs/choosing.md)."""
_TABLES, _IMAGES, _LINKED = "pairwise", "joint", "linked"

METHODS: Registry[Method] = registry.METHODS
register = METHODS.register


def method_named(
    name: Any, schema: Schema | Any = None, *, makes: str | None = None
) -> type[Method]:
    """Returns the method called `name`, for "auto" the best for a schema's records, or for tables.

    An OptionError if there is none, or it makes something else than `makes`: "records", "classifier" or None for any.
    """
    if name == AUTO:
        images = isinstance(schema, Schema) and schema.images is not None
        name = _LINKED if is_linked(schema) else _IMAGES if images else _TABLES
    if not isinstance(name, str):
        raise OptionError(
            f"method={name!r} must be the name of a method, such as 'pairwise'."
        )
    method = METHODS.find(name, AUTO)
    if makes not in (None, method.makes):
        raise OptionError(
            f"method={name!r} trains a classifier and makes no records; take `noisegate fit --method {name}` for it "
            "(or, of dp-llm, noisegate.LocallyLinearMaps), or another method for records."
        )
    return method


def make_for(name: Any, schema: Schema | Any, settings: Mapping[str, Any]) -> Method:
    """Returns the method called `name`, or "auto", for the records of a schema, with some of its settings changed.

    Where records are images, settings that follow from the schema need not be given. An OptionError if there is no such
    method or setting, or a value is unusable.

    Examples:
        >>> from noisegate.methods.registry import make_for
        >>> from noisegate.schema import pixel_schema
        >>> method = make_for("auto", pixel_schema(8, 8), {"pixels": 100})
        >>> method.name, method.image, method.pixels
        ('joint', (8, 8, 1), 100)
    """
    method = method_named(name, schema)
    if is_linked(schema) != (method.name == _LINKED):
        what, cure = (
            ("linked tables", _LINKED) if is_linked(schema) else ("one table", AUTO)
        )
        raise OptionError(
            f"method={name!r}: the schema describes {what}; take method={cure!r}."
        )
    return (
        method(**settings) if is_linked(schema) else method.for_schema(schema, settings)
    )


def method_of(certificate: Certificate, *, seed: int | None = None) -> Method:
    """Returns the method, with its settings, that a certificate speaks of, or with another seed for the fit.

    An OptionError if there is none, or its queries were drawn from another seed; a ModelError for an unknown setting.
    """
    method, settings = (
        method_named(certificate.method),
        certificate.public.get("settings", {}),
    )
    if seed is not None and seed != settings.get("seed"):
        if not method.seeded_fit:
            raise OptionError(
                f"{said('seed', seed)}: the release was made with seed {settings.get('seed')}, and can "
                f"only be fitted with that; leave {said('seed')} out."
            )
        settings = {**settings, "seed": seed}
    return method.from_json(settings)


def list_methods() -> list[dict[str, str]]:
    """Returns the installed methods: the name of each, what it makes ("records" or "classifier"), and a summary.

    Examples:
        >>> from noisegate import list_methods
        >>> [method["summary"] for method in list_methods() if method["name"] == "dp-merf"]
        ['DP-MERF: mean embeddings by random Fourier features (Harder et al. 2021).']
    """
    found = {name: METHODS.find(name) for name in one_name_each("noisegate.methods")}
    return [
        {
            "name": name,
            "makes": method.makes,
            "summary": (inspect.getdoc(method) or "").partition("\n")[0],
        }
        for name, method in found.items()
    ]
