"""Private records of any kind: a table or images, by what the schema says and what the path holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from noisegate.data.tables.tables import TableSource
from noisegate.data.units import UnitLimit
from noisegate.errors import OptionError
from noisegate.records import Rows
from noisegate.schema import Schema


class RecordSource(Protocol):
    """Private records that the gate reads, as often as it has rounds; `tables.Source` says what each method does.

    Attributes:
        schema: the schema that the records must fit.
        name: what messages call the source.
    """

    schema: Schema
    name: str

    def check(self) -> None:
        """Check all that can be checked without reading a record."""
        ...

    def batches(self) -> Iterator[Rows]:
        """Yield the records in order, in batches, in constant memory."""
        ...

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yield functions that encode some records each, to be called in any thread."""
        ...


def open_source(
    data: Any,
    schema: Schema,
    *,
    show_values: bool = False,
    units: UnitLimit | None = None,
    on_error: str = "refuse",
) -> RecordSource:
    """Return the private records in ``data``; nothing is read yet.

    Args:
        data: a path, or a table in memory. Where the schema describes images, the path may hold images, or a table with
            a column for each pixel.
        schema: the schema that the records must fit.
        show_values: whether messages may quote private values.
        units: whose record each one is, and how many of each are used; None to use all.
        on_error: "refuse", or "skip" to leave out images that cannot be used; see `ImageSource`.

    Raises:
        DataError: if there is nothing at the path, or it is of no known kind.
        OptionError: if ``on_error`` is unusable, or skips records of a table.
    """
    if schema.images is not None and isinstance(data, str | Path):
        from noisegate.data.images.decode import ImageReadOptions
        from noisegate.data.images.images import ImageSource, find_images

        unit = None if units is None else units.column
        options = ImageReadOptions(form=schema.images, unit_column=unit, show_values=show_values)
        found = find_images(Path(data), options)
        if found is not None:
            return ImageSource(data, schema, show_values=show_values, units=units, on_error=on_error, origins=found)
    if on_error != "refuse":
        raise OptionError(
            f"on_error={on_error!r}: only images can be skipped, and the data is a table; leave on_error out"
        )
    return TableSource(data, schema, show_values=show_values, units=units)
