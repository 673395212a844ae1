"""Fits a label on top of a mixture: effects of the other columns, and how much the mixture itself has to say.

Effects have no interactions; the mixture has, but its posterior is poor where records
are few. So its log-odds count κ of what they say: the smallest κ for which released
pairs, told apart by class, look like what sampling and noise leave. That is judged by
tables with independent noise, on a trial fit that did not see them (`tables.split`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.labelled import LabelModel, log_ratios
from noisegate.models.mixture import Mixture
from noisegate.models.tables.label_effects import (
    FEW_CLASSES,
    Drawn,
    EffectsFit,
    gap_variance,
)
from noisegate.models.tables.packed_tables import PackedTables
from noisegate.seeds import public_random

if TYPE_CHECKING:
    from jaxtyping import Float64

    Array = npt.NDArray[Any]

_TINY = 1e-9


MIXTURE_WEIGHTS = (0.0, 0.1, 0.2, 0.4, 1.0)
"""The κ that are tried, ascending."""
UNCLEAR = 0.1
"""The least κ where nothing that is told of the label stands out of the judge's noise."""
MOST_LABELS = 64
"""A label with more values than this is drawn from the mixture: its effects would drown."""
# Records that effects are fitted to, half of them for more than a few classes, and judged by.
_ROWS, _JUDGED_ROWS = 16_384, 8_192
# Of a wide table the columns that say most of the label take part, up to so many cells in all.
_MOST_CELLS = 600
# What of the explicable excess may stay, what a cell adds by chance to its variance, and standard deviations of a
# pair's distance that are no excess.
_LEFT, _CHANCE, _DEVIATIONS = 0.02, 0.1, 2.0


class LabelFit:
    """The label model of one release.

    Args:
        column: Number of the label's column, numeric ones first.
        tables: The released tables by class.
        ordered: For each other column, how many of its cells stand in an order.
        seed: Of the records that are drawn.
    """

    def __init__(
        self, column: int, tables: PackedTables, ordered: Sequence[int], *, seed: int
    ) -> None:
        self._column, self._tables, self._ordered, self._seed = (
            column,
            tables,
            ordered,
            seed,
        )

    def weight(
        self, trial: PackedTables, judge: PackedTables, mixture: Mixture
    ) -> float:
        """Returns κ: by tables to which `mixture` was fitted as a trial, and by others whose noise is independent."""
        if not (judge.precision > 0).any():
            return UNCLEAR
        cells = self._draw(mixture, _JUDGED_ROWS)
        onehot, kept = self._onehot(trial, cells)
        judge = chosen(judge, kept)
        share = np.tile(trial.counts / trial.counts.sum(), (len(onehot), 1))
        constant, apart = pair_excess(judge, onehot, share)
        chance, excess, nearer = math.sqrt(_CHANCE * judge.larger), [], []
        odds = cache(lambda: log_ratios(mixture.log_joint(cells, self._column)))
        for weight in MIXTURE_WEIGHTS:
            drawn = Drawn(
                onehot=onehot,
                offset=weight * odds() if weight else np.zeros_like(share),
            )
            effects = EffectsFit(
                chosen(trial, kept), drawn, [self._ordered[place] for place in kept]
            ).run()
            found = pair_excess(judge, onehot, effects.probabilities(drawn))
            excess.append(found[0])
            nearer.append(found[1])
            # No later one can leave so little that this one is too much.
            if found[0] <= _LEFT * constant + chance:
                break
        most = min(excess) + _LEFT * max(constant - min(excess), 0.0) + chance
        place = next(place for place, one in enumerate(excess) if one <= most)
        # Effects of which the judge sees nothing may drown: what the mixture says steadies them.
        clear = apart - nearer[place] > _DEVIATIONS * math.sqrt(2 * judge.larger)
        return MIXTURE_WEIGHTS[place] if clear else max(MIXTURE_WEIGHTS[place], UNCLEAR)

    def model(self, mixture: Mixture, weight: float) -> LabelModel:
        """Returns the label model on top of `mixture`, which was fitted to all that was released, with κ = `weight`."""
        cells = self._draw(
            mixture, _ROWS if len(self._tables.counts) <= FEW_CLASSES else _ROWS // 2
        )
        onehot, kept = self._onehot(self._tables, cells)
        offset = np.zeros((len(cells), len(self._tables.counts)))
        if weight:
            offset = weight * log_ratios(mixture.log_joint(cells, self._column))
        drawn = Drawn(onehot=onehot, offset=offset)
        tables = chosen(self._tables, kept)
        effects = EffectsFit(
            tables, drawn, [self._ordered[place] for place in kept]
        ).run()
        by_column: list[Array] = [
            np.zeros((len(effects.bias), size)) for size in self._tables.sizes
        ]
        for place, span in zip(kept, tables.spans, strict=True):
            by_column[place] = effects.cells[:, span]
        return LabelModel(
            column=self._column,
            bias=effects.bias,
            effects=tuple(by_column),
            mixture_weight=weight,
        )

    def _draw(self, mixture: Mixture, rows: int) -> Array:
        """Returns the cells of records of a mixture, (rows, columns)."""
        return mixture.cells(mixture.draw(rows, public_random(self._seed)))

    def _onehot(self, tables: PackedTables, cells: Array) -> tuple[Array, list[int]]:
        """Returns the one-hot code of records' cells in the columns that take part, and these columns."""
        cells = np.delete(cells, self._column, axis=1)
        kept = list(range(len(tables.sizes)))
        if sum(tables.sizes) > _MOST_CELLS:
            strength = [self._alone(tables, cells, place) for place in kept]
            ranked = sorted(kept, key=lambda place: -strength[place])
            room = np.cumsum([tables.sizes[place] for place in ranked]) <= _MOST_CELLS
            room[0] = True  # the one that says most, whatever its size
            kept = sorted(
                place for place, fits in zip(ranked, room, strict=True) if fits
            )
        return np.concatenate(
            [_indicator(cells[:, place], tables.sizes[place]) for place in kept], axis=1
        ), kept

    def _alone(self, tables: PackedTables, cells: Array, place: int) -> float:
        """Returns how far what one column says of the label stands out of its noise."""
        offset = np.zeros((len(cells), len(tables.counts)))
        drawn = Drawn(
            onehot=_indicator(cells[:, place], tables.sizes[place]), offset=offset
        )
        return float(EffectsFit(chosen(tables, [place]), drawn, [0]).strength()[0])


def _indicator(codes: Array, size: int) -> Array:
    return np.asarray(codes[:, None] == np.arange(size), dtype=np.float32)


def chosen(tables: PackedTables, columns: Sequence[int]) -> PackedTables:
    """Returns the tables of some columns, ascending; those of three columns are left out."""
    if len(columns) == len(tables.sizes):
        return tables
    places = np.concatenate(
        [
            np.arange(tables.spans[column].start, tables.spans[column].stop)
            for column in columns
        ]
    )
    return replace(
        tables,
        sizes=tuple(tables.sizes[column] for column in columns),
        pairs=tables.pairs[:, places[:, None], places],
        precision=tables.precision[places[:, None], places],
        triples=(),
        singles=tables.singles[:, places],
        singles_std=tables.singles_std[places],
        prior=tables.prior[places],
    )


def pair_excess(
    judge: PackedTables, onehot: Array, probabilities: Float64[Array, "rows classes"]
) -> tuple[float, float]:
    """Returns how far probabilities of the classes are from released pairs, beyond what sampling and noise explain.

    The gap of a pair's cell is S_k − p̄ T, as that of a single cell in `label_effects`. The mean of its square is the
    variance of its noise, that of sampling, p̄ (1 − p̄) T, and what is wrong with p̄. The last is summed over the cells of
    each pair of columns, in units of both variances; what exceeds zero by two standard deviations counts. The second
    number is the sum of all.
    """
    released = judge.precision > 0
    variance = np.where(released, np.maximum(judge.precision, _TINY) ** -2.0, 1.0)
    drawn = onehot.T @ onehot
    live = released & (drawn > 0)
    expected = drawn * (judge.counts.sum() / len(onehot))
    total, classes, starts = (
        judge.pairs.sum(axis=0),
        len(judge.counts),
        [span.start for span in judge.spans],
    )
    excess = distance = 0.0
    for place in range(1 if classes == 2 else 0, classes):
        weighted = onehot * probabilities[:, place, None].astype(np.float32)
        means = (weighted.T @ onehot) / np.maximum(drawn, _TINY)
        noise, sampling = (
            gap_variance(means, classes) * variance,
            means * (1 - means) * expected,
        )
        gap = judge.pairs[place] - means * total
        unit = np.maximum(noise + sampling, 1.0)
        beyond = np.where(live, (gap**2 - noise - sampling) / unit, 0.0)
        blocks, cells = (
            np.add.reduceat(np.add.reduceat(of, starts, axis=0), starts, axis=1)
            for of in (beyond, live.astype(float))
        )
        excess += float(np.maximum(blocks - _DEVIATIONS * np.sqrt(2 * cells), 0).sum())
        distance += float(blocks.sum())
    return excess, distance
