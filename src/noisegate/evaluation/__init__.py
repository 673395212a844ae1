"""Two data sets in, scores out; knows no method.

Everything here is computed on real data, so it is outside the privacy guarantee, and every result says so.
"""

from __future__ import annotations

from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.codes import code_distances
from noisegate.evaluation.downstream import DownstreamReport, downstream_scores
from noisegate.evaluation.image_training import Training
from noisegate.evaluation.marginals import MarginalReport, OrderDistance, marginal_distances
from noisegate.evaluation.mixture_likelihood import Coverage, LabelledMixture, coverage, negative_log_likelihood
from noisegate.evaluation.networks import NETWORKS, NETWORKS_VERSION, build_network
from noisegate.evaluation.networks_protocol import network_scores
from noisegate.evaluation.networks_report import NetworkOptions, NetworksReport
from noisegate.evaluation.protocol import TwelveReport, twelve_scores
from noisegate.evaluation.report import Report, evaluate
from noisegate.evaluation.scores import Scores
from noisegate.evaluation.seeds import SeedSummary, over_seeds
from noisegate.evaluation.training import LabelledRows
from noisegate.evaluation.twelve import TWELVE_VERSION, Twelve, twelve

__all__ = [
    "CAVEAT",
    "NETWORKS",
    "NETWORKS_VERSION",
    "TWELVE_VERSION",
    "Coverage",
    "DownstreamReport",
    "LabelledMixture",
    "LabelledRows",
    "MarginalReport",
    "NetworkOptions",
    "NetworksReport",
    "OrderDistance",
    "Report",
    "Scores",
    "SeedSummary",
    "Training",
    "Twelve",
    "TwelveReport",
    "build_network",
    "code_distances",
    "coverage",
    "downstream_scores",
    "evaluate",
    "marginal_distances",
    "negative_log_likelihood",
    "network_scores",
    "over_seeds",
    "twelve",
    "twelve_scores",
]
