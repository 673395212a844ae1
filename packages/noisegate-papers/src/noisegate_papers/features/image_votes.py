"""Votes of images for the nearest of public candidates of their label, by what a frozen public network sees in them.

Private Evolution, Lin, Gopi, Kulkarni, Nori and Yekhanin (ICLR 2024), https://arxiv.org/abs/2305.15560, algorithm 2.
Features of norm at most 1 are multiplied by 2363 and rounded toward zero. A vote goes to the greatest 2⟨x, y⟩ − ‖y‖²
among the candidates of the image's label, the first of equally near ones; it follows from the rounded features and the
label alone, bit for bit (G-25). The gate probes the features before it reads a record (G-06).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap, Vectors
from noisegate.schema import EncodedTable

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32

LARGEST = 2**24 // 3
"""Of the squared norm of a row of whole numbers."""

SCALE = math.isqrt(LARGEST) - 1
"""What features are multiplied by: 2363. It leaves room for a norm of 1 that is one up to rounding."""


def whole_numbers(vectors: Vectors) -> Vectors:
    """Returns vectors of norm at most 1 on the lattice of the votes, rounded toward zero: whole numbers in float32.

    A row that is longer all the same counts as one of zeros, which is near to no candidate in particular.

    Examples:
        >>> import numpy as np
        >>> from noisegate_papers.features.image_votes import whole_numbers
        >>> whole_numbers(np.array([[0.6, -0.8]], dtype=np.float32)).tolist()
        [[1417.0, -1890.0]]
    """
    whole = np.trunc(vectors * np.float32(SCALE))
    # In float64, where squares of whole numbers add up without rounding; a NaN is no short row either.
    short = np.square(whole, dtype=np.float64).sum(axis=1) <= LARGEST
    return np.where(short[:, None], whole, np.float32(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageVotes:
    """The map from an image to its vote. Everything in it is public.

    Attributes:
        encoding: From an image to its features, of norm at most 1; this is what the gate probes.
        candidates: Features of the candidates, (candidates, features).
        labels: The label of each candidate, (candidates,); at least one candidate for each label.
        label: The coded column that is the label of a record, or None where images have none and labels are all 0.

    Raises:
        OptionError: if there is no candidate, or numbers of rows or features differ.

    Examples:
        >>> import numpy as np
        >>> from noisegate.features.feature_map import Counts
        >>> from noisegate_papers.features.image_votes import ImageVotes
        >>> from noisegate.records import Images
        >>> nearest = np.array([[1.0], [0.2]], dtype=np.float32)
        >>> votes = ImageVotes(encoding=Counts(), candidates=nearest, labels=np.zeros(2, dtype=np.int32), label=None)
        >>> votes(Images(np.zeros((1, 8, 8, 1), dtype=np.uint8))).tolist()
        [[1.0, 0.0]]
    """

    encoding: FeatureMap
    candidates: Float32[npt.NDArray[np.float32], "candidates features"]
    labels: Int32[npt.NDArray[np.int32], " candidates"]
    label: int | None
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        fits = self.candidates.shape == (len(self.labels), self.encoding.dim) and len(self.labels)
        if not fits:
            raise OptionError(
                f"candidates of shape {self.candidates.shape} are not {len(self.labels)} labelled rows of "
                f"{self.encoding.dim} features."
            )

    @property
    def dim(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    def nearest(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns the place of each record's candidate, (rows,)."""
        twice, squares = self._lattice
        scores = whole_numbers(self.encoding(records)) @ twice - squares
        if self.label is not None:
            scores[records.codes[:, self.label, None] != self.labels] = -np.inf
        places: npt.NDArray[np.intp] = scores.argmax(axis=1)
        return places

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the votes, (rows, candidates)."""
        votes = np.zeros((len(records), self.dim), dtype=np.float32)
        votes[np.arange(len(records)), self.nearest(records)] = 1.0
        return votes

    @cached_property
    def _lattice(self) -> tuple[Vectors, Vectors]:
        """Twice the candidates' whole numbers, (features, candidates), and their squared norms, (candidates,)."""
        rows = whole_numbers(self.candidates)
        squares = np.square(rows, dtype=np.float64).sum(axis=1)
        return np.ascontiguousarray(2 * rows.T), squares.astype(np.float32)
