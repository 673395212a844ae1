"""Columns of truth values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from noisegate.errors import SchemaError
from noisegate.schema.checks import checked_levels, set_fields
from noisegate.schema.kinds.coded import CodedColumn
from noisegate.schema.kinds.kind import Checks

# PyArrow is imported in functions, so that `noisegate schema` answers at once.
if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema.parsing import Parsed

# Codes of truth values by the words that a condition may use for them, in any case.
_CODES = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}


def check_words(column: Boolean) -> None:
    """Checks that words are stated for both truth values or none, and differ."""
    set_fields(
        column,
        true_values=_checked_words(column.name, column.true_values),
        false_values=_checked_words(column.name, column.false_values),
    )
    words = [word.lower() for word in column.words]
    is_one_sided = bool(column.true_values) != bool(column.false_values)
    has_repeated_word = len(set(words)) < len(words)
    if is_one_sided or has_repeated_word:
        raise SchemaError(
            f"column {column.name!r}: true_values and false_values must both be "
            "stated, each word once in any case, found "
            f"{list(column.true_values)} and {list(column.false_values)}"
        )


def _checked_words(name: str, words: Any) -> tuple[str, ...]:
    """Checks words for a truth value, which may be integers; none are allowed."""
    if not words:
        return ()
    return tuple(str(word) for word in checked_levels(name, words))


def _spell_truth_values(spelling: str, cells: pa.Array) -> pa.Array:
    """Writes truth values by a spelling such as "True/False"."""
    import pyarrow.compute as pc

    true_text, false_text = spelling.split("/")
    return pc.if_else(cells, true_text, false_text)


@dataclass(frozen=True, kw_only=True)
class Boolean(CodedColumn):
    """A column of truth values.

    In text, truth values are written true/false, yes/no or 1/0 in any case, unless the
    schema states other words.

    Attributes:
        name: Name of the column in the data.
        missing: Whether a value may be absent.
        true_values: Words that mean true in text, in any case. Synthetic text uses the
            first one. Stated together with `false_values`, or not at all.
        false_values: Words that mean false.
        type: Arrow type of the column in data and in samples; None for the type that
            `decode` returns.
        spelling: Notation of truth values in text, read and written, such as
            `"True/False"`.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> Boolean(name="ill").levels, Boolean(name="ill", missing=True).size
        ((False, True), 3)
        >>> Boolean(name="ill", true_values=["Y"], false_values=["N"]).words
        ('N', 'Y')
    """

    name: str
    missing: bool = False
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()
    type: str | None = None
    spelling: str | None = None

    kind: ClassVar[Literal["boolean"]] = "boolean"
    checks: ClassVar[Checks] = (check_words,)
    write_spelling = staticmethod(_spell_truth_values)
    levels: ClassVar[tuple[bool, bool]] = (False, True)  # type: ignore[misc]
    is_truth_value: ClassVar[bool] = True
    expected_value: ClassVar[str] = "true or false (or yes/no, 1/0)"
    cell_cure: ClassVar[str] = (
        "correct the data, list the value in missing_values, or describe the column as "
        "another kind in the schema"
    )
    table_schema_type: ClassVar[str] = "boolean"
    croissant_type: ClassVar[str] = "sc:Boolean"

    @property
    def words(self) -> tuple[str, ...]:
        """The words for false, then those for true; empty if none are stated."""
        return (*self.false_values, *self.true_values)

    @property
    def stated_texts(self) -> tuple[str, ...]:
        """The words for truth values, if the schema states any."""
        return self.words

    @property
    def decoded_levels(self) -> tuple[Any, ...]:
        """The first words for false and true, or the truth values themselves."""
        if self.words:
            return self.false_values[0], self.true_values[0]
        return self.levels

    def code_of(self, value: Any) -> int | None:
        """Returns the code of a truth value, or of a word for one."""
        if isinstance(value, bool | np.bool_):
            return int(value)
        return _CODES.get(value.strip().lower()) if isinstance(value, str) else None

    def parse_cells(self, cells: pa.Array) -> Parsed:
        """Parses truth values as 0 and 1, with the column's own words if it has any."""
        from noisegate.schema.parsing import parse_booleans

        if not self.words:
            return parse_booleans(cells)
        return parse_booleans(
            cells, true_words=self.true_values, false_words=self.false_values
        )
