"""The page that compares synthetic records with real ones: outside the guarantee, for those who may see the records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa

from noisegate.schema import NumericColumn, Schema
from noisegate_evaluate import CAVEAT
from noisegate_evaluate.comparison import EvaluationReport, ImageReport, Report, printed
from noisegate_evaluate.metrics.associations import associations
from noisegate_evaluate.metrics.copies import NearestRecords
from noisegate_evaluate.metrics.marginals import ColumnShares, column_shares
from noisegate_evaluate.reporting.charts import Chart, two_maps
from noisegate_evaluate.reporting.drawing import MISSING, level_names, numbered, span_name
from noisegate_evaluate.reporting.marginals import Card, card, ordered
from noisegate_evaluate.reporting.page import percent, render_page
from noisegate_evaluate.reporting.relations import Relation

_BINS = 20
_MOST_PAIRED, _MOST_PAIRS = 100, 1000
_LARGEST = 10


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a private page shows of so many synthetic and real records; no tables of images.

    Of linked tables, the tables are of parents beside their children, and `relations` say how they hang together.
    """

    schema: Schema
    report: Report | ImageReport
    copies: NearestRecords | None
    counted: tuple[int, int]
    synthetic: pa.Table | None = None
    real: pa.Table | None = None
    relations: Sequence[Relation] = ()


def private_page(measured: Measured) -> str:
    """Returns the page, HTML."""
    report, schema = measured.report, measured.schema
    shares: list[ColumnShares] = []
    pairs: list[Chart] = []
    departures: list[tuple[str, str, str, str]] = []
    if measured.synthetic is not None and measured.real is not None:
        shares = [
            column_shares(measured.synthetic, measured.real, column, schema, bins=_BINS) for column in schema.columns
        ]
        shares.sort(key=lambda one: -one.distance)
        pairs, departures = _pairs(measured.synthetic, measured.real, schema)
    return render_page(
        "private.html",
        caveat=CAVEAT,
        verdict_=report.verdict,
        report=report,
        copies=measured.copies,
        counted=measured.counted,
        scored=_scored(report),
        beyond=_beyond(report),
        cards_=[_card(f"column-{place}", one, report.compared_with) for place, one in enumerate(shares)],
        relations=[
            (one, [_card(f"link-{place}-{part}", part_, report.compared_with) for part, part_ in enumerate(one.shares)])
            for place, one in enumerate(measured.relations)
        ],
        largest=[(one.column.name, percent(one.distance)) for one in shares[:_LARGEST]],
        departures=departures[:_LARGEST],
        pairs=pairs,
        left_out=len(schema.columns) - _MOST_PAIRED if pairs else 0,
        distances=list(_distances(report)),
        scores=report.scores(),
        notes=report.notes,
    )


def _card(key: str, shown: ColumnShares, compared_with: str) -> Card:
    column, real, synthetic = shown.column, shown.real, shown.synthetic
    cells: list[str | None]
    if isinstance(column, NumericColumn):
        bins = len(real) - 2
        cells = [span_name(column, cell / bins, (cell + 1) / bins) for cell in range(bins)]
    else:
        cells = list(level_names(column)[: len(real) - 2])
    cells += [MISSING, "(outside the schema)"]
    occurs = [(real[cell] > 0 or synthetic[cell] > 0) for cell in range(len(cells))]
    kept = [cell for cell, name in enumerate(cells) if name is not None and (occurs[cell] or cell < len(cells) - 2)]
    names = numbered([str(cells[cell]) for cell in kept])
    told = f"{percent(shown.distance)} of the records are in another cell."
    headings, shares = (f"real ({compared_with})", "synthetic"), (real[kept], synthetic[kept])
    return card(key, column.name, names, shares, told, headings, ordered=ordered(column))


def _pairs(synthetic: pa.Table, real: pa.Table, schema: Schema) -> tuple[list[Chart], list[tuple[str, str, str, str]]]:
    """Returns maps of both tables' associations, and the pairs by how far these are apart; the label is among them."""
    label = [column for column in schema.columns if column.name == schema.label]
    others = [column for column in schema.columns if column.name != schema.label]
    columns = [*label, *others][:_MOST_PAIRED]
    if len(columns) < 2:
        return [], []
    names = [column.name for column in columns]
    theirs, ours = (associations(table, columns, schema) for table in (real, synthetic))
    rows = sorted(
        (
            (abs(theirs[i, j] - ours[i, j]), f"{names[i]} × {names[j]}", theirs[i, j], ours[i, j])
            for i, j in combinations(range(len(names)), 2)
            if math.isfinite(theirs[i, j]) and math.isfinite(ours[i, j])
        ),
        key=lambda row: -row[0],
    )
    told = [(pair, f"{real:.2f}", f"{made:.2f}", f"{gap:.2f}") for gap, pair, real, made in rows[:_MOST_PAIRS]]
    headings = ("pair", "real", "synthetic", "apart")
    maps = {"real": theirs, "synthetic": ours}
    charts = two_maps("pairs", "Association of each pair of columns", "", names, maps, headings=headings, rows=told)
    return charts, told


def _scored(report: EvaluationReport) -> tuple[str, str, str] | None:
    """Returns a score, what models of synthetic records reach, and what those of real ones do."""
    figures = {} if report.verdict is None else report.verdict.figures
    if "score" not in figures:
        return None
    return str(figures["score"]), f"{figures['score_of_synthetic']:.3f}", f"{figures['score_of_real']:.3f}"


def _beyond(report: Report | ImageReport) -> tuple[str, str] | None:
    """Returns how many records are out of place beyond sampling, and in what."""
    if not isinstance(report, Report):
        return None
    entry = report.marginals.orders[min(len(report.marginals.orders), 2) - 1]
    return percent(entry.beyond_sampling), "a pair of columns" if entry.order == 2 else "a column"


def _distances(report: Report | ImageReport) -> Iterator[tuple[str, ...]]:
    """Yields rows of distances: what, synthetic against real, the floor that sampling alone sets."""
    if isinstance(report, ImageReport):
        ours, floor = report.distances.page(), report.floor.page() if report.floor else {}
        for name, told in ours.items():
            yield name, told, floor.get(name, "–")
        return
    for entry in report.marginals.orders:
        least = percent(entry.sampling if report.floor is None else report.floor.order(entry.order).mean)
        largest = f"{percent(entry.largest)} in {' × '.join(entry.largest_columns)}"
        yield f"{entry.order} column{'s' * (entry.order > 1)} at a time", percent(entry.mean), least, largest
    floor = printed(report.metrics_floor)
    yield from ((name, told, floor.get(name, "–"), "") for name, told in printed(report.metrics).items())
