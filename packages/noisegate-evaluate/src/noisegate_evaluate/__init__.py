"""Two data sets in, scores out; knows no method. All is computed on real data, outside the privacy guarantee.

Everything here is computed on real data, so it is outside the privacy guarantee, and
every result says so.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisegate_evaluate.comparison import ImageReport, LinkedReport, Report
    from noisegate_evaluate.images import (
        EncoderFeatures,
        ImageFeatures,
        Pixels,
        images_of,
        named_features,
    )
    from noisegate_evaluate.metrics.frechet import (
        KernelDistance,
        Manifold,
        frechet_distance,
        kernel_distance,
        manifold_figures,
    )
    from noisegate_evaluate.metrics.links import LinkDistances
    from noisegate_evaluate.metrics.marginals import (
        MarginalReport,
        OrderDistance,
        marginal_distances,
    )
    from noisegate_evaluate.metrics.ndb import (
        DifferentBins,
        DistributionScores,
        different_bins,
        distribution_scores,
    )
    from noisegate_evaluate.metrics.result import CAVEAT
    from noisegate_evaluate.report import (
        evaluate_images,
        evaluate_linked,
        evaluate_tables,
    )
    from noisegate_evaluate.tables import (
        RegressionReport,
        RegressionScores,
        downstream_scores,
        regression_scores,
    )
    from noisegate_evaluate.utility.networks import (
        NETWORKS,
        NETWORKS_VERSION,
        NetworkOptions,
        SelectionRecipe,
        Training,
        build_network,
    )
    from noisegate_evaluate.utility.recipe import (
        LabelledRows,
        PrintedScores,
        Recipe,
        Scores,
        Suite,
    )
    from noisegate_evaluate.utility.runner import UtilityReport, utility_scores
    from noisegate_evaluate.utility.suites import (
        THREE_VERSION,
        TWELVE_VERSION,
        networks,
        read_classifiers,
        three,
        twelve,
    )

# Loaded when first used: the command line finds its verbs here, and answers `--help` without an array.
_NAMES = {
    "comparison": "ImageReport LinkedReport Report",
    "images": "EncoderFeatures ImageFeatures Pixels images_of named_features",
    "metrics.frechet": "KernelDistance Manifold frechet_distance kernel_distance manifold_figures",
    "metrics.links": "LinkDistances",
    "metrics.marginals": "MarginalReport OrderDistance marginal_distances",
    "metrics.ndb": "DifferentBins DistributionScores different_bins distribution_scores",
    "metrics.result": "CAVEAT",
    "tables": "RegressionReport RegressionScores downstream_scores regression_scores",
    "report": "evaluate_images evaluate_linked evaluate_tables",
    "utility.networks": "NETWORKS NETWORKS_VERSION NetworkOptions SelectionRecipe Training build_network",
    "utility.recipe": "LabelledRows PrintedScores Recipe Scores Suite",
    "utility.runner": "UtilityReport utility_scores",
    "utility.suites": "THREE_VERSION TWELVE_VERSION networks read_classifiers three twelve",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
