"""Locally linear maps without privacy: no sampling, clipping or noise. A reference for figures on public data only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from noisegate_images.training.adam import Adam
from noisegate_papers.methods.dp_llm import DPLLM
from noisegate_papers.models.locally_linear import (
    draw_projection,
    locally_linear_scores,
)

Array = npt.NDArray[np.float32]


def train_without_privacy(
    method: DPLLM,
    images: Array,
    labels: npt.NDArray[np.int64],
    report: Callable[[int, int], None],
) -> tuple[Array, Array]:
    """Returns maps of positions of pixels, (maps, classes, pixels), and their biases, (maps, classes).

    The start, the projection and the learning rates are those of the method. Batches are of one size, and each image is
    in one batch of a pass.

    Args:
        method: What would be trained through the gate.
        images: Positions of pixels in [0, 1], (records, pixels).
        labels: From 0, (records,).
        report: Called with the number of steps that are done, and of all.
    """
    pixels, classes = images.shape[1], int(labels.max()) + 1
    scale = 1 / np.sqrt(pixels)
    projection = draw_projection(
        inputs=pixels,
        maps=method.maps,
        dimensions=method.projection,
        constant=scale,
        seed=method.seed,
    )
    random = np.random.Generator(np.random.Philox(method.seed).jumped())
    start = random.standard_normal(
        projection.shape(classes), dtype=np.float32
    ) * np.float32(method.init_std)
    start[..., -1] = 0
    trained = torch.from_numpy(start).requires_grad_()
    matrices = (
        None if projection.matrices is None else torch.from_numpy(projection.matrices)
    )

    def maps() -> tuple[torch.Tensor, torch.Tensor]:
        parts = trained.reshape(method.maps, classes, -1)
        weights = parts[..., :-1] if matrices is None else parts[..., :-1] @ matrices
        return weights * (2 * scale), parts[..., -1] * scale

    adam = Adam({"trained": trained}, learning_rate=method.learning_rate)
    seen, wanted = torch.from_numpy(images) - method.centre, torch.from_numpy(labels)
    batch, order = round(method.sampling_probability * len(images)), np.arange(0)
    for step in range(method.steps):
        if len(order) < batch:
            order = random.permutation(len(images))
        chosen, order = torch.from_numpy(order[:batch]), order[batch:]
        weights, bias = maps()
        answers = (seen[chosen] @ weights.reshape(-1, pixels).T).reshape(
            batch, method.maps, classes
        ) + bias
        loss = cross_entropy(
            locally_linear_scores(answers, method.temperature), wanted[chosen]
        )
        adam.descend(loss, scale=method.decay ** (4 * step // method.steps))
        report(step + 1, method.steps)
    with torch.no_grad():
        weights, bias = maps()
        return weights.numpy(), (bias - method.centre * weights.sum(dim=2)).numpy()
