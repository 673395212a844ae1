"""A record as the vector that a classifier sees: a fixed public map of the schema, the label left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Maps an encoded record to its inputs, a vector about as long as 1 at most.

    A numeric column gives twice its distance from `centre`, 0 where it is missing; one that may be missing gives one
    more input that says so. A column with levels gives one input for each. All are divided by the square root of the
    number of columns.

    Attributes:
        names: What each input is called: the column, ``column is missing``, or ``column = level``.
        numeric: Number of numeric columns.
        absent: Those of them that may be missing.
        coded: How many levels each column with levels has, the label left out.
        centre: The position in [0, 1] that counts as nothing: 0 for ink on an empty page, 0.5 where nothing is known.
    """

    names: tuple[str, ...]
    numeric: int
    absent: tuple[int, ...]
    coded: tuple[int, ...]
    centre: float

    @property
    def scale(self) -> float:
        """What all inputs are multiplied by."""
        return 1 / math.sqrt(self.numeric + len(self.coded))

    @property
    def slopes(self) -> npt.NDArray[np.float32]:
        """How much each input grows while its column goes from its lower to its upper bound, or the level comes up."""
        slopes = np.full(len(self.names), self.scale, dtype=np.float32)
        slopes[: self.numeric] *= 2
        return slopes

    def __call__(self, numeric: Tensor, codes: Tensor) -> Tensor:
        """Returns the inputs of one record, or of many along the leading axes.

        Args:
            numeric: Positions of the numeric columns in [0, 1], NaN where missing, (…, columns).
            codes: Of the columns with levels, the label left out, (…, columns).

        Returns:
            The inputs in the type of `numeric`, (…, inputs).
        """
        import torch

        missing = torch.isnan(numeric)
        parts = [torch.where(missing, 0.0, 2 * (numeric - self.centre))]
        parts += [missing[..., column : column + 1].to(numeric.dtype) for column in self.absent]
        levels = [torch.arange(size, device=codes.device) for size in self.coded]
        parts += [(codes[..., column, None] == level).to(numeric.dtype) for column, level in enumerate(levels)]
        return torch.cat(parts, dim=-1) * self.scale


def inputs_of(schema: Schema, *, centre: float) -> Inputs:
    """Returns the inputs of the records of `schema`; the label, if there is one, is none of them.

    Args:
        schema: The columns.
        centre: The position in [0, 1] of a numeric column that counts as nothing.
    """
    layout = schema.layout
    coded = [column for j, column in enumerate(layout.coded) if j != layout.label]
    absent = tuple(j for j, column in enumerate(layout.numeric) if column.missing)
    names = [column.name for column in layout.numeric]
    names += [f"{layout.numeric[j].name} is missing" for j in absent]
    for column in coded:
        names += [f"{column.name} = {level}" for level in column.levels]
        names += [f"{column.name} is missing"] * column.missing
    return Inputs(
        names=tuple(names),
        numeric=len(layout.numeric),
        absent=absent,
        coded=tuple(column.size for column in coded),
        centre=centre,
    )
