"""Parts of a whole that add up to it: `100 = wine + beer + spirits`.

Queries are about the first part and, for each further part except the last, its share
of what the previous parts leave: numbers from 0 to 1, named "share of beer in the
rest". The last part is the remainder. So no part is negative, and the sum is exact.

A record whose parts do not add up counts with all parts except the last, as far as they
fit into the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column
from noisegate.schema.kinds.continuous import Continuous
from noisegate.schema.layout import bounds_of
from noisegate.schema.relations.expression import quoted
from noisegate.schema.relations.relation import (
    Columns,
    ColumnValues,
    Mask,
    Relation,
    Values,
    related_number,
)


@dataclass(frozen=True, kw_only=True)
class Parts(Relation):
    """A relation `whole = part + part + …`, with parts that are never negative.

    Attributes:
        whole: The sum, a number.
        parts: Names of the columns.

    Examples:
        >>> from noisegate.schema.relations.parts import Parts
        >>> str(Parts(whole=100, parts=("wine", "beer", "spirits")))
        '100 = wine + beer + spirits'
    """

    whole: float
    parts: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The parts."""
        return self.parts

    @property
    def computed(self) -> tuple[str, ...]:
        """All parts except the first."""
        return self.parts[1:]

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns all parts except the first."""
        return self.parts[1:]

    def __str__(self) -> str:
        return f"{self.whole:g} = {' + '.join(map(quoted, self.parts))}"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        return {"rule": str(self)}

    def check(self, columns: Columns) -> None:
        """Checks that the parts are non-negative and can add up to the whole."""
        if len(set(self.parts)) < max(2, len(self.parts)):
            raise SchemaError(f"relation {self!s}: name two parts or more, each once")
        if not self.whole > 0:
            raise SchemaError(f"relation {self!s}: the whole must be above 0")
        for name in self.parts:
            part: Any = related_number(columns, name, self)
            if (
                part.scale != "numbers"
                or bounds_of(part)[0] < 0
                or any(part.outer_atoms)
            ):
                raise SchemaError(
                    f"relation {self!s}: {name!r} must hold numbers from 0 on, without "
                    "atoms outside its bounds"
                )
            is_in_units = (self.whole * self._units_per_number(columns)).is_integer()
            if part.stepped and not is_in_units:
                raise SchemaError(
                    f"relation {self!s}: values of {name!r} never add up to {self.whole:g}"
                )
        may_be_missing = {columns[name].missing for name in self.parts}
        if len(may_be_missing) > 1:
            raise SchemaError(
                f"relation {self!s}: all parts are missing together, or none; set "
                "missing alike for all"
            )

    def _units_per_number(self, columns: Columns) -> float:
        """Returns how many units of the finest part make 1; 1 for real numbers."""
        scales = []
        for name in self.parts:
            part: Any = columns[name]
            scales.append(float(part.units_per_number) if part.stepped else 1.0)
        return max(scales)

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns a column of shares for each part except the first and the last."""
        return tuple(
            Continuous(
                name=_share_name(name),
                lower=0.0,
                upper=1.0,
                missing=columns[name].missing,
            )
            for name in self.parts[1:-1]
        )

    def _is_missing(self, values: Values) -> Mask:
        """Returns in which records a part is missing."""
        is_missing = values[self.parts[0]].is_missing.copy()
        for name in self.parts[1:]:
            is_missing |= values[name].is_missing
        return is_missing

    def measure(self, values: Values, columns: Columns) -> Values:
        """Computes the shares of the remainder; 0 if nothing remains."""
        is_missing = self._is_missing(values)
        rest = self.whole - np.asarray(values[self.parts[0]].numbers, dtype=np.float64)
        shares: dict[str, ColumnValues] = {}
        for name in self.parts[1:-1]:
            part = np.asarray(values[name].numbers, dtype=np.float64)
            has_rest = rest > 0
            share = np.clip(part / np.where(has_rest, rest, 1.0), 0.0, 1.0)
            share = np.where(has_rest, share, 0.0)
            shares[_share_name(name)] = ColumnValues(
                numbers=share, is_missing=is_missing
            )
            rest = rest - part
        return shares

    def restore(self, values: Values, columns: Columns) -> Values:
        """Computes all parts except the first, which queries are about.

        Each part is its share of the remainder, rounded to the values of its column.
        The last part is the final remainder. All parts are computed in whole units, so
        that the sum is exact.
        """
        scale = self._units_per_number(columns)
        first_part = values[self.parts[0]]
        is_missing = first_part.is_missing.copy()
        rest = self.whole * scale - self._in_units(first_part.numbers, scale)
        rest = np.maximum(rest, 0.0)
        restored: dict[str, ColumnValues] = {}
        for name in self.parts[1:-1]:
            share = values[_share_name(name)]
            is_missing |= share.is_missing
            part = _rounded_to_spacing(columns[name], share.numbers * rest, scale)
            part = np.minimum(part, rest)
            numbers = _as_numbers(columns[name], part, scale)
            restored[name] = ColumnValues(numbers=numbers, is_missing=is_missing)
            rest = rest - part
        last_name = self.parts[-1]
        numbers = _as_numbers(columns[last_name], rest, scale)
        restored[last_name] = ColumnValues(numbers=numbers, is_missing=is_missing)
        return restored

    @staticmethod
    def _in_units(numbers: npt.NDArray[Any], scale: float) -> npt.NDArray[np.float64]:
        """Returns numbers as counts of units; those of the last decimal are whole."""
        units = np.asarray(numbers, dtype=np.float64) * scale
        return np.rint(units) if scale > 1 else units

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns a mask of the records with a part outside its bounds."""
        first = values[self.parts[0]]
        is_outside = np.asarray(first.numbers > self.whole)
        for name in self.parts[1:]:
            lower, upper = bounds_of(columns[name])  # type: ignore[arg-type]
            numbers = values[name].numbers
            is_outside |= (numbers < lower) | (numbers > upper)
        return np.asarray(is_outside & ~first.is_missing)


def _share_name(part: str) -> str:
    """Returns the name of the coordinate of a part."""
    return f"share of {part} in the rest"


def _rounded_to_spacing(
    column: Any, units: npt.NDArray[np.float64], scale: float
) -> npt.NDArray[np.float64]:
    """Rounds units to the values of a part's column; real numbers stay as they are."""
    if not column.stepped:
        return units
    spacing = column.spacing * scale / column.units_per_number
    return np.asarray(np.rint(units / spacing) * spacing)


def _as_numbers(column: Any, units: npt.NDArray[Any], scale: float) -> npt.NDArray[Any]:
    """Converts units to numbers of a part's column."""
    numbers = units / scale
    if column.stepped and not column.fractional:
        return np.rint(numbers).astype(np.int64)
    return np.asarray(numbers)
