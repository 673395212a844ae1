"""A first draft of a schema, from a file that its owner has declared public.

Never from private data: bounds and levels are copied from the records::

    file or table ──► cells ──► entries, a `DraftedColumn` each ──► schema ──► rules
                        ╰─► words for missing values                  ╰─── Draft

No column stops a draft: a column that cannot be used is ignored, with the reason. If
all cells of a column are numbers or dates, except those with one or two words, the
column is one of numbers or dates, and the words are missing values.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.app.drafts.dependencies import MAX_COLUMNS
from noisegate.app.drafts.drafted import (
    OPEN,
    DraftedColumn,
    drafted_text,
    reasons_by_ignored,
    schema_of_entries,
    vocabulary,
)
from noisegate.app.drafts.formats import draft_formatted
from noisegate.app.drafts.identifiers import (
    draft_identifier,
    draft_long_code,
    draft_reference,
    draft_repeated_identifier,
)
from noisegate.app.drafts.limits import draft_with_limits, without_limits
from noisegate.app.drafts.mixtures import draft_mixture
from noisegate.app.drafts.namibia import NA, holds_na, na_comment
from noisegate.app.drafts.numbers import draft_number
from noisegate.app.drafts.records import remarks_on_records
from noisegate.app.drafts.rules import Rules, find_rules
from noisegate.app.drafts.stored import (
    Categories,
    declared_types,
    draft_categories,
    widen_numbers,
    with_stored_form,
)
from noisegate.app.drafts.texts import draft_boolean, draft_text
from noisegate.app.drafts.times import draft_time
from noisegate.app.public_files import find_public_form, read_public_table
from noisegate.errors import DataError, SchemaError
from noisegate.gate.discovery.raw import raw_kind_of
from noisegate.schema import DEFAULT_MISSING_VALUES, FileForm, Schema
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.encode import encode, strip_cells
from noisegate.schema.file_form import PLAIN_CSV
from noisegate.schema.layout import bounds_of
from noisegate.schema.parsing import is_text
from noisegate.sources.frames import read_table
from noisegate.sources.headers import (
    VALUE_PATTERN,
    check_first_line,
    check_unique_names,
    record_values,
)
from noisegate.sources.tables.csv_file import TextLayout
from noisegate.sources.tables.memory import to_arrow
from noisegate.sources.tables.tables import Origin, open_origins

# Words that usually stand for a missing value do so in a column of numbers or dates.
_MISSING_WORDS: frozenset[str] = frozenset(vocabulary("missing_words"))
# Other words do if they are so few, beside so many different numbers or dates.
_MAX_OTHER_WORDS = 2
_MIN_VALUES_BESIDE_WORDS = 10

# Values by which a first line looks like a record, in a message.
_MAX_VALUES_SHOWN = 3
# It does if so many of its fields look like values of their columns.
_MIN_RECORD_VALUES = 1 / 3

# More records are thinned out before rules are looked for.
_MAX_RULE_RECORDS = 200_000


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema drafted from a public file, and why it states what it states.

    Attributes:
        schema: What was drafted. Columns that nobody should use as they are stand under
            its `ignore`.
        entries: The columns with the reasons, in the order of the file.
        rules: The constraints with their reasons, and what else holds in all records.
        record_remarks: On rows that look like no records, such as totals, and on
            columns that look like survey weights.
    """

    schema: Schema
    entries: tuple[DraftedColumn, ...]
    rules: Rules
    record_remarks: tuple[str, ...] = ()

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, with the reason."""
        return reasons_by_ignored(self.entries)

    def toml(
        self,
        *,
        table_path: Sequence[str] = (),
        extra_keys: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Writes the schema file, with the reasons as comments.

        Args:
            table_path: Names of the TOML table below which all of it stands.
            extra_keys: Keys at its top beside those of the schema.
        """
        form = self.schema.form()
        top = dict(extra_keys)
        for key in ("label", "missing_values", "file"):
            if key in form:
                top[key] = form[key]
        return drafted_text(
            self.entries,
            top=top,
            constraints=form.get("constraints", ()),
            constraint_reasons=self.rules.reasons,
            relations=form.get("relations", ()),
            relation_reasons=[drafted.reason for drafted in self.rules.relations],
            remarks=(*self.record_remarks, *self.rules.remarks),
            table_path=table_path,
        )


@dataclass(frozen=True)
class PublicTable:
    """The columns of a public table, as they are read.

    Attributes:
        name: What messages call the table.
        table: The columns that Arrow can hold.
        unreadable_types: The type of each other column, by its name.
        form: How its text file is written.
    """

    name: str
    table: pa.Table
    unreadable_types: Mapping[str, str]
    form: FileForm = PLAIN_CSV


def draft_schema(
    public: Any, label: str | None = None, *, form: FileForm | None = None
) -> Schema:
    """Drafts a schema from *public* records, as `noisegate schema init` does.

    Bounds and levels are copied from the records without noise. Never use this function
    on private records; use `discover_schema` for them, which spends budget.

    A `UserWarning` lists the columns that the draft ignores, with reasons: identifiers,
    free text and others that no model should use. Another `UserWarning` lists rows that
    do not look like records.

    Args:
        public: A table of any kind that `noisegate.fit` accepts, or the path of a
            public file.
        label: Name of the column to be predicted from the others, or None.
        form: Format of a text file, or sheet of a workbook; None detects it.

    Returns:
        The schema, with the reasons for each choice. Ignored columns are listed under
        `ignore`.

    Raises:
        DataError: if the records cannot be read, or there are none.
        SchemaError: if no column can be used, or `label` names no column that can be
            predicted.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import draft_schema
        >>> jobs = ["nurse", "baker", "nurse"]
        >>> schema = draft_schema(pa.table({"age": [18, 35, 62], "job": jobs}))
        >>> schema.column("age").upper, schema.column("job").levels
        (70, ('baker', 'nurse'))
        >>> schema.review()  # what was guessed, and why
        Schema: 2 columns
          age  integer, 10 to 70
          job  categorical, 2 levels
    """
    drafted = draft(public, label=label, form=form)
    for warning in (drafted.schema.omissions, *drafted.record_remarks):
        if warning is not None:
            warnings.warn(warning, UserWarning, stacklevel=2)
    return drafted.schema


def draft(
    public: Any,
    label: str | None = None,
    *,
    form: FileForm | None = None,
    keys: Collection[str] = (),
) -> Draft:
    """Drafts a schema, with the reasons, from a *public* file or table.

    Numbers that are only 0 and 1, and a label of few distinct integers, become
    categorical; numbers with leading zeros are codes, and become text. Identifiers,
    free text and whatever else cannot be used as it is are ignored, with the reason and
    what to do about it. A sample that is large enough also shows steps, atoms and
    constraints.

    Args:
        public: A path, or a table in memory.
        label: Name of the column to be predicted from the others, or None.
        form: How a text file is written; None to find it out.
        keys: Columns that link tables, and are not drafted.

    Raises:
        DataError: if the records cannot be read, or there are none.
        SchemaError: if no column can be used, or `label` is no column, or none that can
            be predicted.
    """
    records = read_public(public, form)
    table = records.table
    if not table.num_rows and table.column_names:
        raise DataError(f"{records.name}: there are no records to draft a schema from")
    all_names = {*table.column_names, *records.unreadable_types}
    if label is not None and label not in all_names:
        raise SchemaError(
            f"label {label!r} is not a column of {records.name}: "
            f"{', '.join(table.column_names)}"
        )

    names = [name for name in table.column_names if name not in keys]
    cells = {name: table[name].combine_chunks() for name in names}
    missing_values = _missing_values(cells, label)
    entries = (
        *_draft_columns(public, table, cells, missing_values, label),
        *(
            _without_kind(name, type_name)
            for name, type_name in records.unreadable_types.items()
        ),
    )
    _check_label(entries, label)
    schema = schema_of_entries(entries, label=label, missing_values=missing_values)
    record_remarks = (*remarks_on_records(cells), *_remarks_on_weights(schema))
    rules = _rules(table, schema)
    schema = replace(
        schema,
        relations=tuple(drafted.relation for drafted in rules.relations),
        constraints=rules.constraints,
        file=records.form,
        reasons=_reasons(entries, rules, record_remarks),
    )
    return Draft(
        schema=schema.usable(),
        entries=entries,
        rules=rules,
        record_remarks=record_remarks,
    )


def _remarks_on_weights(schema: Schema) -> list[str]:
    """Returns remarks on columns that may be survey weights, by name and values."""
    pattern = re.compile(vocabulary("survey_weights"))
    return [
        f"{column.name!r} looks like survey weights; if it is, add weights = "
        f'"{column.name}" at the top of the schema, for shares and means of the '
        "population"
        for column in schema.columns
        if pattern.fullmatch(column.name.lower())
        and column.numeric
        and column.unit is None
        and not column.missing
        and bounds_of(column)[0] >= 0
    ]


def read_public(public: Any, form: FileForm | None = None) -> PublicTable:
    """Reads a public table, without the columns that Arrow cannot hold.

    Args:
        public: A path, or a table in memory; only such a one can have columns that
            Arrow cannot hold.
        form: How a text file is written; None to find it out.

    Raises:
        DataError: if the records cannot be read, or the header cannot be right.
    """
    name = Path(public).name if isinstance(public, str | Path) else "the table"
    try:
        if form is None:
            form = find_public_form(public)
        _, origins = open_origins(public, layout=TextLayout(form=form))
        for origin in origins:
            columns = [column for column, _ in origin.columns()]
            check_first_line(columns, origin.name)
            _check_repeated_values(columns, origin)
            check_unique_names(columns, origin.name)
        table = read_public_table(public, form)
        if not origins[0].has_types:
            _check_header(table, name)
        return PublicTable(name, table, {}, form)
    except DataError:
        has_columns = isinstance(public, Mapping) or hasattr(public, "columns")
        if isinstance(public, str | Path) or not has_columns:
            raise
        cells_by_name = {
            column: public[column] for column in getattr(public, "columns", public)
        }
        types = {
            str(column): _unreadable_type(cells)
            for column, cells in cells_by_name.items()
        }
        unreadable_types = {
            column: type_name
            for column, type_name in types.items()
            if type_name is not None
        }
        if not unreadable_types:
            raise
    readable_cells = {
        column: cells
        for column, cells in cells_by_name.items()
        if str(column) not in unreadable_types
    }
    return PublicTable(name, read_table(readable_cells), unreadable_types)


def _check_repeated_values(columns: Sequence[str], origin: Origin) -> None:
    """Refuses a first line in which a value stands twice, as in a record.

    Raises:
        DataError: for a text file with such a line.
    """
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if not origin.has_types and any(map(VALUE_PATTERN.fullmatch, repeated)):
        raise _record_as_header_error(origin.name, repeated)


def _check_header(table: pa.Table, name: str) -> None:
    """Refuses a text file whose first line looks like one of its records.

    Args:
        table: What was read, with the fields of the first line as names of columns.
        name: What messages call the file.

    Raises:
        DataError: if it does, or if lines below repeat the names of the columns.
    """
    is_repeated_header = np.ones(table.num_rows, dtype=np.bool_)
    for column in table.column_names:
        trimmed = pc.utf8_trim(table[column].cast(pa.string()), TEXT_PADDING)
        is_name = pc.equal(trimmed, column).fill_null(False)
        is_repeated_header &= is_name.to_numpy()
        if not is_repeated_header.any():
            break
    records = table.filter(pa.array(~is_repeated_header)).slice(0, _MAX_RULE_RECORDS)
    cells_by_name = {
        column: records[column].combine_chunks() for column in records.column_names
    }
    values = record_values(cells_by_name)
    # A single word may be a name and a value, as "ja" is of a column of ja and nein.
    is_clear = len(values) > 1 or any(re.search("[0-9]", value) for value in values)
    if is_clear and len(values) >= _MIN_RECORD_VALUES * table.num_columns:
        raise _record_as_header_error(name, values)
    # Where columns hold their names alone, these are marks of what was chosen.
    are_marks = all(
        set(pc.unique(cells).to_pylist()) <= {column, "", None}
        for column, cells in cells_by_name.items()
    )
    if is_repeated_header.any() and not are_marks:
        raise DataError(
            f"{name}: record {int(np.argmax(is_repeated_header)) + 1} repeats the names "
            f"of the columns, as {int(is_repeated_header.sum()):,} do; remove such lines"
        )


def _record_as_header_error(name: str, values: Sequence[str]) -> DataError:
    """Returns the error of a text file without a header; its first line is public."""
    return DataError(
        f"{name}: the first line looks like a record, by "
        f"{', '.join(map(repr, values[:_MAX_VALUES_SHOWN]))}; write the names of the "
        "columns into the first line"
    )


def _check_label(entries: Sequence[DraftedColumn], label: str | None) -> None:
    """Requires that the column to be predicted, if there is one, is not ignored."""
    for entry in entries:
        if entry.name == label and entry.is_ignored:
            raise SchemaError(
                f"label {label!r} cannot be predicted as it is: "
                f"{' '.join(entry.comments)}"
            )


def _unreadable_type(cells: Any) -> str | None:
    """Returns the type of a column that Arrow cannot hold; None if it can.

    Args:
        cells: The column in its own library; of a categorical one, its categories are
            examined.

    Returns:
        The dtype, such as "period[M]"; of Python objects their classes.
    """
    try:
        to_arrow("", cells)
    except DataError:
        values = getattr(getattr(cells, "cat", cells), "categories", cells)
        dtype = str(getattr(values, "dtype", "object"))
        if dtype != "object":
            return dtype
        return " and ".join(sorted({type(cell).__name__ for cell in cells}))
    return None


def _missing_values(
    cells_by_name: Mapping[str, pa.Array], label: str | None
) -> tuple[str, ...]:
    """Returns the texts that are read as missing, in all columns of a table.

    A label is never missing, so its words do not count. "NA" is not among them in a
    column of country codes, if it is in no other column.
    """
    words = {
        word
        for name, cells in cells_by_name.items()
        if name != label
        for word in _words_for_missing(name, cells)
    }
    namibian_columns = [
        name for name, column_cells in cells_by_name.items() if holds_na(column_cells)
    ]
    markers: tuple[str, ...] = DEFAULT_MISSING_VALUES
    if namibian_columns and not any(
        _holds_text(column_cells, NA)
        for name, column_cells in cells_by_name.items()
        if name not in namibian_columns
    ):
        markers = tuple(marker for marker in markers if marker != NA)
    return (*markers, *sorted(words))


def _holds_text(cells: pa.Array, text: str) -> bool:
    """Returns whether one of the cells is a text, but for blanks around it."""
    stripped, _ = strip_cells(cells, pa.array([], pa.string()))
    return is_text(stripped.type) and pc.index(stripped, text).as_py() >= 0


def _words_for_missing(name: str, cells: pa.Array) -> list[str]:
    """Returns the words in a column that is otherwise of numbers or dates.

    Args:
        name: Name of the column.
        cells: All its cells, (records,).

    Returns:
        The words, such as "unknown", in alphabetical order; empty if they may mean
        something else, or if the other cells are no numbers or dates.
    """
    if not is_text(cells.type):
        return []
    stripped, is_present = strip_cells(cells, pa.array(DEFAULT_MISSING_VALUES))
    present_cells = without_limits(stripped.filter(pa.array(is_present)))
    values = present_cells.unique()
    is_number_like = pc.match_substring_regex(values, r"[0-9]|^[+-]?(?i:inf|infinity)$")
    word_values = values.filter(pc.invert(is_number_like))
    words = sorted(word_values.to_pylist())
    other_value_count = len(values) - len(words)
    are_few = (
        len(words) <= _MAX_OTHER_WORDS and other_value_count >= _MIN_VALUES_BESIDE_WORDS
    )
    are_usual = {word.lower() for word in words} <= _MISSING_WORDS
    if not words or not other_value_count or not (are_few or are_usual):
        return []

    is_word = pc.is_in(present_cells, value_set=word_values)
    other_cells = present_cells.filter(pc.invert(is_word))
    entry = (
        draft_formatted(name, other_cells, missing=True)
        or draft_number(name, other_cells, missing=True, is_label=False)
        or draft_time(name, other_cells, missing=True)
    )
    if entry is None or entry.is_ignored:
        return []
    return words


def _draft_columns(
    public: Any,
    table: pa.Table,
    cells_by_name: Mapping[str, pa.Array],
    missing_values: tuple[str, ...],
    label: str | None,
) -> list[DraftedColumn]:
    """Drafts the columns of a table.

    Args:
        public: The path or table that was read.
        table: All its columns, keys too, to which others may refer.
        cells_by_name: The columns to be drafted.
        missing_values: Texts that stand for a missing value.
        label: Name of the column to be predicted, or None.
    """
    declared = declared_types(public, table.select(list(cells_by_name)))
    entries = []
    for name, cells in cells_by_name.items():
        entry = draft_reference(name, table)
        if entry is None:
            entry = _draft_column(
                name,
                cells,
                missing_values,
                declared_type=declared.types.get(name),
                categories=declared.categories.get(name),
                is_label=name == label,
            )
        entries.append(entry)
    return entries


def _draft_column(
    name: str,
    cells: pa.Array,
    missing_values: tuple[str, ...],
    *,
    declared_type: pa.DataType | None,
    categories: Categories | None,
    is_label: bool,
) -> DraftedColumn:
    """Drafts a column from all its cells.

    Args:
        name: Name of the column.
        cells: Its cells, (records,).
        missing_values: Texts that stand for a missing value.
        declared_type: Arrow type that the file declares, or None.
        categories: Categories that the file declares, or None.
        is_label: Whether the column is to be predicted.
    """
    missing_markers = pa.array(missing_values)
    stripped, is_present = strip_cells(cells, missing_markers)
    is_null_type = pa.types.is_null(stripped.type)
    if raw_kind_of(stripped.type) is None and not is_null_type:
        return _without_kind(name, stripped.type)
    present_cells = widen_numbers(stripped.filter(pa.array(is_present)))
    has_nan = pa.types.is_floating(present_cells.type) and bool(
        pc.any(pc.is_nan(present_cells)).as_py()
    )
    missing = has_nan or not is_present.all()

    entry = None
    if categories is not None:
        may_be_identifier = not is_label and not categories.is_ordered
        if may_be_identifier:
            entry = draft_repeated_identifier(name, present_cells)
        if may_be_identifier and entry is None:
            entry = draft_identifier(name, present_cells)
        if entry is None:
            entry = draft_categories(name, categories, missing_markers, missing=missing)
    if entry is None:
        entry = _draft_by_values(
            name, present_cells, missing=missing, is_label=is_label
        )
    entry = with_stored_form(entry, present_cells, declared_type)

    # Words that this sample alone shows to be marks of missing values.
    own_words = [word for word in missing_values if word not in DEFAULT_MISSING_VALUES]
    if holds_na(cells):
        entry = replace(
            entry,
            comments=(*entry.comments, na_comment(is_level=NA not in missing_values)),
        )
    if not is_text(stripped.type):
        return entry
    words_here = [word for word in own_words if pc.index(stripped, word).as_py() >= 0]
    if not words_here:
        return entry
    comment = (
        f"missing: {', '.join(map(repr, words_here))} is read as missing; remove "
        "it from missing_values if it is a value"
    )
    return replace(entry, comments=(*entry.comments, comment))


def _draft_by_values(
    name: str, cells: pa.Array, *, missing: bool, is_label: bool
) -> DraftedColumn:
    """Drafts a column by the first kind that fits all its values.

    Args:
        name: Name of the column.
        cells: Its cells without missing ones, (records,).
        missing: Whether a value may be missing.
        is_label: Whether the column is to be predicted; it is then no identifier, and
            has no format.
    """
    values = cells.unique()
    if not len(values):
        return DraftedColumn.left_out(
            name,
            "every value is missing, so nothing can be drafted; describe it by hand",
        )
    entry = draft_boolean(name, values, missing=missing)
    if entry is None:
        entry = draft_with_limits(name, cells, missing=missing, is_label=is_label)
    if entry is None and not is_label:
        entry = draft_repeated_identifier(name, cells)
    if entry is None and not is_label:
        entry = draft_formatted(name, cells, missing=missing)
    if entry is None and not is_label:
        entry = (
            draft_mixture(name, cells, missing=missing)
            or draft_long_code(name, cells)
            or draft_identifier(name, cells)
        )
    return (
        entry
        or draft_number(name, cells, missing=missing, is_label=is_label)
        or draft_time(name, cells, missing=missing)
        or draft_text(name, cells, missing=missing)
    )


def _without_kind(name: str, type_name: object) -> DraftedColumn:
    """Drafts a column of a type that no kind of column is drafted for."""
    if str(type_name).startswith("duration"):
        form = {"kind": "duration", "lower": OPEN, "upper": OPEN}
        return DraftedColumn.left_out(
            name, 'lengths of time; state bounds, such as "0 days" and "30 days"', form
        )
    return DraftedColumn.left_out(
        name, f"values of type {type_name} have no kind in a schema; convert them"
    )


def _rules(table: pa.Table, schema: Schema) -> Rules:
    """Finds the rules between the columns of a table, from a part of its records."""
    if len(schema.names) > MAX_COLUMNS:
        remark = (
            f"Constraints were not searched for: there are more than {MAX_COLUMNS} "
            "columns."
        )
        return Rules(remarks=(remark,))
    stride = -(-table.num_rows // _MAX_RULE_RECORDS)  # rounded up
    indices = pa.array(range(0, table.num_rows, stride))
    no_markers = pa.array([], pa.string())
    arrays = {}
    for name in schema.names:
        stripped, _ = strip_cells(table[name].combine_chunks(), no_markers)
        arrays[name] = widen_numbers(stripped).take(indices)
    records = encode(arrays, schema)
    return find_rules(records, schema, with_relations=True)


def _reasons(
    entries: Sequence[DraftedColumn], rules: Rules, record_remarks: Sequence[str]
) -> dict[str, str]:
    """Returns the reasons of a draft, by column or constraint; remarks have none."""
    reasons = {
        entry.name: "; ".join(entry.comments).removeprefix(f"{entry.name}: ")
        for entry in entries
    }
    for drafted in rules.relations:
        reasons[str(drafted.relation)] = drafted.reason
    for constraint, reason in zip(rules.constraints, rules.reasons, strict=True):
        reasons[str(constraint)] = reason
    for remark in (*record_remarks, *rules.remarks):
        reasons[remark] = ""
    return reasons
