"""Encodings: unit vectors of one pooled layer, of the packaged encoder or another network, and their digest."""

import numpy as np
import pytest
import torch

from noisegate.errors import OptionError
from noisegate.gate.execution import made_up_records
from noisegate.methods.images import encoding_digest, image_encoding
from noisegate.networks.encoder import SHIPPED_SHA256
from noisegate.schema import pixel_schema
from noisegate.schema.pixels import ImageShape

SHAPE = ImageShape(height=16, width=16, channels=3)


def records(rows=5):
    return made_up_records(pixel_schema(16, 16, 3).layout, rows, np.random.default_rng(0))


def test_a_feature_is_the_mean_over_the_picture_at_length_1():
    encoding = image_encoding("encoder", None, None, None, SHAPE)
    found = encoding(records())
    assert (encoding.dim, encoding.nonnegative, encoding.norm) == (144, True, 1.0)
    assert found.shape == (5, 144)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    whole = encoding.activations.layers.copied()
    plain = whole(torch.from_numpy(records().numeric)).double().numpy()
    np.testing.assert_allclose(found, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_another_layer_and_its_signs():
    assert image_encoding("encoder", None, None, "middle", SHAPE).dim == 64
    assert not image_encoding("encoder", None, None, "late.convolution", SHAPE).nonnegative
    with pytest.raises(OptionError, match=r"layers=\['final'\]"):
        image_encoding("encoder", None, None, "final", SHAPE)


def test_the_digest_is_that_of_the_weights():
    assert encoding_digest("encoder") == SHIPPED_SHA256
