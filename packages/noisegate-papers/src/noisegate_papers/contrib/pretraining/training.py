"""Trainings on public images: interrupted, kept on disk, and resumed with the same bits."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate.atomic import new_file
from noisegate.errors import ModelError, said
from noisegate.models.checkpoint import joined, under
from noisegate.settings import Settings, Within
from noisegate_images.training.adam import Adam
from noisegate_papers.contrib.pretraining.images import PublicImages

_S = TypeVar("_S", bound=Settings)
_MOST = 2**31
Whole = Annotated[int, Within(ge=0, lt=_MOST), "a whole number, 0 or more"]
Steps = Annotated[int, Within(ge=1, lt=_MOST), "a whole number, 1 or more"]
Rows = Annotated[int, Within(ge=2, lt=_MOST), "a whole number, 2 or more"]
Part = Annotated[float, Within(ge=0, le=1), "a number from 0 to 1"]


class Pretraining(ABC, Generic[_S]):
    """A training on public images; a `noisegate.models.checkpoint.Resumable`.

    Every step is a function of the weights, the seed and its number: the same bits, on processors of one kind.

    Attributes:
        images: What it is trained on.
        settings: How; all of it is public.
        parts: What it changes, by the name in its state.
        step: How many steps are done.
    """

    images: PublicImages
    settings: _S
    parts: Mapping[str, nn.Module | Adam]
    step: int = 0

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps of the whole training."""

    @abstractmethod
    def _descend(self) -> float:
        """Takes a step and returns its loss."""

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that `load_state_dict` needs to go on with the same bits."""
        return joined(**{name: part.state_dict() for name, part in self.parts.items()}) | {
            "step": torch.tensor(self.step)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        for name, part in self.parts.items():
            part.load_state_dict(under(tensors, f"{name}/"))
        self.step = int(tensors["step"])

    def run(self, report: Callable[[int, float], None] | None = None) -> None:
        """Runs the remaining steps; `report` is called after each with the number of steps done and the loss."""
        with tiny_numbers_as_zero():
            while self.step < self.steps:
                loss = self._descend()
                self.step += 1
                if report:
                    report(self.step, loss)

    def save(self, path: Path) -> None:
        """Writes the state to `path`, in place of an earlier one."""
        tensors = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in self.state_dict().items()}
        with new_file(path, force=True) as tmp_path:
            safetensors.torch.save_file(tensors, tmp_path, metadata={"training": self._fingerprint()})

    def resume(self, path: Path) -> bool:
        """Goes on from the state at `path`; returns False if there is none."""
        if not path.exists():
            return False
        cure = f"remove {path} to start anew, or give another {said('out')}"
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                training = (file.metadata() or {}).get("training")
            if training != self._fingerprint():
                raise ModelError(f"{path} was left by a training with other images or options; {cure}.")
            self.load_state_dict(safetensors.torch.load_file(path))
        except (OSError, KeyError, RuntimeError, StopIteration, safetensors.SafetensorError) as error:
            raise ModelError(f"{path} cannot be read ({error}); {cure}.") from None
        return True

    def _fingerprint(self) -> str:
        """Returns the SHA-256 of everything that a training depends on."""
        settings: Any = self.settings
        digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode())
        digest.update(repr(self.images.classes).encode())
        digest.update(self.images.labels.tobytes())
        digest.update(self.images.pixels.data)
        return digest.hexdigest()


def partial_of(out: Path) -> Path:
    """Returns where the state of a training that is to end in `out` is kept."""
    return out.with_name(f"{out.name}.partial")


@contextmanager
def tiny_numbers_as_zero() -> Iterator[None]:
    """Takes subnormal numbers for zero within the block, as sums of them are slow; and for what they are after it.

    The switch is that of the whole thread, NumPy included: left on, it would change what others compute.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
