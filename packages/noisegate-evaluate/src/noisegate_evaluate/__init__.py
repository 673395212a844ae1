"""Two data sets in, scores out; knows no method.

Everything here is computed on real data, so it is outside the privacy guarantee, and every result says so.
"""

from __future__ import annotations

from noisegate_evaluate.comparison import ImageReport, LinkedReport, Report
from noisegate_evaluate.features import EncoderFeatures, ImageFeatures, Pixels, named_features
from noisegate_evaluate.images import images_of, images_of_arrays
from noisegate_evaluate.metrics.frechet import frechet_distance
from noisegate_evaluate.metrics.kid import KernelDistance, kernel_distance
from noisegate_evaluate.metrics.links import LinkDistances
from noisegate_evaluate.metrics.manifold import Manifold, manifold_figures
from noisegate_evaluate.metrics.marginals import MarginalReport, OrderDistance, marginal_distances
from noisegate_evaluate.metrics.ndb import DifferentBins, different_bins
from noisegate_evaluate.metrics.prd import DistributionScores, distribution_scores
from noisegate_evaluate.metrics.result import CAVEAT
from noisegate_evaluate.regression import RegressionReport, RegressionScores, regression_scores
from noisegate_evaluate.report import evaluate_images, evaluate_linked, evaluate_tables
from noisegate_evaluate.tables import downstream_scores
from noisegate_evaluate.utility.networks import (
    NETWORKS,
    NETWORKS_VERSION,
    NetworkOptions,
    SelectionRecipe,
    Training,
    build_network,
)
from noisegate_evaluate.utility.recipe import LabelledRows, Recipe, Suite
from noisegate_evaluate.utility.runner import UtilityReport, utility_scores
from noisegate_evaluate.utility.scores import PrintedScores, Scores
from noisegate_evaluate.utility.suites import (
    THREE_VERSION,
    TWELVE_VERSION,
    networks,
    read_classifiers,
    selected_networks,
    three,
    twelve,
)

__all__ = [
    "CAVEAT",
    "NETWORKS",
    "NETWORKS_VERSION",
    "THREE_VERSION",
    "TWELVE_VERSION",
    "DifferentBins",
    "DistributionScores",
    "EncoderFeatures",
    "ImageFeatures",
    "ImageReport",
    "KernelDistance",
    "LabelledRows",
    "LinkDistances",
    "LinkedReport",
    "Manifold",
    "MarginalReport",
    "NetworkOptions",
    "OrderDistance",
    "Pixels",
    "PrintedScores",
    "Recipe",
    "RegressionReport",
    "RegressionScores",
    "Report",
    "Scores",
    "SelectionRecipe",
    "Suite",
    "Training",
    "UtilityReport",
    "build_network",
    "different_bins",
    "distribution_scores",
    "downstream_scores",
    "evaluate_images",
    "evaluate_linked",
    "evaluate_tables",
    "frechet_distance",
    "images_of",
    "images_of_arrays",
    "kernel_distance",
    "manifold_figures",
    "marginal_distances",
    "named_features",
    "networks",
    "read_classifiers",
    "regression_scores",
    "selected_networks",
    "three",
    "twelve",
    "utility_scores",
]
