"""Sets test records aside: `noisegate split`, and `split_records`.

Whether a record goes to the test file follows from a keyed hash of that record, or of
its unit, alone. The key is thrown away. So nothing of one file depends on the records
of the other, and equal records are never torn apart.
"""

import csv
import hashlib
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisegate.atomic import new_file
from noisegate.errors import DataError, OptionError, choices, said
from noisegate.schema.schema import Schema, read_schema
from noisegate.sources.stores import in_database
from noisegate.sources.tables.csv_file import NO_LAYOUT, CsvFile, TextLayout
from noisegate.sources.tables.parts import ParquetFile
from noisegate.sources.tables.tables import Origin, find_files, table_name

_ROWS_OF_BATCH = 1 << 15


def split_records(
    path: str | Path,
    test: float,
    *,
    unit_column: str | None = None,
    schema: Schema | str | Path | None = None,
) -> tuple[Path, Path]:
    r"""Splits a file of records at random into NAME-train and NAME-test.

    Equal records go to the same file. If an error occurs, nothing is written.

    - The parts of a CSV file are CSV files in the folder of the file. Their lines are
      copied unchanged.
    - The parts of any other file, such as a workbook, are Parquet files. A schema reads
      their cells as it reads those of the file.
    - The parts of a database table have the name of the table. They are written to the
      current folder.

    Args:
        path: A file of records: CSV, Parquet or another kind that `fit` reads; or the
            address of a table in a database.
        test: Probability that a record, or a unit, goes to the test file.
        unit_column: Records with the same value in this column go to the same file.
            None decides for each record.
        schema: A schema, or the path of its file. Its `[file]` part describes the
            format of a text file, or the sheet of a workbook. None reads commas and
            UTF-8.

    Returns:
        The paths of the training file and the test file.

    Raises:
        OptionError: if `test` is not between 0 and 1, the column does not exist, or an
            output file exists already.
        DataError: if the file cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> from noisegate import split_records
        >>> rows = "".join(f"{age},no\n" for age in range(100))
        >>> _ = Path("people.csv").write_text("age,ill\n" + rows)
        >>> train, test = split_records("people.csv", 0.2)
        >>> train.name
        'people-train.csv'
        >>> sum(len(part.read_text().splitlines()) for part in (train, test))
        102
    """
    path = Path(path)
    if not 0 < test < 1:
        raise OptionError(
            f"{said('test', test)} must be a share of the records between 0 and 1, such "
            "as 0.2."
        )
    if not in_database(path) and not path.is_file():
        raise DataError(
            f"{str(path)!r}: expected one file; split the files of a folder one by one."
        )
    [origin] = find_files(path, _layout_of(schema))
    train_path, test_path = _part_paths_of(path, origin)
    existing = [str(part) for part in (train_path, test_path) if part.exists()]
    if existing:
        raise OptionError(
            f"{' and '.join(existing)}: split before; fit to the first part, or remove "
            "what is there."
        )
    # Both are complete before the first gets its name, the test file. A process that
    # dies before the second leaves one file, which the next call refuses above.
    with new_file(train_path) as train_file, new_file(test_path) as test_file:
        for file in (train_file, test_file):
            # Nobody may read a part who may not read the whole.
            file.chmod(_permissions_of(path) | stat.S_IWUSR)
        division = _Division(
            train_file=train_file,
            test_file=test_file,
            unit_column=unit_column,
            is_test=_make_keyed_choice(test),
        )
        if isinstance(origin, ParquetFile):
            _split_parquet(path, division)
        elif _is_plain_text(origin):
            _split_csv(origin, division)
        else:
            _split_other(origin, division)
    return train_path, test_path


def part_paths(
    path: str | Path, schema: Schema | str | Path | None = None
) -> tuple[Path, Path]:
    """Returns the two files that `split_records` writes.

    Args:
        path: The file that is split.
        schema: Schema with the format of the file, as for `split_records`.

    Raises:
        DataError: if the file cannot be read.
    """
    [origin] = find_files(Path(path), _layout_of(schema))
    return _part_paths_of(Path(path), origin)


def _permissions_of(path: Path) -> int:
    """Returns who may read a file; of a table in a database, its user alone may."""
    return stat.S_IRUSR if in_database(path) else path.stat().st_mode


def _part_paths_of(path: Path, origin: Origin) -> tuple[Path, Path]:
    """Returns the two parts of a file: of its own kind, or Parquet."""
    if in_database(path):
        # A table may be called by characters that no file name has.
        name = re.sub(r"[^\w.-]+", "_", table_name(path))
        return Path(f"{name}-train.parquet"), Path(f"{name}-test.parquet")
    keeps_its_kind = _is_plain_text(origin) or isinstance(origin, ParquetFile)
    suffix = path.suffix if keeps_its_kind else ".parquet"
    return (
        path.with_name(f"{path.stem}-train{suffix}"),
        path.with_name(f"{path.stem}-test{suffix}"),
    )


def _is_plain_text(origin: Origin) -> TypeGuard[CsvFile]:
    """Returns whether a file is text with records on lines, and not packed."""
    return isinstance(origin, CsvFile) and not origin.packing


def _layout_of(schema: Schema | str | Path | None) -> TextLayout:
    """Returns the format of text files that a schema states."""
    if schema is None:
        return NO_LAYOUT
    described = schema
    if isinstance(schema, str | Path):
        described = read_schema(schema)
    if not isinstance(described, Schema):
        raise OptionError(
            f"{said('schema', schema)}: it describes linked tables, and one table is "
            "split; give the schema of that table."
        )
    return TextLayout.of(described)


def _make_keyed_choice(probability: float) -> Callable[[bytes], bool]:
    """Makes a function that chooses contents with a probability, by a fresh key.

    A content is chosen if its keyed hash, a number below 2⁶⁴, is below the probability
    times 2⁶⁴. Equal contents are chosen alike, and the key is forgotten with the
    function.
    """
    key = secrets.token_bytes(32)
    threshold = int(probability * 2**64)

    def is_chosen(content: bytes) -> bool:
        digest = hashlib.blake2b(content, key=key, digest_size=8).digest()
        return int.from_bytes(digest, "big") < threshold

    return is_chosen


@dataclass(frozen=True, kw_only=True)
class _Division:
    """How the records of a file are divided.

    Attributes:
        train_file: Where training records are written.
        test_file: Where test records are written.
        unit_column: The column that decides; None for the whole record.
        is_test: Function from the bytes that decide to whether a record is a test
            record.
    """

    train_file: Path
    test_file: Path
    unit_column: str | None
    is_test: Callable[[bytes], bool]


def _split_parquet(path: Path, division: _Division) -> None:
    """Divides a Parquet file, batch by batch.

    Args:
        path: The file.
        division: Where its records go.
    """
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{path.name} is not a readable Parquet file; write it again."
        ) from None
    _check_unit_column(path, file.schema_arrow.names, division.unit_column)
    _write_parquet_parts(file.iter_batches(), file.schema_arrow, division)


def _split_other(
    origin: Origin,
    division: _Division,
) -> None:
    """Divides a file of another kind into two of Parquet, its cells as they are read.

    Args:
        origin: The file.
        division: Where its records go.

    Raises:
        DataError: if two columns have one name, so that a record is ambiguous.
    """
    schema = pa.schema(origin.columns())
    names = schema.names
    _check_unit_column(Path(origin.name), names, division.unit_column)
    if len(set(names)) < len(names):
        raise DataError(
            f"{origin.name}: two columns have the same name; rename one of them."
        )
    batches = (
        pa.RecordBatch.from_pydict(dict(columns), schema=schema)
        for columns in origin.batches(names, _ROWS_OF_BATCH)
    )
    _write_parquet_parts(batches, schema, division)


def _write_parquet_parts(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    division: _Division,
) -> None:
    """Writes each record of some batches to one of two Parquet files.

    Args:
        batches: The records.
        schema: Names and types of their columns.
        division: Where its records go.
    """
    with (
        pq.ParquetWriter(division.train_file, schema) as train_writer,
        pq.ParquetWriter(division.test_file, schema) as test_writer,
    ):
        for batch in batches:
            if division.unit_column is None:
                deciding_values = batch.to_pylist()
            else:
                deciding_values = [
                    unit.strip() if isinstance(unit, str) else unit
                    for unit in batch.column(division.unit_column).to_pylist()
                ]
            is_test_row = pa.array(
                [division.is_test(repr(value).encode()) for value in deciding_values],
                pa.bool_(),
            )
            test_writer.write_batch(batch.filter(is_test_row))
            train_writer.write_batch(batch.filter(pc.invert(is_test_row)))


def _split_csv(
    text_file: CsvFile,
    division: _Division,
) -> None:
    """Divides a text file; each record is copied as it stands, in the same encoding.

    Lines above the header, and the header, stand in both parts.

    Args:
        text_file: The file.
        division: Where its records go.
    """
    form = text_file.form
    names = [name for name, _ in text_file.columns()]
    _check_unit_column(text_file.path, names, division.unit_column)
    records = _read_csv_records(text_file)
    has_header = form.names_without_header(names) is None
    top = text_file.read_skipped_lines() + (next(records) if has_header else b"")

    def open_part(part: Path) -> TextIO:
        # Bytes that are no UTF-8 come back as they were.
        return part.open(
            "w", encoding=form.encoding, errors="surrogateescape", newline=""
        )

    with (
        open_part(division.train_file) as train_stream,
        open_part(division.test_file) as test_stream,
    ):
        for stream in (train_stream, test_stream):
            stream.write(_text(top))
        for number, record in enumerate(records, start=1):
            deciding_bytes = record.strip(b"\r\n")
            if division.unit_column is not None:
                reader = csv.reader([_text(record)], delimiter=form.separator)
                cells = next(reader)
                if len(cells) != len(names):
                    raise DataError(
                        f"{text_file.name}, record {number}: {len(cells)} cells, "
                        f"expected {len(names)}."
                    )
                unit = cells[names.index(division.unit_column)].strip()
                deciding_bytes = unit.encode("utf-8", "surrogateescape")
            stream = test_stream if division.is_test(deciding_bytes) else train_stream
            stream.write(_text(record))


def _text(content: bytes) -> str:
    """Decodes UTF-8; bytes that are none are kept, and written again as they were."""
    return content.decode("utf-8", "surrogateescape")


def _read_csv_records(text_file: CsvFile) -> Iterator[bytes]:
    """Yields the records of a text file as UTF-8, with their line ends."""
    for _, piece in text_file.read_pieces():
        record = b""
        for line in piece.splitlines(keepends=True):
            record += line
            # A line end inside quotes does not end a record.
            if record.count(b'"') % 2 == 0 and record.strip():
                yield record
                record = b""


def _check_unit_column(path: Path, names: list[str], unit_column: str | None) -> None:
    """Requires that the column of the unit, if there is one, is in the file."""
    if unit_column is not None and unit_column not in names:
        available = choices(unit_column, names)
        raise OptionError(
            f"{said('unit_column', unit_column)}: {path.name} has no such column; it "
            f"has {available}."
        )
