"""What a batch of records is: rows of numbers and codes, or images as bytes, which can be read as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Selection: TypeAlias = slice | Sequence[int] | npt.NDArray[Any]
"""Which records are taken: a slice, a list of positions or a mask."""

POSITIONS = np.arange(256) / np.float64(255)
"""The number in [0, 1] of each intensity, as an integer column between 0 and 255 is encoded."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Records as numbers.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import Rows
        >>> Rows(np.array([[0.5], [np.nan]]), np.array([[1], [0]], dtype=np.int32)).rows([0]).codes
        array([[1]], dtype=int32)
    """

    numeric: npt.NDArray[np.float64]
    """float64, (records, numeric columns): (value - lower) / (upper - lower), NaN where missing."""
    codes: npt.NDArray[np.int32]
    """int32, (records, coded columns): position among the levels, ``size - 1`` where missing."""

    def __post_init__(self) -> None:
        if (
            self.numeric.ndim != 2
            or self.codes.ndim != 2
            or len(self.numeric) != len(self.codes)
        ):
            raise ValueError(
                f"expected two tables of equal length, found {self.numeric.shape} and {self.codes.shape}"
            )
        if self.numeric.dtype != np.float64 or self.codes.dtype != np.int32:
            raise ValueError(
                f"expected float64 and int32, found {self.numeric.dtype} and {self.codes.dtype}"
            )

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, rows: Selection) -> Rows:
        """Returns the records at ``rows``, of the same kind."""
        return Rows(self.numeric[rows], self.codes[rows])

    def row_by_row(self) -> Self:
        """Returns the same records, one behind the other in memory, as some arithmetic rounds by the order."""
        return replace(
            self,
            numeric=np.ascontiguousarray(self.numeric),
            codes=np.ascontiguousarray(self.codes),
        )

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Returns the records of all ``parts``, of which there is at least one; images only if all are."""
        if len(parts) == 1:
            return parts[0]
        if any(isinstance(part, WeightedRows) for part in parts):
            raise ValueError(
                "weighted records are not joined: what they weigh holds within their own batch"
            )
        images = [part for part in parts if isinstance(part, Images)]
        if len(images) < len(parts):
            return Rows(
                *(
                    np.concatenate([getattr(part, name) for part in parts])
                    for name in ("numeric", "codes")
                )
            )
        labels = [part.labels for part in images if part.labels is not None]
        return Images(
            np.concatenate([part.pixels for part in images]),
            np.concatenate(labels) if labels else None,
        )


WHOLE = 2**20
"""What the records of one unit weigh together, at most."""


@dataclass(frozen=True, eq=False)
class WeightedRows(Rows):
    """Records that count in part: those of one unit weigh at most `WHOLE` together.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import WHOLE, WeightedRows
        >>> halves = WeightedRows(np.zeros((2, 0)), np.array([[1], [0]], dtype=np.int32), np.full(2, WHOLE // 2))
        >>> halves.rows([1]).weights
        array([524288])
    """

    weights: npt.NDArray[np.int64]
    """int64, (records,), from 0 to `WHOLE`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights.dtype != np.int64 or self.weights.shape != (len(self),):
            raise ValueError(
                f"weights {self.weights.dtype} of shape {self.weights.shape} for {len(self)} records"
            )
        if len(self) and not 0 <= self.weights.min() <= self.weights.max() <= WHOLE:
            raise ValueError(f"weights must be from 0 to {WHOLE}")

    def rows(self, rows: Selection) -> WeightedRows:
        """Returns the records at ``rows``, with their weights."""
        return WeightedRows(self.numeric[rows], self.codes[rows], self.weights[rows])


class Images(Rows):
    """Images with their labels.

    ``pixels`` are uint8, (records, height, width, channels), of which 0 is dark; ``labels`` int32, (records,),
    positions among the labels of the schema, None for images without labels.

    Examples:
        >>> import numpy as np
        >>> from noisegate.records import Images
        >>> images = Images(np.array([[[[0], [51]]]], dtype=np.uint8), np.array([3], dtype=np.int32))
        >>> images.numeric, images.codes
        (array([[0. , 0.2]]), array([[3]], dtype=int32))
    """

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int32] | None

    def __init__(
        self, pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.int32] | None = None
    ) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 4:
            raise ValueError(
                f"expected four axes of uint8, found {pixels.dtype} of shape {pixels.shape}"
            )
        if labels is not None and (
            labels.dtype != np.int32 or labels.shape != pixels.shape[:1]
        ):
            raise ValueError(
                f"labels {labels.dtype} of shape {labels.shape} for {len(pixels)} images"
            )
        self.__dict__.update(pixels=pixels, labels=labels)

    @classmethod
    def of_positions(
        cls,
        numeric: npt.NDArray[Any],
        shape: tuple[int, int, int],
        labels: npt.NDArray[np.int32] | None,
    ) -> Self:
        """Returns images from intensities in [0, 1], (records, height · width · channels), rounded to the nearest."""
        pixels = np.empty((len(numeric), *shape), dtype=np.uint8)
        for one, positions in zip(
            pixels, numeric, strict=True
        ):  # one by one: no second batch in memory
            one[...] = np.rint(
                np.clip(positions.astype(np.float64), 0.0, 1.0) * 255
            ).reshape(shape)
        return cls(pixels, labels)

    @cached_property
    def numeric(self) -> npt.NDArray[np.float64]:
        """Intensities in [0, 1], (records, height · width · channels): eight times as large as `pixels`."""
        return POSITIONS.take(
            self.pixels.reshape(len(self), math.prod(self.pixels.shape[1:]))
        )

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """The labels, (records, 1), or (records, 0) without labels; a view of `labels`."""
        return (
            np.empty((len(self), 0), dtype=np.int32)
            if self.labels is None
            else self.labels[:, None]
        )

    def __len__(self) -> int:
        return len(self.pixels)

    def row_by_row(self) -> Self:
        """Returns itself: images are never kept in another way."""
        return self

    def rows(self, rows: Selection) -> Images:
        """Returns the images at ``rows``."""
        return Images(
            self.pixels[rows], None if self.labels is None else self.labels[rows]
        )
