"""Public images: every form that the image layer reads, the same refusals, and arrays that a digest can be built on."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.shared.image_files import class_folders, encoded, parquet, picture, pixels

from noisegate.errors import DataError
from noisegate_papers.contrib.pretraining.training import read_public_images

LABELS = [0, 1, 1, 0, 2, 2]
IMAGES = pixels(6, 32, 32, 3)
CONTENTS = [encoded(picture(image)) for image in IMAGES]


def arrays(path):
    np.savez(path, images=IMAGES, labels=np.array(LABELS, np.int32))
    return path


FORMS = {
    "class folders": lambda root: class_folders(root / "x", IMAGES, LABELS),
    "Parquet": lambda root: parquet(root / "x.parquet", CONTENTS, LABELS),
    "Parquet, a dictionary": lambda root: parquet(
        root / "x.parquet",
        CONTENTS,
        pa.array(LABELS).cast(pa.string()).dictionary_encode(),
    ),
    "npz": lambda root: arrays(root / "x.npz"),
}
TEXT = ("class folders", "Parquet, a dictionary")


@pytest.mark.parametrize("form", FORMS)
def test_public_images_are_the_same_however_they_are_kept(form, tmp_path):
    found = read_public_images(FORMS[form](tmp_path), size=32)
    order = (
        np.argsort(LABELS, kind="stable") if form == "class folders" else np.arange(6)
    )
    assert found.classes == (("0", "1", "2") if form in TEXT else (0, 1, 2))
    assert found.labels.tolist() == [LABELS[place] for place in order]
    assert (found.pixels.dtype, found.labels.dtype, found.skipped) == (
        np.uint8,
        np.int64,
        0,
    )
    assert np.array_equal(found.pixels, IMAGES[order])


def test_grey_becomes_colour_and_other_sizes_are_cut_in_their_middle(tmp_path):
    wide = np.zeros((16, 48), np.uint8)
    wide[:, 16:32] = 200
    path = parquet(
        tmp_path / "x.parquet",
        [encoded(Image.fromarray(wide)), CONTENTS[0]],
        ["a", "b"],
    )
    found = read_public_images(path, size=16)
    assert (found.pixels[0] == 200).all()
    assert found.pixels.shape == (2, 16, 16, 3)


def test_labels_stand_in_the_column_that_is_named(tmp_path):
    struct = [{"bytes": content, "path": None} for content in CONTENTS]
    pq.write_table(
        pa.table({"image": struct, "kind": list("rbrrbb")}), tmp_path / "x.parquet"
    )
    found = read_public_images(tmp_path / "x.parquet", size=32, label="kind")
    assert (found.classes, found.labels.tolist()) == (("b", "r"), [1, 0, 1, 1, 0, 0])
    with pytest.raises(
        DataError,
        match=r"x\.parquet: the label 'label' is not in the data; name .* with label",
    ):
        read_public_images(tmp_path / "x.parquet", size=32)


@pytest.mark.data
def test_cifar_gives_the_arrays_that_the_shipped_encoder_was_trained_on(data_dir):
    """Other arrays than these would make another file than the one whose digest the package states."""
    found = read_public_images(data_dir / "cifar10" / "train.parquet", size=32)
    digest = hashlib.sha256(found.pixels.tobytes())
    digest.update(found.labels.tobytes())
    digest.update(repr(found.classes).encode())
    assert (
        digest.hexdigest()
        == "58d35f5d9e354b3160aadc17df1cecf10906efa7cde17ce90c2e9552ab1f72d9"
    )


def test_images_without_labels_will_do_where_none_are_asked_for(tmp_path):
    for place, content in enumerate(CONTENTS):
        (tmp_path / f"{place}.png").write_bytes(content)
    assert np.array_equal(
        read_public_images(tmp_path, size=32, label=None).pixels, IMAGES
    )
    with pytest.raises(DataError, match="the folder holds images and no class folders"):
        read_public_images(tmp_path, size=32)
