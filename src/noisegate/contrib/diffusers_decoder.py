"""Decoders of Hugging Face diffusers: from a CLIP embedding to an image (Stable unCLIP, `StableUnCLIPImg2ImgPipeline`).

A pipeline lies in a local folder; nothing is downloaded. The embedding of a picture is not of length 1 there, the
library's features are: what is decoded is the feature times the length that embeddings have by the pipeline's own
statistics. It runs on a GPU if there is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import ModelError, OptionError, require
from noisegate.models.decoder import LoadedDecoder
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float
    from torch import Tensor

_KEYS = {"kind", "path", "image", "steps", "guidance"}
_STEPS, _GUIDANCE = 20, 10.0  # the pipeline's own defaults


class UnclipDecoder:
    """A Stable unCLIP pipeline, in evaluation mode, as a decoder.

    What it draws in so many steps is averaged down to `shape`, colour; a guidance of 1 is none.
    """

    def __init__(self, pipeline: Any, shape: ImageShape, *, steps: int, guidance: float) -> None:
        self.shape, self._pipeline, self._steps, self._guidance = shape, pipeline, steps, guidance
        self.features: int = pipeline.image_encoder.config.projection_dim
        side: int = pipeline.unet.config.sample_size
        self._latents = (int(pipeline.unet.config.in_channels), side, side)
        self.latent = self._latents[0] * side * side
        normaliser = pipeline.image_normalizer
        # The expected square of an embedding's length, from the mean and deviation that came with the pipeline.
        self._length = float((normaliser.mean.square() + normaliser.std.square()).detach().sum().sqrt())

    def __call__(
        self, features: Float[Tensor, "rows features"], noise: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows numbers"]:
        """Returns intensities in [0, 1], (rows, height · width · 3), on the CPU; see `Decoder`."""
        import torch
        from torch.nn import functional

        device = self._pipeline.unet.device
        latents = noise.reshape(-1, *self._latents) * float(self._pipeline.scheduler.init_noise_sigma)
        with torch.no_grad():
            images = self._pipeline(
                prompt=[""] * len(features),
                image_embeds=(features * self._length).to(device),
                latents=latents.to(device),
                generator=[_random(row) for row in noise],
                num_inference_steps=self._steps,
                guidance_scale=self._guidance,
                output_type="pt",
            ).images
        small = functional.interpolate(images.float().cpu(), (self.shape.height, self.shape.width), mode="area")
        return small.clamp(0, 1).permute(0, 2, 3, 1).flatten(1)


def _random(noise: Float[Tensor, " latent"]) -> torch.Generator:
    """Returns the randomness of one image's other draws, which follows from its own noise and from nothing else."""
    import torch

    digest = hashlib.sha256(noise.cpu().contiguous().numpy().tobytes()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def load_diffusers(description: Mapping[str, Any], sha256: str | None = None) -> LoadedDecoder:
    """Returns the decoder of a pipeline in a local folder, which must hash to `sha256` (`folder_digest`).

    The description has "path", the folder; "image", height, width and 3; and, if not the pipeline's defaults, "steps"
    of the denoising and "guidance".
    """
    import torch

    from noisegate.contrib.encoders import FOLDER, LAYER
    from noisegate.networks.weights import folder_digest

    shape, steps, guidance = _read(description)
    folder = Path(description["path"])
    found = folder_digest(folder)
    if found != sha256:
        raise (OptionError if sha256 is None else ModelError)(
            f"decoder {folder} with the SHA-256 {sha256}: that of this folder is {found}; give it, so that a "
            "certificate says which one it was."
        )
    pipeline = _pipeline(folder).to("cuda" if torch.cuda.is_available() else "cpu")
    pipeline.set_progress_bar_config(disable=True)
    return LoadedDecoder(
        decoder=UnclipDecoder(pipeline, shape, steps=steps, guidance=guidance),
        kind="diffusers",
        digest=found,
        encoder=folder_digest(folder / FOLDER),
        layer=LAYER,
        description=dict(description),
    )


def _pipeline(folder: Path) -> Any:
    for package in ("diffusers", "transformers"):
        require(package, "a decoder of diffusers")
    from diffusers import StableUnCLIPImg2ImgPipeline

    try:
        load: Any = StableUnCLIPImg2ImgPipeline.from_pretrained
        return load(folder, local_files_only=True, use_safetensors=True)
    except Exception as error:  # diffusers raises whatever it likes for a folder that holds no such pipeline
        raise ModelError(f"decoder {folder}: no Stable unCLIP pipeline ({str(error).splitlines()[0]}).") from None


def _read(description: Mapping[str, Any]) -> tuple[ImageShape, int, float]:
    image, steps, guidance = (description.get(name) for name in ("image", "steps", "guidance"))
    unknown = sorted(set(description) - _KEYS)
    if not isinstance(image, list) or len(image) != 3 or image[2] != 3 or unknown:
        raise OptionError(
            f"a description of a diffusers decoder has the keys {', '.join(sorted(_KEYS))}, and 'image' is [height, "
            f"width, 3]; found image={image!r}{f' and {unknown}' if unknown else ''}."
        )
    steps, guidance = _STEPS if steps is None else steps, _GUIDANCE if guidance is None else guidance
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise OptionError(f"steps={steps!r} of a diffusers decoder must be a whole number, 1 or more.")
    if isinstance(guidance, bool) or not isinstance(guidance, int | float) or not 1 <= guidance <= 100:
        raise OptionError(f"guidance={guidance!r} of a diffusers decoder must be a number from 1 to 100.")
    return ImageShape(height=image[0], width=image[1], channels=3), steps, float(guidance)
