"""Columns of calendar days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.schema.checks import checked_date
from noisegate.schema.formats import CLOCK_FORMATS, TextFormats, write_times
from noisegate.schema.kinds.stepped import SteppedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Mask, Parsed

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True)
class Date(SteppedColumn):
    """A column of calendar days between a first and a last one.

    Attributes:
        name: Name of the column in the data.
        lower: First day, by public knowledge.
        upper: Last day, a whole number of steps after `lower`.
        missing: Whether a value may be absent.
        atoms: Single days that many records have; see `Continuous`.
        format: Format of the days in text, with fields such as `"%d.%m.%Y"`; None for
            ISO text.
        type: Arrow type of the column; see `Continuous`.
        step: Days between two neighbouring values, such as 7; None for 1.
        spelling: Notation of days in text, read and written; see `Datetime`.

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
    is_temporal: ClassVar[bool] = True
    scale: ClassVar[str] = "dates"
    unit: ClassVar[str | None] = "days since 1970-01-01"
    units_text: ClassVar[str] = "days"
    formats: ClassVar[TextFormats] = CLOCK_FORMATS
    write_spelling = staticmethod(write_times)
    expected_value: ClassVar[str] = "a date such as 2020-12-31"
    table_schema_type: ClassVar[str] = "date"
    croissant_type: ClassVar[str] = "sc:Date"

    def to_units(self, value: date) -> int:
        """Converts a day to days since 1970-01-01."""
        return value.toordinal() - _EPOCH_ORDINAL

    def from_units(self, units: int) -> date:
        """Converts days since 1970-01-01 to a day."""
        return date.fromordinal(_EPOCH_ORDINAL + units)

    def read_value(self, value: Any) -> date:
        """Returns a day from a day or its ISO text."""
        return self.checked_value(self.name, "a value", value)

    def brief_text(self, number: float) -> str:
        """Returns the ISO text of the day with a number."""
        return self.from_units(round(number)).isoformat()

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses days as days since 1970-01-01."""
        from noisegate.schema.parsing import parse_dates

        return parse_dates(cells)

    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns days as date32."""
        import pyarrow as pa

        return pa.array(numbers.astype("int32"), mask=is_missing).cast(pa.date32())
