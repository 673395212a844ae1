"""One image as the bytes of a PNG file, which loses nothing."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape

_MODES = {1: "L", 3: "RGB"}


def check_drawable(shape: ImageShape, out: object, option: str = "--out") -> str:
    """Returns how Pillow calls images of so many channels.

    Raises:
        OptionError: if a PNG file cannot hold them.
    """
    if shape.channels not in _MODES:
        raise OptionError(
            f"{option} {out}: images of {shape.channels} channels are neither grey (1) nor colour (3), so no picture "
            "can hold them; write .npz."
        )
    return _MODES[shape.channels]


def png_bytes(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns an image as a PNG file.

    Args:
        pixels: (height, width, channels), of one channel or three.
    """
    from PIL import Image

    target = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(target, format="png")
    return target.getvalue()
