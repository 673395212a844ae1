"""What kinds of column between two bounds share.

Bounds are public knowledge: a value outside them is moved to the nearer bound when data
are read. The exception are *atoms*, single values that many records have: an atom
outside the bounds, such as 999 for unknown, is read and written as it is. Another one
are *limits*, texts such as "<0.5", which are read as atoms; see
`noisegate.schema.kinds.limits`.

A value has two forms: in the type of the kind, such as a date, as schemas state it; and
as a *number*, which arithmetic is done with, such as the days since 1970-01-01. How
numbers become positions in [0, 1] is in `noisegate.schema.layout`.

`BoundedColumn` is for all of these kinds. `RealColumn` is for values that fill the
interval, `SteppedColumn` in another file for those that do not; `NumberColumn` is for
both where the values are plain numbers.
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
    """A column of values between two public bounds: what all numeric kinds share.

    Attributes:
        name: Name of the column in the data.
        lower: Smallest value; smaller ones are moved to it, unless they are atoms.
        upper: Largest value, above `lower`.
        missing: Whether a value may be absent.
        atoms: Single values that many records have, within the bounds or outside;
            stored in ascending order.
        format: How text writes the values; see `formats`.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        stepped: Whether the values are steps; see `SteppedColumn`.
        fractional: Whether numbers are float64; else they are int64.
        scale: What the values are compared as, in words: "dates". Only columns of one
            scale are compared or subtracted.
        unit: In which answers count the values, where that is no number as it stands:
            "days since 1970-01-01"; None where it is.
        is_temporal: Whether the values are days or points in time.
        grades_towards_zero: Whether the values are amounts, most of which may be small
            beside the bounds, so that fine bins may get finer towards zero.
        has_bounds_in_table_schema: Whether `table_schema_type` is one that takes a
            minimum and a maximum.
        formats: The patterns that `format` may be.
        reads_every_format: Whether cells are read in each of these, stated or not.
        checked_value: Returns a value in the type of this kind, or raises a
            `SchemaError`. It takes the column's name, what the value is called, and the
            value, as somebody wrote it in a schema file or in Python.

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
        """The value that stands for each limit, in the type of the kind.

        They follow from the fields of the column, lie beyond the bounds and all atoms,
        and differ.
        """

    @cached_property
    def limit_numbers(self) -> dict[str, float]:
        """The number that stands for each limit, by its text."""
        numbers = map(self.to_number, self.limit_values)
        return dict(zip(self.limits, numbers, strict=True))

    @property
    def all_atoms(self) -> tuple[Any, ...]:
        """The atoms that are stated and those that stand for limits, ascending."""
        return tuple(sorted((*self.atoms, *self.limit_values)))

    def limit_of(self, number: float) -> str | None:
        """Returns the text of the limit for which a number stands; None for others."""
        for text, limit_number in self.limit_numbers.items():
            if limit_number == number:
                return text
        return None

    # --- Values and numbers. ---

    @property
    @abstractmethod
    def scale(self) -> str:
        """What the values are compared as, in words."""

    @abstractmethod
    def read_value(self, value: Any) -> Any:
        """Returns one value of the column, as somebody wrote it in a condition.

        Args:
            value: The value in the type of the kind, or text without blanks around it.

        Raises:
            SchemaError: if it is no value of this kind.
        """

    @abstractmethod
    def to_number(self, value: Any) -> float:
        """Returns the number of a value in the type of the kind."""

    @abstractmethod
    def value_of(self, number: float) -> Any:
        """Returns a number in the type of the kind."""

    @abstractmethod
    def brief_text(self, number: float) -> str | None:
        """Returns a number in few letters, for pages: "2024-05-01".

        Returns:
            The text; None where it is a number like others.
        """

    # --- Cells. ---

    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses cells, in the format of the column if it has one; limits as such."""
        return self.parse_around_limits(cells, self._parse_measured)

    def _parse_measured(self, cells: pa.Array) -> Parsed:
        """Parses cells that are no limits, in the format of the column if any."""
        return self.parse_unformatted(self.parse_formatted(cells))

    def parse_around_limits(
        self, cells: pa.Array, parse: Callable[[pa.Array], Parsed]
    ) -> Parsed:
        """Parses limits to their numbers, and other cells by a parser of the caller."""
        if not self.limits:
            return parse(cells)
        bounds = self.to_number(self.lower), self.to_number(self.upper)
        return parse_with_limits(cells, parse, self.limit_numbers, bounds)

    @abstractmethod
    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses cells that are written as usual, not in a format, to numbers.

        Args:
            cells: Text, or any other type of Arrow, without nulls.

        Returns:
            float64 numbers, or int64 units of a column of steps, not moved to the
            bounds.
        """

    def parse_formatted(self, cells: pa.Array) -> pa.Array:
        """Translates cells from the column's format, if any, to plain text."""
        if self.format is None:
            return cells
        return self.formats.parse(self.format, cells)

    def format_cells(self, cells: pa.Array) -> pa.Array:
        """Writes decoded cells in the column's format, if any; nulls stay."""
        if self.format is None:
            return cells
        return self.formats.write(self.format, cells)

    @abstractmethod
    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns numbers in the Arrow type in which tables hold this kind.

        Args:
            numbers: Numbers of the column, arbitrary where missing, (cells,).
            is_missing: Which cells are null, (cells,).
        """

    def decoded_cells(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns numbers as tables hold this column.

        Args:
            numbers: Numbers of the column, arbitrary where missing, (cells,).
            is_missing: Which cells are null, (cells,).

        Returns:
            The Arrow type of the kind; text where there is a format, or are limits.
        """
        cells = self.format_cells(self.to_arrow(numbers, is_missing))
        if not self.limits:
            return cells
        texts = self.write_text(cells)
        return write_with_limits(texts, numbers, is_missing, self.limit_numbers)

    # --- Words. ---

    @property
    def cell_cure(self) -> str:
        """What a user can do about a cell that does not fit the column."""
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
    """Parses numbers, if each text is one as it stands, else returns None.

    A column with limits is examined more closely: a number may stand for a limit.
    """
    if column.limits:
        return None
    from noisegate.schema import parsing

    if column.fractional:
        return parsing.parse_plain_floats(texts, missing_markers)
    return parsing.parse_plain_integers(texts, missing_markers)


class NumberColumn(BoundedColumn):
    """A column of plain numbers: with a fraction if `fractional`, else integers.

    It stands before `RealColumn` or `SteppedColumn` among the bases of a kind.

    Examples:
        >>> from noisegate.schema import Integer
        >>> Integer(name="age", lower=0, upper=99).read_value("7")
        7
    """

    scale: ClassVar[str] = "numbers"
    may_have_limits: ClassVar[bool] = True
    quick_parser: ClassVar[QuickParser | None] = staticmethod(parse_plain_numbers)

    def read_value(self, value: Any) -> float:
        """Returns a number, or text of one."""
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
        """Returns the text of a limit; None for a number, which is shown as others."""
        return self.limit_of(number)

    def parse_unformatted(self, cells: pa.Array) -> Parsed:
        """Parses numbers, as float64, or integers, as int64."""
        from noisegate.schema import parsing

        if self.fractional:
            return parsing.parse_floats(cells)
        return parsing.parse_integers(cells)

    def to_arrow(self, numbers: npt.NDArray[Any], is_missing: Mask) -> pa.Array:
        """Returns numbers as they are, float64 or int64."""
        import pyarrow as pa

        return pa.array(numbers, mask=is_missing)


def check_width(column: RealColumn) -> None:
    """Checks that the distance of the bounds is finite, as each of them is."""
    checked_real(column.name, "upper - lower", column.upper - column.lower)


@dataclass(frozen=True, kw_only=True)
class RealColumn(BoundedColumn):
    """A column whose values fill the interval between two bounds.

    Values in the type of the kind are numbers: float64.

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
        """Atoms below the lower bound, and those above the upper one."""
        return split_outer_atoms(self.all_atoms, self.lower, self.upper)

    @cached_property
    def limit_values(self) -> tuple[float, ...]:
        """The number that stands for each limit."""
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
