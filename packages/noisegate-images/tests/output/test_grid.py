"""The picture of samples: which image stands where."""

import numpy as np
import pytest
from PIL import Image

from noisegate.errors import OptionError
from noisegate.models.output.sample_file import ImageBatch
from noisegate.schema import pixel_schema
from noisegate_images.output.formats import SampleGrid

SIDE, STEP, GAP = 56, 60, 4  # of an image of 28 pixels in the picture


def _grid(tmp_path, schema):
    return SampleGrid(form=schema.images, out=tmp_path / "grid.png")


def _even(levels, schema):
    """Images of one grey each, with the labels of the schema in turn."""
    form = schema.images
    pixels = np.zeros((len(levels), form.shape.height, form.shape.width, form.shape.channels), np.uint8)
    pixels += np.array(levels, np.uint8)[:, None, None, None]
    labels = tuple(form.labels[row % len(form.labels)] for row in range(len(levels))) if form.labels else None
    return ImageBatch(pixels=pixels, labels=labels)


def _cells(picture, rows, across):
    """The grey of the middle of each image, counted from the right: names of classes stand on the left."""
    drawn = np.asarray(picture)
    left = drawn.shape[1] - GAP - across * STEP + GAP
    return [
        [drawn[GAP + row * STEP + 28, left + column * STEP + 28] for column in range(across)] for row in range(rows)
    ]


def test_each_class_has_a_row_of_its_first_images(tmp_path):
    schema = pixel_schema(28, 28, labels=("a", "b"))
    grid = _grid(tmp_path, schema)
    grid.add(_even(range(100, 114), schema))
    grid.add(_even(range(114, 150), schema))
    cells = np.array(_cells(grid.draw(), 2, 10))
    assert cells.tolist() == [[*range(100, 120, 2)], [*range(101, 121, 2)]]


def test_without_labels_images_stand_in_their_order(tmp_path):
    schema = pixel_schema(28, 28)
    grid = _grid(tmp_path, schema)
    grid.add(_even(range(100, 215), schema))
    picture = grid.draw()
    assert np.array(_cells(picture, 10, 10)).ravel().tolist() == [*range(100, 200)]
    assert picture.height == 10 * STEP + GAP


def test_colours_stay_and_small_pixels_are_enlarged_whole(tmp_path):
    schema = pixel_schema(2, 2, 3)
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 8, 7]]], np.uint8)[None]
    grid = _grid(tmp_path, schema)
    grid.add(ImageBatch(pixels=pixels, labels=None))
    grid.write()
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.mode == "RGB"
        drawn = np.asarray(picture)[GAP : GAP + SIDE, GAP : GAP + SIDE]
    assert np.array_equal(drawn, pixels[0].repeat(28, axis=0).repeat(28, axis=1))


def test_images_of_two_channels_cannot_be_shown(tmp_path):
    with pytest.raises(OptionError, match="2 channels"):
        _grid(tmp_path, pixel_schema(4, 4, 2))
