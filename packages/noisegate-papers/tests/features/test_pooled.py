import numpy as np

from noisegate.schema.pixels import ImageShape
from noisegate_papers.features.hermite_products import pooled


def test_an_average_is_of_its_square_and_lands_on_a_step():
    image = ImageShape(height=4, width=6, channels=2)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 2)) / 255
    small = pooled(pixels.reshape(5, -1), image, 2).reshape(5, 2, 3, 2)
    assert np.allclose(small[3, 1, 2, 1], pixels[3, 2:4, 4:6, 1].mean())
    steps = small * 255 * 4
    assert np.abs(steps - np.rint(steps)).max() < 1e-9
