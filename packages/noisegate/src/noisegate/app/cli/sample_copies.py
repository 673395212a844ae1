"""`noisegate sample --copies`: copies of a model and of its refits, in one file.

Records of a copy are numbered in the column ``.id`` and copies in ``.imp``, as in R's
mice: 0 is the copy of the model itself, 1, 2, … are those of its refits. How mice pools
imputed data does not apply to them; see `noisegate.app.copies.combine`::

    .imp  .id  age  job      answer
       0    1   28  teacher  no
       0    2   66  nurse    no
       1    1   31  farmer   yes
       1    2   47  nurse    no
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisegate.app.cli.console import show_progress

if TYPE_CHECKING:
    from noisegate.models.synthesizer import Synthesizer


def write_copies(
    model: Synthesizer, rows: int, refit_count: int, out: Path, seed: int | None
) -> None:
    """Writes a copy of a model and one of each of its refits into one file.

    See `noisegate.app.copies` for what their spread tells. A refit takes as long as the
    fit did.

    Args:
        model: The model.
        rows: Number of records of each copy.
        refit_count: Number of refits; there is one more copy.
        out: New file, .csv or .parquet.
        seed: Of the copies; None for other ones each time.
    """
    import pyarrow as pa

    from noisegate.app.copies import copies
    from noisegate.models.output.sample_file import table_writer

    copied_tables = copies(model, refit_count, rows, seed=seed)
    with (
        table_writer(out, model.schema) as write,
        show_progress("Copies", refit_count + 1) as progress,
    ):
        for copy_index, copied in enumerate(copied_tables):
            row_numbers = pa.array(range(1, rows + 1))
            copy_numbers = pa.array([copy_index] * rows)
            numbered = copied.add_column(0, ".id", row_numbers)
            write(numbered.add_column(0, ".imp", copy_numbers))
            progress(copy_index + 1, "")
