"""Encoded records as images: the same numbers that a table of pixels would hold."""

import numpy as np
import pytest
from tests.shared.columns import integer

from noisegate.errors import OptionError
from noisegate.models.output.sample_file import image_batch, pixel_table
from noisegate.schema import EncodedTable, Schema, decode


def _records(schema, rows=6):
    random = np.random.default_rng(3)
    layout = schema.layout
    numeric = (
        random.random((rows, len(layout.numeric))) * 1.2 - 0.1
    )  # some of them outside of the bounds
    codes = np.zeros((rows, len(layout.coded)), dtype=np.int32)
    if codes.size:
        codes[:, 0] = random.integers(0, len(schema.images.labels), rows)
    return EncodedTable(numeric, codes)


def test_images_are_what_the_table_says(schema):
    records = _records(schema)
    batch = image_batch(records, schema)
    shape = schema.images.shape
    assert batch.pixels.shape == (6, shape.height, shape.width, shape.channels)
    assert pixel_table(batch, schema).equals(decode(records, schema))
    # By name too, so that neither rows and columns nor pixels and channels are mixed up.
    table = decode(records, schema)
    name = "pixel_3_2" if shape.channels == 1 else "pixel_3_2_1"
    assert (
        table[name].to_pylist() == batch.pixels[:, 3, 2, shape.channels // 2].tolist()
    )
    assert (batch.labels is None) == (schema.images.label is None)


def test_a_table_has_no_images():
    schema = Schema((integer("x", 0, 255),))
    with pytest.raises(OptionError, match="pixel_schema"):
        image_batch(EncodedTable(np.zeros((1, 1)), np.zeros((1, 0), np.int32)), schema)
