"""A classifier of images by way of their schema: trained on a folder, asked about a folder."""

import shutil

import pyarrow.csv
from PIL import Image

from .conftest import IMAGES, words

TRAINING = words("--method dp-llm --records 60 --set steps=20 --set sampling_probability=0.2 --set maps=2")


def test_a_classifier_of_images_predicts_and_is_drawn(gallery, cli):
    base = ["fit", gallery.data, *IMAGES, "--epsilon", 100, "--out", gallery.out, *TRAINING]
    ended = cli(*base)
    assert ended.code == 0, ended.err
    (gallery.folder / "asked").mkdir()
    for number in range(3):
        shutil.copy(gallery.data / "cat" / f"{number}.png", gallery.folder / "asked" / f"{number}.png")
    ended = cli("predict", gallery.out, "asked", "-o", "predictions.csv")
    assert ended.code == 0, ended.err
    table = pyarrow.csv.read_csv("predictions.csv")
    assert table.num_rows == 3 and set(table["label"].to_pylist()) <= {"cat", "dog"}
    # The schema says how large the maps are.
    ended = cli("explain", gallery.out, "--picture", "maps.png")
    assert ended.code == 0, ended.err
    with Image.open("maps.png") as picture:
        assert picture.width > 100
