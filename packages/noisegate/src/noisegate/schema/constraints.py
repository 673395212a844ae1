"""Constraints: what no record can say, by public knowledge. Synthetic records keep to them exactly.

Regions are the records that have given values in some columns: conditions and impossible combinations.

Private records that break one are counted as they are: a refusal would tell something
about them.

Regions: the records that have given values in some columns. Conditions and impossible
combinations are regions.

A value may be written as in Python, as in a schema file, or as text:

* levels and truth values as themselves, truth values also as text: "yes", "no", "true",
  "false", "1", "0";
* numbers, dates and moments as one value or as a closed interval: ``(18, 30)`` or
  ``"18..30"``; an end that is left out, ``(18, None)`` or ``"18.."``, is the bound of
  the schema;
* an atom outside the bounds as that one value: intervals hold numbers within the bounds
  only;
* missing as None, or as one of the schema's missing_values.
"""

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema.layout import (
    Layout,
    Span,
    bounds_of,
    is_outer_atom,
    numbers_at,
    outer_atoms_of,
    positions_of,
    ranks_within,
)
from noisegate.schema.numeric import Continuous, Date, Datetime, Decimal, NumericColumn
from noisegate.schema.values import TEXT_PADDING, Boolean, CodedColumn

_TRUTH = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}


@dataclass(frozen=True, kw_only=True)
class Region:
    """Records whose numbers lie in intervals and whose codes are given; columns that are not named are free.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Integer
        >>> from noisegate.testing import made_up
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> schema.region({"age": (18, None)}).contains(made_up(schema.layout, rows=2)).tolist()
        [False, True]
    """

    layout: Layout
    """The columns of the encoded records."""
    spans: Mapping[int, Span | None] = field(default_factory=dict)
    """By place among the numeric columns, an interval within the bounds, or None for missing."""
    codes: Mapping[int, int] = field(default_factory=dict)
    """By place among the coded columns, a code; the last one is missing where the column allows it."""

    def contains(self, records: Rows) -> npt.NDArray[np.bool_]:
        """Returns which records lie in the region once they are decoded, (rows,)."""
        inside = np.ones(len(records), dtype=np.bool_)
        for place, code in self.codes.items():
            inside &= records.codes[:, place] == code
        for place, span in self.spans.items():
            numbers, missing = decoded_numbers(records, self.layout, place)
            inside &= (
                missing
                if span is None
                else ~missing & (numbers >= span[0]) & (numbers <= span[1])
            )
        return inside


def decoded_numbers(
    records: Rows, layout: Layout, place: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Returns what a numeric column says once it is decoded, and where it is missing."""
    positions = records.numeric[:, place]
    missing = np.isnan(positions)
    return numbers_at(layout.numeric[place], np.where(missing, 0.0, positions)), missing


def read_region(
    values: Mapping[str, Any], layout: Layout, missing_values: Collection[str]
) -> Region:
    """Returns the region in which each named column has the given value."""
    spans: dict[int, Span | None] = {}
    codes: dict[int, int] = {}
    for name, value in values.items():
        column = layout.column(name)
        absent = value is None or (
            isinstance(value, str) and value.strip(TEXT_PADDING) in missing_values
        )
        if absent and not column.missing:
            raise SchemaError(
                f"column {name!r}: a value is never missing in this schema; give one"
            )
        if column.numeric:
            spans[layout.place(name)] = None if absent else _span(column, value)
        else:
            codes[layout.place(name)] = (
                column.size - 1 if absent else _code(column, value)
            )
    return Region(layout=layout, spans=spans, codes=codes)


def _code(column: CodedColumn, value: Any) -> int:
    truth = isinstance(value, bool | np.bool_)
    if isinstance(column, Boolean):
        code = (
            int(value)
            if truth
            else _TRUTH.get(value.strip().lower())
            if isinstance(value, str)
            else None
        )
    else:
        # As in data: a level may be written as text, and blanks around it do not count.
        text = None if truth else str(value).strip(TEXT_PADDING)
        code = next(
            (place for place, level in enumerate(column.levels) if str(level) == text),
            None,
        )
    if code is None:
        shown = ", ".join(repr(level) for level in column.levels[:20]) + (
            ", ..." if len(column.levels) > 20 else ""
        )
        raise SchemaError(
            f"column {column.name!r}: {value!r} is not one of its values; choose from {shown}"
        )
    return code


def _span(column: NumericColumn, value: Any) -> Span:
    if isinstance(value, str) and ".." in value:
        value = value.partition("..")[::2]
    ends = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(ends) != 2:
        raise SchemaError(
            f"column {column.name!r}: an interval has two ends, found {value!r}; write (low, high)"
        )
    lower, upper = bounds_of(column)
    low, high = (_number(column, end) for end in ends)
    if low == high and low in outer_atoms_of(column):
        return low, low
    start, stop = lower if low is None else low, upper if high is None else high
    if start > stop and None not in (low, high):
        raise SchemaError(
            f"column {column.name!r}: the interval {ends[0]} to {ends[1]} is empty; swap its ends"
        )
    if start > upper or stop < lower:
        raise SchemaError(
            f"column {column.name!r}: {'..'.join(dict.fromkeys('' if end is None else str(end) for end in ends))} lies "
            f"outside the schema's bounds {column.lower} to {column.upper}"
        )
    start, stop = max(start, lower), min(stop, upper)
    if not isinstance(column, Continuous):
        first, last = ranks_within(column, (start, stop))
        if first > last:
            raise SchemaError(
                f"column {column.name!r}: {value!r} is none of its values, which stand {column.step} apart from "
                f"{column.lower} on; choose one of them"
            )
    return start, stop


def _number(column: NumericColumn, end: Any) -> float | None:
    value: Any = end.strip() if isinstance(end, str) else end
    if value is None or value == "":
        return None
    if isinstance(value, str) and not isinstance(column, Date | Datetime):
        real = isinstance(column, Continuous | Decimal)
        try:
            value = float(value) if real else int(value)
        except ValueError:
            what = "a number" if real else "a whole number"
            raise SchemaError(
                f"column {column.name!r}: a value must be {what}, found {value!r}"
            ) from None
    value = column.checked_value(column.name, "a value", value)
    if isinstance(column, Datetime) and (value.tzinfo is None) == column.aware:
        raise SchemaError(
            f"column {column.name!r}: a value has a time zone exactly if the bounds have one, found {end!r}"
        )
    if isinstance(column, Decimal):
        return float(value)
    if not isinstance(column, Continuous):
        return column.to_units(value)
    if not column.lower <= value <= column.upper:
        return float(value)
    # The number as synthetic tables can hold it, so that the same value is found there again.
    return float(numbers_at(column, positions_of(column, np.asarray([value])))[0])


Relation: TypeAlias = Literal["<=", ">=", "<", ">"]
_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One column is never above (or below) another. Records in which either is missing keep to it.

    So do those in which either is an atom outside its bounds, which is not a number of the scale.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Comparison, Integer
        >>> rule = Comparison(left="low", relation="<=", right="high")
        >>> columns = [Integer(name=name, lower=0, upper=9) for name in ("low", "high")]
        >>> str(Schema(columns, constraints=(rule,)).constraints[0])
        'low <= high'
    """

    left: str
    """Name of a numeric column."""
    relation: Relation
    """One of <=, >=, <, >."""
    right: str
    """Name of another column, of the same sort: two of numbers, of dates, or of moments."""

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it names."""
        return self.left, self.right

    def form(self) -> dict[str, Any]:
        """Returns the plain form that schema files hold."""
        return {"rule": str(self)}

    def check(self, layout: Layout, missing_values: Collection[str]) -> None:
        """Requires that the columns can be compared and that the rule can hold within their bounds."""
        if self.relation not in get_args(Relation):
            raise SchemaError(
                f"constraint {self!s}: unknown relation {self.relation!r}; use <=, >=, < or >"
            )
        _comparison(str(self), [*layout.numeric_places, *layout.coded_places])
        left, right = (
            _numeric(layout, self.left, self),
            _numeric(layout, self.right, self),
        )
        if self.left == self.right:
            raise SchemaError(
                f"constraint {self!s}: a column is compared with itself; name two columns"
            )
        if _sort(left) != _sort(right):
            cure = "use columns of one sort"
            raise SchemaError(
                f"constraint {self!s}: {_sort(left)} cannot be compared with {_sort(right)}; {cure}"
            )
        lowest, highest = (
            (left.lower, right.upper)
            if self.relation in ("<=", "<")
            else (left.upper, right.lower)
        )
        if not _HOLDS[self.relation](lowest, highest):
            raise SchemaError(
                f"constraint {self!s}: no values within the bounds keep to it; correct it or the bounds"
            )

    def broken(
        self, records: Rows, layout: Layout, missing_values: Collection[str]
    ) -> npt.NDArray[np.bool_]:
        """Returns which records break the rule once they are decoded, (rows,)."""
        places = [layout.place(name) for name in self.names]
        (left, gone), (right, away) = (
            decoded_numbers(records, layout, place) for place in places
        )
        first, second = (layout.numeric[place] for place in places)
        free = gone | away | is_outer_atom(first, left) | is_outer_atom(second, right)
        return np.asarray(~free & ~_HOLDS[self.relation](left, right))


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """Values that never stand together in one record.

    Examples:
        >>> from noisegate.schema import Impossible
        >>> Impossible(values={"sex": "Male", "pregnant": True}).names
        ('sex', 'pregnant')
    """

    values: Mapping[str, Any] = field(hash=False)
    """By column, a level, a number or an interval such as "18..30"; how else they may be written says
    `noisegate.schema.constraints`. Dates and intervals become text."""

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping) or not self.values:
            raise SchemaError(
                f'impossible = {self.values!r}: name one column or more, as in impossible = {{ sex = "Male" }}'
            )
        object.__setattr__(
            self,
            "values",
            {str(name): _plain(value) for name, value in self.values.items()},
        )

    def __str__(self) -> str:
        return "impossible: " + ", ".join(
            f"{name} = {value}" for name, value in self.values.items()
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it names."""
        return tuple(self.values)

    def form(self) -> dict[str, Any]:
        """Returns the plain form that schema files hold."""
        return {"impossible": dict(self.values)}

    def check(self, layout: Layout, missing_values: Collection[str]) -> None:
        """Requires that the schema knows every column and value."""
        try:
            read_region(self.values, layout, missing_values)
        except SchemaError as error:
            raise SchemaError(f"constraint {self!s}: {error}") from None

    def broken(
        self, records: Rows, layout: Layout, missing_values: Collection[str]
    ) -> npt.NDArray[np.bool_]:
        """Returns which records show the combination once they are decoded, (rows,)."""
        return read_region(self.values, layout, missing_values).contains(records)


Constraint: TypeAlias = Comparison | Impossible
"""Any constraint of a schema."""


def constraint_from_form(form: Any, names: Collection[str]) -> Constraint:
    """Returns the constraint that a table of a schema file describes, about columns called ``names``."""
    match form:
        case {"rule": str(rule), **rest} if not rest:
            return _comparison(rule, names)
        case {"impossible": Mapping() as values, **rest} if not rest:
            return Impossible(values=values)
    raise SchemaError(
        f'constraint {form!r}: write rule = "start <= end", or impossible = {{ column = "level", other = "18..30" }}, '
        "each under its own [[constraints]]"
    )


def _comparison(rule: str, names: Collection[str]) -> Comparison:
    """Returns the rule; columns are looked up, so that names with blanks or signs in them need no quotes."""
    readings = []
    for relation in get_args(Relation):
        parts = rule.split(relation)
        for cut in range(1, len(parts)):
            left, right = (
                relation.join(parts[:cut]).strip(),
                relation.join(parts[cut:]).strip(),
            )
            if left in names and right in names:
                readings.append(Comparison(left=left, relation=relation, right=right))
    if not readings:
        cure = f"the columns are {', '.join(names)}"
        raise SchemaError(
            f"constraint {rule!r}: expected two columns with <=, >=, < or > between them; {cure}"
        )
    if len(readings) > 1:
        raise SchemaError(
            f"constraint {rule!r} can be read in {len(readings)} ways; rename a column that has a sign"
        )
    return readings[0]


def _numeric(layout: Layout, name: str, rule: Comparison) -> NumericColumn:
    column = layout.column(name)
    if not column.numeric:
        raise SchemaError(
            f"constraint {rule!s}: column {name!r} is {column.kind}; only numbers and dates are compared"
        )
    return column


def _sort(column: NumericColumn) -> str:
    if isinstance(column, Datetime):
        return (
            "moments with a time zone"
            if column.aware
            else "moments without a time zone"
        )
    return "dates" if isinstance(column, Date) else "numbers"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return "..".join("" if end is None else str(_plain(end)) for end in value)
    if value is None:
        raise SchemaError(
            "impossible: write one of the missing_values for a value that is missing"
        )
    if isinstance(value, np.generic):
        value = value.item()
    return value.isoformat() if isinstance(value, date) else value
