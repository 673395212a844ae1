"""Methods by name: those of the project, and those of other installed packages."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from noisegate import registry
from noisegate.errors import OptionError, said
from noisegate.methods.method import Method
from noisegate.privacy.certificate import Certificate
from noisegate.registry import Registry, one_name_each
from noisegate.schema import Schema
from noisegate.schema.schema import is_linked

# Annotations are text where a name is imported for type checkers alone.
if TYPE_CHECKING:
    from noisegate.schema.linked.schema import LinkedSchema

AUTO = "auto"
"""The name that chooses a method by public facts (docs/choosing.md)."""

_DEFAULT_FOR_TABLES = "pairwise"
_DEFAULT_FOR_IMAGES = "joint"
_DEFAULT_FOR_LINKED_TABLES = "linked"

METHODS: Registry[Method] = registry.METHODS
register = METHODS.register


def method_named(
    name: str,
    schema: "Schema | LinkedSchema | None" = None,
    *,
    makes: Literal["records", "classifier"] | None = None,
) -> type[Method]:
    """Returns the method with a name.

    Args:
        name: The name; "auto" for the default of the schema's records.
        schema: Public schema of the records; None for a table.
        makes: What the method must make; None for anything.

    Raises:
        OptionError: if there is no such method, or it makes something else.
    """
    # A name comes from users, and may be anything.
    if not isinstance(name, str):
        raise OptionError(
            f"method={name!r} must be the name of a method, such as 'pairwise'."
        )
    if name == AUTO:
        name = _default_for(schema)
    method = METHODS.find(name, AUTO)
    if makes not in (None, method.makes):
        raise OptionError(
            f"method={name!r} trains a classifier and makes no records; take "
            f"`noisegate fit --method {name}` for it (or, of dp-llm, "
            "noisegate.LocallyLinearMaps), or another method for records."
        )
    return method


def _default_for(schema: "Schema | LinkedSchema | None") -> str:
    """Returns the name of the default method for the records of a schema."""
    if is_linked(schema):
        return _DEFAULT_FOR_LINKED_TABLES
    if isinstance(schema, Schema) and schema.images is not None:
        return _DEFAULT_FOR_IMAGES
    return _DEFAULT_FOR_TABLES


def make_for(
    name: str, schema: "Schema | LinkedSchema", settings: Mapping[str, Any]
) -> Method:
    """Creates a method for the records of a schema.

    Args:
        name: Name of the method; "auto" for the default.
        schema: Public schema of the records. For images, settings that follow from it
            may be omitted.
        settings: Settings that differ from their defaults.

    Raises:
        OptionError: if there is no such method or setting, a value is unusable, or the
            method is for other records.

    Examples:
        >>> from noisegate.methods.registry import make_for
        >>> from noisegate.schema import pixel_schema
        >>> method = make_for("auto", pixel_schema(8, 8), {"pixels": 100})
        >>> method.name, method.image, method.pixels
        ('joint', (8, 8, 1), 100)
    """
    method = method_named(name, schema)
    is_for_linked_tables = method.name == _DEFAULT_FOR_LINKED_TABLES
    if isinstance(schema, Schema):
        if is_for_linked_tables:
            raise OptionError(
                f"method={name!r}: the schema describes one table; take "
                f"method={AUTO!r}."
            )
        return method.for_schema(schema, settings)
    if not is_for_linked_tables:
        raise OptionError(
            f"method={name!r}: the schema describes linked tables; take "
            f"method={_DEFAULT_FOR_LINKED_TABLES!r}."
        )
    return method(**settings)


def method_of(certificate: Certificate, *, seed: int | None = None) -> Method:
    """Returns the method that a certificate speaks of, with its settings.

    Args:
        certificate: The certificate of a release.
        seed: Another seed for the fit; None for that of the certificate.

    Raises:
        OptionError: if there is no such method, or its queries were drawn from another
            seed.
        ModelError: if a setting is unknown.
    """
    method = method_named(certificate.method)
    settings = certificate.public.get("settings", {})
    if seed is not None and seed != settings.get("seed"):
        if not method.seeded_fit:
            raise OptionError(
                f"{said('seed', seed)}: the release was made with seed "
                f"{settings.get('seed')}, and can only be fitted with that; leave "
                f"{said('seed')} out."
            )
        settings = {**settings, "seed": seed}
    return method.from_json(settings)


def list_methods() -> list[dict[str, str]]:
    """Lists the installed methods.

    Returns:
        For each method its "name", what it "makes" ("records" or "classifier"), and a
        "summary".

    Examples:
        >>> from noisegate import list_methods
        >>> methods = {method["name"]: method for method in list_methods()}
        >>> methods["dp-merf"]["summary"]
        'DP-MERF: mean embeddings by random Fourier features (Harder et al. 2021).'
    """
    methods = {name: METHODS.find(name) for name in one_name_each("noisegate.methods")}
    return [
        {
            "name": name,
            "makes": method.makes,
            "summary": (inspect.getdoc(method) or "").partition("\n")[0],
        }
        for name, method in methods.items()
    ]
