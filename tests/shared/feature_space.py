"""Striped images, a small decoder with random weights, and the noise of what is released, for methods on features."""

import numpy as np
import pyarrow as pa
from tests.shared.gate_room import ShowingEngine

from noisegate import Gate
from noisegate.gate.sums import SumTask, sum_records
from noisegate.records import Rows
from noisegate.schema import EncodedTable, pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.decoder import (
    DecoderDesign,
    build_decoder,
    decoder_bytes,
)
from noisegate_images.networks.encoder import SHIPPED_SHA256

SCHEMA = pixel_schema(8, 8, labels=("across", "down"))
UNLABELLED = pixel_schema(8, 8)
PIXELS = pixel_schema(8, 8, labels=("left", "right"))


def found_noise(method):
    """Of each release, as a part of the noise that was planned; and the exact sums, with what was asked."""
    shown = ShowingEngine()
    ratios = {}
    release = method.query(Gate(stripes(40), schema=SCHEMA, epsilon=1.0, engine=shown))
    for name, values in release.values.items():
        exact = shown.tasks[name].grid.restore(shown.totals[0].sums[name]).T
        ratios[name] = np.std(values - exact) / release.noise_std[name]
    return ratios, shown.totals[0], shown.tasks


def features_of(data, method):
    """The features of records and their labels."""
    images = (
        np.stack(
            [data[name].to_numpy() for name in data.column_names if name != "label"],
            axis=1,
        )
        / 255
    )
    codes = np.array(
        [["across", "down"].index(label) for label in data["label"].to_pylist()]
    )
    records = EncodedTable(images, np.zeros((len(images), 0), np.int32))
    return method.encoding()(records).astype(np.float64), codes


def stripes(rows, seed=0, labelled=True, down=0.5):
    """Stripes across or down in noise, intensities from 0 to 255, one column for each pixel."""
    random = np.random.default_rng(seed)
    turned = random.random(rows) < down
    images = random.integers(0, 60, (rows, 8, 8))
    across = (np.arange(8) % 4 < 2)[:, None] * np.ones(8)
    images = (
        (images + np.where(turned[:, None, None], across.T, across) * 190)
        .astype(np.int64)
        .reshape(rows, 64)
    )
    names = [name for name in SCHEMA.names if name != "label"]
    columns = dict(zip(names, images.T, strict=True))
    labels = (
        {"label": np.array(["across", "down"])[turned.astype(int)]} if labelled else {}
    )
    return pa.table(columns | labels)


def write_decoder(
    path, *, shape=(8, 8, 1), features=144, encoder=SHIPPED_SHA256, seed=0
):
    """Writes a decoder with random weights; returns its path as text."""
    height, width, channels = shape
    design = DecoderDesign(
        shape=ImageShape(height=height, width=width, channels=channels),
        features=features,
        latent=2,
        channels=(4, 2),
        encoder=encoder,
        layer="last",
    )
    path.write_bytes(decoder_bytes(build_decoder(design, seed=seed)))
    return str(path)


def drawings(rows=600, seed=0, right=None):
    """Images of which the half that the label names is bright."""
    random = np.random.default_rng(seed)
    right = random.random(rows) < 0.5 if right is None else np.full(rows, right)
    images = random.integers(0, 30, (rows, 8, 8))
    images[~right, :, :4] += 200
    images[right, :, 4:] += 200
    pixels = dict(zip(PIXELS.names, images.reshape(rows, -1).T, strict=False))
    return pa.table({**pixels, "label": np.where(right, "right", "left")})


def moves(query, pixels):
    """By how much an image moves the sums that a query asks for, in units: of its own class, and of the other one."""
    task = SumTask(feature_map=query.feature_map, grid=query.grid, columns=2, label=0)
    random = np.random.default_rng(0)
    for image in (np.ones(pixels), np.zeros(pixels), *random.random((4, pixels))):
        for label in (0, 1):
            others = Rows(
                random.random((5, pixels)),
                random.integers(0, 2, (5, 1)).astype(np.int32),
            )
            both = Rows.concatenate(
                [others, Rows(image[None], np.array([[label]], np.int32))]
            )
            before, after = (
                sum_records(rows, {"it": task}).sums["it"] for rows in (others, both)
            )
            moved = (after - before).astype(np.float64)
            yield np.linalg.norm(moved), np.linalg.norm(moved[1 - label])
