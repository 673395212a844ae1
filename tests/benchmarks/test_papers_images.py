"""MNIST, FashionMNIST and CIFAR-10 made grey, from made-up files in the published formats."""

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from noisegate.data.tables.tables import TableSource
from noisegate.schema import EncodedTable

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers.catalogue import load

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 28, 28)).astype(np.uint8)
DIGITS = np.array([3, 0, 9, 1, 5])


def idx(array: np.ndarray) -> bytes:
    shape = np.array(array.shape, dtype=">i4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, *, packed: bool) -> None:
    for part, rows in (("train", slice(0, 3)), ("t10k", slice(3, 5))):
        for kind, array in (("images-idx3", IMAGES[rows]), ("labels-idx1", DIGITS[rows])):
            path = folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))


def write_parquet(folder: Path, images: np.ndarray = IMAGES) -> None:
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
        files = []
        for image in images[rows]:
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, format="PNG")
            files.append({"bytes": stream.getvalue(), "path": None})
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        pq.write_table(pa.table({"image": pa.array(files, kind), "label": DIGITS[rows]}), folder / f"{part}.parquet")


@pytest.mark.parametrize(("name", "form"), [("mnist", "parquet"), ("mnist", "packed"), ("fashion-mnist", "idx")])
def test_images_become_a_table_of_pixels(name: str, form: str, tmp_path: Path) -> None:
    if form == "parquet":
        write_parquet(tmp_path)
    else:
        write_idx(tmp_path, packed=form == "packed")
    loaded = load(name, tmp_path)
    for table, rows in ((loaded.train, slice(0, 3)), (loaded.test, slice(3, 5))):
        pixels = np.stack([column.to_numpy() for column in table.columns[:-1]], axis=1)
        assert np.array_equal(pixels.reshape(-1, 28, 28), IMAGES[rows])
        assert table["label"].to_pylist() == DIGITS[rows].tolist()
        assert table.column_names == list(loaded.schema.names)


def test_colours_of_cifar_become_grey_at_their_size(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (5, 32, 32, 3)).astype(np.uint8)
    write_parquet(tmp_path, colours)
    loaded = load("cifar10-grey", tmp_path)
    pixels = np.stack([column.to_numpy() for column in loaded.train.columns[:-1]], axis=1).reshape(-1, 32, 32)
    assert np.abs(pixels - colours[:3] @ [0.299, 0.587, 0.114]).max() < 1
    assert (loaded.test["label"].to_pylist(), loaded.schema.images.shape.axes) == ([1, 5], (32, 32, 1))
    EncodedTable.concatenate(list(TableSource(loaded.train, loaded.schema).batches()))
