"""Text files of the papers' data sets, as Arrow tables of text. Messages quote no record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING


def read_plain(path: Path, names: Sequence[str]) -> pa.Table:
    """Returns a file without a header line, fields separated by commas, as text.

    Args:
        path: may end in .gz.
        names: of all fields of a line, in order.

    Raises:
        DataError: if the file cannot be read, is empty, or a line has another number of fields.
    """
    return _read(path, list(names), f"lines of {len(names)} fields and no header line")


def read_headed(path: Path, names: Sequence[str]) -> pa.Table:
    """Returns some columns of a file with a header line, fields separated by commas, as text.

    Args:
        path: may end in .gz.
        names: of the columns, blanks around them not counted.

    Raises:
        DataError: if the file cannot be read, is empty, or lacks a column.
    """
    table = _read(path, None, "a header line and lines with as many fields")
    table = table.rename_columns(
        [name.strip(TEXT_PADDING) for name in table.column_names]
    )
    absent = [name for name in names if table.column_names.count(name) != 1]
    if absent:
        raise DataError(
            f"{path}: the header line must have the column {absent[0]!r}, once; take the file as it is published"
        )
    return table.select(list(names))


def read_mapped(
    cells: pa.ChunkedArray, meaning: Mapping[str, str], where: str
) -> pa.ChunkedArray:
    """Returns what each cell stands for; blanks around it and a full stop behind it do not count.

    Args:
        cells: text.
        meaning: of every text that there may be, public knowledge.
        where: file and column, for messages.

    Raises:
        DataError: naming the first record whose cell has no meaning.
    """
    plain = pc.utf8_rtrim(pc.utf8_trim(cells, characters=TEXT_PADDING), characters=".")
    places = pc.index_in(plain, value_set=pa.array(list(meaning)))
    if places.null_count:
        row = pc.index(pc.is_null(places), True).as_py()
        raise DataError(
            f"{where}, record {row + 1}: expected one of {', '.join(map(repr, meaning))}; take the file as it is "
            "published"
        )
    return pc.take(pa.array(list(meaning.values())), places)


def _read(path: Path, names: list[str] | None, expected: str) -> pa.Table:
    header = _header(path, expected) if names is None else names
    failed = False
    try:
        table = pa_csv.read_csv(
            path,
            read_options=pa_csv.ReadOptions(column_names=names),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError):
        failed = True  # raised below: Arrow's message quotes the record
    if failed:
        raise _broken(path, expected)
    return table


def _header(path: Path, expected: str) -> list[str]:
    """The names in the first line, so that every column can be read as text and no type is guessed from records."""
    try:
        with pa_csv.open_csv(path) as reader:
            return list(reader.schema.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    raise _broken(path, expected)


def _broken(path: Path, expected: str) -> DataError:
    return DataError(
        f"{path}: cannot be read as comma-separated text; expected {expected}, in UTF-8. Take the file as it is "
        "published (unpack .zip and .Z archives)"
    )
