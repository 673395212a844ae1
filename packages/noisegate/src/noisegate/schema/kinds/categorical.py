"""Columns of levels without an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.kinds.coded import LevelColumn
from noisegate.schema.kinds.kind import Checks


def check_other(column: Categorical) -> None:
    """Checks that `other`, if any, is one of the levels."""
    if column.other is None:
        return
    # The types are compared too, as True equals the level 1.
    has_type_of_levels = type(column.other) is type(column.levels[0])
    if not has_type_of_levels or column.other not in column.levels:
        raise SchemaError(
            f"column {column.name!r}: other = {column.other!r} is not one of the "
            "levels; add it to levels"
        )


@dataclass(frozen=True, kw_only=True)
class Categorical(LevelColumn):
    """A column of levels without an order.

    Attributes:
        name: Name of the column in the data.
        levels: All levels that the column may have: all text, or all integers.
        other: The level that replaces every value that is not in `levels`; None refuses
            such values.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data and in samples; None for the type that
            `decode` returns.

    Examples:
        >>> from noisegate.schema import Categorical
        >>> levels = ("nurse", "teacher", "other")
        >>> Categorical(name="job", levels=levels, other="other").size
        3
    """

    name: str
    levels: tuple[str | int, ...]
    other: str | int | None = None
    missing: bool = False
    type: str | None = None

    kind: ClassVar[Literal["categorical"]] = "categorical"
    checks: ClassVar[Checks] = (*LevelColumn.checks, check_other)
    cell_cure: ClassVar[str] = (
        "add the level to the schema, or name one of the levels as `other`; levels "
        "must be public knowledge"
    )
