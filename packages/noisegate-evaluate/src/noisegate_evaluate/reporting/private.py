"""The page that compares synthetic records with real ones: outside the guarantee, for those who may see the records."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.answers.domain import NumberRange, ends_of
from noisegate.cards import Sheet
from noisegate.models.synthesizer import Synthesizer
from noisegate.schema import Column, EncodedTable, Schema, decode
from noisegate.schema.layout import numbers_at
from noisegate.schema.linked.schema import Link, LinkedSchema
from noisegate.schema.linked.table_schema import ticks_at
from noisegate_evaluate import (
    CAVEAT,
    Report,
    evaluate_images,
    evaluate_tables,
    images_of,
    read_classifiers,
)
from noisegate_evaluate.comparison import (
    ImageReport,
    LinkedReport,
    printed,
    sheet_of_groups,
    sheet_of_worst_groups,
)
from noisegate_evaluate.metrics.analyses import associations
from noisegate_evaluate.metrics.copies import (
    NearestRecords,
    nearest_images,
    nearest_records,
)
from noisegate_evaluate.metrics.marginals import ColumnShares, column_shares
from noisegate_evaluate.metrics.weighted import WeightedFigures
from noisegate_evaluate.reading import (
    LinkedTables,
    Tables,
    beside,
    bring_together,
    with_coordinates,
)
from noisegate_evaluate.reporting.page import (
    Card,
    Chart,
    card,
    heat_map,
    percent,
    render_page,
)
from noisegate_evaluate.reporting.released import (
    MISSING,
    level_names,
    numbered,
    range_name,
)
from noisegate_evaluate.utility.runner import Progress

_BINS = 20
_MOST_PAIRED, _MOST_PAIRS = 100, 100
_LARGEST = 10
_MOST_COLUMNS = 40
SEED = 0  # of what is drawn and trained for a page, so that it is the same whenever it is made

_MOST_ROWS, _MOST_IMAGES = 50_000, 5_000
_IMAGES_COMPARED = 2_000

Batches = Sequence[EncodedTable]


@dataclass(frozen=True, kw_only=True)
class ComparedLink:
    """One link on a page."""

    title: str
    figures: Sequence[
        tuple[str, ...]
    ]  # of what, synthetic, by sampling alone, where largest
    shares: Sequence[ColumnShares]
    successions: Sequence[
        Chart
    ]  # how a column of a child goes with one of the next, real and synthetic
    columns: int  # how many columns a child has; of more than 40 the first ones are among `successions`


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
    relations: Sequence[ComparedLink] = ()


def private_page(
    measured: Measured, *, title: str = "", owner: str = "", purpose: str = ""
) -> str:
    """Returns the page, HTML, dated today, with what its owner says of it."""
    report, schema = measured.report, measured.schema
    shares: list[ColumnShares] = []
    pairs: list[Chart] = []
    departures: list[tuple[str, ...]] = []
    if measured.synthetic is not None and measured.real is not None:
        shares = [
            column_shares(measured.synthetic, measured.real, column, schema, bins=_BINS)
            for column in schema.columns
        ]
        shares.sort(key=lambda one: -one.distance)
        pairs, departures = _pairs(
            measured.synthetic,
            measured.real,
            schema,
            [one.column.name for one in shares],
        )
    return render_page(
        "private.html",
        title=title,
        owner=owner,
        purpose=purpose,
        caveat=CAVEAT,
        verdict_=report.verdict,
        report=report,
        copies=measured.copies,
        counted=measured.counted,
        cards_=[
            _card(f"column-{place}", one, report.compared_with)
            for place, one in enumerate(shares)
        ],
        relations=[
            (
                one,
                [
                    _card(f"link-{place}-{part}", part_, report.compared_with)
                    for part, part_ in enumerate(one.shares)
                ],
            )
            for place, one in enumerate(measured.relations)
        ],
        largest=[(one.column.name, percent(one.distance)) for one in shares[:_LARGEST]],
        departures=departures[:_LARGEST],
        weighted=_weighted_figures(report),
        pairs=pairs,
        left_out=(min(len(schema.columns), _MOST_PAIRED), len(schema.columns)),
        distances=list(_distances(report)),
        scores=report.scores(),
        groups=_group_sheets(report),
        notes=report.notes,
    )


def _weighted_figures(report: Report | ImageReport) -> WeightedFigures | None:
    """Returns the shares and means by survey weights; None without weights."""
    if isinstance(report, ImageReport):
        return None
    figures = report.metrics.get(WeightedFigures.METRIC)
    return figures if isinstance(figures, WeightedFigures) else None


def _card(key: str, shown: ColumnShares, compared_with: str) -> Card:
    column, real, synthetic = shown.column, shown.real, shown.synthetic
    cells: list[str | None]
    if column.numeric:
        edges = np.arange(len(real) - 1) / (len(real) - 2)
        low, high, sizes = ends_of(column, edges)
        ranges = zip(
            numbers_at(column, low), numbers_at(column, high), sizes, strict=True
        )
        # Between two edges there may be no step.
        cells = [
            range_name(column, NumberRange(first, last)) if size > 0 else None
            for first, last, size in ranges
        ]
    else:
        cells = list(level_names(column)[: len(real) - 2])
    cells += [MISSING, "(outside the schema)"]
    occurs = [(real[cell] > 0 or synthetic[cell] > 0) for cell in range(len(cells))]
    kept = [
        cell
        for cell, name in enumerate(cells)
        if name is not None and (occurs[cell] or cell < len(cells) - 2)
    ]
    names = numbered([str(cells[cell]) for cell in kept])
    told = f"{percent(shown.distance)} of the records are in another cell."
    headings, shares = (
        (f"real ({compared_with})", "synthetic"),
        (real[kept], synthetic[kept]),
    )
    return card(key, [column], names, shares, told, headings)


def _pairs(
    synthetic: pa.Table, real: pa.Table, schema: Schema, ranked: Sequence[str]
) -> tuple[list[Chart], list[tuple[str, ...]]]:
    """Returns maps of both tables' associations, and the pairs by how far these are apart: the label, and the first."""
    shown = sorted(ranked, key=lambda name: name != schema.label)[:_MOST_PAIRED]
    columns = [column for column in schema.columns if column.name in shown]
    columns.sort(key=lambda column: column.name != schema.label)
    if len(columns) < 2:
        return [], []
    theirs, ours = (associations(table, columns, schema) for table in (real, synthetic))
    title, upper = (
        "Association of each pair of columns",
        np.triu(np.ones_like(theirs), 1),
    )
    return _beside("pairs", title, columns, (theirs, ours), upper > 0, " × ")


def _beside(
    key: str,
    title: str,
    columns: Sequence[Column],
    maps: Sequence[np.ndarray],
    looked: np.ndarray,
    between: str,
) -> tuple[list[Chart], list[tuple[str, ...]]]:
    """Returns maps of real and of synthetic records, and the pairs that are looked at by how far they are apart."""
    names, (real, made) = [column.name for column in columns], maps
    apart = np.where(looked, np.abs(real - made), math.nan)
    order = np.argsort(-apart, axis=None, kind="stable")[: np.isfinite(apart).sum()]
    rows = [
        (
            f"{names[i]}{between}{names[j]}",
            *(f"{one[i, j]:.2f}" for one in (real, made, apart)),
        )
        for i, j in zip(*np.unravel_index(order, apart.shape), strict=True)
    ]
    drawn = [
        heat_map(f"{key}-{what}", f"{title}: {what}", "", names, one)
        for what, one in (("real", real), ("synthetic", made))
    ]
    headings = ("pair", "real", "synthetic", "difference")
    first = Chart(drawing=drawn[0], headings=(), rows=[], wide=True)
    return [
        first,
        Chart(
            drawing=drawn[1],
            headings=headings,
            rows=rows[:_MOST_PAIRS],
            of=len(rows),
            wide=True,
        ),
    ], rows


def _group_sheets(report: Report | ImageReport) -> Sequence[Sheet]:
    """Returns the tables of the groups of a column; none without groups."""
    if isinstance(report, ImageReport) or report.groups is None:
        return ()
    return sheet_of_worst_groups(report.groups), sheet_of_groups(report.groups)


def _distances(report: Report | ImageReport) -> Iterator[tuple[str, ...]]:
    """Yields rows of distances: what, synthetic against real, the floor that sampling alone sets."""
    if isinstance(report, ImageReport):
        ours, floor = (
            report.distances.page(),
            report.floor.page() if report.floor else {},
        )
        for name, told in ours.items():
            yield name, told, floor.get(name, "–")
        return
    for entry in report.marginals.orders:
        least = percent(
            entry.sampling
            if report.floor is None
            else report.floor.order(entry.order).mean
        )
        largest = f"{percent(entry.largest)} in {' × '.join(entry.largest_columns)}"
        yield (
            f"{entry.order} column{'s' * (entry.order > 1)} at a time",
            percent(entry.mean),
            least,
            largest,
        )
    floor = printed(report.metrics_floor)
    yield from (
        (name, told, floor.get(name, "–"), "")
        for name, told in printed(report.metrics).items()
    )


def measure(
    model: Synthesizer,
    test: Batches,
    train: Batches | None,
    *,
    records: int,
    classifiers: str | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Returns what as many synthetic records as there are real ones are worth, at most 50,000 rows or 5,000 images."""
    if model.schema.images is not None:
        return _measure_images(
            model,
            test,
            train,
            min(records, _MOST_IMAGES),
            classifiers or "cnn",
            progress,
        )
    schema, drawn = model.schema, min(records, _MOST_ROWS)

    def read(batches: Iterable[EncodedTable]) -> pa.Table:
        return decode(EncodedTable.concatenate(list(batches)), schema)

    made, held_out, used = (
        read(model.records(drawn, seed=SEED)),
        read(test),
        None if train is None else read(train),
    )
    how: Any = {"classifiers": classifiers or "three", "progress": progress}
    report = evaluate_tables(made, held_out, schema, used, seed=SEED, **how)
    return compared(replace(report, fitted=model.verdict), made, held_out, used, schema)


def _measure_images(
    model: Synthesizer,
    test: Batches,
    train: Batches | None,
    count: int,
    classifiers: str,
    progress: Progress | None,
) -> Measured:
    schema = model.schema
    made, held_out = (
        images_of(model.records(count, seed=SEED), schema),
        images_of(test, schema),
    )
    used = None if train is None else images_of(train, schema)
    how: Any = {
        "classifiers": read_classifiers(classifiers),
        "images": _IMAGES_COMPARED,
        "progress": progress,
    }
    report = evaluate_images(made, held_out, schema, used, seed=SEED, **how)
    return Measured(
        schema=schema,
        report=replace(report, fitted=model.verdict),
        copies=None
        if used is None
        else nearest_images(made.pixels, used.pixels, held_out.pixels, seed=SEED),
        counted=(len(made), len(held_out if used is None else used)),
    )


def compared(
    report: Report,
    synthetic: pa.Table,
    test: pa.Table,
    train: pa.Table | None,
    schema: Schema,
    *,
    seed: int = SEED,
) -> Measured:
    """Returns an evaluation of tables with what the page shows beside it."""
    real = test if train is None else train
    tables, described = with_coordinates((synthetic, test, real), schema)
    all_synthetic, all_test, all_real = tables
    return Measured(
        schema=described,
        report=report,
        copies=None
        if train is None
        else nearest_records(all_synthetic, all_real, all_test, described, seed=seed),
        counted=(synthetic.num_rows, real.num_rows),
        synthetic=all_synthetic,
        real=all_real,
    )


def compared_linked(
    report: LinkedReport,
    synthetic: Tables,
    test: Tables,
    train: Tables | None,
    schema: LinkedSchema,
    *,
    seed: int = SEED,
) -> Measured:
    """Returns an evaluation of linked tables with what the page shows: parents beside their children, and each link."""
    made, held_out = (
        bring_together(tables, schema, "given") for tables in (synthetic, test)
    )
    used = None if train is None else bring_together(train, schema, "given")
    (flat, described), (real, _) = beside(made, schema), beside(held_out, schema)
    measured = compared(
        report,
        flat,
        real,
        None if used is None else beside(used, schema)[0],
        described,
        seed=seed,
    )
    return replace(
        measured,
        relations=[
            relation(made, used or held_out, link, report) for link in schema.links
        ],
    )


def relation(
    synthetic: LinkedTables, real: LinkedTables, link: Link, report: LinkedReport
) -> ComparedLink:
    """Returns what is shown of a link."""
    floor = (
        {}
        if report.links_floor is None
        else dict(report.links_floor[link.name].lines())
    )
    figures = [
        (what, figure, floor[what][0] if what in floor else "–", largest)
        for what, (figure, largest) in report.links[link.name].lines()
    ]
    names = [link.number, *([] if link.gap is None else [link.gap])]
    made, true = _numbers(synthetic, link), _numbers(real, link)
    shares = []
    for name, column in ((name, link.schema.column(name)) for name in names):
        if len(made[name]) and len(true[name]):
            both = pa.table({name: made[name]}), pa.table({name: true[name]})
            # Each number for itself where these are few.
            bins = (
                column.last_rank + 1
                if column.numeric
                and column.stepped
                and column.last_rank < _MOST_COLUMNS
                else _BINS
            )
            shares.append(column_shares(*both, column, link.schema, bins=bins))
    title = f"{link.parent.name} and their {link.name}"
    told: Any = {
        "successions": _successions(synthetic, real, link),
        "columns": len(link.child.schema.columns),
    }
    return ComparedLink(title=title, figures=figures, shares=shares, **told)


def _numbers(linked: LinkedTables, link: Link) -> dict[str, np.ndarray]:
    """Returns the number of children of each parent and the gap before each child but the first, by column."""
    families = linked.families[link.name]
    found = {link.number: families.counts}
    if (
        link.gap is not None
        and link.order is not None
        and families.position is not None
    ):
        before, after = families.consecutive
        known = ~np.isnan(families.position)
        ticks = np.zeros(len(known))
        ticks[known] = ticks_at(link.order, families.position[known])
        steps = known[before] & known[after]
        found[link.gap] = (ticks[after] - ticks[before])[steps]
    return found


def _successions(
    synthetic: LinkedTables, real: LinkedTables, link: Link
) -> list[Chart]:
    columns = [
        column
        for column in link.child.schema.columns
        if column.name != link.child.order
    ][:_MOST_COLUMNS]
    maps = [_succession(linked, link, columns) for linked in (real, synthetic)]
    if not columns or any(
        len(linked.families[link.name].consecutive[0]) < 2
        for linked in (synthetic, real)
    ):
        return []
    title = f"How a record of {link.name} (rows) goes with the next one of the same parent (columns)"
    return _beside(
        f"successions-{link.name}",
        title,
        columns,
        maps,
        np.ones_like(maps[0], dtype=bool),
        " → ",
    )[0]


def _succession(
    linked: LinkedTables, link: Link, columns: Sequence[Column]
) -> np.ndarray:
    """Returns how strongly each column goes with each of the next child, (columns, columns)."""
    table, families = linked.tables[link.name], linked.families[link.name]
    before, after = (
        table.take(pa.array(families.rows[place])) for place in families.consecutive
    )
    following: list[Column] = [
        replace(column, name=f"next {column.name}") for column in columns
    ]
    both = {column.name: before[column.name] for column in columns}
    both |= {f"next {column.name}": after[column.name] for column in columns}
    every = [*columns, *following]
    schema = Schema(every, missing_values=link.child.schema.missing_values)
    return associations(pa.table(both), every, schema)[: len(columns), len(columns) :]
