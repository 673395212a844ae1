import numpy as np
import pyarrow as pa
import pytest

from noisegate.errors import DataError, OptionError
from noisegate.schema import (
    Categorical,
    Continuous,
    ImageShape,
    Integer,
    Schema,
    pixel_schema,
)
from noisegate_evaluate.images import find_pixels

SCHEMA = pixel_schema(2, 3, 2, labels=("a", "b"))


def table(rows=4, schema=SCHEMA):
    """Every intensity is another one: 0, 1, 2, ... row by row."""
    pixels = schema.names[:-1]
    values = np.arange(rows * len(pixels)).reshape(rows, -1)
    return pa.table(
        {name: values[:, place] for place, name in enumerate(pixels)}
        | {"label": ["a"] * rows}
    )


def renamed(count):
    columns = tuple(
        Integer(name=f"v{place}", lower=0, upper=255) for place in range(count)
    )
    return Schema(
        (Categorical(name="label", levels=("a", "b")), *columns), label="label"
    )


def test_the_names_tell_the_shape_and_the_values_come_row_by_row():
    pixels = find_pixels(SCHEMA)
    assert pixels.shape == ImageShape(height=2, width=3, channels=2)
    images = pixels.read(table(), SCHEMA, "test")
    assert images.dtype == np.float32
    np.testing.assert_allclose(
        images, np.arange(48).reshape(4, 2, 3, 2) / 255, rtol=1e-6
    )


def test_other_names_need_a_shape_and_keep_their_order():
    schema = renamed(6)
    pixels = find_pixels(schema, ImageShape(height=2, width=3))
    assert [column.name for column in pixels.columns] == [
        f"v{place}" for place in range(6)
    ]
    with pytest.raises(
        OptionError, match=r"6 columns do not tell the shape of an image"
    ):
        find_pixels(schema)


@pytest.mark.parametrize("gone", ["pixel_0_0_0", "pixel_1_2_1", "pixel_0_1_1"])
def test_names_with_a_hole_tell_no_shape(gone):
    schema = Schema(
        tuple(column for column in SCHEMA.columns if column.name != gone), label="label"
    )
    with pytest.raises(OptionError, match="do not tell the shape"):
        find_pixels(schema)


def test_missing_pixels_are_counted_and_named():
    columns = tuple(
        Continuous(name=f"pixel_0_{place}", lower=0.0, upper=1.0, missing=True)
        for place in range(2)
    )
    schema = Schema(
        (*columns, Categorical(name="label", levels=("a", "b"))), label="label"
    )
    rows = pa.table(
        {
            "pixel_0_0": [0.0, 0.5, 1.0],
            "pixel_0_1": [None, "?", "0.25"],
            "label": ["a", "b", "a"],
        }
    )
    with pytest.raises(
        DataError,
        match=r"'pixel_0_1' of the test table is missing or no number in 2 row",
    ):
        find_pixels(schema).read(rows, schema, "test")
