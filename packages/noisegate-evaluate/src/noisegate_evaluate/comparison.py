"""Reports: the figures of an evaluation, as JSON, data frames, verdict, card and page.

A report contains figures. `parts_of` returns its contents as `ReportParts`, which one set of methods shows::

    Report, LinkedReport, ImageReport ──parts_of──► ReportParts ──► to_json, to_frames,
                                                                    verdict, card, render

`sheets` makes the tables, `judging` the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from noisegate.answers.findings import Question
from noisegate.answers.verdict import Verdict
from noisegate.cards import ResultCard, Sheet, Shown
from noisegate.errors import installed
from noisegate_evaluate.images import ImageDistances
from noisegate_evaluate.judging import (
    lowered,
    of_analyses,
    of_distance,
    of_linked,
    of_marginals,
    of_models,
    of_more,
    of_number,
    of_rules,
    unmeasured_findings,
)
from noisegate_evaluate.metrics.groups import Groups
from noisegate_evaluate.metrics.links import LinkDistances
from noisegate_evaluate.metrics.marginals import MarginalReport
from noisegate_evaluate.metrics.missing import MissingTogether
from noisegate_evaluate.metrics.result import (
    CAVEAT,
    MetricResult,
    as_json,
    numbers_in,
    printed,
)
from noisegate_evaluate.metrics.weighted import WeightedFigures
from noisegate_evaluate.sheets import (
    comparison_sheet,
    group_sheet,
    image_score_sheet,
    link_sheet,
    marginal_sheet,
    printed_score_sheet,
    regression_sheet,
    rich_table,
    score_sheet,
    worst_group_sheet,
)
from noisegate_evaluate.tables import RegressionReport
from noisegate_evaluate.utility.runner import UtilityReport
from noisegate_evaluate.utility.suites import TWELVE_VERSION

if TYPE_CHECKING:
    from rich.console import RenderableType

FrameRow: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a data frame, and one of its rows."""

# What a row of a data frame compares.
_SYNTHETIC_WITH_REAL = "synthetic with real"
_TRAIN_WITH_TEST = "train with test"


@dataclass(frozen=True, kw_only=True)
class ReportParts:
    """Contents of a report.

    Attributes:
        figures: The figures that come first in JSON, by name.
        more_figures: The figures after the verdict and the notes, by name.
        rows: The numbers, each as a row of a data frame.
        verdicts: The verdict on each kind of figure.
        distances: Tables of distances. Headings that begin with ">" are of columns of numbers.
        scores: The table of scores of models on the held-out records; None if no model was scored.
        other_sheets: Tables of other figures.
    """

    figures: Mapping[str, Any]
    more_figures: Mapping[str, Any]
    rows: Iterator[FrameRow]
    verdicts: Iterator[Verdict | None]
    distances: Sequence[Sheet]
    scores: Sheet | None
    other_sheets: Sequence[Sheet]

    @property
    def sheets(self) -> list[Sheet]:
        """All tables, in the order of a page."""
        scores = [] if self.scores is None else [self.scores]
        return [*self.distances, *scores, *self.other_sheets]


@singledispatch
def parts_of(report: Any) -> ReportParts:
    """Returns the parts of a report."""
    raise NotImplementedError(type(report).__name__)


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationReport(Shown):
    """Quality of synthetic records, compared with real ones.

    Attributes:
        compared_with: The real records of the comparison: "train" or "test".
        downstream: Scores on the held-out records after training on synthetic ones; None without a label that can be
            predicted.
        ceiling: Train-on-real scores: the same after training on the real training records. None without ``train``.
        notes: Messages about unusual facts of the evaluation.
        fitted: Verdict of the fit, if the records are sampled from a model.
        questions: Questions that apply to such records. The verdict answers each of them, if only by "not known".
    """

    compared_with: str
    downstream: UtilityReport | None
    ceiling: UtilityReport | None
    notes: tuple[str, ...]
    fitted: Verdict | None = None
    questions: tuple[Question, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with the sentence that they are outside the guarantee."""
        parts = parts_of(self)
        figures = {
            "caveat": CAVEAT,
            "compared_with": self.compared_with,
            **parts.figures,
            "verdict": self.verdict,
            "notes": list(self.notes),
            **parts.more_figures,
        }
        return {name: as_json(figure) for name, figure in figures.items()}

    def to_frames(self) -> dict[str, Any]:
        """Returns the figures of the page, not rounded, as tables by name: "scores", and those of the distances.

        A table is a data frame of pandas, or of Polars if only that is installed; otherwise a table of PyArrow. The
        column ``compared`` states what was compared: synthetic records with real ones, or the real training with the
        test records.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate import Schema, evaluate
            >>> from noisegate.schema import Boolean, Integer
            >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
            >>> table = pa.table({"age": [31, 58, 44, 67] * 50, "ill": [False, True, False, True] * 50})
            >>> frames = evaluate(table, table, schema=schema).to_frames()
            >>> sorted(frames), list(frames["marginals"]["mean_total_variation"])
            (['marginals', 'metrics', 'scores'], [0.0, 0.0])
        """
        rows_of_frames: dict[str, list[dict[str, Any]]] = {}
        for name, row in parts_of(self).rows:
            rows_of_frames.setdefault(name, []).append(row)
        tables = {
            name: pa.Table.from_pylist(rows) for name, rows in rows_of_frames.items()
        }
        if installed("pandas"):
            return {name: table.to_pandas() for name, table in tables.items()}
        if installed("polars"):
            import polars as pl

            return {name: pl.from_arrow(table) for name, table in tables.items()}
        return tables

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the figures, with findings on questions. The guarantee does not cover it."""
        verdicts = [verdict for verdict in parts_of(self).verdicts if verdict]
        verdict = Verdict.together(verdicts)
        if verdict is None:
            return lowered(None, self.fitted)
        measured = [finding.question for finding in verdict.findings]
        questions = [*self.questions, *measured]
        return lowered(verdict.answering(questions, unmeasured_findings()), self.fitted)

    def scores(self) -> Sheet | None:
        """Returns the table of what models reach on the test records; None where none was scored."""
        return parts_of(self).scores

    def card(self) -> ResultCard:
        """The figures as a card for a terminal, which has the verdict, or a notebook, which has all."""
        facts = {}
        verdict = self.verdict
        if verdict is not None:
            facts["verdict"] = verdict.headline
            facts |= zip(("because", "and"), verdict.reasons, strict=False)
        return ResultCard(
            title=f"{type(self).__name__}: synthetic records against real "
            f"{self.compared_with} records",
            facts=facts,
            sheets=[_plain_sheet(sheet) for sheet in parts_of(self).sheets],
            notes=[CAVEAT],
        )

    def render(self) -> RenderableType:
        """The figures as a page for ``rich.console.Console.print``, with the sentence about the guarantee."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        shown: list[RenderableType] = [
            rich_table(sheet) for sheet in parts_of(self).sheets
        ]
        shown += [Text(f"Note: {note}.") for note in self.notes]
        verdict = self.verdict
        if verdict is not None:
            shown.append(verdict.render())
        caveat = Text(CAVEAT, style="bold")
        shown.append(Panel(caveat, border_style="yellow", title="Not private"))
        return Group(*shown)


def _plain_sheet(sheet: Sheet) -> Sheet:
    """Returns a sheet without marks for numbers, and without the rows that are gaps."""
    headings = [heading.removeprefix(">") for heading in sheet.headings]
    return replace(sheet, headings=headings, rows=[row for row in sheet.rows if row])


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(EvaluationReport):
    """Quality of a synthetic table, compared with real data.

    Attributes:
        marginals: Distances between the synthetic table and the real table that it is compared with.
        floor: Sampling baseline: the same distances between the real training table and the held-out one. None without
            ``train``.
        metrics: Results of other metrics of tables, by name, including those of installed packages.
        metrics_floor: Sampling baseline of `metrics`: the same metrics between the real tables; empty without
            ``train``.
        regression: For a numeric label, scores on the held-out records after training on the synthetic ones; else None.
        regression_ceiling: Train-on-real scores: the same after training on the real training records. None without
            ``train``.
        groups: Figures of each group of a column; None without ``by``.
    """

    marginals: MarginalReport
    floor: MarginalReport | None
    metrics: Mapping[str, MetricResult | None] = field(default_factory=dict)
    metrics_floor: Mapping[str, MetricResult | None] = field(default_factory=dict)
    regression: RegressionReport | None = None
    regression_ceiling: RegressionReport | None = None
    groups: Groups | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedReport(Report):
    """Quality of synthetic linked tables, compared with real ones.

    The fields of `Report` are about the parents, each with a summary of its children: distances between these tables,
    and scores of models that predict the label of the first table from them.

    Attributes:
        tables: Distances of each table taken separately, by name. Tables without records on one side are left out.
        links: Distances of each link, by the name of the children's table.
        links_floor: Sampling baseline: the same distances between the real training tables and the held-out ones. None
            without ``train``.
        missing: For each table, by name: how often values of two columns are missing in the same record. Only for
            tables in which real values are missing.
    """

    tables: Mapping[str, MarginalReport]
    links: Mapping[str, LinkDistances]
    links_floor: Mapping[str, LinkDistances] | None
    missing: Mapping[str, MissingTogether] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageReport(EvaluationReport):
    """Quality of synthetic images, compared with real ones.

    Attributes:
        distances: Distances between the synthetic images and the real ones that they are compared with.
        floor: Sampling baseline: the same distances between the real training images and the held-out ones. None
            without ``train``.
    """

    distances: ImageDistances
    floor: ImageDistances | None


@parts_of.register
def _parts_of_table(report: Report) -> ReportParts:
    """Returns the parts of the report of a table."""
    return ReportParts(
        figures=_table_figures(report),
        more_figures=_more_table_figures(report),
        rows=_table_rows(report),
        verdicts=_table_verdicts(report),
        distances=_table_distances(report),
        scores=_table_scores(report),
        other_sheets=_other_table_sheets(report),
    )


@parts_of.register
def _parts_of_linked(report: LinkedReport) -> ReportParts:
    """Returns the parts of the report of linked tables.

    Models learn from sums over children, so distances of these sums have no verdict.
    """
    of_links = {
        "tables": report.tables,
        "links": report.links,
        "links_floor": report.links_floor,
    }
    floors = report.links_floor or {}
    link_sheets = [
        link_sheet(name, link, floors.get(name), report.compared_with)
        for name, link in report.links.items()
    ]
    return ReportParts(
        figures=_table_figures(report),
        more_figures=_more_table_figures(report) | of_links,
        rows=_linked_rows(report),
        verdicts=_linked_verdicts(report),
        distances=_table_distances(report),
        scores=_table_scores(report),
        other_sheets=[*link_sheets, *_other_table_sheets(report)],
    )


@parts_of.register
def _parts_of_images(report: ImageReport) -> ReportParts:
    """Returns the parts of the report of images."""
    floor = report.floor
    distances = comparison_sheet(
        "Images in features of both, and bins of pixels",
        report.distances.page(),
        None if floor is None else floor.page(),
        compared_with=report.compared_with,
    )
    scores = None
    if report.downstream is not None:
        scores = image_score_sheet(report.downstream, report.ceiling)
    verdict = of_models("accuracy", "accuracy", 0.0, report.downstream, report.ceiling)
    return ReportParts(
        figures={
            "distances": report.distances,
            "distances_floor": floor,
            "downstream": _image_scores_json(report.downstream),
            "downstream_ceiling": _image_scores_json(report.ceiling),
        },
        more_figures={},
        rows=_image_rows(report),
        verdicts=iter([verdict]),
        distances=[distances],
        scores=scores,
        other_sheets=[],
    )


def _table_figures(report: Report) -> dict[str, Any]:
    """Returns the figures of a table that lead in JSON."""
    return {
        "marginals": report.marginals,
        "marginals_floor": report.floor,
        "downstream": report.downstream,
        "downstream_ceiling": report.ceiling,
    }


def _more_table_figures(report: Report) -> dict[str, Any]:
    """Returns the figures of a table that follow the notes in JSON."""
    figures: dict[str, Any] = {
        "regression": report.regression,
        "regression_ceiling": report.regression_ceiling,
    }
    if report.metrics:
        figures["metrics"] = report.metrics
        figures["metrics_floor"] = report.metrics_floor
    if report.groups is not None:
        figures["groups"] = report.groups
    return figures


def _image_scores_json(scores: UtilityReport | None) -> dict[str, Any] | None:
    """Returns scores of classifiers of images as JSON values; None without."""
    if scores is None:
        return None
    return scores.to_image_json() | {"twelve_version": TWELVE_VERSION}


def _table_verdicts(report: Report) -> Iterator[Verdict | None]:
    """Yields the verdict on each kind of figure of a table."""
    yield of_marginals(report.marginals)
    yield from of_number(report.marginals)
    yield from of_analyses(report.metrics)
    yield from of_rules(report.metrics)
    yield of_more(report.metrics)
    weighted = report.metrics.get(WeightedFigures.METRIC)
    if isinstance(weighted, WeightedFigures):
        yield weighted.verdict()
    if report.groups is not None:
        yield from report.groups.verdicts()
    yield from _model_verdicts(report)


def _linked_verdicts(report: LinkedReport) -> Iterator[Verdict | None]:
    """Yields the verdict on each kind of figure of linked tables."""
    for name, marginals in report.tables.items():
        yield of_marginals(marginals, name)
    for name, link in report.links.items():
        distances = {
            f"parents and {name}": link.parent_child,
            f"successive {name}": link.transitions,
        }
        for records, distance in distances.items():
            if distance is not None:
                yield of_distance(distance, f"a pair of columns of {records}")
    row_counts: dict[str, int] = {}
    if "relations and rules" in report.questions:
        row_counts = {
            name: marginals.rows[0]
            for name, marginals in report.tables.items()
            if name in report.links
        }
    yield of_linked(report.links, report.missing, report.metrics, row_counts)
    yield from _model_verdicts(report)


def _model_verdicts(report: Report) -> Iterator[Verdict | None]:
    """Yields the verdicts on scores of models, for a numeric label or one with levels."""
    yield of_models("ROC-AUC", "roc_auc", 0.5, report.downstream, report.ceiling)
    yield of_models("R²", "r2", 0.0, report.regression, report.regression_ceiling)


def _table_distances(report: Report) -> list[Sheet]:
    """Returns the tables of distances of marginals, and of other metrics."""
    sheets = [marginal_sheet(report.marginals, report.floor, report.compared_with)]
    if report.metrics:
        floor = report.metrics_floor
        sheets.append(
            comparison_sheet(
                "Other figures",
                printed(report.metrics),
                printed(floor) if floor else None,
                compared_with=report.compared_with,
            )
        )
    return sheets


def _table_scores(report: Report) -> Sheet | None:
    """Returns what classifiers, or regressors, reach on the test table; None where none was scored."""
    if report.regression is not None:
        return regression_sheet(report.regression, report.regression_ceiling)
    if report.downstream is None:
        return None
    return score_sheet(report.downstream, report.ceiling)


def _other_table_sheets(report: Report) -> list[Sheet]:
    """Returns the tables of groups, and of scores as papers print them."""
    sheets = []
    if report.groups is not None:
        sheets += [group_sheet(report.groups), worst_group_sheet(report.groups)]
    if report.downstream is not None and report.downstream.printed:
        sheets.append(printed_score_sheet(report.downstream, report.ceiling))
    return sheets


def _table_rows(report: Report) -> Iterator[FrameRow]:
    """Yields the numbers of a table: scores, distances of marginals, other metrics."""
    scores = report.regression or report.downstream
    ceiling = report.regression_ceiling or report.ceiling
    yield from _score_rows(scores, ceiling)
    yield from _marginal_rows(
        "marginals", report.marginals, compared=_SYNTHETIC_WITH_REAL
    )
    if report.floor is not None:
        yield from _marginal_rows("marginals", report.floor, compared=_TRAIN_WITH_TEST)
    yield from _result_rows("metrics", "metric", report.metrics, report.metrics_floor)


def _linked_rows(report: LinkedReport) -> Iterator[FrameRow]:
    """Yields the numbers of linked tables: those of parents, of each table, of links."""
    yield from _table_rows(report)
    for name, marginals in report.tables.items():
        yield from _marginal_rows(
            "tables", marginals, compared=_SYNTHETIC_WITH_REAL, table=name
        )
    yield from _result_rows("links", "link", report.links, report.links_floor or {})


def _image_rows(report: ImageReport) -> Iterator[FrameRow]:
    """Yields the numbers of images: scores, and distances."""
    yield from _score_rows(report.downstream, report.ceiling)
    floor = {} if report.floor is None else report.floor.results
    yield from _result_rows("distances", "metric", report.distances.results, floor)


def _score_rows(
    scores: UtilityReport | RegressionReport | None,
    ceiling: UtilityReport | RegressionReport | None,
) -> Iterator[FrameRow]:
    """Yields the scores of each model, after training on synthetic and on real records."""
    for trained_on, report in (("synthetic", scores), ("real", ceiling)):
        if report is None:
            continue
        for model, model_scores in report.models.items():
            figures = asdict(model_scores)
            yield "scores", {"trained_on": trained_on, "model": model, **figures}


def _marginal_rows(
    frame: str, marginals: MarginalReport, **first_cells: str
) -> Iterator[FrameRow]:
    """Yields the distances of marginals of each order.

    Args:
        frame: Name of the data frame.
        marginals: The distances.
        first_cells: What each row begins with, by the name of the column.
    """
    for entry in marginals.orders:
        columns = " × ".join(entry.largest_columns)
        yield frame, {**first_cells, **entry.to_json(), "largest_columns": columns}


def _result_rows(
    frame: str,
    name_column: str,
    results: Mapping[str, Any],
    floor: Mapping[str, Any],
) -> Iterator[FrameRow]:
    """Yields every number of some results.

    Args:
        frame: Name of the data frame.
        name_column: Its column for the name of a result.
        results: Those of synthetic and real records, by name.
        floor: Those of two sets of real records, by name.
    """
    compared_results = {_SYNTHETIC_WITH_REAL: results, _TRAIN_WITH_TEST: floor}
    for compared, results_by_name in compared_results.items():
        for name, result in results_by_name.items():
            for figure, value in numbers_in(as_json(result)):
                row = {"figure": figure, "value": value}
                yield frame, {"compared": compared, name_column: name, **row}
