"""What images that fill their frame alike, such as drawings, are compared by: their pixels, a little blurred.

For digits this tells better which are alike than what a network of photographs sees (benchmarks/images/README.md). All
of it is sums of whole numbers that float64 holds, so a vector is a function of its image alone, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisegate.features.feature_map import Vectors
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate_images.features.orientation import INTENSITIES, Orientations


@dataclass(frozen=True, kw_only=True)
class BlurredPixels:
    """Intensities in overlapping cells whose middles are 2 pixels apart, scaled so that no vector is longer than 1.

    Attributes:
        image: Shape of the images; cells of an odd side are of its pixels.

    Examples:
        >>> import numpy as np
        >>> from noisegate_papers.features.pixels import BlurredPixels
        >>> from noisegate.records import Images
        >>> from noisegate.schema.pixels import ImageShape
        >>> pixels = BlurredPixels(image=ImageShape(height=4, width=4))
        >>> pixels(Images(np.full((1, 4, 4, 1), 255, dtype=np.uint8))).astype(float).round(2).tolist()
        [[0.38, 0.38, 0.38, 0.38]]
    """

    image: ImageShape
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    @property
    def cells(self) -> Orientations:
        """The cells, which are those of gradient orientations, smaller."""
        shape = self.image
        return Orientations(image=shape, cell=1 if shape.height % 2 or shape.width % 2 else 2)

    @property
    def dim(self) -> int:
        """Number of cells and channels."""
        return math.prod(self.cells.grid) * self.image.channels

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        shape, cells = self.image, self.cells
        whole = np.rint(records.numeric * INTENSITIES).reshape(-1, shape.height, shape.width, shape.channels)
        down, right = cells.pooling(shape.height), cells.pooling(shape.width)
        pooled = down @ np.moveaxis(whole, 3, 1) @ right.T
        most = INTENSITIES * int(cells.weights.sum()) ** 2 * math.sqrt(self.dim)
        return (pooled.reshape(len(whole), self.dim) / most).astype(np.float32)
