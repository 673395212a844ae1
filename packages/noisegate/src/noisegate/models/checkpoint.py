"""Fits and trainings that can be stopped, saved and resumed, and how a fit ended.

A fit is post-processing: it turns a release into a model, and takes minutes. A training
on private records takes noisy steps, hours of them. Either can be interrupted:

- `Resumable` is what both have in common. Their state is a mapping from names to arrays
  or tensors, from which they continue with the same bits.
- `Checkpoint` writes that state to a file now and then, never in the middle of a step.
- `FitState` and `FitSummary` say where a fit stands, and how it ended.

The names in a state are stored in the checkpoints of interrupted runs. So names are
only ever added, never changed or removed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from noisegate.answers.verdict import Verdict, Word
from noisegate.errors import DivergedError, ModelError

if TYPE_CHECKING:
    from torch import Tensor


State: TypeAlias = "Mapping[str, Tensor] | Mapping[str, npt.NDArray[Any]]"
"""The state of a fit or a training: NumPy arrays by name, or tensors by name."""
_Value = TypeVar("_Value")

# Seldom enough that writing takes no part of the time, and often enough that a power
# cut costs little work.
_SAVE_INTERVAL_SECONDS = 20.0

# Among images that fit their own class at most so many times as often as by chance, the
# classes cannot be distinguished. A fit of stripes has 2.4 (benchmarks/images).
_NOISE_TIMES_CHANCE = 2.5
# Classes are recognised from this part of the way on from chance to all. Drawings at
# .52 of it teach a classifier .74 of what real ones do (benchmarks/images).
_RECOGNISED_PART = 0.55


class Resumable(Protocol):
    """What may be stopped between steps, saved and resumed."""

    def state_dict(self) -> State:
        """Returns everything that `load_state_dict` needs."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Resumes where `state_dict` was called.

        Args:
            state: What `state_dict` returned, by the same names.

        Raises:
            KeyError, RuntimeError, ValueError: if the state is that of something else.
        """


@dataclass(frozen=True, kw_only=True)
class FitState:
    """Where a fit stands."""

    step: int  # steps done
    steps: int  # the most steps that there will be
    # Distance from the release over what its noise alone explains: 1 is the goal.
    # Infinite or NaN before it is measured.
    discrepancy: float

    @property
    def closeness(self) -> str:
        """How close the fit is to its release, for a progress line; may be empty."""
        if not math.isfinite(self.discrepancy):
            return ""
        return f"distance / noise {self.discrepancy:.2f}"


class Fit(Resumable, Protocol):
    """One fit of a model to a release, which may be stopped and resumed."""

    @property
    def step(self) -> int:
        """Steps done."""

    @property
    def steps(self) -> int:
        """The most steps that there will be."""

    @property
    def discrepancy(self) -> float:
        """Distance to the release, in units of what its noise alone explains."""

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps.

        Args:
            report: Is called with the state now and then.
        """


class FinishedFit:
    """The fit of a release that is its own model: no step to run, nothing to save."""

    step = 0
    steps = 0
    discrepancy = math.inf

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs no step."""

    def state_dict(self) -> dict[str, Any]:
        """Returns an empty state."""
        return {}

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Resumes nothing."""


class Checkpoint:
    """The state of a fit or a training in a file.

    It is written now and then, and as a context manager also when its block ends with
    an error, unless that came in the middle of a step. What is written is public: it
    follows from noisy sums and public randomness.

    Args:
        path: The file; None to write none.
        training: What is saved and resumed.
        cure: What to do about a broken file, for the message.
        journal: The file that counts the steps that were begun. If it does not exist,
            no step was begun, and there is nothing to save.
    """

    def __init__(
        self,
        path: Path | None,
        training: Resumable,
        *,
        cure: str,
        journal: Path | None = None,
    ) -> None:
        self._path = path
        self._training = training
        self._cure = cure
        self._journal = journal
        self._is_between_steps = True
        self._last_save = time.monotonic()

    def resume(self) -> None:
        """Loads the state, if the file exists.

        Raises:
            ModelError: if the file is broken, or of another training.
        """
        if self._path is None or not self._path.exists():
            return
        from safetensors import SafetensorError

        try:
            file_format = _file_format(self._training.state_dict())
            self._training.load_state_dict(file_format.load_file(self._path))
        except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
            raise ModelError(f"{self._path} is broken: {error}. {self._cure}") from None

    def save(self) -> None:
        """Writes the state, completely or not at all.

        A file that cannot be written, on a full disk for instance, raises no error: the
        run continues, and only its state is lost.
        """
        self._last_save = time.monotonic()
        was_begun = self._journal is None or self._journal.exists()
        if self._path is None or not was_begun:
            return
        from safetensors import SafetensorError

        state = self._training.state_dict()
        file_format = _file_format(state)
        contiguous_state = _contiguous_copies(state)
        partial_file = self._path.with_name(f".{self._path.name}")
        try:
            file_format.save_file(contiguous_state, partial_file)
            partial_file.replace(self._path)
        except (OSError, SafetensorError):
            partial_file.unlink(missing_ok=True)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Marks a block in which the training changes.

        If the block raises, the training is half changed, and is not saved any more.
        """
        self._is_between_steps = False
        yield
        self._is_between_steps = True
        if time.monotonic() - self._last_save > _SAVE_INTERVAL_SECONDS:
            self.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if error is not None and self._is_between_steps:
            self.save()


def _file_format(state: State) -> ModuleType:
    """Returns the module of safetensors that reads and writes such a state.

    It has `load_file` and `save_file`. A state of arrays alone needs no torch.
    """
    if all(isinstance(value, np.ndarray) for value in state.values()):
        import safetensors.numpy as numpy_format

        return numpy_format
    import safetensors.torch as torch_format

    return torch_format


def _contiguous_copies(state: State) -> dict[str, Any]:
    """Copies a state, since safetensors takes neither views nor shared memory."""
    copies: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            copies[name] = np.array(value, order="C")
        else:
            copies[name] = value.detach().cpu().contiguous().clone()
    return copies


def check_finite(tensors: Mapping[str, Tensor], step: int) -> None:
    """Checks that a training has not left the finite numbers.

    Args:
        tensors: What is trained, by name.
        step: The step after which it is checked, for the message.

    Raises:
        DivergedError: if a number is not finite.
    """
    broken_names = [
        name for name, value in tensors.items() if not bool(value.isfinite().all())
    ]
    if broken_names:
        raise DivergedError(
            f"step {step}: {broken_names[0]!r} is not finite any more. Lower the "
            "learning rate. What was spent stays spent; the last state that was kept "
            "is that of an earlier step."
        )


def restore(values: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Copies stored arrays or tensors into those of their names.

    Args:
        values: Arrays or tensors by name, which are changed.
        stored: What is copied, by name; other names are ignored.

    Raises:
        KeyError: if a name is not stored.
        ValueError: if a shape differs.
    """
    for name, value in values.items():
        if stored[name].shape != value.shape:
            raise ValueError(f"{name} of another shape")
        target = value if isinstance(value, np.ndarray) else value.detach()
        target[...] = stored[name]


def joined(**parts: Mapping[str, _Value]) -> dict[str, _Value]:
    """Joins the states of several parts, each under the name of its part.

    Examples:
        >>> from noisegate.models.checkpoint import joined
        >>> joined(network={"w": 1, "b": 2}, optimiser={"w": 3})
        {'network/w': 1, 'network/b': 2, 'optimiser/w': 3}
    """
    return {
        f"{part}/{name}": value
        for part, state in parts.items()
        for name, value in state.items()
    }


def under(tensors: Mapping[str, _Value], prefix: str) -> dict[str, _Value]:
    """Returns the tensors whose names begin with a prefix, without it.

    Examples:
        >>> from noisegate.models.checkpoint import under
        >>> under({"network/w": 1, "network/b": 2, "optimiser/w": 3}, "network/")
        {'w': 1, 'b': 2}
    """
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


@dataclass(frozen=True, kw_only=True)
class FitSummary:
    """How a fit ended."""

    step: int  # steps done
    steps: int  # the most steps that there would have been
    # Distance from the release over what its noise alone explains: 1 is the goal.
    # Infinite if it was not measured.
    discrepancy: float
    # What else the method says of the fit, by name, as JSON values; a "warning" is
    # shown to whoever fits.
    notes: Mapping[str, Any] = field(default_factory=dict)
    # How far records of the model can be relied on; None where nothing is known, or the
    # model was saved before there were verdicts.
    verdict: Verdict | None = None

    def with_agreement(
        self, agreement: float, classes: int, *, only_agreeing: bool
    ) -> Self:
        """Adds what generated images say of themselves to the verdict and the notes.

        An image agrees if it fits the released mean of its own class better than those
        of all others. Too few of these, and the classes cannot be distinguished.

        Args:
            agreement: Share of the generated images that agree, from 0 to 1.
            classes: How many classes there are.
            only_agreeing: Whether sampling replaces images that do not agree by others
                that do. It does so unless too few agree.
        """
        times_chance = agreement * classes
        is_recognised = times_chance - 1 >= _RECOGNISED_PART * (classes - 1)
        if is_recognised:
            word: Word | None = None
        elif only_agreeing or times_chance >= _NOISE_TIMES_CHANCE:
            word = "rough"
        else:
            word = "noise"

        if only_agreeing:
            treatment = "the others are drawn again"
        else:
            treatment = "too few for the means to be a criterion: all are kept"
        reasons = [
            f"{100 * agreement:.0f} of 100 generated images fit the released means "
            f"of their own class best; {treatment}"
        ]
        if not is_recognised:
            reasons.append(
                "the classes of the generated images are hard to distinguish: "
                "look at the pictures"
            )
        verdict = Verdict(
            word=word,
            source="fit",
            reasons=tuple(reasons),
            figures={"agreement": agreement},
        )
        notes = {**self.notes, "agreement": agreement}
        return replace(self.with_verdict(verdict), notes=notes)

    def with_verdict(self, verdict: Verdict) -> Self:
        """Returns the summary with a verdict that is joined to its own, if any."""
        verdicts = [part for part in (self.verdict, verdict) if part is not None]
        return replace(self, verdict=Verdict.together(verdicts))

    def to_json(self) -> dict[str, Any]:
        """Returns the summary as JSON values.

        A discrepancy that was not measured is None, since JSON has no infinity.
        """
        is_measured = math.isfinite(self.discrepancy)
        return {
            "step": self.step,
            "steps": self.steps,
            "notes": dict(self.notes),
            "discrepancy": self.discrepancy if is_measured else None,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
        }

    @classmethod
    def from_json(cls, summary: Mapping[str, Any]) -> Self:
        """Reads the summary that `to_json` wrote, in any version.

        Raises:
            AttributeError, LookupError, TypeError, ValueError: if it is none.
        """
        verdict = summary.get("verdict")  # older models have none
        discrepancy = summary["discrepancy"]
        unknown_names = summary.keys() - {known.name for known in fields(cls)}
        if unknown_names:
            raise ValueError(f"a fit has no {', '.join(sorted(unknown_names))}")
        return cls(
            step=summary["step"],
            steps=summary["steps"],
            discrepancy=math.inf if discrepancy is None else discrepancy,
            notes=summary.get("notes", {}),
            verdict=None if verdict is None else Verdict.from_json(verdict),
        )
