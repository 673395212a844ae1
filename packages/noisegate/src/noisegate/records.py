"""Batches of records, encoded as numbers: what the gate sums and models sample.

- `Rows`: numbers in [0, 1] and codes of levels, as `schema.encode` makes them.
- `WeightedRows`: rows of units with several records, of which each counts in part.
- `Images`: images as bytes, which can be read as rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Selection: TypeAlias = slice | Sequence[int] | npt.NDArray[Any]
"""Which records are taken: a slice, a list of positions or a mask."""

POSITIONS = np.arange(256) / np.float64(255)
"""The number in [0, 1] of each intensity, (256,).

An integer column from 0 to 255 is encoded alike.
"""


@dataclass(frozen=True, eq=False)
class Rows:
    """Records as numbers.

    Attributes:
        numeric: Positions between the bounds, (value − lower)/(upper − lower), NaN
            where missing; float64, (records, numeric columns).
        codes: Indices of the levels of a column, the last index where missing; int32,
            (records, coded columns).

    Raises:
        ValueError: if a shape or dtype is wrong.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import Rows
        >>> ages = np.array([[0.5], [np.nan]])
        >>> illnesses = np.array([[1], [0]], dtype=np.int32)
        >>> Rows(ages, illnesses).rows([0]).codes
        array([[1]], dtype=int32)
    """

    # The arrays that hold the records, (records, ...).
    _ARRAYS: ClassVar[tuple[str, ...]] = ("numeric", "codes")

    numeric: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        """Checks shapes and types."""
        both_are_tables = self.numeric.ndim == 2 and self.codes.ndim == 2
        if not both_are_tables or len(self.numeric) != len(self.codes):
            raise ValueError(
                f"expected two tables of equal length, found {self.numeric.shape} and "
                f"{self.codes.shape}"
            )
        if self.numeric.dtype != np.float64 or self.codes.dtype != np.int32:
            raise ValueError(
                f"expected float64 and int32, found {self.numeric.dtype} and "
                f"{self.codes.dtype}"
            )

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.codes)

    def rows(self, rows: Selection) -> Self:
        """Returns the selected records, in the same class."""
        selected = {name: array[rows] for name, array in self._arrays.items()}
        return type(self)(**selected)

    def row_by_row(self) -> Self:
        """Returns the same records, each contiguous in memory.

        The rounding of floating-point sums may depend on the order in memory, and the
        vector of a record must not depend on the memory layout of its batch.
        """
        if all(array.flags.c_contiguous for array in self._arrays.values()):
            return self
        contiguous = {
            name: np.ascontiguousarray(array) for name, array in self._arrays.items()
        }
        return type(self)(**contiguous)

    @property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that the records are held in, by the names in `_ARRAYS`."""
        arrays = {name: getattr(self, name) for name in self._ARRAYS}
        return {name: array for name, array in arrays.items() if array is not None}

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Joins batches.

        Args:
            parts: At least one batch. Batches with weights cannot be joined.

        Returns:
            All records in one batch; `Images` if all parts are `Images`.

        Raises:
            ValueError: if a batch with weights would be joined with others, because
                weights are bounded within their own batch only.
        """
        if len(parts) == 1:
            return parts[0]
        if any(isinstance(part, WeightedRows) for part in parts):
            raise ValueError(
                "weighted records are not joined: what they weigh holds within their "
                "own batch"
            )
        images = [part for part in parts if isinstance(part, Images)]
        if len(images) < len(parts):
            return Rows(
                np.concatenate([part.numeric for part in parts]),
                np.concatenate([part.codes for part in parts]),
            )
        pixels = np.concatenate([part.pixels for part in images])
        labels = [part.labels for part in images if part.labels is not None]
        return Images(pixels, np.concatenate(labels) if labels else None)


WHOLE = 2**20
"""What the records of one unit weigh together, at most."""


@dataclass(frozen=True, eq=False)
class WeightedRows(Rows):
    """Records that count in part.

    Attributes, beside those of `Rows`:
        weights: From 0 to `WHOLE`; int64, (records,). The records of one unit weigh at
            most `WHOLE` together.

    Raises:
        ValueError: if weights are out of range, or of another shape or type.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import WHOLE, WeightedRows
        >>> illnesses = np.array([[1], [0]], dtype=np.int32)
        >>> halves = WeightedRows(np.zeros((2, 0)), illnesses, np.full(2, WHOLE // 2))
        >>> halves.rows([1]).weights
        array([524288])
    """

    _ARRAYS = ("numeric", "codes", "weights")

    weights: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        """Checks shapes and types, and the range of the weights."""
        super().__post_init__()
        if self.weights.dtype != np.int64 or self.weights.shape != (len(self),):
            raise ValueError(
                f"weights {self.weights.dtype} of shape {self.weights.shape} for "
                f"{len(self)} records"
            )
        if len(self) and not 0 <= self.weights.min() <= self.weights.max() <= WHOLE:
            raise ValueError(f"weights must be from 0 to {WHOLE}")


class Images(Rows):
    """Images with their labels, stored as bytes.

    Attributes:
        pixels: Intensities (0 is dark), uint8, (records, height, width, channels).
        labels: Indices of the labels in the schema, int32, (records,); None for images
            without labels.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import Images
        >>> pixels = np.array([[[[0], [51]]]], dtype=np.uint8)
        >>> images = Images(pixels, np.array([3], dtype=np.int32))
        >>> images.numeric, images.codes
        (array([[0. , 0.2]]), array([[3]], dtype=int32))
    """

    _ARRAYS = ("pixels", "labels")

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int32] | None

    def __init__(
        self, pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.int32] | None = None
    ) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 4:
            raise ValueError(
                f"expected four axes of uint8, found {pixels.dtype} of shape "
                f"{pixels.shape}"
            )
        if labels is not None and (
            labels.dtype != np.int32 or labels.shape != pixels.shape[:1]
        ):
            raise ValueError(
                f"labels {labels.dtype} of shape {labels.shape} for {len(pixels)} "
                "images"
            )
        # The class is frozen.
        self.__dict__.update(pixels=pixels, labels=labels)

    @classmethod
    def of_positions(
        cls,
        numeric: npt.NDArray[Any],
        shape: tuple[int, int, int],
        labels: npt.NDArray[np.int32] | None,
    ) -> Self:
        """Creates images from intensities in [0, 1], rounded to the nearest of 256.

        Args:
            numeric: Intensities, (records, height · width · channels).
            shape: Height, width and channels.
            labels: Labels, (records,), or None.
        """
        pixels = np.empty((len(numeric), *shape), dtype=np.uint8)
        # One image at a time, so that there is no second batch in memory.
        for image, intensities in zip(pixels, numeric, strict=True):
            clipped = np.clip(intensities.astype(np.float64), 0.0, 1.0)
            image[...] = np.rint(clipped * 255).reshape(shape)
        return cls(pixels, labels)

    @cached_property
    def numeric(self) -> npt.NDArray[np.float64]:
        """Intensities in [0, 1], (records, height · width · channels).

        They take eight times the memory of `pixels`, so they are computed on first use.
        """
        value_count = math.prod(self.pixels.shape[1:])
        return POSITIONS.take(self.pixels.reshape(len(self), value_count))

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """The labels, (records, 1), a view of `labels`; (records, 0) without labels."""
        if self.labels is None:
            return np.empty((len(self), 0), dtype=np.int32)
        return self.labels[:, None]

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self.pixels)
