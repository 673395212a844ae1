"""Trains the encoder and the decoder of drawings that are in the package, on random signs; no picture is used.

    OMP_NUM_THREADS=1 python -m noisegate_papers.contrib.pretraining.strokes --out FOLDER

The encoder learns to tell signs apart, by a softmax over cosines (Wang et al., ACM MM 2017), the decoder to draw them,
as half of a variational autoencoder (Kingma and Welling, ICLR 2014). Both files follow from the seed, on one thread of
the same kind of processor; those in the package were trained by this code before its last rounding of a bias changed.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from noisegate.devices import one_thread, seeded
from noisegate_images.networks import strokes
from noisegate_images.training.adam import Adam, one_cycle
from noisegate_papers.contrib.pretraining.signs import draw_signs

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, UInt8

SIGNS, DRAWINGS = 2000, 10
_TEMPERATURE = 16.0


def train_encoder(
    images: UInt8[Tensor, "rows 784"], signs: Int64[Tensor, " rows"], *, steps: int, seed: int, batch: int = 192
) -> strokes.StrokeEncoder:
    """Returns an encoder, folded and frozen, that tells signs apart."""
    with seeded(seed):
        network = strokes.StrokeEncoder(trained=True).train()
        centres = nn.Parameter(torch.randn(int(signs.max()) + 1, strokes.NUMBERS))

    def loss(rows: Int64[Tensor, " rows"], random: torch.Generator) -> Float[Tensor, ""]:
        moved = torch.randint(-1, 2, (2,), generator=random).tolist()
        pictures = torch.roll(_pictures(images[rows]), moved, (2, 3))
        vectors = nn.functional.normalize(network(pictures), dim=1)
        cosines = vectors @ nn.functional.normalize(centres, dim=1).T
        return nn.functional.cross_entropy(_TEMPERATURE * cosines, signs[rows])

    parameters = {**dict(network.named_parameters()), "centres": centres}
    _descend(parameters, loss, rows=len(images), batch=batch, steps=steps, learning_rate=3e-3, seed=seed)
    return strokes.folded_strokes(network)


def train_decoder(
    images: UInt8[Tensor, "rows 784"], *, steps: int, seed: int, batch: int = 100
) -> strokes.DrawingDecoder:
    """Returns a decoder that draws signs from standard normal noise."""
    with seeded(seed):
        network = strokes.DrawingDecoder()
        recognition = nn.Sequential(nn.Linear(images.shape[1], 256), nn.ReLU(), nn.Linear(256, 2 * strokes.LATENT))

    def loss(rows: Int64[Tensor, " rows"], random: torch.Generator) -> Float[Tensor, ""]:
        pictures = _pictures(images[rows])
        mean, log_variance = recognition(pictures.flatten(1)).chunk(2, dim=1)
        code = mean + torch.randn(mean.shape, generator=random) * (log_variance / 2).exp()
        missed = nn.functional.binary_cross_entropy_with_logits(network(code), pictures, reduction="sum")
        information = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
        total: Tensor = (missed + information) / len(rows)
        return total

    parameters = dict(nn.ModuleList([network, recognition]).named_parameters())
    _descend(parameters, loss, rows=len(images), batch=batch, steps=steps, learning_rate=2e-3, seed=seed)
    return network


def _pictures(rows: UInt8[Tensor, "rows 784"]) -> Float[Tensor, "rows 1 28 28"]:
    return rows.to(torch.float32).div(255).reshape(-1, 1, strokes.SIDE, strokes.SIDE)


def _descend(
    parameters: Mapping[str, Tensor],
    loss: Callable[[Tensor, torch.Generator], Tensor],
    *,
    rows: int,
    batch: int,
    steps: int,
    learning_rate: float,
    seed: int,
) -> None:
    adam, random = Adam(parameters, learning_rate=learning_rate), torch.Generator().manual_seed(seed)
    for step in range(steps):
        chosen = torch.randint(rows, (batch,), generator=random)
        adam.descend(loss(chosen, random), scale=one_cycle(step / steps))


def main() -> None:
    """Writes both files and prints their digests."""
    parser = argparse.ArgumentParser(description="Train encoder and decoder of drawings on random signs.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the two files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000, help="of each training")
    options = parser.parse_args()
    pixels, labels = draw_signs(SIGNS, DRAWINGS, seed=options.seed)
    images, signs = torch.from_numpy(pixels), torch.from_numpy(labels)
    with one_thread(torch.device("cpu")):
        encoder = train_encoder(images, signs, steps=options.steps, seed=options.seed)
        decoder = train_decoder(images, steps=options.steps, seed=options.seed)
    for name, content in (
        (strokes.SHIPPED, strokes.stroke_bytes(encoder)),
        (strokes.DRAWING, strokes.drawing_bytes(decoder)),
    ):
        (options.out / name).write_bytes(content)
        print(hashlib.sha256(content).hexdigest(), name)


if __name__ == "__main__":
    main()
