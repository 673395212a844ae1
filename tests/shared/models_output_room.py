"""Small images of every kind that the writers take."""

import numpy as np
import pytest

from noisegate.models.output.sample_file import ImageBatch
from noisegate.schema import pixel_schema


def pictures(schema, rows=7, seed=0):
    """Some images of a schema, with its labels in turn."""
    form = schema.images
    shape = (rows, form.shape.height, form.shape.width, form.shape.channels)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    labels = (
        tuple(form.labels[row % len(form.labels)] for row in range(rows))
        if form.labels
        else None
    )
    return ImageBatch(pixels=pixels, labels=labels)


KINDS = {
    "digits": pixel_schema(5, 4, labels=range(3)),
    "names": pixel_schema(4, 6, 3, labels=("cat", "Straße 2", "x")),
    "numbers": pixel_schema(4, 4, labels=(7, 3)),
    "unlabelled": pixel_schema(4, 4, 3),
}


@pytest.fixture(params=KINDS)
def schema(request):
    return KINDS[request.param]


@pytest.fixture
def batches(schema):
    """Two batches of unequal length, nine images in all."""
    return pictures(schema, 7), pictures(schema, 2, seed=1)
