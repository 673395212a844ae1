"""Columns of real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from noisegate.schema.checks import checked_real
from noisegate.schema.kinds.bounded import Bounded, split_outer_atoms


@dataclass(frozen=True, kw_only=True)
class Continuous(Bounded):
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

    lower: float
    upper: float
    atoms: tuple[float, ...] = ()

    kind: ClassVar[Literal["continuous"]] = "continuous"
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
