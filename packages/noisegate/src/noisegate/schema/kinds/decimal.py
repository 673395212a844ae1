"""Columns of numbers with a fixed number of decimals."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_real, set_fields
from noisegate.schema.kinds.bounded import NumberColumn, check_bounds
from noisegate.schema.kinds.kind import Checks
from noisegate.schema.kinds.stepped import SteppedColumn, check_whole_steps

# Beyond this many units of the last decimal, a float64 may be taken for its neighbour
# once it is multiplied by the scale.
_MAX_DECIMAL_UNITS = 2**50
# 10²² is the largest power of ten that float64 holds exactly.
_MAX_DECIMAL_DIGITS = 22


def check_decimal_step(column: Decimal) -> None:
    """Checks that the step is positive, and stores it as float64."""
    set_fields(column, step=checked_real(column.name, "step", column.step))
    if not column.step > 0:
        raise SchemaError(
            f"column {column.name!r}: step = {column.step:g} must be positive, the "
            "distance of two neighbouring values such as 0.01; where there is "
            'none, use kind = "continuous"'
        )


def check_digits(column: Decimal) -> None:
    """Checks that float64 distinguishes all values."""
    largest = max(abs(value) for value in (column.lower, column.upper, *column.atoms))
    if (
        column.digit_count > _MAX_DECIMAL_DIGITS
        or _shortest_decimal(largest) * column.power_of_ten > _MAX_DECIMAL_UNITS
    ):
        raise SchemaError(
            f"column {column.name!r}: {largest:g} has too many digits at a step of "
            f"{column.step:g} for its values to be distinguished; choose a larger "
            'step, or use kind = "continuous"'
        )


@dataclass(frozen=True, kw_only=True)
class Decimal(NumberColumn, SteppedColumn):
    """A column of numbers with a fixed number of decimals, such as amounts in cents.

    Other numbers are moved to the nearest value. Each value is the float64 nearest to
    its decimal number, so that it is written with exactly its decimals.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge.
        upper: Largest value, a whole number of steps above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have; see `Continuous`.
        format: Format of the numbers in text; see `Continuous`.
        type: Arrow type of the column; see `Continuous`.
        step: Distance between two neighbouring values, such as 0.01.
        limits: Texts that stand for a number beyond the bounds; see `Continuous`.

    Examples:
        >>> from noisegate.schema import Decimal
        >>> from noisegate.schema.layout import numbers_at, positions_of
        >>> price = Decimal(name="price", lower=0, upper=99.9, step=0.1)
        >>> numbers_at(price, positions_of(price, [0.3, 1.26])).tolist()
        [0.3, 1.3]
    """

    lower: float
    upper: float
    atoms: tuple[float, ...] = ()
    step: float = field()
    limits: tuple[str, ...] = ()

    kind: ClassVar[Literal["decimal"]] = "decimal"
    checked_value = staticmethod(checked_real)
    checks: ClassVar[Checks] = (
        check_bounds,
        check_decimal_step,
        check_digits,
        check_whole_steps,
    )
    fractional: ClassVar[bool] = True
    units_text: ClassVar[str] = "units of the last decimal"
    expected_value: ClassVar[str] = "a number"
    table_schema_type: ClassVar[str] = "number"
    croissant_type: ClassVar[str] = "sc:Float"

    @cached_property
    def digit_count(self) -> int:
        """Largest number of digits after the point among bounds, step and atoms."""
        exponents = [
            int(_shortest_decimal(value).normalize().as_tuple().exponent)
            for value in (self.lower, self.upper, self.step, *self.atoms)
        ]
        return max(0, -min(exponents))

    @property
    def power_of_ten(self) -> int:
        """Number of units in 1, such as 100 for cents."""
        return int(10**self.digit_count)

    def to_units(self, value: float) -> int:
        """Converts the shortest decimal form of a number to units, rounded."""
        return round(_shortest_decimal(value) * self.power_of_ten)

    def from_units(self, units: int) -> float:
        """Returns the float64 nearest to a number of units."""
        return units / self.power_of_ten


def _shortest_decimal(value: float) -> decimal.Decimal:
    """Returns the shortest decimal that is read as this float64: 0.1 is a tenth."""
    return decimal.Decimal(repr(value))
