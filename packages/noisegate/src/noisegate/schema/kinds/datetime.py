"""Columns of points in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_datetime
from noisegate.schema.kinds.stepped import Stepped

_EPOCH = datetime(1970, 1, 1)
_MICROSECONDS_PER_SECOND = 10**6


@dataclass(frozen=True, kw_only=True)
class Datetime(Stepped):
    """A column of points in time, to the microsecond.

    Attributes:
        name: Name of the column in the data.
        lower: First point in time, by public knowledge; stored in UTC if it has a time
            zone.
        upper: Last point in time, a whole number of steps after `lower`; with a time
            zone exactly if `lower` has one, as the data.
        missing: Whether a value may be absent.
        atoms: Single points in time that many records have; see `Continuous`.
        format: How text writes them, by fields such as `"%d.%m.%Y %H:%M"`; None for ISO
            text.
        type: Arrow type of the column; see `Continuous`.
        step: Seconds between two neighbouring values, such as 60; None for a
            microsecond.
        spelling: How text writes them, and synthetic text too, such as
            `"%Y-%m-%dT%H:%M:%S.%3fZ"`.

    Examples:
        >>> from datetime import datetime
        >>> from noisegate.schema import Datetime
        >>> first, last = datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 1)
        >>> Datetime(name="seen", lower=first, upper=last).unit_bounds
        (0, 60000000)
    """

    lower: datetime
    upper: datetime
    atoms: tuple[datetime, ...] = ()
    step: int | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["datetime"]] = "datetime"
    checked_value = staticmethod(checked_datetime)
    _unit: ClassVar[str] = "microseconds (2**53 are 285 years)"

    def _check(self) -> None:
        """Checks that bounds and atoms have a time zone all, or none."""
        # Before the bounds are compared, which Python refuses where one has a zone.
        if (self.lower.tzinfo is None) != (self.upper.tzinfo is None):
            raise SchemaError(
                f"column {self.name!r}: one of lower and upper has a time zone; give "
                "it to both or to neither"
            )
        if self.aware and self.format is not None:
            raise SchemaError(
                f"column {self.name!r}: moments with a time zone are read as ISO text; "
                "take format out"
            )
        for atom in self.atoms:
            if (atom.tzinfo is not None) != self.aware:
                raise SchemaError(
                    f"column {self.name!r}: atom {atom} must have a time zone exactly "
                    "if the bounds have one"
                )
        super()._check()

    @property
    def aware(self) -> bool:
        """Whether the values have a time zone; they are then stored in UTC."""
        return self.lower.tzinfo is not None

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in microseconds."""
        return 1 if self.step is None else self.step * _MICROSECONDS_PER_SECOND

    def to_units(self, value: datetime) -> int:
        """Returns the microseconds since 1970-01-01T00:00:00, in its own time zone."""
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
