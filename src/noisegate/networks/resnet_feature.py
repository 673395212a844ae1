"""The encoder of IC-GAN's checkpoints: ResNet-50 without its classifier, 2048 numbers for a picture of 224 x 224.

Casanova et al., NeurIPS 2021: SwAV's weights, or those of a classifier, after ImageNet's normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from noisegate.networks.resizing import Resized
from noisegate.networks.weights import seeded

SIDE = 224
LAYER = "feature"
"""The module that gives the feature."""

_PARALLEL = "module."
_HEADS = ("fc.", "projection_head.", "prototypes.")  # of the classifier, and of SwAV's training


def resnet_feature(state: Mapping[str, Tensor]) -> Resized:
    """Returns the encoder with the weights of a checkpoint, in evaluation mode.

    Args:
        state: Of torchvision's ResNet-50, or of SwAV's public code; heads are left out.

    Raises:
        ImportError: if torchvision is not installed.
        RuntimeError: if the weights are not those of a ResNet-50.
    """
    from torchvision import models

    with seeded(0):
        network = models.resnet50(weights=None)
    network.fc = nn.Identity()
    plain = {name.removeprefix(_PARALLEL): value for name, value in state.items()}
    network.load_state_dict({name: value for name, value in plain.items() if not name.startswith(_HEADS)})
    return Resized(network, SIDE, mode="bilinear").requires_grad_(False).eval()
