"""Relations of columns that are true, present or missing together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column
from noisegate.schema.constraints import read_region
from noisegate.schema.kinds.categorical import Categorical
from noisegate.schema.layout import Layout
from noisegate.schema.relations.relation import (
    Columns,
    ColumnValues,
    Mask,
    Relation,
    Values,
    related_column,
)


@dataclass(frozen=True, kw_only=True)
class OneOf(Relation):
    """A relation: exactly one of several columns of truth values is true.

    Queries are about a column of levels named "one of a, b, c", which states the column
    that is true. For a record with several true columns, it is the first of them; for a
    record with none, the last column.

    Attributes:
        columns: Names of the columns.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> from noisegate.schema.relations.states import OneOf
        >>> one = OneOf(columns=("bus", "car"))
        >>> columns = {name: Boolean(name=name) for name in ("bus", "car")}
        >>> one.coordinates(columns)[0].levels
        ('bus', 'car')
    """

    columns: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def computed(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns the columns."""
        return self.columns

    def __str__(self) -> str:
        return f"one of {', '.join(self.columns)}"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        return {"one_of": list(self.columns)}

    def check(self, columns: Columns) -> None:
        """Checks that there are two or more columns, all of truth values."""
        if len(set(self.columns)) < max(2, len(self.columns)):
            raise SchemaError(f"relation {self!s}: name two columns or more, each once")
        for name in self.columns:
            column = related_column(columns, name, self)
            if not self.takes(column):
                raise SchemaError(
                    f"relation {self!s}: column {name!r} is {column.kind}; expected "
                    "truth values, or the levels 0 and 1"
                )
        may_be_missing = {columns[name].missing for name in self.columns}
        if len(may_be_missing) > 1:
            raise SchemaError(
                f"relation {self!s}: all columns are missing together, or none; set "
                "missing alike for all"
            )

    @staticmethod
    def takes(column: Column) -> bool:
        """Returns whether a column has truth values, or the levels 0 and 1."""
        if column.numeric:
            return False
        is_zero_or_one = [str(level) for level in column.levels] == ["0", "1"]
        return column.is_truth_value or is_zero_or_one

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns the column of levels that states which column is true."""
        missing = columns[self.columns[0]].missing
        return (Categorical(name=str(self), levels=self.columns, missing=missing),)

    def measure(self, values: Values, columns: Columns) -> Values:
        """Computes which column is true."""
        last = len(self.columns) - 1
        record_count = len(values[self.columns[0]].numbers)
        codes = np.full(record_count, last)
        is_missing = np.ones(record_count, dtype=np.bool_)
        for index in range(last, -1, -1):
            column_values = values[self.columns[index]]
            is_true = ~column_values.is_missing & (column_values.numbers == 1)
            codes = np.where(is_true, index, codes)
            is_missing &= column_values.is_missing
        return {str(self): ColumnValues(numbers=codes, is_missing=is_missing)}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Computes the truth values: one column is true in each record."""
        choice = values[str(self)]
        return {
            name: ColumnValues(
                numbers=(choice.numbers == index).astype(np.int32),
                is_missing=choice.is_missing,
            )
            for index, name in enumerate(self.columns)
        }

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: one column is always true."""
        return None


@dataclass(frozen=True, kw_only=True)
class OnlyIf(Relation):
    """A relation: a column has a value only if other columns have certain values.

    Queries are about the column itself. In synthetic records it is missing wherever the
    condition does not hold. With `always`, a synthetic record that meets the condition
    and lacks a value takes the value of an earlier synthetic record.

    Attributes:
        column: Name of the column.
        condition: By column, its value or an interval, written as in `Impossible`.
        always: Whether the column has a value wherever the condition holds.

    Examples:
        >>> from noisegate.schema.relations.states import OnlyIf
        >>> str(OnlyIf(column="wage", condition={"job": "employed"}))
        'wage only if job = employed'
    """

    column: str
    condition: Mapping[str, Any] = field(hash=False)
    always: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The column and the columns of the condition."""
        return self.column, *self.condition

    @property
    def computed(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns no column: queries are about the column itself."""
        return ()

    def __str__(self) -> str:
        conditions = [f"{name} = {value}" for name, value in self.condition.items()]
        word = "exactly" if self.always else "only"
        return f"{self.column} {word} if {', '.join(conditions)}"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        key = "exactly_if" if self.always else "only_if"
        return {"column": self.column, key: dict(self.condition)}

    def check(self, columns: Columns) -> None:
        """Checks that the column may be missing, and that the condition can hold."""
        column = related_column(columns, self.column, self)
        if not column.missing:
            raise SchemaError(
                f"relation {self!s}: {self.column!r} is missing where the condition "
                "does not hold; set missing = true"
            )
        if not self.condition or self.column in self.condition:
            raise SchemaError(f"relation {self!s}: name other columns as conditions")
        for name, value in self.condition.items():
            related_column(columns, name, self)
            try:
                _condition(columns[name], value)
            except SchemaError as error:
                raise SchemaError(f"relation {self!s}: {error}") from None

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns no columns: queries are about the column itself."""
        return ()

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns no values."""
        return {}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Removes values where the condition fails; with `always`, fills the others."""
        column_values = values[self.column]
        fails = np.zeros(len(column_values.is_missing), dtype=np.bool_)
        for name, value in self.condition.items():
            source = values[name]
            low, high = _condition(columns[name], value)
            holds = (source.numbers >= low) & (source.numbers <= high)
            fails |= source.is_missing | ~holds
        if not self.always:
            return {
                self.column: ColumnValues(
                    numbers=column_values.numbers,
                    is_missing=column_values.is_missing | fails,
                )
            }
        return {
            self.column: ColumnValues(numbers=_filled(column_values), is_missing=fails)
        }

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: every value may be missing."""
        return None


def _condition(column: Any, value: Any) -> tuple[float, float]:
    """Reads the value of a condition; the first and last number or code that meet it.

    Raises:
        SchemaError: if the column can never have it.
    """
    is_numeric = column.numeric
    layout = Layout(
        numeric=(column,) if is_numeric else (), coded=() if is_numeric else (column,)
    )
    region = read_region({column.name: value}, layout, ())
    if not is_numeric:
        return region.codes[0], region.codes[0]
    span = region.spans[0]
    assert span is not None
    return span


@dataclass(frozen=True, kw_only=True)
class Together(Relation):
    """A relation: several columns are all missing, or none of them is.

    Queries are about the columns themselves. In a synthetic record, the first column
    determines whether all are missing. If they are not, another column that lacks a
    value takes the value of an earlier synthetic record.

    Attributes:
        columns: Names of the columns.

    Examples:
        >>> from noisegate.schema.relations.states import Together
        >>> str(Together(columns=("systolic", "diastolic")))
        'systolic, diastolic missing together'
    """

    columns: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def computed(self) -> tuple[str, ...]:
        """All columns except the first."""
        return self.columns[1:]

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns no column: queries are about the columns themselves."""
        return ()

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} missing together"

    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""
        return {"together": list(self.columns)}

    def check(self, columns: Columns) -> None:
        """Checks that there are two or more columns, all of which may be missing."""
        if len(set(self.columns)) < max(2, len(self.columns)):
            raise SchemaError(f"relation {self!s}: name two columns or more, each once")
        for name in self.columns:
            if not related_column(columns, name, self).missing:
                raise SchemaError(
                    f"relation {self!s}: {name!r} is never missing; set missing = true"
                )

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns no columns: queries are about the columns themselves."""
        return ()

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns no values."""
        return {}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Makes all columns missing where the first one is, and fills all others."""
        is_missing = values[self.columns[0]].is_missing
        return {
            name: ColumnValues(numbers=_filled(values[name]), is_missing=is_missing)
            for name in self.columns[1:]
        }

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: missing values are filled."""
        return None


def _filled(values: ColumnValues) -> Any:
    """Fills the missing numbers of a column with the last present number before them.

    Before the first present number, the next one is used. If none is present, the
    numbers are unchanged.
    """
    present_rows = np.flatnonzero(~values.is_missing)
    if not len(present_rows):
        return values.numbers
    rows = np.arange(len(values.numbers))
    last_present = np.searchsorted(present_rows, rows, side="right") - 1
    return values.numbers[present_rows[np.maximum(last_present, 0)]]
