"""One picture to the pixels that the schema declares, by public rules; the result depends on that picture alone.

Pixels are taken as they are stored: a rotation that a camera noted beside them (EXIF)
is not applied, and transparency is dropped. Other modes and sizes are refused unless
the schema says how to read them (`ImageForm`): with `convert` grey is 0.299 red + 0.587
green + 0.114 blue (ITU-R 601-2), 16-bit grey keeps its upper 8 bits, all else is as
`PIL.Image.Image.convert` does it; with `resize` Pillow's bilinear filter averages when
a picture is made smaller.
"""

from __future__ import annotations

import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import DataError
from noisegate.schema import ImageForm, ImageShape
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import Problem
from noisegate.schema.parsing import describe_type, is_text

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""The formats that are read. Others that Pillow knows are not: some start other programs."""
MAX_PIXELS = (
    89_478_485  # Pillow's own limit: a picture with more may be made to fill the memory
)
MAX_FILE_BYTES = 1 << 28  # no file of one image is read that is larger
_TOO_LARGE = f"has more than {MAX_PIXELS:,} pixels; make it smaller"
_DAMAGED = "is cut off or damaged; write or copy it again"

Pixels = npt.NDArray[np.uint8]
_NATURAL = {1: ("L", "1"), 3: ("RGB",)}
_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF", b"II*\x00", b"MM\x00*")
_TARGET = {1: "L", 3: "RGB"}
_WORDS = {
    "1": "black and white",
    "L": "grey",
    "LA": "grey with transparency",
    "P": "of a palette of colours",
    "RGB": "of colours",
    "RGBA": "of colours with transparency",
    "CMYK": "of printing colours (CMYK)",
    "I;16": "grey of 16 bits",
}


class PictureProblem(Exception):  # noqa: N818 - not an error for users; the caller adds the place, and makes it one
    """A picture that cannot be used. Its text says why, in public words: nothing of what the picture shows."""


@dataclass(frozen=True, kw_only=True)
class ImageReadOptions:
    """What is asked of the origins of images; values that may be shown are also names of files."""

    form: ImageForm
    unit_column: str | None = None
    show_values: bool = False


@dataclass(frozen=True)
class PictureFile:
    """A file of one image, which must lie in the folder ``root``, whose links are resolved."""

    path: Path
    root: str

    def read(self) -> bytes:
        """Returns the content of the file."""
        real = os.path.realpath(self.path)
        if os.path.commonpath([real, self.root]) != self.root:
            raise PictureProblem(
                "is a link to a file outside of the folder, which is not followed; copy the file"
            )
        state = os.stat(real)
        if not stat.S_ISREG(state.st_mode):
            raise PictureProblem("is not a regular file; remove it")
        if state.st_size > MAX_FILE_BYTES:
            raise PictureProblem(
                f"is larger than {MAX_FILE_BYTES >> 20} MiB; make it smaller"
            )
        with open(real, "rb") as stream:
            return stream.read()


Picture: TypeAlias = "bytes | PictureFile | npt.NDArray[np.uint8] | Image | None"
"""An image as it is kept: a file in memory or on disk, (height, width[, channels]) pixels, one of Pillow, or none."""


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Some images, not yet decoded, with labels (whole numbers or text) and units where these are asked for."""

    pictures: Sequence[Picture] | npt.NDArray[np.uint8]
    labels: pa.Array | None
    units: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.pictures)


def decode_picture(picture: Picture, form: ImageForm) -> Pixels:
    """Returns the pixels of a picture, (height, width, channels), as ``form`` declares them."""
    shape = form.shape
    if isinstance(picture, np.ndarray):
        if picture.size == shape.size and picture.shape[:2] == (
            shape.height,
            shape.width,
        ):
            return picture.reshape(shape.height, shape.width, shape.channels)
        from PIL import Image

        pixels = (
            picture[:, :, 0] if picture.ndim == 3 and picture.shape[2] == 1 else picture
        )
        if (
            pixels.ndim not in (2, 3)
            or not pixels.size
            or (pixels.ndim == 3 and pixels.shape[2] not in (2, 3, 4))
        ):
            raise PictureProblem(
                "has no shape of an image: (height, width) or (height, width, channels)"
            )
        return _fitted(Image.fromarray(np.ascontiguousarray(pixels)), form)
    if picture is None:
        raise PictureProblem(
            "holds no bytes of an image; embed the files in the data instead of their paths"
        )
    content = picture.read() if isinstance(picture, PictureFile) else picture
    return _fitted(_opened(content) if isinstance(content, bytes) else content, form)


def _opened(content: bytes) -> Image:
    """Returns the picture in a file, its header read and its pixels not yet."""
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise PictureProblem("is empty")
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        several = getattr(image, "is_animated", False)
    except UnidentifiedImageError:
        unknown = f"is not an image in a known format; expected {', '.join(FORMATS)}"
        reason = _DAMAGED if content.startswith(_STARTS) else unknown
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        reason = _TOO_LARGE
    except MemoryError:
        raise
    except Exception:  # whatever Pillow says of it may quote the file
        reason = _DAMAGED
    else:
        if image.width * image.height <= MAX_PIXELS and not several:
            return image
        pages = "is animated, or has several pages; keep one of its pictures"
        reason = pages if image.width * image.height <= MAX_PIXELS else _TOO_LARGE
    raise PictureProblem(reason)


def _fitted(image: Image, form: ImageForm) -> Pixels:
    shape = form.shape
    if image.mode not in _NATURAL[shape.channels] and not form.convert:
        kind = "grey" if shape.channels == 1 else "of three colours"
        cure = "convert the data, or set convert = true for the images in the schema"
        raise PictureProblem(
            f"is {_WORDS.get(image.mode, f'of mode {image.mode}')}, expected {kind}; {cure}"
        )
    if image.size != (shape.width, shape.height) and form.resize == "refuse":
        raise PictureProblem(
            f"is {image.height} x {image.width} pixels, expected {shape.height} x {shape.width}; resize the data, or "
            'set resize = "stretch", "crop" or "pad" for the images in the schema'
        )
    try:
        fitted = np.asarray(_resized(_converted(image, shape), form), dtype=np.uint8)
        return fitted.reshape(shape.height, shape.width, shape.channels)
    except MemoryError:
        raise
    except Exception:  # as above
        pass
    raise PictureProblem(_DAMAGED)


def _converted(image: Image, shape: ImageShape) -> Image:
    from PIL import Image

    target = _TARGET[shape.channels]
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError("brightness without a scale")
    elif image.mode not in ("1", "L", "LA", "RGB"):
        # By way of colour with transparency, as a palette may hold it in a form that no other mode takes.
        image = image.convert("RGBA" if image.mode in ("P", "PA") else "RGB")
    image.load()
    return image if image.mode == target else image.convert(target)


def _resized(image: Image, form: ImageForm) -> Image:
    from PIL import Image, ImageOps

    size = (form.shape.width, form.shape.height)
    if image.size == size:
        return image
    if form.resize == "stretch":
        return image.resize(size, Image.Resampling.BILINEAR)
    if form.resize == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    scale = min(size[0] / image.width, size[1] / image.height)
    inner = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    canvas, corner = (
        Image.new(image.mode, size),
        ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2),
    )
    canvas.paste(image.resize(inner, Image.Resampling.BILINEAR), corner)
    return canvas


@dataclass(frozen=True)
class ImageOrigin(ABC):
    """A folder or a file that holds images; what does not fit, or cannot be read, is a `DataError`."""

    path: Path
    options: ImageReadOptions

    @property
    def name(self) -> str:
        """What messages call it: the name of the file or folder."""
        return self.path.name or self.path.resolve().name

    @abstractmethod
    def kept_in(self) -> Iterator[Path]:
        """Yields the files and folders that are written to where images are added, removed or changed."""

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """What labels that are whole numbers stand for, by position, where the data says so."""
        return None

    @property
    def labelled(self) -> bool:
        """Whether labels are asked for."""
        return self.options.form.label is not None

    @abstractmethod
    def locate(self, row: int) -> str:
        """Returns where an image stands, for a message.

        Args:
            row: Number of the image, counted from 0.
        """

    @abstractmethod
    def check(self) -> None:
        """Checks all that can be checked without reading an image."""

    @abstractmethod
    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, at most ``rows`` at a time."""

    def image_number(self, row: int) -> str:
        """Returns the name and the number of an image, as `digits.npz, image 7`, from 1."""
        return f"{self.name}, image {row + 1}"

    def check_no_units(self) -> None:
        """Refuses to say whose image each one is, which arrays do not tell."""
        if self.options.unit_column is not None:
            cure = f"give a table with a column of images and a column {self.options.unit_column!r}"
            raise DataError(
                f"{self.name}: arrays do not say whose image each one is; {cure}"
            )

    def check_labels(self, kind: pa.DataType) -> None:
        """Requires that labels of an Arrow type, where they are asked for, can be found among the declared ones."""
        # Whole numbers are the declared ones by value; where text is declared, they are positions among the names that
        # the data gives its classes. Text is compared as text.
        kind = kind.value_type if pt.is_dictionary(kind) else kind
        declared, names = self.options.form.labels, self.label_names
        place = f"{self.name}, label {self.options.form.label!r}"
        if not declared or is_text(kind) or pt.is_null(kind):
            return
        if not pt.is_integer(kind):
            found = describe_type(kind)
            raise DataError(
                f"{place}: expected whole numbers or text, found a column of {found}; convert it"
            )
        if isinstance(declared[0], int):
            return
        if names is None:
            cure = "declare the numbers as labels instead, or write the labels of the data as text"
            raise DataError(
                f"{place}: holds whole numbers, and the schema declares text; {cure}"
            )
        if not set(names) <= set(declared):
            cure = "declare the same names as labels in the schema, or whole numbers"
            raise DataError(
                f"{place}: the data gives names to its classes that are not all declared; {cure}"
            )

    def codes(self, labels: pa.Array) -> npt.NDArray[np.int32]:
        """Returns the position of each label, of a type that `check_labels` let pass, among the declared, (images,)."""
        form, names = self.options.form, self.label_names or ()
        found = labels.dictionary_decode() if pt.is_dictionary(labels.type) else labels
        if pt.is_integer(found.type) and isinstance(form.labels[0], str):
            places = pc.index_in(
                found.cast(pa.int64()),
                value_set=pa.array(range(len(names)), pa.int64()),
            )
            texts = pa.array(names, pa.string()).take(places)
        else:
            texts = pc.utf8_trim(found.cast(pa.string()), characters=TEXT_PADDING)
        codes = pc.index_in(
            texts,
            value_set=pa.array([str(label) for label in form.labels], pa.string()),
        )
        if not codes.null_count:
            return np.asarray(codes.to_numpy(zero_copy_only=False).astype(np.int32))
        row = int(np.argmax(codes.is_null().to_numpy(zero_copy_only=False)))
        value = labels[row].as_py()
        says = (
            f"expected one of the {len(form.labels)} labels in the schema, found {{found}}; declare it as a label; "
            "labels must be public knowledge"
        )
        missing = "it is missing; fill it in, or describe images without labels"
        raise Problem(
            row, f"label {form.label!r}: {missing if value is None else says}", value
        )
