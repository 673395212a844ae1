"""Columns of levels with an order."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from noisegate.schema.kinds.coded import LevelColumn


@dataclass(frozen=True, kw_only=True)
class Ordinal(LevelColumn):
    """A column of levels with an order, from least to most.

    Attributes:
        name: Name of the column in the data.
        levels: Every value that the column may hold, in order; all text or all
            integers.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too, such as
            `"dictionary"`; None for that of `decode`.

    Examples:
        >>> from noisegate.schema import Ordinal
        >>> Ordinal(name="pain", levels=("none", "some", "much"), missing=True).size
        4
    """

    name: str
    levels: tuple[str | int, ...]
    missing: bool = False
    type: str | None = None

    kind: ClassVar[Literal["ordinal"]] = "ordinal"
    ordered: ClassVar[bool] = True
    cell_cure: ClassVar[str] = (
        "add the level to the schema; levels must be public knowledge"
    )
