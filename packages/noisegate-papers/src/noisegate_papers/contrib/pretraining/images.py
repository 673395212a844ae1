"""Public images in memory, with labels or without, from every form in which `noisegate.data` reads images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import OptionError
from noisegate.records import Images, Rows
from noisegate.schema import ImageForm, ImageShape, pixel_schema
from noisegate.schema.encode import is_text
from noisegate.schema.values import TEXT_PADDING
from noisegate_images.data.decode import ImageOrigin, ImageReadOptions
from noisegate_images.data.folders import ImageFolder, list_folder
from noisegate_images.data.images import ImageSource, check_on_error, find_images

_ROWS = 1024
LUMA = (0.299, 0.587, 0.114)
"""Red, green and blue in a grey intensity (ITU-R BT.601)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicImages:
    """Public images of one size.

    Attributes:
        pixels: (images, size, size, 3), uint8, red, green and blue.
        labels: (images,), int64, places in `classes`; all 0 where labels were not asked for.
        classes: Every label that there is; none where they were not asked for.
        skipped: How many pictures were left out, as they cannot be used.
    """

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    classes: tuple[str | int, ...]
    skipped: int = 0


def read_public_images(path: Path, *, size: int, label: str | None = "label", on_error: str = "refuse") -> PublicImages:
    """Returns all images at `path`, turned to colour, resized, and cut to the square in their middle.

    The labels are looked for in the data, which is allowed because it is public.

    Args:
        path: A folder with a folder for each class or with labels.csv, Parquet, .npz, or MNIST's idx files;
            without labels, any folder of images too.
        size: Height and width, in pixels.
        label: Column of the labels in Parquet files and in labels.csv; None to leave labels alone.
        on_error: What is done with a picture that cannot be used: "refuse" the data, or "skip" the picture.
    """
    check_on_error(on_error)
    origins = _found(path, size, label)
    classes = () if label is None else _classes(origins)
    if label is not None and len(classes) < 2:
        raise OptionError(
            f"{path}: an encoder learns to tell labels apart, and there is {len(classes) or 'none'} in it; give images "
            "of two classes or more."
        )
    known: dict[str, Any] = {"labels": None} if label is None else {"labels": classes, "label": label}
    schema = pixel_schema(size, size, 3, **known, resize="crop", convert=True)
    source = ImageSource(path, schema, show_values=True, on_error=on_error)
    found = Rows.concatenate(list(source.batches()))
    assert isinstance(found, Images)
    return PublicImages(
        pixels=found.pixels,
        labels=np.zeros(len(found), np.int64) if found.labels is None else found.labels.astype(np.int64),
        classes=classes,
        skipped=source.skipped,
    )


def _found(path: Path, size: int, label: str | None) -> list[ImageOrigin]:
    """Returns the images at `path`, whose labels are not known yet."""
    # Text is let through where whole numbers are declared, so these two stand for all of them.
    labels = (0, 1) if label is not None else ()
    form = ImageForm(shape=ImageShape(height=size, width=size, channels=3), label=label, labels=labels)
    origins = find_images(path, ImageReadOptions(form=form, show_values=True))
    if origins is None:
        what = "it is no set of images" if path.exists() else "there is no such file or folder of public images"
        raise OptionError(
            f"{path}: {what}; expected a folder with a folder for each class or with labels.csv, Parquet with an "
            "image column, .npz, or idx files."
        )
    return origins


def _classes(origins: Sequence[ImageOrigin]) -> tuple[str | int, ...]:
    """Returns every label, in order; text after whole numbers, which the schema refuses beside each other."""
    found: set[str | int] = set()
    for origin in origins:
        if not isinstance(origin, ImageFolder) or _has_no_classes(origin.path):
            origin.check()  # folders of classes are checked when their names are known
        for pictures in origin.batches(_ROWS):
            assert pictures.labels is not None
            found |= _values(pictures.labels)
    return tuple(sorted(found, key=lambda value: (isinstance(value, str), value)))


def _has_no_classes(folder: Path) -> bool:
    listing = list_folder(folder)
    return bool(listing.files) or not listing.folders


def _values(labels: pa.Array) -> set[str | int]:
    """Returns the labels that there are; missing ones are refused by name when images are read."""
    plain = labels.dictionary_decode() if pt.is_dictionary(labels.type) else labels
    if is_text(plain.type):
        plain = pc.utf8_trim(plain, characters=TEXT_PADDING)
    return set(pc.unique(plain.drop_null()).to_pylist())


def grey(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns colour images as grey ones, (images, height, width, 1)."""
    result = np.empty((*pixels.shape[:3], 1), dtype=np.uint8)
    for one, image in zip(result, pixels, strict=True):  # one by one: no copy of all in float64
        one[..., 0] = np.rint(image @ np.asarray(LUMA))
    return result
