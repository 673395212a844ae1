"""A label on top of a mixture, drawn from a model of its own.

The mixture says p(x) of all columns but the label. The label k follows a log-linear
model::

    p(k | x) ∝ exp(b_k + Σ_i θ_ki(x_i) + κ log p(x, k))

with a bias b_k of each class, an effect θ_ki for each cell of each other column i, and
a weight κ from 0 to 1 for what the mixture itself says of the label, log p(x, k).
`noisegate.models.tables.label_fit` estimates them.

What is asked of the label and other columns together has no closed form. It is computed
as the mean over 32,768 records of the mixture, always the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from noisegate.models.mixture import Mixture, pick_cells
from noisegate.models.record_model import Array
from noisegate.models.stratified import systematic_codes
from noisegate.models.within_cell import WithinCell
from noisegate.schema import EncodedTable, Region, Schema
from noisegate.seeds import public_random, uniform

if TYPE_CHECKING:
    import torch

    from noisegate.models.completion import PartialRecords

Item = TypeVar("Item")
Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.integer[Any]]

# Records that stand for all, where a sum over the other columns has no closed form.
_INTEGRATION_ROWS = 2**15
# About how many records share a stratum, in which labels come in nearly their expected
# numbers.
_STRATUM_SIZE = 16
# Records of the mixture of which one is picked by its label, where that is known.
_CANDIDATES = 16
# A class below e**-50 of the likeliest one is as good as impossible. The bound is
# finite, since κ may be 0, and 0 times -inf is no number.
_MIN_LOG_RATIO = -50.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelModel:
    """The distribution of a label given all other columns.

    Raises:
        ValueError: if the effects do not fit the classes or are not finite, or the
            weight of the mixture is not in [0, 1].
    """

    # The label's column, among all columns of the mixture, numeric ones first. The
    # classes of a numeric label are its cells.
    column: int
    bias: Floats  # b, (classes,)
    effects: tuple[Floats, ...]  # θ of each other column, in order, (classes, cells)
    mixture_weight: float  # κ, from 0 to 1

    def __post_init__(self) -> None:
        for parameters in (self.bias, *self.effects):
            has_row_for_each_class = parameters.shape[0] == len(self.bias)
            if not has_row_for_each_class or not np.isfinite(parameters).all():
                raise ValueError(
                    "the effects on a label must be finite numbers, with a row for "
                    "each class"
                )
        if not 0 <= self.mixture_weight <= 1:
            raise ValueError(
                f"mixture_weight={self.mixture_weight}: expected a number from 0 to 1"
            )

    def probabilities(self, cells: Cells, mixture: Mixture) -> Floats:
        """Computes the probability of each class for each record.

        Args:
            cells: Cells of records in all columns, (rows, columns). Those of the label
                count for nothing.
            mixture: The distribution of all columns.

        Returns:
            Probabilities, whose rows sum to 1, (rows, classes).
        """
        other_cells = np.delete(cells, self.column, axis=1)
        scores = np.tile(self.bias, (len(cells), 1))
        for effects, codes in zip(self.effects, other_cells.T, strict=True):
            scores += effects.T[codes]
        if self.mixture_weight:
            scores += self.mixture_weight * log_ratios(
                mixture.log_joint(cells, self.column)
            )
        return softmax(scores)

    def stratified_order(
        self, cells: Cells, random: torch.Generator
    ) -> npt.NDArray[np.intp]:
        """Puts records into an order in which neighbours have similar labels.

        Records are sorted by the column that says most of the label, then by the one
        that says next most, until a stratum of equal records has about 16 of them;
        within a stratum their order is random.

        Args:
            cells: Cells of records in all columns, (rows, columns).
            random: Public randomness.

        Returns:
            Row indices in the new order, (rows,).
        """
        other_cells = np.delete(cells, self.column, axis=1).T
        # A column says much of the label if its effects vary much over the records.
        effect_variances = np.array(
            [
                effects.T[codes].var(axis=0).sum()
                for effects, codes in zip(self.effects, other_cells, strict=True)
            ]
        )
        random_key = uniform(random, len(cells))
        sorting_columns: list[Cells] = []
        strata = np.zeros(len(cells), dtype=np.int64)
        for index in np.argsort(-effect_variances, kind="stable"):
            stratum_count = len(np.unique(strata))
            if stratum_count * _STRATUM_SIZE > len(cells):
                break
            codes = other_cells[index]
            refined_strata = strata * (int(codes.max(initial=0)) + 1) + codes
            # Numbered again, since the products would overflow otherwise.
            _, strata = np.unique(refined_strata, return_inverse=True)
            sorting_columns.append(codes)
        # `lexsort` sorts by its last key first.
        return np.lexsort([random_key, *reversed(sorting_columns)])


def softmax(scores: Floats) -> Floats:
    """Turns scores into probabilities in proportion to exp(scores).

    Args:
        scores: Finite numbers, (rows, classes).

    Returns:
        Probabilities, whose rows sum to 1, (rows, classes).
    """
    odds = np.exp(scores - scores.max(axis=1, keepdims=True), dtype=np.float64)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def log_ratios(log_joint: Floats) -> Floats:
    """Compares what a mixture says of the classes, in logarithms.

    Args:
        log_joint: log p(x, k), (rows, classes); -inf for probability zero.

    Returns:
        log p(x, k) less its highest value over k, from -50 to 0, (rows, classes); 0 for
        all classes of an x of probability zero.
    """
    highest = log_joint.max(axis=1, keepdims=True)
    is_possible = np.isfinite(highest)
    ratios = log_joint - np.where(is_possible, highest, 0.0)
    return np.where(is_possible, np.maximum(ratios, _MIN_LOG_RATIO), 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledMixture:
    """A mixture whose label is drawn from a model of its own.

    Raises:
        ValueError: if the label's model does not fit the columns of the mixture.
    """

    # Of all columns. What it says of the label counts only in the label's model.
    mixture: Mixture
    label: LabelModel

    kind: ClassVar[str] = "labelled-mixture"

    def __post_init__(self) -> None:
        sizes = list(self.mixture.sizes)
        if not 0 <= self.label.column < len(sizes):
            raise ValueError(
                f"column {self.label.column} is none of {len(sizes)} columns"
            )
        class_count = sizes.pop(self.label.column)
        expected_shapes = [(class_count, size) for size in sizes]
        if expected_shapes != [np.shape(effects) for effects in self.label.effects]:
            raise ValueError(
                f"effects on {class_count} classes do not fit columns of {sizes} cells"
            )

    @property
    def within(self) -> tuple[WithinCell, ...]:
        """Where in their cells the values of each numeric column lie."""
        return self.mixture.within

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Draws records that are spread out over the mixture and over the classes.

        Each record alone is a draw from the model. Classes come in nearly their
        expected numbers among records that are alike.

        Args:
            rows: How many records.
            random: Public randomness, on the CPU. If it is `independent`, so are the
                records.
        """
        records = self.mixture.draw(rows, random)
        cells = self.cells(records)
        labels = systematic_codes(
            self.label.probabilities(cells, self.mixture),
            self.label.stratified_order(cells, random),
            random,
        )
        is_changed = np.ones(rows, dtype=np.bool_)
        return self._with_labels(records, labels, is_changed, random)

    def _with_labels(
        self,
        records: EncodedTable,
        labels: npt.NDArray[np.integer[Any]],
        is_changed: npt.NDArray[np.bool_],
        random: torch.Generator,
    ) -> EncodedTable:
        """Returns records with other labels.

        Args:
            records: The records.
            labels: Class of each record, (rows,).
            is_changed: Which records get theirs, (rows,).
            random: Public randomness, for where in its cell a numeric label lies.
        """
        numeric = records.numeric.copy()
        codes = records.codes.copy()
        numeric_count = len(self.mixture.within)
        if self.label.column < numeric_count:
            within = self.mixture.within[self.label.column]
            numeric[is_changed, self.label.column] = within.draw(
                labels[is_changed], random
            )
        else:
            column = self.label.column - numeric_count
            codes[is_changed, column] = labels[is_changed]
        return EncodedTable(numeric, codes)

    def cells(self, records: EncodedTable) -> npt.NDArray[np.int32]:
        """Returns the cell of each record in each column, (rows, columns)."""
        return self.mixture.cells(records)

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Computes the joint distribution of some columns by their cells.

        It is exact without the label among them, else a mean over 32,768 records.

        Args:
            columns: One to four distinct columns, numeric ones first.

        Returns:
            Probabilities, one axis for each of `columns`, in their order.

        Raises:
            ValueError: if there are other columns.
        """
        joint_of_mixture = self.mixture.marginal(columns)
        if self.label.column not in columns:
            return joint_of_mixture

        label_axis = list(columns).index(self.label.column)
        other_columns = [column for column in columns if column != self.label.column]
        other_sizes = [self.mixture.sizes[column] for column in other_columns]
        cells, probabilities = self._integration_records(self.mixture)
        # The other cells of a record as one number.
        combinations = np.zeros(len(cells), dtype=np.int64)
        for column, size in zip(other_columns, other_sizes, strict=True):
            combinations = combinations * size + cells[:, column]
        class_counts = np.stack(
            [
                np.bincount(combinations, class_probabilities, math.prod(other_sizes))
                for class_probabilities in probabilities.T
            ]
        )
        joint = class_counts.reshape(len(class_counts), *other_sizes) / len(cells)
        return np.moveaxis(joint, 0, label_axis)

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in a region, from 0 to 1.

        It is exact for a region that does not name the label, else a mean over 32,768
        records.
        """
        region_of_others = self._without_label(region)
        classes_inside = self.mixture.shares_inside(region).get(self.label.column)
        probability_of_others = self.mixture.probability(region_of_others)
        if classes_inside is None or not probability_of_others:
            return probability_of_others
        conditional_mixture = self.mixture.given(region_of_others)
        _, probabilities = self._integration_records(conditional_mixture)
        return probability_of_others * float((probabilities @ classes_inside).mean())

    def given(self, region: Region) -> LabelledMixture:
        """Conditions the model on a region, but for what it says of the label.

        Returns:
            The model of the records that lie in the region with any label; the caller
            rejects those with another one.

        Raises:
            ValueError: if the region has probability zero, whatever the label.
        """
        conditional_mixture = self.mixture.given(self._without_label(region))
        return replace(self, mixture=conditional_mixture)

    def complete(
        self, partial: PartialRecords, random: torch.Generator
    ) -> EncodedTable:
        """Draws what is not known of each record, given what is.

        An unknown label is drawn given all other columns. Where the label is known,
        other values are drawn from the mixture several times, and one of these
        candidates is picked by how much likelier its label is here than in the mixture
        (sampling importance resampling: Rubin, 1988).

        Args:
            partial: The records.
            random: Public randomness, on the CPU.
        """
        is_label_known = partial.is_known[:, self.label.column]
        candidate_rows = np.repeat(np.arange(len(partial)), _CANDIDATES)
        candidates = self.mixture.complete(partial.rows(candidate_rows), random)
        cells = self.cells(candidates)
        probabilities = self.label.probabilities(cells, self.mixture)
        by_mixture = softmax(
            log_ratios(self.mixture.log_joint(cells, self.label.column))
        )
        labels = cells[:, self.label.column]
        each = np.arange(len(cells))
        weights = probabilities[each, labels] / by_mixture[each, labels]
        # Without a known label, the first candidate is as good as any.
        weights = np.where(is_label_known[candidate_rows], weights, 0.0)
        weights[::_CANDIDATES] += ~is_label_known
        picked = pick_cells(weights.reshape(len(partial), _CANDIDATES), random)
        chosen = np.arange(len(partial)) * _CANDIDATES + picked
        records = candidates.rows(chosen)

        class_chances = probabilities[chosen]
        if self.mixture.may_be_missing(self.label.column):
            class_chances[partial.is_value[:, self.label.column], -1] = 0.0
        drawn_labels = pick_cells(class_chances, random)
        labels = np.where(
            is_label_known, cells[chosen, self.label.column], drawn_labels
        )
        return self._with_labels(records, labels, ~is_label_known, random)

    def tensors(self) -> dict[str, Array]:
        """Returns the arrays of the mixture, the bias and the effects, by name."""
        tensors = {**self.mixture.tensors(), "label/bias": self.label.bias}
        for index, effects in enumerate(self.label.effects):
            tensors[f"label/effects/{index}"] = effects
        return tensors

    def to_json(self) -> dict[str, Any]:
        """Returns the mixture's description, the label's column and κ."""
        return {
            **self.mixture.to_json(),
            "label": {
                "column": self.label.column,
                "mixture_weight": self.label.mixture_weight,
            },
        }

    @classmethod
    def from_saved(
        cls,
        schema: Schema,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
    ) -> Self:
        """Rebuilds a model that was saved; see `RecordModel.from_saved`."""
        mixture = Mixture.from_saved(schema, tensors, description)
        effect_count = len(mixture.sizes) - 1
        label = LabelModel(
            column=description["label"]["column"],
            bias=tensors["label/bias"],
            effects=tuple(
                tensors[f"label/effects/{index}"] for index in range(effect_count)
            ),
            mixture_weight=description["label"]["mixture_weight"],
        )
        return cls(mixture=mixture, label=label)

    def _without_label(self, region: Region) -> Region:
        """Returns the region of records of any label that is otherwise the same."""
        numeric_count = len(self.mixture.within)
        region = replace(region, present=region.present - {self.label.column})
        is_label_numeric = self.label.column < numeric_count
        if is_label_numeric:
            other_spans = _without(region.spans, self.label.column)
            return replace(region, spans=other_spans)
        # Columns are numbered numeric ones first, and a region's codes from 0.
        other_codes = _without(region.codes, self.label.column - numeric_count)
        return replace(region, codes=other_codes)

    def _integration_records(
        self, mixture: Mixture
    ) -> tuple[npt.NDArray[np.int32], Floats]:
        """Draws the records over which means are taken, the same ones at each call.

        Returns:
            Their cells, (32,768, columns), and the probability of each class for them,
            (32,768, classes).
        """
        records = mixture.draw(_INTEGRATION_ROWS, public_random(0))
        cells = mixture.cells(records)
        return cells, self.label.probabilities(cells, mixture)


def _without(by_column: Mapping[int, Item], column: int) -> dict[int, Item]:
    """Copies a mapping from columns, without one of them if it is there."""
    return {index: item for index, item in by_column.items() if index != column}
