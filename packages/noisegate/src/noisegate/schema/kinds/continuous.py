"""Columns of real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.schema.kinds.bounded import number_from_text
from noisegate.schema.kinds.real import RealColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed


@dataclass(frozen=True, kw_only=True)
class Continuous(RealColumn):
    """A column of real numbers between two bounds.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge; smaller ones are moved to it, unless
            they are atoms.
        upper: Largest value, above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have, such as 0, or 999 for unknown.
        format: How text writes the numbers, such as `"$#,##0.00"`; None for plain ones.
        type: Arrow type of the column in data, and in samples too, such as `"float"`;
            None for that of `decode`.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, atoms=[0, -1]).atoms
        (-1.0, 0.0)
    """

    kind: ClassVar[Literal["continuous"]] = "continuous"
    scale: ClassVar[str] = "numbers"
    grades_towards_zero: ClassVar[bool] = True
    expected_value: ClassVar[str] = "a number"
    table_schema_type: ClassVar[str] = "number"
    croissant_type: ClassVar[str] = "sc:Float"

    def read_value(self, value: Any) -> float:
        """Returns a number, or text of one."""
        number = number_from_text(self.name, value, fractional=True)
        return self.checked_value(self.name, "a value", number)

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses numbers, as float64."""
        from noisegate.schema.parsing import parse_floats

        return parse_floats(cells)

    def parse_quickly(
        self, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Parses numbers, if each text is one as it stands."""
        from noisegate.schema.parsing import parse_plain_floats

        return parse_plain_floats(texts, missing_markers)
