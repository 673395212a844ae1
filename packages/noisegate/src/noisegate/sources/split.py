"""`noisegate split`: sets test records aside by a keyed hash of each record, or of its unit, alone."""

import csv
import hashlib
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisegate.atomic import new_file
from noisegate.errors import DataError, OptionError, choices, said
from noisegate.sources.tables.csv_file import CsvFile


def split_records(
    path: str | Path, test: float, *, unit_column: str | None = None
) -> tuple[Path, Path]:
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
        raise OptionError(
            f"{said('test', test)} must be a share of the records between 0 and 1, such as 0.2."
        )
    if not path.is_file():
        raise DataError(
            f"{str(path)!r}: expected one CSV or Parquet file; split its parts one by one."
        )
    key, most = secrets.token_bytes(32), int(test * 2**64)

    def chosen(content: bytes) -> bool:
        return (
            int.from_bytes(
                hashlib.blake2b(content, key=key, digest_size=8).digest(), "big"
            )
            < most
        )

    train, held_out = (
        path.with_name(f"{path.stem}-{part}{path.suffix}") for part in ("train", "test")
    )
    if made := [str(each) for each in (train, held_out) if each.exists()]:
        raise OptionError(
            f"{' and '.join(made)}: split before; fit to the first part, or remove what is there."
        )
    with new_file(train) as ours, new_file(held_out) as theirs:
        for part in (ours, theirs):  # nobody may read a part who may not read the whole
            part.chmod(path.stat().st_mode | stat.S_IWUSR)
        if path.suffix.lower() in (".parquet", ".pq"):
            try:
                file = pq.ParquetFile(path)
            except (pa.ArrowException, OSError):
                raise DataError(
                    f"{path.name} is not a readable Parquet file; write it anew."
                ) from None
            _check(path, file.schema_arrow.names, unit_column)
            with (
                pq.ParquetWriter(ours, file.schema_arrow) as one,
                pq.ParquetWriter(theirs, file.schema_arrow) as other,
            ):
                for batch in file.iter_batches():
                    of = batch if unit_column is None else batch.select([unit_column])
                    aside = pa.array(
                        [chosen(repr(row).encode()) for row in of.to_pylist()],
                        pa.bool_(),
                    )
                    other.write_batch(batch.filter(aside))
                    one.write_batch(batch.filter(pc.invert(aside)))
        else:
            with ours.open("wb") as one_text, theirs.open("wb") as other_text:
                records, names = (
                    _records(path),
                    [name for name, _ in CsvFile(path).columns()],
                )
                _check(path, names, unit_column)
                one_text.write(header := next(records))
                other_text.write(header)
                for number, record in enumerate(records, start=1):
                    content = record.strip(b"\r\n")
                    if unit_column is not None:
                        cells = next(
                            csv.reader([record.decode("utf-8", "surrogateescape")])
                        )
                        if len(cells) != len(names):
                            raise DataError(
                                f"{path.name}, record {number}: {len(cells)} cells, expected {len(names)}."
                            )
                        content = (
                            cells[names.index(unit_column)]
                            .strip()
                            .encode("utf-8", "surrogateescape")
                        )
                    (other_text if chosen(content) else one_text).write(record)
    return train, held_out


def _records(path: Path) -> Iterator[bytes]:
    """Yields the records of a CSV file, line ends included, as they stand."""
    for _, piece in CsvFile(path).pieces():
        record = b""
        for line in piece.splitlines(keepends=True):
            record += line
            if record.count(b'"') % 2 == 0 and record.strip():
                yield record
                record = b""


def _check(path: Path, names: list[str], unit_column: str | None) -> None:
    if unit_column is not None and unit_column not in names:
        known = choices(unit_column, names)
        raise OptionError(
            f"{said('unit_column', unit_column)}: {path.name} has no such column; it has {known}."
        )
