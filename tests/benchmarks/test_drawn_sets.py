import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "images"))

from drawn_sets import SETS, SIGNS, drawn


@pytest.fixture(scope="module", params=sorted(SETS))
def made(request):
    return request.param, *drawn(request.param, 240, seed=1)


def test_images_follow_from_the_seed(made):
    name, images, labels = made
    again = drawn(name, 240, seed=1)
    assert np.array_equal(again[0], images)
    assert np.array_equal(again[1], labels)
    assert not np.array_equal(drawn(name, 240, seed=2)[0], images)


def test_images_have_every_class_and_something_on_them(made):
    _, images, labels = made
    assert images.dtype == np.uint8
    assert images.shape == (240, 28, 28)
    assert set(labels.tolist()) == set(range(10))
    assert np.ptp(images, axis=(1, 2)).min() > 40


def test_a_class_of_glyphs_is_several_signs_and_one_of_shapes_is_not():
    """The nearest other image is of the class, but a class's mean is far less like its images in the set of signs."""
    nearest, explained = {}, {}
    for name in SETS:
        images, labels = drawn(name, 400, seed=3)
        flat = images.reshape(len(images), -1) / 255.0
        squares = (flat**2).sum(axis=1)
        distance = squares[:, None] + squares[None] - 2 * flat @ flat.T
        np.fill_diagonal(distance, np.inf)
        nearest[name] = (labels[distance.argmin(axis=1)] == labels).mean()
        means = np.stack([flat[labels == label].mean(axis=0) for label in range(10)])
        explained[name] = means.var(axis=0).sum() / flat.var(axis=0).sum()
    assert 0.3 < nearest["glyphs"] < 0.99  # 0.1 by chance
    assert explained["glyphs"] < 0.15, explained
    assert SIGNS == 6
