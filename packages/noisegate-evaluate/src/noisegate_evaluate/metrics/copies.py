"""Whether synthetic records are copies: are they nearer to the records that the fit used than to others of the kind?

Platzer and Reutterer (Frontiers in Big Data 2021), https://doi.org/10.3389/fdata.2021.679939, section 3.2.

Of equally many of both, half of the synthetic records should have their nearest one
among the first. It is no proof of privacy, but a look at one failure. Source: Platzer
and Reutterer (Frontiers in Big Data 2021), https://doi.org/10.3389/fdata.2021.679939,
section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisegate.schema import Schema
from noisegate_evaluate.reading import encoded_rows, some_rows

MOST = 2000  # records of each set that are compared; they are drawn by a public seed where there are more
_AT_ONCE = 250


@dataclass(frozen=True, kw_only=True)
class NearestRecords:
    """How near so many synthetic records are to those that the fit used, and to equally many that it did not.

    Of the share ``nearer`` the nearest record is one that the fit used; ties count half, one half is chance, and
    ``chance`` is twice the standard deviation where nothing was copied. The share ``same`` equals a record in every
    column; held out: what coincidence does. ``distance`` is the median to the nearest record of either set.
    """

    synthetic: int
    real: int
    nearer: float
    chance: float
    same: float
    same_held_out: float
    distance: float
    distance_held_out: float

    @classmethod
    def of(cls, used: np.ndarray, held_out: np.ndarray, real: int) -> NearestRecords:
        """Returns the figures of the distances of synthetic records to the nearest one of either set."""
        return cls(
            synthetic=len(used),
            real=real,
            nearer=float(np.mean(np.where(used == held_out, 0.5, used < held_out))),
            chance=1 / math.sqrt(len(used)),
            same=float(np.mean(used == 0)),
            same_held_out=float(np.mean(held_out == 0)),
            distance=float(np.median(used)),
            distance_held_out=float(np.median(held_out)),
        )


def nearest_records(
    synthetic: pa.Table,
    train: pa.Table,
    test: pa.Table,
    schema: Schema,
    *,
    seed: int = 0,
) -> NearestRecords:
    """Returns how near records are: the mean over columns of the gap over the range, or of whether levels differ."""
    many = min(train.num_rows, test.num_rows, MOST)
    draw = np.random.default_rng(seed)
    made, used, held_out = (
        _coordinates(some_rows(table, count, draw), schema)
        for table, count in ((synthetic, MOST), (train, many), (test, many))
    )
    return NearestRecords.of(_nearest(made, used), _nearest(made, held_out), many)


def nearest_images(
    synthetic: np.ndarray, train: np.ndarray, test: np.ndarray, *, seed: int = 0
) -> NearestRecords:
    """Returns how near images, uint8, (images, height, width, channels), are by the root mean square of pixels."""
    many = min(len(train), len(test), MOST)
    draw = np.random.default_rng(seed)
    made, used, held_out = (
        pixels[np.sort(draw.permutation(len(pixels))[:count])].reshape(
            min(count, len(pixels)), -1
        )
        / np.float32(255)
        for pixels, count in ((synthetic, MOST), (train, many), (test, many))
    )
    return NearestRecords.of(
        _nearest_pixels(made, used), _nearest_pixels(made, held_out), many
    )


def _coordinates(table: pa.Table, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """The columns of numbers, in [0, 1] and NaN where missing, and those of codes: (numbers, rows), (codes, rows)."""
    records, _ = encoded_rows(table, schema)
    return records.numeric.T.astype(np.float32), records.codes.T


def _nearest(
    ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    rows, columns = ours[0].shape[1], len(ours[0]) + len(ours[1])
    found = np.empty(rows, dtype=np.float32)
    for start in range(0, rows, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        apart = np.zeros((found[part].size, theirs[0].shape[1]), dtype=np.float32)
        for one, others in zip(ours[0], theirs[0], strict=True):
            # One of two missing gives NaN, both the same.
            gap = np.abs(one[part, None] - others)
            both = np.isnan(one[part, None]) & np.isnan(others)
            apart += np.where(both, 0, np.where(np.isnan(gap), 1, gap))
        for one, others in zip(ours[1], theirs[1], strict=True):
            apart += one[part, None] != others
        found[part] = apart.min(axis=1)
    return found / max(columns, 1)


def _nearest_pixels(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Returns the root mean square difference of each image to the nearest one, (images,)."""
    from sklearn.metrics import pairwise_distances_argmin

    ours = ours.astype(np.float64)
    theirs = theirs.astype(np.float64)
    nearest = theirs[pairwise_distances_argmin(ours, theirs)]
    return np.asarray(np.sqrt(np.square(ours - nearest).mean(axis=1)))
