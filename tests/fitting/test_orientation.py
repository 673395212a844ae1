import numpy as np
import torch

from noisegate.features.fourier import draw_points
from noisegate.features.orientation import Orientations, OrientedFourier
from noisegate.fitting.matching import point_embeddings
from noisegate.fitting.orientation import PointOriented
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape

SHAPE = ImageShape(height=8, width=12, channels=3)


def features(cell: int = 4) -> OrientedFourier:
    orientations = Orientations(image=SHAPE, cell=cell, directions=6)
    return OrientedFourier(
        orientations=orientations, fourier=draw_points(orientations.size, count=30, length_scale=0.4, seed=2)
    )


def test_a_generated_image_has_the_features_that_a_record_has():
    images = np.random.default_rng(0).integers(0, 256, (5, SHAPE.size)) / 255
    for cell in (2, 4):
        private = features(cell)
        found = PointOriented(private)(torch.from_numpy(images.astype(np.float32)))
        expected = private(EncodedTable(images, np.zeros((5, 0), dtype=np.int32)))
        # Angles are rounded to 1/4096 of a turn on the private side.
        assert np.abs(found.numpy().T - expected).max() < 2 * np.pi / 4096 / np.sqrt(30) * 1.5


def test_slopes_are_those_of_finite_differences():
    module = PointOriented(features()).double()
    images = torch.rand(2, SHAPE.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(module.orientations, images.requires_grad_(), eps=1e-7, atol=1e-5)


def test_a_fit_finds_the_embedding_of_orientations():
    assert isinstance(point_embeddings({"orientations": features()})["orientations"], PointOriented)
