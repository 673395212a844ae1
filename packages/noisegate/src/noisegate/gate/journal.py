"""How many steps of a run were begun: a line that says what run, then a dot for each step, on disk before its noise."""

import json
import os
from pathlib import Path
from typing import Any

from noisegate.errors import OptionError

FORMAT = 1
_BINARY = getattr(os, "O_BINARY", 0)


class Journal:
    """The journal of one run, on a local file system, where appending is atomic.

    `run` is the digest of everything that a resumed run must share with the one that was interrupted.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        self._start = 0

    def resume(self) -> dict[str, Any] | None:
        """Returns what the journal says of its run, or None if there is no journal yet."""
        try:
            with self._path.open("rb") as file:
                line = file.readline(65536)
            found: dict[str, Any] = json.loads(line)
            known = found["format"] == FORMAT
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"journal={self._path}: not a journal of gradients ({type(error).__name__}).") from None
        if not known or found.get("run") != self._run:
            raise OptionError(
                f"journal={self._path} is that of another run: plan, settings or budget differ. Resume with the same "
                "ones, or give another file, which starts a run that costs again."
            )
        self._start = len(line)
        return found

    def create(self, reservation: str | None) -> None:
        """Writes the first line; refuses a file that exists or cannot be written."""
        line = json.dumps({"format": FORMAT, "run": self._run, "reservation": reservation}).encode() + b"\n"
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        except OSError as error:
            raise OptionError(f"journal={self._path} cannot be made: {error.strerror}.") from None
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
        self._start = len(line)

    def begun(self) -> int:
        """Returns how many steps were begun."""
        return max(self._path.stat().st_size - self._start, 0)

    def begin(self) -> int:
        """Marks one more step as begun, on disk, and returns its number, from 0: no other call gets the same.

        An `OSError` means that it cannot be written; the step must not run then.
        """
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            if os.write(handle, b".") != 1:
                raise OSError(f"journal {self._path} cannot be written")
            number = os.lseek(handle, 0, os.SEEK_CUR) - 1 - self._start
            os.fsync(handle)
            # Another process may have withdrawn the run; had it done so after this, it would have seen the dot.
            if os.stat(self._path).st_ino != os.fstat(handle).st_ino:
                raise OSError(f"journal {self._path} was replaced")
        finally:
            os.close(handle)
        return number

    def rollback(self, own: int) -> bool:
        """Removes the file of a run that never drew any noise, and returns whether it could be.

        This process has begun `own` steps. If there are more, another has drawn noise, and the run goes on.
        """
        beside = self._path.with_name(f"{self._path.name}.withdrawn")
        # Out of the way first: nobody begins a step after the look at it.
        self._path.replace(beside)
        if beside.stat().st_size - self._start > own:
            beside.replace(self._path)
            return False
        beside.unlink()
        return True

    def remove(self) -> None:
        """Removes the file: the run has ended."""
        self._path.unlink(missing_ok=True)
