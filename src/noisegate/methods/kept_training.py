"""The public half of a training on noisy gradients, and what is kept of it on disk when the run is interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from noisegate.errors import DivergedError, ModelError

if TYPE_CHECKING:
    from torch import Tensor

STATE_FILE, JOURNAL_FILE = "training.safetensors", "steps.journal"
_SECONDS = 20.0


class Training(Protocol):
    """The public half of a run: what it is and does follows from public randomness and noisy sums alone."""

    def parameters(self) -> Mapping[str, Tensor]:
        """Returns where the next gradient is to be taken, of the shapes of the plan's `parameters`."""
        ...

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Does with a noisy sum of gradients what the method does."""
        ...

    def result(self) -> Mapping[str, Tensor]:
        """Returns what was trained, of the shapes of the plan's `released`."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Returns everything that `restore` needs to go on with the same bits, as named tensors."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        ...


class KeptTraining:
    """A training whose state is written into a folder now and then, and when the block ends with an error.

    The state is public: it follows from noisy sums. The journal of the steps (`gate.journal`) lies beside it.

    Args:
        folder: Where; None to keep nothing.
        training: What.
    """

    def __init__(self, folder: Path | None, training: Training) -> None:
        self._folder, self._training = folder, training
        self._whole, self._saved = True, time.monotonic()

    @property
    def journal(self) -> Path | None:
        """Where the steps are counted."""
        return None if self._folder is None else self._folder / JOURNAL_FILE

    def take_up(self) -> None:
        """Restores the training if the folder holds a state of it.

        Raises:
            ModelError: if the state is broken.
        """
        path = None if self._folder is None else self._folder / STATE_FILE
        if path is None or not path.exists():
            return
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            self._training.restore(load_file(path))
        except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
            raise ModelError(
                f"{path} is broken: {error}. What it held is lost and stays spent; remove its folder to begin anew."
            ) from None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Marks the training as half changed within the block, so that no such state is kept."""
        self._whole = False
        yield
        self._whole = True
        if time.monotonic() - self._saved > _SECONDS:
            self._save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._whole:
            self._save()

    def _save(self) -> None:
        """Writes the state, whole or not at all; a full disk loses the state only."""
        self._saved = time.monotonic()
        # Without a journal no step was begun: there is nothing to go on with.
        if self._folder is None or not (self._folder / JOURNAL_FILE).exists():
            return
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        beside = self._folder / f".{STATE_FILE}"
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in self._training.state().items()}
        try:
            save_file(tensors, beside)
            beside.replace(self._folder / STATE_FILE)
        except (OSError, SafetensorError):
            beside.unlink(missing_ok=True)


def check_finite(tensors: Mapping[str, Tensor], step: int) -> None:
    """Checks what is trained after a step.

    Raises:
        DivergedError: if a number is not finite.
    """
    broken = [name for name, value in tensors.items() if not bool(value.isfinite().all())]
    if broken:
        raise DivergedError(
            f"step {step}: {broken[0]!r} is not finite any more. Lower the learning rate. What was spent stays spent; "
            "the last state that was kept is that of an earlier step."
        )
