"""Whether synthetic records are copies: are they nearer to the records of the fit than to others?

Of equally many of both, half of the synthetic records should have their nearest one
among the first. It is no proof of privacy, but a check of one failure. Source: Platzer
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

# Records of each set that are compared; they are drawn by a public seed where there are
# more.
MOST = 2000
_ROWS_AT_ONCE = 250


@dataclass(frozen=True, kw_only=True)
class NearestRecords:
    """How near synthetic records are to those that the fit used, and to as many others.

    Attributes:
        synthetic: Number of synthetic records.
        real: Number of real ones of either set.
        nearer: Share of the synthetic records whose nearest record is one that the fit
            used; ties count half, and one half is chance.
        chance: Twice the standard deviation of `nearer` where nothing was copied.
        same: Share of them that equals a record of the fit in every column.
        same_held_out: The same of the other records: what coincidence does.
        distance: Median distance to the nearest record of the fit.
        distance_held_out: Median distance to the nearest other record.
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
    def of(
        cls, used: np.ndarray, held_out: np.ndarray, real_count: int
    ) -> NearestRecords:
        """Returns the figures of distances.

        Args:
            used: Distance of each synthetic record to the nearest one that the fit
                used, (records,).
            held_out: The same to the nearest one that it did not use, (records,).
            real_count: Number of real records of either set.
        """
        return cls(
            synthetic=len(used),
            real=real_count,
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
    """Returns how near records are: the mean over columns of the gap over the range, or of whether levels differ.

    Args:
        synthetic: Synthetic records.
        train: Records that the fit used.
        test: Records that it did not use.
        schema: Their schema.
        seed: Of the records that are compared, where there are more.
    """
    real_count = min(len(train), len(test), MOST)
    random = np.random.default_rng(seed)
    drawn, used, held_out = (
        _coordinates(some_rows(table, count, random), schema)
        for table, count in (
            (synthetic, MOST),
            (train, real_count),
            (test, real_count),
        )
    )
    return NearestRecords.of(
        _nearest(drawn, used), _nearest(drawn, held_out), real_count
    )


def nearest_images(
    synthetic: np.ndarray, train: np.ndarray, test: np.ndarray, *, seed: int = 0
) -> NearestRecords:
    """Returns how near images are by the root mean square of pixels.

    Args:
        synthetic: Synthetic images, uint8, (images, height, width, channels).
        train: Images that the fit used.
        test: Images that it did not use.
        seed: Of the images that are compared, where there are more.
    """
    real_count = min(len(train), len(test), MOST)
    random = np.random.default_rng(seed)

    def intensities(images: np.ndarray, max_count: int) -> np.ndarray:
        drawn = images[np.sort(random.permutation(len(images))[:max_count])]
        return np.asarray(drawn.reshape(len(drawn), -1) / np.float32(255))

    drawn = intensities(synthetic, MOST)
    used = intensities(train, real_count)
    held_out = intensities(test, real_count)
    return NearestRecords.of(
        _nearest_pixels(drawn, used), _nearest_pixels(drawn, held_out), real_count
    )


def _coordinates(table: pa.Table, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """The columns of numbers, in [0, 1] and NaN where missing, and those of codes: (numbers, rows), (codes, rows)."""
    records, _ = encoded_rows(table, schema)
    return records.numeric.T.astype(np.float32), records.codes.T


def _nearest(
    records: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Returns the distance of each record to the nearest one of others, (records,).

    Args:
        records: Their numbers, (numbers, records), and their codes, (codes, records).
        others: The same of the others.
    """
    numbers, codes = records
    other_numbers, other_codes = others
    nearest = np.empty(numbers.shape[1], dtype=np.float32)
    for start in range(0, len(nearest), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        # Sum over columns, (records of the part, others).
        distances = np.zeros((nearest[part].size, other_numbers.shape[1]), np.float32)
        for column, other_column in zip(numbers, other_numbers, strict=True):
            gap = np.abs(column[part, None] - other_column)
            both_missing = np.isnan(column[part, None]) & np.isnan(other_column)
            # One of two missing is as far as can be, both are the same.
            distances += np.where(both_missing, 0, np.where(np.isnan(gap), 1, gap))
        for column, other_column in zip(codes, other_codes, strict=True):
            distances += column[part, None] != other_column
        nearest[part] = distances.min(axis=1)
    return nearest / max(len(numbers) + len(codes), 1)


def _nearest_pixels(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns the root mean square difference of each image to the nearest one, (images,)."""
    from sklearn.metrics import pairwise_distances_argmin

    images = images.astype(np.float64)
    others = others.astype(np.float64)
    nearest = others[pairwise_distances_argmin(images, others)]
    return np.asarray(np.sqrt(np.square(images - nearest).mean(axis=1)))
