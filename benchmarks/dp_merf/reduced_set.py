"""A reduced set: weighted points whose mean embedding is near a released one, without a generator.

Balog, Tolstikhin and Schölkopf (ICML 2018), https://arxiv.org/abs/1710.01641, Algorithm 2, as the authors' program has
it: each point is the approximate pre-image of what the points before it have left, found by a hundred steps of Adam,
and all weights are then fitted together by the Lasso. It reads a release and no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import Lasso

from noisegate.devices import one_thread
from noisegate_images.training.adam import Adam

Numbers = npt.NDArray[np.float64]
Features = Callable[[torch.Tensor], torch.Tensor]
"""From points, (rows, columns), to features of norm 1, (dim, rows)."""


def reduced_set(
    embedding: Numbers,
    features: Features,
    starts: Numbers,
    *,
    rate: float,
    steps: int = 100,
) -> Iterator[Numbers]:
    """Yields points one after another, (columns,), in the units that the features take.

    Args:
        embedding: The mean embedding that is to be met, (dim,).
        features: Its features.
        starts: Where the search for each point begins, (points, columns).
        rate: Learning rate of Adam, in those units.
        steps: Of Adam for each point.
    """
    left = torch.as_tensor(embedding, dtype=torch.float32)
    with one_thread(left.device):
        for start in torch.as_tensor(starts, dtype=torch.float32):
            point = start[None].clone().requires_grad_()
            adam = Adam({"point": point}, learning_rate=rate)
            for _ in range(steps):
                # Features have norm 1, so that this is how much of its squared norm the point takes off what is left.
                adam.descend(-((left @ features(point)[:, 0]) ** 2))
            with torch.no_grad():
                found = features(point)[:, 0]
                left = left - (left @ found) * found
            yield point.detach()[0].double().numpy()


def fitted_weights(
    embedding: Numbers, features: Features, points: Numbers, *, records: int
) -> Numbers:
    """Returns the weights of points that meet an embedding best, (points,), of any sign, by the authors' Lasso."""
    with torch.no_grad():
        columns = (
            features(torch.as_tensor(points, dtype=torch.float32)).double().numpy()
        )
    lasso = Lasso(
        alpha=100 / (2 * records * len(embedding)),
        fit_intercept=False,
        precompute=True,
        max_iter=10_000,
    )
    weights: Numbers = np.atleast_1d(lasso.fit(columns, embedding).coef_)
    return weights
