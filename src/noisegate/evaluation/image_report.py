"""The evaluation of synthetic images against real ones, as figures, JSON and a terminal page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import SchemaError
from noisegate.evaluation.bins import bins_name
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.frechet import frechet_name
from noisegate.evaluation.image_classifiers import ImageClassifiers, ImageScores, image_scores, read_classifiers
from noisegate.evaluation.image_distances import IMAGES, ImageDistances, image_distances
from noisegate.evaluation.image_features import EncoderFeatures, ImageFeatures, Pixels
from noisegate.evaluation.image_reading import ImageSet
from noisegate.evaluation.kid import kernel_name
from noisegate.evaluation.prd import prd_name
from noisegate.evaluation.protocol import Progress
from noisegate.schema import Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class ImageReport:
    """What synthetic images are worth, measured on real ones.

    Attributes:
        compared_with: the real images that the distances are to, "train" or "test".
        distances: between the synthetic images and those.
        floor: between the real training and test images: what sampling alone does. None without ``train``.
        downstream: scores on the test images after training on the synthetic ones; None without labels.
        ceiling: the same after training on the real training images; None without ``train`` or labels.
        notes: what was unusual, in words.
    """

    compared_with: str
    distances: ImageDistances
    floor: ImageDistances | None
    downstream: ImageScores | None
    ceiling: ImageScores | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "compared_with": self.compared_with,
            "distances": self.distances.to_json(),
            "distances_floor": self.floor.to_json() if self.floor else None,
            "downstream": self.downstream.to_json() if self.downstream else None,
            "downstream_ceiling": self.ceiling.to_json() if self.ceiling else None,
            "notes": list(self.notes),
        }

    def render(self) -> RenderableType:
        """The figures as a page for ``rich.console.Console.print``, with the same sentence."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        parts: list[RenderableType] = [self._distance_table()]
        if self.downstream is not None:
            parts.append(self._score_table(self.downstream))
        parts += [Text(f"Note: {note}.") for note in self.notes]
        parts.append(Panel(Text(CAVEAT, style="bold"), border_style="yellow", title="Not private"))
        return Group(*parts)

    def _distance_table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        columns = [_figures(one) for one in (self.distances, self.floor) if one]
        page = Table(title="Images in features of both, and bins of pixels", title_justify="left", box=box.SIMPLE_HEAD)
        page.add_column("figure")
        page.add_column(f"synthetic vs {self.compared_with}", justify="right")
        if self.floor is not None:
            page.add_column("train vs test", justify="right")
        for name in columns[0]:
            page.add_row(Text(name), *(column.get(name, "") for column in columns))
        return page

    def _score_table(self, downstream: ImageScores) -> Table:
        from rich import box
        from rich.table import Table

        title = "Classifiers tested on the test images; networks chosen by held-out images of their own source"
        page = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        page.add_column("trained on", no_wrap=True)
        page.add_column("model", no_wrap=True)
        for name in ("accuracy", "F1", "ROC-AUC"):
            page.add_column(name, justify="right")
        for what, scored in (("synthetic", downstream), ("real train (ceiling)", self.ceiling)):
            for model, scores in (scored.models if scored else {}).items():
                figures = (scores.accuracy, scores.f1, scores.roc_auc)
                page.add_row(what, model, *(f"{figure:.4f}" for figure in figures))
            page.add_section()
        return page


def evaluate_images(
    synthetic: ImageSet,
    test: ImageSet,
    schema: Schema,
    train: ImageSet | None = None,
    *,
    classifiers: ImageClassifiers | None = None,
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
        classifiers: what is trained; None for the CNN.
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
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    form = schema.images
    if form is None:
        raise SchemaError("the schema describes a table; describe images with noisegate.schema.pixel_schema(...)")
    for what, several in (("synthetic", synthetic), ("test", test), ("train", train)):
        if several is not None:
            several.check(what, form)
    space = features or EncoderFeatures()
    reference = test if train is None else train
    distances = image_distances(synthetic, reference, space, images=images, seed=seed)
    floor = None if train is None else image_distances(train, test, space, images=images, seed=seed)
    asked = classifiers or read_classifiers("cnn")
    reason = _unscorable(test)
    sets = [None, None] if reason else [synthetic, train]
    total = asked.count * (2 - sets.count(None))
    downstream, ceiling = (
        None
        if several is None
        else image_scores(several, test, form, asked, seed=seed, progress=_counted(progress, turn * asked.count, total))
        for turn, several in enumerate(sets)
    )
    notes: tuple[str, ...] = (f"no downstream scores, because {reason}",) if reason else ()
    for what, scored in (("synthetic", downstream), ("real", ceiling)):
        notes += tuple(f"trained on the {what} images: {note}" for note in (scored.notes if scored else ()))
    return ImageReport(
        compared_with="test" if train is None else "train",
        distances=distances,
        floor=floor,
        downstream=downstream,
        ceiling=ceiling,
        notes=notes,
    )


def _unscorable(test: ImageSet) -> str:
    """Why no classifier can be scored; empty where one can."""
    if test.labels is None:
        return "the images have no labels"
    found = len(np.unique(test.labels))
    return f"the test images have {found} class(es); scores need at least 2" if found < 2 else ""


def _counted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Count on from the classifiers of an earlier set."""
    return None if progress is None else lambda name, done, _: progress(name, before + done, total)


def _figures(distances: ImageDistances) -> dict[str, str]:
    """Each figure of the page, by name."""
    kernel = distances.kernel
    spread = "" if kernel.deviation is None else f" ± {kernel.deviation:.4f}"
    shares, scores, bins = distances.manifold, distances.distribution, distances.bins
    prd, ndb = prd_name(distances.features), bins_name(Pixels.name)
    return {
        frechet_name(distances.features): f"{distances.frechet:.3f}",
        kernel_name(distances.features): f"{kernel.mean:.4f}{spread}",
        **({} if shares is None else {name: f"{getattr(shares, name):.3f}" for name in _SHARES}),
        **({} if scores is None else {f"{prd} precision": f"{scores.precision:.3f}"}),
        **({} if scores is None else {f"{prd} recall": f"{scores.recall:.3f}"}),
        **({} if bins is None else {f"{ndb} / K": f"{bins.share:.3f} ({bins.different} of {bins.bins})"}),
        "images": f"{distances.synthetic:,} vs {distances.real:,}",
    }


_SHARES = ("precision", "recall", "density", "coverage")
