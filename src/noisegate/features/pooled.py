"""Products of pooled pixels: an image is first averaged over squares of pixels, then looked up as a smaller image.

The average of k·k whole intensities from 0 to 255 is a whole multiple of 1/(255·k²), which is a step of the smaller
image's columns, so nothing is rounded. It is taken image by image, in one order, hence the same bits wherever an image
stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.features.products import Products
from noisegate.features.torch_form import TorchForm
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledProducts:
    """`Products` of an image's averages over squares.

    Attributes:
        products: On the columns of the smaller image, in the order of `pixel_schema`.
        image: Shape of the images as they come.
        pool: Side of the squares, in pixels.
    """

    products: Products
    image: ImageShape
    pool: int

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.products.dim

    @property
    def norm(self) -> float:
        """The bound of G-22."""
        return self.products.norm

    @property
    def nonnegative(self) -> bool:
        """Whether no coordinate is ever negative."""
        return self.products.nonnegative

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim)."""
        small = pooled(records.numeric, self.image, self.pool)
        return self.products(EncodedTable(small, np.zeros((len(small), 0), dtype=np.int32)))

    def of_points(self) -> TorchForm:
        """Returns the means of products at images of points, (rows, pixels)."""
        import torch

        def small(points: Tensor) -> Tensor:
            images = points.reshape(-1, self.image.height, self.image.width, self.image.channels).permute(0, 3, 1, 2)
            return torch.nn.functional.avg_pool2d(images, self.pool).permute(0, 2, 3, 1).flatten(1)

        return self.products.of_points_after(small)


def pooled(numeric: npt.NDArray[np.float64], image: ImageShape, pool: int) -> npt.NDArray[np.float64]:
    """Returns averages over squares, (rows, smaller height · smaller width · channels)."""
    shape = (len(numeric), image.height // pool, pool, image.width // pool, pool, image.channels)
    squares = numeric.reshape(shape)
    total = np.zeros((shape[0], shape[1], shape[3], shape[5]))
    for down in range(pool):
        for right in range(pool):
            total += squares[:, :, down, :, right]
    return (total / pool**2).reshape(len(numeric), -1)
