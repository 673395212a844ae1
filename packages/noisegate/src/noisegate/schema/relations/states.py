"""Relations of values that stand together, or that only some records have."""

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
    """Exactly one of several columns of truth values is true.

    Measured is which one: a column of levels, named "one of a, b, c". A record with
    none or several counts with the first that is true, or the last column.

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
        """The columns."""
        return self.columns

    def __str__(self) -> str:
        return f"one of {', '.join(self.columns)}"

    def form(self) -> dict[str, Any]:
        """Returns its form in a schema file."""
        return {"one_of": list(self.columns)}

    def check(self, columns: Columns) -> None:
        """Checks that there are two columns of truth values or more."""
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
        """Returns the column that says which one is true."""
        missing = columns[self.columns[0]].missing
        return (Categorical(name=str(self), levels=self.columns, missing=missing),)

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns which column is true."""
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
        """Returns the truth values: true for one column of each record."""
        choice = values[str(self)]
        return {
            name: ColumnValues(
                numbers=(choice.numbers == index).astype(np.int32),
                is_missing=choice.is_missing,
            )
            for index, name in enumerate(self.columns)
        }

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: one is always true."""
        return None


@dataclass(frozen=True, kw_only=True)
class OnlyIf(Relation):
    """A column has a value only if others have some values.

    The column is measured as it is, and missing in synthetic records wherever the
    condition does not hold. If it is never missing where the condition holds, a
    synthetic record that lacks it there takes the value of one before it.

    Attributes:
        column: Name of the column.
        condition: By column, its value or an interval, written as in `Impossible`.
        always: Whether it has a value wherever the condition holds.

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
        """The column and those of the condition."""
        return self.column, *self.condition

    @property
    def computed(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """No column: the column is measured, as far as it is there."""
        return ()

    def __str__(self) -> str:
        conditions = [f"{name} = {value}" for name, value in self.condition.items()]
        word = "exactly" if self.always else "only"
        return f"{self.column} {word} if {', '.join(conditions)}"

    def form(self) -> dict[str, Any]:
        """Returns its form in a schema file."""
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
        """Returns no columns: the column itself is measured."""
        return ()

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns no values."""
        return {}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Takes values away where the condition fails; lends some where it holds."""
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
    """Several columns are missing together, or none of them is.

    All are measured as they are. In a synthetic record, the first column says whether
    all are missing. Where another column lacks a value then, it takes that of a
    synthetic record before it.

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
        """All but the first."""
        return self.columns[1:]

    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """No column: all are measured."""
        return ()

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} missing together"

    def form(self) -> dict[str, Any]:
        """Returns its form in a schema file."""
        return {"together": list(self.columns)}

    def check(self, columns: Columns) -> None:
        """Checks that there are two columns or more, all of which may be missing."""
        if len(set(self.columns)) < max(2, len(self.columns)):
            raise SchemaError(f"relation {self!s}: name two columns or more, each once")
        for name in self.columns:
            if not related_column(columns, name, self).missing:
                raise SchemaError(
                    f"relation {self!s}: {name!r} is never missing; set missing = true"
                )

    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns no columns: the columns themselves are measured."""
        return ()

    def measure(self, values: Values, columns: Columns) -> Values:
        """Returns no values."""
        return {}

    def restore(self, values: Values, columns: Columns) -> Values:
        """Makes all columns missing where the first is, and no others."""
        is_missing = values[self.columns[0]].is_missing
        return {
            name: ColumnValues(numbers=_filled(values[name]), is_missing=is_missing)
            for name in self.columns[1:]
        }

    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Returns None: values are lent."""
        return None


def _filled(values: ColumnValues) -> Any:
    """Returns the numbers of a column, with the last present one where one is missing.

    Before the first that is present, the next one is taken; where none is, the numbers
    stay as they are.
    """
    present_rows = np.flatnonzero(~values.is_missing)
    if not len(present_rows):
        return values.numbers
    rows = np.arange(len(values.numbers))
    last_present = np.searchsorted(present_rows, rows, side="right") - 1
    return values.numbers[present_rows[np.maximum(last_present, 0)]]
