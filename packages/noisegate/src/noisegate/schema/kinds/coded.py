"""What kinds of column with levels share: a code for each level."""

from typing import Any, ClassVar, Literal

from noisegate.schema.checks import (
    checked_column_name,
    checked_flag,
    checked_levels,
    set_fields,
)


class Coded:
    """What columns with levels share: they are checked alike, and encoded as a code.

    The code of a level is its index; that of a missing value is the number of levels.
    """

    name: str
    levels: Any
    missing: bool
    type: Any
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        set_fields(self, name=checked_column_name(self.name))
        self._check()
        set_fields(self, missing=checked_flag(self.name, "missing", self.missing))

    def _check(self) -> None:
        """Checks the fields that not all of these kinds have, and stores them."""
        set_fields(self, levels=checked_levels(self.name, self.levels))

    @property
    def size(self) -> int:
        """Number of codes: one for each level, and one for missing where allowed."""
        return len(self.levels) + self.missing
