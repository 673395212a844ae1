"""Draws the children of a parent one after the other, by a log-linear model per column.

A link is modelled as a table of transitions (`noisegate.schema.linked.links`): a row
holds a parent, the number of its children, one child, and the child before. Given the
parent, a chain first draws the number of children, and then child after child, column
after column::

    parent ──► number ──► child 1 ──► child 2 ──► ... ──► child `number`
       ╰──────────┴───────────┴───────────┴── what each column depends on

Each column has the distribution::

    p(cell | x) ∝ exp(Σ_i θ_i(x_i))

with an effect θ_i of each cell of the columns x_i that it depends on. These are
log-linear models with given pairs (Berger, Della Pietra and Della Pietra, 1996); the
pairs are those of a mixture that was fitted to the release.

`fit_chain` fits one column after the other, to records that the columns before have
drawn. What is wrong with them adds up along a chain of children. So whole chains are
drawn then, and all effects are corrected until their pairs are right in these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.models.labelled import softmax
from noisegate.models.mixture import Mixture
from noisegate.models.stratified import systematic_codes
from noisegate.schema.layout import numbers_at, positions_of
from noisegate.schema.linked.links import STEPS, LinkColumns
from noisegate.seeds import public_random, uniform

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int32]
"""Rows of transitions in cells, (rows, columns)."""
Counts = npt.NDArray[np.int64]

_FIRST = STEPS.index("first")
_NEXT = STEPS.index("next")
_NONE = STEPS.index("none")

_FIT_ROWS = 8192  # records that the effects on each column are fitted to
_FIT_STEPS = 40  # of the optimiser, at most
# Effects that move a cell by its own expected count cost this much of it.
_RIDGE = 0.1
_CORRECTIONS = 16  # times that chains are drawn and effects corrected
_CORRECTION_PARENTS = 6000  # whose chains are drawn each time
_CORRECTION_CHILDREN = 60  # of each of these, at most
_TINY = 1e-9  # added to probabilities of which a logarithm is taken
_COMPONENT_BLOCK = 1024  # rows whose components are drawn at once, about


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnModel:
    """How one column of a link depends on others: log-linearly."""

    column: int  # the column that is drawn
    predictors: tuple[int, ...]  # the columns that it depends on
    # For each predictor, (its cells, cells that the column can have). A column that is
    # missing only where there is no child cannot have its last cell, the missing one.
    effects: tuple[Floats, ...]

    def scores(self, cells: Cells, columns: Sequence[int]) -> Floats:
        """Adds up the effects of some predictors.

        Args:
            cells: Rows of transitions, of which only the predictors count.
            columns: The predictors whose effects are added up; others are ignored.

        Returns:
            Σ_i θ_i(x_i), (rows, cells that the column can have).
        """
        total = np.zeros((len(cells), self.effects[0].shape[1]))
        for predictor, effects in zip(self.predictors, self.effects, strict=True):
            if predictor in columns:
                total += effects[cells[:, predictor]]
        return total


@dataclass(frozen=True, kw_only=True, eq=False)
class FamilyCells:
    """Parents with their children, in cells."""

    child_counts: Counts  # of each parent, (parents,)
    # The transitions into each child, (children, columns): children in their order, one
    # parent after the other.
    cells: Cells

    @cached_property
    def parents(self) -> Counts:
        """The index of the parent of each child, (children,)."""
        return np.repeat(np.arange(len(self.child_counts)), self.child_counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """Draws the children of given parents.

    Attributes:
        columns: What the columns of the link are.
        mixture: Mixture of the link's transitions. It states the cells of each column,
            and where in its cell a value lies.
        column_models: The model of the number of children, and then that of each column
            of a child, in the order in which they are drawn. Each depends on what is
            drawn by then.
    """

    columns: LinkColumns
    mixture: Mixture
    column_models: tuple[ColumnModel, ...]

    def draw_families(
        self,
        parents: Cells,
        random: torch.Generator,
        *,
        max_children: int | None = None,
        child_counts: Counts | None = None,
    ) -> FamilyCells:
        """Draws the children of parents.

        Args:
            parents: Cells of the parents, (parents, columns of the link); all columns
                but the parent's are ignored.
            random: Public randomness.
            max_children: Of more children than this only the first are drawn; None for
                all.
            child_counts: Number of children of each parent, (parents,); None to draw
                it.

        Returns:
            The children, each with its transition.
        """
        cells = parents.copy()
        if child_counts is None:
            cells[:, self.columns.number] = self._draw_number_cells(cells, random)
            drawn_counts = self.draw_child_counts(cells, random)
        else:
            cells[:, self.columns.number] = self._number_cells(child_counts)
            drawn_counts = child_counts
        if max_children is not None:
            drawn_counts = np.minimum(drawn_counts, max_children)
        children = self._draw_children(cells, drawn_counts, random)
        return FamilyCells(child_counts=drawn_counts, cells=children)

    def _draw_number_cells(
        self, cells: Cells, random: torch.Generator
    ) -> npt.NDArray[np.int32]:
        """Draws the cell of the number of children for each parent, (parents,).

        As many parents have each cell as are expected to, up to one.
        """
        number_model = self.column_models[0]
        probabilities = softmax(number_model.scores(cells, number_model.predictors))
        return systematic_codes(probabilities, np.arange(len(cells)), random)

    def _number_cells(self, child_counts: Counts) -> npt.NDArray[np.int32]:
        """Returns the cells in which numbers of children lie, (parents,)."""
        within = self.mixture.within[self.columns.number]
        return within.bins.codes(positions_of(within.column, child_counts))

    def draw_child_counts(self, cells: Cells, random: torch.Generator) -> Counts:
        """Draws numbers of children in the cells of their column, (rows,)."""
        within = self.mixture.within[self.columns.number]
        positions = within.draw(cells[:, self.columns.number], random)
        return numbers_at(within.column, positions).astype(np.int64)

    def _draw_children(
        self, cells: Cells, child_counts: Counts, random: torch.Generator
    ) -> Cells:
        """Draws the first child of each parent, then the second one, and so on.

        Args:
            cells: Cells of the parents and of their numbers of children, (parents,
                columns). The columns of the child are overwritten by the last child.
            child_counts: How many children to draw for each parent, (parents,).
            random: Public randomness.

        Returns:
            The transitions into all children, (children, columns), children of a parent
            one after the other.
        """
        child_models = self.column_models[1:]
        family_columns = (*self.columns.parents, self.columns.number)
        # The same for all children of a parent.
        family_scores = [model.scores(cells, family_columns) for model in child_models]

        children = np.empty((int(child_counts.sum()), cells.shape[1]), dtype=np.int32)
        starts = np.cumsum(child_counts) - child_counts
        for step in range(int(child_counts.max(initial=0))):
            # A first child has no gap to the one before, and no other one a distance
            # from the origin.
            absent_column = self.columns.gap if step == 0 else self.columns.first
            live_parents = np.flatnonzero(child_counts > step)
            rows = self._rows_of_next_child(cells[live_parents], step)
            for model, scores in zip(child_models, family_scores, strict=True):
                if model.column == absent_column:
                    continue
                child_columns = [
                    column
                    for column in model.predictors
                    if column not in family_columns
                ]
                rows[:, model.column] = draw_cells(
                    scores[live_parents] + model.scores(rows, child_columns), random
                )
            cells[live_parents] = rows
            children[starts[live_parents] + step] = rows
        return children

    def _rows_of_next_child(self, previous_rows: Cells, step: int) -> Cells:
        """Returns the transitions into the next children, as far as they are known.

        Args:
            previous_rows: Transitions into the children before, (rows, columns); for
                the first child only the columns of the family count.
            step: Number of the next child, from 0 on.

        Returns:
            The rows, (rows, columns), without the columns of the next child.
        """
        rows = previous_rows.copy()
        sizes = self.mixture.sizes
        rows[:, self.columns.step] = _NEXT if step else _FIRST
        # The last cell of a column stands for missing.
        for child_column, before_column in self.columns.before.items():
            if step:
                rows[:, before_column] = previous_rows[:, child_column]
            else:
                rows[:, before_column] = sizes[before_column] - 1
        for column in self.columns.times:
            rows[:, column] = sizes[column] - 1
        return rows


def draw_cells(scores: Floats, random: torch.Generator) -> npt.NDArray[np.intp]:
    """Draws a cell for each row in proportion to exp(scores).

    Args:
        scores: Finite numbers, (rows, cells).
        random: Public randomness.

    Returns:
        Index of the cell, (rows,).
    """
    highest = scores.max(axis=1, keepdims=True)
    cumulative = np.exp(scores - highest).cumsum(axis=1)
    levels = uniform(random, len(scores)) * cumulative[:, -1]
    cells = (cumulative <= levels[:, None]).sum(axis=1)
    # A level that is rounded up to the sum would lie behind the last cell.
    return np.asarray(np.minimum(cells, scores.shape[1] - 1))


def fit_chain(
    columns: LinkColumns, mixture: Mixture, parents: Cells, seed: int
) -> Chain:
    """Fits the chain of a link to the pairs of a mixture.

    Args:
        columns: What the columns of the link are.
        mixture: Mixture of the link's transitions.
        parents: Cells of parents that represent those to come, (any number, columns).
        seed: Seed for non-private randomness.

    Returns:
        The chain, whose pairs are nearly those of the mixture.
    """
    random = public_random(seed)
    targets = {
        column: _target_joints(columns, mixture, column)
        for column in (columns.number, *columns.made)
    }
    fit_parents = _resample(parents, _FIT_ROWS, random)
    number_model = _fit_column(
        columns.number,
        fit_parents,
        columns.given(columns.number),
        targets[columns.number],
    )
    number_chain = Chain(
        columns=columns, mixture=mixture, column_models=(number_model,)
    )
    rows = _rows_before_child(number_chain, fit_parents, random)

    models = [number_model]
    for column in columns.made:
        has_column = np.ones(len(rows), dtype=np.bool_)
        if column in columns.times:
            # Each child has one of the two distances.
            step = _FIRST if column == columns.first else _NEXT
            has_column = rows[:, columns.step] == step
        model = _fit_column(
            column, rows[has_column], columns.given(column), targets[column]
        )
        if has_column.any():
            scores = model.scores(rows[has_column], model.predictors)
            rows[has_column, column] = draw_cells(scores, random)
        models.append(model)
    chain = replace(number_chain, column_models=tuple(models))
    return _correct_along_chains(chain, parents, targets, random)


def _resample(rows: Cells, count: int, random: torch.Generator) -> Cells:
    """Draws rows independently and with replacement, (count, columns)."""
    return rows[(uniform(random, count) * len(rows)).astype(np.int64)]


def _target_joints(
    columns: LinkColumns, mixture: Mixture, column: int
) -> tuple[Floats, ...]:
    """Returns the joint distributions of a column and each of its predictors.

    Rows of parents without children are left out, except for the number of children.

    Returns:
        For each predictor, (its cells, cells that the column can have). They need not
        sum to 1.
    """
    joints = []
    for predictor in columns.given(column):
        joint = mixture.marginal((predictor, column))
        if column in columns.nullable:
            # A missing value of a child, and not a missing child.
            no_child = mixture.marginal((predictor, columns.step))[:, _NONE]
            joint[:, -1] = np.maximum(joint[:, -1] - no_child, 0.0)
        elif column != columns.number:
            joint = joint[:, :-1]
        joints.append(joint)
    return tuple(joints)


def _rows_before_child(chain: Chain, parents: Cells, random: torch.Generator) -> Cells:
    """Draws what a child depends on: its parent, and the child before.

    Args:
        chain: A chain that draws numbers of children.
        parents: Cells of the parents, (parents, columns).
        random: Public randomness.

    Returns:
        One row for each parent that has children, as if one of them, drawn evenly, were
        to follow, (rows, columns). The columns of that child itself are not set.
    """
    columns = chain.columns
    mixture = chain.mixture
    number_model = chain.column_models[0]
    parent_rows = parents.copy()
    parent_rows[:, columns.number] = draw_cells(
        number_model.scores(parent_rows, number_model.predictors), random
    )
    all_counts = chain.draw_child_counts(parent_rows, random)
    has_children = all_counts > 0
    rows = parent_rows[has_children]
    child_counts = all_counts[has_children]

    previous_children = _draw_children_of_mixture(columns, mixture, rows, random)
    # One of the children is the first with probability 1 / child_counts.
    is_first = uniform(random, len(rows)) * child_counts < 1
    rows[:, columns.step] = np.where(is_first, _FIRST, _NEXT)
    for child_column, before_column in columns.before.items():
        missing_cell = mixture.sizes[before_column] - 1
        rows[:, before_column] = np.where(
            is_first, missing_cell, previous_children[:, child_column]
        )
    for column in columns.times:
        rows[:, column] = mixture.sizes[column] - 1
    return rows


def _draw_children_of_mixture(
    columns: LinkColumns, mixture: Mixture, rows: Cells, random: torch.Generator
) -> Cells:
    """Draws a child for each row from the mixture, given parent and number of children.

    Args:
        columns: What the columns of the link are.
        mixture: Mixture of the link's transitions.
        rows: Cells of parents that have children, (rows, columns).
        random: Public randomness.

    Returns:
        The rows with the columns of the child set, (rows, columns).
    """
    log_tables = [np.log(table + _TINY) for table in mixture.probabilities]
    no_child = mixture.probabilities[columns.step][:, _NONE]
    has_child = 1 - no_child.astype(np.float64)
    component_scores = np.log(mixture.weights + _TINY) + np.log(
        np.maximum(has_child, 0) + _TINY
    )
    components = np.empty(len(rows), dtype=np.int64)
    block_count = max(len(rows) // _COMPONENT_BLOCK, 1)
    for block in np.array_split(np.arange(len(rows)), block_count):
        family_scores = (
            log_tables[column].T[rows[block, column]]
            for column in (*columns.parents, columns.number)
        )
        scores = sum(family_scores, start=component_scores[None])
        components[block] = draw_cells(scores, random)

    children = rows.copy()
    for column in columns.children:
        log_table = log_tables[column]
        if column not in columns.nullable:
            # The missing cell stands for a missing child only.
            log_table = log_table[:, :-1]
        children[:, column] = draw_cells(log_table[components], random)
    return children


def _fit_column(
    column: int, rows: Cells, predictors: Sequence[int], joints: Sequence[Floats]
) -> ColumnModel:
    """Fits the effects on a column to its pairs with each predictor.

    Args:
        column: The column.
        rows: Records over which pairs are expected, (rows, columns); the column itself
            is ignored. Without any, predictors count as if they were independent.
        predictors: What the column depends on.
        joints: Joint distribution with each predictor, as `_target_joints` returns it.
    """
    predictor_sizes = [len(joint) for joint in joints]
    positive_joints = [joint + _TINY for joint in joints]
    conditionals = np.concatenate(
        [joint / joint.sum(axis=1, keepdims=True) for joint in positive_joints]
    )
    if len(rows):
        effects = _fit_effects(rows[:, list(predictors)], predictor_sizes, conditionals)
    else:
        effects = np.log(conditionals) / len(predictors)
    return ColumnModel(
        column=column,
        predictors=tuple(predictors),
        effects=tuple(np.split(effects, np.cumsum(predictor_sizes)[:-1])),
    )


def _fit_effects(
    predictor_cells: Cells, predictor_sizes: Sequence[int], conditionals: Floats
) -> Floats:
    """Maximises the likelihood of log-linear effects, with a ridge, by L-BFGS.

    With x the indicators of the predictors' cells and w the pairs that are wanted, the
    loss is the mean of log Σ_cells exp(x θ) over the rows, less Σ w θ. At its minimum
    the expected pairs over the rows are w. It is minimised in units of the scale that w
    has, in which all directions curve about alike.

    Args:
        predictor_cells: Cells of each predictor in each row, (rows, predictors).
        predictor_sizes: Number of cells of each predictor.
        conditionals: p(cell of the column | cell of one predictor), with a row for each
            cell of each predictor, (predictor cells, cells).

    Returns:
        The effects θ, (predictor cells, cells).
    """
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix

    row_count, predictor_count = predictor_cells.shape
    offsets = np.cumsum([0, *predictor_sizes])
    indices = (predictor_cells + offsets[:-1]).ravel()
    indicators = csr_matrix(
        (
            np.ones(len(indices), np.float32),
            indices,
            np.arange(row_count + 1) * predictor_count,
        ),
        shape=(row_count, int(offsets[-1])),
    )
    averaging = indicators.T.tocsr() / row_count
    wanted_pairs = conditionals * np.asarray(averaging.sum(axis=1))
    scale = 1 / np.sqrt(np.maximum(wanted_pairs, 1e-6))

    def loss_and_gradient(parameters: Floats) -> tuple[float, Floats]:
        scaled_effects = parameters.reshape(conditionals.shape)
        effects = scaled_effects * scale
        scores = indicators @ effects.astype(np.float32)
        highest = scores.max(axis=1, keepdims=True)
        odds = np.exp(scores - highest)
        total = odds.sum(axis=1, keepdims=True)
        loss = float((np.log(total) + highest).mean()) - float(
            (wanted_pairs * effects).sum()
        )
        expected_pairs = averaging @ (odds / total)
        gradient = (expected_pairs - wanted_pairs) * scale + _RIDGE * scaled_effects
        ridge = _RIDGE / 2 * float(parameters @ parameters)
        return loss + ridge, gradient.ravel()

    start = np.log(conditionals) / predictor_count / scale
    optimum = minimize(
        loss_and_gradient,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _FIT_STEPS},
    )
    return np.asarray(optimum.x.reshape(conditionals.shape) * scale)


def _correct_along_chains(
    chain: Chain,
    parents: Cells,
    targets: Mapping[int, tuple[Floats, ...]],
    random: torch.Generator,
) -> Chain:
    """Corrects effects until their pairs are right along whole chains of children.

    Args:
        chain: A chain whose effects are right for single children.
        parents: Cells of parents, (any number, columns).
        targets: For each column that is drawn its pairs, as `_target_joints` returns
            them.
        random: Public randomness.
    """
    corrected = chain
    for _ in range(_CORRECTIONS):
        families = corrected.draw_families(
            _resample(parents, _CORRECTION_PARENTS, random),
            random,
            max_children=_CORRECTION_CHILDREN,
        )
        # Each family counts once, however many children it has.
        weights = 1 / families.child_counts[families.parents] / _CORRECTION_PARENTS
        number_model, *child_models = corrected.column_models
        corrected_models = [
            _correct_effects(model, targets[model.column], families.cells, weights)
            for model in child_models
        ]
        corrected = replace(corrected, column_models=(number_model, *corrected_models))
    return corrected


def _correct_effects(
    model: ColumnModel, targets: Sequence[Floats], cells: Cells, weights: Floats
) -> ColumnModel:
    """Moves the effects on a column towards the pairs that are wanted.

    Each effect moves by log(target / actual), divided by the number of predictors as
    all of them move at once. Half a record is added to each table, so that no cell is
    empty.

    Args:
        model: The model that drew the column.
        targets: Its pairs, as `_target_joints` returns them.
        cells: Children that were drawn, (children, columns).
        weights: Weight of each, (children,).
    """
    is_present = cells[:, model.column] < model.effects[0].shape[1]
    rows = cells[is_present]
    row_weights = weights[is_present]
    corrected_effects = []
    for predictor, effects, target in zip(
        model.predictors, model.effects, targets, strict=True
    ):
        pair_cells = (
            rows[:, predictor].astype(np.int64) * target.shape[1]
            + rows[:, model.column]
        )
        actual = np.bincount(pair_cells, row_weights, target.size).reshape(target.shape)
        added = 0.5 / target.size
        correction = np.log((target + added) / (actual + added))
        corrected_effects.append(effects + correction / len(model.predictors))
    return replace(model, effects=tuple(corrected_effects))
