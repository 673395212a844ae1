import numpy as np

from noisegate.records import WHOLE, Images, Rows, WeightedRows

PIXELS = np.arange(2 * 2 * 3 * 1, dtype=np.uint8).reshape(2, 2, 3, 1) * 20


def test_images_are_read_as_rows_of_numbers_and_codes():
    images = Images(PIXELS, np.array([1, 0], dtype=np.int32))
    assert images.numeric.dtype == np.float64
    np.testing.assert_array_equal(images.numeric, PIXELS.reshape(2, 6) / 255)
    assert images.codes.tolist() == [[1], [0]]
    assert Images(PIXELS).codes.shape == (2, 0)
    assert Images(PIXELS[:0]).numeric.shape == (0, 6)


def test_every_intensity_survives_as_a_position_and_back():
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    assert (
        Images.of_positions(Images(pixels).numeric, (16, 16, 1), None).pixels == pixels
    ).all()
    assert Images.of_positions(
        np.array([[-0.5, 0.4999, 2.0]]), (1, 3, 1), None
    ).pixels.tolist() == [[[[0], [127], [255]]]]


def test_records_of_one_kind_stay_of_that_kind():
    images = Images(PIXELS, np.array([1, 0], dtype=np.int32))
    both = Rows.concatenate([images, images.rows([1])])
    assert isinstance(both, Images)
    assert both.labels.tolist() == [1, 0, 0]
    rows = Rows(images.numeric, images.codes)
    mixed = Rows.concatenate([images, rows])
    assert type(mixed) is Rows
    np.testing.assert_array_equal(
        mixed.numeric, np.concatenate([rows.numeric, rows.numeric])
    )
    assert Rows.concatenate([Images(PIXELS), Images(PIXELS)]).labels is None


def test_records_that_are_laid_row_by_row_keep_all_that_they_say():
    numeric = np.asfortranarray([[0.5, 1.0], [np.nan, 0.0]])
    codes = np.array([[1], [0]], dtype=np.int32)
    rows = WeightedRows(numeric, codes, np.array([WHOLE, 3])).row_by_row()
    assert rows.numeric.flags.c_contiguous
    np.testing.assert_array_equal(rows.numeric, numeric)
    assert rows.codes.tolist() == [[1], [0]]
    assert rows.weights.tolist() == [WHOLE, 3]
    images = Images(PIXELS)
    assert images.row_by_row() is images
