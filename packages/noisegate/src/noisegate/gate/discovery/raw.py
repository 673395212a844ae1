"""A private table before there is a schema.

The kind of each column, such as integer or date, is declared by the caller, and its
cells are read in that kind. Kinds are never taken from the types of the data: programs
choose types by values, and so by private records. For example, pandas stores a column
of integers as floats as soon as one record has no value.

How to read it: `RawTable.describe_columns` says what is public of the columns,
`RawTable.batches` reads them, and `columns_file` begins a file of public facts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import DataError, OptionError, SchemaError, said
from noisegate.gate.discovery.partial import (
    EVERY_OTHER,
    KINDS,
    MOMENT_IN_UTC,
    OPEN_KIND,
    Gap,
    PartialSchema,
    column_of_kind,
    read_partial,
)
from noisegate.schema import Column
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import Problem, unfit_type
from noisegate.schema.encode import read_cells, strip_cells
from noisegate.schema.file_form import PLAIN_CSV, FileForm, number_columns
from noisegate.schema.files import write_toml
from noisegate.schema.parsing import describe_type, is_text, parse_integers
from noisegate.sources.headers import (
    VALUE_PATTERN,
    check_first_line,
    check_same_columns,
    check_unique_names,
    record_values,
)
from noisegate.sources.tables.csv_file import (
    NO_LAYOUT,
    CsvFile,
    TextLayout,
)
from noisegate.sources.tables.tables import (
    Origin,
    call_with_location,
    open_origins,
    with_form_hint,
)

RawCells: TypeAlias = tuple[npt.NDArray[Any] | pa.Array, int]
"""Cells of some records in one column: the values of those that are not missing, as
float64, as int64 (integers; days or microseconds since 1970) or as text; and how many
are missing."""

# Records that are read at a time.
_BATCH_ROWS = 32768
# Columns that a message names at most; with more, nobody would type them all.
_MAX_QUOTED_NAMES = 100
# The kind of column that is suggested for an Arrow type: that of the first test that
# succeeds.
_KINDS_BY_TYPE_TEST: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_text, "categorical"),
    (pt.is_boolean, "boolean"),
    (pt.is_integer, "integer"),
    (pt.is_floating, "continuous"),
    (pt.is_decimal, "continuous"),
    (pt.is_date, "date"),
)


class RawTable:
    """Private records in files or in memory, without a schema.

    The constructor reads the headers of files, and no record. If a text file has no
    header, its first line is a record. So messages of the constructor quote names of
    columns in a text file only with `show_values`.

    Args:
        source: Path of a file or folder, or a table in memory.
        show_values: Whether errors may quote private values.
        layout: What is public of text files; by default, that they are plain CSV.

    Raises:
        DataError: if the files have different columns, a column is named twice or not
            at all, or the first line has another separator than commas.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.gate.discovery.raw import RawTable
        >>> table = RawTable(pa.table({"age": [41, 17], "sex": ["f", "m"]}))
        >>> table.names, table.is_typed
        (('age', 'sex'), True)
    """

    def __init__(
        self,
        source: str | Path | Any,
        *,
        show_values: bool = False,
        layout: TextLayout = NO_LAYOUT,
    ) -> None:
        self._show_values = show_values
        self._layout = layout
        self.name, self._origins = open_origins(source, layout=layout)
        with with_form_hint(self._origins[0]):
            self._check_headers()

    def _check_headers(self) -> None:
        """Reads the headers of all files, and requires that they can be right."""
        # Name of each file, and names of its columns.
        headers = [
            (origin.name, [name for name, _ in origin.columns()])
            for origin in self._origins
        ]
        # In Parquet, names are stored apart from records. In text, the names may be a
        # record, and there is no schema to compare them with.
        may_quote = self._show_values or self.is_typed
        check_same_columns(headers, show_names=may_quote)
        for file_name, column_names in headers:
            check_unique_names(column_names, file_name, show_names=may_quote)
        # The Arrow type of each column, by name, in the first file. All files have the
        # same names, maybe in another order. The types decide on no kind.
        self._types = dict(self._origins[0].columns())
        check_first_line(self.names, self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the first file.

        In a text file without a header they are values of a record, see
        `may_quote_names`.
        """
        return tuple(self._types)

    @property
    def is_typed(self) -> bool:
        """Whether names and types are stored apart from the records, as in Parquet."""
        return self._origins[0].has_types

    def may_quote_names(self, described: Mapping[str, Any]) -> bool:
        """Returns whether a message may quote the names of columns.

        The first line of a text file may be a record, unless one of its names is that
        of a described column.

        Args:
            described: Public descriptions of columns, by name.
        """
        has_described_name = any(name in described for name in self.names)
        return self._show_values or self.is_typed or has_described_name

    def has_record_as_header(self) -> bool:
        """Returns whether the first line of a text file looks like one of its records.

        It does if the name of a column is also a value in that column, or a code like
        those in it, in the first batch of records. These records are read, but nothing
        else is told of them.
        """
        for origin in self._origins:
            if origin.has_types:
                continue
            first_batch = next(iter(origin.batches(self.names, _BATCH_ROWS)), {})
            for name, cells in first_batch.items():
                if not is_text(cells.type):
                    continue
                is_name = pc.equal(pc.utf8_trim(cells, TEXT_PADDING), name)
                if pc.any(is_name).as_py():
                    return True
            if record_values(first_batch):
                return True
        return False

    def describe_columns(
        self, kinds: Mapping[str, str], path: Path | None, label: str | None
    ) -> PartialSchema:
        """Collects the public facts about every column that the caller has stated.

        Args:
            kinds: Kinds of columns by name, where "*" stands for all columns without
                another description. They overrule the file.
            path: File of public facts, TOML; None for none.
            label: Name of the label; None for that of the file.

        Returns:
            The stated facts, with the columns in the order of the data.

        Raises:
            OptionError: if a column has no kind.
            SchemaError: if a column is described but not in the data.
        """
        stated_columns, final_label, missing_values = read_partial(
            path, kinds, label=label
        )
        # A column that the file ignores may be absent from the data; one whose kind is
        # given by name may not.
        required_names = [
            name
            for name, column in stated_columns.items()
            if column is not None or name in kinds
        ]
        absent_names = [name for name in required_names if name not in self.names]
        described: dict[str, Column | Gap | None] = {}
        if EVERY_OTHER in kinds:
            described = {
                name: column_of_kind(
                    name, kinds[EVERY_OTHER], missing=name != final_label
                )
                for name in self.names
                if name not in stated_columns
            }
        described |= stated_columns
        undescribed_names = [name for name in self.names if name not in described]
        # First, since the other two messages quote names, which may be a record.
        if undescribed_names and not self.may_quote_names(described):
            raise OptionError(
                f"{self.name}: none of the {len(self.names)} fields of the first line "
                "has a kind. Kinds are not guessed from private values: give them as "
                f"public knowledge, one of {', '.join(KINDS)} each, by "
                f"{said('kinds')}, such as age=integer,sex=categorical. Names are not "
                "shown, since the first line of a file without a header is a record; "
                f"{said('show_values')} shows them."
            )
        if absent_names:
            raise SchemaError(
                f"{self.name}: column {', '.join(map(repr, absent_names))} is "
                "described but not in the data; correct the name"
            )
        if undescribed_names:
            raise self._missing_kinds_error(undescribed_names)
        partial_schema = PartialSchema(
            columns={name: described[name] for name in self.names},
            label=final_label,
            missing_values=missing_values,
            file=self._layout.form,
        )
        self._read_numbers_of(partial_schema)
        return partial_schema

    def _read_numbers_of(self, partial_schema: PartialSchema) -> None:
        """Has numbers in text files read as these are written, where kinds are numbers.

        Args:
            partial_schema: The public facts about all columns.
        """
        readers = {
            name: column.reader if isinstance(column, Gap) else column
            for name, column in partial_schema.columns.items()
            if column is not None
        }
        layout = replace(
            self._layout,
            number_columns=number_columns(readers.values()),
            missing_values=partial_schema.missing_values,
        )
        self._origins = [
            replace(origin, layout=layout) if isinstance(origin, CsvFile) else origin
            for origin in self._origins
        ]

    def _missing_kinds_error(self, names: list[str]) -> OptionError:
        """Returns the error of columns without a kind, which quotes their names.

        The message has the option to type, such as ``age=...,sex=...``. If there are
        many columns, it names the first ones, with ``*=...`` for all others.

        Args:
            names: Names of all columns without a kind, at least one.
        """
        quoted_names = names[:_MAX_QUOTED_NAMES]
        quoted_text = ", ".join(map(repr, quoted_names))
        option_parts = [f"{name}=..." for name in quoted_names]
        unquoted_count = len(names) - len(quoted_names)
        if unquoted_count:
            quoted_text += f" and {unquoted_count:,} more"
            option_parts.append(f"{EVERY_OTHER}=...")
        option_value = ",".join(option_parts)
        return OptionError(
            f"{self.name}: no kind is given for {quoted_text}. Kinds are not guessed "
            "from private values, nor from types that a program chose by them: add "
            f'{said("kinds")} "{option_value}" with one of '
            f"{', '.join(KINDS)} for each, where {EVERY_OTHER} stands for all others; "
            f"or fill them into a file for {said('columns')}, which "
            "`noisegate schema init --names-of` begins."
        )

    def batches(
        self, gaps: tuple[Gap, ...], missing_values: tuple[str, ...]
    ) -> Iterator[Mapping[str, RawCells]]:
        """Reads some columns in constant memory, some thousand records at a time.

        Args:
            gaps: The columns, each with its declared kind.
            missing_values: Texts that stand for a missing value.

        Yields:
            The cells of some records, by name of the column.

        Raises:
            DataError: if there are no records, or a cell is not of its column's kind.
        """
        missing_markers = pa.array(missing_values, pa.string())
        names = [gap.name for gap in gaps]
        record_count = 0
        for origin in self._origins:
            rows_read = 0
            with with_form_hint(origin):
                for arrays in origin.batches(names, _BATCH_ROWS):
                    yield {
                        gap.name: self._read_located(
                            gap, arrays[gap.name], missing_markers, origin, rows_read
                        )
                        for gap in gaps
                    }
                    rows_read += len(arrays[names[0]])
            record_count += rows_read
        if not record_count:
            raise DataError(
                f"{self.name}: there are no records, only names of columns; expected "
                "at least one record"
            )

    def _read_located(
        self,
        gap: Gap,
        array: pa.Array,
        missing_markers: pa.Array,
        origin: Origin,
        rows_read: int,
    ) -> RawCells:
        """Reads the cells of one column; an error names the file and the line.

        Args:
            gap: The column, with its declared kind.
            array: Its cells as they are stored, (records,).
            missing_markers: Texts that stand for a missing value.
            origin: The file or table.
            rows_read: Number of records of the file that were read before these.

        Returns:
            The values of the cells that are not missing, and how many are missing.
        """
        values, is_present = call_with_location(
            partial(_read_column, gap, array, missing_markers),
            origin,
            rows_read,
            show_values=self._show_values,
        )
        return values, int(np.count_nonzero(~is_present))


def columns_file(
    path: str | Path, *, label: str | None = None, form: FileForm = PLAIN_CSV
) -> tuple[str, tuple[str, ...]]:
    """Drafts a file of public facts, with a kind to be filled in for each column.

    Args:
        path: The private data. The first line of a text file must hold names.
        label: Name of the label, if there is one.
        form: How the text file is written.

    Returns:
        The text of the file, TOML, and the names of the columns.

    Raises:
        DataError: if the first line looks like a record; nothing of it is shown.
        SchemaError: if the label is not one of the columns.
    """
    table = RawTable(path, layout=TextLayout(form=form))
    names = table.names
    has_value_as_name = any(VALUE_PATTERN.fullmatch(name) for name in names)
    if not table.is_typed and (has_value_as_name or table.has_record_as_header()):
        raise DataError(
            f"{table.name}: the first line looks like a record, by a value that is not "
            "a name or also occurs below it; write the names of the columns into the "
            "first line"
        )
    if label is not None and label not in names:
        raise SchemaError(
            f"label {label!r} is not a column of {table.name}: {', '.join(names)}"
        )
    if table.is_typed:
        origin = "Their names are taken as public; no record was copied."
    else:
        origin = (
            "Its first line was copied, as their names, which are taken as public:\n"
            "# if these are names, no record was copied; if not, delete this file."
        )
    head_comment = (
        f"# The columns of {table.name}. {origin}\n"
        f"# Fill in each kind, one of: {', '.join(KINDS)}.\n"
        "# What is publicly known of bounds (lower, upper) and levels saves budget, as "
        "in\n"
        '# age = { kind = "integer", lower = 0, upper = 120 }.\n\n'
    )
    label_line = "" if label is None else write_toml({"label": label}) + "\n"
    columns = write_toml({name: {"kind": OPEN_KIND} for name in names})
    file_form = form.form()
    file_table = write_toml({"file": file_form}) + "\n" if file_form else ""
    text = f"{head_comment}{label_line}{file_table}[columns]\n{columns}"
    return text, names


def _read_column(
    gap: Gap, array: pa.Array, missing_markers: pa.Array
) -> tuple[npt.NDArray[Any] | pa.Array, npt.NDArray[np.bool_]]:
    """Reads the cells of one column in its declared kind.

    Args:
        gap: The column, with its declared kind.
        array: Its cells as they are stored, (records,).
        missing_markers: Texts that stand for a missing value.

    Returns:
        The values of the cells that are not missing; and whether each cell has a value,
        (records,). A limit is no value.

    Raises:
        Problem: for the first cell that is not of the kind, or is missing where no
            value may be.
    """
    if gap.numeric:
        markers = pa.concat_arrays([missing_markers, pa.array(gap.limits, pa.string())])
        values, is_present = read_cells(gap.reader, array, markers)
    else:
        values, is_present = _read_texts(gap, array, missing_markers)
    is_stated = _has_value_or_limit(gap, array, is_present)
    if not gap.missing and not is_stated.all():
        raise Problem(
            int(np.argmin(is_stated)),
            f"column {gap.name!r}: the value is missing, and none may be, as it is the "
            "label or missing = false is stated; fill it in, leave the record out, or "
            f"state missing = true for it in a file for {said('columns')}",
        )
    return values, is_present


def _has_value_or_limit(
    gap: Gap, array: pa.Array, is_present: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Returns which cells have a value, or one of the limits, (records,).

    Args:
        gap: The column, with its limits.
        array: Its cells as they are stored, (records,).
        is_present: Whether each cell has a value, (records,).
    """
    if not gap.limits:
        return is_present
    no_markers = pa.array([], pa.string())
    cells, _ = strip_cells(array, no_markers)
    if not is_text(cells.type):
        return is_present
    limits = pa.array(gap.limits, pa.string())
    is_limit = pc.is_in(cells, value_set=limits).to_numpy(zero_copy_only=False)
    return np.asarray(is_present | is_limit, dtype=np.bool_)


def _read_texts(
    gap: Gap, array: pa.Array, missing_markers: pa.Array
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Reads the cells of a column of text; integers are read as text too.

    Args:
        gap: The column.
        array: Its cells as they are stored, (records,).
        missing_markers: Texts that stand for a missing value.

    Returns:
        The texts of the cells that are not missing; and whether each cell has a text,
        (records,).

    Raises:
        Problem: if the cells are neither text nor integers.
    """
    cells, is_present = strip_cells(array, missing_markers)
    if pt.is_floating(cells.type):
        cells, is_present = _integer_levels(gap, cells, is_present)
    if pt.is_integer(cells.type):
        cells, is_present = strip_cells(cells.cast(pa.string()), missing_markers)
    if pt.is_null(cells.type):
        cells = cells.cast(pa.string())
    if not is_text(cells.type):
        raise unfit_type(gap.reader, describe_type(cells.type))
    if is_present.all():
        return cells, is_present
    return pc.filter(cells, pa.array(is_present)), is_present


def _integer_levels(
    gap: Gap, array: pa.Array, is_present: npt.NDArray[np.bool_]
) -> tuple[pa.Array, Any]:
    """Converts floats of a column of text to integers, as they were meant.

    Programs such as pandas store integers as floats, 1 as 1.0, as soon as one record
    has no value.

    Args:
        gap: The column.
        array: Its cells, floats, (records,).
        is_present: Whether each cell has a value, (records,).

    Returns:
        The integers; and whether each cell has one, (records,).

    Raises:
        Problem: for the first number with a fraction. The message does not quote it.
    """
    numbers = parse_integers(array.fill_null(np.nan))
    if numbers.is_bad.any():
        raise Problem(
            int(np.argmax(numbers.is_bad)),
            f"column {gap.name!r}: expected levels that are text or whole numbers, "
            "found a number with a fraction; give it the kind continuous, or write its "
            "levels as text",
        )
    levels = pa.array(numbers.numbers, mask=numbers.is_missing)
    return levels, is_present & ~numbers.is_missing


def raw_kind_of(kind: pa.DataType) -> str | None:
    """Returns the kind of column that an Arrow type suggests.

    Args:
        kind: The Arrow type. For a dictionary, the type of its values decides.

    Returns:
        One of `KINDS`; None for a type that suggests none.
    """
    value_type = kind.value_type if pt.is_dictionary(kind) else kind
    if pt.is_timestamp(value_type):
        return "datetime" if value_type.tz is None else MOMENT_IN_UTC
    return next(
        (name for is_type, name in _KINDS_BY_TYPE_TEST if is_type(value_type)), None
    )
