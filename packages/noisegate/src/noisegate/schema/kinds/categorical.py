"""Columns of levels without an order."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.kinds.coded import Coded


@dataclass(frozen=True, kw_only=True)
class Categorical(Coded):
    """A column of levels without an order.

    Attributes:
        name: Name of the column in the data.
        levels: Every value that the column may hold, all text or all integers.
        other: The level that stands for every value that is not listed; None to refuse
            such values.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.

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

    def _check(self) -> None:
        """Checks that `other` is one of the levels, too."""
        super()._check()
        if self.other is None:
            return
        # The types are compared too, as True equals the level 1.
        has_type_of_levels = type(self.other) is type(self.levels[0])
        if not has_type_of_levels or self.other not in self.levels:
            raise SchemaError(
                f"column {self.name!r}: other = {self.other!r} is not one of the "
                "levels; add it to levels"
            )
