"""Journals: what a run has begun and answered, on disk before its noise is drawn.

By its journal, a run that was stopped, by a crash or by hand, can continue under the
same reservation, and no noise is drawn twice (G-10, G-21). There are two kinds, neither
of which holds a secret:

- `Journal`, of a training in steps: a line of JSON, then one dot for each step begun::

      {"format": 1, "run": "5f3c…", "reservation": "0b1d…"}
      ........

- `AnswerJournal`, of queries: lines of JSON. The last owner line names the process
  that continues with the run; other lines say which owner has begun a query, and what
  the noisy answer was::

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
# Largest number of bytes that are read of a first line; that of a journal is shorter.
_MAX_HEADER_SIZE = 65_536
# A line of an `AnswerJournal` by which a process becomes the owner of the run.
_OWNER_LINE = re.compile(rb'^{"owner": "([0-9a-f]{32})"}$', re.MULTILINE)


class Journal:
    """Counts the steps that a training has begun, in a file, across interruptions.

    The file has a first line, the header, and then one dot for each step begun.

    Args:
        path: The file, on a local file system, where appending is atomic.
        run: Hash of everything that a resumed run must share with the interrupted one.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        # Number of bytes of the first line, behind which the dots begin.
        self._header_size = 0

    def resume(self) -> dict[str, Any] | None:
        """Opens the journal of an interrupted run, so that the run can continue.

        Reads the first line, and remembers where it ends, as steps are counted from
        there.

        Returns:
            The first line as JSON, with its `run` and `reservation`; None if there is
            no file.

        Raises:
            OptionError: if the file is not a journal, or that of another run.
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
        """Creates the file with its first line, on disk when this returns.

        Args:
            reservation: Id of the reservation in the ledger; None without a ledger.

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
        """Counts the steps that were begun, by all processes with this journal."""
        return max(self._path.stat().st_size - self._header_size, 0)

    def begin_step(self) -> int:
        """Marks one more step as begun, on disk when this returns.

        A dot is appended to the file. Appending is atomic, so the position of the dot
        is the number of the step, and no two processes get the same.
        `tests/gate/test_gradient_journal.py` notices if they do.

        Returns:
            The number of the step, from 0. It may be beyond the last planned step, if
            another process has begun that one: the journal does not know the plan.

        Raises:
            OSError: if the dot cannot be written. The step must not run then.
        """
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | _BINARY)
        try:
            if os.write(handle, b".") != 1:
                raise OSError(f"journal {self._path} cannot be written")
            # After an append, the position of this handle is behind its own dot, even
            # if other processes have appended dots at the same time.
            position_after_dot = os.lseek(handle, 0, os.SEEK_CUR)
            number = position_after_dot - 1 - self._header_size
            os.fsync(handle)
            # Another process may have withdrawn the run by moving the file away. If it
            # does so after this check, it will see the dot.
            if os.stat(self._path).st_ino != os.fstat(handle).st_ino:
                raise OSError(f"journal {self._path} was replaced")
        finally:
            os.close(handle)
        return number

    def withdraw(self, own_step_count: int) -> bool:
        """Removes the journal of a run, unless another process has begun a step of it.

        Called before the cost of a run is given back that drew no noise. If this
        process dies in between, the journal keeps its temporary name, which ends in
        ``.withdrawn``, and the reservation stays open: the cost is not given back.

        Args:
            own_step_count: Number of steps that this process has begun. If the journal
                counts more, another process may have drawn noise, and the run
                continues.

        Returns:
            Whether the journal was removed.
        """
        withdrawn_path = self._path.with_name(f"{self._path.name}.withdrawn")
        # Moved away before steps are counted, so that nobody begins one afterwards.
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
    """Writes which queries a run has begun, and the noisy answers that were drawn.

    Each line of the file is one JSON object, on disk before the run continues. A line
    that was cut off by a crash counts for nothing: the process that wrote it did not go
    on. The file has nothing private: names of queries, hashes of public feature maps,
    and noisy answers.

    The owner of a run is the process that continues with it: the one that has appended
    the last owner line. A process draws the noise of a query only if it is still the
    owner after its line "begun" is on disk. So if two processes have one journal, the
    later owner sees what the earlier one has begun, and the earlier one begins nothing
    more.

    Args:
        path: The file, on a local file system, where appending is atomic.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Name of this process in the file.
        self._own_id = uuid.uuid4().hex
        # The owner of the run, by the lines that were read so far.
        self._last_owner: str | None = None
        # Names of the queries that this process has begun.
        self._begun_here: set[str] = set()
        # Whether the file could not be written and was removed.
        self._is_abandoned = False
        self.is_own = True
        """False once another process was seen to be the owner of the run."""
        self.begun_maps: dict[str, str | None] = {}
        """Queries whose noise may have been drawn, when the file was read last: hashes
        of their feature maps by name, None for a query without a map."""
        self.answers: dict[str, npt.NDArray[np.float64]] = {}
        """Noisy answers, when the file was read last, by query, each (dim, columns)."""

    @property
    def exists(self) -> bool:
        """Whether the file exists, and so there is a run to continue with."""
        return self.path.exists()

    @property
    def has_begun_queries(self) -> bool:
        """Whether this process has begun a query."""
        return bool(self._begun_here)

    @property
    def lost_queries(self) -> list[str]:
        """Names of the queries that were begun and have no answer.

        Their noise may have been drawn, so it must not be drawn again.
        """
        return [name for name in self.begun_maps if name not in self.answers]

    def create(self, run: str, reservation: str | None) -> None:
        """Creates the file of a new run, whose owner is this process.

        It is called before anything is reserved. The first line, the owner line and the
        directory entry of the file are on disk when this returns. After an error the
        file is removed.

        Args:
            run: Hash of everything that a run must share which continues with this one.
            reservation: Id that the reservation will have; None without a ledger.

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
        """Reads the file, and replaces `begun_maps`, `answers` and the owner by it.

        Which queries this process has begun itself stays as it is.

        Returns:
            The first line as JSON, with its `run` and `reservation`.

        Raises:
            OptionError: if the file cannot be read, or is not a journal of queries.
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
            # A line that was cut off by a crash raises one of these, and is skipped.
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self._read_line(json.loads(line))
        return header

    def _read_line(self, line: dict[str, Any]) -> None:
        """Reads one line: an owner, a query that was begun, or an answer.

        Args:
            line: The line as JSON. For anything else, some error is raised.
        """
        if "owner" in line:
            self._last_owner = line["owner"]
        elif "begun" in line:
            # A process that is no longer the owner finds out after this line is on
            # disk, and does not begin the query.
            is_by_owner = line["by"] == self._last_owner
            if is_by_owner:
                self.begun_maps.setdefault(line["begun"], line["map"])
        else:
            data = base64.b64decode(line["values"], validate=True)
            values = np.frombuffer(data, dtype="<f8").reshape(line["shape"])
            query = line["answered"]
            if query in self.begun_maps:
                # The first answer counts, since it may have been released.
                self.answers.setdefault(query, values.astype(np.float64))

    def become_owner(self, run: str | None) -> str | None:
        """Becomes the owner of the run in the file, to continue with it.

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
        `test_a_line_that_was_cut_off_counts_for_nothing` notice if this changes.

        Args:
            run: Hash of what the run must share with the one in the file; None if the
                journal of steps, beside this one, was compared already.

        Returns:
            Id of the reservation of the run; None without a ledger.

        Raises:
            OptionError: if the file is that of another run, or cannot be read or
                written.
        """
        # Compared before anything is written into the file, which may be of another
        # run.
        if run is not None and self.load().get("run") != run:
            raise OptionError(
                f"{self.path} is that of another run: plan, settings or budget "
                "differ, or another version of noisegate began it. Continue with "
                "the same ones; or remove the folder and fit again, which costs "
                "again."
            )
        try:
            self._append({"owner": self._own_id})
        except OSError as error:
            raise OptionError(
                f"{self.path} cannot be written: {error.strerror}. "
                "Nothing more was spent."
            ) from None
        # Read again, after the owner line: from there on no other process begins a
        # query, unless it becomes the owner later.
        reservation: str | None = self.load().get("reservation")
        return reservation

    def forget_begun_queries(self) -> None:
        """Forgets which queries were begun, so that the run begins them again.

        Called if the ledger shows that the reservation was not confirmed: noise is only
        drawn after that, so none of these queries has any. The file stays as it is.
        """
        self.begun_maps = {}

    def begin_query(self, query: str, map_digest: str | None = None) -> None:
        """Marks a query as begun, on disk when this returns, before its noise is drawn.

        The line is written first, and the owner looked up afterwards. A process that
        has become the owner before the line was written is seen here, and no noise is
        drawn; one that becomes the owner later will read the line. A second call for
        the same query does nothing.

        Args:
            query: Name of the query.
            map_digest: Hash of its feature map; None for a query without a map.

        Raises:
            OptionError: if the line cannot be written, or another process is the owner
                of the run. No noise may be drawn then.
        """
        if query in self._begun_here or self._is_abandoned:
            return
        try:
            self._append({"begun": query, "map": map_digest, "by": self._own_id})
            content = self.path.read_bytes()
        except OSError as error:
            if not self._begun_here:
                raise OptionError(
                    f"{self.path} cannot be written: {error.strerror}. No noise "
                    f"was drawn for {query!r}; free some disk space, or stop "
                    "whatever deletes files there."
                ) from None
            # Noise was drawn for earlier queries, whose cost would be lost if the run
            # stopped. So it continues, but cannot be resumed any more.
            self._abandon(error)
            return
        owners = _OWNER_LINE.findall(content)
        is_owner = bool(owners) and owners[-1].decode() == self._own_id
        if not is_owner:
            self.is_own = False
            raise OptionError(
                f"{self.path}: another process continues this run, so this one has "
                "ended."
            )
        self._begun_here.add(query)

    def write_answer(self, query: str, values: npt.NDArray[np.float64]) -> None:
        """Writes the noisy answer to a query, on disk when this returns.

        If that fails, the run continues, but cannot be resumed any more.

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
        """Removes the file after an error in writing; nothing is written from then on.

        Args:
            error: The error, for the log.
        """
        LOG.warning(
            "%s cannot be written: %s. This fit continues; it cannot be resumed.",
            self.path,
            error.strerror,
        )
        self._is_abandoned = True
        self.discard()

    def discard(self) -> None:
        """Removes the file, so that no process continues with the run."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        """Appends one line of JSON, on disk when this returns.

        Args:
            line: The JSON object.

        Raises:
            OSError: if it cannot be written.
        """
        # A line break comes first, as the line before may have been cut off.
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
