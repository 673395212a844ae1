"""One picture to the pixels that the schema declares, by public rules; the result depends on that picture alone.

Pixels are taken as they are stored: a rotation that a camera noted beside them (EXIF) is not applied. Transparency is
dropped. Pictures in other modes or sizes are refused unless the schema says how to read them (`ImageForm`):

- ``convert``: colour becomes grey as 0.299 red + 0.587 green + 0.114 blue (ITU-R 601-2, as Pillow does it), grey
  becomes colour by repeating it, 16-bit grey keeps its upper 8 bits, all else follows ``PIL.Image.Image.convert``.
- ``resize``: Pillow's bilinear filter, which averages when a picture is made smaller.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.data.images.origins import Picture, PictureFile, PictureProblem
from noisegate.schema import ImageForm, ImageShape

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""The formats that are read. Others that Pillow knows are not: some start other programs."""

MAX_PIXELS = 89_478_485
"""Pillow's own limit: a picture with more may be made to fill the memory."""

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


def decode_picture(picture: Picture, form: ImageForm) -> Pixels:
    """Return the pixels of a picture, (height, width, channels), as ``form`` declares them.

    Raises:
        PictureProblem: if the picture is broken, too large, animated, or of a mode or size that is not declared.
        OSError: if its file cannot be read.
    """
    shape = form.shape
    if isinstance(picture, np.ndarray):
        if picture.size == shape.size and picture.shape[:2] == (shape.height, shape.width):
            return picture.reshape(shape.height, shape.width, shape.channels)
        return _fitted(_of_array(picture), form)
    if picture is None:
        raise PictureProblem("holds no bytes of an image; embed the files in the data instead of their paths")
    content = picture.read() if isinstance(picture, PictureFile) else picture
    return _fitted(_opened(content), form)


def _opened(content: bytes) -> Image:
    """Return the picture in a file, its header read and its pixels not yet."""
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise PictureProblem("is empty")
    reason = _DAMAGED
    image = None
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        several = getattr(image, "is_animated", False)
    except UnidentifiedImageError:
        if not content.startswith(_STARTS):
            reason = f"is no picture of a known format; expected {', '.join(FORMATS)}"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        reason = _TOO_LARGE
    except MemoryError:
        raise
    except Exception:  # whatever Pillow says of it may quote the file
        image = None
    if image is None:
        raise PictureProblem(reason)
    if image.width * image.height > MAX_PIXELS:
        raise PictureProblem(_TOO_LARGE)
    if several:
        raise PictureProblem("is animated, or has several pages; keep one of its pictures")
    return image


def _of_array(pixels: Pixels) -> Image:
    from PIL import Image

    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or not pixels.size or (pixels.ndim == 3 and pixels.shape[2] not in (2, 3, 4)):
        raise PictureProblem("has no shape of an image: (height, width) or (height, width, channels)")
    return Image.fromarray(np.ascontiguousarray(pixels))


def _fitted(image: Image, form: ImageForm) -> Pixels:
    shape = form.shape
    if image.mode not in _NATURAL[shape.channels] and not form.convert:
        kind = "grey" if shape.channels == 1 else "of three colours"
        raise PictureProblem(
            f"is {_WORDS.get(image.mode, f'of mode {image.mode}')}, expected {kind}; convert the data, or set "
            "convert = true for the images in the schema (--convert)"
        )
    if image.size != (shape.width, shape.height) and form.resize == "refuse":
        raise PictureProblem(
            f"is {image.height} x {image.width} pixels, expected {shape.height} x {shape.width}; resize the data, or "
            'set resize = "stretch", "crop" or "pad" for the images in the schema (--resize)'
        )
    fitted: Pixels | None = None
    try:
        fitted = np.asarray(_resized(_converted(image, shape), form), dtype=np.uint8)
    except MemoryError:
        raise
    except Exception:  # as above
        fitted = None
    if fitted is None:
        raise PictureProblem(_DAMAGED)
    return fitted.reshape(shape.height, shape.width, shape.channels)


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
    canvas = Image.new(image.mode, size)
    small = image.resize(inner, Image.Resampling.BILINEAR)
    canvas.paste(small, ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2))
    return canvas
