"""The classifier that an encoder of images was trained with, which stands in its file, and which nothing else reads."""

from importlib import resources

import safetensors.torch
from torch import nn


def load_head(path=None):
    """The last layer of the encoder in a file, or of the one in the package."""
    file = path or resources.files("noisegate_images.networks").joinpath(
        "weights_cifar10.safetensors"
    )
    tensors = safetensors.torch.load(file.read_bytes())
    head = nn.Linear(*reversed(tensors["head.weight"].shape))
    head.load_state_dict(
        {name: tensors[f"head.{name}"].float() for name in ("weight", "bias")}
    )
    return head.requires_grad_(False)
