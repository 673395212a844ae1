"""Children of a parent one by one, each column p(cell | x) ∝ exp(Σ_i θ_i(x_i)): Berger and the Della Pietras (1996).

p(cell | x) ∝ exp(Σ_i θ_i(x_i)), with an effect of each cell of the given columns on
each cell that the column can have: those of log-linear models with the pairs of a
mixture, fitted one column after the other to records that the columns before have made
(Berger, Della Pietra and Della Pietra, 1996). What is wrong with them adds up along a
chain of children: so chains are made, and all effects moved until their pairs are right
in these.
"""

from __future__ import annotations

from collections.abc import Sequence
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
Numbers = npt.NDArray[np.int64]

_FIRST, _NEXT = STEPS.index("first"), STEPS.index("next")


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnEffects:
    """How one column depends on others."""

    column: int  # the column that is drawn
    given: tuple[int, ...]  # the columns that it depends on
    effects: tuple[Floats, ...]
    """For each of these, (its cells, cells that the column can have): all, or all but the missing one."""

    def scores(self, cells: Cells, columns: Sequence[int]) -> Floats:
        """Returns the sum of the effects of some of the given columns, (rows, cells), for rows of cells."""
        total = np.zeros((len(cells), self.effects[0].shape[1]))
        for column, effects in zip(self.given, self.effects, strict=True):
            if column in columns:
                total += effects[cells[:, column]]
        return total


@dataclass(frozen=True, kw_only=True, eq=False)
class FamilyCells:
    """Parents with their children, in cells."""

    numbers: npt.NDArray[np.int64]  # number of children of each parent, (parents,)
    cells: Cells  # the transitions into each child, children of a parent one after the other, (children, columns)

    @cached_property
    def parents(self) -> npt.NDArray[np.int64]:
        """The parent of each child, (children,)."""
        return np.repeat(np.arange(len(self.numbers)), self.numbers)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """The children of given parents."""

    columns: LinkColumns  # what the columns of the link are
    mixture: Mixture  # of the link's transitions; says the cells of each column, and where in them values lie
    drawn: tuple[ColumnEffects, ...]
    """How the number of children, and then each column of a child, depends on what is known by then."""

    def families(
        self,
        parents: Cells,
        random: torch.Generator,
        *,
        most: int | None = None,
        numbers: Numbers | None = None,
    ) -> FamilyCells:
        """Returns children for parents; of these rows, (parents, columns), only the columns of the parent count."""
        # Of more than `most` children the first are made. How many there are is drawn too, unless `numbers` says it.
        number, *made = self.drawn
        cells = parents.copy()
        if numbers is None:
            # As many parents have each number as are expected to, up to one.
            odds = softmax(number.scores(cells, number.given))
            cells[:, self.columns.number] = systematic_codes(
                odds, np.arange(len(cells)), random
            )
            numbers = self.numbers(cells, random)
        else:
            within = self.mixture.within[self.columns.number]
            cells[:, self.columns.number] = within.bins.codes(
                positions_of(within.column, numbers)
            )
        numbers = numbers if most is None else np.minimum(numbers, most)
        known = (*self.columns.parents, self.columns.number)
        fixed = [one.scores(cells, known) for one in made]
        found = np.empty((int(numbers.sum()), cells.shape[1]), dtype=np.int32)
        starts = np.cumsum(numbers) - numbers
        for step in range(int(numbers.max(initial=0))):
            live = np.flatnonzero(numbers > step)
            now = self._after(cells[live], step)
            for one, scores in zip(made, fixed, strict=True):
                if one.column == (
                    self.columns.gap if step == 0 else self.columns.first
                ):
                    continue
                others = [column for column in one.given if column not in known]
                now[:, one.column] = drawn_cells(
                    scores[live] + one.scores(now, others), random
                )
            cells[live] = found[starts[live] + step] = now
        return FamilyCells(numbers=numbers, cells=found)

    def numbers(self, cells: Cells, random: torch.Generator) -> npt.NDArray[np.int64]:
        """Returns numbers of children in the cells of their column, (rows,)."""
        within = self.mixture.within[self.columns.number]
        return numbers_at(
            within.column, within.draw(cells[:, self.columns.number], random)
        ).astype(np.int64)

    def _after(self, cells: Cells, step: int) -> Cells:
        """Returns the rows of the next children, as far as they are known: those before are in `cells`."""
        now, sizes = cells.copy(), self.mixture.sizes
        now[:, self.columns.step] = _NEXT if step else _FIRST
        for child, before in self.columns.before.items():
            now[:, before] = cells[:, child] if step else sizes[before] - 1
        for column in self.columns.times:
            now[:, column] = sizes[column] - 1
        return now


def drawn_cells(scores: Floats, random: torch.Generator) -> npt.NDArray[np.intp]:
    """Returns a cell for each row in proportion to exp(scores), (rows,)."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True)).cumsum(axis=1)
    level = uniform(random, len(scores)) * odds[:, -1]
    return np.asarray(
        np.minimum((odds <= level[:, None]).sum(axis=1), scores.shape[1] - 1)
    )


_NONE = STEPS.index("none")
# Records that effects are fitted to, and chains that they are corrected by.
_ROWS, _CHAINS, _LONGEST = 8192, 6000, 60
_RIDGE = 0.1  # effects that move a cell by its own expected count cost this much of it
_STEPS, _CORRECTIONS = 40, 16
_TINY = 1e-9


def fit_chain(
    columns: LinkColumns, mixture: Mixture, parents: Cells, seed: int
) -> Chain:
    """Returns the chain of a link; `parents` are cells, (any number, columns), each as often as it counts."""
    random = public_random(seed)
    targets = {
        column: _targets(columns, mixture, column)
        for column in (columns.number, *columns.made)
    }
    pool = parents[(uniform(random, _ROWS) * len(parents)).astype(np.int64)]
    number = _fitted(
        columns.number, pool, columns.given(columns.number), targets[columns.number]
    )
    chain = Chain(columns=columns, mixture=mixture, drawn=(number,))
    pool = _before(chain, pool, random)
    drawn = [number]
    for column in columns.made:
        has = np.ones(len(pool), dtype=np.bool_)
        if column in columns.times:
            step = "first" if column == columns.first else "next"
            has = pool[:, columns.step] == STEPS.index(step)
        one = _fitted(column, pool[has], columns.given(column), targets[column])
        if has.any():
            pool[has, column] = drawn_cells(one.scores(pool[has], one.given), random)
        drawn.append(one)
    return _corrected(replace(chain, drawn=tuple(drawn)), parents, targets, random)


def _targets(columns: LinkColumns, mixture: Mixture, column: int) -> tuple[Floats, ...]:
    found = []
    for other in columns.given(column):
        joint = mixture.marginal((other, column))
        if column in columns.nullable:
            absent = mixture.marginal((other, columns.step))[:, _NONE]
            joint[:, -1] = np.maximum(joint[:, -1] - absent, 0.0)
        elif column != columns.number:
            joint = joint[:, :-1]
        found.append(joint)
    return tuple(found)


def _before(chain: Chain, parents: Cells, random: torch.Generator) -> Cells:
    """Returns rows of one child, drawn evenly, of each parent that has any, with the child before and no more."""
    columns, mixture, cells = chain.columns, chain.mixture, parents.copy()
    number = chain.drawn[0]
    cells[:, columns.number] = drawn_cells(number.scores(cells, number.given), random)
    numbers = chain.numbers(cells, random)
    cells, numbers = cells[numbers > 0], numbers[numbers > 0]
    drawn = _child(columns, mixture, cells, random)
    first = uniform(random, len(cells)) * numbers < 1
    cells[:, columns.step] = np.where(first, STEPS.index("first"), STEPS.index("next"))
    for child, before in columns.before.items():
        cells[:, before] = np.where(first, mixture.sizes[before] - 1, drawn[:, child])
    for column in columns.times:
        cells[:, column] = mixture.sizes[column] - 1
    return cells


def _child(
    columns: LinkColumns, mixture: Mixture, cells: Cells, random: torch.Generator
) -> Cells:
    """Returns rows with a child that the mixture draws, given the cells of the parent and of the number."""
    tables = [np.log(table + _TINY) for table in mixture.probabilities]
    there = 1 - mixture.probabilities[columns.step][:, _NONE].astype(np.float64)
    scores = np.log(mixture.weights + _TINY) + np.log(np.maximum(there, 0) + _TINY)
    component = np.empty(len(cells), dtype=np.int64)
    for rows in np.array_split(np.arange(len(cells)), max(len(cells) // 1024, 1)):
        known = (
            tables[column].T[cells[rows, column]]
            for column in (*columns.parents, columns.number)
        )
        component[rows] = drawn_cells(sum(known, start=scores[None]), random)
    drawn = cells.copy()
    for column in columns.children:
        table = tables[column] if column in columns.nullable else tables[column][:, :-1]
        drawn[:, column] = drawn_cells(table[component], random)
    return drawn


def _fitted(
    column: int, rows: Cells, given: Sequence[int], joints: Sequence[Floats]
) -> ColumnEffects:
    """Returns the effects on a column whose expected pairs over some rows are as the joint shares say."""
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix

    sizes = [len(joint) for joint in joints]
    filled = [joint + _TINY for joint in joints]  # no share is zero
    shares = np.concatenate(
        [joint / joint.sum(axis=1, keepdims=True) for joint in filled]
    )
    if not len(rows):
        effects = np.log(shares) / len(given)
        return ColumnEffects(
            column=column, given=tuple(given), effects=_split(effects, sizes)
        )
    offsets = np.cumsum([0, *sizes])
    places = (rows[:, list(given)] + offsets[:-1]).ravel()
    shape = len(rows), int(offsets[-1])
    onehot = csr_matrix(
        (
            np.ones(len(places), np.float32),
            places,
            np.arange(len(rows) + 1) * len(given),
        ),
        shape=shape,
    )
    across = onehot.T.tocsr() / len(rows)
    wanted = shares * np.asarray(across.sum(axis=1))
    scale = 1 / np.sqrt(np.maximum(wanted, 1e-6))

    def distance(moved: Floats) -> tuple[float, Floats]:
        effects = moved.reshape(shares.shape) * scale
        scores = onehot @ effects.astype(np.float32)
        highest = scores.max(axis=1, keepdims=True)
        odds = np.exp(scores - highest)
        total = odds.sum(axis=1, keepdims=True)
        value = float((np.log(total) + highest).mean()) - float(
            (wanted * effects).sum()
        )
        gradient = (across @ (odds / total) - wanted) * scale + _RIDGE * moved.reshape(
            shares.shape
        )
        return value + _RIDGE / 2 * float(moved @ moved), gradient.ravel()

    start = (np.log(shares) / len(given) / scale).ravel()
    found = minimize(
        distance, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    effects = found.x.reshape(shares.shape) * scale
    return ColumnEffects(
        column=column, given=tuple(given), effects=_split(effects, sizes)
    )


def _split(effects: Floats, sizes: Sequence[int]) -> tuple[Floats, ...]:
    return tuple(np.split(effects, np.cumsum(sizes)[:-1]))


def _corrected(
    chain: Chain,
    parents: Cells,
    targets: dict[int, tuple[Floats, ...]],
    random: torch.Generator,
) -> Chain:
    """Returns the chain with effects that keep all their pairs with the children's columns right along whole chains."""
    for _ in range(_CORRECTIONS):
        picked = parents[(uniform(random, _CHAINS) * len(parents)).astype(np.int64)]
        made = chain.families(picked, random, most=_LONGEST)
        weights = 1 / made.numbers[made.parents] / _CHAINS
        drawn = [chain.drawn[0]]
        for one in chain.drawn[1:]:
            effects = list(one.effects)
            has = made.cells[:, one.column] < effects[0].shape[1]
            rows, share = made.cells[has], weights[has]
            for place, (column, target) in enumerate(
                zip(one.given, targets[one.column], strict=True)
            ):
                cells = (
                    rows[:, column].astype(np.int64) * target.shape[1]
                    + rows[:, one.column]
                )
                found = np.bincount(cells, share, target.size).reshape(target.shape)
                least = 0.5 / target.size
                effects[place] = effects[place] + np.log(
                    (target + least) / (found + least)
                ) / len(one.given)
            drawn.append(replace(one, effects=tuple(effects)))
        chain = replace(chain, drawn=tuple(drawn))
    return chain
