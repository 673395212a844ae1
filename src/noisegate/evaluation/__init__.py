"""Two tables in, scores out; knows no method.

Everything here is computed on real data, so it is outside the privacy guarantee, and every result says so.
"""

from __future__ import annotations

from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.downstream import DownstreamReport, downstream_scores
from noisegate.evaluation.marginals import MarginalReport, OrderDistance, marginal_distances
from noisegate.evaluation.report import Report, evaluate
from noisegate.evaluation.scores import Scores

__all__ = [
    "CAVEAT",
    "DownstreamReport",
    "MarginalReport",
    "OrderDistance",
    "Report",
    "Scores",
    "downstream_scores",
    "evaluate",
    "marginal_distances",
]
