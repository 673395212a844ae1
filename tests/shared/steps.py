"""Records, a loss and a map for sessions of steps on gradients."""

import numpy as np
import pandas as pd
import torch
from tests.shared.columns import boolean, continuous

from noisegate.gate.per_example.gradients import GradientRows, RecordGradients
from noisegate.schema import Schema

SCHEMA = Schema(
    (*(continuous(n, -1.0, 1.0) for n in "abc"), boolean("ill")),
    label="ill",
)
SHAPES = {"w": (3,), "bias": ()}
START = {"w": torch.zeros(3), "bias": torch.zeros(())}


def frame(rows=80):
    random = np.random.default_rng(0)
    columns = {name: random.uniform(-1, 1, rows) for name in "abc"}
    return pd.DataFrame({**columns, "ill": columns["a"] > 0})


def loss(parameters, numeric, codes):
    score = parameters["w"] @ (2 * numeric - 1) + parameters["bias"]
    return torch.nn.functional.binary_cross_entropy_with_logits(score, codes[0].float())


class Folded:
    """Three numbers of three columns; says how it was called."""

    dim = 3
    norm = 2.0
    nonnegative = False

    def __init__(self, change=lambda vectors, records: vectors):
        self.change = change
        self.shapes = []

    def __call__(self, records):
        self.shapes.append(records.numeric.shape)
        a, b, c = records.numeric.T
        return self.change(
            np.stack([a - b, b * c, a], axis=1).astype(np.float32), records
        )


def mix(monkeypatch, change):
    """Changes all gradients of a block at once, so that one may depend on those beside it."""
    original = RecordGradients.compute_gradients

    def mixed(self, parameters, numeric, codes):
        (gradients,) = original(self, parameters, numeric, codes).arrays
        return GradientRows(arrays=(change(gradients, numeric),))

    monkeypatch.setattr(RecordGradients, "compute_gradients", mixed)
