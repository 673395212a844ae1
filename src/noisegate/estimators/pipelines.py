"""What scikit-learn fits before an estimator of ours: in a pipeline it sees private records, and nothing covers it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from noisegate.errors import UncoveredWarning


def warn_of_fitted_before(estimator: Any) -> None:
    """Warns of transformers that a pipeline around the fit of `estimator`, which calls this, has fitted on its records.

    A pipeline hands on what its transformers make and says nothing of itself, so it is found among the callers.
    """
    names = [name for pipeline in _pipelines(sys._getframe(1)) for name in _learning(pipeline)]
    if names:
        warnings.warn(
            f"{', '.join(names)} in the pipeline before {type(estimator).__name__}: fitted on the private records "
            "without noise, so what comes out tells of them, and the certificate does not cover it. State bounds= or a "
            "schema instead, which scale by themselves; or fit transformers on public records, and give them as "
            "sklearn.frozen.FrozenEstimator(transformer).",
            UncoveredWarning,
            stacklevel=3,
        )


def _pipelines(frame: FrameType | None) -> Iterator[Pipeline]:
    """Yields the pipelines of scikit-learn that are being fitted, from the innermost."""
    while frame is not None:
        caller = frame.f_locals.get("self")
        if frame.f_code.co_name.startswith("fit") and isinstance(caller, Pipeline):
            yield caller
        frame = frame.f_back


def _learning(pipeline: Pipeline) -> Iterator[str]:
    """Yields what the steps but the last are called that learn something from records."""
    for name, step in pipeline.steps[:-1]:
        kept = step in (None, "passthrough") or isinstance(step, FrozenEstimator)
        if not kept and get_tags(step).requires_fit:
            yield f"{name} ({type(step).__name__})"
