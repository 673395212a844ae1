"""What kinds of column between two bounds share.

Bounds are public knowledge: a value outside them is moved to the nearer bound when data
are read. The exception are *atoms*, single values that many records have: an atom
outside the bounds, such as 999 for unknown, is read and written as it is.

How numbers become positions in [0, 1] is in `noisegate.schema.layout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_column_name, checked_flag, set_fields

MAX_ATOMS = 32
"""Largest number of atoms of a column."""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A column of values between two public bounds: what all numeric kinds share.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value; smaller ones are moved to it, unless they are atoms.
        upper: Largest value, above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have, within the bounds or outside;
            stored in ascending order.
        format: How text writes the values; see `noisegate.schema.formats`.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        kind: Name of the kind in a schema file.
        checked_value: Returns a value in the type of this kind, or raises a
            `SchemaError`. It takes the column's name, what the value is called, and the
            value.
    """

    name: str
    lower: Any
    upper: Any
    missing: bool = False
    atoms: Any = ()
    format: str | None = None
    type: str | None = None

    kind: ClassVar[str]
    numeric: ClassVar[Literal[True]] = True
    checked_value: ClassVar[staticmethod[[str, str, Any], Any]]

    def __post_init__(self) -> None:
        name = checked_column_name(self.name)
        set_fields(
            self,
            name=name,
            lower=self.checked_value(name, "lower", self.lower),
            upper=self.checked_value(name, "upper", self.upper),
        )
        set_fields(
            self,
            missing=checked_flag(name, "missing", self.missing),
            atoms=self._checked_atoms(),
        )
        if self.format is not None:
            # Imported only here, as most schemas have no formats.
            import_module("noisegate.schema.formats").check_format(self)
        self._check()

    def _checked_atoms(self) -> tuple[Any, ...]:
        """Checks that the atoms are values of this kind, distinct, and not too many."""
        name = self.name
        is_text_or_mapping = isinstance(self.atoms, str | bytes | Mapping)
        if is_text_or_mapping or not isinstance(self.atoms, Iterable):
            raise SchemaError(
                f"column {name!r}: atoms must be a list of values, found {self.atoms!r}"
            )
        atoms = tuple(self.checked_value(name, "an atom", atom) for atom in self.atoms)
        if len(set(atoms)) < len(atoms):
            repeated = next(atom for atom in atoms if atoms.count(atom) > 1)
            raise SchemaError(
                f"column {name!r}: atom {repeated} is listed more than once; keep one"
            )
        if len(atoms) > MAX_ATOMS:
            raise SchemaError(
                f"column {name!r}: {len(atoms)} atoms, and at most {MAX_ATOMS} may be "
                "stated; keep those that most records have, or describe the column as "
                "ordinal"
            )
        return atoms

    def _check(self) -> None:
        """Checks the fields against each other, and puts the atoms in order."""
        if self.lower > self.upper:
            raise SchemaError(
                f"column {self.name!r}: lower = {self.lower} is above upper = "
                f"{self.upper}; swap them"
            )
        if self.lower == self.upper:
            raise SchemaError(
                f"column {self.name!r}: lower and upper are both {self.lower}, and a "
                "constant column carries nothing; widen the bounds, or drop the column "
                "from the schema and add it to `ignore`"
            )
        set_fields(self, atoms=tuple(sorted(self.atoms)))


def split_outer_atoms(
    atoms: tuple[Any, ...], lower: Any, upper: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the atoms below the lower bound, and those above the upper one."""
    below = tuple(atom for atom in atoms if atom < lower)
    above = tuple(atom for atom in atoms if atom > upper)
    return below, above
