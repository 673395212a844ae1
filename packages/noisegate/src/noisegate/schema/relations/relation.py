"""Interface of relations: what queries are about, and how columns are restored.

A relation is public knowledge that holds in every record, such as `discharge >=
admission`. It changes the columns that queries are about. For these two dates, queries
are about the first date and the number of days between the dates. The second date is
computed from both afterwards, so it can never precede the first.

A column that a relation computes, and that no query is about, is *dependent*. The
*coordinates* of a relation are the columns that queries are about in place of the
dependent ones; there may be none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """The values of one column in some records.

    Attributes:
        numbers: Numbers as `noisegate.schema.layout` has them, or codes of a column of
            levels; arbitrary where missing, (records,).
        is_missing: Which values are missing, (records,).
    """

    numbers: npt.NDArray[Any]
    is_missing: Mask


Values: TypeAlias = Mapping[str, ColumnValues]
"""The values of several columns, by name."""
Columns: TypeAlias = Mapping[str, Column]
"""The columns of a file, by name."""


class Relation(ABC):
    """A relation between the columns of one record.

    Queries are about the *coordinates* of a relation in place of its *dependent*
    columns, which are computed from the coordinates afterwards.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Expression, Formula, Integer
        >>> total = Formula(name="total", expression=Expression("a + b"))
        >>> columns = [Integer(name=name, lower=0, upper=9) for name in ("a", "b")]
        >>> columns.append(Integer(name="total", lower=0, upper=18))
        >>> Schema(columns, relations=(total,)).coordinates.names
        ('a', 'b')
    """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns of the file that the relation names."""

    @property
    @abstractmethod
    def computed(self) -> tuple[str, ...]:
        """The columns in `names` whose values the relation computes or changes."""

    @abstractmethod
    def __str__(self) -> str:
        """The relation as text, for messages and pages."""

    @abstractmethod
    def form(self) -> dict[str, Any]:
        """Returns the form of the relation in a schema file."""

    @abstractmethod
    def check(self, columns: Columns) -> None:
        """Checks that the columns exist, and that their kinds fit the relation.

        Raises:
            SchemaError: if not.
        """

    @abstractmethod
    def dependent(self, columns: Columns) -> tuple[str, ...]:
        """Returns the computed columns that no query is about."""

    @abstractmethod
    def coordinates(self, columns: Columns) -> tuple[Column, ...]:
        """Returns the columns that queries are about in place of the dependent ones."""

    @abstractmethod
    def measure(self, values: Values, columns: Columns) -> Values:
        """Computes the coordinates of records from their values in the file.

        The coordinates of a record depend on that record only, bit for bit. A record
        that breaks the relation gets the coordinates of a similar record that satisfies
        it.

        Args:
            values: At least the columns that the relation names.
            columns: The columns of the file.

        Returns:
            A value for each coordinate, by its name.
        """

    @abstractmethod
    def restore(self, values: Values, columns: Columns) -> Values:
        """Computes the columns in `computed` from all others.

        Args:
            values: The coordinates, and the columns of the file that are restored
                already.
            columns: The columns of the file.

        Returns:
            A value for each computed column, by its name.
        """

    @abstractmethod
    def is_out_of_range(self, values: Values, columns: Columns) -> Mask | None:
        """Finds restored records with a computed value that its column cannot have.

        Args:
            values: All columns of the file, restored.
            columns: The columns of the file.

        Returns:
            A mask of the records to draw again, (records,); None if there are none.
        """


def related_column(columns: Columns, name: str, relation: object) -> Column:
    """Returns the column that a relation names.

    Raises:
        SchemaError: if there is none.
    """
    if name not in columns:
        raise SchemaError(
            f"relation {relation!s}: no column {name!r} in the schema; its columns are "
            f"{', '.join(columns)}"
        )
    return columns[name]


def related_number(columns: Columns, name: str, relation: object) -> Any:
    """Returns the column that a relation names, and that must hold numbers or dates.

    Raises:
        SchemaError: if there is none, or it has levels.
    """
    column = related_column(columns, name, relation)
    if not column.numeric:
        raise SchemaError(
            f"relation {relation!s}: column {name!r} is {column.kind}; expected "
            "numbers, dates or points in time"
        )
    return column


def check_missing_follows(
    relation: object, name: str, columns: Columns, sources: tuple[str, ...]
) -> None:
    """Checks that a computed column may be missing where one of its sources is.

    Raises:
        SchemaError: if it may not.
    """
    if columns[name].missing:
        return
    for source in sources:
        if columns[source].missing:
            raise SchemaError(
                f"relation {relation!s}: {name!r} is missing where {source!r} is; set "
                f"missing = true for {name!r}, or take it out for {source!r}"
            )
