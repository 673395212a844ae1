"""What changed in a stream: shares of single columns in its last period beside those of all periods before."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.answers.released import Table, best_table
from noisegate.privacy.accounting import noise_coefficients
from noisegate.privacy.events import ContinualGaussianEvent
from noisegate.privacy.release import Release
from noisegate.queries.binning import NumericBins
from noisegate_evaluate.reporting.page import Bar, Card, Chart, bars, percent
from noisegate_evaluate.reporting.released import cell_names, level_names

Floats = npt.NDArray[np.float64]
Read: TypeAlias = Callable[[Release], tuple[Sequence[NumericBins], list[Table]]]
"""From a release to the cells of numeric columns and its tables: `Method.released_tables`."""
_ALARM = 0.05  # one in twenty pages of a stream in which nothing changes shows a change
_MOST_SHOWN = 12
_TOLD = 4.0  # how many standard deviations of its noise the number of records of a period is, at least


@dataclass(frozen=True, kw_only=True)
class Change:
    """The share of a cell in the last period, before it, and the half of a 95 % interval of their difference."""

    column: str
    cell: str
    before: float
    now: float
    half: float
    shares: Floats  # of each period
    noise: Floats  # twice the standard deviation of the noise on each of `shares`
    clear: bool = False

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of its row on a page."""
        moved = f"{100 * (self.now - self.before):+.1f} ± {100 * self.half:.1f}"
        return self.column, self.cell, percent(self.before), percent(self.now), moved

    def card(self, place: int) -> Card:
        """Returns its share over the periods."""
        pairs = list(zip(self.shares.tolist(), self.noise.tolist(), strict=True))
        rows = [
            Bar(name=f"period {at}", value=share, error=error)
            for at, (share, error) in enumerate(pairs, 1)
        ]
        table = [
            (row.name, f"{percent(row.value)} ± {percent(row.error)}") for row in rows
        ]
        name, told = (
            f"{self.column}: {self.cell}",
            "Share of the records of each period, with the noise on it.",
        )
        drawing = bars(f"change-{place}", name, told, rows)
        return Card(
            name=name,
            told=told,
            chart=Chart(drawing=drawing, headings=("", "share"), rows=table),
        )


def changes(release: Release, read: Read) -> list[Change]:
    """Returns the cells of single columns whose shares changed most in the last period, measured by their errors."""
    # The errors are those of the noise, as it runs through the periods, and of chance, where records are drawn from a
    # population. Returns nothing before the second period, and where a period has too few records to tell.
    certificate, layout = release.certificate, release.schema.layout
    if certificate.stream is None or certificate.stream.period < 2:
        return []
    periods = [_tables(release, read, at) for at in range(certificate.stream.period)]
    names = (
        [cell_names(*both) for both in zip(layout.numeric, periods[0][0], strict=True)]
        if periods[0][0]
        else []
    )
    names = names or [[] for _ in layout.numeric]
    weights = next(
        event.weights
        for event in certificate.events
        if isinstance(event, ContinualGaussianEvent)
    )
    taken = np.array([0.0] * len(periods) + noise_coefficients(weights, len(periods)))
    rows = np.stack(
        [taken[at + 1 : at + 1 + len(periods)][::-1] for at in range(len(periods))]
    )
    found: list[tuple[float, Change]] = []
    for place, cells in enumerate([*names, *map(level_names, layout.coded)]):
        tables = [best_table(tables, (place,)) for _, tables in periods]
        if not cells or any(one is None for one in tables):
            continue
        counts, std = (
            np.stack([one[0] for one in tables if one]),
            max(one[1] for one in tables if one),
        )
        found += _of_column(
            [*layout.numeric, *layout.coded][place].name,
            cells,
            counts,
            std / _norm(rows[-1]),
            rows,
        )
    least = NormalDist().inv_cdf(1 - _ALARM / 2 / max(len(found), 1))
    found.sort(key=lambda one: -one[0])
    return [replace(one, clear=score > least) for score, one in found[:_MOST_SHOWN]]


def _of_column(
    column: str, cells: Sequence[str], counts: Floats, fresh: float, rows: Floats
) -> list[tuple[float, Change]]:
    """Returns every cell of a column and by how many standard errors its share changed."""
    # `counts` are noisy, (periods, cells); `rows` says how much of the fresh noise of each period is in them, (periods,
    # periods).
    totals, size = counts.sum(axis=1), counts.shape[1]
    if (totals < _TOLD * fresh * math.sqrt(size) * np.linalg.norm(rows, axis=1)).any():
        return []
    before, whole = (
        counts[:-1].sum(axis=0) / totals[:-1].sum(),
        np.clip(counts.sum(axis=0) / totals.sum(), 0, 1),
    )
    # Of a share of the cells' own total: noise on a cell, less its part in the noise on all.
    spread = fresh * np.sqrt(1 - 2 * whole + size * whole**2)
    noise = spread * _norm(
        rows[-1] / totals[-1] - rows[:-1].sum(axis=0) / totals[:-1].sum()
    )
    error = np.sqrt(
        noise**2 + whole * (1 - whole) * (1 / totals[-1] + 1 / totals[:-1].sum())
    )
    shares, each = (
        counts / totals[:, None],
        2 * np.outer(np.linalg.norm(rows, axis=1) / totals, spread),
    )
    return [
        (
            abs(shares[-1, at] - before[at]) / error[at],
            Change(
                column=column,
                cell=cell,
                before=float(before[at]),
                now=float(shares[-1, at]),
                half=1.96 * float(error[at]),
                shares=shares[:, at],
                noise=each[:, at],
            ),
        )
        for at, cell in enumerate(cells)
    ]


def _norm(row: Floats) -> float:
    return float(np.linalg.norm(row))


def _tables(
    release: Release, read: Read, period: int
) -> tuple[Sequence[NumericBins], list[Table]]:
    """Returns the tables of one period: those whose answers are told by the period."""
    values = {name: np.full_like(one, np.nan) for name, one in release.values.items()}
    stds = dict(release.noise_std)
    for name, sums in release.by_period.items():
        values[name] = sums[:, period].reshape(values[name].shape)
        stds[name] = release.by_period_std[name]
    bins, tables = read(replace(release, values=values, noise_std=stds))
    return bins, [table for table in tables if np.isfinite(table.counts).all()]
