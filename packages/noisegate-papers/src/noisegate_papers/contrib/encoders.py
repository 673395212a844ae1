"""The Inception-v3 of Fréchet distances as an encoder, by which DP-MEPF stops (Heusel et al., NeurIPS 2017)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import OptionError
from noisegate_images.networks.encoder import check_digest, file_digest
from noisegate_images.networks.named import FrozenNetwork

if TYPE_CHECKING:
    from jaxtyping import Float

LAYER = "feature"  # the module that gives the feature


def load_inception(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    """Returns Inception-v3 of Fréchet distances, "v3"; see `noisegate_images.networks.named.load_network`."""
    # Its feature is the last pooling layer, 2,048 numbers. The weights are those of pytorch-fid, by default where it or
    # torch-fidelity leave them in the cache of torch, and no others: their digest is known.
    from noisegate_evaluate import inception

    if model != "v3":
        raise OptionError(f"network='inception:{model}': there is 'inception:v3' alone.")
    path = inception.cached_weights() if weights is None else Path(weights)
    digest = check_digest(file_digest(path, f"weights={str(path)!r}"), sha256, f"weights={str(path)!r}", required=False)
    with seeded(0):
        network = inception.build_inception()
    inception.load_weights(network, path)
    return FrozenNetwork(
        module=_WithFeature(network).requires_grad_(False).eval(),
        layers=(LAYER,),
        nonnegative=frozenset(),
        # It brings images of any size to its own, and takes intensities as they are.
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        sha256=digest,
    )


class _WithFeature(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.feature = network, nn.Identity()

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows numbers"]:
        """Returns what the network gives, by way of a layer that has the name of a feature."""
        vectors: Tensor = self.feature(self.network(images))
        return vectors
