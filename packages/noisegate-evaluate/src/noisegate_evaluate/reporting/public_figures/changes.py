"""What changed in a stream: shares of its last period beside those of all before.

The noise of a stream runs through its periods: that of period t is a combination of
fresh noise, rows[t] @ fresh, so differences between periods are computed with it and
not as if it were independent (G-27).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.measurements import Measurements
from noisegate.privacy.accounting import noise_coefficients
from noisegate.privacy.events import Continual
from noisegate.privacy.release import Release
from noisegate_evaluate.reporting.charts import Bar, Card, Chart, bars, percent
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.public import PublicPage, ReadRelease
from noisegate_evaluate.reporting.released import cell_names

# One in twenty pages of a stream in which nothing changes shows a change.
_ALARM_RATE = 0.05
_MAX_SHOWN = 12
# Cells whose shares are drawn over the periods.
_MAX_DRAWN = 4
# The number of records of each period must be at least so many standard deviations of
# its noise.
_MIN_SIGNAL = 4.0
# Half-widths of 95 % intervals, in standard errors.
_Z = 1.96


@dataclass(frozen=True, kw_only=True)
class Change:
    """The share of one cell in the last period, and before.

    Attributes:
        column: Name of the column.
        cell: Name of the cell.
        before: The share in all periods before the last, together.
        now: The share in the last.
        half_width: Half of a 95 % interval of their difference.
        shares: The share in each period, (periods,).
        noise: Twice the standard deviation of the noise on each, (periods,).
        is_clear: Whether it changed by more than noise and chance.
    """

    column: str
    cell: str
    before: float
    now: float
    half_width: float
    shares: Floats
    noise: Floats
    is_clear: bool = False

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of its row on a page."""
        difference = 100 * (self.now - self.before)
        moved = f"{difference:+.1f} ± {100 * self.half_width:.1f}"
        return self.column, self.cell, percent(self.before), percent(self.now), moved

    def card(self, index: int) -> Card:
        """Returns its share over the periods, as a card of a page.

        Args:
            index: Number of the card on the page.
        """
        name = f"{self.column}: {self.cell}"
        description = "Share of the records of each period, with the noise on it."
        rows = [
            Bar(name=f"period {period}", value=share, error=error)
            for period, (share, error) in enumerate(
                zip(self.shares.tolist(), self.noise.tolist(), strict=True), 1
            )
        ]
        table = [
            (row.name, f"{percent(row.value)} ± {percent(row.error)}") for row in rows
        ]
        drawing = bars(f"change-{index}", name, description, rows)
        chart = Chart(drawing=drawing, headings=("", "share"), rows=table)
        return Card(name=name, description=description, chart=chart)


def _changes(page: PublicPage) -> Data:
    """Returns the rows of clear changes, and cards of the largest ones."""
    largest: list[Change] = []
    if page.read_release is not None:
        largest = changes(page.release, page.read_release)
    return {
        "rows": [change.row for change in largest if change.is_clear],
        "drawn": [
            change.card(index) for index, change in enumerate(largest[:_MAX_DRAWN])
        ],
    }


CHANGES = Figure(
    place=40,
    needs=("is_of_stream",),
    data=_changes,
    template="""
<section>
<h2>What changed</h2>
<p>{{ certificate.stream.sentence }} {{ certificate.stream.condition or "" }}</p>
{% if rows %}
<p>In the last period the following shares differ from those of all periods before by
more than noise and chance explain (one page in 20 shows such a row where nothing
changes). Differences are in percentage points, with their 95 % intervals.</p>
{{ table(["column", "value", "before", "last period", "difference"], rows, "Changes") }}
{% elif drawn %}
<p>In the last period no share of a single column differs from that of all periods before
by more than noise and chance explain.</p>
{% else %}
<p>Changes from period to period are not known yet: this is the first period, or a
period has too few records for the noise.</p>
{% endif %}
{% if drawn %}
<p>The shares that differ most, period by period, with twice the standard deviation of
the noise.</p>
{{ cards(drawn) }}
{% endif %}
</section>
""",
)


def changes(release: Release, read: ReadRelease) -> list[Change]:
    """Finds the cells of single columns whose shares changed most in the last period.

    Errors are those of the noise and of chance, where records are drawn from a
    population.

    Args:
        release: Of a stream.
        read: Reads a release.

    Returns:
        At most twelve, those first that changed by the most standard errors. None
        before the second period, and of a column none where a period has too few
        records.
    """
    stream = release.certificate.stream
    if stream is None or stream.period < 2:
        return []
    periods = [_of_period(release, read, index) for index in range(stream.period)]
    noise_rows = _noise_rows(release, stream.period)
    columns = {
        column.name: column
        for column in (*release.schema.layout.numeric, *release.schema.layout.coded)
    }
    scored = []
    for name, cells in periods[0].domain.by_name.items():
        if not all(name in period.columns for period in periods):
            continue
        tables = [period.best((name,)) for period in periods]
        noise_std = math.sqrt(max(float(table.variance.max()) for table in tables))
        scored += _score_changes(
            name,
            cell_names(columns[name], cells),
            np.stack([table.counts for table in tables]),
            noise_std / _norm(noise_rows[-1]),
            noise_rows,
        )
    scored.sort(key=lambda pair: -pair[0])
    # All cells together raise an alarm in one of twenty pages (Bonferroni).
    min_score = NormalDist().inv_cdf(1 - _ALARM_RATE / 2 / max(len(scored), 1))
    return [
        replace(change, is_clear=score > min_score)
        for score, change in scored[:_MAX_SHOWN]
    ]


def _noise_rows(release: Release, n_periods: int) -> Floats:
    """Returns how much of the fresh noise of each period is in each, (periods, periods).

    Row t holds the coefficients of period t: those of later noise are 0.
    """
    weights = next(
        event.weights
        for event in release.certificate.events
        if isinstance(event, Continual)
    )
    coefficients = noise_coefficients(weights, n_periods)
    rows = np.zeros((n_periods, n_periods))
    for period in range(n_periods):
        rows[period, : period + 1] = coefficients[: period + 1][::-1]
    return rows


def _score_changes(
    column: str,
    cells: Sequence[str],
    counts: Floats,
    fresh_noise_std: float,
    noise_rows: Floats,
) -> list[tuple[float, Change]]:
    """Computes by how many standard errors the share of each cell changed.

    Args:
        column: Name of the column.
        cells: Names of its cells.
        counts: Noisy counts, (periods, cells).
        fresh_noise_std: Standard deviation of the fresh noise of a period on a count.
        noise_rows: How much of it is in each period, (periods, periods).

    Returns:
        The standard errors and the change, for each cell; none where a period has too
        few records to tell.
    """
    n_cells = counts.shape[1]
    totals = counts.sum(axis=1)
    row_norms = np.linalg.norm(noise_rows, axis=1)
    total_noise = fresh_noise_std * math.sqrt(n_cells) * row_norms
    if (totals < _MIN_SIGNAL * total_noise).any():
        return []
    total_now = totals[-1]
    total_before = totals[:-1].sum()
    before = counts[:-1].sum(axis=0) / total_before
    overall = np.clip(counts.sum(axis=0) / totals.sum(), 0, 1)
    # Of a share of the cells' own total: noise on a cell, less its part in the noise on
    # all of them.
    share_noise = fresh_noise_std * np.sqrt(1 - 2 * overall + n_cells * overall**2)
    difference_row = (
        noise_rows[-1] / total_now - noise_rows[:-1].sum(axis=0) / total_before
    )
    noise = share_noise * _norm(difference_row)
    chance = overall * (1 - overall) * (1 / total_now + 1 / total_before)
    errors = np.sqrt(noise**2 + chance)
    shares = counts / totals[:, None]
    noise_of_periods = 2 * np.outer(row_norms / totals, share_noise)
    scored = []
    for k, cell in enumerate(cells):
        change = Change(
            column=column,
            cell=cell,
            before=float(before[k]),
            now=float(shares[-1, k]),
            half_width=_Z * float(errors[k]),
            shares=shares[:, k],
            noise=noise_of_periods[:, k],
        )
        scored.append((abs(change.now - change.before) / float(errors[k]), change))
    return scored


def _norm(row: Floats) -> float:
    """Returns the Euclidean norm of a vector."""
    return float(np.linalg.norm(row))


def _of_period(release: Release, read: ReadRelease, index: int) -> Measurements:
    """Returns what a release states of one period, counted from 0.

    These are the answers that are told by the period; all others are left out.
    """
    values = {
        name: np.full_like(array, np.nan) for name, array in release.values.items()
    }
    noise_std = dict(release.noise_std)
    for name, sums in release.by_period.items():
        values[name] = sums[:, index].reshape(values[name].shape)
        noise_std[name] = release.by_period_std[name]
    stated = read(replace(release, values=values, noise_std=noise_std))
    tables = [table for table in stated.tables if np.isfinite(table.counts).all()]
    return replace(stated, tables=tuple(tables), moments=None)
