"""What an evaluation found: figures of tables or images, as JSON values, as a page and as a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

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
from noisegate_evaluate.metrics.result import CAVEAT, MetricResult, as_json, numbers_in
from noisegate_evaluate.metrics.weighted import WeightedFigures
from noisegate_evaluate.tables import RegressionReport
from noisegate_evaluate.utility.runner import UtilityReport
from noisegate_evaluate.utility.suites import TWELVE_VERSION

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


_MADE, _FLOOR = "synthetic with real", "train with test"  # what was compared
_STYLES = {"mean of the models": "bold", "± over its starts": "dim"}


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationReport(Shown):
    """What synthetic records are worth, measured on real ones; ``compared_with`` says which, "train" or "test".

    ``downstream`` and ``ceiling`` are scores on the test records after training on synthetic and on real ones; None
    without a usable label, or without ``train``. ``fitted`` is what the fit said, where records are drawn from a model.
    ``questions`` are those that apply to such records: the verdict answers them, and says which are not known.
    """

    compared_with: str
    downstream: UtilityReport | None
    ceiling: UtilityReport | None
    notes: tuple[str, ...]
    fitted: Verdict | None = None
    questions: tuple[Question, ...] = ()

    def _judged(self) -> Iterator[Verdict | None]:
        """What each kind of figure comes to, in words."""
        raise NotImplementedError

    def _distances(self) -> Iterator[Sheet]:
        """The distances as tables; headings that start with ">" are of figures."""
        raise NotImplementedError

    def scores(self) -> Sheet | None:
        """Returns what models reach on the test records; None where none was scored."""
        raise NotImplementedError

    def _more(self) -> Iterator[Sheet]:
        """Tables of other figures."""
        yield from ()

    def _json(self, **figures: Any) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        told = {
            "caveat": CAVEAT,
            "compared_with": self.compared_with,
            **figures,
            "verdict": self.verdict,
        }
        return {**as_json(told), "notes": list(self.notes)}

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The figures as rows, each with the name of its table."""
        raise NotImplementedError

    def to_frames(self) -> dict[str, Any]:
        """Returns the figures of the page, not rounded, as tables by name: "scores", and those of the distances.

        A table is a data frame of pandas, or of Polars where that alone is installed; else one of PyArrow. A row says
        what was ``compared``: synthetic records with real ones, or the real training with the test records.

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
        rows: dict[str, list[dict[str, Any]]] = {}
        for name, row in self._rows():
            rows.setdefault(name, []).append(row)
        tables = {name: pa.Table.from_pylist(several) for name, several in rows.items()}
        if installed("pandas"):
            return {name: table.to_pandas() for name, table in tables.items()}
        if installed("polars"):
            import polars as pl

            return {name: pl.from_arrow(table) for name, table in tables.items()}
        return tables

    @property
    def verdict(self) -> Verdict | None:
        """What the figures come to, in words and by question; as little covered by the guarantee as they are."""
        verdict = Verdict.together([part for part in self._judged() if part])
        if verdict is None:
            return lowered(None, self.fitted)
        measured = [finding.question for finding in verdict.findings]
        questions = [*self.questions, *measured]
        return lowered(verdict.answering(questions, unmeasured_findings()), self.fitted)

    def _sheets(self) -> Iterator[Sheet]:
        yield from self._distances()
        if (scores := self.scores()) is not None:
            yield scores
        yield from self._more()

    def card(self) -> ResultCard:
        """The figures as a card for a terminal, which has the verdict, or a notebook, which has all."""
        facts = {}
        if (verdict := self.verdict) is not None:
            facts = {"verdict": verdict.headline} | dict(
                zip(("because", "and"), verdict.reasons, strict=False)
            )
        sheets = []
        for sheet in self._sheets():
            headings = [heading.removeprefix(">") for heading in sheet.headings]
            sheets.append(
                replace(
                    sheet, headings=headings, rows=[row for row in sheet.rows if row]
                )
            )
        title = f"{type(self).__name__}: synthetic records against real {self.compared_with} records"
        return ResultCard(title=title, facts=facts, sheets=sheets, notes=[CAVEAT])

    def render(self) -> RenderableType:
        """The figures as a page for ``rich.console.Console.print``, with the sentence about the guarantee."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        parts: list[RenderableType] = list(map(_table, self._sheets()))
        parts += [Text(f"Note: {note}.") for note in self.notes]
        if self.verdict is not None:
            parts.append(self.verdict.render())
        parts.append(
            Panel(
                Text(CAVEAT, style="bold"), border_style="yellow", title="Not private"
            )
        )
        return Group(*parts)


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(EvaluationReport):
    """What a synthetic table is worth, measured on real data."""

    marginals: MarginalReport
    """Distances from the synthetic table to that which it is compared with."""
    floor: MarginalReport | None
    """Distances between the real training and test table: what sampling alone does. None without ``train``."""
    metrics: Mapping[str, MetricResult | None] = field(default_factory=dict)
    """Results of other metrics of tables, by name; those of installed packages."""
    metrics_floor: Mapping[str, MetricResult | None] = field(default_factory=dict)
    """The same between the real tables; empty without ``train``."""
    regression: RegressionReport | None = None
    """Of a numeric label, scores on the test records after training on the synthetic ones; else None."""
    regression_ceiling: RegressionReport | None = None
    """The same after training on the real training records; None without ``train``."""
    groups: Groups | None = None
    """Figures of each group of a column; None without ``by``."""

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with the sentence that they are outside the guarantee."""
        told = self._json(
            marginals=self.marginals,
            marginals_floor=self.floor,
            downstream=self.downstream,
            downstream_ceiling=self.ceiling,
        )
        more = {
            "regression": self.regression,
            "regression_ceiling": self.regression_ceiling,
        }
        several = (
            {"metrics": self.metrics, "metrics_floor": self.metrics_floor}
            if self.metrics
            else {}
        )
        groups = {} if self.groups is None else {"groups": self.groups.to_json()}
        return {**told, **as_json(more | several | groups)}

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from _score_rows(
            self.regression or self.downstream, self.regression_ceiling or self.ceiling
        )
        yield from _order_rows("marginals", self.marginals, compared=_MADE)
        yield from _order_rows("marginals", self.floor, compared=_FLOOR)
        yield from _numbered("metrics", "metric", self.metrics, self.metrics_floor)

    def _judged(self) -> Iterator[Verdict | None]:
        yield of_marginals(self.marginals)
        yield from of_number(self.marginals)
        yield from of_analyses(self.metrics)
        yield from of_rules(self.metrics)
        yield of_more(self.metrics)
        weighted = self.metrics.get(WeightedFigures.METRIC)
        if isinstance(weighted, WeightedFigures):
            yield weighted.verdict()
        if self.groups is not None:
            yield from self.groups.verdicts()
        yield from self._judged_models()

    def _judged_models(self) -> Iterator[Verdict | None]:
        yield of_models("ROC-AUC", "roc_auc", 0.5, self.downstream, self.ceiling)
        yield of_models("R²", "r2", 0.0, self.regression, self.regression_ceiling)

    def _distances(self) -> Iterator[Sheet]:
        headings = ["order", ">marginals", f">synthetic vs {self.compared_with}"]
        headings += [">train vs test"] if self.floor else []
        rows = []
        for entry in self.marginals.orders:
            floor = (
                []
                if self.floor is None
                else [f"{self.floor.order(entry.order).mean:.4f}"]
            )
            used = (
                str(entry.used)
                if entry.used == entry.total
                else f"{entry.used} of {entry.total}"
            )
            largest = f"{entry.largest:.4f}  {' × '.join(entry.largest_columns)}"
            rows.append(
                [f"{entry.order}-way", used, f"{entry.mean:.4f}", *floor, largest]
            )
        title = "Marginals: mean total variation distance (0 = the same)"
        yield Sheet(title=title, headings=[*headings, "largest"], rows=rows)
        if self.metrics:
            shown = [printed(each) for each in (self.metrics, self.metrics_floor)]
            yield _compared(
                "Other figures",
                self.compared_with,
                *shown,
                floored=bool(self.metrics_floor),
            )

    def scores(self) -> Sheet | None:
        """Returns what classifiers, or regressors, reach on the test table; None where none was scored."""
        if self.regression is not None:
            title = (
                f"Regressors that predict {self.regression.label!r} on the test table"
            )
            figures = {"R²": ("r2", 3), "absolute error / range": ("absolute_error", 4)}
            return _score_sheet(
                title, figures, self.regression, self.regression_ceiling
            )
        if self.downstream is None:
            return None
        suite = self.downstream.suite
        title = f"Models that predict {self.downstream.label!r} on the test table; {self.downstream.averaging}"
        figures = {
            "ROC-AUC": ("roc_auc", 3),
            "avg. prec.": ("average_precision", 3),
            "F1": ("f1", 3),
        }
        figures["accuracy"] = ("accuracy", 3)
        title += f"; list {suite.name!r}, version {suite.version}"
        return _score_sheet(title, figures, self.downstream, self.ceiling, spread=True)

    def _more(self) -> Iterator[Sheet]:
        if self.groups is not None:
            yield sheet_of_groups(self.groups)
            yield sheet_of_worst_groups(self.groups)
        both = {"synthetic": self.downstream, "real train (ceiling)": self.ceiling}
        means = {
            what: scored.printed_mean
            for what, scored in both.items()
            if scored is not None
        }
        if self.downstream is not None and self.downstream.printed:
            yield Sheet(
                title="As DP-MERF and DP-HP print them: areas under curves of hard predictions, F1 weighted by class",
                headings=(
                    "trained on",
                    "model",
                    ">ROC-AUC",
                    ">avg. prec.",
                    ">weighted F1",
                ),
                rows=[
                    [what, "mean of the models"]
                    + [
                        "" if one is None else f"{one:.3f}"
                        for one in (mean.roc_auc, mean.average_precision)
                    ]
                    + [f"{mean.weighted_f1:.3f}"]
                    for what, mean in means.items()
                    if mean is not None
                ],
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedReport(Report):
    """What synthetic linked tables are worth, measured on real ones.

    As a `Report` it is of the parents, each beside what its children come to: distances between these tables, and
    scores of models that predict the label of the first table from all of this.
    """

    tables: Mapping[str, MarginalReport]
    """Distances of each table by itself, by name; none of a table that has no rows on one side."""
    links: Mapping[str, LinkDistances]
    """Distances of each link, by the name of the children's table."""
    links_floor: Mapping[str, LinkDistances] | None
    """The same between the real training and test tables: what sampling alone does. None without ``train``."""
    missing: Mapping[str, MissingTogether] = field(default_factory=dict)
    """How values of each table are missing together, by name; only of tables where real ones are."""

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with the sentence that they are outside the guarantee."""
        several = {
            "tables": self.tables,
            "links": self.links,
            "links_floor": self.links_floor,
        }
        return {**super().to_json(), **as_json(several)}

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from super()._rows()
        for name, marginals in self.tables.items():
            yield from _order_rows("tables", marginals, compared=_MADE, table=name)
        yield from _numbered("links", "link", self.links, self.links_floor or {})

    def _judged(self) -> Iterator[Verdict | None]:
        """Tables, links and what models learn; the sums over children are what these learn from."""
        for name, marginals in self.tables.items():
            yield of_marginals(marginals, name)
        for name, link in self.links.items():
            pairs = {
                f"parents and {name}": link.parent_child,
                f"successive {name}": link.transitions,
            }
            for what, distance in pairs.items():
                if distance is not None:
                    yield of_distance(distance, f"a pair of columns of {what}")
        has_rules = "relations and rules" in self.questions
        yield of_linked(
            self.links,
            self.missing,
            self.metrics,
            {
                name: table.rows[0]
                for name, table in self.tables.items()
                if has_rules and name in self.links
            },
        )
        yield from self._judged_models()

    def _more(self) -> Iterator[Sheet]:
        for name, link in self.links.items():
            floor = dict(self.links_floor[name].lines()) if self.links_floor else {}
            ours, least = (
                {what: figure for what, (figure, _) in one.items()}
                for one in (dict(link.lines()), floor)
            )
            title = f"{name} and their parents (0 = the same)"
            sheet = _compared(
                title, self.compared_with, ours, least, floored=bool(floor)
            )
            rows = [
                [*row, largest]
                for row, (_, (_, largest)) in zip(sheet.rows, link.lines(), strict=True)
            ]
            yield replace(sheet, headings=[*sheet.headings, "largest"], rows=rows)
        yield from super()._more()


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageReport(EvaluationReport):
    """What synthetic images are worth, measured on real ones."""

    distances: ImageDistances
    """Between the synthetic images and those which they are compared with."""
    floor: ImageDistances | None
    """Between the real training and test images: what sampling alone does. None without ``train``."""

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with the sentence that they are outside the guarantee."""
        both = {"downstream": self.downstream, "downstream_ceiling": self.ceiling}
        scores = {
            name: None
            if one is None
            else one.to_image_json() | {"twelve_version": TWELVE_VERSION}
            for name, one in both.items()
        }
        return self._json(
            distances=self.distances, distances_floor=self.floor, **scores
        )

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from _score_rows(self.downstream, self.ceiling)
        yield from _numbered(
            "distances",
            "metric",
            self.distances.results,
            self.floor.results if self.floor else {},
        )

    def _judged(self) -> Iterator[Verdict | None]:
        yield of_models("accuracy", "accuracy", 0.0, self.downstream, self.ceiling)

    def _distances(self) -> Iterator[Sheet]:
        title, floor = "Images in features of both, and bins of pixels", self.floor
        shown = self.distances.page(), floor.page() if floor else {}
        yield _compared(title, self.compared_with, *shown, floored=floor is not None)

    def scores(self) -> Sheet | None:
        """Returns what classifiers reach on the test images; None where none was scored."""
        if self.downstream is None:
            return None
        title = "Classifiers tested on the test images; networks chosen by held-out images of their own source"
        figures = {
            "accuracy": ("accuracy", 4),
            "F1": ("f1", 4),
            "ROC-AUC": ("roc_auc", 4),
        }
        return _score_sheet(title, figures, self.downstream, self.ceiling)


def sheet_of_groups(groups: Groups) -> Sheet:
    """Returns a table of the groups of a column, and the mean over them."""
    has_scores = groups.score is not None
    headings = [
        groups.column,
        ">real records",
        ">share of real",
        ">of synthetic",
        ">error of pairs",
        ">associations kept",
        "mean farthest off",
        "quantile farthest off",
    ]
    if has_scores:
        headings += [f">{groups.score}", ">of real train"]
    rows = []
    for group in groups.groups:
        row = [
            group.level,
            f"{group.records:,}",
            f"{group.real_share:.1%}",
            f"{group.share:.1%}",
        ]
        if group.is_too_small:
            row += ["too few records", "", "", ""]
        else:
            row += [
                "" if group.pairs is None else f"{group.pairs:.4f}",
                ""
                if group.associations_kept is None
                else f"{group.associations_kept:.0%}",
                ""
                if group.mean is None
                else f"{group.mean.error:.2f} SD ({group.mean.column})",
                ""
                if group.quantile is None
                else f"{group.quantile.error:.3f} ({group.quantile.column}, {group.quantile.what.split()[0]})",
            ]
        if has_scores:
            score = group.score
            row += (
                ["", ""]
                if score is None
                else [f"{score.synthetic:.3f}", f"{score.real:.3f}"]
            )
        rows.append(row)
    return Sheet(
        title=f"By {groups.column}; errors are beyond sampling error",
        headings=headings,
        rows=rows,
    )


def sheet_of_worst_groups(groups: Groups) -> Sheet:
    """Returns a table of the worst group by each figure, beside the mean over groups."""
    titles = {
        "pairs": "total variation error of a pair of columns",
        "associations_lost": "part lost of strong associations",
        "mean": "mean farthest off, in standard deviations",
        "quantile": "quantile farthest off, in rank",
        "score_lost": f"{groups.score} lost by learning from synthetic records",
    }
    rows = [
        (
            titles[figure],
            worst.group.level if worst.error > 0 else "none",
            f"{worst.error:.3f}",
            f"{worst.mean_error:.3f}",
        )
        for figure, worst in groups.worst.items()
    ]
    return Sheet(
        title=f"By {groups.column}: the worst group beside the mean over groups",
        headings=("error", "worst group", ">its error", ">mean over groups"),
        rows=rows,
    )


def _score_rows(made: Any, real: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for what, scored in (("synthetic", made), ("real", real)):
        for model, scores in scored.models.items() if scored is not None else ():
            yield "scores", {"trained_on": what, "model": model, **asdict(scores)}


def _order_rows(
    frame: str, marginals: MarginalReport | None, **told: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in marginals.orders if marginals is not None else ():
        yield (
            frame,
            {
                **told,
                **entry.to_json(),
                "largest_columns": " × ".join(entry.largest_columns),
            },
        )


def _numbered(
    frame: str, kind: str, ours: Mapping[str, Any], floor: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every number of results by name as a row of a table, of what was compared and of which ``kind``."""
    for compared, results in ((_MADE, ours), (_FLOOR, floor)):
        for name, result in results.items():
            for figure, value in numbers_in(as_json(result)):
                yield (
                    frame,
                    {
                        "compared": compared,
                        kind: name,
                        "figure": figure,
                        "value": value,
                    },
                )


def printed(results: Mapping[str, MetricResult | None]) -> dict[str, str]:
    """Returns the figures of several metrics as they are printed, by what each is called."""
    return {
        what: told
        for name, one in results.items()
        if one
        for what, told in one.page(name).items()
    }


def _compared(
    title: str,
    real: str,
    ours: Mapping[str, str],
    floor: Mapping[str, str],
    *,
    floored: bool,
) -> Sheet:
    """Returns figures of the synthetic records, beside those of two sets of real ones where there are any."""
    headings = [
        "figure",
        f">synthetic vs {real}",
        *([">train vs test"] if floored else []),
    ]
    rows = [
        [name, told, *([floor.get(name, "")] if floored else [])]
        for name, told in ours.items()
    ]
    return Sheet(title=title, headings=headings, rows=rows)


def _score_sheet(
    title: str,
    figures: Mapping[str, tuple[str, int]],
    made: Any,
    real: Any,
    *,
    spread: bool = False,
) -> Sheet:
    """Returns the scores of models trained on both; ``figures`` has the attribute and the digits of each column."""
    rows: list[list[str]] = []

    def add(what: str, model: str, scores: Any) -> None:
        rows.append(
            [
                what,
                model,
                *(
                    f"{getattr(scores, name):.{digits}f}"
                    for name, digits in figures.values()
                ),
            ]
        )

    for what, scored in (("synthetic", made), ("real train (ceiling)", real)):
        for model, scores in scored.models.items() if scored is not None else ():
            add(what, model, scores)
            if spread and model in scored.spread:
                add(what, "± over its starts", scored.spread[model])
        if spread and scored is not None and scored.deviation is not None:
            add(what, "mean of the models", scored.mean)
            add(what, "± over the models", scored.deviation)
        rows.append([])
    return Sheet(
        title=title,
        headings=("trained on", "model", *(f">{name}" for name in figures)),
        rows=rows,
    )


def _table(sheet: Sheet) -> Table:
    """Returns a sheet for a terminal; an empty row is a gap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    page = Table(
        title=Text(sheet.title, style="italic"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    page.show_edge, page.padding = (
        False,
        (0, 1, 0, 0),
    )  # six columns fit into 80 letters
    for heading in sheet.headings:
        page.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=heading in ("trained on", "model"),
        )
    for row in sheet.rows:
        if not row:
            page.add_section()
        else:
            page.add_row(*map(Text, row), style=_STYLES.get(row[1]))
    return page
