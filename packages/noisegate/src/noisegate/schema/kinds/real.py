"""What kinds of column share whose values are real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from noisegate.schema.checks import checked_real
from noisegate.schema.kinds.bounded import BoundedColumn, split_outer_atoms


@dataclass(frozen=True, kw_only=True)
class RealColumn(BoundedColumn):
    """A column whose values fill the interval between two bounds.

    Values in the type of the kind are numbers: float64.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, atoms=[-1, 2]).outer_atoms
        ((-1.0,), ())
    """

    lower: float
    upper: float
    atoms: tuple[float, ...] = ()

    stepped: ClassVar[Literal[False]] = False
    fractional: ClassVar[bool] = True
    checked_value = staticmethod(checked_real)

    def _check(self) -> None:
        """Checks that the distance of the bounds is finite, too."""
        super()._check()
        # Two finite bounds may be an infinite distance apart.
        checked_real(self.name, "upper - lower", self.upper - self.lower)

    @cached_property
    def outer_atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Atoms below the lower bound, and those above the upper one."""
        return split_outer_atoms(self.atoms, self.lower, self.upper)

    def to_number(self, value: Any) -> float:
        """Returns the value itself."""
        return float(value)

    def value_of(self, number: float) -> Any:
        """Returns the number itself."""
        return number
