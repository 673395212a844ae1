"""Trains the encoder and the decoder of drawings that are in the package, on random signs; no picture is used.

    OMP_NUM_THREADS=1 python benchmarks/images/train_strokes.py --out FOLDER

A sign is one to four Bézier curves, often joined. A drawing is a sign with its control points shaken, turned, sheared,
stretched and moved, and with a light stroke of its own on dark. The encoder learns to tell signs apart, by a softmax
over cosines (Wang et al., ACM MM 2017), the decoder to draw them, as half of a variational autoencoder (Kingma and
Welling, ICLR 2014). Both files follow from the seed, on one thread of the same kind of processor; those in the package
were trained by this code before its last rounding of a bias changed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from harness.options import needed, read_options
from torch import Tensor, nn

from noisegate.devices import one_thread, seeded
from noisegate_images.networks import strokes
from noisegate_images.networks.encoder import halved
from noisegate_images.training.adam import Adam, one_cycle

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, UInt8

Floats = npt.NDArray[np.float32]

SIDE = 28
_CURVES, _POINTS, _BLOCK = 4, 48, 20
_AWAY = 1e3  # where the points of curves lie that a sign does not have


def draw_signs(
    signs: int, drawings: int, *, seed: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns drawings of signs, (rows, 784) uint8 with ink at 255, and which each is: `signs` rows have every one."""
    random = np.random.Generator(np.random.Philox(seed))
    controls = np.stack([_sign(random) for _ in range(signs)])
    which = np.tile(np.arange(signs), drawings)
    images = np.empty((len(which), SIDE * SIDE), dtype=np.uint8)
    for start in range(0, len(which), _BLOCK):
        part = slice(start, start + _BLOCK)
        images[part] = np.rint(255 * _drawn(controls[which[part]], random))
    return images, which


def _sign(random: np.random.Generator) -> Floats:
    """Returns the control points of the curves of a sign, (curves, 4, 2) in [-1, 1]; missing ones are not a number."""
    curves = np.full((_CURVES, 4, 2), np.nan, dtype=np.float32)
    for place in range(random.choice([1, 2, 2, 3, 3, 4])):
        points = random.uniform(-1, 1, (4, 2))
        if place and random.random() < 0.6:
            points[0] = curves[place - 1, 3]
        if random.random() < 0.35:
            points[1:3] = (
                points[0]
                + (points[3] - points[0]) * [[1 / 3], [2 / 3]]
                + random.normal(0, 0.12, (2, 2))
            )
        if random.random() < 0.15:
            points[3] = points[0]
        curves[place] = points
    return curves


def _drawn(controls: Floats, random: np.random.Generator) -> Floats:
    """Returns a drawing of each sign, (rows, 784) in [0, 1]."""
    rows = len(controls)
    along = np.linspace(0, 1, _POINTS)[:, None]
    bernstein = np.hstack(
        [
            (1 - along) ** 3,
            3 * along * (1 - along) ** 2,
            3 * along**2 * (1 - along),
            along**3,
        ]
    )
    points = bernstein @ (controls + random.normal(0, 0.12, controls.shape))
    points = points.reshape(rows, -1, 2) @ _affine(rows, random)
    low, high = (
        np.nanmin(points, axis=1, keepdims=True),
        np.nanmax(points, axis=1, keepdims=True),
    )
    size = random.uniform(15, 24, (rows, 1, 1)) / (high - low).max(
        axis=2, keepdims=True
    )
    points = (points - (low + high) / 2) * size + random.normal(0, 0.8, (rows, 1, 2))
    width, soft = (
        random.uniform(0.8, 2.1, (rows, 1)),
        random.uniform(0.7, 1.8, (rows, 1)),
    )
    ink = (width - _distances(np.nan_to_num(points, nan=_AWAY))) / soft + 0.5
    return np.asarray(ink.clip(0, 1), dtype=np.float32)


def _affine(rows: int, random: np.random.Generator) -> Floats:
    angle, shear, ratio = (
        random.normal(0, 0.13, rows),
        random.normal(0, 0.2, rows),
        random.normal(0, 0.15, rows),
    )
    turn = np.stack(
        [np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], axis=1
    ).reshape(-1, 2, 2)
    slant = np.stack(
        [np.exp(ratio), np.zeros(rows), shear, np.exp(-ratio)], axis=1
    ).reshape(-1, 2, 2)
    return np.asarray(turn @ slant, dtype=np.float32)


def _distances(points: npt.NDArray[np.floating]) -> Floats:
    """Returns each pixel's distance to the nearest point, (rows, 784)."""
    axis = np.arange(SIDE) - (SIDE - 1) / 2
    pixels = (
        np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        .reshape(-1, 2)
        .astype(np.float32)
    )
    near = points.astype(np.float32)
    squares = (near * near).sum(axis=2)[:, None] - 2 * pixels @ near.transpose(0, 2, 1)
    return np.asarray(
        np.sqrt((squares.min(axis=2) + (pixels * pixels).sum(axis=1)).clip(0))
    )


SIGNS, DRAWINGS = 2000, 10
_TEMPERATURE = 16.0


class TrainedStrokes(strokes.StrokeEncoder):
    """The encoder while it is trained: with batch normalisation after each convolution."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for layer in self.convolutions:
            layers += (
                [layer, nn.BatchNorm2d(layer.out_channels)]
                if isinstance(layer, nn.Conv2d)
                else [layer]
            )
        self.convolutions = nn.Sequential(*layers)


def folded_strokes(encoder: strokes.StrokeEncoder) -> strokes.StrokeEncoder:
    """Returns the encoder that gives what one gives that was trained, in evaluation mode, without normalisation."""
    result, layers = strokes.StrokeEncoder(), list(encoder.convolutions)
    result.embedding.load_state_dict(encoder.embedding.state_dict())
    norms = [layer for layer in layers if isinstance(layer, nn.BatchNorm2d)]
    pairs = [
        [layer for layer in found if isinstance(layer, nn.Conv2d)]
        for found in (layers, result.convolutions)
    ]
    with torch.no_grad():
        for convolution, simple, norm in zip(*pairs, norms, strict=True):
            assert norm.running_var is not None and norm.running_mean is not None
            assert simple.bias is not None and convolution.bias is not None
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            simple.weight.copy_(convolution.weight * scale[:, None, None, None])
            simple.bias.copy_(
                (convolution.bias - norm.running_mean) * scale + norm.bias
            )
    return result.requires_grad_(False).eval()


def train_encoder(
    images: UInt8[Tensor, "rows 784"],
    signs: Int64[Tensor, " rows"],
    *,
    steps: int,
    seed: int,
    batch: int = 192,
) -> strokes.StrokeEncoder:
    """Returns an encoder, folded and frozen, that tells signs apart."""
    with seeded(seed):
        network = TrainedStrokes().train()
        centres = nn.Parameter(torch.randn(int(signs.max()) + 1, strokes.NUMBERS))

    def loss(
        rows: Int64[Tensor, " rows"], random: torch.Generator
    ) -> Float[Tensor, ""]:
        moved = torch.randint(-1, 2, (2,), generator=random).tolist()
        pictures = torch.roll(_pictures(images[rows]), moved, (2, 3))
        vectors = nn.functional.normalize(network(pictures), dim=1)
        cosines = vectors @ nn.functional.normalize(centres, dim=1).T
        return nn.functional.cross_entropy(_TEMPERATURE * cosines, signs[rows])

    parameters = {**dict(network.named_parameters()), "centres": centres}
    _descend(
        parameters,
        loss,
        rows=len(images),
        batch=batch,
        steps=steps,
        learning_rate=3e-3,
        seed=seed,
    )
    return folded_strokes(network)


def train_decoder(
    images: UInt8[Tensor, "rows 784"], *, steps: int, seed: int, batch: int = 100
) -> strokes.DrawingDecoder:
    """Returns a decoder that draws signs from standard normal noise."""
    with seeded(seed):
        network = strokes.DrawingDecoder()
        recognition = nn.Sequential(
            nn.Linear(images.shape[1], 256),
            nn.ReLU(),
            nn.Linear(256, 2 * strokes.LATENT),
        )

    def loss(
        rows: Int64[Tensor, " rows"], random: torch.Generator
    ) -> Float[Tensor, ""]:
        pictures = _pictures(images[rows])
        mean, log_variance = recognition(pictures.flatten(1)).chunk(2, dim=1)
        code = (
            mean + torch.randn(mean.shape, generator=random) * (log_variance / 2).exp()
        )
        missed = nn.functional.binary_cross_entropy_with_logits(
            network(code), pictures, reduction="sum"
        )
        information = (
            0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
        )
        total: Tensor = (missed + information) / len(rows)
        return total

    parameters = dict(nn.ModuleList([network, recognition]).named_parameters())
    _descend(
        parameters,
        loss,
        rows=len(images),
        batch=batch,
        steps=steps,
        learning_rate=2e-3,
        seed=seed,
    )
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
    adam, random = (
        Adam(parameters, learning_rate=learning_rate),
        torch.Generator().manual_seed(seed),
    )
    for step in range(steps):
        chosen = torch.randint(rows, (batch,), generator=random)
        adam.descend(loss(chosen, random), scale=one_cycle(step / steps))


def main() -> None:
    """Writes both files and prints their digests."""
    options = read_options(
        __doc__,
        out=needed(Path),
        seed=0,
        steps=4000,
    )
    pixels, labels = draw_signs(SIGNS, DRAWINGS, seed=options.seed)
    images, signs = torch.from_numpy(pixels), torch.from_numpy(labels)
    with one_thread(torch.device("cpu")):
        encoder = train_encoder(images, signs, steps=options.steps, seed=options.seed)
        decoder = train_decoder(images, steps=options.steps, seed=options.seed)
    for name, network in ((strokes.SHIPPED, encoder), (strokes.DRAWING, decoder)):
        content = safetensors.torch.save(halved(network.state_dict()))
        (options.out / name).write_bytes(content)
        print(hashlib.sha256(content).hexdigest(), name)


if __name__ == "__main__":
    main()
