"""Public knowledge about a table: its columns, their bounds and levels, and how records are laid out as numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

from noisegate.schema.columns import Column
from noisegate.schema.constraints import Comparison, Constraint, Impossible, Region
from noisegate.schema.decode import decode
from noisegate.schema.layout import EncodedTable, Layout
from noisegate.schema.numeric import (
    Continuous,
    Date,
    Datetime,
    Decimal,
    Integer,
    NumericColumn,
)
from noisegate.schema.pixels import ImageForm, ImageShape, Resize
from noisegate.schema.schema import DEFAULT_MISSING_VALUES, Schema
from noisegate.schema.values import Boolean, Categorical, CodedColumn, Ordinal

__all__ = [
    "DEFAULT_MISSING_VALUES",
    "Boolean",
    "Categorical",
    "CodedColumn",
    "Column",
    "Comparison",
    "Constraint",
    "Continuous",
    "Date",
    "Datetime",
    "Decimal",
    "EncodedTable",
    "ImageForm",
    "ImageShape",
    "Impossible",
    "Integer",
    "Layout",
    "NumericColumn",
    "Ordinal",
    "Region",
    "Schema",
    "decode",
    "pixel_schema",
]


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
    """Returns the schema of images: rows of whole numbers from 0 to 255, and maybe a label; see `ImageForm`.

    Grey images have 1 of ``channels``, colour ones 3. There are no other ``labels`` than these, which are public
    knowledge, in a column called ``label``; None for images without. Pictures of another size are dealt with as
    ``resize`` says, "refuse", "stretch", "crop" or "pad"; with ``convert``, those in other modes are turned into grey
    or colour.

    Raises:
        SchemaError: if a number is not positive, or the labels or their name are unusable.

    Examples:
        >>> from noisegate.schema import pixel_schema
        >>> pixel_schema(28, 28, labels=range(10)).names[-2:]
        ('pixel_27_27', 'label')
    """
    shape = ImageShape(height=height, width=width, channels=channels)
    known: dict[str, Any] = {} if labels is None else {"label": label, "labels": labels}
    if isinstance(labels, Iterable) and not isinstance(
        labels, str
    ):  # else it is refused by the form, in its words
        known["labels"] = tuple(labels)
    form = ImageForm(shape=shape, resize=resize, convert=convert, **known)
    return Schema(form.columns, label=form.label, images=form)
