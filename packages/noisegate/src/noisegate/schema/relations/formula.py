"""One column is computed from others: `bmi = weight / (height / 100) ** 2`.

No query is about the computed column. It is rounded to its own values: whole numbers
for integers, its decimals for decimals. A record of the file that breaks the formula
counts with its other columns only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column
from noisegate.schema.kinds.coded import CodedColumn
from noisegate.schema.layout import bounds_of, is_outer_atom, outer_atoms_of
from noisegate.schema.relations.expression import Expression, Floats, quoted
from noisegate.schema.relations.relation import (
    Columns,
    ColumnValues,
    Mask,
    Relation,
    Values,
    check_missing_follows,
    related_column,
    related_number,
)


@dataclass(frozen=True, kw_only=True)
class Formula(Relation):
    """A relation `name = expression` between numbers or dates.

    Attributes:
        name: The computed column.
        expression: The formula that computes it.

    Examples:
        >>> from noisegate.schema.relations.expression import Expression
        >>> from noisegate.schema.relations.formula import Formula
        >>> total = Formula(name="total", expression=Expression("a + b"))
        >>> str(total), total.computed
        ('total = a + b', ('total',))
    """

    name: str
    expression: Expression

    @property
    def names(self) -> tuple[str, ...]:
        """The computed column and the columns of the expression."""
        return self.name, *self.expression.names

    @property
    def computed(self) -> tuple[str, ...]:
        """The column that the formula computes."""
        return (self.name,)

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns the column that the formula computes."""
        return (self.name,)

    def __str__(self) -> str:
        return f"{quoted(self.name)} = {self.expression.text}"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        return {"rule": str(self)}

    def check(self, columns: Columns) -> None:
        """Checks that all columns are numbers or dates, and that there are others."""
        sources = self.expression.names
        if not sources:
            raise SchemaError(
                f"relation {self!s}: the formula names no column; where a column has "
                "one value only, take it out of the schema"
            )
        for name in self.names:
            related_number(columns, name, self)
        if self.name in sources:
            raise SchemaError(
                f"relation {self!s}: {self.name!r} is computed from itself; write the "
                "formula with other columns"
            )
        computed: Any = columns[self.name]
        if computed.limits:
            raise SchemaError(
                f"relation {self!s}: {self.name!r} has limits, which no formula gives; "
                "take the relation out, or the limits"
            )
        check_missing_follows(self, self.name, columns, sources)
        for source in sources:
            column: Any = columns[source]
            if outer_atoms_of(column) and not columns[self.name].missing:
                raise SchemaError(
                    f"relation {self!s}: {source!r} has atoms outside its bounds, of "
                    f"which nothing is computed; set missing = true for {self.name!r}"
                )

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns no columns: queries are about the columns of the expression."""
        return ()

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns no values."""
        return {}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Computes the column.

        It is missing where another column of the formula is missing, or an atom outside
        its bounds.
        """
        column: Any = columns[self.name]
        exact = self._exact_values(values, columns)
        is_missing = np.zeros(len(exact), dtype=np.bool_)
        for source in self.expression.names:
            source_column: Any = columns[source]
            source_values = values[source]
            is_missing |= source_values.is_missing
            is_missing |= is_outer_atom(source_column, source_values.numbers)
        numbers = rounded_numbers(column, np.where(np.isfinite(exact), exact, 0.0))
        if column.missing:
            is_missing |= ~np.isfinite(exact)
        return {self.name: ColumnValues(numbers=numbers, is_missing=is_missing)}

    def _exact_values(self, values: Values, columns: Columns) -> Floats:
        """Returns the value of the expression for each record, not rounded."""
        numbers = {
            source: formula_numbers(columns[source], values[source].numbers)
            for source in self.expression.names
        }
        return self.expression.value(numbers)

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns a mask of the records whose computed value is out of bounds."""
        column: Any = columns[self.name]
        computed = values[self.name]
        lower, upper = bounds_of(column)
        is_outside = (computed.numbers < lower) | (computed.numbers > upper)
        exact = self._exact_values(values, columns)
        return np.asarray((is_outside | ~np.isfinite(exact)) & ~computed.is_missing)


@dataclass(frozen=True, kw_only=True)
class Lookup(Relation):
    """A relation in which one column of levels determines another, as city and country.

    Attributes:
        name: The column that is determined.
        source: The column of levels that determines it.
        levels: The level of `name` for each level of `source`; None if the two columns
            have the same levels, and are equal.

    Examples:
        >>> from noisegate.schema.relations.formula import Lookup
        >>> countries = {"Paris": "France", "Rome": "Italy"}
        >>> str(Lookup(name="country", source="city", levels=countries))
        'country follows from city'
    """

    name: str
    source: str
    levels: dict[str, Any] | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.source))

    @property
    def names(self) -> tuple[str, ...]:
        """Both columns."""
        return self.name, self.source

    @property
    def computed(self) -> tuple[str, ...]:
        """The column that is determined."""
        return (self.name,)

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns the column that is determined."""
        return (self.name,)

    def __str__(self) -> str:
        if self.levels is None:
            return f"{quoted(self.name)} = {quoted(self.source)}"
        return f"{self.name} follows from {self.source}"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        if self.levels is None:
            return {"rule": str(self)}
        return {"column": self.name, "of": self.source, "levels": dict(self.levels)}

    def check(self, columns: Columns) -> None:
        """Checks that each level of the source has a level of the column."""
        for name in self.names:
            column = related_column(columns, name, self)
            if column.numeric:
                raise SchemaError(
                    f"relation {self!s}: column {name!r} is {column.kind}; expected "
                    "a column of levels"
                )
        if self.name == self.source:
            raise SchemaError(f"relation {self!s}: name two columns")
        check_missing_follows(self, self.name, columns, (self.source,))
        source: Any = columns[self.source]
        absent = [
            level for level in source.levels if self._code(columns, level) is None
        ]
        if absent:
            raise SchemaError(
                f"relation {self!s}: no level of {self.name!r} for {absent[0]!r} of "
                f"{self.source!r}; give one for each level"
            )

    def _code(self, columns: Columns, level: Any) -> int | None:
        """Returns the code of the column where the source has a level."""
        column: CodedColumn = columns[self.name]  # type: ignore[assignment]
        if self.levels is None:
            return column.code_of(level)
        text = _level_text(level)
        return column.code_of(self.levels[text]) if text in self.levels else None

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns no columns: queries are about the source."""
        return ()

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns no values."""
        return {}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Computes the levels of the determined column."""
        source_column: CodedColumn = columns[self.source]  # type: ignore[assignment]
        source = values[self.source]
        codes = np.array(
            [self._code(columns, level) or 0 for level in source_column.levels]
        )
        source_codes = np.where(source.is_missing, 0, source.numbers)
        return {
            self.name: ColumnValues(
                numbers=codes[source_codes], is_missing=source.is_missing
            )
        }

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: each level of the source determines a level."""
        return None


def _level_text(level: Any) -> str:
    """Returns a level as a key of a schema file: "true" for True."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def formula_numbers(column: Any, numbers: Any) -> Floats:
    """Returns numbers of a column as formulas have them: points in time in seconds."""
    scale = _units_per_formula_number(column)
    return np.asarray(numbers, dtype=np.float64) / scale


def rounded_numbers(column: Any, values: Floats) -> Any:
    """Rounds values of a formula to the nearest values of a column.

    They may lie outside its bounds.
    """
    if not column.stepped:
        return values
    first, _ = column.unit_bounds
    scale = column.units_per_number * _units_per_formula_number(column)
    largest = 2.0**62
    units = np.clip(values * scale, -largest, largest)
    steps = np.rint((units - first) / column.spacing).astype(np.int64)
    snapped = first + steps * column.spacing
    if column.fractional:
        return np.asarray(snapped / float(column.units_per_number))
    return np.asarray(snapped)


def _units_per_formula_number(column: Any) -> float:
    """Returns how many of a column's numbers make 1 in a formula.

    It is 10⁶ for points in time, which are in microseconds, and 1 for others.
    """
    if not column.stepped:
        return 1.0
    return float(column.units_per_gap // column.units_per_number)
