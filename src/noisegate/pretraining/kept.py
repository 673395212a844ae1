"""The state of an unfinished training on disk, so that it may be interrupted: weights, and what of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import safetensors
import safetensors.torch
from torch import Tensor

from noisegate.errors import ModelError
from noisegate.pretraining.images import PublicImages

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Interruptible(Protocol):
    """A training on public images that may be stopped between steps and taken up again.

    Attributes:
        images: What it is trained on.
        step: How many steps are done.
    """

    images: PublicImages
    step: int

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        ...

    def run(self, report: Callable[[int, float], None] | None = None) -> None:
        """Runs the remaining steps; `report` is called after each with the number of steps done and the loss."""
        ...

    @property
    def settings(self) -> DataclassInstance:
        """How it is trained: numbers and text that JSON can hold."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Returns everything that `restore` needs to go on with the same bits."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        ...


def partial_of(out: Path) -> Path:
    """Returns where the state of a training that is to end in `out` is kept."""
    return out.with_name(f"{out.name}.partial")


def keep(fitting: Interruptible, path: Path) -> None:
    """Writes the state to `path`, in place of an earlier one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        safetensors.torch.save_file(fitting.state(), beside, metadata={"training": _fingerprint(fitting)})
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def take_up(fitting: Interruptible, path: Path) -> bool:
    """Goes on from the state at `path`; returns False if there is none.

    Raises:
        ModelError: if it is the state of another training, or broken.
    """
    if not path.exists():
        return False
    cure = f"remove {path} to start anew, or give another --out"
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get("training")
        if found != _fingerprint(fitting):
            raise ModelError(f"{path} was left by a training with other images or options; {cure}.")
        fitting.restore(safetensors.torch.load_file(path))
    except (OSError, KeyError, RuntimeError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path} cannot be read ({error}); {cure}.") from None
    return True


def _fingerprint(fitting: Interruptible) -> str:
    """Returns the SHA-256 of everything that a training depends on."""
    images = fitting.images
    digest = hashlib.sha256(json.dumps(asdict(fitting.settings), sort_keys=True).encode())
    digest.update(repr(images.classes).encode())
    digest.update(images.labels.tobytes())
    digest.update(images.pixels.data)
    return digest.hexdigest()
