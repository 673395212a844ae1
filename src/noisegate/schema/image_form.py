"""What is publicly known about a set of images: their size, their labels, and how files of another form are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias, get_args

from noisegate.errors import SchemaError
from noisegate.schema import checks
from noisegate.schema.columns import Categorical, Column, Integer
from noisegate.schema.forms import check_keys

Resize: TypeAlias = Literal["refuse", "stretch", "crop", "pad"]

MAX_SIDE = 256
"""The largest height or width, in pixels: each intensity is a column of its own behind the gate."""

MAX_CHANNELS = 4
"""The most channels of images as tables of pixels; those that are read as images have 1 or 3."""

_KEYS = ("height", "width", "channels", "label", "labels", "resize", "convert")


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """Height, width and number of channels of an image, in pixels.

    Raises:
        SchemaError: if one of them is no positive whole number.
    """

    height: int
    width: int
    channels: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SchemaError(f"{name}={value!r} of an image must be a positive whole number.")

    @property
    def size(self) -> int:
        """Number of intensities in an image."""
        return self.height * self.width * self.channels

    def __str__(self) -> str:
        return f"{self.height} x {self.width} x {self.channels}"


@dataclass(frozen=True, kw_only=True)
class ImageForm:
    """Public knowledge about images, and the public rules by which pictures of another form are read.

    Attributes:
        shape: of every image; 1 channel is grey, 3 are red, green and blue.
        label: name of the label, or None for images without one.
        labels: every label that there may be, all text or all whole numbers; none for images without a label.
        resize: what is done with a picture of another size: "refuse" it; "stretch" it; "crop" what is left over on
            both sides once the picture covers the image; or "pad" with black around a picture that fits into the image.
        convert: whether pictures in other modes are turned into grey or colour; they are refused if not.

    Raises:
        SchemaError: if a value is unusable, or a side has more than 256 pixels.
    """

    shape: ImageShape
    label: str | None = None
    labels: tuple[str | int, ...] = ()
    resize: Resize = "refuse"
    convert: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.shape, ImageShape):
            raise SchemaError(f"shape={self.shape!r} of images must be an ImageShape")
        for name in ("height", "width"):
            if getattr(self.shape, name) > MAX_SIDE:
                raise SchemaError(
                    f"{name} = {getattr(self.shape, name)} of images: at most {MAX_SIDE} pixels; choose a smaller "
                    'size, and resize = "stretch", "crop" or "pad"'
                )
        if self.shape.channels > MAX_CHANNELS:
            raise SchemaError(f"channels = {self.shape.channels} of images: 1 for grey, 3 for colour")
        if not isinstance(self.resize, str) or self.resize not in get_args(Resize):
            raise SchemaError(f"resize = {self.resize!r} of images: choose one of {', '.join(get_args(Resize))}")
        if not isinstance(self.convert, bool):
            raise SchemaError(f"convert of images must be true or false, found {self.convert!r}")
        if (self.label is None) != (self.labels == ()):
            raise SchemaError("`label` and `labels` of images go together: give both, or neither for unlabelled images")
        if self.label is not None:
            object.__setattr__(self, "label", checks.column_name(self.label))
            object.__setattr__(self, "labels", checks.levels(self.label, self.labels))
        else:
            object.__setattr__(self, "labels", ())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of such images as a table.

        They are called ``pixel_ROW_COLUMN``, or ``pixel_ROW_COLUMN_CHANNEL`` where there are several channels, and
        stand row by row from the top left, with the channels of a pixel side by side; the label, if any, comes last.
        """
        pixels = _pixels(self.shape)
        return pixels if self.label is None else (*pixels, Categorical(name=self.label, levels=self.labels))

    def unlabelled(self) -> ImageForm:
        """Return the form of the same images without their labels."""
        return ImageForm(shape=self.shape, resize=self.resize, convert=self.convert)

    def form(self) -> dict[str, Any]:
        """Return the plain form that schema files hold; rules at their default are left out."""
        shape = self.shape
        form: dict[str, Any] = {"height": shape.height, "width": shape.width, "channels": shape.channels}
        if self.label is not None:
            form |= {"label": self.label, "labels": list(self.labels)}
        if self.resize != "refuse":
            form["resize"] = self.resize
        return form | ({"convert": True} if self.convert else {})

    @classmethod
    def from_form(cls, form: Any) -> ImageForm:
        """Return the images that a plain form describes.

        Raises:
            SchemaError: if a key is missing or unknown, or a value is wrong.
        """
        if not isinstance(form, Mapping):
            raise SchemaError(f"images = {form!r}: write height, width, channels and labels under [images]")
        check_keys(form, _KEYS, "[images]")
        absent = [key for key in ("height", "width") if key not in form]
        if absent:
            raise SchemaError(f"[images]: {' and '.join(absent)} missing; give the size of the images in pixels")
        if "label" in form and "labels" not in form:
            raise SchemaError("[images]: labels missing; list every label that there may be")
        shape = ImageShape(height=form["height"], width=form["width"], channels=form.get("channels", 1))
        labelled = {"label": form.get("label", "label"), "labels": form["labels"]} if "labels" in form else {}
        rules = {key: form[key] for key in ("resize", "convert") if key in form}
        return cls(shape=shape, **labelled, **rules)


@lru_cache(maxsize=2)
def _pixels(shape: ImageShape) -> tuple[Column, ...]:
    # Kept, as the largest images have 196,608 columns, and every model and certificate that is read asks for them.
    names = [f"pixel_{row}_{column}" for row in range(shape.height) for column in range(shape.width)]
    if shape.channels > 1:
        names = [f"{name}_{channel}" for name in names for channel in range(shape.channels)]
    return tuple(Integer(name=name, lower=0, upper=255) for name in names)
