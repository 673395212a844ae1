"""Public knowledge about a set of images: their size, their labels, how they are read.

As a table, images have a column of integers from 0 to 255 for each pixel and channel.
The columns are called `pixel_ROW_COLUMN`, or `pixel_ROW_COLUMN_CHANNEL` where there are
several channels. They stand row by row from the top left, with the channels of a pixel
side by side; the label, if any, comes last::

    2 x 2 images, grey:   pixel_0_0   pixel_0_1   pixel_1_0   pixel_1_1   label

Images may have millions of pixels, so none of these columns is stored: `ImageColumns`
creates each on access.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args, overload

from noisegate.errors import OptionError, SchemaError
from noisegate.schema.checks import checked_column_name, checked_levels, set_fields
from noisegate.schema.columns import Column, check_keys
from noisegate.schema.kinds import Categorical, Integer

Resize: TypeAlias = Literal["refuse", "stretch", "crop", "pad"]
"""What to do with an image of another size; see `ImageForm.resize`."""

MAX_CHANNELS = 4
"""Largest number of channels of a table of pixels; image files have 1 or 3."""

_KEYS = ("height", "width", "channels", "label", "labels", "resize", "convert")

# A fit keeps about so many float64 for each intensity: a feature map of a thousand.
_FIT_FLOATS_PER_INTENSITY = 1024
_FLOAT64_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """Size of an image.

    Attributes:
        height: Number of rows of pixels, positive.
        width: Number of pixels in a row, positive.
        channels: Number of intensities of a pixel: 1 for grey, 3 for colour.

    Raises:
        SchemaError: if a number is not a positive integer.

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

    def pixel_name(self, index: int) -> str:
        """Returns the column name of an intensity, by its index in an image.

        Examples:
            >>> from noisegate.schema import ImageShape
            >>> ImageShape(height=2, width=2, channels=3).pixel_name(5)
            'pixel_0_1_2'
        """
        pixel, channel = divmod(index, self.channels)
        row, column = divmod(pixel, self.width)
        name = f"pixel_{row}_{column}"
        return name if self.channels == 1 else f"{name}_{channel}"

    def __str__(self) -> str:
        return f"{self.height} x {self.width} x {self.channels}"


@dataclass(frozen=True)
class ImageColumns(Sequence[Any]):
    """The columns of images as a table, each created on access.

    Attributes:
        shape: Size of the images.
        label: The label, which is the last column; None without one.
    """

    shape: ImageShape
    label: Categorical | None = None

    def __len__(self) -> int:
        return self.shape.size + (self.label is not None)

    @overload
    def __getitem__(self, index: int) -> Column: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Column, ...]: ...
    def __getitem__(self, index: int | slice) -> Column | tuple[Column, ...]:
        indices = range(len(self))[index]  # resolves negative indices
        if isinstance(indices, range):
            return tuple(self._column(position) for position in indices)
        return self._column(indices)

    def _column(self, index: int) -> Column:
        """Creates the column at an index from 0 on."""
        if self.label is not None and index == self.shape.size:
            return self.label
        # Without the checks of `__post_init__`: there may be millions.
        column = object.__new__(Integer)
        column.__dict__.update(
            name=self.shape.pixel_name(index), lower=0, upper=255, missing=False
        )
        return column

    def names(self) -> tuple[str, ...]:
        """Returns the names of the columns, in order, without creating them."""
        pixel_names = tuple(map(self.shape.pixel_name, range(self.shape.size)))
        if self.label is None:
            return pixel_names
        return (*pixel_names, self.label.name)


@dataclass(frozen=True, kw_only=True)
class ImageForm:
    """Public knowledge about images, and rules for reading image files of other forms.

    Attributes:
        shape: Size of every image. 1 channel is grey; 3 are red, green and blue. Only
            memory limits the size.
        label: Name of the label; None for images without one.
        labels: All possible labels, all text or all integers; empty for images without
            a label.
        resize: What to do with an image of another size: "refuse" it; "stretch" it;
            "crop" it, after scaling it to cover the shape, on both sides; or "pad" it
            with black, after scaling it to fit into the shape.
        convert: Whether images in other colour modes are converted to grey or colour.
            If not, they are refused.

    Raises:
        SchemaError: if a value is unusable.

    Examples:
        >>> from noisegate.schema import ImageForm, ImageShape
        >>> shape = ImageShape(height=8, width=8)
        >>> form = ImageForm(shape=shape, label="label", labels=("cat", "dog"))
        >>> len(form.columns)
        65
    """

    shape: ImageShape
    label: str | None = None
    labels: tuple[str | int, ...] = ()
    resize: Resize = "refuse"
    convert: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.shape, ImageShape):
            raise SchemaError(f"shape={self.shape!r} of images must be an ImageShape")
        if self.shape.channels > MAX_CHANNELS:
            raise SchemaError(
                f"channels = {self.shape.channels} of images: 1 for grey, 3 for colour"
            )
        if not isinstance(self.resize, str) or self.resize not in get_args(Resize):
            raise SchemaError(
                f"resize = {self.resize!r} of images: choose one of "
                f"{', '.join(get_args(Resize))}"
            )
        if not isinstance(self.convert, bool):
            raise SchemaError(
                f"convert of images must be true or false, found {self.convert!r}"
            )
        self._check_labels()

    def _check_labels(self) -> None:
        """Checks the label and its levels, and stores them."""
        if (self.label is None) != (self.labels == ()):
            raise SchemaError(
                "`label` and `labels` of images go together: give both, or neither for "
                "unlabelled images"
            )
        if self.label is None:
            return
        label = checked_column_name(self.label)
        set_fields(self, label=label, labels=checked_levels(label, self.labels))
        # The prefix is tried first, as there may be millions of names.
        if label.startswith("pixel_") and label in ImageColumns(self.shape).names():
            raise SchemaError(f"column {label!r} is described more than once")

    @property
    def columns(self) -> ImageColumns:
        """The columns of the images as a table: see `noisegate.schema.pixels`."""
        if self.label is None:
            return ImageColumns(self.shape)
        return ImageColumns(
            self.shape, Categorical(name=self.label, levels=self.labels)
        )

    def unlabelled(self) -> ImageForm:
        """Returns the form of the same images without their labels."""
        return ImageForm(shape=self.shape, resize=self.resize, convert=self.convert)

    def form(self) -> dict[str, Any]:
        """Returns the form in a schema file; rules with default values are left out."""
        form: dict[str, Any] = {
            "height": self.shape.height,
            "width": self.shape.width,
            "channels": self.shape.channels,
        }
        if self.label is not None:
            form["label"] = self.label
            form["labels"] = list(self.labels)
        if self.resize != "refuse":
            form["resize"] = self.resize
        if self.convert:
            form["convert"] = True
        return form

    @classmethod
    def from_form(cls, form: Any) -> ImageForm:
        """Creates the image form from the values that `form` returns.

        Args:
            form: The table `[images]` of a schema file. The name of the label may be
                left out.

        Raises:
            SchemaError: if a key is unknown or missing, or a value is unusable.
        """
        if not isinstance(form, Mapping):
            raise SchemaError(
                f"images = {form!r}: write height, width, channels and labels under "
                "[images]"
            )
        check_keys(form, _KEYS, "[images]")
        missing_keys = [key for key in ("height", "width") if key not in form]
        if missing_keys:
            raise SchemaError(
                f"[images]: {' and '.join(missing_keys)} missing; give the size of the "
                "images in pixels"
            )
        if "label" in form and "labels" not in form:
            raise SchemaError(
                "[images]: labels missing; list every label that there may be"
            )
        shape = ImageShape(
            height=form["height"], width=form["width"], channels=form.get("channels", 1)
        )
        return cls(
            shape=shape,
            label=form.get("label", "label") if "labels" in form else None,
            labels=form.get("labels", ()),
            resize=form.get("resize", "refuse"),
            convert=form.get("convert", False),
        )


def estimated_fit_bytes(shape: ImageShape) -> int:
    """Returns about how many bytes of memory a fit to images takes."""
    return _FLOAT64_BYTES * _FIT_FLOATS_PER_INTENSITY * shape.size


def check_machine_memory(shape: ImageShape, needed_bytes: int, what: str) -> None:
    """Checks that this machine has enough memory for what is done with images.

    Args:
        shape: Size of the images, for the message.
        needed_bytes: Memory that it takes.
        what: What is done, for the message, such as "a fit".

    Raises:
        SchemaError: if the machine has less.
    """
    if not hasattr(os, "sysconf"):
        return  # Windows does not tell
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed_bytes > machine_bytes:
        raise SchemaError(
            f"images of {shape}: {what} takes about {needed_bytes / 1e9:,.0f} GB of "
            f"memory, and this machine has {machine_bytes / 1e9:,.0f} GB; choose a "
            'smaller size, and resize = "stretch", "crop" or "pad"'
        )


def read_shape(image: Any) -> ImageShape:
    """Reads the option `image` of a generator: (height, width, channels).

    Raises:
        OptionError: if it is no such size.
    """
    try:
        height, width, channels = image
        return ImageShape(height=height, width=width, channels=channels)
    except (TypeError, ValueError, SchemaError):
        raise OptionError(
            f"image={image!r} must be (height, width, channels) for a generator of "
            "images, as in (28, 28, 1)."
        ) from None
