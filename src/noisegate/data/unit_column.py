"""The column that says whose record each one is: what may be wrong with it, before and while it is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from noisegate.data.units import UnitLimit, UnitTypeProblem, unit_names
from noisegate.errors import DataError, OptionError
from noisegate.schema import Schema


def check_unit_name(units: UnitLimit | None, schema: Schema) -> None:
    """Require that the schema does not describe the column of the units.

    Raises:
        OptionError: if it does.
    """
    if units is not None and units.column in schema.names:
        raise OptionError(
            f"unit_column={units.column!r} is described in the schema, so synthetic records would copy it; "
            "take it out of the schema. The data may have it all the same."
        )


def check_unit_column(column: str, found: Sequence[tuple[str, pa.DataType]], name: str) -> None:
    """Require the column once in the header of the data called ``name``, and of a type that tells units apart.

    Raises:
        DataError: if it is not so.
    """
    kinds = [kind for title, kind in found if title == column]
    if len(kinds) != 1:
        what = "is not in the data" if not kinds else "is in the data more than once"
        raise DataError(
            f"{name}: the unit column {column!r} {what}; name the column that says whose record each one is"
        )
    try:
        unit_names(pa.array([], kinds[0]))
        usable = True
    except UnitTypeProblem:
        usable = False
    if not usable:
        raise unit_type_error(column, name, kinds[0])


def unit_type_error(column: str, name: str, kind: pa.DataType) -> DataError:
    """Return the error for a unit column of a type that does not tell units apart, in the data called ``name``."""
    return DataError(
        f"{name}, column {column!r}: expected text or whole numbers that name the units, found a column of "
        f"{kind}, where one unit may be written in several ways; convert the column"
    )


def unit_error(column: str, place: str, *, missing: bool) -> DataError:
    """Return the error for one record; ``place`` is such as ``adult.csv, line 7``."""
    if not missing:
        return DataError(
            f"{place}, column {column!r}: numbers beyond 64 bits cannot be told from each other; write units as text"
        )
    return DataError(
        f"{place}, column {column!r}: it is missing whose record this is; fill it in, or leave such records out of the "
        "data"
    )
