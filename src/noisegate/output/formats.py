"""Which form images are written in, by the ending of the name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from noisegate.errors import OptionError
from noisegate.output.arrays import arrays_writer
from noisegate.output.folders import folder_writer
from noisegate.output.image_batch import ImageBatch
from noisegate.output.parquet import parquet_writer
from noisegate.schema.pixels import ImageForm

WRITERS = {".parquet": parquet_writer, ".npz": arrays_writer, "": folder_writer}
"""By ending; none for a folder."""


def image_writer(out: str | Path, form: ImageForm, rows: int) -> AbstractContextManager[Callable[[ImageBatch], None]]:
    """Returns a context that gives a function to write images with; they appear when it ends well, or not at all.

    ::

        with image_writer("digits.parquet", synthesizer.schema.images, 1000) as write:
            for batch in synthesizer.images(1000):
                write(batch)

    Args:
        out: A file that ends in .parquet (see `output.parquet`) or .npz (`output.arrays`), or a folder, whose name has
            no ending (`output.folders`).
        form: Of the images.
        rows: How many there will be.

    Raises:
        OptionError: if the ending is another one; on entering, see the writers.
    """
    path = Path(out)
    if path.suffix not in WRITERS:
        raise OptionError(
            f"--out {path}: the ending of images must be .parquet, .npz or .csv, or none for a folder of PNG files, "
            f"not {path.suffix!r}."
        )
    return WRITERS[path.suffix](path, form, rows)
