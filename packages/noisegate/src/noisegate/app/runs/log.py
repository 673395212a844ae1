"""The file of `fit --log`: what a run did, and when.

It tells what is public, as the log ``noisegate`` of Python does, and when it was::

    2026-03-01T09:30:00+01:00 A run begins.
    2026-03-01T09:30:00+01:00 Options: method='pairwise', epsilon=1.0, ...
    2026-03-01T09:30:01+01:00 The records are read, for epsilon = 1 at delta = 1e-05.
    2026-03-01T09:30:02+01:00 The release is complete; epsilon = 1 is spent.
    2026-03-01T09:30:02+01:00 A model is fitted, from step 0 of 300.
    2026-03-01T09:30:04+01:00 Fitted; verdict: usable.
    2026-03-01T09:30:04+01:00 The run is done.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from noisegate.atomic import check_named, close_to_others, unwritable
from noisegate.errors import OptionError, said

_START_OF_LOG = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:")


class RunLog:
    """The text file to which a run appends what it did, one line a stage with its time.

    Nobody writes a count of records or a message of an error into it. How long reading
    took stands in it, and that grows with the number of records.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Opens the file for a run, and says how the run ends.

        The file is its owner's alone. An earlier one is appended to.

        Raises:
            OptionError: if it cannot be written, or is a file of another kind.
        """
        check_named(self.path, "log")
        try:
            self._check_is_log()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._descriptor = os.open(self.path, flags, 0o600)
            # A terminal or a pipe has permissions of its own.
            if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                close_to_others(self.path)
            self._append("A run begins.")
        except OSError as error:
            self._close()
            raise unwritable(self.path, "log", error) from None
        try:
            yield
            self.write("The run is done.")
        except BaseException as error:
            # What an error says may be private.
            self.write(f"The run is stopped: {type(error).__name__}.")
            raise
        finally:
            self._close()

    def _check_is_log(self) -> None:
        """Refuses to append to the records, a ledger, or whatever else is no log."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            start = file.read(32)
        if start and not _START_OF_LOG.match(start):
            raise OptionError(
                f"{said('log', self.path)} exists, and is no log of a run; choose "
                "another name."
            )

    def write(self, text: str) -> None:
        """Appends a line. A full disk stops no run whose cost is paid."""
        with suppress(OSError):
            self._append(text)

    def _append(self, text: str) -> None:
        """Appends a line, if the file is open."""
        if self._descriptor is not None:
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            line = f"{now} {' '.join(text.split())}\n"
            os.write(self._descriptor, line.encode(errors="replace"))

    def _close(self) -> None:
        """Closes the file, if it is open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
