"""Methods that release what was trained itself: once the steps at the gate are taken, there is nothing left to fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noisegate.methods.fitted import check_gate
from noisegate.methods.trained import Trained
from noisegate.privacy.release import Release

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.fitting.loop import FitState
    from noisegate.gate.gate import Gate
    from noisegate.synthesizer import Synthesizer


class Finished:
    """The fit of a release that is its own model: no step to run, nothing to keep."""

    step, steps = 0, 0

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs no step."""

    def state(self) -> dict[str, Tensor]:
        """Returns nothing: there is nothing to restore."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores nothing."""


class TrainedSynthesizer(Trained, ABC):
    """Mixed into a method that trains a model of records at the gate: a `Method` by its `plan`, `loss`, `training`.

    The method gives `synthesizer` beside them, and has `steps` among its settings.
    """

    steps: int

    @abstractmethod
    def synthesizer(self, release: Release, fitting: Finished) -> Synthesizer:
        """Returns the synthesizer in a release; post-processing, which costs no privacy."""

    def check_fit(self, device: str) -> None:
        """Finds what would stop the training, before any budget is spent.

        Raises:
            OptionError: if the device is not here.
        """
        from noisegate.fitting.device import choose_device

        choose_device(device)

    def fitting(self, release: Release, *, device: str = "auto") -> Finished:
        """Returns a fit that is done."""
        return Finished()

    def fit_release(
        self, release: Release, *, device: str = "auto", report: Callable[[FitState], None] | None = None
    ) -> Synthesizer:
        """Returns the synthesizer in a release; post-processing, which costs no privacy."""
        return self.synthesizer(release, Finished())

    def fit(
        self,
        gate: Gate,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        convert: Callable[[Any], Any] | None = None,
    ) -> Synthesizer:
        """Returns a synthesizer for the records behind `gate`. To keep an interrupted run, use `ask` with a folder.

        Args:
            gate: Private records and a budget, and their number as far as the public knows.
            device: "auto", "cpu", "cuda" or "mps": where to train.
            report: Called after every step of the training; its discrepancy is NaN, as there is no distance to a
                release.
            convert: Applied to the Arrow tables that `Synthesizer.sample` returns.
        """
        from noisegate.fitting.device import choose_device
        from noisegate.fitting.loop import FitState

        check_gate(gate)

        def told(done: int) -> None:
            if report is not None:
                report(FitState(step=done, steps=self.steps, discrepancy=float("nan")))

        release = self.ask(gate, report=told, device=str(choose_device(device)))
        return replace(self.synthesizer(release, Finished()), convert=convert)
