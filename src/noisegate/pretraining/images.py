"""Public labelled images in memory: from a Parquet file with an image column, or from a folder with one per class."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError

Labelled: TypeAlias = tuple[bytes, str | int]

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif")
_ROWS = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicImages:
    """Public images of one size.

    Attributes:
        pixels: (images, size, size, 3), uint8, red, green and blue.
        labels: (images,), int64, places in `classes`.
        classes: Every label that there is.
    """

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    classes: tuple[str | int, ...]


def read_public_images(path: Path, *, size: int, label: str = "label") -> PublicImages:
    """Returns all images at `path`, turned to colour, cut to the square in their middle and resized.

    Args:
        path: A Parquet file, a folder of them, or a folder with a folder of images for each class.
        size: Height and width, in pixels.
        label: Column of the labels in Parquet files.

    Raises:
        OptionError: if there are no images and labels, or one cannot be read.
    """
    found = [(_square(content, size, path), name) for content, name in _read(path, label)]
    classes = tuple(sorted({name for _, name in found}))
    if len(classes) < 2:
        raise OptionError(
            f"{path}: an encoder learns to tell labels apart, and there are {len(classes)} in it; give labelled images."
        )
    place = {name: index for index, name in enumerate(classes)}
    return PublicImages(
        pixels=np.stack([pixels for pixels, _ in found]),
        labels=np.asarray([place[name] for _, name in found], dtype=np.int64),
        classes=classes,
    )


def _read(path: Path, label: str) -> Iterator[Labelled]:
    if not path.exists():
        raise OptionError(f"{path}: there is no such file or folder of public images.")
    parquet = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if parquet:
        for file in parquet:
            yield from _from_parquet(file, label)
        return
    for file in sorted(path.glob("*/*")):
        if file.suffix.lower() in _SUFFIXES:
            yield file.read_bytes(), file.parent.name


def _from_parquet(file: Path, label: str) -> Iterator[Labelled]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = pq.ParquetFile(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise OptionError(f"{file}: public images must be Parquet files or folders of images ({error}).") from None
    schema = content.schema_arrow
    images = [
        field.name for field in schema if pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
    ]
    if len(images) != 1 or label not in schema.names:
        raise OptionError(
            f"{file}: expected one column of images (bytes and path) and the labels in {label!r}, found "
            f"{', '.join(schema.names)}; name the labels with --label."
        )
    for batch in content.iter_batches(_ROWS, columns=[images[0], label]):
        cells: list[dict[str, Any]] = batch.column(images[0]).to_pylist()
        yield from zip((cell["bytes"] for cell in cells), batch.column(label).to_pylist(), strict=True)


def _square(content: bytes, size: int, path: Path) -> npt.NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as image:
            colour = image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, TypeError) as error:
        raise OptionError(f"{path}: an image cannot be read ({error}); remove it.") from None
    side = min(colour.size)
    left, top = (colour.width - side) // 2, (colour.height - side) // 2
    if colour.size != (size, size):
        colour = colour.resize((size, size), Image.Resampling.BOX, box=(left, top, left + side, top + side))
    return np.asarray(colour, dtype=np.uint8)
