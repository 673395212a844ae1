"""What a run has begun and answered, on disk before its noise: steps as dots of a file, queries as lines of another.

With it a run that was stopped goes on under its reservation, and no noise is drawn twice (G-10, G-21).

How many steps of a run were begun: a small file that outlives an interruption and holds
no secret.

The first line is JSON: what run this is, and its reservation. After it, one dot for
each step that was begun, on disk before the step's noise is drawn. Appending is atomic,
so two processes with one journal never take a step twice. It guards against crashes and
mistakes, not against an operator who restores an old copy.
"""

import base64
import contextlib
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.atomic import sync_folders
from noisegate.errors import OptionError
from noisegate.progress import LOG

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
            raise OptionError(
                f"journal={self._path}: not a journal of gradients ({type(error).__name__})."
            ) from None
        if not known or found.get("run") != self._run:
            raise OptionError(
                f"journal={self._path} is that of another run: plan, settings or budget differ. Resume with the same "
                "ones, or give another file, which starts a run that costs again."
            )
        self._start = len(line)
        return found

    def create(self, reservation: str | None) -> None:
        """Writes the first line; refuses a file that exists or cannot be written."""
        line = (
            json.dumps(
                {"format": FORMAT, "run": self._run, "reservation": reservation}
            ).encode()
            + b"\n"
        )
        try:
            handle = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600
            )
        except OSError as error:
            raise OptionError(
                f"journal={self._path} cannot be made: {error.strerror}."
            ) from None
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


class AnswerJournal:
    """The journal of a run's queries: what run it is, which queries were begun, and each answer that was drawn.

    Each line is one JSON object, on disk before the run goes on. A line that was cut off by a crash counts for nothing:
    the process that wrote it had not gone on. Only what has left the gate is in it: names of queries, hashes of public
    maps, and noisy answers.

    Lines are appended, and whoever appended the last line of an owner goes on with the run. A process begins a query
    only if it is still the owner after the line that says so is on disk. So of two processes with one journal, the
    later owner sees what the earlier one has begun, and the earlier one begins nothing more.

    Args:
        path: The file, on a local file system, where appending is atomic.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = uuid.uuid4().hex
        self._last_owner: str | None = None
        self._begun_here: set[str] = set()
        self._given_up = False
        self.is_own = True
        """Whether no other process was seen to go on with the run."""
        self.begun: dict[str, str | None] = {}
        """Queries of which noise may have been drawn, each with the hash of its map."""
        self.answers: dict[str, npt.NDArray[np.float64]] = {}
        """Answers that were drawn, by query."""

    @property
    def exists(self) -> bool:
        """Whether there is a file, so a run to go on with."""
        return self.path.exists()

    @property
    def has_begun(self) -> bool:
        """Whether this process has begun a query."""
        return bool(self._begun_here)

    @property
    def lost(self) -> list[str]:
        """Queries that were begun and have no answer: their noise may have been drawn, and is never drawn again."""
        return [name for name in self.begun if name not in self.answers]

    def create(self, run: str, reservation: str | None) -> None:
        """Writes what run it is, and under which reservation, before anything is reserved.

        Raises:
            OptionError: if the file exists or cannot be written.
        """
        head = {"format": FORMAT, "run": run, "reservation": reservation}
        text = "".join(
            json.dumps(line) + "\n" for line in (head, {"owner": self._owner})
        )
        try:
            handle = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600
            )
            try:
                _write(handle, text.encode())
            finally:
                os.close(handle)
            sync_folders(self.path.parent)
        except OSError as error:
            self.discard()
            raise OptionError(
                f"{self.path} cannot be written: {error.strerror}. Nothing was spent."
            ) from None

    def read(self) -> dict[str, Any]:
        """Reads the file; returns its first line, which says what run it is.

        Raises:
            OptionError: if it cannot be read.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")
            head: dict[str, Any] = json.loads(lines[0])
            if head["format"] != FORMAT:
                raise ValueError("another format")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(
                f"{self.path} is not a journal of queries ({type(error).__name__}), so nobody can say what was drawn. "
                "What was reserved stays spent; remove the folder, and fit again."
            ) from None
        self._last_owner = None
        self.begun, self.answers = {}, {}
        for line in lines[1:]:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self._take(json.loads(line))
        return head

    def _take(self, line: dict[str, Any]) -> None:
        if "owner" in line:
            self._last_owner = line["owner"]
        elif "begun" in line:
            # Whoever was the owner no more when this line came has seen so, and has not begun.
            if line["by"] == self._last_owner:
                self.begun.setdefault(line["begun"], line["map"])
        else:
            values = np.frombuffer(
                base64.b64decode(line["values"], validate=True), dtype="<f8"
            )
            shaped = values.reshape(line["shape"]).astype(np.float64)
            if line["answered"] in self.begun:
                self.answers.setdefault(line["answered"], shaped)

    def take_up(self, run: str | None) -> str | None:
        """Goes on with the run of the file, as its owner; returns its reservation.

        Args:
            run: The digest of the run that goes on; None where another journal has compared it.

        Raises:
            OptionError: if the file is that of another run, or cannot be read or written.
        """
        if run is not None and self.read().get("run") != run:
            raise OptionError(
                f"{self.path} is that of another run: plan, settings or budget differ, or another version of noisegate "
                "began it. Go on with the same ones; or remove the folder and fit again, which costs again."
            )
        try:
            self._append({"owner": self._owner})
        except OSError as error:
            raise OptionError(
                f"{self.path} cannot be written: {error.strerror}. Nothing more was spent."
            ) from None
        reservation: str | None = self.read().get("reservation")
        return reservation

    def nothing_drawn(self) -> None:
        """Forgets which queries were begun: a ledger has said that none of them was confirmed, so none has noise."""
        self.begun = {}

    def begin(self, query: str, feature_map: str | None = None) -> None:
        """Marks a query as begun, on disk; once, however often it is called.

        Raises:
            OptionError: if that cannot be written, or another process goes on with the run. No noise may be drawn then.
        """
        if query in self._begun_here or self._given_up:
            return
        try:
            self._append({"begun": query, "map": feature_map, "by": self._owner})
            text = self.path.read_bytes()
        except OSError as error:
            if not self._begun_here:
                raise OptionError(
                    f"{self.path} cannot be written: {error.strerror}. No noise was drawn for {query!r}; make room on "
                    "the disk, or remove whatever removes files there."
                ) from None
            # Noise was drawn before, whose cost would be lost: it goes on, and cannot be resumed any more.
            self.give_up(error)
            return
        owners = re.findall(rb'^{"owner": "([0-9a-f]{32})"}$', text, re.MULTILINE)
        if not owners or owners[-1].decode() != self._owner:
            self.is_own = False
            raise OptionError(
                f"{self.path}: another process goes on with this run, so this one has ended."
            )
        self._begun_here.add(query)

    def answer(self, query: str, values: npt.NDArray[np.float64]) -> None:
        """Writes the answer to a query that was begun. Where that fails, the run goes on, and cannot be resumed."""
        data = base64.b64encode(
            np.ascontiguousarray(values, dtype="<f8").tobytes()
        ).decode()
        try:
            if not self._given_up:
                self._append(
                    {"answered": query, "shape": list(values.shape), "values": data}
                )
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: OSError) -> None:
        """Removes the file, which is not whole any more."""
        LOG.warning(
            "%s cannot be written: %s. This fit goes on; it cannot be resumed.",
            self.path,
            error.strerror,
        )
        self._given_up = True
        self.discard()

    def discard(self) -> None:
        """Removes the file: there is nothing to go on with."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        # The line before may have been cut off, and ends here.
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            _write(handle, b"\n" + json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)


def _write(handle: int, data: bytes) -> None:
    """Writes all of `data` to disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.fsync(handle)
