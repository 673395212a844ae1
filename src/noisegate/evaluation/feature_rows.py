"""Features of images as matrices: what every distance asks of them."""

from __future__ import annotations

import numpy as np

from noisegate.errors import DataError


def check_features(*several: np.ndarray, least: int) -> None:
    """Make sure that sets of features can be compared.

    Args:
        several: one row per image, one column per feature.
        least: rows that each must have.

    Raises:
        DataError: one is no matrix of finite numbers, has too few rows, or another number of columns than the first.
    """
    for features in several:
        if features.ndim != 2 or features.shape[1] == 0:
            raise DataError(f"features have the shape {features.shape}; expected (images, features)")
        if features.shape[1] != several[0].shape[1]:
            raise DataError(
                f"one set has {several[0].shape[1]} features, another {features.shape[1]}; compare features of the "
                "same network"
            )
        if len(features) < least:
            raise DataError(f"a set has {len(features)} image(s); this figure needs at least {least} in each")
        if not np.isfinite(features).all():
            raise DataError("features hold nan or infinity; the network that made them is broken")
