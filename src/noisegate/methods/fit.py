"""A fit of a release: what every one can do, and the one that is done before it begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from noisegate.training.checkpoint import Resumable

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.training.fit import FitState


class Fit(Resumable, Protocol):
    """One fit of a model to a release; post-processing, which may be stopped and resumed."""

    @property
    def step(self) -> int:
        """Steps done."""
        ...

    @property
    def steps(self) -> int:
        """Most steps that there will be."""
        ...

    @property
    def discrepancy(self) -> float:
        """Distance to the release, in units of what its noise alone explains."""
        ...

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps."""
        ...


class FinishedFit:
    """The fit of a release that is its own model: no step to run, nothing to save."""

    step, steps, discrepancy = 0, 0, math.inf

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs no step."""

    def state_dict(self) -> dict[str, Tensor]:
        """Returns nothing."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes nothing."""
