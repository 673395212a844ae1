"""A fit on its way: what left the gate is written down at once, so that no crash and no Ctrl-C wastes the budget.

What lies in OUT.partial says how far it came:

* ``room`` alone: the records are being read, and nothing has left the gate.
* ``room``, ``training.json`` and ``steps.journal``: a method that trains on gradients has begun its steps; it needs the
  records to go on. ``training.safetensors`` is the state of the training.
* no ``room``: the release is whole. The fit goes on without records, from ``checkpoint.safetensors`` if it is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from noisegate.cli.console import warn
from noisegate.cli.run import RUN_FILE
from noisegate.errors import ModelError
from noisegate.methods.kept_training import JOURNAL_FILE, STATE_FILE
from noisegate.model_folder import check_new
from noisegate.output.whole import check_named
from noisegate.privacy.release import Release

if TYPE_CHECKING:
    from noisegate.methods.catalogue import AnyMethod
    from noisegate.methods.method import Fit

_STATE, _ROOM = "checkpoint.safetensors", "room"


class Unfinished:
    """The folder OUT.partial beside the model folder OUT.

    Args:
        out: The model folder that is to be made.

    Raises:
        OptionError: if it has no name.
    """

    def __init__(self, out: Path) -> None:
        check_named(out)
        self.out = out
        self.folder = out.with_name(out.name + ".partial")

    @contextmanager
    def prepared(self, coordinates: int) -> Iterator[None]:
        """Makes the folder, with room for a release of so many numbers, before any budget is spent.

        If the block fails before `keep`, the folder goes away again, unless steps of a training were begun in it.

        Raises:
            ModelError: if the model or an unfinished fit exists, or there is no room.
        """
        check_new(self.out)
        if self.folder.exists():
            raise ModelError(
                f"{self._nothing_kept()} Remove it if no other fit is at work there, or choose another --out."
                if not (self.resumable or self.training)
                else f"{self.folder} holds an unfinished fit whose budget is spent; go on with "
                f"`noisegate fit --resume {'DATA ' * self.training}--out {self.out}`, or remove it first."
            )
        try:
            self.folder.mkdir()
            with (self.folder / _ROOM).open("wb") as room:
                for _ in range(0, 2**20 + 16 * coordinates, 2**20):
                    room.write(bytes(2**20))
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise ModelError(
                f"{self.folder} cannot be written: {error.strerror}. Nothing was spent; choose another --out."
            ) from None
        try:
            yield
        finally:
            if (self.folder / _ROOM).exists() and not self.training:
                shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self, release: Release) -> None:
        """Writes the release into the room that was kept for it; the room's file goes last, as the sign of success.

        Should even that fail, the fit goes on with the release in memory: the budget is spent already.
        """
        from safetensors import SafetensorError

        try:
            (self.folder / _ROOM).write_bytes(b"")
            release.save(self.folder)
            (self.folder / _ROOM).unlink()
            for name in (STATE_FILE, RUN_FILE):
                (self.folder / name).unlink(missing_ok=True)
        except (OSError, SafetensorError) as error:
            warn(f"{self.folder} cannot be written: {error}. Do not interrupt this fit, it could not be resumed.")

    @property
    def resumable(self) -> bool:
        """Whether a release lies in the folder."""
        return self.folder.is_dir() and not (self.folder / _ROOM).exists()

    @property
    def training(self) -> bool:
        """Whether steps of a training were begun in the folder, and their release is not there yet."""
        return (self.folder / _ROOM).exists() and (self.folder / JOURNAL_FILE).exists()

    @property
    def steps_begun(self) -> int:
        """How many steps of a training were begun."""
        marks = (self.folder / JOURNAL_FILE).read_bytes().partition(b"\n")[2]
        return marks.count(b".")

    def reopen(self, seed: int | None = None) -> tuple[Release, AnyMethod]:
        """Returns the release of an interrupted fit, and the method with its settings.

        Args:
            seed: Another seed for the fit, where it is the fit alone that draws; None for the one that it has.

        Raises:
            ModelError: if there is none.
            OptionError: if the release was asked with another seed.
        """
        from noisegate.methods.catalogue import method_of

        if not self.folder.is_dir():
            raise ModelError(
                f"{self.folder} does not exist: there is no unfinished fit to resume for --out {self.out}."
            )
        check_new(self.out)
        if (self.folder / _ROOM).exists():
            raise ModelError(
                f"{self._nothing_kept()} There is nothing to resume: remove it and fit again. In a ledger, the stopped "
                "run stays spent."
            )
        release = Release.load(self.folder)
        return release, method_of(release.certificate, seed=seed)

    def checkpoint(self, fitting: Fit) -> None:
        """Writes where the fit stands; a full disk loses the checkpoint only."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        beside = self.folder / f".{_STATE}"
        try:
            save_file(fitting.state(), beside)
            beside.replace(self.folder / _STATE)
        except (OSError, SafetensorError):
            beside.unlink(missing_ok=True)

    def restore(self, fitting: Fit) -> None:
        """Takes up the fit where the last checkpoint was written, if there is one.

        Raises:
            ModelError: if the checkpoint is broken.
        """
        path = self.folder / _STATE
        if not path.exists():
            return
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            fitting.restore(load_file(path))
        except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
            raise ModelError(f"{path} is broken: {error}. Remove it to start the fit anew from the release.") from None

    def remove(self) -> None:
        """Removes the folder; the model is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _nothing_kept(self) -> str:
        if (self.folder / RUN_FILE).exists():
            return f"{self.folder} is of a training that has begun no step, or was killed right after its last one."
        return f"{self.folder} is of a fit that is reading records, or was killed before anything left the gate."
