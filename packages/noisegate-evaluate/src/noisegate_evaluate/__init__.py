"""How synthetic records compare with real ones, the pages of a model, and the audit of its claim.

All figures of a comparison are computed on real data, so they are outside the privacy
guarantee, and every result says so. The main line, from the verbs to the pages::

    cli            the verbs evaluate, report, export and audit of the command line
    evaluate       the verb `evaluate`: both sides are read, and measured
    pages          the verb `report`: the public and the private page of a model
    evaluation     how records of one kind are read, drawn from a model, and measured:
                   tables, linked tables, images
    measures       `evaluate_tables`, `evaluate_linked`, `evaluate_images`
      metrics      figures of distance, each kind one file, found by registry
      utility      classifiers that learn from synthetic and are tested on real records
    comparison     `Report`: the record of all figures; its tables are in `sheets`, its
                   verdicts in `judging`
    reporting      pages: their figures are files in `public_figures`, `private_figures`
    auditing       an attack on every method by its own house

`reading` has columns of tables as numbers and codes, and the children of each parent.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Loaded when first used: the command line finds its verbs here, and answers `--help`
# without an array. `__init__.pyi` has the same names for type checkers.
_NAMES = {
    "comparison": "ImageReport LinkedReport Report",
    "images": "EncoderFeatures ImageFeatures Pixels images_of named_features",
    "metrics.frechet": "KernelDistance Manifold frechet_distance kernel_distance manifold_figures",
    "metrics.links": "LinkDistances",
    "metrics.marginals": "MarginalReport OrderDistance marginal_distances",
    "metrics.ndb": "DifferentBins DistributionScores different_bins distribution_scores",
    "metrics.result": "CAVEAT",
    "tables": "RegressionReport RegressionScores downstream_scores regression_scores",
    "measures": "evaluate_images evaluate_linked evaluate_tables",
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
