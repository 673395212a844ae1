"""What kinds of numeric column have in common: bounds, atoms and steps, checked at birth.

Beside the bounds a column may state its *atoms*: single values that many records have. One within the bounds, such as
zero, is a value like others that gets a cell of its own. One outside, such as -1 or 999, stands for something that is
no number of the scale (refused, unknown): it is read and written as it is, and no value between it and the bounds is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.values import column_name, flag, store, whole

MAX_STEPS = 2**53
"""Widest distance of two bounds, in steps, that a float64 in [0, 1] can tell apart."""

MOST_STATED = 32
"""Atoms of a column at most."""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Values between two public bounds; those outside are moved to the nearer bound, unless they are atoms."""

    name: str
    lower: Any
    upper: Any
    missing: bool = False
    atoms: Any = ()

    kind: ClassVar[str]
    numeric: ClassVar[Literal[True]] = True
    read: ClassVar[staticmethod[[str, str, Any], Any]]
    """Returns a value of this kind, by the name of the column and what the value is called in a `SchemaError`."""

    def __post_init__(self) -> None:
        name, read = column_name(self.name), self.read
        store(self, name=name, lower=read(name, "lower", self.lower), upper=read(name, "upper", self.upper))
        store(self, missing=flag(name, "missing", self.missing), atoms=self._read_atoms())
        self._check()

    def _read_atoms(self) -> tuple[Any, ...]:
        """Returns the atoms, each a value of this kind."""
        name, atoms = self.name, self.atoms
        if isinstance(atoms, str | bytes | Mapping) or not isinstance(atoms, Iterable):
            raise SchemaError(f"column {name!r}: atoms must be a list of values, found {atoms!r}")
        found = tuple(self.read(name, "an atom", atom) for atom in atoms)
        if len(set(found)) < len(found):
            repeated = next(atom for atom in found if found.count(atom) > 1)
            raise SchemaError(f"column {name!r}: atom {repeated} is listed more than once; keep one")
        if len(found) > MOST_STATED:
            raise SchemaError(
                f"column {name!r}: {len(found)} atoms, and at most {MOST_STATED} may be stated; keep those that most "
                "records have, or describe the column as ordinal"
            )
        return found

    def _check(self) -> None:
        """Requires bounds that are in order, and put the atoms in ascending order."""
        lower, upper = self.lower, self.upper
        if lower > upper:
            raise SchemaError(f"column {self.name!r}: lower = {lower} is above upper = {upper}; swap them")
        if lower == upper:
            raise SchemaError(
                f"column {self.name!r}: lower and upper are both {lower}, and a constant column carries nothing; "
                "widen the bounds, or drop the column from the schema and add it to `ignore`"
            )
        store(self, atoms=tuple(sorted(self.atoms)))


@dataclass(frozen=True, kw_only=True)
class Stepped(Bounded):
    """Values a whole number of steps above the lower bound, at most 2**53; others are moved to the nearest."""

    step: Any = None

    _unit: ClassVar[str] = "days"

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds as whole units: numbers, units of the last decimal, days or microseconds since 1970 (in UTC)."""
        return self.unit(self.lower), self.unit(self.upper)

    def unit(self, value: Any) -> int:
        """Returns a value as a whole number of units."""
        raise NotImplementedError

    @property
    def spacing(self) -> int:
        """Distance of two neighbouring values, in units."""
        return 1 if self.step is None else int(self.step)

    @property
    def scale(self) -> int:
        """How many units make a number of the column: 1 but for decimals."""
        return 1

    @cached_property
    def outer(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The atoms below the lower bound, and those above the upper one, in units."""
        return outer_atoms(tuple(self.unit(atom) for atom in self.atoms), *self.steps)

    @property
    def last(self) -> int:
        """The rank of the largest value, counted from 0 at the smallest, atoms outside the bounds included."""
        first, last = self.steps
        return (last - first) // self.spacing + sum(map(len, self.outer))

    def _check(self) -> None:
        super()._check()
        self._check_step()
        (first, last), spacing = self.steps, self.spacing
        if (last - first) // spacing > MAX_STEPS:
            raise SchemaError(
                f"column {self.name!r}: the bounds are {last - first} {self._unit} apart, more than the 2**53 = "
                f"{MAX_STEPS} that can be told apart; narrow them, or use a coarser kind "
                '("continuous", "date")'
            )
        if (last - first) % spacing:
            raise SchemaError(
                f"column {self.name!r}: upper = {self.upper} is not a whole number of steps of {self.step} above "
                f"lower = {self.lower}; move a bound outwards, or correct the step"
            )
        for atom in self.atoms:
            if first <= self.unit(atom) <= last and (self.unit(atom) - first) % spacing:
                raise SchemaError(
                    f"column {self.name!r}: atom {atom} lies within the bounds and is not a whole number of steps of "
                    f"{self.step} above lower = {self.lower}; correct it, or the step"
                )

    def _check_step(self) -> None:
        """Requires a step that is a positive whole number, if there is one."""
        if self.step is None:
            return
        store(self, step=whole(self.name, "step", self.step))
        if self.step < 1:
            raise SchemaError(f"column {self.name!r}: step = {self.step} must be 1 or more, or left out")


def outer_atoms(atoms: tuple[Any, ...], lower: Any, upper: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the atoms below the lower bound, and those above the upper one."""
    return tuple(atom for atom in atoms if atom < lower), tuple(atom for atom in atoms if atom > upper)


def outwards(lowest: float, highest: float, *, parts: int = 2, smallest: float = 0.0) -> tuple[float, float]:
    """Returns bounds around both values at round numbers, which say no more than they must.

    They are multiples of the largest power of ten of which ``parts`` fit between the values, at least ``smallest``.

    They stay on the side of zero on which the values are. Around one value alone there is room on both sides.
    """
    width = highest - lowest or max(abs(highest), 1.0)
    if highest == lowest:
        zero, half = highest == 0, width / 2
        lowest, highest = lowest - (0 if zero else half), highest + (width if zero else half)
    exponent = math.floor(math.log10(width / parts))
    if smallest:
        exponent = max(exponent, round(math.log10(smallest)))
    first, last = math.floor(lowest / 10.0**exponent), math.ceil(highest / 10.0**exponent)
    return float(f"{first}e{exponent}"), float(f"{last}e{exponent}")
