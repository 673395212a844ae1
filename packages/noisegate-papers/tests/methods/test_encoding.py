"""Encodings: unit vectors of one pooled layer, of the packaged encoder or another network, and their digest."""

import numpy as np
import pytest
import torch

from noisegate.gate.execution import made_up_records
from noisegate.schema import pixel_schema
from noisegate_papers.methods.mge_dre import DPMGE

SHAPE = (16, 16, 3)


def records(rows=5):
    return made_up_records(pixel_schema(*SHAPE).layout, rows, np.random.default_rng(0))


def test_a_feature_is_the_mean_over_the_picture_at_length_1():
    encoding = DPMGE(image=SHAPE).encoding()
    found = encoding(records())
    assert (encoding.dim, encoding.nonnegative, encoding.norm) == (144, True, 1.0)
    assert found.shape == (5, 144)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    whole = encoding.activations.layers.copied()
    plain = whole(torch.from_numpy(records().numeric)).double().numpy()
    np.testing.assert_allclose(found, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)
