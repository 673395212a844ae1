"""What a private GAN releases: the weights of its generator, and the learned shares of the labels beside them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from noisegate.errors import ModelError
from noisegate.methods.gan.training import LABELS
from noisegate.privacy.gradient_plan import unpacked
from noisegate.privacy.release import Release

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.generators.generator import Generator

GENERATOR = "generator"
"""The event, and what is released."""


def take_generator(
    release: Release, shapes: Mapping[str, tuple[int, ...]], generator: Generator
) -> npt.NDArray[np.float64] | None:
    """Puts the weights of a release into a generator, which is frozen then.

    Args:
        release: Of a private GAN.
        shapes: Of each array that it released, in its order.
        generator: Of the same design.

    Returns:
        The learned shares of the labels; None where they were not learned.

    Raises:
        ModelError: if the release is of another method, or its generator does not fit its schema and settings.
    """
    import torch

    values, wanted = release.values.get(GENERATOR), sum(map(prod, shapes.values()))
    if values is None or values.size != wanted:
        raise ModelError(
            f"the release has no generator of {wanted} numbers: it was made by another method or settings."
        )
    arrays = {name: torch.from_numpy(value) for name, value in unpacked(values, shapes).items()}
    logits = arrays.pop(LABELS, None)
    generator.load_state_dict(arrays)
    generator.requires_grad_(False).eval()
    if logits is None:
        return None
    shares: npt.NDArray[np.float64] = logits.double().softmax(dim=0).numpy()
    return shares
