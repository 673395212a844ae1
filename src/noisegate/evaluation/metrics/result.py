"""What the metrics have in common: the sentence that every figure carries, the form of a result, and checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from noisegate.errors import DataError

CAVEAT = (
    "These figures were computed on real data and are NOT covered by the differential privacy guarantee; "
    "publishing them reveals something about the real records."
)


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """The figures of one metric between two sets of features."""

    METRIC: ClassVar[str]
    """How the metric is called in reports, always together with the features: ``kid(inception-v3)``."""

    @classmethod
    def named(cls, features: str) -> str:
        """Name the metric in some features; figures in two kinds of features have nothing to do with each other."""
        return f"{cls.METRIC}({features})"

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values."""
        return asdict(self)

    def page(self, features: str) -> dict[str, str]:
        """The figures as they are printed, by name."""
        raise NotImplementedError


def check_features(*several: np.ndarray, least: int) -> None:
    """Make sure that sets of features, (images, features), are finite and alike, with ``least`` images or more each.

    Raises:
        DataError: they are not.
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
