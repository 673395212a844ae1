"""Where a fit or a training stands, and its state as named tensors; names are only ever added to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import DivergedError, ModelError
from noisegate.verdict import Verdict, Word

if TYPE_CHECKING:
    from torch import Tensor


State: TypeAlias = "Mapping[str, Tensor] | Mapping[str, npt.NDArray[Any]]"
_Value = TypeVar("_Value")

_SECONDS = 20.0


class Resumable(Protocol):
    """What may be stopped between steps, saved and resumed."""

    def state_dict(self) -> State:
        """Returns everything that `load_state_dict` needs."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, RuntimeError, ValueError: if the state is that of something else.
        """


@dataclass(frozen=True, kw_only=True)
class FitState:
    """Where a fit stands. `discrepancy` is the distance over what the noise alone would leave; 1 is the goal."""

    step: int
    steps: int
    discrepancy: float

    @property
    def closeness(self) -> str:
        """How close the fit is to its release, for a progress line; nothing before it was measured."""
        return (
            f"distance / noise {self.discrepancy:.2f}"
            if math.isfinite(self.discrepancy)
            else ""
        )


class Fit(Resumable, Protocol):
    """One fit of a model to a release; post-processing, which may be stopped and resumed."""

    @property
    def step(self) -> int:
        """Steps done."""

    @property
    def steps(self) -> int:
        """Most steps that there will be."""

    @property
    def discrepancy(self) -> float:
        """Distance to the release, in units of what its noise alone explains."""

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps."""


class FinishedFit:
    """The fit of a release that is its own model: no step to run, nothing to save."""

    step, steps, discrepancy = 0, 0, math.inf

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs no step."""

    def state_dict(self) -> dict[str, Any]:
        """Returns nothing."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Resumes nothing."""


class Checkpoint:
    """The state of a training in a file, None for none, written now and then, and when its block ends with an error.

    What is written is public: it follows from noisy sums and public randomness. `cure` says what to do about a broken
    file. Without the file `journal`, which counts steps, none was begun, so that there is nothing to resume.
    """

    def __init__(
        self,
        path: Path | None,
        training: Resumable,
        *,
        cure: str,
        journal: Path | None = None,
    ) -> None:
        self._path, self._training, self._cure, self._journal = (
            path,
            training,
            cure,
            journal,
        )
        self._consistent, self._saved = True, time.monotonic()

    def resume(self) -> None:
        """Loads the state if there is one; a ModelError if it is broken."""
        if self._path is None or not self._path.exists():
            return
        from safetensors import SafetensorError

        try:
            self._training.load_state_dict(
                _safetensors(self._training.state_dict()).load_file(self._path)
            )
        except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
            raise ModelError(f"{self._path} is broken: {error}. {self._cure}") from None

    def save(self) -> None:
        """Writes the state, whole or not at all; a full disk loses the state only."""
        self._saved = time.monotonic()
        if self._path is None or (
            self._journal is not None and not self._journal.exists()
        ):
            return
        from safetensors import SafetensorError

        state = self._training.state_dict()
        partial = self._path.with_name(f".{self._path.name}")
        copied: dict[str, Any] = {  # contiguous, and nothing else changes them
            name: np.array(one, order="C")
            if isinstance(one, np.ndarray)
            else one.detach().cpu().contiguous().clone()
            for name, one in state.items()
        }
        try:
            _safetensors(state).save_file(copied, partial)
            partial.replace(self._path)
        except (OSError, SafetensorError):
            partial.unlink(missing_ok=True)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Marks the training as changed by half within the block: no such state is saved."""
        self._consistent = False
        yield
        self._consistent = True
        if time.monotonic() - self._saved > _SECONDS:
            self.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if error is not None and self._consistent:
            self.save()


def _safetensors(state: State) -> Any:
    """Returns the part of safetensors that writes and reads such a state: for arrays that of NumPy, or else torch's."""
    arrays = all(isinstance(value, np.ndarray) for value in state.values())
    return import_module("safetensors.numpy" if arrays else "safetensors.torch")


def check_finite(tensors: Mapping[str, Tensor], step: int) -> None:
    """Refuses what is trained, after a step, by a DivergedError if a number is not finite."""
    broken = [
        name for name, value in tensors.items() if not bool(value.isfinite().all())
    ]
    if broken:
        note = "What was spent stays spent; the last state that was kept is that of an earlier step."
        raise DivergedError(
            f"step {step}: {broken[0]!r} is not finite any more. Lower the learning rate. {note}"
        )


def restore(values: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Copies stored arrays or tensors into those of their names; a KeyError or ValueError if one lacks or misfits."""
    for name, value in values.items():
        if stored[name].shape != value.shape:
            raise ValueError(f"{name} of another shape")
        (value if isinstance(value, np.ndarray) else value.detach())[...] = stored[name]


def joined(**parts: Mapping[str, _Value]) -> dict[str, _Value]:
    """Returns the tensors of several parts, each under the name of its part: "part/name"."""
    return {
        f"{part}/{name}": value
        for part, tensors in parts.items()
        for name, value in tensors.items()
    }


def under(tensors: Mapping[str, _Value], prefix: str) -> dict[str, _Value]:
    """Returns the tensors whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


_OF_CHANCE, _RECOGNISED = 2.5, 0.55
"""Times chance, and part of the way from chance to all, below which images are noise, and rough: a fit of stripes has
2.4, and drawings at .52 of that way teach a classifier .74 of what real ones do (benchmarks/images)."""


@dataclass(frozen=True, kw_only=True)
class FitSummary:
    """How a fit ended."""

    step: int  # steps done
    steps: int  # most steps that there would have been
    discrepancy: float  # the distance over what the noise alone would leave: 1 is as good as it gets
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What else the method says of it, by name, as JSON values; a "warning" is shown to whoever fits."""
    verdict: Verdict | None = None
    """What it came to, in words; None where nothing is known, or the model was saved before there were any."""

    def with_agreement(self, agreement: float, classes: int, *, kept: bool) -> Self:
        """Returns the summary, with the share of images, as made, that fit the means of their own class best."""
        # Where that is too few, of so many `classes`, for the means to have a say, images of a class are no good; where
        # it is hardly more than by chance, they are noise. `kept` says whether the others are made again.
        told = (
            f"of 100 images that the generator makes, {100 * agreement:.0f} fit the "
            "released means of their class best"
        )
        recognised = agreement * classes - 1 >= _RECOGNISED * (classes - 1)
        reasons = [
            f"{told}; {'the others are made again' if kept else 'too few for means to judge by: all are taken'}"
        ]
        if not recognised:
            reasons.append(
                "the classes of the generated images are hard to distinguish: look at the pictures"
            )
        figures = {"agreement": agreement}
        bad: Word = "rough" if kept or agreement * classes >= _OF_CHANCE else "noise"
        found = Verdict(
            word=None if recognised else bad,
            source="fit",
            reasons=tuple(reasons),
            figures=figures,
        )
        return replace(self.with_verdict(found), notes={**self.notes, **figures})

    def with_verdict(self, found: Verdict) -> Self:
        """Returns the summary with what else is found."""
        return replace(
            self,
            verdict=Verdict.together([part for part in (self.verdict, found) if part]),
        )

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values; a distance that was not measured is None."""
        told: dict[str, Any] = {
            "step": self.step,
            "steps": self.steps,
            "notes": dict(self.notes),
        }
        told["discrepancy"] = (
            self.discrepancy if math.isfinite(self.discrepancy) else None
        )
        return told | {
            "verdict": None if self.verdict is None else self.verdict.to_json()
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Returns the summary that `to_json` wrote, in any version."""
        verdict = told.get("verdict")
        known = None if verdict is None else Verdict.from_json(verdict)
        distance = math.inf if told["discrepancy"] is None else told["discrepancy"]
        return cls(**{**told, "discrepancy": distance, "verdict": known})
