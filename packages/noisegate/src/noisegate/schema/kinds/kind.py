"""What every kind of column can do: the contract that a new kind keeps.

A kind is one class in one file, a frozen dataclass. It derives from one of these::

    ColumnKind
    ├── BoundedColumn          values between two bounds
    │   ├── RealColumn         real numbers
    │   ├── SteppedColumn      values a whole number of steps apart
    │   └── NumberColumn       plain numbers, real ones or on steps: stands before those
    └── CodedColumn            few values
        └── LevelColumn        levels of text or integers

A class is one of these bases, which are abstract, or a kind, which no class derives
from. A kind fills in what its bases leave open and replaces none of their methods, so
that what stands in a base is what runs. What differs between kinds is stated in
attributes of their classes, such as `checks` or `default_spelling`.

Whoever reads, encodes, models, decodes or describes a column asks its class, so that no
other file knows which kinds there are. `noisegate.schema.kinds.registry` finds the
classes by the names that schema files have for them.
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

Each takes the column, and raises a `SchemaError` where its fields are unusable. It may
store a field in canonical form, as `check_bounds` puts the atoms in order.
"""


class QuickParser(Protocol):
    """Parses a column of text at once, if each cell is a value as it stands."""

    def __call__(
        self, column: Any, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Returns what `ColumnKind.parse_quickly` does of the column."""


def _identity(value: Any) -> Any:
    """Returns the value."""
    return value


class ColumnKind(ABC):
    """A column of some kind.

    What becomes of a cell must follow from that cell and the fields of the column
    alone, bit for bit.

    Attributes:
        name: Name of the column in the data.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        spelling: How text writes the values, and synthetic text too; None for
            `default_spelling`. A field of those kinds alone that can be spelled.
        limits: Texts of cells that stand for a number beyond what is measured, such as
            "<0.5". A field of those kinds alone that hold plain numbers.
        kind: Name of the kind in a schema file.
        numeric: Whether values are encoded as positions in [0, 1]; else as codes.
        may_have_limits: Whether a column of this kind may list limits.
        default_spelling: The spelling where none is stated; None for text as Arrow
            writes it.
        write_spelling: Writes decoded cells as text; it takes a spelling and the cells.
            Only kinds that have a spelling need it.
        spelling_tolerance: How near a number or code must be, to what was meant, that
            is read from text that a spelling wrote: nearer than this.
        quick_parser: Parses columns of plain text for `parse_quickly`; None where all
            text is examined more closely.
        form_value: Returns a value of a field as TOML has it. It takes the value, or
            one item of a list: a bound, an atom, a level.

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
        """What is checked of the fields, once each of them has its type."""

    def run_checks(self) -> None:
        """Checks the fields, and stores those that a check puts in canonical form."""
        for check in self.checks:
            check(self)

    # --- Cells. ---

    @abstractmethod
    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses cells of any Arrow type, without nulls and with blanks stripped.

        Raises:
            UnexpectedType: if the Arrow type holds no values of this kind.
        """

    def parse_quickly(
        self, texts: pa.Array, missing_markers: pa.Array
    ) -> npt.NDArray[Any] | None:
        """Parses a column of text at once, if each cell is a value as it stands.

        Most columns of CSV files are like this. What it returns must equal what
        `parse_cells` makes of the same cells.

        Args:
            texts: The cells, with blanks around them, (cells,).
            missing_markers: Texts that stand for a missing value.

        Returns:
            A number or code for each cell, (cells,); None if the cells must be looked
            at more closely.
        """
        if self.quick_parser is None:
            return None
        return self.quick_parser(self, texts, missing_markers)

    @property
    def has_own_text(self) -> bool:
        """Whether CSV files hold what `write_text` writes; else what Arrow writes."""
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
        """What a cell must hold, for messages: "a whole number"."""

    @property
    @abstractmethod
    def cell_cure(self) -> str:
        """What a user can do about a cell that does not fit the column."""

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
