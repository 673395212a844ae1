"""What every method can do, whatever it asks of the private records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from noisegate.privacy.events import Event
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.privacy.trade_off import ErrorBound
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.fitting.loop import FitState
    from noisegate.gate.gate import Gate
    from noisegate.synthesizer import Synthesizer


class MethodPlan(Protocol):
    """What a method will ask, priced before the first record is read."""

    @property
    def budget(self) -> Budget:
        """The guarantee that was asked for."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """What will be run."""
        ...

    @property
    def epsilon(self) -> float:
        """ε of the whole plan at the budget's δ, recomputed from its events."""
        ...


class Fit(Protocol):
    """One fit of a model to a release; post-processing, which may be stopped and taken up again."""

    @property
    def step(self) -> int:
        """Steps done."""
        ...

    @property
    def steps(self) -> int:
        """Most steps that there will be."""
        ...

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Returns what `restore` needs."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the fit where `state` was called."""
        ...


class Method(Protocol):
    """Chooses questions, a model and defaults; it cannot clip, add noise or account.

    Implementations are frozen dataclasses whose fields are the settings.

    Attributes:
        name: What the method is called, in certificates too.
    """

    # What makes a class a dataclass to a type checker.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str: ...  # noqa: D102 - documented above

    def plan(self, schema: Schema, budget: Budget) -> MethodPlan:
        """Returns what will be asked, and with what noise. Reads no data."""
        ...

    def ask(self, gate: Gate) -> Release:
        """Returns the release: the one time that private records are used."""
        ...

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent.

        Raises:
            UserError: if the device is not here, a fit option is unusable or an optional dependency is missing.
        """
        ...

    def fitting(self, release: Release, *, device: str = "auto") -> Fit:
        """Returns the fit of a release, ready to run, to save and to restore."""
        ...

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer that a fit, made by `fitting`, has reached."""
        ...

    def fit_release(
        self, release: Release, *, device: str = "auto", report: Callable[[FitState], None] | None = None
    ) -> Synthesizer:
        """Returns a synthesizer fitted to a release; post-processing, which costs no privacy."""
        ...

    def fit(
        self,
        gate: Gate,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        convert: Callable[[Any], Any] | None = None,
    ) -> Synthesizer:
        """Returns a synthesizer for the records behind `gate`."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        ...

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object.

        Raises:
            ModelError: if a setting is missing or not known.
        """
        ...


@runtime_checkable
class ErrorBounded(Protocol):
    """A method that can say before any data is read how far its questions are from the kernels that they stand for."""

    def error_bounds(self, schema: Schema, budget: Budget, records: int) -> tuple[ErrorBound, ...]:
        """Returns a bound for each question whose dimension is a trade-off; see `noisegate.privacy.trade_off`.

        Args:
            schema: The columns.
            budget: The guarantee that is asked for.
            records: How many records there are, as far as the public knows.
        """
        ...
