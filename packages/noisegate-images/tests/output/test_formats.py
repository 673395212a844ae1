"""Every form that images are written in holds exactly these images, and is there whole or not at all."""

import io
import json

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from noisegate.errors import OptionError
from noisegate.models.output.sample_file import ImageBatch
from noisegate.schema import pixel_schema
from noisegate_images.output.formats import WRITERS, SampleGrid, image_writer

from .conftest import KINDS, pictures

ENDINGS = [pytest.param(ending, id=ending or "folder") for ending in WRITERS]


def _write(out, schema, batches):
    with image_writer(out, schema.images, sum(map(len, batches))) as write:
        for batch in batches:
            write(batch)
    return out


def _together(batches):
    pixels = np.concatenate([batch.pixels for batch in batches])
    labels = (
        None
        if batches[0].labels is None
        else [label for batch in batches for label in batch.labels]
    )
    return pixels, labels


def _opened(file):
    with Image.open(file) as image:
        pixels = np.asarray(image)
        return pixels if pixels.ndim == 3 else pixels[:, :, None]


def test_parquet_has_the_image_column_of_hugging_face(schema, batches, tmp_path):
    form = schema.images
    table = pyarrow.parquet.read_table(
        _write(tmp_path / "made.parquet", schema, batches)
    )
    pixels, labels = _together(batches)
    assert (
        str(table.schema.field("image").type) == "struct<bytes: binary, path: string>"
    )
    cells = table["image"].to_pylist()
    assert {cell["path"] for cell in cells} == {None}
    assert np.array_equal(
        np.stack([_opened(io.BytesIO(cell["bytes"])) for cell in cells]), pixels
    )
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"}
    assert (
        list(features)
        == table.column_names
        == (["image"] if labels is None else ["image", "label"])
    )
    if labels is None:
        return
    assert str(table["label"].type) == "int64"
    written = table["label"].to_pylist()
    if form.labels == (7, 3):
        assert (
            features["label"] == {"_type": "Value", "dtype": "int64"}
            and written == labels
        )
    else:
        assert features["label"] == {
            "_type": "ClassLabel",
            "names": [str(label) for label in form.labels],
        }
        assert [form.labels[place] for place in written] == labels


def test_the_image_column_makes_way_for_a_label_of_its_name(tmp_path):
    schema = pixel_schema(4, 4, labels=(0, 1), label="image")
    table = pyarrow.parquet.read_table(
        _write(tmp_path / "made.parquet", schema, [pictures(schema)])
    )
    assert table.column_names == ["picture", "image"]


def test_arrays_need_no_pickle(schema, batches, tmp_path):
    pixels, labels = _together(batches)
    with np.load(
        _write(tmp_path / "made.npz", schema, batches), allow_pickle=False
    ) as arrays:
        assert sorted(arrays) == (
            ["images"] if labels is None else ["images", "labels"]
        )
        assert (
            np.array_equal(arrays["images"], pixels)
            and arrays["images"].dtype == np.uint8
        )
        assert labels is None or arrays["labels"].tolist() == labels


def test_folders_have_a_file_for_each_image(schema, batches, tmp_path):
    out = _write(tmp_path / "made", schema, batches)
    pixels, labels = _together(batches)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) == 9
    for label in ("",) if labels is None else schema.images.labels:
        mine = pixels if labels is None else pixels[[one == label for one in labels]]
        for number, expected in enumerate(mine, start=1):
            assert np.array_equal(
                _opened(out / str(label) / f"{number:06}.png"), expected
            )


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_images_give_the_same_file(ending, tmp_path):
    schema = KINDS["names"]
    first, again = (
        _write(tmp_path / f"{name}{ending}", schema, [pictures(schema)])
        for name in "ab"
    )
    for path in [first] if ending else first.rglob("*.png"):
        other = again if ending else again / path.relative_to(first)
        assert path.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt, OptionError, OSError(28, "No space left on device")]
)
def test_nothing_is_left_of_what_was_stopped(ending, stop, tmp_path):
    schema, out = KINDS["digits"], tmp_path / f"made{ending}"
    told = OptionError if isinstance(stop, OSError) else stop
    with pytest.raises(told) as caught, image_writer(out, schema.images, 14) as write:
        write(pictures(schema))
        raise stop
    assert not list(tmp_path.iterdir())
    if isinstance(stop, OSError):
        assert "No space left on device" in str(caught.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_there_stays(ending, tmp_path):
    out = tmp_path / f"made{ending}"
    out.mkdir()
    with (
        pytest.raises(OptionError, match="exists"),
        image_writer(out, KINDS["digits"].images, 1),
    ):
        pytest.fail("the writer was entered")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("label", ["a/b", "..", ".hidden", "back\\slash", "ä" * 128])
def test_a_label_that_is_no_folder_is_refused_before_anything_is_written(
    label, tmp_path
):
    schema = pixel_schema(4, 4, labels=("fine", label))
    with (
        pytest.raises(OptionError, match="cannot be the name of a folder"),
        image_writer(tmp_path / "made", schema.images, 1),
    ):
        pytest.fail("the writer was entered")
    assert (
        not list(tmp_path.iterdir())
        and _write(tmp_path / "made.parquet", schema, [pictures(schema)]).exists()
    )


def test_images_of_two_channels_fit_into_arrays_only(tmp_path):
    schema = pixel_schema(4, 4, 2, labels=(0, 1))
    for name in ("made", "made.parquet"):
        with (
            pytest.raises(OptionError, match=r"write \.npz"),
            image_writer(tmp_path / name, schema.images, 7),
        ):
            pytest.fail("the writer was entered")
    _write(tmp_path / "made.npz", schema, [pictures(schema)])
    with pytest.raises(OptionError, match="2 channels"):
        _grid(tmp_path, schema)


# The picture of samples: which image stands where.

SIDE, STEP, GAP = 56, 60, 4  # of an image of 28 pixels in the picture


def _grid(tmp_path, schema):
    return SampleGrid(form=schema.images, out=tmp_path / "grid.png")


def _even(levels, schema):
    """Images of one grey each, with the labels of the schema in turn."""
    form = schema.images
    pixels = np.zeros(
        (len(levels), form.shape.height, form.shape.width, form.shape.channels),
        np.uint8,
    )
    pixels += np.array(levels, np.uint8)[:, None, None, None]
    labels = (
        tuple(form.labels[row % len(form.labels)] for row in range(len(levels)))
        if form.labels
        else None
    )
    return ImageBatch(pixels=pixels, labels=labels)


def _cells(picture, rows, across):
    """The grey of the middle of each image, counted from the right: names of classes stand on the left."""
    drawn = np.asarray(picture)
    left = drawn.shape[1] - GAP - across * STEP + GAP
    return [
        [
            drawn[GAP + row * STEP + 28, left + column * STEP + 28]
            for column in range(across)
        ]
        for row in range(rows)
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
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 8, 7]]], np.uint8)[
        None
    ]
    grid = _grid(tmp_path, schema)
    grid.add(ImageBatch(pixels=pixels, labels=None))
    grid.write()
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.mode == "RGB"
        drawn = np.asarray(picture)[GAP : GAP + SIDE, GAP : GAP + SIDE]
    assert np.array_equal(drawn, pixels[0].repeat(28, axis=0).repeat(28, axis=1))
