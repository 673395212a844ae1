"""Columns of real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from noisegate.schema.kinds.bounded import NumberColumn, RealColumn


@dataclass(frozen=True, kw_only=True)
class Continuous(NumberColumn, RealColumn):
    """A column of real numbers between two bounds.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value, by public knowledge. Smaller values are moved to it,
            unless they are atoms.
        upper: Largest value, above `lower`. Larger values are moved to it, unless they
            are atoms.
        missing: Whether a value may be absent.
        atoms: Single values that many records have (point masses), such as 0, or 999
            for unknown. They may lie outside the bounds.
        format: Format of the numbers in text, such as `"$#,##0.00"`; None for plain
            numbers.
        type: Arrow type of the column in data and in samples, such as `"float"`; None
            for the type that `decode` returns.
        limits: Texts of cells that stand for a number below or above the range of
            measurement, such as "<0.5", "90+" or "n.d.". Each is a separate
            value, not a number. Samples of a column with limits are text.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, atoms=[0, -1]).atoms
        (-1.0, 0.0)
    """

    limits: tuple[str, ...] = ()

    kind: ClassVar[Literal["continuous"]] = "continuous"
    grades_towards_zero: ClassVar[bool] = True
    expected_value: ClassVar[str] = "a number"
    table_schema_type: ClassVar[str] = "number"
    croissant_type: ClassVar[str] = "sc:Float"
