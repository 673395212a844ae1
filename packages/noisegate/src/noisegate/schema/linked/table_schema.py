"""One of several linked tables: its columns, and how its records belong to others.

Children of one parent may have an order, by a column of numbers or dates. Then a child
is described by a distance in place of that column, so that dates never decrease::

    origin ──first──► child 1 ──gap──► child 2 ──gap──► child 3

The origin is a column of the parent, or the lower bound of the order. Distances are
counted in *ticks*, from 0 at that bound: ranks in a column of integers, decimals, dates
or moments, and the difference itself in a column of real numbers. Functions of ticks
stand at the end of this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.schema.checks import (
    checked_column_name,
    checked_integer,
    checked_real,
    set_fields,
)
from noisegate.schema.columns import NumericColumn
from noisegate.schema.kinds import Continuous, Integer
from noisegate.schema.layout import (
    Floats,
    bounds_of,
    numbers_at,
    positions_of,
    positions_of_ranks,
    ranks_at,
    ranks_of,
)
from noisegate.schema.schema import Schema

Orphans = Literal["refuse", "drop"]
Key: TypeAlias = str | Sequence[str] | None
"""The column that names a record, or several that do so together; or none."""
Ticks: TypeAlias = npt.NDArray[Any]
"""Distances in ticks: int64, or float64 for a column of real numbers."""

MAX_CHILDREN = 100_000
"""Largest ``most``: the children of a parent are sampled one after the other."""

# Names of tables, which are names of files too. A dot would end one in `table.column`.
_NAME = re.compile(r"\w[\w-]*")
_FIELDS_OF_A_CHILD = (
    "parent_key",
    "order",
    "since",
    "longest_gap",
    "most",
    "orphans",
)


@dataclass(frozen=True, kw_only=True)
class LinkedTable:
    """A table, and how it is linked to the table of its parents.

    Attributes:
        name: Letters, digits, _ and -. Synthetic tables are written to files of this
            name.
        schema: The columns that are read, without keys, which are never encoded.
        key: The column that names a record, or those that do so together. Needed where
            the table has children.
        parent: Name of the parents' table. None for the root table, whose records are
            the units of privacy, each with all that belongs to it.
        parent_key: The column with the key of a record's parent, or those, in the order
            of that key; None where they have the same names.
        order: The column of numbers, dates or moments that orders the children of a
            parent, or None.
        since: The parent's column that the first child's distance is counted from; None
            for the lower bound of `order`.
        longest_gap: The longest gap between two children that is distinguished from
            longer ones, in numbers, days or, for moments, seconds. None for the
            distance between the bounds of `order`.
        most: Up to how many children of one parent are counted; synthetic parents have
            no more.
        orphans: What is done with records whose parent is missing: "refuse" or "drop".

    Raises:
        SchemaError: if a field is unusable, or does not go with the others.

    Examples:
        >>> from noisegate.schema import Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedTable
        >>> day = Integer(name="day", lower=0, upper=999)
        >>> pain = Integer(name="pain", lower=0, upper=10)
        >>> visits = LinkedTable(
        ...     name="visits",
        ...     schema=Schema([day, pain]),
        ...     parent="patients",
        ...     parent_key="id",
        ...     order="day",
        ...     most=9,
        ... )
        >>> visits.child, visits.keys
        (True, ('id',))
    """

    name: str
    schema: Schema
    key: Key = None
    parent: str | None = None
    parent_key: Key = None
    order: str | None = None
    since: str | None = None
    longest_gap: float | None = None
    most: int | None = None
    orphans: Orphans = "refuse"

    def __post_init__(self) -> None:
        """Checks the fields, and brings them into their usual form."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise SchemaError(
                f"table {self.name!r}: the name of a table is also that of its file "
                "and stands before a dot; use letters, digits, _ and -"
            )
        try:
            self._check()
        except SchemaError as error:
            raise SchemaError(f"table {self.name!r}: {error}") from None

    @property
    def child(self) -> bool:
        """Whether the records have parents."""
        return self.parent is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of both keys, which are read and not encoded, each once."""
        return tuple(dict.fromkeys((*key_parts(self.parent_key), *key_parts(self.key))))

    def synthetic(self) -> Schema:
        """Returns the schema of synthetic records.

        Keys stand before the other columns, as whole numbers from 1 on. Ignored columns
        are left out.
        """
        names = dict.fromkeys((*key_parts(self.key), *key_parts(self.parent_key)))
        keys = [Integer(name=name, lower=1, upper=2**53) for name in names]
        return replace(self.schema, columns=(*keys, *self.schema.columns), ignore=())

    def _check(self) -> None:
        """Checks all fields but the name."""
        if not isinstance(self.schema, Schema) or self.schema.images is not None:
            raise SchemaError("expected a Schema of columns; images cannot be linked")
        if self.schema.file.header is False:
            raise SchemaError(
                "header = false, and nothing says where its keys stand; list all "
                "columns, with the keys, in the order of the file as `header`"
            )
        if self.schema.weights is not None:
            raise SchemaError(
                f"weights = {self.schema.weights!r}: weights are for single tables; "
                "remove the key, and the column is copied like any other"
            )
        for field in ("key", "parent_key"):
            set_fields(self, **{field: _checked_key(field, getattr(self, field))})
        for field in ("parent", "order", "since"):
            name = getattr(self, field)
            if name is not None:
                set_fields(self, **{field: checked_column_name(name)})
        if self.orphans not in get_args(Orphans):
            raise SchemaError(f'orphans = {self.orphans!r} must be "refuse" or "drop"')
        for name in self.keys:
            if name in self.schema.names:
                raise SchemaError(
                    f"{name!r} is a key and also a column; keys are made afresh, so "
                    "take it out of these"
                )
        if self.child:
            self._check_children()
            self._check_order()
            return
        for field in _FIELDS_OF_A_CHILD:
            if getattr(self, field) != _DEFAULTS[field]:
                raise SchemaError(
                    f"{field} is set, and it has no parent; set parent, or remove "
                    f"{field}"
                )

    def _check_children(self) -> None:
        """Checks the number of children, and that the key distinguishes children."""
        if self.most is None:
            raise SchemaError(
                "most is missing; state up to how many records of one parent are "
                "counted one by one, such as 30"
            )
        try:
            most = checked_integer("", "most", self.most)
        except SchemaError:
            raise SchemaError(f"most = {self.most!r} must be a whole number") from None
        if not 1 <= most <= MAX_CHILDREN:
            raise SchemaError(f"most = {most} must be from 1 to {MAX_CHILDREN:,}")
        set_fields(self, most=most)
        key_columns = set(key_parts(self.key))
        if self.key is not None and key_columns <= set(key_parts(self.parent_key)):
            raise SchemaError(
                f"key = {self.key!r} names a record by no more than its parent; name "
                "its own column too"
            )

    def _check_order(self) -> None:
        """Checks the column that orders children, and the fields that go with it."""
        if self.order is None:
            for field in ("since", "longest_gap"):
                if getattr(self, field) is not None:
                    raise SchemaError(
                        f"{field} is set without order; name the column that puts the "
                        "records in order"
                    )
            return
        check_order(self.schema.column(self.order), "order =")
        if self.order in self.schema.computed_names:
            raise SchemaError(
                f"order = {self.order!r} is computed by a relation, and follows from "
                "the gaps between records; write the relation under "
                f"[[tables.{self.name}.constraints]]"
            )
        if self.longest_gap is None:
            return
        try:
            longest_gap = checked_real("", "longest_gap", self.longest_gap)
        except SchemaError:
            longest_gap = 0.0
        if longest_gap <= 0:
            raise SchemaError(
                f"longest_gap = {self.longest_gap!r} must be a positive number"
            )
        set_fields(self, longest_gap=longest_gap)

    def form(self) -> dict[str, Any]:
        """Returns the fields beside name and schema, as schema files have them.

        Those at their default are left out.
        """
        changed_fields = {
            name: getattr(self, name)
            for name, default in _DEFAULTS.items()
            if getattr(self, name) != default
        }
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in changed_fields.items()
        }

    @classmethod
    def from_form(cls, name: str, form: Any, *, listed: bool = False) -> LinkedTable:
        """Reads a table of a schema file.

        Args:
            name: Name of the table.
            form: Its fields, and those of its schema.
            listed: Whether its columns are a list of objects, as in JSON, and not a
                table by name, as in TOML.

        Raises:
            SchemaError: if the table is not understood.
        """
        if not isinstance(form, Mapping):
            raise SchemaError(
                f"table {name!r}: expected [tables.{name}] with its columns, found "
                f"{form!r}"
            )
        own_fields = {key: value for key, value in form.items() if key in _DEFAULTS}
        schema_form = {
            key: value for key, value in form.items() if key not in own_fields
        }
        try:
            if listed:
                schema = Schema.from_json(schema_form)
            else:
                schema = Schema.from_form(schema_form, extra_keys=tuple(_DEFAULTS))
        except SchemaError as error:
            raise SchemaError(f"table {name!r}: {error}") from None
        return cls(name=name, schema=schema, **own_fields)


# The fields beside name and schema, with their defaults.
_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in fields(LinkedTable)
    if field.name not in ("name", "schema")
}


def key_parts(key: Key) -> tuple[str, ...]:
    """Returns the columns of a key, in their order; none where there is no key.

    Examples:
        >>> from noisegate.schema.linked.table_schema import key_parts
        >>> key_parts("id"), key_parts(["clinic", "id"]), key_parts(None)
        (('id',), ('clinic', 'id'), ())
    """
    if key is None:
        return ()
    if isinstance(key, str):
        return (key,)
    return tuple(key)


def _checked_key(field: str, key: Any) -> Key:
    """Checks the columns of a key.

    Args:
        field: The field of a table, for messages.
        key: A name, a list of names, or None.

    Returns:
        A name, several as a tuple, or None.
    """
    if key is None:
        return None
    if not isinstance(key, list | tuple):
        return checked_column_name(key)
    names = tuple(checked_column_name(name) for name in key)
    if len(set(names)) < len(names) or not names:
        raise SchemaError(
            f"{field} = {list(names)!r} must name one column or more, each once"
        )
    return names if len(names) > 1 else names[0]


# Ticks: distances between children.


def ticks_at(order: NumericColumn, positions: Floats) -> Ticks:
    """Returns how far encoded values lie above the lower bound, in ticks.

    Args:
        order: The column that orders children.
        positions: Its values as numbers from 0 to 1, none of them missing, (rows,).
    """
    if not order.stepped:
        return np.asarray(numbers_at(order, positions) - order.lower)
    return ranks_at(order, positions)


def positions_at(order: NumericColumn, ticks: Ticks) -> Floats:
    """Returns encoded values, from 0 to 1, at some ticks above the lower bound.

    Args:
        order: The column that orders children.
        ticks: Where the values lie. Those beyond the upper bound are moved to it.
    """
    if not order.stepped:
        return positions_of(order, order.lower + ticks)
    return positions_of_ranks(order, np.clip(ticks, 0, order.last_rank))


def origin_ticks(
    order: NumericColumn, since: NumericColumn, positions: Floats
) -> Ticks:
    """Returns where the origins of first children lie, in ticks of their order.

    Args:
        order: The column that orders children.
        since: The parent's column that distances are counted from.
        positions: Its encoded values, none of them missing, (rows,).

    Returns:
        The nearest ticks, from 0 to the last.
    """
    numbers = numbers_at(since, positions)
    if not order.stepped:
        return np.asarray(np.clip(numbers, order.lower, order.upper) - order.lower)
    return ranks_of(order, numbers)


def first_column(order: NumericColumn, name: str) -> NumericColumn:
    """Returns a column for distances of first children from their origins, in ticks.

    Args:
        order: The column that orders children.
        name: Name of the new column, which is missing for further children.
    """
    if not order.stepped:
        return Continuous(
            name=name, lower=0.0, upper=order.upper - order.lower, missing=True
        )
    return Integer(name=name, lower=0, upper=order.last_rank, missing=True)


def gap_column(
    order: NumericColumn, name: str, longest_gap: float | None
) -> NumericColumn:
    """Returns a column for gaps between a child and the one before, in ticks.

    Args:
        order: The column that orders children.
        name: Name of the new column, which is missing for first children.
        longest_gap: Upper bound, in numbers, days or seconds; None for the distance
            between the bounds of `order`.
    """
    if not order.stepped:
        longest = order.upper - order.lower
        if longest_gap is not None:
            longest = min(longest_gap, longest)
        return Continuous(name=name, lower=0.0, upper=longest, missing=True)
    last_tick = order.last_rank
    if longest_gap is not None:
        last_tick = min(math.ceil(longest_gap * ticks_per_unit(order)), last_tick)
    return Integer(name=name, lower=0, upper=last_tick, missing=True)


def check_order(order: Any, description: str) -> NumericColumn:
    """Requires a column that can order children: numeric, and never missing.

    Args:
        order: A column of any kind.
        description: What the column is, at the start of messages.

    Returns:
        The column.

    Raises:
        SchemaError: if it is of another kind, may be missing, or has atoms outside its
            bounds.
    """
    if not order.numeric:
        raise SchemaError(
            f"{description} {order.name!r} is {order.kind}; name a column of numbers, "
            "dates or moments"
        )
    if order.missing:
        raise SchemaError(
            f"{description} {order.name!r} may be missing in the schema; leave missing "
            "= true out there"
        )
    if any(order.outer_atoms):
        raise SchemaError(
            f"{description} {order.name!r} has atoms outside its bounds, which no gap "
            "leads to; remove them"
        )
    column: NumericColumn = order
    return column


def check_origin(order: NumericColumn, since: NumericColumn, where: str) -> None:
    """Requires that distances can be counted from one column to another.

    Args:
        order: The column that orders children.
        since: The parent's column that distances are counted from.
        where: The table, at the start of messages.

    Raises:
        SchemaError: if the kinds differ, `since` may be missing or has atoms outside
            its bounds, or all of it lies after all of `order`.
    """
    if order.scale != since.scale:
        raise SchemaError(
            f"{where}: since = {since.name!r} is {since.kind} and order = "
            f"{order.name!r} is {order.kind}; name columns of one kind, moments with "
            "or without a time zone both"
        )
    if since.missing or any(since.outer_atoms):
        raise SchemaError(
            f"{where}: since = {since.name!r} must be a column that is never missing "
            "and has no atoms outside its bounds; leave since out to count from the "
            "lower bound of order"
        )
    earliest_origin, _ = bounds_of(since)
    _, latest_child = bounds_of(order)
    if earliest_origin >= latest_child:
        raise SchemaError(
            f"{where}: since = {since.name!r} lies after all of order = "
            f"{order.name!r}; correct a bound"
        )


def ticks_per_unit(order: NumericColumn) -> float:
    """Returns how many ticks one unit of ``longest_gap`` has.

    A unit is a number, a day or, for moments, a second.
    """
    if not order.stepped:
        return 1.0
    return order.units_per_gap / order.spacing
