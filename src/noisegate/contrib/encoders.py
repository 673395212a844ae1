"""Encoders of other people: CLIP's of a Stable unCLIP pipeline, IC-GAN's ResNet-50, the Inception-v3 of distances.

Radford et al., ICML 2021 (CLIP): a picture in, its embedding out, which scaled to length 1 is what
`noisegate.contrib.diffusers_decoder` decodes. Casanova et al., NeurIPS 2021 (IC-GAN): 2048 numbers for a picture of
224 x 224, with SwAV's weights, or those of a classifier, after ImageNet's normalisation. Heusel et al., NeurIPS 2017:
the last pooling layer of Inception-v3, by which DP-MEPF stops. Nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.errors import ModelError, OptionError, require
from noisegate.networks.named import IMAGENET, Channels, FrozenNetwork, load_state
from noisegate.networks.weights import check_digest, file_digest, folder_digest

if TYPE_CHECKING:
    from jaxtyping import Float

FOLDER = "image_encoder"
"""Where a pipeline keeps its encoder."""

LAYER = "feature"
"""The module that gives the feature."""

SIDE = 224
"""Height and width of the pictures that ResNet-50 takes."""

# Those of CLIP's public code, for pipelines that do not say.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_PARALLEL = "module."
_HEADS = ("fc.", "projection_head.", "prototypes.")  # of the classifier, and of SwAV's training


class Resized(nn.Module):
    """Brings images to a size, runs a network, and gives what it gives through a module of its own.

    `feature` passes the vectors on, so that they are the output of a module and can be chosen as a layer.
    """

    def __init__(self, network: nn.Module, side: int, *, mode: str) -> None:
        super().__init__()
        self.network, self.side, self.mode = network, side, mode
        self.feature = nn.Identity()

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows numbers"]:
        """Returns vectors of images."""
        height, width = images.shape[2:]
        least = min(height, width)
        top, left = (height - least) // 2, (width - least) // 2
        square = images[:, :, top : top + least, left : left + least]
        if least != self.side:
            size = (self.side, self.side)
            square = nn.functional.interpolate(square, size, mode=self.mode, align_corners=False, antialias=True)
        vectors: Tensor = self.feature(self.network(square).flatten(1))
        return vectors


class _Embedding(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows numbers"]:
        """Returns the projected embedding, as text and images share it."""
        embedding: Tensor = self.model(pixel_values=images).image_embeds
        return embedding


def load_clip(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    """Returns the image encoder of a pipeline; see `noisegate.networks.named.load_network`.

    The model is the folder of the pipeline, with the folder ``image_encoder`` in it, which must hash to `sha256`.
    """
    if weights is not None:
        raise OptionError(
            f"weights={weights!r}: network='clip:FOLDER' is read from the folder of a pipeline; leave it out."
        )
    require("transformers", "an encoder of CLIP")
    from transformers import CLIPVisionModelWithProjection

    folder = Path(model)
    digest = folder_digest(folder / FOLDER)
    try:
        # Attention in plain operations: which kernel is chosen must not depend on the machine's state.
        clip: Any = CLIPVisionModelWithProjection.from_pretrained(
            folder / FOLDER, local_files_only=True, use_safetensors=True, attn_implementation="eager"
        )
    except Exception as error:  # transformers raises whatever it likes for a folder that holds no such model
        raise ModelError(f"{folder / FOLDER}: no image encoder of CLIP ({str(error).splitlines()[0]}).") from None
    mean, std = _prepared(folder)
    if digest != sha256:
        raise (OptionError if sha256 is None else ModelError)(
            f"network='clip:{model}' with sha256={sha256!r}: that of the image encoder in this folder is {digest}; "
            "give it, so that a certificate says which one it was."
        )
    module = Resized(_Embedding(clip.float()), clip.config.image_size, mode="bicubic")
    return _public(module, digest, mean, std)


def _prepared(folder: Path) -> tuple[Channels, Channels]:
    path = folder / "feature_extractor" / "preprocessor_config.json"
    try:
        said = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        (red, green, blue), (wide, broad, long) = said.get("image_mean", _MEAN), said.get("image_std", _STD)
        return (float(red), float(green), float(blue)), (float(wide), float(broad), float(long))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: the mean and deviation of pictures cannot be read ({error}).") from None


def load_icgan_encoder(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    """Returns IC-GAN's encoder, "resnet50"; see `noisegate.networks.named.load_network`.

    The weights are a state dict of torchvision's ResNet-50 or of SwAV's public code; heads are left out.
    """
    if model != "resnet50" or weights is None:
        raise OptionError(
            f"network='ic-gan:{model}': the encoder of IC-GAN is 'ic-gan:resnet50', with weights=FILE and "
            "sha256=DIGEST."
        )
    digest = check_digest(file_digest(Path(weights), f"weights={weights!r}"), sha256, f"weights={weights!r}")
    require("torchvision", "network='torchvision:…'")
    try:
        module = _resnet_feature(load_state(Path(weights)))
    except Exception as error:  # torch raises whatever it likes for a file that is no state dict
        raise ModelError(f"weights={weights!r} do not fit a ResNet-50: {str(error).splitlines()[0]}") from None
    return _public(module, digest, *IMAGENET)


def _resnet_feature(state: Mapping[str, Tensor]) -> Resized:
    from torchvision import models

    with seeded(0):
        network = models.resnet50(weights=None)
    network.fc = nn.Identity()
    plain = {name.removeprefix(_PARALLEL): value for name, value in state.items()}
    network.load_state_dict({name: value for name, value in plain.items() if not name.startswith(_HEADS)})
    return Resized(network, SIDE, mode="bilinear")


def load_inception(model: str, weights: str | None, sha256: str | None) -> FrozenNetwork:
    """Returns Inception-v3 of Fréchet distances, "v3"; see `noisegate.networks.named.load_network`.

    Its feature is the last pooling layer, 2,048 numbers. The weights are those of pytorch-fid, by default where it or
    torch-fidelity leave them in the cache of torch, and no others: their digest is known.
    """
    from noisegate.evaluation import inception

    if model != "v3":
        raise OptionError(f"network='inception:{model}': there is 'inception:v3' alone.")
    path = inception.cached_weights() if weights is None else Path(weights)
    digest = check_digest(file_digest(path, f"weights={str(path)!r}"), sha256, f"weights={str(path)!r}", required=False)
    with seeded(0):
        network = inception.build_inception()
    inception.load_weights(network, path)
    # It brings images of any size to its own, and takes intensities as they are.
    return _public(_WithFeature(network), digest, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class _WithFeature(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.feature = network, nn.Identity()

    def forward(self, images: Float[Tensor, "rows 3 height width"]) -> Float[Tensor, "rows numbers"]:
        """Returns what the network gives, by way of a layer that has the name of a feature."""
        vectors: Tensor = self.feature(self.network(images))
        return vectors


def _public(module: nn.Module, sha256: str, mean: Channels, std: Channels) -> FrozenNetwork:
    return FrozenNetwork(
        module=module.requires_grad_(False).eval(),
        layers=(LAYER,),
        nonnegative=frozenset(),
        mean=mean,
        std=std,
        sha256=sha256,
    )
