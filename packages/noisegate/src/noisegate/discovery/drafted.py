"""A schema file that is being written: each column as far as it is known, the reason, and what is left to state."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column, column_form, column_from_form
from noisegate.schema.files import unseen, write_toml
from noisegate.schema.schema import Schema

OPEN = ...
"""Stands in a form for a value that is still to be stated; the file has an empty comment for it."""

_MOST_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class DraftedColumn:
    """What a drafted file says of one column."""

    name: str  # as the data has it
    form: Mapping[str, Any]
    """Kind, bounds, levels and so on, as a schema file holds them; `OPEN` where one is to be stated."""
    why: tuple[str, ...] = ()  # comments above it: what it is, why it is described so, what to do
    ignored: bool = False  # it stands under ``ignore``, and what might be said of it is a comment

    @classmethod
    def of(cls, column: Column, why: Iterable[str] = ()) -> DraftedColumn:
        """Returns the entry of a column of which all is known; ignored, where no schema can show its levels."""
        levels = getattr(column, "levels", ())
        odd = next((level for level in levels if isinstance(level, str) and unseen(level)), None)
        if odd is None:
            return cls(name=column.name, form=column_form(column), why=tuple(why))
        return cls.left_out(column.name, f"the level {odd!a} holds a character that cannot be seen; remove it")

    @classmethod
    def left_out(cls, name: str, reason: str, form: Mapping[str, Any] | None = None) -> DraftedColumn:
        """Returns the entry of a column that is not used until somebody decides; ``form`` is what it might become."""
        back = "; then take its name out of `ignore` and the marks # off these lines" if form else ""
        return cls(name=name, form=form or {}, why=(f"{name}: ignored: {reason}{back}",), ignored=True)

    @property
    def is_open(self) -> bool:
        """Whether something is still to be stated before a fit can use it."""
        return not self.ignored and OPEN in self.form.values()

    @property
    def column(self) -> Column | None:
        """The column, if all is known of it and it is used."""
        return None if self.ignored or self.is_open else column_from_form(self.name, self.form)


def schema_of(entries: Sequence[DraftedColumn], label: str | None = None, **more: Any) -> Schema:
    """Returns the schema of the columns of which all is known; those to state are in it as ignored.

    Raises:
        SchemaError: if there is none, with the reasons of all.
    """
    columns = tuple(column for entry in entries if (column := entry.column) is not None)
    if not columns:
        shown = "; ".join(" ".join(entry.why) for entry in entries[:_MOST_SHOWN])
        raise SchemaError(f"no column can be described: {shown}")
    known = {column.name for column in columns}
    left = tuple(entry.name for entry in entries if entry.name not in known)
    return Schema(columns=columns, label=label if label in known else None, ignore=left, **more)


def drafted_text(
    entries: Sequence[DraftedColumn],
    *,
    top: Mapping[str, Any],
    constraints: Sequence[tuple[Mapping[str, Any], str]] = (),
    remarks: Iterable[str] = (),
    prefix: Sequence[str] = (),
) -> str:
    """Returns a schema file, below the table ``prefix``: its ``top`` keys, entries, constraints, and remarks."""
    ignored = [entry.name for entry in entries if entry.ignored]
    form: dict[str, Any] = {**top, "ignore": [*ignored, *top.get("ignore", [])]}
    form |= {"columns": {entry.name: entry.form for entry in entries}, "constraints": [one for one, _ in constraints]}
    text = write_toml(
        {key: value for key, value in form.items() if value or key == "missing_values"},
        columns={entry.name: entry.why for entry in entries},
        constraints=[[reason] for _, reason in constraints],
        commented={entry.name for entry in entries if entry.ignored},
        prefix=prefix,
    )
    lines = [line for remark in remarks for line in textwrap.wrap(remark, 118)]
    return text + "\n" * bool(lines) + "".join(f"# {line}\n" for line in lines)
