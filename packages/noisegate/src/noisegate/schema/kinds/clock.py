"""What kinds of days and points in time share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from noisegate.schema.formats import CLOCK_FORMATS, TextFormats, write_times
from noisegate.schema.kinds.stepped import SteppedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class ClockColumn(SteppedColumn):
    """A column of days or points in time.

    Attributes:
        spelling: How text writes them, and synthetic text too, by the fields of Arrow's
            `strftime`; None for ISO text.
    """

    spelling: str | None = None

    is_temporal: ClassVar[bool] = True
    formats: ClassVar[TextFormats] = CLOCK_FORMATS

    @property
    def has_own_text(self) -> bool:
        """Whether a spelling is stated."""
        return self.spelling is not None

    def write_text(self, cells: pa.Array) -> pa.Array:
        """Writes days or points in time by the spelling, or as ISO text."""
        return write_times(cells, self.spelling)
