"""Images as PNG files, in a folder for each class: DIR/LABEL/000001.png, or DIR/000001.png without labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from noisegate.errors import OptionError
from noisegate.output.image_batch import ImageBatch
from noisegate.output.png import check_drawable, png_bytes
from noisegate.output.whole import new_folder
from noisegate.schema.pixels import ImageForm

_LONGEST = 255


@contextmanager
def folder_writer(out: Path, form: ImageForm, rows: int) -> Iterator[Callable[[ImageBatch], None]]:
    """Yields a function that adds images to the folder `out`, which appears only when all are written.

    Files are numbered within their class, from 1. A class without an image has no folder.

    Args:
        out: The folder.
        form: Of the images.
        rows: How many there will be: their number has digits enough that names are in order.

    Raises:
        OptionError: if the folder exists or cannot be written, images are neither grey nor colour, or a label cannot
            be the name of a folder.
    """
    check_drawable(form.shape, out)
    for label in form.labels:
        _check_name(str(label), out)
    digits, seen = max(6, len(str(rows))), Counter[str]()
    with new_folder(out) as folder:

        def write(batch: ImageBatch) -> None:
            names = [""] * len(batch) if batch.labels is None else map(str, batch.labels)
            for name, pixels in zip(names, batch.pixels, strict=True):
                if name not in seen:
                    (folder / name).mkdir(exist_ok=not name)
                seen[name] += 1
                (folder / name / f"{seen[name]:0{digits}}.png").write_bytes(png_bytes(pixels))

        yield write


def _check_name(name: str, out: Path) -> None:
    unfit = not name or name.startswith(".") or any(letter in name for letter in "/\\\0")
    if unfit or len(name.encode()) > _LONGEST:
        raise OptionError(f"--out {out}: label {name!r} cannot be the name of a folder; write .parquet or .npz.")
