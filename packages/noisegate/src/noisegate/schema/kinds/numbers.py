"""What kinds of plain numbers share, whether these are real or lie on steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import SchemaError
from noisegate.schema.kinds.bounded import BoundedColumn

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Mask, Parsed


class NumberColumn(BoundedColumn):
    """A column of plain numbers: with a fraction if `fractional`, else integers.

    It stands before `RealColumn` or `SteppedColumn` among the bases of a kind.

    Examples:
        >>> from noisegate.schema import Integer
        >>> Integer(name="age", lower=0, upper=99).read_value("7")
        7
    """

    scale: ClassVar[str] = "numbers"

    def read_value(self, value: Any) -> float:
        """Returns a number, or text of one."""
        number = value
        if isinstance(value, str):
            try:
                number = float(value) if self.fractional else int(value)
            except ValueError:
                raise SchemaError(
                    f"column {self.name!r}: a value must be {self.expected_value}, "
                    f"found {value!r}"
                ) from None
        checked: float = self.checked_value(self.name, "a value", number)
        return checked

    def brief_text(self, number: float) -> str | None:
        """Returns None: a number is shown as others are."""
        return None

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses numbers, as float64, or integers, as int64."""
        from noisegate.schema import parsing

        if self.fractional:
            return parsing.parse_floats(cells)
        return parsing.parse_integers(cells)

    def parse_quickly(
        self, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Parses numbers, if each text is one as it stands."""
        from noisegate.schema import parsing

        if self.fractional:
            return parsing.parse_plain_floats(texts, missing_markers)
        return parsing.parse_plain_integers(texts, missing_markers)

    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns numbers as they are, float64 or int64."""
        import pyarrow as pa

        return pa.array(numbers, mask=is_missing)
