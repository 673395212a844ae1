"""Columns of levels with an order."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from noisegate.schema.kinds.coded import LevelColumn


@dataclass(frozen=True, kw_only=True)
class Ordinal(LevelColumn):
    """A column of levels with an order, from lowest to highest.

    Attributes:
        name: Name of the column in the data.
        levels: All levels that the column may have, in order: all text, or all
            integers.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data and in samples, such as `"dictionary"`;
            None for the type that `decode` returns.

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
