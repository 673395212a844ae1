"""A schema file that is being written: each column as far as it is known, the reason, and what is left to state."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.errors import SchemaError
from noisegate.schema import Boolean, Categorical
from noisegate.schema.columns import Column, Problem, column_form, column_from_form
from noisegate.schema.encode import is_text, normalized_names
from noisegate.schema.files import first_invisible, write_toml
from noisegate.schema.schema import Schema

OPEN = ...  # stands in a form for a value that is still to be stated; the file has an empty comment for it

_MOST_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class DraftedColumn:
    """What a drafted file says of one column."""

    name: str  # as the data has it
    form: Mapping[str, Any]
    """Kind, bounds, levels and so on, as a schema file holds them; `OPEN` where one is to be stated."""
    why: tuple[
        str, ...
    ] = ()  # comments above it: what it is, why it is described so, what to do
    ignored: bool = (
        False  # it stands under ``ignore``, and what might be said of it is a comment
    )

    @classmethod
    def of(cls, column: Column, why: Iterable[str] = ()) -> DraftedColumn:
        """Returns the entry of a column of which all is known; ignored, where no schema can show its levels."""
        levels = getattr(column, "levels", ())
        odd = next(
            (
                level
                for level in levels
                if isinstance(level, str) and first_invisible(level)
            ),
            None,
        )
        if odd is None:
            return cls(name=column.name, form=column_form(column), why=tuple(why))
        return cls.left_out(
            column.name,
            f"the level {odd!a} holds a character that cannot be seen; remove it",
        )

    @classmethod
    def left_out(
        cls, name: str, reason: str, form: Mapping[str, Any] | None = None
    ) -> DraftedColumn:
        """Returns the entry of a column that is not used until somebody decides; ``form`` is what it might become."""
        back = (
            "; then take its name out of `ignore` and the marks # off these lines"
            if form
            else ""
        )
        return cls(
            name=name,
            form=form or {},
            why=(f"{name}: ignored: {reason}{back}",),
            ignored=True,
        )

    @property
    def is_open(self) -> bool:
        """Whether something is still to be stated before a fit can use it."""
        return not self.ignored and OPEN in self.form.values()

    @property
    def column(self) -> Column | None:
        """The column, if all is known of it and it is used."""
        return (
            None
            if self.ignored or self.is_open
            else column_from_form(self.name, self.form)
        )


def schema_of(
    entries: Sequence[DraftedColumn], label: str | None = None, **more: Any
) -> Schema:
    """Returns the schema of the columns of which all is known, others ignored; a SchemaError, with reasons, if none."""
    columns = tuple(column for entry in entries if (column := entry.column) is not None)
    if not columns:
        shown = "; ".join(" ".join(entry.why) for entry in entries[:_MOST_SHOWN])
        raise SchemaError(f"no column can be described: {shown}")
    known = {column.name for column in columns}
    left = tuple(entry.name for entry in entries if entry.name not in known)
    return Schema(
        columns=columns, label=label if label in known else None, ignore=left, **more
    )


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
    form |= {
        "columns": {entry.name: entry.form for entry in entries},
        "constraints": [one for one, _ in constraints],
    }
    text = write_toml(
        {key: value for key, value in form.items() if value or key == "missing_values"},
        column_comments={entry.name: entry.why for entry in entries},
        constraint_comments=[[reason] for _, reason in constraints],
        commented_out={entry.name for entry in entries if entry.ignored},
        table_path=prefix,
    )
    lines = [line for remark in remarks for line in textwrap.wrap(remark, 118)]
    return text + "\n" * bool(lines) + "".join(f"# {line}\n" for line in lines)


MAX_LEVELS = 200  # text with more distinct values than this is taken for free text or identifiers

# So many values at least, no two of them alike, are identifiers, and so many of several words free text.
_LEAST_IDENTIFIERS = 30
_FREQUENT, _MOST_FREQUENT = 10, 50
_WORDS = 3
_OTHER = "other"
_LEAST_FOUND = 0.9
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def vocabulary(name: str) -> Any:
    """Returns the words of one sort by which public files are read."""
    return tomllib.loads(
        resources.files(__package__).joinpath("vocabulary.toml").read_text("utf-8")
    )[name]


def draft_boolean(
    name: str, values: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Returns the entry of a column whose distinct values are truth values; None if they are none."""
    if not is_text(values.type):
        return (
            DraftedColumn.of(Boolean(name=name, missing=missing))
            if pa.types.is_boolean(values.type)
            else None
        )
    words = values.to_pylist() if len(values) < 20 else [""]
    lowered = {word.lower() for word in words}
    if lowered <= {"true", "false"}:
        return DraftedColumn.of(Boolean(name=name, missing=missing))
    true, false = next(
        (pair for pair in vocabulary("truths") if lowered == {*pair}), ("", "")
    )
    if not true:
        return None
    said = {
        key: [each for each in words if each.lower() == one]
        for key, one in (("true", true), ("false", false))
    }
    column = Boolean(
        name=name,
        missing=missing,
        true_values=tuple(said["true"]),
        false_values=tuple(said["false"]),
    )
    return DraftedColumn.of(
        column, [f"true_values: {true!r} and {false!r} are taken for true and false"]
    )


def draft_identifier(name: str, cells: pa.Array) -> DraftedColumn | None:
    """Returns the entry of a column of identifiers, where every record has a value of its own; None if it is none."""
    if len(cells) < _LEAST_IDENTIFIERS or pc.count_distinct(cells).as_py() < len(cells):
        return None
    if not is_text(cells.type) and not pa.types.is_integer(cells.type):
        return None
    if is_text(cells.type) and not _all(cells, r"^[+-]?[0-9]+$"):
        if _all(cells, r"^[0-9+.,:TZ/ -]+$"):
            return None  # decimals, dates, moments
    elif not called_id(name) and not _counts_on(cells):
        return None
    reason = f"each of the {len(cells):,} values is there once, as in an identifier, which must not be learnt"
    return DraftedColumn.left_out(name, reason)


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def called_id(name: str) -> bool:
    """Returns whether a column is called as identifiers are."""
    return (
        re.search(vocabulary("identifiers"), _CAMEL.sub("_", name).lower()) is not None
    )


def draft_reference(name: str, table: pa.Table) -> DraftedColumn | None:
    """Returns the entry of a column that names another record of its own table, such as reports_to; None if none."""
    if not re.search(vocabulary("references"), _CAMEL.sub("_", name).lower()):
        return None
    named: dict[str, pa.Array] = {}
    for column in table.column_names:
        with suppress(Problem):  # of a type that names nothing
            named[column] = normalized_names(
                table[column].combine_chunks(), column
            ).cast(pa.binary())
    cells = named.pop(name, pa.nulls(0)).drop_null()
    keys = [
        key
        for key, one in named.items()
        if pc.count_distinct(one, mode="all").as_py() == len(one)
    ]
    shares = {
        key: pc.mean(pc.is_in(cells, value_set=named[key]).cast(pa.float64())).as_py()
        or 0.0
        for key in keys
    }
    key = next((key for key, share in shares.items() if share >= _LEAST_FOUND), None)
    if key is None:
        return None
    reason = (
        f"it names another record of the same table, by {key}, and a copy has none such"
    )
    cure = "if that matters, write what is known of the other record into columns of this one"
    return DraftedColumn.left_out(name, f"{reason}; {cure}")


def _counts_on(cells: pa.Array) -> bool:
    try:
        numbers = np.sort(cells.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return False
    # Drawn from so narrow a range, so many numbers that measure something would not all differ (a chance below 10⁻⁶).
    wide = float(numbers[-1]) - float(numbers[0])
    return bool(
        (numbers[0] in (0, 1) and wide == len(numbers) - 1)
        or len(numbers) ** 2 > 30 * (wide + 1)
    )


def draft_text(name: str, cells: pa.Array, *, missing: bool) -> DraftedColumn:
    """Returns the entry of a column of levels; ignored, with what it might become, where they are too many."""
    values = pc.unique(cells)
    words = float(np.median([len(level.split()) for level in values.to_pylist()]))
    if words > _WORDS and len(values) >= _LEAST_IDENTIFIERS:
        return DraftedColumn.left_out(
            name, f"{len(values):,} distinct texts: free text, which must not be learnt"
        )
    if len(values) <= MAX_LEVELS:
        return DraftedColumn.of(
            Categorical(
                name=name, levels=tuple(sorted(values.to_pylist())), missing=missing
            )
        )
    counts = sorted(
        ((one["counts"], one["values"]) for one in pc.value_counts(cells).to_pylist()),
        reverse=True,
    )
    frequent = sorted(
        level
        for count, level in counts[:_MOST_FREQUENT]
        if count >= _FREQUENT and not first_invisible(level)
    )
    reason = f"{len(values):,} distinct texts, more than {MAX_LEVELS}: free text, or a code with many values"
    if not frequent:
        return DraftedColumn.left_out(name, reason)
    other = _OTHER if _OTHER not in frequent else f"({_OTHER})"
    form = {"kind": Categorical.kind, "levels": [*frequent, other], "other": other}
    reason += (
        f". If the {len(frequent)} most frequent are worth keeping, read them through"
    )
    return DraftedColumn.left_out(
        name, reason, form | ({"missing": True} if missing else {})
    )
