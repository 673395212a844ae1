"""Images as NumPy arrays in one .npz file, written in constant memory, whose reading needs no pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from noisegate.errors import OptionError
from noisegate.output.image_batch import ImageBatch
from noisegate.output.whole import new_file
from noisegate.schema.pixels import ImageForm


@contextmanager
def arrays_writer(out: Path, form: ImageForm, rows: int) -> Iterator[Callable[[ImageBatch], None]]:
    """Yields a function that appends images to the file `out`, which appears only when all are written.

    Its arrays are `images`, uint8 of shape (rows, height, width, channels), and `labels`, int64 or text, if there are
    any.

    Args:
        out: The file.
        form: Of the images.
        rows: How many there will be: an array says it before its first number.

    Raises:
        OptionError: if the file exists or cannot be written.
        ValueError: if there are more or fewer images.
    """
    shape, written = form.shape, 0
    labels: list[str | int] = []
    full = (rows, shape.height, shape.width, shape.channels)
    with new_file(out) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open(_entry("images"), "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": full}
            np.lib.format.write_array_header_1_0(file, header)

            def write(batch: ImageBatch) -> None:
                nonlocal written
                file.write(np.ascontiguousarray(batch.pixels).data)
                labels.extend(batch.labels or ())
                written += len(batch)

            yield write
        if written != rows:
            raise ValueError(f"{written} images were written, {rows} were announced")
        if form.label is not None:
            _write_labels(archive, labels, form, out)


def _write_labels(archive: zipfile.ZipFile, labels: list[str | int], form: ImageForm, out: Path) -> None:
    values = np.array(labels, dtype=np.int64 if isinstance(form.labels[0], int) else np.str_)
    if values.tolist() != labels:
        # NumPy's text ends at its last character that is not NUL.
        raise OptionError(f"--out {out}: a label ends with a NUL character, which NumPy drops; write .parquet.")
    with archive.open(_entry("labels"), "w", force_zip64=True) as file:
        np.lib.format.write_array(file, values, allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    """Returns an entry that does not say when it was written, so that the same images give the same file."""
    entry = zipfile.ZipInfo(f"{name}.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
