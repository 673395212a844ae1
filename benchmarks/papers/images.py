"""MNIST, FashionMNIST and CIFAR-10 made grey, images of ten labels, as a table with one column for each pixel.

They come split, MNIST and its kin into 60,000 training and 10,000 test images of 28 x 28. These are read from the
publishers' IDX files, or from Parquet files with the columns image (a structure of bytes and path) and label, in which
form collections of data sets hand them on; CIFAR-10 is read by the library itself.
"""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisegate.errors import DataError
from noisegate.schema import Schema, pixel_schema
from noisegate_images.sources.images import ImageSource
from papers.published import SETS, Loaded, Published

Pixels = npt.NDArray[np.uint8]

MNIST = SETS["mnist"]
FASHION = SETS["fashion-mnist"]
MNIST_8K = SETS["mnist-8k"]
CIFAR_GREY = SETS["cifar10-grey"]
CIFAR = SETS["cifar10"]
SIDE = 28
# Both pages: labels 0 to 9, intensities 0 to 255.
SCHEMA = pixel_schema(SIDE, SIDE, labels=range(10))
# Of the publisher's size, so that no pixel is made up, with colour made grey by the schema's public rule.
GREY_SCHEMA = pixel_schema(32, 32, labels=range(10), convert=True)
COLOUR_SCHEMA = pixel_schema(32, 32, 3, labels=range(10))
_IDX_OF_BYTES = b"\x00\x00\x08"


def load(published: Published, folder: Path, *, seed: int) -> Loaded:
    """Returns the training and the test images of the publishers; `seed` changes nothing.

    Raises:
        DataError: if a file is missing or broken.
    """
    if published.find(folder, *published.files).suffix == ".parquet":
        train, test = (
            _parquet(published.find(folder, f"{part}.parquet"))
            for part in ("train", "test")
        )
    else:
        train, test = _idx(published, folder, "train"), _idx(published, folder, "t10k")
    return Loaded(train=train, test=test, schema=SCHEMA)


load_mnist: Callable[..., Loaded] = partial(load, MNIST)
load_fashion: Callable[..., Loaded] = partial(load, FASHION)


def load_few(folder: Path, *, seed: int) -> Loaded:
    """Returns 8,000 of MNIST's training images, drawn by the public `seed`, and all test images."""
    loaded = load(MNIST_8K, folder, seed=seed)
    order = np.random.Generator(np.random.Philox(seed)).permutation(
        loaded.train.num_rows
    )
    return loaded._replace(
        train=loaded.train.take(np.sort(order[: MNIST_8K.train_records]))
    )


def load_cifar(folder: Path, *, seed: int, schema: Schema = COLOUR_SCHEMA) -> Loaded:
    """Returns CIFAR-10's images, in colour or made grey as `schema` says; `seed` changes nothing.

    Raises:
        DataError: if a file is missing or broken.
    """
    parquet = CIFAR_GREY.find(folder, *CIFAR_GREY.files).suffix == ".parquet"
    paths = (
        [folder / f"{part}.parquet" for part in ("train", "test")]
        if parquet
        else [folder, folder / "test_batch"]
    )
    return Loaded(*(_read_cifar(path, schema) for path in paths), schema=schema)


load_grey: Callable[..., Loaded] = partial(load_cifar, schema=GREY_SCHEMA)


def pixel_table(
    pixels: Pixels, labels: npt.NDArray[Any], schema: Schema = SCHEMA
) -> pa.Table:
    """Returns images as a table of the columns of `schema`.

    Args:
        pixels: (images, rows, columns), intensities from 0 to 255.
        labels: (images,).
        schema: of the pixels and the label.
    """
    columns = np.ascontiguousarray(pixels.reshape(len(pixels), -1).T)
    return pa.table(
        [*map(pa.array, columns), pa.array(labels)], names=list(schema.names)
    )


def _read_cifar(path: Path, schema: Schema) -> pa.Table:
    batches = list(ImageSource(path, schema).batches())
    pixels, codes = (
        np.concatenate([getattr(batch, name) for batch in batches])
        for name in ("pixels", "labels")
    )
    return pixel_table(pixels, codes, schema)


def _idx(published: Published, folder: Path, part: str) -> pa.Table:
    paths = [
        published.find(folder, f"{part}-{kind}-ubyte", f"{part}-{kind}-ubyte.gz")
        for kind in ("images-idx3", "labels-idx1")
    ]
    pixels, labels = (_read_idx(path) for path in paths)
    if pixels.shape[1:] != (SIDE, SIDE) or labels.shape != pixels.shape[:1]:
        raise DataError(
            f"{paths[0]} and {paths[1].name}: arrays of shape {pixels.shape} and {labels.shape}, expected "
            f"(images, {SIDE}, {SIDE}) and (images,); take the files as they are published"
        )
    return pixel_table(pixels, labels)


def _read_idx(path: Path) -> Pixels:
    """The array of bytes in an IDX file: a type, the number of axes, their lengths (big-endian), and the values."""
    try:
        content = (
            gzip.decompress(path.read_bytes())
            if path.suffix == ".gz"
            else path.read_bytes()
        )
    except (OSError, EOFError) as error:
        raise DataError(
            f"{path}: cannot be read ({type(error).__name__}); get it from its publisher again"
        ) from None
    axes = content[3] if content[:3] == _IDX_OF_BYTES and len(content) > 3 else 0
    shape = (
        np.frombuffer(content[4 : 4 + 4 * axes], dtype=">i4").tolist()
        if len(content) >= 4 + 4 * axes
        else []
    )
    if not shape or min(shape) < 0 or len(content) != 4 + 4 * axes + math.prod(shape):
        raise DataError(
            f"{path}: is no whole IDX file of bytes; get it from its publisher again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def _parquet(path: Path) -> pa.Table:
    failed = False
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=["image.bytes", "label"])
        images, labels = (
            pc.struct_field(table["image"], "bytes").to_pylist(),
            table["label"].to_numpy(),
        )
    except (pa.ArrowException, KeyError, OSError, ValueError):
        failed = True  # raised below: Arrow's message may quote the file's content
    if failed:
        raise DataError(
            f"{path}: expected a Parquet file with the columns image (bytes and path) and label"
        )
    pixels = np.stack(
        [
            _decoded(image, f"{path}, record {row + 1}")
            for row, image in enumerate(images)
        ]
    )
    return pixel_table(pixels, labels)


def _decoded(image: bytes | None, where: str) -> Pixels:
    from PIL import Image, UnidentifiedImageError  # comes with Matplotlib

    try:
        with Image.open(io.BytesIO(image or b"")) as opened:
            pixels = np.asarray(opened)
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
    ):  # a broken PNG is a SyntaxError to Pillow
        pixels = np.zeros(0, dtype=np.uint8)
    if pixels.dtype != np.uint8 or pixels.shape != (SIDE, SIDE):
        raise DataError(
            f"{where}: expected an image of {SIDE} x {SIDE} gray pixels of 8 bits"
        )
    return pixels
