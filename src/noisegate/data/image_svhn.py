"""SVHN's cropped digits as torchvision keeps them on disk: a file of MATLAB with all pictures and labels in it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.image_arrays import check_no_units, rows_at_once
from noisegate.data.image_labels import check_labels
from noisegate.data.image_origins import OneFile, Pictures
from noisegate.errors import DataError

SVHN = re.compile(r"(?P<part>train|test|extra)_32x32\.mat")
_SHAPE = (32, 32, 3)


@dataclass(frozen=True)
class SvhnImages(OneFile):
    """A file ``…_32x32.mat``; its label 10 is the digit 0, as in torchvision.

    MATLAB's format, read by SciPy, holds arrays and no program. It can only be read as a whole.
    """

    def check(self) -> None:
        """Check what is asked of the file; it is not read.

        Raises:
            DataError: if that cannot be had.
        """
        check_no_units(self.name, self.asked)
        if self.asked.form.label is not None:
            check_labels(pa.int64(), None, self.asked.form, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the images, ``rows`` at a time; the file, of some 200 MB unpacked, is in memory meanwhile.

        Raises:
            DataError: if it does not hold images and labels.
        """
        images, labels = self._arrays()
        rows = rows_at_once(rows, images[..., 0].size)
        for start in range(0, images.shape[3], rows):
            part = slice(start, start + rows)
            pictures = np.ascontiguousarray(images[..., part].transpose(3, 0, 1, 2))
            yield Pictures(pictures=pictures, labels=None if labels is None else pa.array(labels[part]))

    def _arrays(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]:
        """Return the images, (32, 32, 3, images), and their labels."""
        from scipy.io import loadmat

        wanted = ["X"] if self.asked.form.label is None else ["X", "y"]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found: dict[str, Any] = loadmat(str(self.path), variable_names=wanted, appendmat=False)
            images = _images(found)
            return images, None if self.asked.form.label is None else _labels(found, images.shape[3])
        except MemoryError:
            raise
        except Exception:  # SciPy's reader fails in many ways, and what it says may quote the file
            pass
        raise DataError(
            f"{self.name}: cannot be read as SVHN's cropped digits; it is damaged, or holds other arrays than X, "
            "32 x 32 x 3 bytes for each image, and y: download it again"
        )


def _images(found: dict[str, Any]) -> npt.NDArray[np.uint8]:
    images: npt.NDArray[np.uint8] = found["X"]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != _SHAPE:
        raise ValueError
    return images


def _labels(found: dict[str, Any], count: int) -> npt.NDArray[np.int64]:
    labels = found["y"].reshape(-1).astype(np.int64, casting="safe")
    if len(labels) != count:
        raise ValueError
    return np.where(labels == 10, 0, labels)
