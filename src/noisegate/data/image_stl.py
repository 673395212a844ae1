"""STL-10 as torchvision keeps it on disk: bytes of pictures, column by column, and bytes of labels beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisegate.data.image_arrays import check_no_units, rows_at_once
from noisegate.data.image_labels import check_labels
from noisegate.data.image_origins import OneFile, Pictures
from noisegate.errors import DataError

STL = re.compile(r"(?P<part>train|test|unlabeled)_X\.bin")
FOLDER = "stl10_binary"
_SHAPE = (3, 96, 96)  # channels, columns, rows
_BYTES = 3 * 96 * 96


@dataclass(frozen=True)
class StlImages(OneFile):
    """A file ``…_X.bin``, and its labels in ``…_y.bin`` beside it: 1 to 10, which are taken for 0 to 9."""

    @property
    def _labels(self) -> Path:
        return self.path.with_name(self.name.replace("_X", "_y"))

    def check(self) -> None:
        """Check the sizes of both files.

        Raises:
            DataError: if one of them is cut off, or there are no labels.
        """
        check_no_units(self.name, self.asked)
        images, rest = divmod(self.path.stat().st_size, _BYTES)
        if rest or not images:
            raise DataError(f"{self.name}: is no STL-10, or is cut off; expected {_BYTES:,} bytes for each image")
        if self.asked.form.label is None:
            return
        labels = self._labels
        if not labels.is_file():
            raise DataError(f"{self.name}: {labels.name} is not beside it; add it, or describe images without labels")
        if labels.stat().st_size != images:
            raise DataError(f"{self.name}: {labels.name} has another number of labels than there are images")
        check_labels(pa.int64(), None, self.asked.form, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the images, ``rows`` at a time.

        Raises:
            DataError: if a file cannot be read.
        """
        rows = rows_at_once(rows, _BYTES)
        labels = None if self.asked.form.label is None else self._parts(self._labels, rows)
        for content in self._parts(self.path, rows * _BYTES):
            images = np.frombuffer(content, np.uint8).reshape(-1, *_SHAPE).transpose(0, 3, 2, 1)
            codes = None if labels is None else np.frombuffer(next(labels, b""), np.uint8).astype(np.int64) - 1
            yield Pictures(pictures=np.ascontiguousarray(images), labels=None if codes is None else pa.array(codes))

    def _parts(self, path: Path, size: int) -> Iterator[bytes]:
        try:
            with path.open("rb") as stream:
                while content := stream.read(size):
                    yield content
            return
        except OSError as error:
            reason = error.strerror
        raise DataError(f"{path.name}: cannot be read: {reason}; check its permissions")
