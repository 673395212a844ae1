"""A label on top of a mixture: p(x) p(k | x), where the mixture says p(x) and a log-linear model the label k.

p(k | x) ∝ exp(b_k + Σ_i θ_ki(x_i) + κ log p(x, k))

with an effect θ for each cell of the other columns, and κ from 0 to 1 for what the mixture itself says of the label;
`noisegate.tables.label_fit` estimates them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from noisegate.models.mixture import Mixture
from noisegate.models.record_model import Array
from noisegate.models.stratified import systematic_codes
from noisegate.schema import EncodedTable, Region, Schema
from noisegate.seeds import public_random, uniform

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.integer[Any]]

_INTEGRAL_ROWS = (
    2**15
)  # records that stand for all, where a sum over the other columns has no closed form
_STRATUM = 16  # records of a stratum, about, among which labels come in nearly their expected numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelModel:
    """The distribution of a label given the other columns."""

    column: int  # number of the label's column, numeric ones first; the classes of a numeric one are its cells
    bias: Floats  # (classes,)
    effects: tuple[
        Floats, ...
    ]  # for each other column, in their order, (classes, cells)
    mixture_weight: float  # κ

    def __post_init__(self) -> None:
        if not all(
            part.shape[0] == len(self.bias) and np.isfinite(part).all()
            for part in (self.bias, *self.effects)
        ):
            raise ValueError(
                "the effects on a label must be finite numbers, with a row for each class"
            )
        if not 0 <= self.mixture_weight <= 1:
            raise ValueError(
                f"mixture_weight={self.mixture_weight}: expected a number from 0 to 1"
            )

    def probabilities(self, cells: Cells, mixture: Mixture) -> Floats:
        """Returns each class's probability, (rows, classes), given all cells but its own of (rows, columns)."""
        scores = np.tile(self.bias, (len(cells), 1))
        for effects, codes in zip(
            self.effects, np.delete(cells, self.column, axis=1).T, strict=True
        ):
            scores += effects.T[codes]
        if self.mixture_weight:
            scores += self.mixture_weight * log_ratios(
                mixture.log_joint(cells, self.column)
            )
        return softmax(scores)

    def order(self, cells: Cells, random: torch.Generator) -> npt.NDArray[np.intp]:
        """Returns records in strata of about `_STRATUM` that agree in the columns that say most, (rows,)."""
        others = np.delete(cells, self.column, axis=1).T
        said = (
            effects.T[codes]
            for effects, codes in zip(self.effects, others, strict=True)
        )
        telling = np.array([scores.var(axis=0).sum() for scores in said])
        keys = [uniform(random, len(cells))]
        strata = np.zeros(len(cells), dtype=np.int64)
        for place in np.argsort(-telling, kind="stable"):
            if (len(np.unique(strata)) * _STRATUM) > len(cells):
                break
            strata = np.unique(
                strata * (int(others[place].max(initial=0)) + 1) + others[place],
                return_inverse=True,
            )[1]
            keys.append(others[place])
        # The last key is the first to sort by.
        return np.lexsort([keys[0], *keys[:0:-1]])


def softmax(scores: Floats) -> Floats:
    """Returns rows of probabilities in proportion to exp(scores), (rows, classes)."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True), dtype=np.float64)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def log_ratios(joint: Floats) -> Floats:
    """Returns log p(x, k) less its highest over k, at least -50, (rows, classes); 0 for x of probability zero."""
    highest = joint.max(axis=1, keepdims=True)
    possible = np.isfinite(highest)
    return np.where(
        possible, np.maximum(joint - np.where(possible, highest, 0.0), -50.0), 0.0
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledMixture:
    """A mixture whose label is drawn from a model of its own."""

    mixture: Mixture  # of all columns; what it says of the label counts only in `label`
    label: LabelModel  # the label given the other columns

    kind: ClassVar[str] = "labelled-mixture"

    def __post_init__(self) -> None:
        sizes, column = list(self.mixture.sizes), self.label.column
        if not 0 <= column < len(sizes):
            raise ValueError(f"column {column} is none of {len(sizes)} columns")
        classes = sizes.pop(column)
        if [(classes, size) for size in sizes] != [
            np.shape(effects) for effects in self.label.effects
        ]:
            raise ValueError(
                f"effects on {classes} classes do not fit columns of {sizes} cells"
            )

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records, spread out over mixture and classes: see `Mixture.draw` and `systematic_codes`."""
        records = self.mixture.draw(rows, random)
        cells = self.cells(records)
        probabilities = self.label.probabilities(cells, self.mixture)
        drawn = systematic_codes(probabilities, self.label.order(cells, random), random)
        numeric, codes = records.numeric.copy(), records.codes.copy()
        numbers = len(self.mixture.within)
        if self.label.column < numbers:
            numeric[:, self.label.column] = self.mixture.within[self.label.column].draw(
                drawn, random
            )
        else:
            codes[:, self.label.column - numbers] = drawn
        return EncodedTable(numeric, codes)

    def cells(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Returns the cell of each record in each column, (rows, columns)."""
        return self.mixture.cells(records)

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Returns what `Mixture.marginal` does; with the label among the columns, over 32,768 fixed records."""
        if self.label.column not in columns:
            return self.mixture.marginal(columns)
        shape = list(self.mixture.marginal(columns).shape)
        cells, probabilities = self._integral(self.mixture)
        place = list(columns).index(self.label.column)
        classes = shape.pop(place)
        combination = np.zeros(len(cells), dtype=np.int64)
        for column, size in zip(
            (column for column in columns if column != self.label.column),
            shape,
            strict=True,
        ):
            combination = combination * size + cells[:, column]
        counts = [
            np.bincount(combination, share, math.prod(shape))
            for share in probabilities.T
        ]
        return np.moveaxis(
            np.stack(counts).reshape(classes, *shape) / len(cells), 0, place
        )

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in `region`; if it names the label, over 32,768 fixed records."""
        rest, inside = (
            self._apart(region),
            self.mixture.shares_inside(region).get(self.label.column),
        )
        probability = self.mixture.probability(rest)
        if inside is None or not probability:
            return probability
        return probability * float(
            (self._integral(self.mixture.given(rest))[1] @ inside).mean()
        )

    def given(self, region: Region) -> LabelledMixture:
        """Returns the model of records as in `region` but of any label; the caller rejects those of another one."""
        return replace(self, mixture=self.mixture.given(self._apart(region)))

    def tensors(self) -> dict[str, Array]:
        """Returns those of the mixture, the bias and the effects."""
        effects = {
            f"label/effects/{place}": effects
            for place, effects in enumerate(self.label.effects)
        }
        return {**self.mixture.tensors(), "label/bias": self.label.bias, **effects}

    def to_json(self) -> dict[str, Any]:
        """Returns what the mixture says, the label's column and κ."""
        label = {
            "column": self.label.column,
            "mixture_weight": self.label.mixture_weight,
        }
        return {**self.mixture.to_json(), "label": label}

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Returns the model that `tensors` and `to_json` describe."""
        mixture, label = (
            Mixture.from_saved(schema, tensors, description),
            description["label"],
        )
        effects = tuple(
            tensors[f"label/effects/{place}"] for place in range(len(mixture.sizes) - 1)
        )
        return cls(
            mixture=mixture,
            label=LabelModel(
                column=label["column"],
                bias=tensors["label/bias"],
                effects=effects,
                mixture_weight=label["mixture_weight"],
            ),
        )

    def _apart(self, region: Region) -> Region:
        place = self.label.column - len(self.mixture.within)
        spans = {
            column: span
            for column, span in region.spans.items()
            if column != self.label.column
        }
        return replace(
            region,
            spans=spans,
            codes={at: code for at, code in region.codes.items() if at != place},
        )

    def _integral(self, mixture: Mixture) -> tuple[npt.NDArray[np.int32], Floats]:
        """Returns the cells of fixed records of a mixture, and the probability of each class for them."""
        cells = mixture.cells(mixture.draw(_INTEGRAL_ROWS, public_random(0)))
        return cells, self.label.probabilities(cells, mixture)
