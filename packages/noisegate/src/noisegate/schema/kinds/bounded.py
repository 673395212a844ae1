"""Bases of the kinds of column with two bounds.

Bounds are public knowledge: when data are read, a value outside them is moved to the
nearer bound. There are two exceptions:

- *Atoms* are single values that many records have. An atom outside the bounds, such as
  999 for unknown, is read and written unchanged.
- *Limits* are texts such as "<0.5", which are read as atoms; see
  `noisegate.schema.kinds.limits`.

A value has two forms: a value of the kind's type, such as a date, which schemas state;
and a *number* for arithmetic, such as the days since 1970-01-01.
`noisegate.schema.layout` converts numbers to positions in [0, 1].

`BoundedColumn` is the base of all these kinds. `RealColumn` is for values that fill the
interval, `SteppedColumn` (in another file) for values on steps. `NumberColumn` is an
additional base for plain numbers of both.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.errors import SchemaError
from noisegate.schema.checks import (
    checked_column_name,
    checked_flag,
    checked_real,
    set_fields,
)
from noisegate.schema.formats import NUMBER_FORMATS, TextFormats
from noisegate.schema.kinds.kind import Checks, ColumnKind, QuickParser
from noisegate.schema.kinds.limits import (
    checked_limits,
    limit_offsets,
    parse_with_limits,
    write_with_limits,
)

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Mask, Parsed

MAX_ATOMS = 32
"""Largest number of atoms and limits of a column."""
# Limits of real numbers stand a width of the bounds apart, or this fraction of the
# outermost value where float64 could not distinguish them otherwise.
_MIN_LIMIT_DISTANCE = 2.0**-20
# Keys that TOML takes without quotes.
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class BoundedColumn(ColumnKind):
    """A column of values between two public bounds: the base of all numeric kinds.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value. Smaller values are moved to it, unless they are atoms.
        upper: Largest value, above `lower`. Larger values are moved to it, unless they
            are atoms.
        missing: Whether a value may be absent.
        atoms: Single values that many records have, within the bounds or outside;
            stored in ascending order.
        format: Format of the values in text; see `formats`.
        type: Arrow type of the column in data and in samples; None for the type that
            `decode` returns.
        stepped: Whether the values are on steps; see `SteppedColumn`.
        fractional: Whether numbers are float64; else they are int64.
        scale: Name of the scale of the values: "dates". Only columns of one scale are
            compared or subtracted.
        unit: Unit in which results state the values, if they are not plain numbers:
            "days since 1970-01-01"; else None.
        is_temporal: Whether the values are days or points in time.
        grades_towards_zero: Whether the values are amounts, most of which may be small
            compared with the bounds, so that bins may become finer towards zero.
        has_bounds_in_table_schema: Whether `table_schema_type` is a type with a minimum
            and a maximum.
        formats: The patterns that `format` may have.
        reads_every_format: Whether cells are read in each of `formats`, whatever
            `format` is.
        checked_value: Function that returns a value in the type of this kind, or raises
            a `SchemaError`. It takes the column's name, the name of the value for
            messages, and the value from a schema file or from Python.

    Examples:
        >>> from noisegate.schema import Date
        >>> born = Date(name="born", lower="1970-01-01", upper="1970-12-31")
        >>> born.scale, born.to_number(born.lower), born.brief_text(1)
        ('dates', 0, '1970-01-02')
    """

    name: str
    lower: Any
    upper: Any
    missing: bool = False
    atoms: Any = ()
    format: str | None = None
    type: str | None = None

    numeric: ClassVar[Literal[True]] = True
    stepped: ClassVar[bool]
    fractional: ClassVar[bool] = False
    unit: ClassVar[str | None] = None
    is_temporal: ClassVar[bool] = False
    grades_towards_zero: ClassVar[bool] = False
    has_bounds_in_table_schema: ClassVar[bool] = True
    formats: ClassVar[TextFormats] = NUMBER_FORMATS
    reads_every_format: ClassVar[bool] = False
    checked_value: ClassVar[staticmethod[[str, str, Any], Any]]

    def __post_init__(self) -> None:
        name = checked_column_name(self.name)
        set_fields(
            self,
            name=name,
            lower=self.checked_value(name, "lower", self.lower),
            upper=self.checked_value(name, "upper", self.upper),
        )
        set_fields(
            self,
            missing=checked_flag(name, "missing", self.missing),
            atoms=self._checked_atoms(),
        )
        if self.format is not None:
            self.formats.check(name, self.format)
        self.run_checks()
        if self.limits != ():
            set_fields(self, limits=checked_limits(name, self.limits))
            self._check_room_for_limits()

    def _checked_atoms(self) -> tuple[Any, ...]:
        """Checks that the atoms are values of this kind, distinct, and not too many."""
        name = self.name
        is_text_or_mapping = isinstance(self.atoms, str | bytes | Mapping)
        if is_text_or_mapping or not isinstance(self.atoms, Iterable):
            raise SchemaError(
                f"column {name!r}: atoms must be a list of values, found {self.atoms!r}"
            )
        atoms = tuple(self.checked_value(name, "an atom", atom) for atom in self.atoms)
        if len(set(atoms)) < len(atoms):
            repeated = next(atom for atom in atoms if atoms.count(atom) > 1)
            raise SchemaError(
                f"column {name!r}: atom {repeated} is listed more than once; keep one"
            )
        if len(atoms) > MAX_ATOMS:
            raise SchemaError(
                f"column {name!r}: {len(atoms)} atoms, and at most {MAX_ATOMS} may be "
                "stated; keep those that most records have, or describe the column as "
                "ordinal"
            )
        return atoms

    # --- Limits. ---

    def _check_room_for_limits(self) -> None:
        """Checks that limits and atoms are few, and numbers are left for the limits."""
        count = len(self.atoms) + len(self.limits)
        if count > MAX_ATOMS:
            raise SchemaError(
                f"column {self.name!r}: {count} atoms and limits, and at most "
                f"{MAX_ATOMS} may be stated; keep those that most records have"
            )
        for number in self.limit_numbers.values():
            has_room = abs(number) < 2**63 if self.stepped else math.isfinite(number)
            if not has_room:
                raise SchemaError(
                    f"column {self.name!r}: the bounds leave no number beyond them that "
                    "could stand for a limit; narrow them"
                )

    @property
    @abstractmethod
    def limit_values(self) -> tuple[Any, ...]:
        """The value that represents each limit, in the type of the kind.

        These values are computed from the fields of the column. They lie beyond the
        bounds and all atoms, and are distinct.
        """

    @cached_property
    def limit_numbers(self) -> dict[str, float]:
        """The number that represents each limit, by the text of the limit."""
        numbers = map(self.to_number, self.limit_values)
        return dict(zip(self.limits, numbers, strict=True))

    @property
    def all_atoms(self) -> tuple[Any, ...]:
        """All atoms in ascending order, including those that represent limits."""
        return tuple(sorted((*self.atoms, *self.limit_values)))

    def limit_of(self, number: float) -> str | None:
        """Returns the text of the limit that a number represents; None for others."""
        for text, limit_number in self.limit_numbers.items():
            if limit_number == number:
                return text
        return None

    # --- Values and numbers. ---

    @property
    @abstractmethod
    def scale(self) -> str:
        """Name of the scale of the values; columns of one scale are comparable."""

    @abstractmethod
    def read_value(self, value: Any) -> Any:
        """Returns a value of the column from a condition of the user.

        Args:
            value: A value in the type of the kind, or text without surrounding blanks.

        Raises:
            SchemaError: if it is not a value of this kind.
        """

    @abstractmethod
    def to_number(self, value: Any) -> float:
        """Converts a value in the type of the kind to a number."""

    @abstractmethod
    def value_of(self, number: float) -> Any:
        """Converts a number to a value in the type of the kind."""

    @abstractmethod
    def brief_text(self, number: float) -> str | None:
        """Returns the short text of a number, for pages: "2024-05-01".

        Returns:
            The text; None if the number is shown as a plain number.
        """

    # --- Cells. ---

    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses cells in the format of the column, if it has one, and its limits."""
        return self.parse_around_limits(cells, self._parse_measured)

    def _parse_measured(self, cells: pa.Array) -> Parsed:
        """Parses cells that are no limits, in the format of the column if any."""
        return self.parse_unformatted(self.parse_formatted(cells))

    def parse_around_limits(
        self, cells: pa.Array, parse: Callable[[pa.Array], Parsed]
    ) -> Parsed:
        """Parses limits to their numbers, and other cells with a given parser."""
        if not self.limits:
            return parse(cells)
        bounds = self.to_number(self.lower), self.to_number(self.upper)
        return parse_with_limits(cells, parse, self.limit_numbers, bounds)

    @abstractmethod
    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses cells in the usual notation to numbers.

        Args:
            cells: Text, or another Arrow type, without nulls.

        Returns:
            float64 numbers, or int64 units of a column on steps. Values out of bounds
            are not moved.
        """

    def parse_formatted(self, cells: pa.Array) -> pa.Array:
        """Converts cells from the format of the column, if any, to plain text."""
        if self.format is None:
            return cells
        return self.formats.parse(self.format, cells)

    def format_cells(self, cells: pa.Array) -> pa.Array:
        """Writes decoded cells in the format of the column, if any; nulls stay."""
        if self.format is None:
            return cells
        return self.formats.write(self.format, cells)

    @abstractmethod
    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Converts numbers to the Arrow type of this kind.

        Args:
            numbers: Numbers of the column, arbitrary where missing, (cells,).
            is_missing: Which cells are null, (cells,).
        """

    def decoded_cells(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Converts numbers to decoded cells.

        Args:
            numbers: Numbers of the column, arbitrary where missing, (cells,).
            is_missing: Which cells are null, (cells,).

        Returns:
            Cells of the Arrow type of the kind; text if the column has a format or
            limits.
        """
        cells = self.format_cells(self.to_arrow(numbers, is_missing))
        if not self.limits:
            return cells
        texts = self.write_text(cells)
        return write_with_limits(texts, numbers, is_missing, self.limit_numbers)

    # --- Words. ---

    @property
    def cell_cure(self) -> str:
        """Advice to the user about a cell that does not fit the column."""
        limits_cure = ""
        if self.may_have_limits:
            # The cell is private, so that the examples are not made from it.
            key = self.name if _BARE_KEY.fullmatch(self.name) else f'"{self.name}"'
            limits_cure = (
                "add cells with a sign such as < or + to the limits of the column (as "
                f'limits = ["<5", "90+"] under [columns.{key}]), '
            )
        format_cure = ""
        if self.format is None and not self.reads_every_format:
            format_cure = (
                f'state how it is written (such as format = "{self.formats.example}"), '
            )
        return (
            f"correct the data, {format_cure}{limits_cure}list the value in missing_values, or "
            "describe the column as another kind in the schema"
        )

    @property
    def range_text(self) -> str:
        """The values of the column, for cards: "0 to 9 by 3; atoms 99"."""
        text = f"{self.form_value(self.lower)} to {self.form_value(self.upper)}"
        step = getattr(self, "step", None)
        if step is not None:
            text += f" by {step:g}"
        if self.atoms:
            atoms = [str(self.form_value(atom)) for atom in self.atoms]
            text += f"; atoms {', '.join(atoms)}"
        if self.limits:
            text += f"; limits {', '.join(self.limits)}"
        return text


def check_bounds(column: BoundedColumn) -> None:
    """Checks that the lower bound is below the upper, and puts the atoms in order."""
    if column.lower > column.upper:
        raise SchemaError(
            f"column {column.name!r}: lower = {column.lower} is above upper = "
            f"{column.upper}; swap them"
        )
    if column.lower == column.upper:
        raise SchemaError(
            f"column {column.name!r}: lower and upper are both {column.lower}, and a "
            "constant column carries nothing; widen the bounds, or drop the column "
            "from the schema and add it to `ignore`"
        )
    set_fields(column, atoms=tuple(sorted(column.atoms)))


def parse_plain_numbers(
    column: BoundedColumn, texts: pa.Array, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Parses a column in which every text is a plain number; else returns None.

    A column with limits is examined more closely: a number may stand for a limit.
    """
    if column.limits:
        return None
    from noisegate.schema import parsing

    if column.fractional:
        return parsing.parse_plain_floats(texts, missing_markers)
    return parsing.parse_plain_integers(texts, missing_markers)


class NumberColumn(BoundedColumn):
    """A column of plain numbers: float64 if `fractional`, else integers.

    Among the bases of a kind, it comes before `RealColumn` or `SteppedColumn`.

    Examples:
        >>> from noisegate.schema import Integer
        >>> Integer(name="age", lower=0, upper=99).read_value("7")
        7
    """

    scale: ClassVar[str] = "numbers"
    may_have_limits: ClassVar[bool] = True
    quick_parser: ClassVar[QuickParser | None] = staticmethod(parse_plain_numbers)

    def read_value(self, value: Any) -> float:
        """Returns a number from a number or its text."""
        number = value
        if isinstance(value, str):
            try:
                number = float(value) if self.fractional else int(value)
            except ValueError:
                limits = "".join(f" or {limit!r}" for limit in self.limits)
                raise SchemaError(
                    f"column {self.name!r}: a value must be {self.expected_value}"
                    f"{limits}, found {value!r}"
                ) from None
        checked: float = self.checked_value(self.name, "a value", number)
        return checked

    def brief_text(self, number: float) -> str | None:
        """Returns the text of a limit; None for a number, which is shown as such."""
        return self.limit_of(number)

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses numbers as float64, or integers as int64."""
        from noisegate.schema import parsing

        if self.fractional:
            return parsing.parse_floats(cells)
        return parsing.parse_integers(cells)

    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Converts numbers to float64 or int64."""
        import pyarrow as pa

        return pa.array(numbers, mask=is_missing)


def check_width(column: RealColumn) -> None:
    """Checks that the distance of the bounds is finite, as each of them is."""
    checked_real(column.name, "upper - lower", column.upper - column.lower)


@dataclass(frozen=True, kw_only=True)
class RealColumn(BoundedColumn):
    """A column whose values fill the interval between two bounds.

    Values in the type of this kind are float64 numbers.

    Examples:
        >>> from noisegate.schema import Continuous
        >>> Continuous(name="dose", lower=0, upper=2.5, atoms=[-1, 2]).outer_atoms
        ((-1.0,), ())
    """

    lower: float
    upper: float
    atoms: tuple[float, ...] = ()

    stepped: ClassVar[Literal[False]] = False
    fractional: ClassVar[bool] = True
    checked_value = staticmethod(checked_real)
    checks: ClassVar[Checks] = (check_bounds, check_width)

    @cached_property
    def outer_atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Atoms below the lower bound, and atoms above the upper bound."""
        return split_outer_atoms(self.all_atoms, self.lower, self.upper)

    @cached_property
    def limit_values(self) -> tuple[float, ...]:
        """The number that represents each limit."""
        width = self.upper - self.lower
        values = []
        for offset in limit_offsets(self.limits):
            if offset < 0:
                outermost = min((self.lower, *self.atoms))
            else:
                outermost = max((self.upper, *self.atoms))
            distance = max(width, abs(outermost) * _MIN_LIMIT_DISTANCE)
            values.append(outermost + offset * distance)
        return tuple(values)

    def to_number(self, value: Any) -> float:
        """Returns the value itself."""
        return float(value)

    def value_of(self, number: float) -> Any:
        """Returns the number itself."""
        return number


def split_outer_atoms(
    atoms: tuple[Any, ...], lower: Any, upper: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the atoms below the lower bound, and those above the upper one."""
    below = tuple(atom for atom in atoms if atom < lower)
    above = tuple(atom for atom in atoms if atom > upper)
    return below, above
