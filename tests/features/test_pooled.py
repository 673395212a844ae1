import numpy as np

from noisegate.features.hermite import level_table
from noisegate.features.hermite_products import PooledProducts, pooled
from noisegate.features.products import Products
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape


def test_an_average_is_of_its_square_and_lands_on_a_step():
    image = ImageShape(height=4, width=6, channels=2)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 2)) / 255
    small = pooled(pixels.reshape(5, -1), image, 2).reshape(5, 2, 3, 2)
    assert np.allclose(small[3, 1, 2, 1], pixels[3, 2:4, 4:6, 1].mean())
    steps = small * 255 * 4
    assert np.abs(steps - np.rint(steps)).max() < 1e-9


def test_the_vector_of_an_image_does_not_depend_on_its_neighbours():
    image = ImageShape(height=4, width=4)
    table = level_table(1021)
    one = Products(tables=(type(table)(rows=table.rows, steps=1020),) * 4, groups=((0, 1),), weights=(1.0,))
    features = PooledProducts(products=one, image=image, pool=2)
    pixels = np.random.default_rng(1).integers(0, 256, (8, 16)) / 255
    records = EncodedTable(pixels, np.zeros((8, 1), dtype=np.int32))
    order = [3, 1, 7, 0]
    assert features(records)[order].tobytes() == features(records.rows(order)).tobytes()
    assert features.dim == 1021**2
    assert features.nonnegative == one.nonnegative
