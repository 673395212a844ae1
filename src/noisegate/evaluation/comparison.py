"""What an evaluation found: figures of tables or images, as JSON values, as a page and as a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noisegate.cards import ResultCard, Shown, sheets_of
from noisegate.evaluation.images import ImageDistances
from noisegate.evaluation.metrics.marginals import MarginalReport
from noisegate.evaluation.metrics.result import CAVEAT
from noisegate.evaluation.regression import RegressionReport
from noisegate.evaluation.utility.runner import UtilityReport
from noisegate.evaluation.utility.scores import Scores
from noisegate.evaluation.utility.suites import TWELVE_VERSION
from noisegate.evaluation.verdicts import of_images, of_marginals, of_regression, of_scores
from noisegate.verdict import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationReport(Shown):
    """What synthetic records are worth, measured on real ones.

    Attributes:
        compared_with: the real records that the distances are to, "train" or "test".
        downstream: scores on the test records after training on the synthetic ones; None when there is no usable label.
        ceiling: the same after training on the real training records; None without ``train`` or a usable label.
        notes: what was unusual, in words.
    """

    compared_with: str
    downstream: UtilityReport | None
    ceiling: UtilityReport | None
    notes: tuple[str, ...]

    def _json(self, name: str, distances: Any, floor: Any, scores: Callable[[UtilityReport], Any]) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "compared_with": self.compared_with,
            name: distances.to_json(),
            f"{name}_floor": floor.to_json() if floor else None,
            "downstream": scores(self.downstream) if self.downstream else None,
            "downstream_ceiling": scores(self.ceiling) if self.ceiling else None,
            "verdict": self.verdict.to_json() if self.verdict else None,
            "notes": list(self.notes),
        }

    @property
    def verdict(self) -> Verdict | None:
        """What the figures come to, in words; as little covered by the guarantee as they are."""
        return Verdict.together([part for part in self._judged() if part])

    def _judged(self) -> Iterator[Verdict | None]:
        """What each kind of figure comes to, in words."""
        raise NotImplementedError

    def card(self) -> ResultCard:
        """The figures as a card for a terminal, which has the verdict, or a notebook, which has all."""
        facts = {} if self.verdict is None else {"verdict": self.verdict.headline}
        facts |= {} if self.verdict is None else dict(zip(("because", "and"), self.verdict.reasons, strict=False))
        title = f"{type(self).__name__}: synthetic records against real {self.compared_with} records"
        return ResultCard(title=title, facts=facts, sheets=list(sheets_of(list(self._pages()))), notes=[CAVEAT])

    def _pages(self) -> Iterator[Table]:
        """The figures as tables."""
        yield self._distance_page()
        if self.downstream is not None:
            yield self._score_page(self.downstream)
        yield from self._more_pages()

    def render(self) -> RenderableType:
        """The figures as a page for ``rich.console.Console.print``, with the sentence about the guarantee."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        parts: list[RenderableType] = list(self._pages())
        parts += [Text(f"Note: {note}.") for note in self.notes]
        if self.verdict is not None:
            parts.append(self.verdict.render())
        parts.append(Panel(Text(CAVEAT, style="bold"), border_style="yellow", title="Not private"))
        return Group(*parts)

    def _distance_page(self) -> Table:
        raise NotImplementedError

    def _score_page(self, downstream: UtilityReport) -> Table:
        raise NotImplementedError

    def _more_pages(self) -> Iterator[Table]:
        """Pages of other figures."""
        yield from ()

    def _scored(self, page: Table) -> Iterator[tuple[str, UtilityReport]]:
        """What classifiers were trained on, with their scores; each ends with a gap on the page."""
        for what, scored in (("synthetic", self.downstream), ("real train (ceiling)", self.ceiling)):
            if scored is not None:
                yield what, scored
            page.add_section()


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(EvaluationReport):
    """What a synthetic table is worth, measured on real data.

    Attributes:
        marginals: distances from the synthetic table to that which it is compared with.
        floor: distances between the real training and test table: what sampling alone does. None without ``train``.
        regression: of a numeric label, scores on the test records after training on the synthetic ones; else None.
        regression_ceiling: the same after training on the real training records; None without ``train``.
    """

    marginals: MarginalReport
    floor: MarginalReport | None
    regression: RegressionReport | None = None
    regression_ceiling: RegressionReport | None = None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        both = {"regression": self.regression, "regression_ceiling": self.regression_ceiling}
        told = self._json("marginals", self.marginals, self.floor, UtilityReport.to_json)
        return told | {name: report.to_json() if report else None for name, report in both.items()}

    def _printed_page(self) -> Table:
        title = "As DP-MERF and DP-HP print them: areas under curves of hard predictions, F1 weighted by class"
        page = figures_page(title, "trained on", "model", ">ROC-AUC", ">avg. prec.", ">weighted F1")
        for what, scored in self._scored(page):
            if (mean := scored.printed_mean) is not None:
                values = mean.roc_auc, mean.average_precision, mean.weighted_f1
                page.add_row(what, "mean of the models", *("" if value is None else f"{value:.3f}" for value in values))
        return page

    def _judged(self) -> Iterator[Verdict | None]:
        yield of_marginals(self.marginals)
        if self.downstream is not None:
            yield of_scores(self.downstream, self.ceiling)
        if self.regression is not None:
            yield of_regression(self.regression, self.regression_ceiling)

    def _distance_page(self) -> Table:
        from rich.text import Text

        headings = ["order", ">marginals", f">synthetic vs {self.compared_with}"]
        headings += [">train vs test"] if self.floor else []
        page = figures_page("Marginals: mean total variation distance (0 = the same)", *headings, "largest")
        for entry in self.marginals.orders:
            floor = [] if self.floor is None else [f"{self.floor.order(entry.order).mean:.4f}"]
            used = str(entry.used) if entry.used == entry.total else f"{entry.used} of {entry.total}"
            largest = Text(f"{entry.largest:.4f}  {' × '.join(entry.largest_columns)}")
            page.add_row(f"{entry.order}-way", used, f"{entry.mean:.4f}", *floor, largest)
        return page

    def _score_page(self, downstream: UtilityReport) -> Table:
        def figures(scores: Scores) -> Iterator[str]:
            values = scores.roc_auc, scores.average_precision, scores.f1, scores.accuracy
            return (f"{value:.3f}" for value in values)

        title = f"Models that predict {downstream.label!r} on the test table; {downstream.averaging}"
        title += f"; list {downstream.suite.name!r}, version {downstream.suite.version}"
        page = figures_page(title, "trained on", "model", ">ROC-AUC", ">avg. prec.", ">F1", ">accuracy")
        for what, scored in self._scored(page):
            for model, scores in scored.models.items():
                page.add_row(what, model, *figures(scores))
                if model in scored.spread:
                    page.add_row(what, "± over its starts", *figures(scored.spread[model]), style="dim")
            if scored.deviation is not None:
                page.add_row(what, "mean of the models", *figures(scored.mean), style="bold")
                page.add_row(what, "± over the models", *figures(scored.deviation))
        return page

    def _more_pages(self) -> Iterator[Table]:
        if self.downstream is not None and self.downstream.printed:
            yield self._printed_page()
        if self.regression is None:
            return
        title = f"Regressors that predict {self.regression.label!r} on the test table"
        page = figures_page(title, "trained on", "model", ">R²", ">absolute error / range")
        for what, scored in (("synthetic", self.regression), ("real train (ceiling)", self.regression_ceiling)):
            for model, scores in scored.models.items() if scored else ():
                page.add_row(what, model, f"{scores.r2:.3f}", f"{scores.absolute_error:.4f}")
            page.add_section()
        yield page


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageReport(EvaluationReport):
    """What synthetic images are worth, measured on real ones.

    Attributes:
        distances: between the synthetic images and those which they are compared with.
        floor: between the real training and test images: what sampling alone does. None without ``train``.
    """

    distances: ImageDistances
    floor: ImageDistances | None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""

        def scores(report: UtilityReport) -> dict[str, object]:
            return {**report.to_image_json(), "twelve_version": TWELVE_VERSION}

        return self._json("distances", self.distances, self.floor, scores)

    def _distance_page(self) -> Table:
        from rich.text import Text

        headings = [f">synthetic vs {self.compared_with}", *([">train vs test"] if self.floor else [])]
        page = figures_page("Images in features of both, and bins of pixels", "figure", *headings)
        columns = [one.page() for one in (self.distances, self.floor) if one]
        for name in columns[0]:
            page.add_row(Text(name), *(column.get(name, "") for column in columns))
        return page

    def _score_page(self, downstream: UtilityReport) -> Table:
        title = "Classifiers tested on the test images; networks chosen by held-out images of their own source"
        page = figures_page(title, "trained on", "model", ">accuracy", ">F1", ">ROC-AUC")
        for what, scored in self._scored(page):
            for model, scores in scored.models.items():
                page.add_row(what, model, f"{scores.accuracy:.4f}", f"{scores.f1:.4f}", f"{scores.roc_auc:.4f}")
        return page

    def _judged(self) -> Iterator[Verdict | None]:
        if self.downstream is not None:
            yield of_images(self.downstream, self.ceiling)


def figures_page(title: str, *headings: str) -> Table:
    """A page with a title and columns; those that start with ">" are figures."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    page = Table(title=Text(title, style="italic"), title_justify="left", box=box.SIMPLE_HEAD)
    page.show_edge, page.padding = False, (0, 1, 0, 0)  # six columns fit into 80 letters
    for heading in headings:
        page.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=heading in ("trained on", "model"),
        )
    return page
