"""The image encoder of a Stable unCLIP pipeline in a local folder: a picture in, its CLIP embedding out.

Radford et al., ICML 2021 (CLIP). With the embedding scaled to length 1 it is what `noisegate.generators.
decoder_diffusers` decodes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from noisegate.errors import MissingExtraError, ModelError
from noisegate.networks.folder_digest import folder_digest
from noisegate.networks.resizing import Resized

FOLDER = "image_encoder"
"""Where a pipeline keeps its encoder."""

LAYER = "feature"
"""The module that gives the embedding."""

Channels = tuple[float, float, float]
# Those of CLIP's public code, for pipelines that do not say.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipEncoder:
    """An image encoder with what its pictures are prepared by.

    Attributes:
        module: From (rows, 3, height, width), after `mean` and `std`; its module `LAYER` gives embeddings.
        mean: Of each channel, taken off the intensities.
        std: Of each channel, that they are then divided by.
        sha256: Of the encoder's files, as `folder_digest` has it.
    """

    module: nn.Module
    mean: Channels
    std: Channels
    sha256: str


class _Embedding(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        embedding: Tensor = self.model(pixel_values=images).image_embeds
        return embedding


def load_clip(folder: Path) -> ClipEncoder:
    """Returns the image encoder of a pipeline; nothing is downloaded.

    Args:
        folder: Of the pipeline, with the folder ``image_encoder`` in it.

    Raises:
        ModelError: if there is none, or it cannot be read.
        MissingExtraError: if transformers is not installed.
    """
    try:
        from transformers import CLIPVisionModelWithProjection
    except ImportError:
        raise MissingExtraError(
            "an encoder of CLIP needs transformers; install it with: pip install 'noisegate[diffusers]'"
        ) from None
    digest = folder_digest(folder / FOLDER)
    try:
        # Attention in plain operations: which kernel is chosen must not depend on the machine's state.
        model: Any = CLIPVisionModelWithProjection.from_pretrained(
            folder / FOLDER, local_files_only=True, use_safetensors=True, attn_implementation="eager"
        )
    except Exception as error:  # transformers raises whatever it likes for a folder that holds no such model
        raise ModelError(f"{folder / FOLDER}: no image encoder of CLIP ({str(error).splitlines()[0]}).") from None
    mean, std = _prepared(folder)
    module = Resized(_Embedding(model.float()), model.config.image_size, mode="bicubic")
    return ClipEncoder(module=module.requires_grad_(False).eval(), mean=mean, std=std, sha256=digest)


def _prepared(folder: Path) -> tuple[Channels, Channels]:
    path = folder / "feature_extractor" / "preprocessor_config.json"
    try:
        said = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        (red, green, blue), (wide, broad, long) = said.get("image_mean", _MEAN), said.get("image_std", _STD)
        return (float(red), float(green), float(blue)), (float(wide), float(broad), float(long))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: the mean and deviation of pictures cannot be read ({error}).") from None
