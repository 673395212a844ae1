"""What all methods do in the same way: ask once, then fit what was released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError
from noisegate.methods.method import Method
from noisegate.privacy.release import Release

if TYPE_CHECKING:
    from noisegate.fitting.loop import FitState
    from noisegate.gate.gate import Gate
    from noisegate.synthesizer import Synthesizer


def check_gate(gate: Any) -> None:
    """Requires a gate, where a table may have been meant.

    Raises:
        OptionError: if it is something else.
    """
    if not hasattr(gate, "budget"):
        raise OptionError(
            f"gate={type(gate).__name__}: a method asks through a gate; give "
            "noisegate.Gate(data, schema=schema, epsilon=1.0), or call noisegate.synthesize(data, ...)."
        )


class Fitted:
    """Mixed into a method: `fit` and `fit_release` by way of its `ask`, `fitting` and `synthesizer`."""

    def fit(
        self: Method,
        gate: Gate,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        convert: Callable[[Any], Any] | None = None,
    ) -> Synthesizer:
        """Returns a synthesizer for the records behind `gate`.

        Args:
            gate: Private records and a budget.
            device: "auto", "cpu", "cuda" or "mps"; methods that compute on the CPU alone only check it.
            report: Called after every step of the fit.
            convert: Applied to the Arrow tables that `Synthesizer.sample` returns.
        """
        check_gate(gate)
        self.check_fit(device)
        return replace(self.fit_release(self.ask(gate), device=device, report=report), convert=convert)

    def fit_release(
        self: Method, release: Release, *, device: str = "auto", report: Callable[[FitState], None] | None = None
    ) -> Synthesizer:
        """Returns a synthesizer fitted to a release; post-processing, which costs no privacy."""
        fitting = self.fitting(release, device=device)
        fitting.run(report)
        return self.synthesizer(release, fitting)
