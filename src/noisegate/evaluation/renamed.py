"""The names of the version before, for one version more; each says what it is called now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noisegate.evaluation.report import evaluate_tables
from noisegate.evaluation.utility.network_settings import REPEATS, NetworkOptions, SelectionRecipe, Training
from noisegate.evaluation.utility.networks import NETWORKS
from noisegate.evaluation.utility.recipe import LabelledRows, Suite
from noisegate.evaluation.utility.runner import UtilityReport, utility_scores
from noisegate.evaluation.utility.suites import Variant, networks, selected_networks, twelve
from noisegate.records import Images
from noisegate.schema.pixels import ImageShape


def _twelve_scores(train: LabelledRows, test: LabelledRows, *, variant: Variant, **options: Any) -> UtilityReport:
    return utility_scores(twelve(variant), train, test, **options)


def _network_scores(
    train: LabelledRows,
    test: LabelledRows,
    *,
    shape: ImageShape,
    networks: Sequence[str] = NETWORKS,
    repeats: int = REPEATS,
    training: Training | None = None,
    **options: Any,
) -> UtilityReport:
    suite = _networks(networks, NetworkOptions(repeats=repeats, training=training or Training()))
    return utility_scores(suite, _images(train, shape), _images(test, shape), **options)


def _selection_scores(
    train: LabelledRows,
    test: LabelledRows,
    *,
    shape: ImageShape,
    networks: Sequence[str] = ("cnn",),
    repeats: int = 1,
    recipe: SelectionRecipe | None = None,
    **options: Any,
) -> UtilityReport:
    suite = selected_networks(networks, repeats=repeats, selection=recipe)
    return utility_scores(suite, _images(train, shape), _images(test, shape), jobs=1, **options)


def _image_set(*, pixels: np.ndarray, labels: np.ndarray | None) -> Images:
    return Images(pixels, None if labels is None else labels.astype(np.int32))


def _images(rows: LabelledRows, shape: ImageShape) -> LabelledRows:
    features = rows.features.reshape(-1, shape.height, shape.width, shape.channels)
    return LabelledRows(features=features, labels=rows.labels)


_networks = networks

RENAMED: dict[str, tuple[Any, str]] = {
    "DownstreamReport": (UtilityReport, "UtilityReport"),
    "ImageClassifiers": (Suite, "Suite"),
    "ImageSet": (_image_set, "noisegate.records.Images"),
    "NetworksReport": (UtilityReport, "UtilityReport"),
    "SelectionReport": (UtilityReport, "UtilityReport"),
    "Twelve": (Suite, "Suite"),
    "TwelveReport": (UtilityReport, "UtilityReport"),
    "evaluate": (evaluate_tables, "evaluate_tables"),
    "network_scores": (_network_scores, "utility_scores(networks(...), ...)"),
    "synthetic_selection_scores": (_selection_scores, "utility_scores(selected_networks(...), ...)"),
    "twelve_scores": (_twelve_scores, "utility_scores(twelve(...), ...)"),
}
