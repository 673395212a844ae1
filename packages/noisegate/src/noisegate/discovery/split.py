"""`noisegate split`: sets test records aside by a keyed hash of each record, or of its unit, alone."""

import csv
import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisegate.atomic import new_file
from noisegate.data.tables.csv_file import BOM, RecordProblem, whole_records
from noisegate.errors import DataError, OptionError, choices, said


def split_records(path: str | Path, test: float, *, unit_column: str | None = None) -> tuple[Path, Path]:
    r"""Writes the records of a CSV or Parquet file to NAME-train and NAME-test beside it, and returns these paths.

    Each record goes to the test file with probability `test`, by a hash under a key that is not kept; equal records, or
    those with the same value in `unit_column`, go to the same file. Nothing is written if anything fails.

    Raises:
        OptionError: if `test` is not between 0 and 1, the column does not exist, or a file is there already.
        DataError: if the file cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> from noisegate import split_records
        >>> _ = Path("people.csv").write_text("age,ill\n" + "".join(f"{age},no\n" for age in range(100)))
        >>> train, test = split_records("people.csv", 0.2)
        >>> train.name, len(train.read_text().splitlines()) + len(test.read_text().splitlines())
        ('people-train.csv', 102)
    """
    path = Path(path)
    if not 0 < test < 1:
        raise OptionError(f"{said('test', test)} must be a share of the records between 0 and 1, such as 0.2.")
    if not path.is_file():
        raise DataError(f"{str(path)!r}: expected one CSV or Parquet file; split its parts one by one.")
    key, most = secrets.token_bytes(32), int(test * 2**64)

    def chosen(content: bytes) -> bool:
        return int.from_bytes(hashlib.blake2b(content, key=key, digest_size=8).digest(), "big") < most

    train, held_out = (path.with_name(f"{path.stem}-{part}{path.suffix}") for part in ("train", "test"))
    with new_file(train) as ours, new_file(held_out) as theirs:
        if path.suffix.lower() in (".parquet", ".pq"):
            file = pq.ParquetFile(path)
            with pq.ParquetWriter(ours, file.schema_arrow) as one, pq.ParquetWriter(theirs, file.schema_arrow) as other:
                for batch in file.iter_batches():
                    _check(path, batch.schema.names, unit_column)
                    of = batch if unit_column is None else batch.select([unit_column])
                    aside = pa.array([chosen(repr(row).encode()) for row in of.to_pylist()])
                    other.write_batch(batch.filter(aside))
                    one.write_batch(batch.filter(pc.invert(aside)))
        else:
            with ours.open("wb") as one_text, theirs.open("wb") as other_text:
                records = _records(path)
                header = next(records, b"")
                names = _cells(header)
                _check(path, names, unit_column)
                place = None if unit_column is None else names.index(unit_column)
                one_text.write(header)
                other_text.write(header)
                for record in records:
                    content = record.strip(b"\r\n") if place is None else _cells(record)[place].encode()
                    (other_text if chosen(content) else one_text).write(record)
    return train, held_out


def _records(path: Path) -> Iterator[bytes]:
    """Yields the records of a CSV file, line ends included, as they stand."""
    try:
        with path.open("rb") as stream:
            for _, piece in whole_records(stream):
                record = b""
                for line in piece.removeprefix(BOM).splitlines(keepends=True):
                    record += line
                    if record.count(b'"') % 2 == 0 and record.strip():
                        yield record
                        record = b""
    except RecordProblem as problem:
        raise DataError(f"{path}, byte {problem.offset:,}: {problem.reason}") from None


def _cells(record: bytes) -> list[str]:
    return next(csv.reader([record.decode("utf-8", "surrogateescape")]), [])


def _check(path: Path, names: list[str], unit_column: str | None) -> None:
    if unit_column is not None and unit_column not in names:
        known = choices(unit_column, names)
        raise OptionError(f"{said('unit_column', unit_column)}: {path.name} has no such column; it has {known}.")
