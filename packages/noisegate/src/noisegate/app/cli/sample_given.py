"""`noisegate sample --given`: records of which some values are known are completed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisegate.app.cli.console import ERR, show_progress
from noisegate.errors import DataError

if TYPE_CHECKING:
    from noisegate.models.synthesizer import Synthesizer


def write_completed(
    model: Synthesizer, given: Path, out: Path, seed: int | None
) -> int:
    """Completes the records of a file, and writes them into a new one.

    Args:
        model: The model.
        given: File of known values. Columns that the schema ignores are left out.
        out: New file, .csv or .parquet.
        seed: For the same values again; None for others each time.

    Returns:
        How many records there are.

    Raises:
        DataError: if the file cannot be read, or has no records.
        OptionError: if it does not fit the model, or `out` cannot be written.
    """
    from noisegate.app.public_files import read_public_table
    from noisegate.models.output.sample_file import table_writer

    # It reads whatever columns a file has, and numbers as the schema's form writes them.
    table = read_public_table(given, model.schema.file)
    if not table.num_rows:
        raise DataError(f"{given}: there are no records to complete")
    ignored = [name for name in table.column_names if name in model.schema.ignore]
    batches = model.completed_batches(table.drop_columns(ignored), seed=seed)
    # The records are somebody's, and the lines of a scheduler are read by others.
    total = table.num_rows if ERR.is_terminal else None
    with (
        table_writer(out, model.schema) as write,
        show_progress("Completing", total) as progress,
    ):
        written_count = 0
        for batch in batches:
            write(batch)
            written_count += batch.num_rows
            progress(written_count, "")
    return written_count
