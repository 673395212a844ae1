"""Two data sets in, scores out; knows no method.

Everything here is computed on real data, so it is outside the privacy guarantee, and every result says so.
"""

from __future__ import annotations

from noisegate.evaluation.bins import DifferentBins, different_bins
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.codes import code_distances
from noisegate.evaluation.downstream import DownstreamReport, downstream_scores
from noisegate.evaluation.frechet import frechet_distance
from noisegate.evaluation.image_classifiers import ImageClassifiers, read_classifiers
from noisegate.evaluation.image_features import EncoderFeatures, ImageFeatures, Pixels, named_features
from noisegate.evaluation.image_reading import ImageSet, images_of, images_of_arrays
from noisegate.evaluation.image_report import ImageReport, evaluate_images
from noisegate.evaluation.image_training import Training
from noisegate.evaluation.kid import KernelDistance, kernel_distance
from noisegate.evaluation.manifold import Manifold, manifold_figures
from noisegate.evaluation.marginals import MarginalReport, OrderDistance, marginal_distances
from noisegate.evaluation.mixture_likelihood import Coverage, LabelledMixture, coverage, negative_log_likelihood
from noisegate.evaluation.networks import NETWORKS, NETWORKS_VERSION, build_network
from noisegate.evaluation.networks_protocol import network_scores
from noisegate.evaluation.networks_report import NetworkOptions, NetworksReport
from noisegate.evaluation.prd import DistributionScores, distribution_scores
from noisegate.evaluation.protocol import TwelveReport, twelve_scores
from noisegate.evaluation.report import Report, evaluate
from noisegate.evaluation.scores import Scores
from noisegate.evaluation.seeds import SeedSummary, over_seeds
from noisegate.evaluation.selection_report import SelectionReport
from noisegate.evaluation.selection_training import SelectionRecipe
from noisegate.evaluation.synthetic_selection import synthetic_selection_scores
from noisegate.evaluation.training import LabelledRows
from noisegate.evaluation.twelve import TWELVE_VERSION, Twelve, twelve

__all__ = [
    "CAVEAT",
    "NETWORKS",
    "NETWORKS_VERSION",
    "TWELVE_VERSION",
    "Coverage",
    "DifferentBins",
    "DistributionScores",
    "DownstreamReport",
    "EncoderFeatures",
    "ImageClassifiers",
    "ImageFeatures",
    "ImageReport",
    "ImageSet",
    "KernelDistance",
    "LabelledMixture",
    "LabelledRows",
    "Manifold",
    "MarginalReport",
    "NetworkOptions",
    "NetworksReport",
    "OrderDistance",
    "Pixels",
    "Report",
    "Scores",
    "SeedSummary",
    "SelectionRecipe",
    "SelectionReport",
    "Training",
    "Twelve",
    "TwelveReport",
    "build_network",
    "code_distances",
    "coverage",
    "different_bins",
    "distribution_scores",
    "downstream_scores",
    "evaluate",
    "evaluate_images",
    "frechet_distance",
    "images_of",
    "images_of_arrays",
    "kernel_distance",
    "manifold_figures",
    "marginal_distances",
    "named_features",
    "negative_log_likelihood",
    "network_scores",
    "over_seeds",
    "read_classifiers",
    "synthetic_selection_scores",
    "twelve",
    "twelve_scores",
]
