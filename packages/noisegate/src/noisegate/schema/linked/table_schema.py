"""One table of several that are linked: its columns, how its records belong to others, and the time between these.

Distances are counted in *ticks*, from 0 at the lower bound: ranks of a column of steps, or real differences.

The first child has its distance from an origin, a column of the parent or the lower
bound, and each further one its gap to the child before, so that dates never decrease. A
distance is counted in *ticks*, from 0 at the lower bound: ranks of a column of steps,
or the difference itself in a column of real numbers.
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
from noisegate.schema.layout import (
    Floats,
    bounds_of,
    numbers_at,
    positions_of,
    positions_of_ranks,
    ranks_at,
    ranks_of,
)
from noisegate.schema.numeric import (
    Continuous,
    Datetime,
    Decimal,
    Integer,
    NumericColumn,
)
from noisegate.schema.schema import Schema
from noisegate.schema.values import (
    checked_column_name,
    checked_integer,
    checked_real,
    set_fields,
)

Orphans = Literal["refuse", "drop"]
Key: TypeAlias = (
    str | Sequence[str] | None
)  # a column that names records, or several that do so together

MOST_CHILDREN = (
    100_000  # largest ``most``: a parent's children are sampled one after the other
)

_NAME = re.compile(
    r"\w[\w-]*"
)  # also of a file that holds the table; a dot would end the name in table.column
_CHILD = ("parent_key", "order", "since", "longest_gap", "most", "orphans")


@dataclass(frozen=True, kw_only=True)
class LinkedTable:
    """A table, and how it is linked to the table of its parents.

    Examples:
        >>> from noisegate.schema import Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedTable
        >>> schema = Schema([Integer(name="day", lower=0, upper=999), Integer(name="pain", lower=0, upper=10)])
        >>> LinkedTable(name="visits", schema=schema, parent="patients", parent_key="id", order="day", most=9).child
        True
    """

    name: str
    """Of letters, digits, _ and -; synthetic tables are written to files of this name."""
    schema: Schema
    """The columns that are read, without the keys, which are never encoded."""
    key: Key = None
    """The column that names each record, or those that do so together; needed where the table has children."""
    parent: str | None = None
    """Name of the table of the parents; None for the root table, whose records are the units of
    privacy, each with all that belongs to it."""
    parent_key: Key = None
    """The column, or columns, with the key of the record's parent, in the order of that; None for those called as
    there."""
    order: str | None = None
    """The column of numbers, dates or moments that puts the children of a parent in order, or None."""
    since: str | None = None
    """The parent's column that the first child's distance is counted from; None for ``order``'s lower bound."""
    longest_gap: float | None = None
    """The longest gap between two children that is told from longer ones: in numbers, days or, for moments, seconds;
    None for the distance of the bounds of ``order``."""
    most: int | None = None
    """How many children of one parent are told from more; synthetic parents have at most so many."""
    orphans: Orphans = "refuse"
    """What is done with records whose parent is not there: "refuse" them, or "drop" them."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            says = f"table {self.name!r}: the name of a table is also that of its file and stands before a dot"
            raise SchemaError(f"{says}; use letters, digits, _ and -")
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
        """The columns that are read and not encoded: those of the keys."""
        return tuple(dict.fromkeys((*key_parts(self.parent_key), *key_parts(self.key))))

    def synthetic(self) -> Schema:
        """Returns the schema of synthetic records: with keys, whole numbers from 1 on, before the other columns."""
        names = dict.fromkeys((*key_parts(self.key), *key_parts(self.parent_key)))
        keys = [Integer(name=name, lower=1, upper=2**53) for name in names]
        return replace(self.schema, columns=(*keys, *self.schema.columns), ignore=())

    def _check(self) -> None:
        if not isinstance(self.schema, Schema) or self.schema.images is not None:
            raise SchemaError("expected a Schema of columns; images cannot be linked")
        for key in ("key", "parent", "parent_key", "order", "since"):
            value = getattr(self, key)
            if isinstance(value, list | tuple) and key.endswith("key"):
                names = tuple(map(checked_column_name, value))
                if len(set(names)) < len(names) or not names:
                    raise SchemaError(
                        f"{key} = {list(names)!r} must name one column or more, each once"
                    )
                set_fields(self, **{key: names if len(names) > 1 else names[0]})
            elif value is not None:
                set_fields(self, **{key: checked_column_name(value)})
        if self.orphans not in get_args(Orphans):
            raise SchemaError(f'orphans = {self.orphans!r} must be "refuse" or "drop"')
        for name in self.keys:
            if name in self.schema.names:
                raise SchemaError(
                    f"{name!r} is a key and also a column; keys are made afresh, so take it out of these"
                )
        if self.child:
            self._check_child()
        else:
            set_here = [
                name for name in _CHILD if getattr(self, name) != _DEFAULTS[name]
            ]
            if set_here:
                raise SchemaError(
                    f"{set_here[0]} is set, and it has no parent; set parent, or remove {set_here[0]}"
                )

    def _check_child(self) -> None:
        if self.most is None:
            raise SchemaError(
                "most is missing; state how many records of one parent are told from more, such as 30"
            )
        try:
            set_fields(self, most=checked_integer("", "most", self.most))
        except SchemaError:
            raise SchemaError(f"most = {self.most!r} must be a whole number") from None
        if not 1 <= self.most <= MOST_CHILDREN:
            raise SchemaError(f"most = {self.most} must be from 1 to {MOST_CHILDREN:,}")
        if self.key is not None and set(key_parts(self.key)) <= set(
            key_parts(self.parent_key)
        ):
            raise SchemaError(
                f"key = {self.key!r} names a record by no more than its parent; name its own column too"
            )
        if self.order is not None:
            check_order(self.schema.column(self.order), "order =")
        for name in ("since", "longest_gap"):
            if self.order is None and getattr(self, name) is not None:
                raise SchemaError(
                    f"{name} is set without order; name the column that puts the records in order"
                )
        if self.longest_gap is not None:
            try:
                longest = checked_real("", "longest_gap", self.longest_gap)
            except SchemaError:
                longest = 0.0
            if longest <= 0:
                raise SchemaError(
                    f"longest_gap = {self.longest_gap!r} must be a positive number"
                )
            set_fields(self, longest_gap=longest)

    def form(self) -> dict[str, Any]:
        """Returns the fields beside the schema, as schema files hold them; those at their default are left out."""
        found = {
            name: getattr(self, name)
            for name in _DEFAULTS
            if getattr(self, name) != _DEFAULTS[name]
        }
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
        }

    @classmethod
    def from_form(cls, name: str, form: Any, *, listed: bool = False) -> LinkedTable:
        """Returns the table that ``form`` describes: the fields and the schema's, whose columns may be ``listed``."""
        if not isinstance(form, Mapping):
            raise SchemaError(
                f"table {name!r}: expected [tables.{name}] with its columns, found {form!r}"
            )
        own = {key: value for key, value in form.items() if key in _DEFAULTS}
        rest = {key: value for key, value in form.items() if key not in own}
        try:
            schema = (
                Schema.from_json(rest)
                if listed
                else Schema.from_form(rest, extra_keys=tuple(_DEFAULTS))
            )
        except SchemaError as error:
            raise SchemaError(f"table {name!r}: {error}") from None
        return cls(name=name, schema=schema, **own)


def key_parts(key: Key) -> tuple[str, ...]:
    """Returns the columns of a key."""
    return () if key is None else (key,) if isinstance(key, str) else tuple(key)


_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in fields(LinkedTable)
    if field.name not in ("name", "schema")
}


Ticks = npt.NDArray[Any]  # int64, or float64 for a column of real numbers


def ticks_at(order: NumericColumn, positions: Floats) -> Ticks:
    """Returns the ticks of encoded values of the column ``order``, none of them missing."""
    if isinstance(order, Continuous):
        return np.asarray(numbers_at(order, positions) - order.lower)
    return ranks_at(order, positions)


def positions_at(order: NumericColumn, ticks: Ticks) -> Floats:
    """Returns the positions in [0, 1] of ticks; those beyond the upper bound are moved to it."""
    if isinstance(order, Continuous):
        return positions_of(order, order.lower + ticks)
    return positions_of_ranks(order, np.clip(ticks, 0, order.last_rank))


def origin_ticks(
    order: NumericColumn, since: NumericColumn, positions: Floats
) -> Ticks:
    """Returns the ticks of ``order`` that encoded values of ``since`` stand at; at least 0, and the nearest ones."""
    numbers = numbers_at(since, positions)
    if isinstance(order, Continuous):
        return np.asarray(np.clip(numbers, order.lower, order.upper) - order.lower)
    return ranks_of(order, numbers)


def first_column(order: NumericColumn, name: str) -> NumericColumn:
    """Returns the column of the first child's distance from its origin; the others have none."""
    if isinstance(order, Continuous):
        return Continuous(
            name=name, lower=0.0, upper=order.upper - order.lower, missing=True
        )
    return Integer(name=name, lower=0, upper=order.last_rank, missing=True)


def gap_column(order: NumericColumn, name: str, longest: float | None) -> NumericColumn:
    """Returns the column of the gap to the child before, up to ``longest`` (numbers, days or seconds; None for all)."""
    if isinstance(order, Continuous):
        wide = order.upper - order.lower
        return Continuous(
            name=name,
            lower=0.0,
            upper=wide if longest is None else min(longest, wide),
            missing=True,
        )
    last = (
        order.last_rank
        if longest is None
        else min(math.ceil(longest * ticks_per_unit(order)), order.last_rank)
    )
    return Integer(name=name, lower=0, upper=last, missing=True)


def check_order(order: Any, what: str) -> NumericColumn:
    """Requires a column of numbers or dates that is never missing and has no atoms outside its bounds."""
    if not order.numeric:
        raise SchemaError(
            f"{what} {order.name!r} is {order.kind}; name a column of numbers, dates or moments"
        )
    if order.missing:
        raise SchemaError(
            f"{what} {order.name!r} may be missing in the schema; leave missing = true out there"
        )
    if any(order.outer_atoms):
        raise SchemaError(
            f"{what} {order.name!r} has atoms outside its bounds, which no gap leads to; remove them"
        )
    column: NumericColumn = order
    return column


def check_origin(order: NumericColumn, since: NumericColumn, where: str) -> None:
    """Requires that distances can be counted from ``since`` to ``order``: of one kind, with bounds that meet."""
    kinds = {
        (column.kind, isinstance(column, Datetime) and column.aware)
        for column in (order, since)
    }
    if len(kinds) > 1 and not all(
        isinstance(column, Continuous | Decimal | Integer) for column in (order, since)
    ):
        says = f"{where}: since = {since.name!r} is {since.kind} and order = {order.name!r} is {order.kind}"
        raise SchemaError(
            f"{says}; name columns of one kind, moments with or without a time zone both"
        )
    if since.missing or any(since.outer_atoms):
        raise SchemaError(
            f"{where}: since = {since.name!r} must be a column that is never missing and has no atoms outside its "
            "bounds; leave since out to count from the lower bound of order"
        )
    if bounds_of(since)[0] >= bounds_of(order)[1]:
        raise SchemaError(
            f"{where}: since = {since.name!r} lies after all of order = {order.name!r}; correct a bound"
        )


def ticks_per_unit(order: NumericColumn) -> float:
    """Returns how many ticks make one of what ``longest_gap`` counts: numbers, days or, for moments, seconds."""
    if isinstance(order, Continuous):
        return 1.0
    return (
        10**6 if isinstance(order, Datetime) else order.units_per_number
    ) / order.spacing
