"""Files of Arrow: Feather, and streams of record batches as `datasets` stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.stores import open_file
from noisegate.sources.tables.parts import NumberedFile

_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class ArrowFile(NumberedFile):
    """A file of record batches, which is read batch by batch.

    Attributes:
        path: The file.
        layout: Not used: the file says itself how it is written.
        has_types: True: columns have types, and names that somebody chose.
    """

    has_types = True
    declares_types = True

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column."""
        with suppress(pa.ArrowException, OSError), self._open() as reader:
            return [
                (field.name.strip(TEXT_PADDING), field.type) for field in reader.schema
            ]
        raise self._damaged_error()

    def estimate_record_count(self) -> int | None:
        """Returns None: only all batches together tell."""
        return None

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, at most `rows` records at a time.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: if the file is damaged.
        """
        try:
            with self._open() as reader:
                for batch in _record_batches(reader):
                    batch.validate()
                    positions = {
                        field.name.strip(TEXT_PADDING): position
                        for position, field in enumerate(batch.schema)
                    }
                    for start in range(0, batch.num_rows, rows):
                        part = batch.slice(start, rows)
                        yield {name: part.column(positions[name]) for name in names}
            return
        except pa.lib.ArrowCancelled:
            # A signal came while Arrow was at work.
            raise KeyboardInterrupt from None
        except (pa.ArrowException, OSError):
            pass
        # Raised outside the handler: Arrow's message may quote records.
        raise self._damaged_error()

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Opens the file as the one or the other kind."""
        with open_file(self.path) as file:
            is_stream = file.read(len(_MAGIC)) != _MAGIC
            file.seek(0)
            opened = ipc.open_stream(file) if is_stream else ipc.open_file(file)
            with opened as reader:
                yield reader

    def _damaged_error(self) -> DataError:
        """Returns the error of a file that Arrow cannot read; it quotes nothing."""
        return DataError(
            f"{self.name}: cannot be read as Arrow or Feather (version 2); it is "
            "empty, cut off or damaged: write or copy it again"
        )


def _record_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file or of a stream."""
    if isinstance(reader, ipc.RecordBatchFileReader):
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        yield from reader
