"""Columns of calendar days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Literal

from noisegate.schema.checks import checked_date
from noisegate.schema.kinds.stepped import Stepped

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True)
class Date(Stepped):
    """A column of calendar days between a first and a last one.

    Attributes:
        name: Name of the column in the data.
        lower: First day, by public knowledge.
        upper: Last day, a whole number of steps after `lower`.
        missing: Whether a value may be absent.
        atoms: Single days that many records have; see `Continuous`.
        format: How text writes days, by fields such as `"%d.%m.%Y"`; None for ISO text.
        type: Arrow type of the column; see `Continuous`.
        step: Days between two neighbouring values, such as 7; None for 1.
        spelling: How text writes days, and synthetic text too; see `Datetime`.

    Examples:
        >>> from datetime import date
        >>> from noisegate.schema import Date
        >>> born = Date(name="born", lower=date(1970, 1, 1), upper=date(1970, 1, 31))
        >>> born.unit_bounds
        (0, 30)
    """

    lower: date
    upper: date
    atoms: tuple[date, ...] = ()
    step: int | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["date"]] = "date"
    checked_value = staticmethod(checked_date)

    def to_units(self, value: date) -> int:
        """Returns a day in days since 1970-01-01."""
        return value.toordinal() - _EPOCH_ORDINAL
