"""When a fit has come far enough, and which of its generators is kept: decided on released values alone.

`Validation` keeps the generator whose images come closest to a second, unlabelled mean embedding that was released
beside the first with noise of its own (DP-MEPF, section 3; its code compares with the private embedding as it is).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.fitting.embedding import Embedding
from noisegate.generators.generator import Generator

_BLOCK = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """The released mean embedding that candidates are compared with.

    Attributes:
        means: For each block, the noisy mean over all records, (dim,).
        embeddings: For each block, the mean features of what a generator gives.
        weights: Share of each class among the records, (classes,).
        images: How many images of a candidate are compared.
    """

    means: Mapping[str, npt.NDArray[np.float64]]
    embeddings: Mapping[str, Embedding]
    weights: npt.NDArray[np.float64]
    images: int

    def distance(self, generator: Generator, random: torch.Generator, device: torch.device) -> float:
        """Returns the squared distance of a generator's mean embedding to the released one, in evaluation mode."""
        shares = torch.from_numpy(self.weights)
        sums: dict[str, Tensor] = {}
        with torch.no_grad():
            for start in range(0, self.images, _BLOCK):
                rows = min(_BLOCK, self.images - start)
                labels = torch.multinomial(shares, rows, replacement=True, generator=random).to(device)
                made = generator(generator.noise(rows, random).to(device), labels)
                for name, embedding in self.embeddings.items():
                    sums[name] = sums.get(name, torch.zeros(())).to(device) + rows * embedding.means(made, 1)[:, 0]
        found = {name: (total / self.images).cpu().double().numpy() for name, total in sums.items()}
        return math.fsum(float(np.square(found[name] - mean).sum()) for name, mean in self.means.items())

    def to(self, device: torch.device) -> None:
        """Moves the networks of the embeddings to a device."""
        for embedding in self.embeddings.values():
            embedding.to(device)
