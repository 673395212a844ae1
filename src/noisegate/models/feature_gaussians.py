"""Gaussian distributions of features of length 1, one for each label: what DP-MGE draws before it decodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.models.record_model import Array

_LEAST = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureGaussians:
    """A Gaussian for each label, whose draws are cut to what an encoder can give and brought to length 1.

    Attributes:
        means: (labels, axes).
        roots: Standard deviations, (labels, axes), or square roots of covariances, (labels, axes, axes).
        axes: Orthonormal directions in the space of features, (features, axes); None where they are that space's own.
        nonnegative: Whether features have no negative entry: what is drawn below 0 is 0.
    """

    means: npt.NDArray[np.float64]
    roots: npt.NDArray[np.float64]
    axes: npt.NDArray[np.float64] | None = None
    nonnegative: bool = False

    @property
    def features(self) -> int:
        """Length of a feature."""
        return int(self.means.shape[1] if self.axes is None else self.axes.shape[0])

    @property
    def labels(self) -> int:
        """How many Gaussians there are; 1 for all labels together."""
        return len(self.means)

    def draw(self, labels: Tensor, random: torch.Generator) -> Tensor:
        """Returns a feature of length 1 for each label, float32 (rows, features).

        Args:
            labels: Which Gaussian to draw from, (rows,) int64.
            random: Public randomness, on the CPU.
        """
        means, roots = torch.from_numpy(self.means)[labels], torch.from_numpy(self.roots)
        normal = torch.randn(means.shape, generator=random, dtype=torch.float64)
        spread = normal * roots[labels] if roots.ndim == 2 else _products(roots, labels, normal)
        drawn = means + spread
        if self.axes is not None:
            drawn = drawn @ torch.from_numpy(self.axes).T
        return unit_rows(drawn.clamp_min(0) if self.nonnegative else drawn).float()

    def tensors(self) -> dict[str, Array]:
        """Returns means, roots, and axes if there are any."""
        return {"means": self.means, "roots": self.roots, **({} if self.axes is None else {"axes": self.axes})}

    def to_json(self) -> dict[str, Any]:
        """Returns whether features are cut at 0."""
        return {"nonnegative": self.nonnegative}

    @classmethod
    def from_saved(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the distributions that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError: if they describe none.
        """
        means, roots = (tensors[name].astype(np.float64) for name in ("means", "roots"))
        axes = tensors["axes"].astype(np.float64) if "axes" in tensors else None
        wide = means.ndim == 2 and roots.shape in (means.shape, (*means.shape, means.shape[-1]))
        if not wide or (axes is not None and axes.shape[1:] != means.shape[1:]):
            raise ValueError(f"means of shape {means.shape} and roots of shape {roots.shape} describe no Gaussians")
        parts = [means, roots, *([] if axes is None else [axes])]
        if not all(np.isfinite(part).all() for part in parts) or (roots.ndim == 2 and (roots < 0).any()):
            raise ValueError("a number of the Gaussians is not finite, or a deviation is below 0")
        return cls(means=means, roots=roots, axes=axes, nonnegative=bool(description["nonnegative"]))


def unit_rows(rows: Tensor) -> Tensor:
    """Returns rows brought to length 1, (rows, features); where all of one is 0, all its entries become equal."""
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(lengths > _LEAST, rows / lengths.clamp_min(_LEAST), rows.shape[1] ** -0.5)


def _products(roots: Tensor, labels: Tensor, normal: Tensor) -> Tensor:
    """Returns each row times the root of its label, label by label: one matrix for each row would fill the memory."""
    spread = torch.empty_like(normal)
    for label, root in enumerate(roots):
        mine = labels == label
        spread[mine] = normal[mine] @ root.T
    return spread
