"""Opens private records of any kind: a table, images, or tables linked by keys.

Which kind it is follows from the schema, and for images also from what the path holds.
Opening reads nothing: a source is read when the gate asks for its batches.
"""

from collections.abc import Callable
from typing import Any, cast

from noisegate.errors import OptionError
from noisegate.registry import extension
from noisegate.schema import Schema
from noisegate.sources.tables.tables import Source, TableSource
from noisegate.sources.units import UnitLimit


def open_records(
    data: Any,
    schema: Schema | Any,
    *,
    show_values: bool = False,
    progress: Callable[[int], None] | None = None,
    units: UnitLimit | None = None,
    on_error: str = "refuse",
) -> Any:
    """Opens private records as the gate holds them, of one table or of linked ones.

    Args:
        data: A path or a table in memory; of linked tables a mapping from their names
            to such, or a folder with a file for each.
        schema: A `Schema`, or a `LinkedSchema`.
        show_values: Whether messages may quote values of records.
        progress: Called with the number of records read so far, of linked tables only:
            these are sorted into families before the gate sees a record.
        units: Whose record each one is, and how many of each are used; None to use
            every record. Not used for linked tables, whose units are the records of
            the first table.
        on_error: `refuse`, or `skip` to leave out images that cannot be used. Not used
            for linked tables.

    Returns:
        A `Source`, or a `LinkedSource`.
    """
    if isinstance(schema, Schema):
        return open_source(
            data, schema, show_values=show_values, units=units, on_error=on_error
        )
    # Imported here: few data sets are linked.
    from noisegate.sources.linked import open_linked

    return open_linked(data, schema, show_values=show_values, progress=progress)


def open_source(
    data: Any,
    schema: Schema,
    *,
    show_values: bool = False,
    units: UnitLimit | None = None,
    on_error: str = "refuse",
) -> Source[Any]:
    """Opens the private records of one table, or of a set of images.

    Args:
        data: A path or a table in memory; images also as a table of their pixels.
        schema: What is public of the records.
        show_values: Whether messages may quote values of records.
        units: Whose record each one is, and how many of each are used; None to use
            every record.
        on_error: `refuse`, or `skip` to leave out images that cannot be used.

    Raises:
        OptionError: if records of a table shall be skipped.
        MissingExtraError: if the package that reads images is not installed.
    """
    if schema.images is not None:
        # Another package reads images. It returns None for a table of pixels, which is
        # read as any other table.
        open_images = extension("noisegate.readers", "images", "what reads images")
        images = open_images(
            data, schema, show_values=show_values, units=units, on_error=on_error
        )
        if images is not None:
            return cast("Source[Any]", images)
    if on_error != "refuse":
        raise OptionError(
            f"on_error={on_error!r}: only images can be skipped, and the data is a "
            "table; leave on_error out"
        )
    return TableSource(data, schema, show_values=show_values, units=units)
