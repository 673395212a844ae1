"""The features of points that an image generator is matched through are those that the gate computes of records."""

from noisegate.schema import pixel_schema
from noisegate_images.features.fourier import draw

SCHEMA = pixel_schema(6, 6, labels=(0, 1, 2))


def features(**settings):
    return draw(SCHEMA.layout, count=80, length_scales=[(2.0, 2.0)] * 36, exclude_label=True, seed=3, **settings)
