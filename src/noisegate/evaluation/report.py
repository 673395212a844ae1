"""The evaluation of synthetic records against real ones, as figures, JSON and a terminal page: of tables and images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from noisegate.evaluation.features import EncoderFeatures, ImageFeatures
from noisegate.evaluation.images import IMAGES, ImageDistances, check_images, find_pixels, image_distances, image_form
from noisegate.evaluation.metrics.marginals import MarginalReport, marginal_distances
from noisegate.evaluation.metrics.result import CAVEAT
from noisegate.evaluation.tables import downstream_scores, unscorable
from noisegate.evaluation.utility.network_settings import NetworkOptions
from noisegate.evaluation.utility.recipe import LabelledRows, Suite
from noisegate.evaluation.utility.runner import Progress, UtilityReport, utility_scores
from noisegate.evaluation.utility.scores import Scores
from noisegate.evaluation.utility.suites import TWELVE_VERSION, read_classifiers, read_suite
from noisegate.records import Images
from noisegate.schema import Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class _Comparison:
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
            "notes": list(self.notes),
        }

    def render(self) -> RenderableType:
        """The figures as a page for ``rich.console.Console.print``, with the sentence about the guarantee."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        parts: list[RenderableType] = [self._distance_page()]
        if self.downstream is not None:
            parts.append(self._score_page(self.downstream))
        parts += [Text(f"Note: {note}.") for note in self.notes]
        parts.append(Panel(Text(CAVEAT, style="bold"), border_style="yellow", title="Not private"))
        return Group(*parts)

    def _distance_page(self) -> Table:
        raise NotImplementedError

    def _score_page(self, downstream: UtilityReport) -> Table:
        raise NotImplementedError

    def _scored(self, page: Table) -> Iterator[tuple[str, UtilityReport]]:
        """What classifiers were trained on, with their scores; each ends with a gap on the page."""
        for what, scored in (("synthetic", self.downstream), ("real train (ceiling)", self.ceiling)):
            if scored is not None:
                yield what, scored
            page.add_section()


@dataclass(frozen=True, kw_only=True)
class Report(_Comparison):
    """What a synthetic table is worth, measured on real data.

    Attributes:
        marginals: distances from the synthetic table to that which it is compared with.
        floor: distances between the real training and test table: what sampling alone does. None without ``train``.
    """

    marginals: MarginalReport
    floor: MarginalReport | None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        return self._json("marginals", self.marginals, self.floor, UtilityReport.to_json)

    def _distance_page(self) -> Table:
        from rich.text import Text

        headings = ["order", ">marginals", f">synthetic vs {self.compared_with}"]
        headings += [">train vs test"] if self.floor else []
        page = _table("Marginals: mean total variation distance (0 = the same)", *headings, "largest")
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
        page = _table(title, "trained on", "model", ">ROC-AUC", ">avg. prec.", ">F1", ">accuracy")
        for what, scored in self._scored(page):
            for model, scores in scored.models.items():
                page.add_row(what, model, *figures(scores))
                if model in scored.spread:
                    page.add_row(what, "± over its starts", *figures(scored.spread[model]), style="dim")
            if scored.deviation is not None:
                page.add_row(what, "mean of the models", *figures(scored.mean), style="bold")
                page.add_row(what, "± over the models", *figures(scored.deviation))
        return page


@dataclass(frozen=True, kw_only=True)
class ImageReport(_Comparison):
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
        page = _table("Images in features of both, and bins of pixels", "figure", *headings)
        columns = [one.page() for one in (self.distances, self.floor) if one]
        for name in columns[0]:
            page.add_row(Text(name), *(column.get(name, "") for column in columns))
        return page

    def _score_page(self, downstream: UtilityReport) -> Table:
        title = "Classifiers tested on the test images; networks chosen by held-out images of their own source"
        page = _table(title, "trained on", "model", ">accuracy", ">F1", ">ROC-AUC")
        for what, scored in self._scored(page):
            for model, scores in scored.models.items():
                page.add_row(what, model, f"{scores.accuracy:.4f}", f"{scores.f1:.4f}", f"{scores.roc_auc:.4f}")
        return page


def evaluate(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    train: pa.Table | None = None,
    seed: int = 0,
    classifiers: str | Suite = "three",
    networks: NetworkOptions | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measure a synthetic table against real data.

    Args:
        synthetic: the synthetic table.
        test: real records that the synthetic table was not made from.
        schema: columns and label.
        train: the real records that it was made from. Given, marginals are compared with them, and the report also
            says how the real training table does: the ceiling of the scores and the floor of the distances.
        seed: of the models and of the draw of 3-way marginals.
        classifiers: "three", or the "twelve" of the papers, which take minutes on a large table; for tables of pixels
            "networks", or some of them separated by commas, as in "convnet,mlp"; or a suite.
        networks: for networks: the shape of the images, fresh starts, epochs, device; None for the defaults.
        jobs: for "twelve" and networks: processes; default: the cores that may be used.
        progress: told after each classifier: its name, how many are done, and how many there will be with those of the
            ceiling.

    Returns:
        The report. Its figures are computed on real data and are not covered by the guarantee.

    Raises:
        DataError: a table has no rows or lacks a column.
        OptionError: ``classifiers`` is no such choice, ``jobs`` is below 1, or the columns are no images.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    suite = read_suite(classifiers, networks) if isinstance(classifiers, str) else classifiers
    if suite.name == "networks":
        find_pixels(schema, networks.image if networks else None)

    def scores(table: pa.Table, told: Progress | None) -> UtilityReport:
        return downstream_scores(
            table, test, schema, seed=seed, classifiers=suite, networks=networks, jobs=jobs, progress=told
        )

    return Report(
        **_scores((synthetic, train), "table", unscorable(test, schema), suite, scores, progress),
        marginals=marginal_distances(synthetic, test if train is None else train, schema, seed=seed),
        floor=None if train is None else marginal_distances(train, test, schema, seed=seed),
    )


def evaluate_images(
    synthetic: Images,
    test: Images,
    schema: Schema,
    train: Images | None = None,
    *,
    classifiers: Suite | None = None,
    features: ImageFeatures | None = None,
    images: int = IMAGES,
    seed: int = 0,
    progress: Progress | None = None,
) -> ImageReport:
    """Measure synthetic images against real ones.

    Args:
        synthetic: the synthetic images.
        test: real images that the synthetic ones were not made from.
        schema: of images.
        train: the real images that they were made from. Given, distances are to them, and the report also says how the
            real training images do: the ceiling of the scores and the floor of the distances.
        classifiers: what is trained, of :func:`~noisegate.evaluation.utility.suites.read_classifiers`; None for the
            CNN.
        features: what distances are measured in; None for the encoder in the package.
        images: the most images of each set that distances are measured on.
        seed: of classifiers and draws; public.
        progress: told after each epoch and each training, with those of the ceiling.

    Returns:
        The report. Its figures are computed on real data and are not covered by the guarantee.

    Raises:
        SchemaError: the schema is not one of images.
        DataError: a set is empty or does not have the form of the schema.
        ModelError: the encoder in the package cannot be read.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    form, suite = image_form(schema), classifiers or read_classifiers("cnn")
    for what, several in (("synthetic", synthetic), ("test", test), ("train", train)):
        if several is not None:
            check_images(several, what, form)
    suite.check_installed()
    space = features or EncoderFeatures()
    distances = image_distances(synthetic, test if train is None else train, space, images=images, seed=seed)
    floor = None if train is None else image_distances(train, test, space, images=images, seed=seed)

    def scores(some: Images, told: Progress | None) -> UtilityReport:
        rows, real = (LabelledRows(features=each.pixels, labels=each.codes[:, 0]) for each in (some, test))
        return utility_scores(suite, rows, real, classes=len(form.labels), seed=seed, jobs=1, progress=told)

    found = 0 if test.labels is None else len(np.unique(test.labels))
    reason = f"the test images have {found} class(es); scores need at least 2" if found < 2 else ""
    reason = "the images have no labels" if test.labels is None else reason
    return ImageReport(
        **_scores((synthetic, train), "images", reason, suite, scores, progress), distances=distances, floor=floor
    )


def _scores(
    sets: tuple[Any, Any],
    kind: str,
    reason: str,
    suite: Suite,
    scores: Callable[[Any, Progress | None], UtilityReport],
    progress: Progress | None,
) -> dict[str, Any]:
    """Scores after training on the synthetic and on the real records; none where there is a reason against them."""
    made, train = sets
    compared = {"compared_with": "test" if train is None else "train", "downstream": None, "ceiling": None}
    if reason:
        return {**compared, "notes": (f"no downstream scores, because {reason}",)}
    total = suite.count * (1 if train is None else 2)

    def counted(before: int) -> Progress | None:
        """Count on from the classifiers of an earlier set."""
        return None if progress is None else lambda name, done, _: progress(name, before + done, total)

    first = scores(made, counted(0))
    second = None if train is None else scores(train, counted(suite.count))
    notes = tuple(
        f"trained on the {what} {kind}: {note}"
        for what, report in (("synthetic", first), ("real", second))
        for note in (report.notes if report else ())
    )
    return {**compared, "downstream": first, "ceiling": second, "notes": notes}


def _table(title: str, *headings: str) -> Table:
    """A page with a title and columns; those that start with ">" are figures."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    page = Table(title=Text(title, style="italic"), title_justify="left", box=box.SIMPLE_HEAD)
    for heading in headings:
        page.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=heading in ("trained on", "model"),
        )
    return page
