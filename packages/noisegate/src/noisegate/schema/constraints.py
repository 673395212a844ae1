"""Constraints: what no record can hold, by public knowledge.

Synthetic records keep to all constraints of their schema exactly. Private records that
break one are counted as they are: to refuse them would tell something about them.

There are two kinds: a `Comparison` orders two columns, as in `admitted <= discharged`;
an `Impossible` combination excludes values that never stand together. The latter, and
the conditions under which records are sampled, are regions: a `Region` holds the
records that have given values in some columns.

A value of a region may be written as in Python, as in a schema file, or as text:

* a level or truth value as itself, a truth value also as "yes", "no", "true", "false",
  "1" or "0";
* a number, date or point in time as one value, or as a closed interval: ``(18, 30)`` or
  ``"18..30"``. An end that is left out, as in ``(18, None)`` or ``"18.."``, is the
  bound of the schema;
* an atom outside the bounds as that one value, and a limit as its text: intervals hold
  numbers within the bounds only;
* missing as None, or as one of the schema's missing_values;
* in a condition of sampling, any value but a missing one as the text "is not missing".
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import NumericColumn
from noisegate.schema.kinds.coded import CodedColumn
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

NOT_MISSING = "is not missing"
"""The text that stands for any value of a column but a missing one."""

# Levels that a message lists.
_MAX_LISTED_LEVELS = 20


@dataclass(frozen=True, kw_only=True)
class Region:
    """The set of records with given values in some columns; other columns are free.

    Attributes:
        layout: The columns of the encoded records.
        spans: By index of a numeric column, a closed interval of numbers, or None for a
            missing value.
        codes: By index of a column of levels, a code. In a column that allows missing
            values, the last code is the missing value.
        present: Indices of columns in which no value is missing, numeric ones first.
        beyond: Further conditions, on columns that are computed from others; None for
            no condition.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Integer
        >>> from noisegate.testing import made_up
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> adults = schema.region({"age": (18, None)})
        >>> adults.contains(made_up(schema.layout, rows=2)).tolist()
        [False, True]
    """

    layout: Layout
    spans: Mapping[int, Span | None] = field(default_factory=dict)
    codes: Mapping[int, int] = field(default_factory=dict)
    present: frozenset[int] = frozenset()
    beyond: Callable[[Rows], npt.NDArray[np.bool_]] | None = None

    def contains(self, records: Rows) -> npt.NDArray[np.bool_]:
        """Returns a mask of the records in the region when decoded, (records,)."""
        is_inside = np.ones(len(records), dtype=np.bool_)
        for index, code in self.codes.items():
            is_inside &= records.codes[:, index] == code
        numeric_count = len(self.layout.numeric)
        for index in self.present:
            if index < numeric_count:
                is_inside &= ~np.isnan(records.numeric[:, index])
            else:
                coded_index = index - numeric_count
                missing_code = self.layout.coded[coded_index].size - 1
                is_inside &= records.codes[:, coded_index] != missing_code
        for index, span in self.spans.items():
            numbers, is_missing = decoded_numbers(records, self.layout, index)
            if span is None:
                is_inside &= is_missing
            else:
                low, high = span
                is_inside &= ~is_missing & (numbers >= low) & (numbers <= high)
        if self.beyond is not None:
            is_inside &= self.beyond(records)
        return is_inside


def decoded_numbers(
    records: Rows, layout: Layout, index: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Decodes a numeric column to the numbers that its records will have.

    Args:
        records: Encoded records.
        layout: Their columns.
        index: Index of the column among the numeric ones.

    Returns:
        The numbers, as `numbers_at` returns them, arbitrary where missing, (records,);
        and which values are missing, (records,).
    """
    positions = records.numeric[:, index]
    is_missing = np.isnan(positions)
    present_positions = np.where(is_missing, 0.0, positions)
    return numbers_at(layout.numeric[index], present_positions), is_missing


# --- Regions as they are written. ---


def read_region(
    values: Mapping[str, Any],
    layout: Layout,
    missing_values: Collection[str],
    *,
    may_ask_for_presence: bool = False,
) -> Region:
    """Reads a region, as somebody wrote it.

    Args:
        values: By column, its value, or values in an interval; see the module.
        layout: The columns.
        missing_values: Texts that stand for a missing value.
        may_ask_for_presence: Whether a value may be `NOT_MISSING`.

    Raises:
        SchemaError: for the first column that is unknown, or whose value it can never
            have.
    """
    spans: dict[int, Span | None] = {}
    codes: dict[int, int] = {}
    present: set[int] = set()
    for name, value in values.items():
        column = layout.column(name)
        if may_ask_for_presence and value == NOT_MISSING:
            if column.missing:
                first = 0 if column.numeric else len(layout.numeric)
                present.add(first + layout.place(name))
            continue
        is_marker = (
            isinstance(value, str) and value.strip(TEXT_PADDING) in missing_values
        )
        is_missing = value is None or is_marker
        if is_missing and not column.missing:
            raise SchemaError(
                f"column {name!r}: a value is never missing in this schema; give one"
            )
        index = layout.place(name)
        if column.numeric:
            spans[index] = None if is_missing else _read_span(column, value)
        else:
            missing_code = column.size - 1
            codes[index] = missing_code if is_missing else _read_code(column, value)
    return Region(layout=layout, spans=spans, codes=codes, present=frozenset(present))


def _read_code(column: CodedColumn, value: Any) -> int:
    """Returns the code of a level or truth value, as somebody wrote it."""
    code = column.code_of(value)
    if code is None:
        listed = ", ".join(map(repr, column.levels[:_MAX_LISTED_LEVELS]))
        if len(column.levels) > _MAX_LISTED_LEVELS:
            listed += ", ..."
        raise SchemaError(
            f"column {column.name!r}: {value!r} is not one of its values; choose from "
            f"{listed}"
        )
    return code


def _read_span(column: NumericColumn, value: Any) -> Span:
    """Reads a value or an interval of a numeric column.

    Args:
        column: The column.
        value: One value, a pair of values, or text such as "18..30"; an end may be None
            or left out.

    Returns:
        The interval as numbers, cut to the bounds; or an atom outside them, twice, as
        the number of a limit.
    """
    limit_number = (
        column.limit_numbers.get(value.strip(TEXT_PADDING))
        if isinstance(value, str)
        else None
    )
    if limit_number is not None:
        return limit_number, limit_number
    ends: Sequence[Any]
    if isinstance(value, str) and ".." in value:
        low_text, _, high_text = value.partition("..")
        ends = (low_text, high_text)
    elif isinstance(value, tuple | list):
        ends = value
    else:
        ends = (value, value)
    if len(ends) != 2:
        raise SchemaError(
            f"column {column.name!r}: an interval has two ends, found {value!r}; write "
            "(low, high)"
        )

    low = _read_number(column, ends[0])
    high = _read_number(column, ends[1])
    # The number of a limit is none that anybody could name.
    named_atoms = set(outer_atoms_of(column)) - set(column.limit_numbers.values())
    if low is not None and low == high and low in named_atoms:
        return low, low
    lower, upper = bounds_of(column)
    start = lower if low is None else low
    stop = upper if high is None else high
    if low is not None and high is not None and low > high:
        raise SchemaError(
            f"column {column.name!r}: the interval {ends[0]} to {ends[1]} is empty; "
            "swap its ends"
        )
    if start > upper or stop < lower:
        raise SchemaError(
            f"column {column.name!r}: {_interval_text(ends)} lies outside the schema's "
            f"bounds {column.lower} to {column.upper}"
        )

    span = (max(start, lower), min(stop, upper))
    if column.stepped:
        first_rank, last_rank = ranks_within(column, span)
        if first_rank > last_rank:
            raise SchemaError(
                f"column {column.name!r}: {value!r} is none of its values, which stand "
                f"{column.step} apart from {column.lower} on; choose one of them"
            )
    return span


def _interval_text(ends: Sequence[Any]) -> str:
    """Returns an interval as text such as "18..30"; a single value as it is."""
    texts = ["" if end is None else str(end) for end in ends]
    return "..".join(dict.fromkeys(texts))


def _read_number(column: NumericColumn, end: Any) -> float | None:
    """Reads one value of a numeric column.

    Args:
        column: The column.
        end: The value, in the type of its kind or as text; None or blank if left out.

    Returns:
        The number, as in `noisegate.schema.layout`; None if it was left out.
    """
    stripped: Any = end.strip() if isinstance(end, str) else end
    if stripped is None or stripped == "":
        return None
    number = column.to_number(column.read_value(stripped))
    if column.stepped or not column.lower <= number <= column.upper:
        return number
    # As synthetic tables can hold the number, so that the same value is found in them.
    return float(numbers_at(column, positions_of(column, np.asarray([number])))[0])


# --- Constraints. ---


ComparisonSign: TypeAlias = Literal["<=", ">=", "<", ">"]
"""How the left column of a comparison is related to the right one."""

_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A rule that one column is never above, or below, another.

    Records with a missing value in either column satisfy the rule. Records with an atom
    outside the bounds of a column also satisfy it, because such an atom is not a number
    on its scale.

    Attributes:
        left: Name of a numeric column.
        relation: One of <=, >=, <, >.
        right: Name of another column of the same sort: both are numbers, dates, or
            points in time.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Comparison, Integer
        >>> rule = Comparison(left="low", relation="<=", right="high")
        >>> columns = [Integer(name=name, lower=0, upper=9) for name in ("low", "high")]
        >>> str(Schema(columns, constraints=(rule,)).constraints[0])
        'low <= high'
    """

    left: str
    relation: ComparisonSign
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the rule names."""
        return self.left, self.right

    def form(self) -> dict[str, Any]:
        """Returns the form of the rule in a schema file."""
        return {"rule": str(self)}

    def check(self, layout: Layout, missing_values: Collection[str]) -> None:
        """Checks that the columns are comparable, and some values satisfy the rule.

        Args:
            layout: The columns of the schema.
            missing_values: Not used by this kind of constraint.

        Raises:
            SchemaError: if not, or if the text of the rule is ambiguous.
        """
        if self.relation not in get_args(ComparisonSign):
            raise SchemaError(
                f"constraint {self!s}: unknown relation {self.relation!r}; use <=, >=, "
                "< or >"
            )
        # A schema file holds its text, which must be read as this constraint.
        _parse_comparison(str(self), [*layout.numeric_places, *layout.coded_places])
        left = self._numeric_column(layout, self.left)
        right = self._numeric_column(layout, self.right)
        if self.left == self.right:
            raise SchemaError(
                f"constraint {self!s}: a column is compared with itself; name "
                "two columns"
            )
        if left.scale != right.scale:
            raise SchemaError(
                f"constraint {self!s}: {left.scale} cannot be compared with "
                f"{right.scale}; use columns of one sort"
            )
        if self.relation in ("<=", "<"):
            is_possible = _HOLDS[self.relation](left.lower, right.upper)
        else:
            is_possible = _HOLDS[self.relation](left.upper, right.lower)
        if not is_possible:
            raise SchemaError(
                f"constraint {self!s}: no values within the bounds keep to it; correct "
                "it or the bounds"
            )

    def _numeric_column(self, layout: Layout, name: str) -> NumericColumn:
        """Returns the column of this name, and checks that it is numeric."""
        column = layout.column(name)
        if not column.numeric:
            raise SchemaError(
                f"constraint {self!s}: column {name!r} is {column.kind}; only numbers "
                "and dates are compared"
            )
        return column

    def broken(
        self, records: Rows, layout: Layout, missing_values: Collection[str]
    ) -> npt.NDArray[np.bool_]:
        """Finds the records that break the rule when decoded.

        Args:
            records: Encoded records.
            layout: Their columns.
            missing_values: Not used by this kind of constraint.

        Returns:
            A mask of the records that break it, (records,).
        """
        left_index = layout.place(self.left)
        right_index = layout.place(self.right)
        left, left_is_missing = decoded_numbers(records, layout, left_index)
        right, right_is_missing = decoded_numbers(records, layout, right_index)
        left_is_outside = is_outer_atom(layout.numeric[left_index], left)
        right_is_outside = is_outer_atom(layout.numeric[right_index], right)
        is_missing = left_is_missing | right_is_missing
        is_exempt = is_missing | left_is_outside | right_is_outside
        return np.asarray(~is_exempt & ~_HOLDS[self.relation](left, right))


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """A combination of values that no record has.

    Attributes:
        values: By column, a level, a number, an interval such as "18..30", or another
            notation of `noisegate.schema.constraints`. Dates and intervals are
            converted to text.

    Examples:
        >>> from noisegate.schema import Impossible
        >>> Impossible(values={"sex": "Male", "pregnant": True}).names
        ('sex', 'pregnant')
    """

    values: Mapping[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping) or not self.values:
            raise SchemaError(
                f"impossible = {self.values!r}: name one column or more, as in "
                'impossible = { sex = "Male" }'
            )
        values = {str(name): _file_value(value) for name, value in self.values.items()}
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        values = [f"{name} = {value}" for name, value in self.values.items()]
        return f"impossible: {', '.join(values)}"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the constraint names."""
        return tuple(self.values)

    def form(self) -> dict[str, Any]:
        """Returns the form of the constraint in a schema file."""
        return {"impossible": dict(self.values)}

    def check(self, layout: Layout, missing_values: Collection[str]) -> None:
        """Checks that each column exists and can have its value.

        Args:
            layout: The columns of the schema.
            missing_values: Texts that stand for a missing value.

        Raises:
            SchemaError: if not.
        """
        try:
            read_region(self.values, layout, missing_values)
        except SchemaError as error:
            raise SchemaError(f"constraint {self!s}: {error}") from None

    def broken(
        self, records: Rows, layout: Layout, missing_values: Collection[str]
    ) -> npt.NDArray[np.bool_]:
        """Finds the records that have the combination when decoded.

        Args:
            records: Encoded records.
            layout: Their columns.
            missing_values: Texts that stand for a missing value.

        Returns:
            A mask of the records that have it, (records,).
        """
        return read_region(self.values, layout, missing_values).contains(records)


Constraint: TypeAlias = Comparison | Impossible
"""Any constraint of a schema."""


def constraint_from_form(form: Any, names: Collection[str]) -> Constraint:
    """Creates a constraint from its form in a schema file.

    Args:
        form: A table with the key `rule` or `impossible` alone.
        names: Names of the columns that it may be about.
    """
    match form:
        case {"rule": str(rule), **other_keys} if not other_keys:
            return _parse_comparison(rule, names)
        case {"impossible": Mapping() as values, **other_keys} if not other_keys:
            return Impossible(values=values)
    raise SchemaError(
        f'constraint {form!r}: write rule = "start <= end", or impossible = '
        '{ column = "level", other = "18..30" }, each under its own [[constraints]]'
    )


def _parse_comparison(rule: str, names: Collection[str]) -> Comparison:
    """Parses the text of a comparison.

    The text is cut at every sign, and each cut between names of two columns is a way to
    read it. So names with blanks or signs in them need no quotes.

    Args:
        rule: Text such as "start <= end".
        names: Names of the columns.

    Raises:
        SchemaError: unless there is exactly one way to read it.
    """
    readings = []
    for relation in get_args(ComparisonSign):
        parts = rule.split(relation)
        for cut in range(1, len(parts)):
            left = relation.join(parts[:cut]).strip()
            right = relation.join(parts[cut:]).strip()
            if left in names and right in names:
                readings.append(Comparison(left=left, relation=relation, right=right))
    if not readings:
        raise SchemaError(
            f"constraint {rule!r}: expected two columns with <=, >=, < or > between "
            f"them; the columns are {', '.join(names)}"
        )
    if len(readings) > 1:
        raise SchemaError(
            f"constraint {rule!r} can be read in {len(readings)} ways; rename a column "
            "that has a sign"
        )
    return readings[0]


def _file_value(value: Any) -> Any:
    """Returns a value of a combination as a schema file holds it.

    Dates become ISO text, values of other kinds their text, and pairs text such as
    "18..30"; None is refused, as TOML has no such value.
    """
    if isinstance(value, tuple | list):
        ends = ["" if end is None else str(_file_value(end)) for end in value]
        return "..".join(ends)
    if value is None:
        raise SchemaError(
            "impossible: write one of the missing_values for a value that is missing"
        )
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, date):
        return plain.isoformat()
    return plain if isinstance(plain, str | int | float) else str(plain)
