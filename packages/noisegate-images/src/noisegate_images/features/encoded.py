"""Random Fourier features of what an encoder gives: images that it brings together are alike, whatever their pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import Constants, Made, RowForm
from noisegate.schema import EncodedTable
from noisegate_images.features.fourier import FourierOfValues, RandomFourier
from noisegate_images.features.perceptual import Perceptual

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedFourier(FourierOfValues):
    """Random Fourier features of an encoder's vectors of length 1.

    Attributes:
        encoding: From images to these vectors.
        fourier: On as many numeric columns as they have coordinates.
    """

    encoding: Perceptual
    fourier: RandomFourier

    def values(self, records: EncodedTable) -> npt.NDArray[np.float64]:
        """Returns what the encoder gives, (rows, coordinates)."""
        return self.encoding(records).astype(np.float64)

    def of_points(self) -> RowForm:
        """Returns the features of intensities in [0, 1], (rows, pixels), up to rounding."""

        def features(constants: Constants, points: Made) -> Float[Tensor, "dim rows"]:
            result: Tensor = constants["fourier"](constants["encoding"](points).T)
            return result

        return RowForm(features, {"encoding": self.encoding.of_points(), "fourier": self.fourier.of_points()})
