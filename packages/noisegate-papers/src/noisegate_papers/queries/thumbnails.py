"""Images as a few means of their pixels: squares made one pixel, and overlapping cells by which images are compared."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisegate.queries.feature_map import Vectors
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate_images.queries.orientation import INTENSITIES, Orientations


@dataclass(frozen=True, kw_only=True)
class Thumbnails:
    """The mean intensity of each square of `side` x `side` pixels, for each channel, in images of multiples of `side`.

    The central images of DP-FETA are sums of such vectors over a class. Squares are added up in one order (G-06). With
    a positive `lead` every vector begins with that number: outer products then hold how many records they are of, and
    their mean.
    """

    image: ImageShape
    side: int
    lead: float = 0.0
    nonnegative: ClassVar[bool] = True

    @property
    def small(self) -> ImageShape:
        """Shape of what comes out."""
        image, side = self.image, self.side
        return ImageShape(
            height=image.height // side,
            width=image.width // side,
            channels=image.channels,
        )

    @property
    def dim(self) -> int:
        """Number of means, and of the number before them if there is one."""
        return self.small.size + (self.lead > 0)

    @property
    def norm(self) -> float:
        """The length of the vector of a white image."""
        return math.sqrt(self.small.size + self.lead**2)

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns `lead`, if there is one, and means in the order of pixels of a smaller image, float32 (rows, dim)."""
        height, width, channels = self.small.axes
        squares = records.numeric.astype(np.float32).reshape(
            -1, height, self.side, width, self.side, channels
        )
        total = np.zeros((len(squares), height, width, channels), np.float32)
        for row in range(self.side):
            for column in range(self.side):
                total += squares[:, :, row, :, column]
        means = (total / np.float32(self.side**2)).reshape(len(squares), -1)
        return (
            np.insert(means, 0, np.float32(self.lead), axis=1) if self.lead else means
        )

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """The map itself: see `SharingMap`."""
        return self.__call__

    def second_half(self, values: Vectors) -> Vectors:
        """Returns what the first half gave."""
        return values


@dataclass(frozen=True, kw_only=True)
class BlurredPixels:
    """Intensities in overlapping cells whose middles are 2 pixels apart, scaled so that no vector is longer than 1.

    For digits this tells better which are alike than what a network of photographs sees (benchmarks/images/README.md).
    It is exact (G-25). Cells of an odd side are of its pixels.
    """

    image: ImageShape
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    @property
    def cells(self) -> Orientations:
        """The cells, which are those of gradient orientations, smaller."""
        shape = self.image
        return Orientations(
            image=shape, cell=1 if shape.height % 2 or shape.width % 2 else 2
        )

    @property
    def dim(self) -> int:
        """Number of cells and channels."""
        return math.prod(self.cells.grid) * self.image.channels

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        shape, cells = self.image, self.cells
        whole = np.rint(records.numeric * INTENSITIES).reshape(
            -1, shape.height, shape.width, shape.channels
        )
        down, right = cells.pooling(shape.height), cells.pooling(shape.width)
        pooled = down @ np.moveaxis(whole, 3, 1) @ right.T
        most = INTENSITIES * int(cells.weights.sum()) ** 2 * math.sqrt(self.dim)
        return (pooled.reshape(len(whole), self.dim) / most).astype(np.float32)
