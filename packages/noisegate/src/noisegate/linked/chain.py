"""Children of a parent, one after the other, each column by what is known of the parent and of the child before.

p(cell | x) ∝ exp(Σ_i θ_i(x_i)), with an effect of each cell of the given columns on each cell that the column can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.linked.links import STEPS, LinkColumns
from noisegate.models.labelled import softmax, systematic
from noisegate.models.mixture import Mixture
from noisegate.schema.layout import numbers_at, positions_of
from noisegate.seeds import uniform

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
        self, parents: Cells, random: torch.Generator, *, most: int | None = None, numbers: Numbers | None = None
    ) -> FamilyCells:
        """Returns children for parents; of these rows, (parents, columns), only the columns of the parent count.

        Of more than `most` children the first are made. How many there are is drawn too, unless `numbers` says it.
        """
        number, *made = self.drawn
        cells = parents.copy()
        if numbers is None:
            # As many parents have each number as are expected to, up to one.
            odds = softmax(number.scores(cells, number.given))
            cells[:, self.columns.number] = systematic(odds, np.arange(len(cells)), random)
            numbers = self.numbers(cells, random)
        else:
            within = self.mixture.within[self.columns.number]
            cells[:, self.columns.number] = within.bins.codes(positions_of(within.column, numbers))
        numbers = numbers if most is None else np.minimum(numbers, most)
        known = (*self.columns.parents, self.columns.number)
        fixed = [one.scores(cells, known) for one in made]
        found = np.empty((int(numbers.sum()), cells.shape[1]), dtype=np.int32)
        starts = np.cumsum(numbers) - numbers
        for step in range(int(numbers.max(initial=0))):
            live = np.flatnonzero(numbers > step)
            now = self._after(cells[live], step)
            for one, scores in zip(made, fixed, strict=True):
                if one.column == (self.columns.gap if step == 0 else self.columns.first):
                    continue
                others = [column for column in one.given if column not in known]
                now[:, one.column] = drawn_cells(scores[live] + one.scores(now, others), random)
            cells[live] = found[starts[live] + step] = now
        return FamilyCells(numbers=numbers, cells=found)

    def numbers(self, cells: Cells, random: torch.Generator) -> npt.NDArray[np.int64]:
        """Returns numbers of children in the cells of their column, (rows,)."""
        within = self.mixture.within[self.columns.number]
        return numbers_at(within.column, within.draw(cells[:, self.columns.number], random)).astype(np.int64)

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
    return np.asarray(np.minimum((odds <= level[:, None]).sum(axis=1), scores.shape[1] - 1))
