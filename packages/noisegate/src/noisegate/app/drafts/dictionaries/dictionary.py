"""What a data dictionary of any kind states, and the drafted schema file of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from noisegate.app.drafts.dictionaries.variable import Variable
from noisegate.app.drafts.drafted import (
    DraftedColumn,
    drafted_text,
    reasons_by_ignored,
)
from noisegate.schema.files import parse_toml
from noisegate.schema.schema import DEFAULT_MISSING_VALUES


@dataclass(frozen=True, kw_only=True)
class Dictionary:
    """A data dictionary, as the draft of a schema.

    Attributes:
        kind: What the file is, in words, such as "code book".
        variables: The columns, in the order of the file.
        missing_values: Texts that stand for a missing value.
        extra_columns: Columns that the data may have beside them, which are ignored.
        label: Name of the column to be predicted from the others, or None.
    """

    kind: str
    variables: tuple[Variable, ...]
    missing_values: tuple[str, ...] = DEFAULT_MISSING_VALUES
    extra_columns: tuple[str, ...] = ()
    label: str | None = None

    @cached_property
    def entries(self) -> tuple[DraftedColumn, ...]:
        """The drafted columns.

        The label is never missing, unless the dictionary says that it may be.
        """
        variables = (
            replace(variable, missing=bool(variable.missing))
            if variable.name == self.label
            else variable
            for variable in self.variables
        )
        return tuple(variable.draft() for variable in variables)

    @property
    def open(self) -> tuple[str, ...]:
        """The columns of which something is still to be stated."""
        return tuple(entry.name for entry in self.entries if entry.is_open)

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, with the reason."""
        return reasons_by_ignored(self.entries)

    def toml(self) -> str:
        """Writes the schema file, with empty comments for what is open."""
        top: dict[str, Any] = {}
        if self.label:
            top["label"] = self.label
        top["missing_values"] = list(self.missing_values)
        top["ignore"] = list(self.extra_columns)
        text = drafted_text(self.entries, top=top)
        parse_toml(text, "the draft")  # raises if it could not be read back
        return text
