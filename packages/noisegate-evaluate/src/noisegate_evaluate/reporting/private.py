"""What the private page is about: synthetic records beside real ones, outside the guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.records import Images
from noisegate.schema import Column, Schema
from noisegate.schema.linked.schema import Link, LinkedSchema
from noisegate.schema.linked.table_schema import ticks_at
from noisegate_evaluate.comparison import ImageReport, LinkedReport, Report
from noisegate_evaluate.metrics.analyses import associations
from noisegate_evaluate.metrics.copies import (
    NearestRecords,
    nearest_images,
    nearest_records,
)
from noisegate_evaluate.metrics.marginals import ColumnShares, column_shares
from noisegate_evaluate.metrics.result import CAVEAT
from noisegate_evaluate.reading import (
    LinkedTables,
    Tables,
    beside,
    bring_together,
    with_coordinates,
)
from noisegate_evaluate.reporting.figure import render_with_figures

# Bins of a numeric column.
_BINS = 20
# Columns whose pairs have room in a map.
_MAX_PAIRED = 100
# Columns of a child whose successions have room in a map, and values of a number of
# which each is a bin of its own.
_MAX_COLUMNS = 40

_Records = TypeVar("_Records")


@dataclass(frozen=True, kw_only=True)
class Sides(Generic[_Records]):
    """The records that an evaluation compares.

    Attributes:
        synthetic: Synthetic records.
        test: Real records that the fit did not use.
        train: Real records that the fit used; None where they are not at hand.
    """

    synthetic: _Records
    test: _Records
    train: _Records | None = None

    @property
    def real(self) -> _Records:
        """What synthetic records are compared with: those of the fit if at hand."""
        return self.test if self.train is None else self.train


@dataclass(frozen=True, kw_only=True)
class ColumnMaps:
    """How strongly columns go together, from 0 to 1, in real and in synthetic records.

    Attributes:
        names: Names of the columns.
        real: A square of real records, (columns, columns).
        synthetic: The same of synthetic records.
    """

    names: Sequence[str]
    real: npt.NDArray[np.float64]
    synthetic: npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ComparedLink:
    """One link of linked tables.

    Attributes:
        name: Name of the children's table.
        title: The link in words.
        figures: What each figure is of, the figure, that of two real sets, and where it
            is largest.
        shares: Cells of the number of children, and of the gaps between them.
        successions: How a column of a child (rows) goes with one of the next child
            (columns); None where there are too few.
        column_count: Number of columns of a child; of more than 40 the first ones are
            in `successions`.
    """

    name: str
    title: str
    figures: Sequence[tuple[str, str, str, str]]
    shares: Sequence[ColumnShares]
    successions: ColumnMaps | None
    column_count: int


@dataclass(frozen=True, kw_only=True)
class PrivatePage:
    """What a private page is about.

    Attributes:
        report: The figures.
        copies: How near synthetic records are to those of the fit; None without these.
        record_counts: Number of synthetic and of real records.
        column_shares: Cells of each column, those that differ most first; of linked
            tables, of the parents with what their children come to. Empty of images.
        associations: How strongly pairs of columns go together; None of fewer than two
            columns, and of images.
        column_count: Number of columns of the table.
        links: The links of linked tables, parents first.
    """

    report: Report | ImageReport
    copies: NearestRecords | None
    record_counts: tuple[int, int]
    column_shares: Sequence[ColumnShares] = ()
    associations: ColumnMaps | None = None
    column_count: int = 0
    links: Sequence[ComparedLink] = ()


def private_page(
    page: PrivatePage, *, title: str = "", owner: str = "", purpose: str = ""
) -> str:
    """Returns the page, HTML, dated today, with what its owner says of it."""
    heading = {"title": title, "owner": owner, "purpose": purpose}
    return render_with_figures("private", page, heading=heading, caveat=CAVEAT)


def page_of_table(
    report: Report, sides: Sides[pa.Table], schema: Schema, *, seed: int
) -> PrivatePage:
    """Returns what the page shows of a table.

    Args:
        report: The figures.
        sides: The records.
        schema: Their schema.
        seed: Of the records that are drawn to look for copies.
    """
    tables, described = with_coordinates(
        (sides.synthetic, sides.test, sides.real), schema
    )
    synthetic, test, real = tables
    copies = None
    if sides.train is not None:
        copies = nearest_records(synthetic, real, test, described, seed=seed)
    shares = [
        column_shares(synthetic, real, column, described, bins=_BINS)
        for column in described.columns
    ]
    shares.sort(key=lambda column: -column.distance)
    ranked_names = [column.column.name for column in shares]
    return PrivatePage(
        report=report,
        copies=copies,
        record_counts=(len(synthetic), len(real)),
        column_shares=shares,
        associations=_associations(synthetic, real, described, ranked_names),
        column_count=len(described.columns),
    )


def _associations(
    synthetic: pa.Table, real: pa.Table, schema: Schema, names: Iterable[str]
) -> ColumnMaps | None:
    """Returns how strongly pairs of columns go together.

    Args:
        synthetic: Synthetic records.
        real: Real ones.
        schema: Their schema.
        names: Names of the columns, those first that are to be shown if not all are.

    Returns:
        The maps, of the label and of the first columns; None of fewer than two.
    """
    label_first = sorted(names, key=lambda name: name != schema.label)
    shown_names = label_first[:_MAX_PAIRED]
    columns = [column for column in schema.columns if column.name in shown_names]
    columns.sort(key=lambda column: column.name != schema.label)
    if len(columns) < 2:
        return None
    return ColumnMaps(
        names=[column.name for column in columns],
        real=associations(real, columns, schema),
        synthetic=associations(synthetic, columns, schema),
    )


def page_of_images(
    report: ImageReport, sides: Sides[Images], *, seed: int
) -> PrivatePage:
    """Returns what the page shows of images; for the arguments see `page_of_table`."""
    synthetic = sides.synthetic
    copies = None
    if sides.train is not None:
        copies = nearest_images(
            synthetic.pixels, sides.train.pixels, sides.test.pixels, seed=seed
        )
    counts = len(synthetic), len(sides.real)
    return PrivatePage(report=report, copies=copies, record_counts=counts)


def page_of_linked(
    report: LinkedReport, sides: Sides[Tables], schema: LinkedSchema, *, seed: int
) -> PrivatePage:
    """Returns what the page shows of linked tables: parents with their children, and links.

    Args:
        report: The figures.
        sides: The tables, by name.
        schema: Their schema.
        seed: Of the parents that are drawn to look for copies.
    """
    synthetic = bring_together(sides.synthetic, schema, "given")
    test = bring_together(sides.test, schema, "given")
    train = None
    train_parents = None
    if sides.train is not None:
        train = bring_together(sides.train, schema, "given")
        train_parents, _ = beside(train, schema)
    synthetic_parents, described = beside(synthetic, schema)
    test_parents, _ = beside(test, schema)
    parents = Sides(synthetic=synthetic_parents, test=test_parents, train=train_parents)
    page = page_of_table(report, parents, described, seed=seed)
    links = [
        compare_link(synthetic, train or test, link, report) for link in schema.links
    ]
    return replace(page, links=links)


def compare_link(
    synthetic: LinkedTables, real: LinkedTables, link: Link, report: LinkedReport
) -> ComparedLink:
    """Returns what is shown of a link.

    Args:
        synthetic: Synthetic tables.
        real: Real ones.
        link: The link.
        report: The figures.
    """
    floor: dict[str, tuple[str, str]] = {}
    if report.links_floor is not None:
        floor = dict(report.links_floor[link.name].lines())
    return ComparedLink(
        name=link.name,
        title=f"{link.parent.name} and their {link.name}",
        figures=[
            (name, text, floor[name][0] if name in floor else "–", largest)
            for name, (text, largest) in report.links[link.name].lines()
        ],
        shares=_link_shares(synthetic, real, link),
        successions=_successions(synthetic, real, link),
        column_count=len(link.child.schema.columns),
    )


def _link_shares(
    synthetic: LinkedTables, real: LinkedTables, link: Link
) -> list[ColumnShares]:
    """Returns the cells of the number of children, and of the gaps if there are any."""
    synthetic_numbers = _link_numbers(synthetic, link)
    real_numbers = _link_numbers(real, link)
    shares = []
    for name in [link.number, *([] if link.gap is None else [link.gap])]:
        column = link.schema.column(name)
        if not len(synthetic_numbers[name]) or not len(real_numbers[name]):
            continue
        bins = _BINS
        if column.numeric and column.stepped and column.last_rank < _MAX_COLUMNS:
            bins = column.last_rank + 1
        shares.append(
            column_shares(
                pa.table({name: synthetic_numbers[name]}),
                pa.table({name: real_numbers[name]}),
                column,
                link.schema,
                bins=bins,
            )
        )
    return shares


def _link_numbers(
    linked: LinkedTables, link: Link
) -> dict[str, npt.NDArray[np.generic]]:
    """Returns the number of children of each parent, and the gap before each child but the first.

    Args:
        linked: The tables.
        link: The link.

    Returns:
        The numbers, (parents,), and the gaps, (children with an earlier one,), by the
        names of their columns.
    """
    families = linked.families[link.name]
    numbers: dict[str, npt.NDArray[np.generic]] = {link.number: families.counts}
    if link.gap is None or link.order is None or families.position is None:
        return numbers
    before, after = families.consecutive
    is_known = ~np.isnan(families.position)
    ticks = np.zeros(len(is_known))
    ticks[is_known] = ticks_at(link.order, families.position[is_known])
    has_gap = is_known[before] & is_known[after]
    numbers[link.gap] = (ticks[after] - ticks[before])[has_gap]
    return numbers


def _successions(
    synthetic: LinkedTables, real: LinkedTables, link: Link
) -> ColumnMaps | None:
    """Returns how a child goes with the next one of its parent; None where few have one."""
    columns = [
        column
        for column in link.child.schema.columns
        if column.name != link.child.order
    ][:_MAX_COLUMNS]
    has_few = any(
        len(linked.families[link.name].consecutive[0]) < 2
        for linked in (synthetic, real)
    )
    if not columns or has_few:
        return None
    return ColumnMaps(
        names=[column.name for column in columns],
        real=_succession(real, link, columns),
        synthetic=_succession(synthetic, link, columns),
    )


def _succession(
    linked: LinkedTables, link: Link, columns: Sequence[Column]
) -> npt.NDArray[np.float64]:
    """Returns how strongly each column goes with each of the next child, (columns, columns)."""
    table = linked.tables[link.name]
    families = linked.families[link.name]
    before, after = (
        table.take(pa.array(families.rows[indices])) for indices in families.consecutive
    )
    next_columns: list[Column] = [
        replace(column, name=f"next {column.name}") for column in columns
    ]
    cells = {column.name: before[column.name] for column in columns}
    cells |= {f"next {column.name}": after[column.name] for column in columns}
    all_columns = [*columns, *next_columns]
    schema = Schema(all_columns, missing_values=link.child.schema.missing_values)
    matrix = associations(pa.table(cells), all_columns, schema)
    return matrix[: len(columns), len(columns) :]
