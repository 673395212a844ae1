"""Random Fourier features of what an encoder gives: images that it brings together are alike, whatever their pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import Constants, Made, RowForm
from noisegate.features.fourier import RandomFourier
from noisegate.features.perceptual import Perceptual
from noisegate.schema import EncodedTable

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedFourier:
    """Random Fourier features of an encoder's vectors of length 1.

    Attributes:
        encoding: From images to these vectors.
        fourier: On as many numeric columns as they have coordinates.
    """

    encoding: Perceptual
    fourier: RandomFourier

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.fourier.dim

    @property
    def norm(self) -> float:
        """1, up to rounding."""
        return self.fourier.norm

    @property
    def nonnegative(self) -> bool:
        """False."""
        return self.fourier.nonnegative

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim)."""
        values = self.encoding(records).astype(np.float64)
        return self.fourier(EncodedTable(values, np.zeros((len(values), 0), dtype=np.int32)))

    def of_points(self) -> RowForm:
        """Returns the features of intensities in [0, 1], (rows, pixels), up to rounding."""

        def features(constants: Constants, points: Made) -> Float[Tensor, "dim rows"]:
            result: Tensor = constants["fourier"](constants["encoding"](points).T)
            return result

        return RowForm(features, {"encoding": self.encoding.of_points(), "fourier": self.fourier.of_points()})
