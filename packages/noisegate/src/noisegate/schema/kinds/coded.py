"""What kinds of column with levels share: a code for each level."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from noisegate.schema.checks import checked_column_name, checked_flag, set_fields
from noisegate.schema.kinds.kind import ColumnKind


class CodedColumn(ColumnKind):
    """A column with levels, which are encoded as codes.

    The code of a level is its index; that of a missing value is the number of levels.

    Attributes:
        levels: Every value that the column may hold.
        ordered: Whether the levels have an order.
        is_truth_value: Whether the levels are false and true.

    Examples:
        >>> from noisegate.schema import Boolean, CodedColumn
        >>> isinstance(Boolean(name="ill"), CodedColumn)
        True
    """

    levels: Any

    numeric: ClassVar[Literal[False]] = False
    ordered: ClassVar[bool] = False
    is_truth_value: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_fields(self, name=checked_column_name(self.name))
        self._check()
        set_fields(self, missing=checked_flag(self.name, "missing", self.missing))

    @abstractmethod
    def _check(self) -> None:
        """Checks the fields but `name` and `missing`, and stores them."""

    @property
    def size(self) -> int:
        """Number of codes: one for each level, and one for missing where allowed."""
        return len(self.levels) + self.missing

    @property
    def range_text(self) -> str:
        """How many levels there are, for cards."""
        return f"{len(self.levels)} levels"

    @abstractmethod
    def code_of(self, value: Any) -> int | None:
        """Returns the code of a value that somebody wrote in a condition, or None."""

    @property
    @abstractmethod
    def stated_texts(self) -> tuple[Any, ...]:
        """What the schema says that cells hold; none of it may stand for missing."""

    @property
    @abstractmethod
    def decoded_levels(self) -> tuple[Any, ...]:
        """What decoded cells hold for each level: text, integers or truth values."""
