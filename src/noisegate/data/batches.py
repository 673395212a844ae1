"""Encoded records in batches of one size, whatever the pieces in which they were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noisegate.schema import EncodedTable


def full_batches(pieces: Iterable[EncodedTable], batch_rows: int) -> Iterator[EncodedTable]:
    """Yield the records of ``pieces`` in order, ``batch_rows`` at a time; the last batch may be shorter."""
    waiting: list[EncodedTable] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += len(piece)
        if rows >= batch_rows:
            table = EncodedTable.concatenate(waiting)
            cut = rows - rows % batch_rows
            for start in range(0, cut, batch_rows):
                yield table.rows(slice(start, start + batch_rows))
            waiting, rows = [table.rows(slice(cut, None))], rows - cut
    if rows:
        yield EncodedTable.concatenate(waiting)
