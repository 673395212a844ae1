import numpy as np
import pytest

from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape
from noisegate_images.features.fourier import draw_points
from noisegate_images.features.perceptual import EncodedFourier, Perceptual, chosen_activations
from noisegate_images.networks.named import load_network

SHAPE = ImageShape(height=16, width=12)
SCALE, PAIRS = 0.5, 30


@pytest.fixture(scope="module")
def features():
    activations = chosen_activations(load_network("strokes"), (), SHAPE, pool=False)
    fourier = draw_points(activations.dim, count=PAIRS, length_scale=SCALE, seed=1)
    return EncodedFourier(encoding=Perceptual(activations=activations), fourier=fourier)


def pictures(rows):
    return np.random.default_rng(0).integers(0, 256, (rows, SHAPE.size)) / 255


def table(images):
    return EncodedTable(images, np.zeros((len(images), 0), dtype=np.int32))


def test_the_kernel_is_gaussian_in_the_encoders_vectors(features):
    many = draw_points(features.encoding.dim, count=4000, length_scale=SCALE, seed=1)
    wide = EncodedFourier(encoding=features.encoding, fourier=many)
    images = table(pictures(6))
    vectors, encoded = wide(images), features.encoding(images).astype(np.float64)
    squared = np.square(encoded[:, None] - encoded[None]).sum(axis=2)
    assert squared.max() > 0.01
    # 5 standard errors of the mean of 4000 cosines
    assert np.abs(vectors @ vectors.T - np.exp(-squared / (2 * SCALE**2))).max() < 5 * np.sqrt(0.5 / 4000)
