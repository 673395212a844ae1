"""STL-10 on disk: bytes as torchvision reads them, a part at a time, and refused by name where they do not fit."""

import numpy as np
import pytest
from image_files import pixels

from noisegate.data import open_source
from noisegate.data.images.images import ImageSource
from noisegate.data.images.torchvision import StlImages
from noisegate.data.units import UnitLimit
from noisegate.errors import DataError
from noisegate.schema import EncodedTable, pixel_schema

IMAGES, LABELS = pixels(5, 96, 96, 3), [0, 9, 1, 9, 4]
SCHEMA = pixel_schema(96, 96, 3, labels=range(10))


@pytest.fixture
def stl(tmp_path):
    root = tmp_path / "root" / "stl10_binary"
    root.mkdir(parents=True)
    # Column by column, and labels from 1.
    for part, images in (("train", IMAGES), ("test", IMAGES[:1]), ("unlabeled", IMAGES[:2])):
        (root / f"{part}_X.bin").write_bytes(np.ascontiguousarray(images.transpose(0, 3, 2, 1)).tobytes())
    for part, labels in (("train", LABELS), ("test", LABELS[:1])):
        (root / f"{part}_y.bin").write_bytes((np.array(labels, np.uint8) + 1).tobytes())
    (root / "class_names.txt").write_text("airplane")
    return root


def encode(path, schema=SCHEMA, **options):
    return EncodedTable.concatenate(list(ImageSource(path, schema, **options).batches()))


@pytest.mark.parametrize("rows", [2, 256])
def test_a_folder_stands_for_the_training_set(stl, rows):
    for place in (stl, stl.parent, stl / "train_X.bin"):
        found = encode(place, batch_rows=rows)
        assert np.array_equal(np.rint(found.numeric * 255).reshape(IMAGES.shape), IMAGES)
        assert found.codes[:, 0].tolist() == LABELS
    assert encode(stl / "test_X.bin").codes.tolist() == [[0]]


def test_it_is_what_torchvision_reads(stl):
    datasets = pytest.importorskip("torchvision.datasets")
    theirs = datasets.STL10.__dict__["_STL10__loadfile"](
        type("Folder", (), {"root": str(stl.parent), "base_folder": "stl10_binary"})(), "train_X.bin", "train_y.bin"
    )
    assert np.array_equal(theirs[0].transpose(0, 2, 3, 1), IMAGES)
    assert theirs[1].tolist() == LABELS


def test_unlabelled_pictures(stl):
    found = encode(stl / "unlabeled_X.bin", pixel_schema(96, 96, 3))
    assert found.codes.shape == (2, 0)
    with pytest.raises(DataError, match=r"unlabeled_X\.bin: unlabeled_y\.bin is not beside it"):
        encode(stl / "unlabeled_X.bin")


def test_what_is_cut_off_or_does_not_fit_is_refused_by_name(stl):
    with pytest.raises(DataError, match=r"train_X\.bin, image 2, label 'label': expected one of the 9 labels"):
        encode(stl, pixel_schema(96, 96, 3, labels=range(9)))
    with pytest.raises(DataError, match="whose image each one is"):
        open_source(stl, SCHEMA, units=UnitLimit(column="who", contributions=1)).check()
    (stl / "train_y.bin").write_bytes(b"\1")
    with pytest.raises(DataError, match=r"train_y\.bin has another number of labels"):
        encode(stl)
    for content in (b"", IMAGES.tobytes()[:-1]):
        (stl / "train_X.bin").write_bytes(content)
        with pytest.raises(DataError, match=r"train_X\.bin: is no STL-10, or is cut off"):
            encode(stl)


def test_a_file_that_cannot_be_opened_is_named(stl):
    origin = ImageSource(stl, SCHEMA)._origins[0]
    assert isinstance(origin, StlImages)
    (stl / "train_X.bin").unlink()
    with pytest.raises(DataError, match=r"train_X\.bin: cannot be read: No such file"):
        next(origin.batches(5))
