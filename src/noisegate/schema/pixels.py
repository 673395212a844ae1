"""The schema of images, which stand behind the gate as a table: one column for each pixel and channel, and a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from noisegate.schema.image_form import ImageForm, ImageShape, Resize
from noisegate.schema.schema import Schema

__all__ = ["ImageForm", "ImageShape", "Resize", "pixel_schema"]


def pixel_schema(
    height: int,
    width: int,
    channels: int = 1,
    *,
    labels: Sequence[str | int] | None = None,
    label: str = "label",
    resize: Resize = "refuse",
    convert: bool = False,
) -> Schema:
    """Return the schema of images: rows of whole numbers from 0 to 255, and maybe a label.

    Columns are called ``pixel_ROW_COLUMN``, or ``pixel_ROW_COLUMN_CHANNEL`` where there are several channels, and stand
    row by row from the top left, with the channels of a pixel side by side; the label comes last.

    Args:
        height: in pixels, at most 256.
        width: in pixels, at most 256.
        channels: 1 for grey, 3 for colour.
        labels: every label that there may be, public knowledge; None for images without a label.
        label: name of the label's column.
        resize: what is done with pictures of another size: "refuse", "stretch", "crop" or "pad"; see `ImageForm`.
        convert: whether pictures in other modes are turned into grey or colour.

    Raises:
        SchemaError: if a number is not positive or too large, or the labels or their name are unusable.
    """
    shape = ImageShape(height=height, width=width, channels=channels)
    known: dict[str, Any] = {} if labels is None else {"label": label, "labels": labels}
    if isinstance(labels, Iterable) and not isinstance(labels, str):  # else it is refused by the form, in its words
        known["labels"] = tuple(labels)
    form = ImageForm(shape=shape, resize=resize, convert=convert, **known)
    return Schema(form.columns, label=form.label, images=form)
