"""Between the columns of a file and the coordinates that are measured of them.

::

    file            admission   discharge   weight   height   bmi
                        │            │         │        │
    measure             │   discharge - admission       │
                        ▼            ▼         ▼        ▼
    coordinates     admission       stay    weight   height

Relations are applied one after the other, each behind those that compute what it needs;
a column is computed by one relation alone, and none by way of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column
from noisegate.schema.relations.relation import Columns, Mask, Relation, Values


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a table with relations.

    Attributes:
        file_columns: The columns of the file, in order.
        relations: The relations, in any order.

    Raises:
        SchemaError: if a relation does not fit the columns, two compute one column, or
            a column is computed from itself.
    """

    file_columns: tuple[Column, ...]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        for relation in self.relations:
            relation.check(self._columns)
        owners: dict[str, Relation] = {}
        for relation in self.relations:
            for name in relation.dependent(self._columns):
                if name in owners:
                    raise SchemaError(
                        f"relations {owners[name]!s} and {relation!s}: both compute "
                        f"{name!r}; take one out"
                    )
                owners[name] = relation
        _ = self._ordered
        names = [column.name for column in self.columns]
        file_names = {column.name for column in self.file_columns}
        for relation in self.relations:
            for coordinate in relation.coordinates(self._columns):
                if coordinate.name in file_names or names.count(coordinate.name) > 1:
                    raise SchemaError(
                        f"relation {relation!s}: a column is called "
                        f"{coordinate.name!r} already; rename it"
                    )

    @cached_property
    def _columns(self) -> Columns:
        """The columns of the file, by name."""
        return {column.name: column for column in self.file_columns}

    @cached_property
    def dependent_names(self) -> frozenset[str]:
        """The columns that are not measured."""
        return frozenset(
            name
            for relation in self.relations
            for name in relation.dependent(self._columns)
        )

    @cached_property
    def related_names(self) -> frozenset[str]:
        """The columns that a relation names."""
        return frozenset(name for relation in self.relations for name in relation.names)

    @cached_property
    def computed_names(self) -> frozenset[str]:
        """The columns whose values a relation computes or changes."""
        return frozenset(
            name for relation in self.relations for name in relation.computed
        )

    @cached_property
    def _ordered(self) -> tuple[Relation, ...]:
        """The relations, each behind those that compute what it needs."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for index, relation in enumerate(self.relations):
            needed = set(relation.names) - set(relation.computed)
            before = [
                other
                for other, candidate in enumerate(self.relations)
                if other != index and needed & set(candidate.computed)
            ]
            sorter.add(index, *before)
        try:
            return tuple(self.relations[index] for index in sorter.static_order())
        except CycleError as error:
            circle = ", ".join(
                str(self.relations[index]) for index in error.args[1][1:]
            )
            raise SchemaError(
                f"relations {circle}: they compute columns from each other in a "
                "circle; take one out"
            ) from None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are measured, each coordinate where its column stood."""
        first_dependent: dict[str, Relation] = {}
        for relation in self.relations:
            dependent = relation.dependent(self._columns)
            if dependent:
                first_dependent[dependent[0]] = relation
        measured: list[Column] = []
        for column in self.file_columns:
            if column.name in first_dependent:
                relation = first_dependent[column.name]
                measured.extend(relation.coordinates(self._columns))
            elif column.name not in self.dependent_names:
                measured.append(column)
        return tuple(measured)

    def measure(self, values: Values) -> Values:
        """Computes the coordinates of records from their values in the file.

        Nothing is restored here: formulas, whose functions may round by a record's
        place, never see a record of the file (G-06).

        Args:
            values: The values of all columns that relations name; others may be left
                out, and are left out of the result then.
        """
        measured = dict(values)
        for relation in self.relations:
            measured |= relation.measure(values, self._columns)
        return {
            column.name: measured[column.name]
            for column in self.columns
            if column.name in measured
        }

    def restore(self, values: Values) -> Values:
        """Computes the columns of the file from the coordinates of records."""
        known = dict(values)
        for relation in self._ordered:
            known |= relation.restore(known, self._columns)
        return {column.name: known[column.name] for column in self.file_columns}

    def out_of_range(self, restored: Values) -> list[tuple[Relation, Mask]]:
        """Returns which restored records have a computed value that cannot be.

        Args:
            restored: What `restore` returned.

        Returns:
            The relations that compute one, each with its records, (records,).
        """
        out_of_range = []
        for relation in self._ordered:
            is_outside = relation.is_out_of_range(restored, self._columns)
            if is_outside is not None and np.any(is_outside):
                out_of_range.append((relation, is_outside))
        return out_of_range


def without_columns(
    relations: Sequence[Relation], names: frozenset[str]
) -> tuple[Relation, ...]:
    """Returns the relations that name none of some columns."""
    return tuple(
        relation for relation in relations if not names & frozenset(relation.names)
    )
