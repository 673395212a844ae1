"""Synthetic images in every form that they are handed out in."""

import shutil

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from PIL import Image

from noisegate import Synthesizer
from noisegate.schema import decode
from noisegate.sources.sources import open_source

from .conftest import IMAGES, argv, small_disk


def _decoded(schema, path, **more):
    """What the private side reads in synthetic images, as a table."""
    tables = [
        decode(batch, schema) for batch in open_source(path, schema, **more).batches()
    ]
    return pyarrow.concat_tables(tables)


@pytest.fixture(scope="module")
def synthesizer(pictured):
    return Synthesizer.load(pictured.out)


def test_every_form_holds_the_same_images(gallery, pictured, synthesizer, cli):
    expected = synthesizer.sample(60, seed=2)
    assert set(expected["label"].to_pylist()) == {"cat", "dog"}
    for out in ("made.csv", "made.parquet", "made.npz", "made"):
        ended = cli(f"sample {pictured.out} -n 60 -o {out} --seed 2")
        assert ended.code == 0, ended.err
        assert ended.out == "", ended.err
        assert f"60 synthetic records to {out}" in " ".join(ended.err.split())
        decoded = _decoded(synthesizer.schema, gallery.folder / out)
        if out == "made":  # by class, then by number
            order = np.argsort(np.array(expected["label"].to_pylist()), kind="stable")
            expected_here = expected.take(order)
        else:
            expected_here = expected
        assert decoded.equals(expected_here)


@pytest.mark.parametrize("out", ["made.parquet", "made.csv", "made.npz", "made"])
def test_a_grid_shows_each_class(gallery, pictured, cli, out):
    ended = cli(f"sample {pictured.out} -n 60 -o {out} --grid grid.png --seed 2 --json")
    assert ended.json == {
        "records": 60,
        "out": out,
        "seed": 2,
        "where": [],
        "even": None,
        "grid": "grid.png",
    }
    with Image.open("grid.png") as picture:
        assert picture.height == 2 * (56 + 4) + 4
    assert (gallery.folder / out).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "made.jpg"], "not '.jpg'"),
        (["-o", "scans"], "scans exists"),
        (["-o", "images.toml/made"], "cannot be written"),
        (argv("-o made --grid ledger.db"), "--grid ledger.db exists"),
        (
            argv("-o made.npz --grid nowhere/grid.png"),
            "nowhere/grid.png cannot be written",
        ),
        (argv("-o scans --grid grid.png"), "scans exists"),
        (argv("-o made --where label=horse"), "horse"),
    ],
)
def test_what_cannot_be_done_leaves_nothing(gallery, pictured, cli, arguments, message):
    before = gallery.listing()
    ended = cli(f"sample {pictured.out} -n 10", *arguments)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert gallery.listing() == before


def test_a_table_has_no_grid(desk, fitted, cli):
    ended = cli(f"sample {fitted.out} -n 10 -o made.csv --grid grid.png")
    assert ended.code == 2
    assert "makes a table" in ended.err
    ended = cli(f"sample {fitted.out} -n 10 -o made")
    assert ended.code == 2
    assert ".csv or .parquet" in ended.err


@pytest.mark.parametrize("out", ["made.parquet", "made.csv", "made.npz", "made"])
def test_a_full_disk_leaves_nothing(gallery, pictured, cli, out):
    before = gallery.listing()
    # The file of one image is short.
    with small_disk(10 if out == "made" else 4096):
        ended = cli(f"sample {pictured.out} -n 300 -o {out} --grid grid.png")
    assert ended.code == 2, ended.err
    assert f"{out} cannot be written" in " ".join(ended.err.split())
    assert gallery.listing() == before


TRAINING = argv(
    "--method dp-llm --records 60 --set steps=20 --set sampling_probability=0.2 --set maps=2"
)


def test_a_classifier_of_images_predicts_and_is_drawn(gallery, cli):
    base = [
        "fit",
        gallery.data,
        *IMAGES,
        *argv(f"--epsilon 100 --out {gallery.out}"),
        *TRAINING,
    ]
    ended = cli(*base)
    assert ended.code == 0, ended.err
    (gallery.folder / "asked").mkdir()
    for number in range(3):
        shutil.copy(
            gallery.data / "cat" / f"{number}.png",
            gallery.folder / "asked" / f"{number}.png",
        )
    ended = cli(f"predict {gallery.out} asked -o predictions.csv")
    assert ended.code == 0, ended.err
    table = pyarrow.csv.read_csv("predictions.csv")
    assert table.num_rows == 3
    assert set(table["label"].to_pylist()) <= {"cat", "dog"}
    # The schema says how large the maps are.
    ended = cli(f"explain {gallery.out} --picture maps.png")
    assert ended.code == 0, ended.err
    with Image.open("maps.png") as picture:
        assert picture.width > 100
