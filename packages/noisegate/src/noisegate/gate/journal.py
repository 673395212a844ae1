"""Journals: what a run has begun and answered, on disk before its noise is drawn.

A run that was stopped, by a crash or by hand, goes on by its journal, under the same
reservation, and no noise is drawn twice (G-10, G-21). Neither kind holds a secret:

- `Journal`, of a training in steps: a line of JSON, then one dot for each step begun::

      {"format": 1, "run": "5f3c…", "reservation": "0b1d…"}
      ........

- `AnswerJournal`, of queries: lines of JSON. The run has an owner, the process that
  goes on with it; a query is begun by an owner, and answered by its noisy values::

      {"format": 1, "run": "5f3c…", "reservation": "0b1d…"}
      {"owner": "a3…"}
      {"begun": "counts", "map": "77…", "by": "a3…"}
      {"answered": "counts", "shape": [4, 1], "values": "…"}

Both only append, which is atomic on a local file system, so two processes with one
journal never draw the same noise. They guard against crashes and mistakes, not against
an operator who puts back an old copy.
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
"""Version of both kinds of file, in their first line."""
# On Windows, files are text unless they are opened with this flag.
_BINARY = getattr(os, "O_BINARY", 0)
# A first line that is longer is none of a journal.
_MAX_HEADER_SIZE = 65_536
# A line of an `AnswerJournal` that makes a process the owner of the run.
_OWNER_LINE = re.compile(rb'^{"owner": "([0-9a-f]{32})"}$', re.MULTILINE)


class Journal:
    """Counts the steps that a training has begun, across interruptions.

    Args:
        path: The file, on a local file system, where appending is atomic.
        run: Digest of everything that a resumed run must share with the one that was
            interrupted.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        # Bytes of the first line, behind which the dots begin.
        self._header_size = 0

    def resume(self) -> dict[str, Any] | None:
        """Opens the journal of a run that was interrupted, so that it can go on.

        Its first line is read, and where that line ends is remembered: the steps begun
        are counted from there.

        Returns:
            The line as JSON, with its `run` and `reservation`; None if there is no
            journal yet.

        Raises:
            OptionError: if the file is no journal, or that of another run.
        """
        try:
            with self._path.open("rb") as file:
                line = file.readline(_MAX_HEADER_SIZE)
            header: dict[str, Any] = json.loads(line)
            has_known_format = header["format"] == FORMAT
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(
                f"journal={self._path}: not a journal of gradients "
                f"({type(error).__name__})."
            ) from None
        if not has_known_format or header.get("run") != self._run:
            raise OptionError(
                f"journal={self._path} is that of another run: plan, settings or "
                "budget differ. Resume with the same ones, or give another file, which "
                "starts a run that costs again."
            )
        self._header_size = len(line)
        return header

    def create(self, reservation: str | None) -> None:
        """Writes the first line, on disk.

        Args:
            reservation: The reservation in the ledger; None without a ledger.

        Raises:
            OptionError: if the file exists or cannot be written.
        """
        header = {"format": FORMAT, "run": self._run, "reservation": reservation}
        line = json.dumps(header).encode() + b"\n"
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
        self._header_size = len(line)

    def begun_step_count(self) -> int:
        """Returns how many steps were begun, by all processes with this journal."""
        return max(self._path.stat().st_size - self._header_size, 0)

    def begin_step(self) -> int:
        """Marks one more step as begun, on disk.

        Returns:
            The number of the step, from 0. No other call gets the same, in any process.
            It may be beyond the last step that was planned, as another process may have
            begun that: the journal does not know how many there are.

        Raises:
            OSError: if that cannot be written. The step must not run then.
        """
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            if os.write(handle, b".") != 1:
                raise OSError(f"journal {self._path} cannot be written")
            # An append puts the position of this handle behind its own dot, wherever
            # other processes have appended theirs.
            position_after_dot = os.lseek(handle, 0, os.SEEK_CUR)
            number = position_after_dot - 1 - self._header_size
            os.fsync(handle)
            # Another process may have withdrawn the run by moving the file away. If it
            # does so after this look, it sees the dot.
            if os.stat(self._path).st_ino != os.fstat(handle).st_ino:
                raise OSError(f"journal {self._path} was replaced")
        finally:
            os.close(handle)
        return number

    def withdraw(self, own_step_count: int) -> bool:
        """Removes the journal of a run that drew no noise, in any process.

        If the process dies in between, the journal stays beside its name, with
        ``.withdrawn`` behind it, and the reservation stays open: the cost is not given
        back.

        Args:
            own_step_count: Number of steps that this process has begun. If the journal
                has more, another process has drawn noise, and the run goes on.

        Returns:
            Whether the journal was removed.
        """
        withdrawn_path = self._path.with_name(f"{self._path.name}.withdrawn")
        # Moved away before it is looked at, so that nobody begins a step afterwards.
        self._path.replace(withdrawn_path)
        begun_step_count = withdrawn_path.stat().st_size - self._header_size
        if begun_step_count > own_step_count:
            withdrawn_path.replace(self._path)
            return False
        withdrawn_path.unlink()
        return True

    def remove(self) -> None:
        """Removes the file: the run has ended."""
        self._path.unlink(missing_ok=True)


class AnswerJournal:
    """Records which queries a run has begun, and the noisy answers that were drawn.

    Each line is one JSON object, on disk before the run goes on. A line that was cut
    off by a crash counts for nothing: the process that wrote it had not gone on. Only
    what has left the gate is in it: names of queries, hashes of public maps, and noisy
    answers.

    Whoever appended the last line of an owner goes on with the run. A process begins a
    query only if it is still the owner after the line that says so is on disk. So of
    two processes with one journal, the later owner sees what the earlier one has begun,
    and the earlier one begins nothing more.

    Args:
        path: The file, on a local file system, where appending is atomic.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # What this process is called in the file.
        self._own_id = uuid.uuid4().hex
        # The owner by the lines that were read so far.
        self._last_owner: str | None = None
        # Queries that this process has begun.
        self._begun_here: set[str] = set()
        # Whether the file could not be written, and was removed.
        self._is_abandoned = False
        self.is_own = True
        """Whether no other process was seen to go on with the run."""
        self.begun_maps: dict[str, str | None] = {}
        """Queries whose noise may have been drawn when the file was read, each with the
        hash of its map (None where it has no map)."""
        self.answers: dict[str, npt.NDArray[np.float64]] = {}
        """Noisy answers that were drawn, by query, each (dim, columns)."""

    @property
    def exists(self) -> bool:
        """Whether there is a file, and so a run to go on with."""
        return self.path.exists()

    @property
    def has_begun_queries(self) -> bool:
        """Whether this process has begun a query."""
        return bool(self._begun_here)

    @property
    def lost_queries(self) -> list[str]:
        """Queries that were begun and have no answer.

        Their noise may have been drawn, so it is never drawn again.
        """
        return [name for name in self.begun_maps if name not in self.answers]

    def create(self, run: str, reservation: str | None) -> None:
        """Creates the file of a new run, before anything is reserved.

        The first line and that of the owner are on disk when this returns, and so is
        the name of the file in its folder. After an error the file is removed.

        Args:
            run: Digest of everything that a run must share which goes on with it.
            reservation: What the reservation will be called; None without a ledger.

        Raises:
            OptionError: if the file exists or cannot be written.
        """
        header = {"format": FORMAT, "run": run, "reservation": reservation}
        owner = {"owner": self._own_id}
        text = json.dumps(header) + "\n" + json.dumps(owner) + "\n"
        try:
            handle = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600
            )
            try:
                _write_all(handle, text.encode())
            finally:
                os.close(handle)
            sync_folders(self.path.parent)
        except OSError as error:
            self.discard()
            raise OptionError(
                f"{self.path} cannot be written: {error.strerror}. Nothing was spent."
            ) from None

    def load(self) -> dict[str, Any]:
        """Reads the file into this object, in place of what it held.

        These are `begun_maps`, `answers`, and the owner of the run. What this process
        has begun itself is kept apart, and stays.

        Returns:
            The first line as JSON, with its `run` and `reservation`.

        Raises:
            OptionError: if it cannot be read.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")
            header: dict[str, Any] = json.loads(lines[0])
            if header["format"] != FORMAT:
                raise ValueError("another format")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(
                f"{self.path} is not a journal of queries ({type(error).__name__}), so "
                "nobody can say what was drawn. What was reserved stays spent; remove "
                "the folder, and fit again."
            ) from None
        self._last_owner = None
        self.begun_maps = {}
        self.answers = {}
        for line in lines[1:]:
            # Lines that were cut off by a crash are skipped.
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self._read_line(json.loads(line))
        return header

    def _read_line(self, line: dict[str, Any]) -> None:
        """Takes in one line: an owner, a query that was begun, or an answer.

        Args:
            line: The line as JSON. If it is none of these, some error is raised.
        """
        if "owner" in line:
            self._last_owner = line["owner"]
        elif "begun" in line:
            # A process that was no longer the owner saw that after its line was on
            # disk, and did not begin the query.
            is_by_owner = line["by"] == self._last_owner
            if is_by_owner:
                self.begun_maps.setdefault(line["begun"], line["map"])
        else:
            data = base64.b64decode(line["values"], validate=True)
            values = np.frombuffer(data, dtype="<f8").reshape(line["shape"])
            query = line["answered"]
            if query in self.begun_maps:
                # The first answer counts: it is the one that may have left.
                self.answers.setdefault(query, values.astype(np.float64))

    def take_up(self, run: str | None) -> str | None:
        """Becomes the owner of the run in the file, to go on with it.

        The order is: compare the run, append the line of this owner, read the file.
        What an earlier owner has begun before that line is then in `begun_maps`, and it
        begins nothing after it, as `begin_query` looks for the last owner once its own
        line is on disk. If the file were read first, a query that is begun between
        reading and appending would be drawn twice.

        Example: process A has begun "counts" and was killed. After B calls this, the
        file ends with B's line, `begun_maps` has "counts", and so has `lost_queries`,
        as there is no answer to it::

            {"owner": "a3…"}
            {"begun": "counts", "map": "77…", "by": "a3…"}
            {"owner": "b8…"}

        A crash after the line is harmless: that owner begins nothing, and the next
        process to take the run up appends its own. A second call appends the line again
        and reads the file again; this process stays the owner. Of another run, the file
        stays as it is.

        `test_the_owner_before_begins_nothing_more` and
        `test_a_line_that_was_cut_off_counts_for_nothing` watch over this.

        Args:
            run: Digest of the run that goes on; None where the journal of the steps,
                beside this one, has compared it.

        Returns:
            The reservation of the run; None without a ledger.

        Raises:
            OptionError: if the file is that of another run, or cannot be read or
                written.
        """
        # Compared before anything is written: the file of another run is not ours.
        if run is not None and self.load().get("run") != run:
            raise OptionError(
                f"{self.path} is that of another run: plan, settings or budget differ, "
                "or another version of noisegate began it. Go on with the same ones; "
                "or remove the folder and fit again, which costs again."
            )
        try:
            self._append({"owner": self._own_id})
        except OSError as error:
            raise OptionError(
                f"{self.path} cannot be written: {error.strerror}. "
                "Nothing more was spent."
            ) from None
        # Read again, in place of what was read to compare: from here on, no other
        # process adds queries that count, but those of a later owner.
        reservation: str | None = self.load().get("reservation")
        return reservation

    def forget_begun_queries(self) -> None:
        """Forgets which queries were begun, as the ledger shows that none has noise.

        The reservation was not confirmed, and noise is drawn only after that. The file
        stays as it is: the run begins these queries anew.
        """
        self.begun_maps = {}

    def begin_query(self, query: str, map_digest: str | None = None) -> None:
        """Marks a query as begun, on disk; once, however often it is called.

        The line is written first and the owner looked up afterwards: whoever took the
        run up in between has read the line, and whoever takes it up later will. So a
        process that is no longer the owner finds out before it draws noise.

        Args:
            query: Name of the query.
            map_digest: Hash of its map; None where it has no map.

        Raises:
            OptionError: if that cannot be written, or another process goes on with the
                run. No noise may be drawn then.
        """
        if query in self._begun_here or self._is_abandoned:
            return
        try:
            self._append({"begun": query, "map": map_digest, "by": self._own_id})
            content = self.path.read_bytes()
        except OSError as error:
            if not self._begun_here:
                raise OptionError(
                    f"{self.path} cannot be written: {error.strerror}. No noise was "
                    f"drawn for {query!r}; make room on the disk, or remove whatever "
                    "removes files there."
                ) from None
            # Noise was drawn for earlier queries, and its cost would be lost. So the
            # run goes on, but can no longer be resumed.
            self._abandon(error)
            return
        owners = _OWNER_LINE.findall(content)
        is_owner = bool(owners) and owners[-1].decode() == self._own_id
        if not is_owner:
            self.is_own = False
            raise OptionError(
                f"{self.path}: another process goes on with this run, so this one has "
                "ended."
            )
        self._begun_here.add(query)

    def write_answer(self, query: str, values: npt.NDArray[np.float64]) -> None:
        """Writes the noisy answer to a query that was begun.

        If that fails, the run goes on, but can no longer be resumed.

        Args:
            query: Name of the query.
            values: Its noisy answer, (dim, columns).
        """
        if self._is_abandoned:
            return
        raw_values = np.ascontiguousarray(values, dtype="<f8").tobytes()
        data = base64.b64encode(raw_values).decode()
        try:
            self._append(
                {"answered": query, "shape": list(values.shape), "values": data}
            )
        except OSError as error:
            self._abandon(error)

    def _abandon(self, error: OSError) -> None:
        """Removes the file after an error in writing, and writes no more.

        Args:
            error: The error, for the log.
        """
        LOG.warning(
            "%s cannot be written: %s. This fit goes on; it cannot be resumed.",
            self.path,
            error.strerror,
        )
        self._is_abandoned = True
        self.discard()

    def discard(self) -> None:
        """Removes the file: there is nothing to go on with."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        """Appends one line of JSON, on disk when this returns.

        Raises:
            OSError: if it cannot be written.
        """
        # It begins with an end of line, as the line before may have been cut off.
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            _write_all(handle, b"\n" + json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    """Writes all of the data to an open file, on disk when this returns.

    Raises:
        OSError: if it cannot be written.
    """
    remaining = memoryview(data)
    while remaining:
        # The system may write only a part at a time.
        written = os.write(handle, remaining)
        remaining = remaining[written:]
    os.fsync(handle)
