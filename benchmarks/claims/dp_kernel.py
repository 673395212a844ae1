"""DP-Kernel adds noise to kernel values, but the gradient that trains its generator has none.

    python benchmarks/claims/dp_kernel.py [--json FILE]

The loss is the square of m + e: m is the kernel distance of a private batch X and a generated one, e a mean of noise
that is drawn as a constant (`.sample()` in dihjiang/DP-kernel 59c02b7, mmd.py:40-50 and 85-95, squared in
DPCondmmdG_kernel_prod.py:111; DPImageBench 565f8d7, models/dp_kernel.py:331-344 and 208). Its gradient is 2(m + e)
times the gradient of m: exact in its direction, but for the sign. RMSprop divides by the length, so what is left of the
noise is a sign. Here, with a generator of two parameters: the cosine of noisy and exact gradient, and how often an
attacker who sees one normalised gradient tells which of two neighbouring batches it came from; at ε = 1 no attacker
could above 0.731 + δ.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import torch
from corrected import dp_kernel
from showing import Claims, Said, show
from torch import Tensor

BATCH, RUNS = 30, 100
NOISE_MULTIPLIER = 50.0
WIDTHS = (1.0, 2.0)
SAID: Said = {
    "least |cosine| of the noisy and the exact gradient": (1, 1e-9),
    "share of right guesses which neighbour it was": (1, 0),
}
CLAIMS: Claims = [
    (
        "right guesses at ε = 1",
        "most that ε = 1 allows",
        "share of right guesses which neighbour it was",
    ),
    ("ε", 1, "ε at least, at 95 % confidence; without end, as no guess is wrong"),
]


def kernel(one: Tensor, two: Tensor) -> Tensor:
    """Returns a sum of Gaussian kernels of all pairs, (rows of one, rows of two)."""
    square = torch.cdist(one, two) ** 2
    return torch.stack([torch.exp(-square / (2 * width**2)) for width in WIDTHS]).sum(
        dim=0
    )


def gradient(
    private: Tensor, noise: Tensor, multiplier: float, generator: torch.Generator
) -> Tensor:
    """Returns the gradient of the published loss for a generator that shifts `noise`, (2,)."""
    shift = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    made = noise + shift
    # The mean embedding of the private batch at its own points and at the generated ones, then noise on its values.
    values = torch.cat(
        [kernel(private, private).mean(dim=0), kernel(private, made).mean(dim=0)]
    )
    drawn = torch.randn(len(values), generator=generator, dtype=torch.float64)
    values = values + multiplier * math.sqrt(2 * len(WIDTHS)) / len(private) * drawn
    loss = (
        values[: len(private)].mean()
        - 2 * values[len(private) :].mean()
        + kernel(made, made).mean()
    ) ** 2
    (found,) = torch.autograd.grad(loss, shift)
    return found


def figures() -> dict[str, float]:
    """Returns the cosine, how much the length is noised, and the share of right guesses."""
    random = np.random.default_rng(0)
    private, noise = (
        torch.from_numpy(random.standard_normal((BATCH, 2))) for _ in range(2)
    )
    neighbour = private.clone()
    neighbour[0] = torch.tensor([0.0, 1.5], dtype=torch.float64)
    draws = torch.Generator().manual_seed(0)
    exact = [gradient(each, noise, 0.0, draws) for each in (private, neighbour)]
    cosines, lengths, right = [], [], 0
    for run in range(RUNS):
        world = run % 2
        seen = gradient((private, neighbour)[world], noise, NOISE_MULTIPLIER, draws)
        cosines.append(
            float(torch.abs(torch.cosine_similarity(seen, exact[world], dim=0)))
        )
        lengths.append(float(seen.norm() / exact[world].norm()))
        near = [
            float(torch.abs(torch.cosine_similarity(seen, each, dim=0)))
            for each in exact
        ]
        right += int(near.index(max(near)) == world)
    return {
        "least |cosine| of the noisy and the exact gradient": min(cosines),
        "its length over the exact one's, from": min(lengths),
        "to": max(lengths),
        "share of right guesses which neighbour it was": right / RUNS,
        "most that ε = 1 allows": 1 / (1 + math.exp(-1)),
        "ε at least, at 95 % confidence; without end, as no guess is wrong": dp_kernel(
            right, RUNS
        ),
    }


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures, SAID, CLAIMS))
