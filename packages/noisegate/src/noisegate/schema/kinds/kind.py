"""What every kind of column can do: the contract that a new kind keeps.

A kind is one class in one file, a frozen dataclass. It derives from one of these::

    ColumnKind
    ├── BoundedColumn          values between two bounds
    │   ├── RealColumn         real numbers
    │   ├── SteppedColumn      values a whole number of steps apart
    │   │   └── ClockColumn    days and points in time
    │   └── NumberColumn       plain numbers, real ones or on steps: stands before those
    └── CodedColumn            few values
        └── LevelColumn        levels of text or integers

Whoever reads, encodes, models, decodes or describes a column asks its class, so that no
other file knows which kinds there are. `noisegate.schema.kinds.registry` finds the
classes by the names that schema files have for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed


class ColumnKind(ABC):
    """A column of some kind.

    What becomes of a cell must follow from that cell and the fields of the column
    alone, bit for bit.

    Attributes:
        name: Name of the column in the data.
        missing: Whether a value may be absent.
        type: Arrow type of the column in data, and in samples too; None for that of
            `decode`.
        kind: Name of the kind in a schema file.
        numeric: Whether values are encoded as positions in [0, 1]; else as codes.
        spelling_tolerance: How near a number or code must be, to what was meant, that
            is read from text that a spelling wrote: nearer than this.

    Examples:
        >>> from noisegate.schema import Integer
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> age.expected_value, age.range_text
        ('a whole number', '0 to 99')
    """

    name: str
    missing: bool
    type: str | None

    kind: ClassVar[str]
    numeric: ClassVar[bool]
    spelling_tolerance: ClassVar[int] = 1

    # Every kind is a frozen dataclass, which has this.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

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
        return None

    @property
    def has_own_text(self) -> bool:
        """Whether CSV files hold what `write_text` writes; else what Arrow writes."""
        return False

    def write_text(self, cells: pa.Array) -> pa.Array:
        """Writes decoded cells, of the type that `decode` returns, as text."""
        return cells.cast("string")

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

    def form_value(self, value: Any) -> Any:
        """Returns a single value of a field as TOML has it.

        Args:
            value: A value of a field, or one item of a list: a bound, an atom, a level.
        """
        return value

    @property
    @abstractmethod
    def table_schema_type(self) -> str:
        """Type of the column in a Table Schema of Frictionless: "integer"."""

    @property
    @abstractmethod
    def croissant_type(self) -> str:
        """Type of the column in a Croissant description: "sc:Integer"."""

    @property
    def csv_time_format(self) -> str | None:
        """How Arrow's CSV writer writes points in time, for `strftime`; else None."""
        return None


def is_column(value: object) -> bool:
    """Returns whether a value is a column, of whatever kind."""
    return isinstance(value, ColumnKind)
