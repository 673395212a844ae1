"""A schema file that is being drafted: its columns as far as they are known, and why.

A drafted column is its form, as schema files hold it, with comments. What somebody has
yet to state is `OPEN` in the form, and an empty comment in the file::

    # systolic blood pressure [mmHg]
    # state upper (public knowledge; ...)
    [columns.systolic]
    kind = "integer"
    lower = 0
    # upper =

A column that no model should see stands under `ignore`. What it might become is written
as comments, ready for use.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import EllipsisType
from typing import Any

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column, column_form, column_from_form
from noisegate.schema.files import first_invisible, write_toml
from noisegate.schema.schema import DEFAULT_MISSING_VALUES, Schema

OPEN: EllipsisType = ...
"""Stands in a form for a value that somebody has yet to state."""

COMMENT_WIDTH = 118
"""Characters of a line of comment in a drafted file, without the mark in front."""

_MAX_REASONS_SHOWN = 10  # in the message that no column can be described


@cache
def vocabulary(name: str) -> Any:
    """Returns one entry of `vocabulary.toml`, the words by which public files are read.

    Args:
        name: Key in that file.

    Returns:
        What stands there: a list of words, a regular expression, or a table of them.
    """
    text = resources.files(__package__).joinpath("vocabulary.toml").read_text("utf-8")
    return tomllib.loads(text)[name]


@dataclass(frozen=True, kw_only=True)
class DraftedColumn:
    """A column of a drafted file.

    Attributes:
        name: Name of the column in the data.
        form: Kind, bounds, levels and so on, as a schema file holds them; `OPEN` for
            what is yet to be stated. What an ignored column might become, or empty.
        comments: Lines above it: what it holds, why it is described so, what to do.
        is_ignored: Whether it stands under `ignore`.

    Examples:
        >>> from noisegate.app.drafts.drafted import OPEN, DraftedColumn
        >>> form = {"kind": "integer", "lower": 0, "upper": OPEN}
        >>> DraftedColumn(name="age", form=form).is_open
        True
    """

    name: str
    form: Mapping[str, Any]
    comments: tuple[str, ...] = ()
    is_ignored: bool = False

    @classmethod
    def from_column(cls, column: Column, comments: Iterable[str] = ()) -> DraftedColumn:
        """Drafts a column of which all is known.

        It is ignored if a level holds an invisible character, which no reader of the
        schema could check.

        Args:
            column: The column.
            comments: Why it is described so.
        """
        text_levels = [
            level for level in getattr(column, "levels", ()) if isinstance(level, str)
        ]
        for level in text_levels:
            if first_invisible(level):
                return cls.left_out(
                    column.name,
                    f"the level {level!a} holds a character that cannot be seen; "
                    "remove it",
                )
        form = column_form(column)
        return cls(name=column.name, form=form, comments=tuple(comments))

    @classmethod
    def left_out(
        cls, name: str, reason: str, form: Mapping[str, Any] | None = None
    ) -> DraftedColumn:
        """Drafts a column that is ignored until somebody decides otherwise.

        Args:
            name: Name of the column.
            reason: Why no model should see it as it is.
            form: What it might become; None for nothing.
        """
        comment = f"{name}: ignored: {reason}"
        if form:
            comment += (
                "; then take its name out of `ignore` and the marks # off these lines"
            )
        return cls(name=name, form=form or {}, comments=(comment,), is_ignored=True)

    @property
    def is_open(self) -> bool:
        """Whether something must still be stated before a fit can use the column."""
        return not self.is_ignored and OPEN in self.form.values()

    @property
    def column(self) -> Column | None:
        """The column of a schema; None if it is ignored, or something is open.

        Raises:
            SchemaError: if the form does not describe a column.
        """
        if self.is_ignored or self.is_open:
            return None
        return column_from_form(self.name, self.form)


def reasons_by_ignored(entries: Iterable[DraftedColumn]) -> dict[str, str]:
    """Returns the ignored columns by name, each with the reason."""
    return {
        entry.name: " ".join(entry.comments) for entry in entries if entry.is_ignored
    }


def schema_of_entries(
    entries: Sequence[DraftedColumn],
    *,
    label: str | None = None,
    missing_values: tuple[str, ...] = DEFAULT_MISSING_VALUES,
) -> Schema:
    """Builds the schema of the drafted columns of which all is known.

    Args:
        entries: The drafted columns, in the order of the data. Those that are ignored
            or open stand under the schema's `ignore`.
        label: The column to be predicted from the others, or None. Without effect if it
            is not among the columns of the schema.
        missing_values: Texts that stand for a missing value.

    Raises:
        SchemaError: if no column can be used; it gives the reasons.
    """
    columns = [entry.column for entry in entries]
    usable_columns = tuple(column for column in columns if column is not None)
    if not usable_columns:
        reasons = "; ".join(
            " ".join(entry.comments) for entry in entries[:_MAX_REASONS_SHOWN]
        )
        raise SchemaError(f"no column can be described: {reasons}")

    usable_names = {column.name for column in usable_columns}
    return Schema(
        columns=usable_columns,
        label=label if label in usable_names else None,
        missing_values=missing_values,
        ignore=tuple(entry.name for entry in entries if entry.name not in usable_names),
    )


def drafted_text(
    entries: Sequence[DraftedColumn],
    *,
    top: Mapping[str, Any],
    constraints: Sequence[Mapping[str, Any]] = (),
    constraint_reasons: Sequence[str] = (),
    relations: Sequence[Mapping[str, Any]] = (),
    relation_reasons: Sequence[str] = (),
    remarks: Iterable[str] = (),
    table_path: Sequence[str] = (),
) -> str:
    """Writes a drafted schema file.

    Args:
        entries: The drafted columns, in the order of the data.
        top: Keys above the columns, such as `label`; its `ignore` lists columns that
            are ignored beside those of `entries`.
        constraints: Forms of the constraints.
        constraint_reasons: Why each constraint is proposed, in the same order.
        relations: Forms of the relations.
        relation_reasons: Why each relation is proposed, in the same order.
        remarks: Sentences that are written as comments at the end.
        table_path: Names of the TOML table below which all of it stands, such as
            `("tables", "visits")`.

    Returns:
        TOML text. Empty values are left out, but for `missing_values`: an empty list of
        these is no default.
    """
    ignored = [entry.name for entry in entries if entry.is_ignored]
    form: dict[str, Any] = dict(top)
    form["ignore"] = [*ignored, *top.get("ignore", [])]
    form["columns"] = {entry.name: entry.form for entry in entries}
    form["relations"] = list(relations)
    form["constraints"] = list(constraints)

    text = write_toml(
        {key: value for key, value in form.items() if value or key == "missing_values"},
        column_comments={entry.name: entry.comments for entry in entries},
        constraint_comments=[[reason] for reason in constraint_reasons],
        relation_comments=[[reason] for reason in relation_reasons],
        commented_out=ignored,
        table_path=table_path,
    )
    remark_lines = comment_lines(remarks)
    return f"{text}\n{remark_lines}" if remark_lines else text


def comment_lines(sentences: Iterable[str]) -> str:
    """Writes sentences as TOML comments, each wrapped by itself; "" for none."""
    lines = [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, COMMENT_WIDTH)
    ]
    return "".join(f"# {line}\n" for line in lines)
