"""Private records of any kind: a table or images, by what the schema says and what the path holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from noisegate.data.tables.tables import Source, TableSource
from noisegate.data.units import UnitLimit
from noisegate.errors import OptionError
from noisegate.schema import Schema
from noisegate.schema.linked import LinkedSchema


def open_records(
    data: Any,
    schema: Schema | LinkedSchema,
    *,
    show_values: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Any:
    """Return private records as a gate holds them: a `Source`, see `open_source`, or `LinkedRecords`.

    Linked tables, which are read before any of them is summed, tell ``progress`` how many records were read so far.
    """
    if isinstance(schema, Schema):
        return open_source(data, schema, show_values=show_values, **options)
    from noisegate.data.link_rows import LinkedRecords
    from noisegate.data.linked import LinkedSource

    return LinkedRecords(tables=LinkedSource(data, schema, show_values=show_values, progress=progress))


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
        from noisegate.data.images.decode import ImageReadOptions
        from noisegate.data.images.images import ImageSource, find_images
        from noisegate.data.images.memory import memory_images

        unit = None if units is None else units.column
        options = ImageReadOptions(form=schema.images, unit_column=unit, show_values=show_values)
        in_file = isinstance(data, str | Path)
        found = find_images(Path(data), options) if in_file else memory_images(data, options)
        if found is not None:
            return ImageSource(data, schema, show_values=show_values, units=units, on_error=on_error, origins=found)
    if on_error != "refuse":
        raise OptionError(
            f"on_error={on_error!r}: only images can be skipped, and the data is a table; leave on_error out"
        )
    return TableSource(data, schema, show_values=show_values, units=units)
