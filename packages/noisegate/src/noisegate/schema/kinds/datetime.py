"""Columns of points in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_datetime
from noisegate.schema.formats import CLOCK_FORMATS, TextFormats, write_times
from noisegate.schema.kinds.kind import Checks
from noisegate.schema.kinds.stepped import SteppedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Mask, Parsed

_EPOCH = datetime(1970, 1, 1)
_MICROSECONDS_PER_SECOND = 10**6


def check_time_zones(column: Datetime) -> None:
    """Checks that bounds and atoms have a time zone all, or none."""
    if (column.lower.tzinfo is None) != (column.upper.tzinfo is None):
        raise SchemaError(
            f"column {column.name!r}: one of lower and upper has a time zone; give "
            "it to both or to neither"
        )
    if column.aware and column.format is not None:
        raise SchemaError(
            f"column {column.name!r}: moments with a time zone are read as ISO text; "
            "take format out"
        )
    for atom in column.atoms:
        if (atom.tzinfo is not None) != column.aware:
            raise SchemaError(
                f"column {column.name!r}: atom {atom} must have a time zone exactly "
                "if the bounds have one"
            )


@dataclass(frozen=True, kw_only=True)
class Datetime(SteppedColumn):
    """A column of points in time, to the microsecond.

    Attributes:
        name: Name of the column in the data.
        lower: First point in time, by public knowledge. It is stored in UTC if it has a
            time zone.
        upper: Last point in time, a whole number of steps after `lower`. The bounds and
            the data all have a time zone, or none of them has one.
        missing: Whether a value may be absent.
        atoms: Single points in time that many records have; see `Continuous`.
        format: Format of the points in time in text, with fields such as `"%d.%m.%Y
            %H:%M"`; None for ISO text.
        type: Arrow type of the column; see `Continuous`.
        step: Seconds between two neighbouring values, such as 60; None for a
            microsecond.
        spelling: Notation of the points in time in text, read and written, such as
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
    # Time zones come first: Python compares no values of which one alone has a zone.
    checks: ClassVar[Checks] = (check_time_zones, *SteppedColumn.checks)
    is_temporal: ClassVar[bool] = True
    unit: ClassVar[str | None] = "microseconds since 1970-01-01"
    gaps_are_seconds: ClassVar[bool] = True
    units_text: ClassVar[str] = "microseconds (2**53 are 285 years)"
    numbers_per_gap: ClassVar[int] = _MICROSECONDS_PER_SECOND
    # Models of before have intervals for points in time, however few these are.
    has_cell_for_each_value: ClassVar[bool] = False
    formats: ClassVar[TextFormats] = CLOCK_FORMATS
    write_spelling = staticmethod(write_times)
    # A spelling may leave out the time of the day.
    spelling_tolerance: ClassVar[int] = 86_400 * _MICROSECONDS_PER_SECOND
    table_schema_type: ClassVar[str] = "datetime"
    croissant_type: ClassVar[str] = "sc:DateTime"

    @property
    def aware(self) -> bool:
        """Whether the values have a time zone; they are then stored in UTC."""
        return self.lower.tzinfo is not None

    @property
    def scale(self) -> str:
        """Name of the scale of the values. Values with and without time zone differ."""
        if self.aware:
            return "moments with a time zone"
        return "moments without a time zone"

    @property
    def expected_value(self) -> str:
        """Description of a valid cell, for messages."""
        if self.aware:
            return "a moment with a time zone, such as 2020-12-31T23:59:59Z"
        return "a moment such as 2020-12-31T23:59:59"

    def to_units(self, value: datetime) -> int:
        """Converts a time to microseconds since 1970-01-01, in its own time zone."""
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)

    def from_units(self, units: int) -> datetime:
        """Converts microseconds since 1970-01-01 to a point in time."""
        epoch = _EPOCH.replace(tzinfo=UTC) if self.aware else _EPOCH
        return epoch + timedelta(microseconds=units)

    def read_value(self, value: Any) -> datetime:
        """Returns a point in time from a point in time or its ISO text.

        Raises:
            SchemaError: if it is not a point in time, or has a time zone and the bounds
                have none, or the reverse.
        """
        timestamp: datetime = self.checked_value(self.name, "a value", value)
        if (timestamp.tzinfo is None) == self.aware:
            raise SchemaError(
                f"column {self.name!r}: a value has a time zone exactly if the bounds "
                f"have one, found {value!r}"
            )
        return timestamp

    def brief_text(self, number: float) -> str:
        """Returns the ISO text of the day of a number."""
        return self.from_units(round(number)).date().isoformat()

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses points in time as microseconds since 1970-01-01."""
        from noisegate.schema.parsing import parse_timestamps

        return parse_timestamps(cells, aware=self.aware)

    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns points in time as timestamp[us], in UTC if they have a time zone."""
        import pyarrow as pa

        timestamp_type = pa.timestamp("us", tz="UTC" if self.aware else None)
        return pa.array(numbers, mask=is_missing).cast(timestamp_type)
