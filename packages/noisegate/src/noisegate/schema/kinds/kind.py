"""Interface of every kind of column.

A kind is one class in one file, a frozen dataclass. It is derived from one of these::

    ColumnKind ├── BoundedColumn          values between two bounds │   ├── RealColumn
    real numbers │   ├── SteppedColumn      values a whole number of steps apart │   └──
    NumberColumn       plain numbers, real ones or on steps: stands before those └──
    CodedColumn            few values
        └── LevelColumn        levels of text or integers

A class is either one of these abstract bases, or a kind, from which no class is
derived. A kind implements the abstract methods of its bases and overrides no other
method, so that the code in a base is the code that runs. Differences between kinds are
stated in class attributes, such as `checks` or `default_spelling`.

Code that reads, encodes, models, decodes or describes a column calls methods of its
class. So no other file depends on the list of kinds. `noisegate.schema.kinds.registry`
finds the classes by their names in schema files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed

Checks: TypeAlias = tuple[Callable[[Any], None], ...]
"""Checks of the fields of a column, in the order in which they run.

Each takes the column, and raises a `SchemaError` if its fields are unusable. It may
store a field in canonical form; `check_bounds`, for instance, sorts the atoms."""


class QuickParser(Protocol):
    """Parses a column of text at once, if every cell is a plain value."""

    def __call__(
        self, column: Any, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Returns what `ColumnKind.parse_quickly` does of the column."""


def _identity(value: Any) -> Any:
    """Returns the value."""
    return value


class ColumnKind(ABC):
    """Base class of all kinds of column.

    The parsed value of a cell must depend on that cell and the fields of the column
    only, bit for bit.

    Attributes:
        name: Name of the column in the data.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data and in samples; None for the type that
            `decode` returns.
        spelling: Notation of the values in text, read and written; None for
            `default_spelling`. Only some kinds have this field.
        limits: Texts of cells that stand for a value below or above the measurable
            range, such as "<0.5". Only kinds of plain numbers have this field.
        kind: Name of the kind in a schema file.
        numeric: Whether values are encoded as positions in [0, 1]; else as codes.
        may_have_limits: Whether a column of this kind may list limits.
        default_spelling: The notation if the schema states none; None for text as Arrow
            writes it.
        write_spelling: Function that writes decoded cells as text. It takes a notation
            and the cells. Only kinds that have `spelling` need it.
        spelling_tolerance: Numbers and codes that are read from written text differ
            from the original ones by less than this.
        quick_parser: Parser of columns of plain text for `parse_quickly`; None if all
            text needs `parse_cells`.
        form_value: Function that converts a value of a field to its TOML value. It
            takes the value, or one item of a list: a bound, an atom, a level.

    Examples:
        >>> from noisegate.schema import Integer
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> age.expected_value, age.range_text
        ('a whole number', '0 to 99')
    """

    name: str
    missing: bool
    type: str | None
    spelling: str | None = None
    limits: tuple[str, ...] = ()

    kind: ClassVar[str]
    numeric: ClassVar[bool]
    may_have_limits: ClassVar[bool] = False
    default_spelling: ClassVar[str | None] = None
    write_spelling: ClassVar[staticmethod[[str, pa.Array], pa.Array]]
    spelling_tolerance: ClassVar[int] = 1
    quick_parser: ClassVar[QuickParser | None] = None
    form_value: ClassVar[staticmethod[[Any], Any]] = staticmethod(_identity)

    # Every kind is a frozen dataclass, which has this.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    # --- Fields. ---

    @property
    @abstractmethod
    def checks(self) -> Checks:
        """Checks of the fields, which run when each field has its type."""

    def run_checks(self) -> None:
        """Checks the fields, and stores those that a check puts in canonical form."""
        for check in self.checks:
            check(self)

    # --- Cells. ---

    @abstractmethod
    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses cells of any Arrow type, without nulls and with blanks stripped.

        Raises:
            UnexpectedType: if the Arrow type has no values of this kind.
        """

    def parse_quickly(
        self, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Parses a column of text at once, if every cell is a plain value.

        This is so for most columns of CSV files. The result must equal the result of
        `parse_cells` for the same cells.

        Args:
            texts: The cells, with surrounding blanks, (cells,).
            missing_markers: Texts that stand for a missing value.

        Returns:
            A number or code for each cell, (cells,); None if `parse_cells` must parse
            the cells.
        """
        if self.quick_parser is None:
            return None
        return self.quick_parser(self, texts, missing_markers)

    @property
    def has_own_text(self) -> bool:
        """Whether CSV files contain the text of `write_text`, or that of Arrow."""
        return self._text_spelling is not None

    def write_text(self, cells: pa.Array) -> pa.Array:
        """Writes decoded cells, of the type that `decode` returns, as text."""
        if self._text_spelling is None:
            return cells.cast("string")
        return self.write_spelling(self._text_spelling, cells)

    @property
    def _text_spelling(self) -> str | None:
        """The spelling that is stated, or that of the kind."""
        return self.default_spelling if self.spelling is None else self.spelling

    # --- Words. ---

    @property
    @abstractmethod
    def expected_value(self) -> str:
        """Description of a valid cell, for messages: "a whole number"."""

    @property
    @abstractmethod
    def cell_cure(self) -> str:
        """Advice to the user about a cell that does not fit the column."""

    @property
    @abstractmethod
    def range_text(self) -> str:
        """The values of the column, for cards: "3 levels" or "0 to 9"."""

    # --- Values in files. ---

    @property
    @abstractmethod
    def table_schema_type(self) -> str:
        """Type of the column in a Table Schema of Frictionless: "integer"."""

    @property
    @abstractmethod
    def croissant_type(self) -> str:
        """Type of the column in a Croissant description: "sc:Integer"."""


def is_column(value: object) -> bool:
    """Returns whether a value is a column, of whatever kind."""
    return isinstance(value, ColumnKind)
