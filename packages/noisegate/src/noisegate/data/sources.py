"""Private records of any kind: a table or images, by what the schema says and what the path holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from noisegate.data.tables.tables import Source, TableSource
from noisegate.data.units import UnitLimit
from noisegate.errors import OptionError
from noisegate.registry import extension
from noisegate.schema import Schema


def reader(kind: str) -> Any:
    """Returns what opens records of a kind, by its entry point in the group `noisegate.readers`."""
    return extension("noisegate.readers", kind, f"what reads {kind}")


def open_records(
    data: Any,
    schema: Schema | Any,
    *,
    show_values: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Any:
    """Returns private records as a gate holds them: a `Source`, see `open_source`, or `LinkedRecords`."""
    if isinstance(schema, Schema):
        return open_source(data, schema, show_values=show_values, **options)
    return reader("linked")(data, schema, show_values=show_values, progress=progress)


def open_source(
    data: Any,
    schema: Schema,
    *,
    show_values: bool = False,
    units: UnitLimit | None = None,
    on_error: str = "refuse",
) -> Source[Any]:
    """Return the private records in ``data``; nothing is read yet.

    Args:
        data: a path, or a table in memory. Where the schema describes images, these, or a table with a column for each
            pixel.
        schema: the schema that the records must fit.
        show_values: whether messages may quote private values.
        units: whose record each one is, and how many of each are used; None to use all.
        on_error: "refuse", or "skip" to leave out images that cannot be used; see `ImageSource`.
    """
    if schema.images is not None:
        found = reader("images")(data, schema, show_values=show_values, units=units, on_error=on_error)
        if found is not None:
            return cast("Source[Any]", found)
    if on_error != "refuse":
        raise OptionError(
            f"on_error={on_error!r}: only images can be skipped, and the data is a table; leave on_error out"
        )
    return TableSource(data, schema, show_values=show_values, units=units)
