"""What is publicly known about a set of images: their size, their labels, and how files of another form are read.

As a table, images have a column of whole numbers from 0 to 255 for each pixel and
channel, called `pixel_ROW_COLUMN`, or `pixel_ROW_COLUMN_CHANNEL` where there are
several channels, row by row from the top left with the channels of a pixel side by
side; the label, if any, comes last. No such column is kept: each is made when somebody
asks for it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args, overload

from noisegate.errors import OptionError, SchemaError
from noisegate.schema.columns import Column, check_keys
from noisegate.schema.numeric import Integer
from noisegate.schema.values import Categorical, checked_column_name, checked_levels

Resize: TypeAlias = Literal["refuse", "stretch", "crop", "pad"]

MAX_CHANNELS = 4  # the most channels of images as tables of pixels; those that are read as images have 1 or 3

_KEYS = ("height", "width", "channels", "label", "labels", "resize", "convert")


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """Height, width and number of channels of an image, in pixels; positive whole numbers, or a `SchemaError`.

    Examples:
        >>> from noisegate.schema import ImageShape
        >>> ImageShape(height=28, width=28).size
        784
    """

    height: int
    width: int
    channels: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SchemaError(
                    f"{name}={value!r} of an image must be a positive whole number."
                )

    @property
    def size(self) -> int:
        """Number of intensities in an image."""
        return self.height * self.width * self.channels

    @property
    def axes(self) -> tuple[int, int, int]:
        """Height, width and channels: the axes of an image in memory."""
        return self.height, self.width, self.channels

    def pixel_name(self, place: int) -> str:
        """Returns what the column of an intensity is called, by its place in a row of them."""
        pixel, channel = divmod(place, self.channels)
        name = f"pixel_{pixel // self.width}_{pixel % self.width}"
        return name if self.channels == 1 else f"{name}_{channel}"

    def __str__(self) -> str:
        return f"{self.height} x {self.width} x {self.channels}"


@dataclass(frozen=True)
class ImageColumns(Sequence[Any]):
    """The columns of images as a table, made when they are asked for; the label, if there is one, comes last."""

    shape: ImageShape
    label: Categorical | None = None

    def __len__(self) -> int:
        return self.shape.size + (self.label is not None)

    @overload
    def __getitem__(self, place: int) -> Column: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Column, ...]: ...
    def __getitem__(self, place: int | slice) -> Column | tuple[Column, ...]:
        if isinstance(place, slice):
            return tuple(self[one] for one in range(len(self))[place])
        place = range(len(self))[place]
        if self.label is not None and place == self.shape.size:
            return self.label
        column = object.__new__(Integer)  # unchecked: there may be millions
        column.__dict__.update(
            name=self.shape.pixel_name(place), lower=0, upper=255, missing=False
        )
        return column

    def names(self) -> tuple[str, ...]:
        """Returns what the columns are called, in order."""
        pixels = map(self.shape.pixel_name, range(self.shape.size))
        return (*pixels, self.label.name) if self.label is not None else tuple(pixels)


@dataclass(frozen=True, kw_only=True)
class ImageForm:
    """Public knowledge about images, and the public rules by which pictures of another form are read.

    Raises:
        SchemaError: if a value is unusable.

    Examples:
        >>> from noisegate.schema import ImageForm, ImageShape
        >>> len(ImageForm(shape=ImageShape(height=8, width=8), label="label", labels=("cat", "dog")).columns)
        65
    """

    shape: ImageShape
    """Of every image; 1 channel is grey, 3 are red, green and blue. Only memory limits the size."""
    label: str | None = None
    """Name of the label, or None for images without one."""
    labels: tuple[str | int, ...] = ()
    """Every label that there may be, all text or all whole numbers; none for images without a label."""
    resize: Resize = "refuse"
    """What is done with a picture of another size: "refuse" it; "stretch" it; "crop" what is left over on both sides
    once the picture covers the image; or "pad" with black around a picture that fits into the image."""
    convert: bool = False
    """Whether pictures in other modes are turned into grey or colour; they are refused if not."""

    def __post_init__(self) -> None:
        if not isinstance(self.shape, ImageShape):
            raise SchemaError(f"shape={self.shape!r} of images must be an ImageShape")
        if self.shape.channels > MAX_CHANNELS:
            raise SchemaError(
                f"channels = {self.shape.channels} of images: 1 for grey, 3 for colour"
            )
        if not isinstance(self.resize, str) or self.resize not in get_args(Resize):
            raise SchemaError(
                f"resize = {self.resize!r} of images: choose one of {', '.join(get_args(Resize))}"
            )
        if not isinstance(self.convert, bool):
            raise SchemaError(
                f"convert of images must be true or false, found {self.convert!r}"
            )
        if (self.label is None) != (self.labels == ()):
            raise SchemaError(
                "`label` and `labels` of images go together: give both, or neither for unlabelled images"
            )
        if self.label is None:
            object.__setattr__(self, "labels", ())
            return
        object.__setattr__(self, "label", checked_column_name(self.label))
        object.__setattr__(self, "labels", checked_levels(self.label, self.labels))
        if (
            self.label.startswith("pixel_")
            and self.label in ImageColumns(self.shape).names()
        ):
            raise SchemaError(f"column {self.label!r} is described more than once")

    @property
    def columns(self) -> ImageColumns:
        """The columns of such images as a table; see the module."""
        label = (
            None
            if self.label is None
            else Categorical(name=self.label, levels=self.labels)
        )
        return ImageColumns(self.shape, label)

    def unlabelled(self) -> ImageForm:
        """Returns the form of the same images without their labels."""
        return ImageForm(shape=self.shape, resize=self.resize, convert=self.convert)

    def form(self) -> dict[str, Any]:
        """Returns the plain form that schema files hold; rules at their default are left out."""
        form: dict[str, Any] = dict(
            zip(("height", "width", "channels"), self.shape.axes, strict=True)
        )
        if self.label is not None:
            form |= {"label": self.label, "labels": list(self.labels)}
        if self.resize != "refuse":
            form["resize"] = self.resize
        return form | ({"convert": True} if self.convert else {})

    @classmethod
    def from_form(cls, form: Any) -> ImageForm:
        """Returns the images that a plain form describes."""
        if not isinstance(form, Mapping):
            raise SchemaError(
                f"images = {form!r}: write height, width, channels and labels under [images]"
            )
        check_keys(form, _KEYS, "[images]")
        absent = [key for key in ("height", "width") if key not in form]
        if absent:
            raise SchemaError(
                f"[images]: {' and '.join(absent)} missing; give the size of the images in pixels"
            )
        if "label" in form and "labels" not in form:
            raise SchemaError(
                "[images]: labels missing; list every label that there may be"
            )
        shape = ImageShape(
            height=form["height"], width=form["width"], channels=form.get("channels", 1)
        )
        labelled = (
            {"label": form.get("label", "label"), "labels": form["labels"]}
            if "labels" in form
            else {}
        )
        rules = {key: form[key] for key in ("resize", "convert") if key in form}
        return cls(shape=shape, **labelled, **rules)


def estimated_fit_bytes(shape: ImageShape) -> int:
    """Returns about how much memory a fit to images takes: a feature map of a thousand float64 for each intensity."""
    return 8 * 1024 * shape.size


def check_memory(shape: ImageShape, needed: int, what: str) -> None:
    """Requires that this machine has the memory ``needed`` for ``what`` is done with images."""
    memory = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if hasattr(os, "sysconf")
        else math.inf
    )
    if needed > memory:
        raise SchemaError(
            f"images of {shape}: {what} takes about {needed / 1e9:,.0f} GB of memory, and this machine has "
            f'{memory / 1e9:,.0f} GB; choose a smaller size, and resize = "stretch", "crop" or "pad"'
        )


def read_shape(image: Any) -> ImageShape:
    """Returns the shape that `image` gives as (height, width, channels); an OptionError if it gives none."""
    try:
        height, width, channels = image
        return ImageShape(height=height, width=width, channels=channels)
    except (TypeError, ValueError, SchemaError):
        raise OptionError(
            f"image={image!r} must be (height, width, channels) for a generator of images, as in (28, 28, 1)."
        ) from None
