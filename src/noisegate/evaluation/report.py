"""The evaluation of a synthetic table against real ones, as figures, JSON and a terminal page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.choice import read_choice
from noisegate.evaluation.downstream import DownstreamReport, downstream_scores, unscorable
from noisegate.evaluation.images import find_pixels
from noisegate.evaluation.marginals import MarginalReport, marginal_distances
from noisegate.evaluation.networks_report import NetworkOptions
from noisegate.evaluation.protocol import Progress
from noisegate.evaluation.scores import Scores
from noisegate.schema import Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a synthetic table is worth, measured on real data.

    Attributes:
        compared_with: the real table that the marginals were compared with, "train" or "test".
        marginals: distances from the synthetic to that table.
        floor: distances from the real training to the test table: what sampling alone does. None without ``train``.
        downstream: scores on the test table after training on the synthetic one; None when there is no usable label.
        ceiling: the same after training on the real training table; None without ``train`` or a usable label.
        notes: what was unusual, in words.
    """

    compared_with: str
    marginals: MarginalReport
    floor: MarginalReport | None
    downstream: DownstreamReport | None
    ceiling: DownstreamReport | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "compared_with": self.compared_with,
            "marginals": self.marginals.to_json(),
            "marginals_floor": self.floor.to_json() if self.floor else None,
            "downstream": self.downstream.to_json() if self.downstream else None,
            "downstream_ceiling": self.ceiling.to_json() if self.ceiling else None,
            "notes": list(self.notes),
        }

    def render(self) -> RenderableType:
        """The figures as a page for ``rich.console.Console.print``, with the same sentence."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        parts: list[RenderableType] = [self._marginal_table()]
        if self.downstream is not None:
            parts.append(_downstream_table(self.downstream, self.ceiling))
        parts += [Text(f"Note: {note}.") for note in self.notes]
        parts.append(Panel(Text(CAVEAT, style="bold"), border_style="yellow", title="Not private"))
        return Group(*parts)

    def _marginal_table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        page = Table(
            title="Marginals: mean total variation distance (0 = the same)", title_justify="left", box=box.SIMPLE_HEAD
        )
        page.add_column("order")
        page.add_column("marginals", justify="right")
        page.add_column(f"synthetic vs {self.compared_with}", justify="right")
        if self.floor is not None:
            page.add_column("train vs test", justify="right")
        page.add_column("largest")
        for entry in self.marginals.orders:
            floor = [] if self.floor is None else [f"{self.floor.order(entry.order).mean:.4f}"]
            used = str(entry.used) if entry.used == entry.total else f"{entry.used} of {entry.total}"
            largest = Text(f"{entry.largest:.4f}  {' × '.join(entry.largest_columns)}")
            page.add_row(f"{entry.order}-way", used, f"{entry.mean:.4f}", *floor, largest)
        return page


def evaluate(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    train: pa.Table | None = None,
    seed: int = 0,
    classifiers: str = "three",
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
            "networks", or some of them separated by commas, as in "convnet,mlp".
        networks: for networks: the shape of the images, fresh starts, epochs, device; None for the defaults.
        jobs: for "twelve" and networks: processes; default: the cores that may be used.
        progress: told after each classifier: its name, how many are done, and how many there will be with those of the
            ceiling.

    Returns:
        The report. Its figures are computed on real data and are not covered by the guarantee.

    Raises:
        DataError: a table has no rows or lacks a column.
        OptionError: ``classifiers`` is no such choice, ``jobs`` is below 1, or the columns are no images.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    choice, options = read_choice(classifiers), networks or NetworkOptions()
    if choice.networks:
        find_pixels(schema, options.image)
    count = choice.count(options.repeats)
    reference = test if train is None else train
    reason = unscorable(test, schema)
    trained = [None if reason else synthetic, None if reason else train]
    downstream, ceiling = (
        None
        if table is None
        else downstream_scores(
            table,
            test,
            schema,
            seed=seed,
            classifiers=classifiers,
            networks=options,
            jobs=jobs,
            progress=_offset(progress, turn * count, (2 - trained.count(None)) * count),
        )
        for turn, table in enumerate(trained)
    )
    notes: tuple[str, ...] = (f"no downstream scores, because {reason}",) if reason else ()
    for what, scored in (("synthetic", downstream), ("real", ceiling)):
        notes += tuple(f"trained on the {what} table: {note}" for note in (scored.notes if scored else ()))
    return Report(
        compared_with="test" if train is None else "train",
        marginals=marginal_distances(synthetic, reference, schema, seed=seed),
        floor=None if train is None else marginal_distances(train, test, schema, seed=seed),
        downstream=downstream,
        ceiling=ceiling,
        notes=notes,
    )


def _offset(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Count on from the classifiers of an earlier table."""
    return None if progress is None else lambda name, done, _: progress(name, before + done, total)


def _downstream_table(downstream: DownstreamReport, ceiling: DownstreamReport | None) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = Text(f"Models that predict {downstream.label!r} on the test table; {downstream.averaging}", style="italic")
    page = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    page.add_column("trained on", no_wrap=True)
    page.add_column("model", no_wrap=True)
    for name in ("ROC-AUC", "avg. prec.", "F1", "accuracy"):
        page.add_column(name, justify="right")
    for what, scored in (("synthetic", downstream), ("real train (ceiling)", ceiling)):
        if scored is None:
            continue
        for model, scores in scored.models.items():
            page.add_row(what, model, *_figures(scores))
            if model in scored.spread:
                page.add_row(what, "± over its starts", *_figures(scored.spread[model]), style="dim")
        if scored.deviation is not None:
            page.add_row(what, "mean of the models", *_figures(scored.mean), style="bold")
            page.add_row(what, "± over the models", *_figures(scored.deviation))
        page.add_section()
    return page


def _figures(scores: Scores) -> tuple[str, ...]:
    return tuple(f"{value:.3f}" for value in (scores.roc_auc, scores.average_precision, scores.f1, scores.accuracy))
