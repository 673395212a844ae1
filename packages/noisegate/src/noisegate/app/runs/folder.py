"""A run on its way: its options, the folder that it is written down in, its messages.

The folder is OUT.partial beside the model folder OUT, or one below the user's state
directory if the model stays in memory. Its files tell how far the run came::

    room  training.json  answers.journal  steps.journal
     x         (x)                                       nothing is reserved yet
     x          x               x                        the cost is reserved, or about
                                                         to be; records are being read
     x          x               x               x        a training has begun its steps
                                                         (its state is in
                                                         training.safetensors)
     -                                                   the release is complete; the
                                                         fit continues without records

- ``room`` is as large as the release will be, so that a full disk is found before
  anything is spent. It goes away last, as the sign that the release is complete.
- ``training.json`` holds the options of the run, and where its records lie.
- ``answers.journal`` and ``steps.journal`` count what was drawn (`gate.journal`), so
  that no noise is drawn twice. While they are there, the run needs its records.
- ``checkpoint.safetensors`` is the state of the fit, if it was written.

Nothing private is in any of them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, cast

from safetensors import SafetensorError

from noisegate.app.heading import check_heading
from noisegate.app.request import DOORS, Request
from noisegate.app.runs.log import RunLog
from noisegate.atomic import (
    address,
    check_named,
    check_outside,
    close_to_others,
    hold_folder,
)
from noisegate.errors import FitWarning, ModelError, OptionError
from noisegate.gate.gate import Gate
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.sums import Engine
from noisegate.gate.transaction import resolve_ledger
from noisegate.methods.gradient import JOURNAL_FILE, STATE_FILE
from noisegate.methods.method import Method
from noisegate.methods.registry import make_for, method_named
from noisegate.models.folder import PAGE_FILE, check_new
from noisegate.privacy.certificate import Certificate, render
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, Plan, linked_unit, resolve_unit
from noisegate.privacy.release import Release
from noisegate.privacy.schema_certificate import discovery_beside
from noisegate.progress import (
    LOG,
    Tell,
    progress_lines,
    reading,
    shown,
    standard_error,
)
from noisegate.schema import Schema
from noisegate.schema.files import was_discovered
from noisegate.schema.schema import is_linked, is_schema, read_schema, schema_from_json

RUN_FILE = "training.json"
"""The options of a run. Named when only trainings could be resumed."""
CHECKPOINT_FILE = "checkpoint.safetensors"
ROOM_FILE = "room"
ANSWERS_FILE = "answers.journal"

FORMAT = 1
"""Version of `RUN_FILE`."""

# The options that `RUN_FILE` holds as they are, by their names.
_FILE_OPTIONS = tuple(name for name, door in DOORS.items() if door.in_file)
# Those that every file holds. Earlier versions had no others: there they are at their
# defaults.
_FIRST_FILE_OPTIONS = {
    "epsilon",
    "delta",
    "adjacency",
    "records",
    "unit",
    "unit_column",
    "contributions",
    "dataset",
}

# The file that keeps room for the release is written in blocks of this size. It has one
# more than the coordinates need, for the certificate and the headers of the release.
_ROOM_BLOCK_BYTES = 2**20
_BYTES_PER_COORDINATE = 16  # a float64, and as much again to be safe


@dataclass(frozen=True, kw_only=True)
class Run(Request):
    """A request that can be run: its method is configured, and its schema is read.

    It is stored, so that a run continues as it began. Nothing private is in it.

    Attributes:
        epsilon: ε of the guarantee.
        method: The method with its settings, the seed among them.
        adjacency: The neighbouring relation, as text.
    """

    epsilon: float = field()
    method: Method = field()
    adjacency: str = Adjacency.ADD_REMOVE.value

    @classmethod
    def of(cls, request: Request) -> Run:
        """Configures the method of a request, and reads its schema.

        Args:
            request: The request. If its schema is a file that was discovered, the
                certificate is found beside it. Settings and the seed are for a method
                that is named; a configured one has its own.

        Raises:
            OptionError: if the schema is none, or there are settings for a configured
                method.
        """
        schema = request.schema
        discovery = request.discovery
        if isinstance(schema, str | Path):
            if discovery is None and was_discovered(Path(schema)):
                discovery = discovery_beside(Path(schema))
            schema = read_schema(schema)
        if not is_schema(schema):
            raise OptionError(
                f"schema={schema!r} must be a noisegate.Schema, or the path of its "
                "TOML file."
            )
        relation = Adjacency.parse(request.adjacency).value
        settings = {"seed": request.seed, **request.settings}
        if isinstance(request.method, Method):
            _check_no_settings(request.method, settings)
            method = request.method
        else:
            method = make_for(request.method, schema, settings)
        options = {
            option.name: getattr(request, option.name) for option in fields(request)
        }
        # From here on, the method has them.
        del options["seed"], options["settings"]
        resolved = {
            "schema": schema,
            "discovery": discovery,
            "adjacency": relation,
            "method": method,
        }
        return cls(**options | resolved)

    @property
    def table(self) -> Schema:
        """The schema of one table or of images.

        Raises:
            OptionError: if tables are linked.
        """
        if is_linked(self.schema):
            raise OptionError(
                "the schema describes linked tables "
                f"({', '.join(self.schema.names)}), and silos share the plan of one "
                "table; fit linked tables where they lie."
            )
        return cast("Schema", self.schema)

    @property
    def budget(self) -> Budget:
        """The privacy guarantee that the run must meet."""
        if is_linked(self.schema):
            unit = linked_unit(self.schema.names)
        else:
            unit = resolve_unit(self.unit, self.unit_column, self.contributions)
        return Budget(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=Adjacency.parse(self.adjacency),
            unit=unit,
            contributions=self.contributions,
        )

    def gate(
        self,
        data: Any,
        *,
        show_values: bool,
        progress: Callable[[int], None],
        engine: Engine | None = None,
    ) -> Gate:
        """Returns a gate before the records; nothing is read yet.

        Args:
            data: The records, as `Gate` takes them.
            show_values: Whether errors may show cells of the records.
            progress: Is called with the number of records read so far, which is
                private.
            engine: Where records are summed; None for this machine.
        """
        gate = Gate(
            data,
            schema=self.schema,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            records=self.records,
            ledger=self.ledger,
            dataset=self.dataset,
            unit=self.unit,
            unit_column=self.unit_column,
            contributions=self.contributions,
            engine=engine,
            show_values=show_values,
            progress=progress,
            on_error=self.on_error,
            discovery=self.discovery,
        )
        gate.heading = check_heading(vars(self))
        return gate

    def with_heading(self, heading: Mapping[str, str]) -> Run:
        """Returns the run with other texts for the head of its pages.

        Args:
            heading: Texts by name; those that are left out stay as they are.
        """
        return replace(
            self,
            title=heading.get("title", self.title),
            owner=heading.get("owner", self.owner),
            purpose=heading.get("purpose", self.purpose),
        )

    @property
    def file_options(self) -> dict[str, Any]:
        """The options that the file of a run holds as they are, by name."""
        return {name: getattr(self, name) for name in _FILE_OPTIONS}

    def write(self, folder: Path, data: Any = None) -> bool:
        """Writes the run into a folder, so that it can be resumed.

        The address of a ledger in a database is left out, as it may hold a password.

        Args:
            folder: The folder of the run.
            data: The records. Of files on this machine the paths are written, of others
                nothing.

        It is written before the cost is reserved, so that no reserved run lacks its
        options.

        Returns:
            Whether it was written. A method that holds arrays of its own cannot be; its
            run continues, and cannot be resumed before its release.

        Raises:
            OSError: if the disk has no room for it.
        """
        ledger = resolve_ledger(self.ledger, self.dataset)
        ledger_path = None
        if ledger is not None and ledger.path is not None:
            ledger_path = str(ledger.path)
        discovery = None if self.discovery is None else self.discovery.to_json()
        content = {
            "format": FORMAT,
            "method": self.method.name,
            "settings": self.method.to_json(),
            "schema": self.schema.to_json(),
            **self.file_options,
            "discovery": discovery,
            "ledger": ledger_path,
            "ledger_shown": None if ledger is None else ledger.location,
            "data": paths_of(data),
        }
        try:
            text = json.dumps(content, indent=2)
        except (TypeError, ValueError):
            return False
        (folder / RUN_FILE).write_text(text + "\n", encoding="utf-8")
        return True

    @classmethod
    def read(
        cls,
        folder: Path,
        *,
        ledger: Any = None,
        default: Any = None,
        observer: Observer | None = None,
    ) -> Run:
        """Reads the run that `write` wrote.

        Args:
            folder: The folder of the run.
            ledger: The ledger that the caller gave; it goes before the stored one.
            default: The ledger if there is neither.
            observer: Words the names of options in errors.

        Raises:
            ModelError: if the file is missing or broken.
            OptionError: if the run is in a ledger whose address was left out.
        """
        path = folder / RUN_FILE
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            shown_ledger = content.pop("ledger_shown")
            stored_ledger = content.pop("ledger")
            content.pop("data", None)
            method = method_named(content.pop("method")).from_json(
                content.pop("settings")
            )
            schema = schema_from_json(content.pop("schema"))
            # Without a data set nothing is recorded, and a ledger that the caller gives
            # is none of this run's.
            run_ledger = None
            if content["dataset"] is not None:
                run_ledger = ledger or stored_ledger or default
            discovery = content.pop("discovery", None)
            if discovery is not None:
                discovery = Certificate.from_json(discovery)
            if not _FIRST_FILE_OPTIONS <= content.keys() <= set(_FILE_OPTIONS):
                raise ValueError("other options")
            run = cls(
                method=method,
                schema=schema,
                ledger=run_ledger,
                discovery=discovery,
                **content,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{path} is broken: {type(error).__name__}. The training cannot "
                "continue, and its cost stays spent; remove its folder to start "
                "again."
            ) from None
        if shown_ledger is not None and run.ledger is None:
            option = (observer or LogObserver()).option("ledger")
            raise OptionError(
                f"{option} is missing: the run is in {shown_ledger}, whose address is "
                "not kept, as it may hold a password."
            )
        return run

    def check_unchanged(self, options: Mapping[str, Any], observer: Observer) -> None:
        """Requires that a resumed run has the options that it began with.

        What the caller left out is not in `options`, and not compared. Other values
        must be equal, and are not rounded. Example of a message:
        "epsilon=2.0: the run began with 1.0. Leave the option out: …".

        Args:
            options: What the caller gave beside the folder, by attribute, with
                "settings" of the method and "method" by its name. The schema may be the
                path of a file.
            observer: Words the options in errors.

        Raises:
            OptionError: if one differs.
        """
        cure = (
            "Leave the option out: a run continues with the options that it started "
            f"with. Another run needs another {observer.option('out')}, and costs "
            "again."
        )
        stored_settings = self.method.to_json()
        for name, value in options["settings"].items():
            stored_value = stored_settings.get(self.method.stored_name(name))
            if value != stored_value:
                raise OptionError(
                    f"{observer.setting(name, value)}: the run began with "
                    f"{stored_value}. {cure}"
                )

        # The ledger may have moved, and a discovery belongs to its schema.
        stored_options = {**self.file_options, "method": self.method.name}
        for name, value in options.items():
            if name in stored_options and value != stored_options[name]:
                raise OptionError(
                    f"{observer.option(name, value)}: the run began with "
                    f"{stored_options[name]}. {cure}"
                )

        schema = options.get("schema")
        if schema is None:
            return
        if isinstance(schema, str | Path):
            schema = read_schema(schema)
        if schema.digest() != self.schema.digest():
            raise OptionError(
                f"{observer.option('schema', options['schema'])} differs from the "
                f"schema that the run began with. {cure}"
            )


def _check_no_settings(method: Method, settings: Mapping[str, Any]) -> None:
    """Requires that there are no settings beside a configured method.

    Seed 0 is the default, which every caller passes.
    """
    for name, value in settings.items():
        if (name, value) != ("seed", 0):
            raise OptionError(
                f"{name}={value!r}: cannot be given together with a configured method; "
                f"pass it to {type(method).__name__}(...)."
            )


def paths_of(data: Any) -> Any:
    """Returns where records lie on disks of this machine.

    Args:
        data: The records: a path, tables and paths by name if they are linked, or
            anything in memory.

    Returns:
        An absolute path, or paths by table; None if anything lies elsewhere.
    """
    if isinstance(data, Mapping):
        paths = {str(name): paths_of(table) for name, table in data.items()}
        return None if None in paths.values() else paths
    if not isinstance(data, str | Path) or address(Path(data)) is not None:
        return None
    return os.path.realpath(data)


class RunFolder:
    """The folder in which a run is written down on its way.

    Args:
        out: The model folder to make; None if the model stays in memory.
        path: The folder of an interrupted run; None for OUT.partial, or for a new one
            below the user's state directory if there is no `out`.
        observer: What the run tells its progress; None for the log of Python.
        log: File to which the run appends what it does; None for none.

    Attributes:
        out: The model folder to make, or None.
        path: The folder of the run.
        observer: What the run tells its progress.
        log: The file to which the run appends what it does, or None.
        answers: The journal of the queries that the run has begun.
    """

    def __init__(
        self,
        out: str | Path | None,
        path: str | Path | None = None,
        *,
        observer: Observer | None = None,
        log: str | Path | None = None,
    ) -> None:
        self.out = None if out is None else Path(out)
        if self.out is not None:
            check_named(self.out)
        if path is not None:
            self.path = Path(path)
        elif self.out is not None:
            self.path = self.out.with_name(self.out.name + ".partial")
        else:
            self.path = _new_state_folder()
        self.observer: Observer = observer or LogObserver()
        self.log = None if log is None else RunLog(Path(log))
        self.answers = AnswerJournal(self.path / ANSWERS_FILE)
        self._lock: int | None = None

    def logged(self) -> AbstractContextManager[None]:
        """Returns the block of a run in which `record` writes to its log."""
        return nullcontext() if self.log is None else self.log.opened()

    def record(self, text: str) -> None:
        """Appends a line to the log of the run, if it has one; the text is public."""
        if self.log is not None:
            self.log.write(text)

    def explain_stop(self, error: BaseException, text: str, call: str) -> None:
        """Tells how to resume a run that an error stops; see `Observer.kept`."""
        self.observer.kept(error, text, call)
        self.record(f"{text} {call}")

    def check_outside(self, data: Any) -> None:
        """Refuses a model folder or log among the records, where it would be read.

        Args:
            data: The records, as `Gate` takes them.
        """
        sources = data.values() if isinstance(data, Mapping) else [data]
        targets = {"out": self.out, "log": None if self.log is None else self.log.path}
        for source in sources:
            for name, target in targets.items():
                if target is not None and isinstance(source, str | Path):
                    check_outside(target, source, name)

    @contextmanager
    def prepared(self, coordinates: int) -> Iterator[None]:
        """Makes the folder, with room for a release, before any budget is spent.

        The block reserves the cost, asks, and calls `keep`. How it ends decides what is
        left::

            block ends                               folder
            after `keep`                             stays, without its room
            in a training that has begun steps       stays, to be resumed with records
            while records were read, no noise lost   stays, to be resumed with records
            otherwise                                is removed

        A killed process removes nothing: the next call finds the folder, and says what
        it holds. A second call for the same folder raises, also in another process.

        Args:
            coordinates: How many numbers the release will have.

        Raises:
            ModelError: if the folder exists, or cannot be made as large.
        """
        self._check_out_is_new()
        if self.path.exists():
            raise ModelError(self._occupied_message())
        try:
            # Nobody else is to change what a run continues by. Of two processes that
            # get here at once, one fails: folders are made once.
            self.path.mkdir(mode=0o700)
            self._acquire_lock()
            self._fill_room(_BYTES_PER_COORDINATE * coordinates)
        except OSError as error:
            self.remove()
            raise ModelError(
                f"{self.path} cannot be written: {error.strerror}. Nothing was spent; "
                f"{self._choose_another_out()}"
            ) from None
        try:
            yield
        finally:
            lacks_release = (self.path / ROOM_FILE).exists()
            if lacks_release and not self.is_training and not self.can_resume_reading:
                self.remove()
            self._release_lock()

    @contextmanager
    def reopened(self) -> Iterator[None]:
        """Opens the folder of a run that was stopped while it read records.

        If the block fails, the folder is removed where nothing is reserved any more:
        the gate has removed the journal of answers then. Where the journal is there,
        the folder stays, even if noise was lost. Unlike in `prepared`, the user knows
        of it and is told why it cannot continue, at this call and at each further one
        (`test_a_run_whose_noise_may_have_been_drawn_and_lost_draws_no_more`).

        Raises:
            ModelError: if another process works in it.
        """
        self._acquire_lock()
        try:
            yield
        finally:
            lacks_release = (self.path / ROOM_FILE).exists()
            if lacks_release and not self.is_training and not self.answers.exists:
                self.remove()
            self._release_lock()

    def keep(self, release: Release) -> None:
        """Writes the release into the room that was kept for it.

        If the release cannot be written, the operator is warned and the run continues
        with the one in memory.

        A process that is killed on the way leaves one of these::

            killed                       left           resumed by
            before the room is removed   room, journal  reading the records again
            after                        release        fitting, without records

        A training that is killed before the room is removed cannot continue: its
        journal of steps is gone by then, and no step is taken twice
        (`test_a_training_that_has_released_does_not_begin_anew`).

        So a room must never be removed before the release is complete, nor a journal
        before the room (`test_a_run_that_is_killed_goes_on_at_no_further_cost`).
        """
        room = self.path / ROOM_FILE
        try:
            # Gives the disk space back, and keeps the file as the sign.
            room.write_bytes(b"")
            release.save(self.path)
            room.unlink()
            # Nothing needs the records from here on.
            for name in (STATE_FILE, RUN_FILE, ANSWERS_FILE):
                (self.path / name).unlink(missing_ok=True)
        except (OSError, SafetensorError) as error:
            # The journal, if it is complete, has the answers too.
            caution = ""
            if not self.can_resume_reading:
                caution = " Do not interrupt this fit, it could not be resumed."
            self.observer.warn(f"{self.path} cannot be written: {error}.{caution}")

    @property
    def has_release(self) -> bool:
        """Whether a complete release lies in the folder.

        The file of the room alone tells it: it is there from the beginning until the
        release is complete. A process that was killed between making the folder and the
        room leaves an empty folder, which looks complete; resuming it then fails to
        load a release.
        """
        return self.path.is_dir() and not (self.path / ROOM_FILE).exists()

    @property
    def is_training(self) -> bool:
        """Whether a training has begun steps, and its release is not there yet."""
        return (self.path / ROOM_FILE).exists() and (self.path / JOURNAL_FILE).exists()

    @property
    def is_reading(self) -> bool:
        """Whether a run is at work on its records, or was stopped while it was.

        All three files must be there: without its options a run cannot continue, and
        without the journal of answers it has reserved nothing. Trainings that have
        begun steps go by the journal of steps.
        """
        files = [self.path / name for name in (ROOM_FILE, RUN_FILE, ANSWERS_FILE)]
        return all(file.exists() for file in files) and not self.is_training

    @property
    def can_resume_reading(self) -> bool:
        """Whether a run that was stopped while it read can continue.

        It cannot where noise may have been drawn whose answer is lost.
        """
        if not self.is_reading:
            return False
        try:
            self.answers.load()
        except OptionError:
            return False
        return not self.answers.lost_queries

    @property
    def steps_begun(self) -> int:
        """How many steps of a training were begun; only where `is_training`.

        Example: 3, of a journal with the header in its first line and then "...".
        """
        # A line of header, and then a dot for each step.
        _, _, dots = (self.path / JOURNAL_FILE).read_bytes().partition(b"\n")
        return dots.count(b".")

    def recorded_paths(self) -> Any:
        """Returns where the records of the run lie, as `paths_of` does.

        None where that was not written.
        """
        try:
            text = (self.path / RUN_FILE).read_text(encoding="utf-8")
            return json.loads(text).get("data")
        except (OSError, ValueError, AttributeError):
            return None

    def resuming_call(self, data: Any = None) -> str:
        """Returns the call or command that resumes the run, for a message.

        Args:
            data: The records, if they are needed. They are left out where the folder
                says where they lie.
        """
        is_recorded = self.recorded_paths() is not None
        return self.observer.call(self, None if is_recorded else data)

    def records_to_resume(self, data: Any) -> Any:
        """Returns the records that an interrupted run continues with.

        As a side effect, the folder is closed to other users before anything in it is
        believed.

        Args:
            data: The records that the caller gave; None for those that the run began
                with.

        Raises:
            OptionError: if there are none, or the run began with others.
            ModelError: if the folder is somebody else's.
        """
        self._check_owner()
        recorded = self.recorded_paths()
        option = self.observer.option("data")
        if data is None and recorded is None:
            raise OptionError(
                f"{option} is missing: {self.path} holds a fit that was "
                "interrupted, and it has to read records. "
                f"`{self.observer.call(self, 'DATA')}` continues it at no further "
                "cost."
            )
        if data is None:
            return recorded
        if recorded is not None and paths_of(data) != recorded:
            shown_paths = recorded
            if not isinstance(recorded, str):
                shown_paths = ", ".join(recorded.values())
            raise OptionError(
                f"{option} is not what the run began with, {shown_paths}. Leave it "
                "out, or give the same; another run needs another folder, and costs "
                "again."
            )
        return data

    def load_release(self) -> Release:
        """Loads the release of an interrupted fit.

        Raises:
            ModelError: if there is none, or `out` exists.
        """
        if not self.path.is_dir():
            for_out = ""
            if self.out is not None:
                for_out = f" for {self.observer.option('out')} {self.out}"
            raise ModelError(
                f"{self.path} does not exist: there is no unfinished fit to resume"
                f"{for_out}."
            )
        self._check_out_is_new()
        if (self.path / ROOM_FILE).exists():
            raise ModelError(
                f"{self._never_resumable_message()} There is nothing to resume: remove "
                "it and fit again. A run that was stopped before it reserved its cost "
                "has spent nothing; in a ledger, others stay spent."
            )
        return Release.load(self.path)

    def hand_out(self) -> None:
        """Moves the release to `out`, with its certificate in plain words.

        Nothing is fitted to it. The folder gets its new name last, so that `out` is
        complete or not there. A second call raises, since nothing is left to move.

        Raises:
            ModelError: if it cannot be written. The release stays in the folder.
        """
        assert self.out is not None
        try:
            page = render(Release.load(self.path).certificate)
            (self.path / PAGE_FILE).write_text(page, encoding="utf-8")
            # It was closed to others, and is a folder as any other from here on.
            self.path.chmod(0o777 & ~_umask())
            self.path.rename(self.out)
        except OSError as error:
            raise ModelError(
                f"{self.out} cannot be written: {error.strerror}. {self.path} holds "
                "the release."
            ) from None

    def remove(self) -> None:
        """Removes the folder, once the model is complete.

        Nothing is raised if it is not there, or cannot be removed: the model is done.
        """
        shutil.rmtree(self.path, ignore_errors=True)

    def _check_out_is_new(self) -> None:
        """Requires that `out`, if there is one, does not exist and can be made."""
        if self.out is not None:
            check_new(self.out)

    def _check_owner(self) -> None:
        """Closes the folder to other users.

        Whoever may write to it decides what is read, and what was drawn.

        Raises:
            ModelError: if it is somebody else's.
        """
        try:
            close_to_others(self.path)
        except OSError as error:
            raise ModelError(
                f"{self.path} cannot be continued: {error.strerror}. Continue as "
                "the user who began the fit."
            ) from None

    def _acquire_lock(self) -> None:
        """Locks the folder until `_release_lock`, or until this process ends.

        Nothing changes at a second call. A killed process keeps no lock, so that its
        run can continue at once.

        Raises:
            ModelError: if another process has it.
        """
        try:
            if self._lock is None:
                self._lock = hold_folder(self.path)
        except BlockingIOError:
            raise ModelError(
                f"another fit is at work in {self.path}; let it end, or stop it first."
            ) from None

    def _release_lock(self) -> None:
        """Lets other processes have the folder; does nothing without a lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _fill_room(self, size: int) -> None:
        """Writes at least so many bytes, which the release will take the place of.

        Example, in blocks: 0 bytes are 1, 1 byte is 2, 2²⁰ + 1 bytes are 3.

        Raises:
            OSError: if the disk is full. It is then found before anything is spent
                (`test_a_disk_that_is_full_before_the_noise_costs_nothing`).
        """
        with (self.path / ROOM_FILE).open("wb") as room:
            # Written, and not only made as long: a file of holes would keep no room.
            for _ in range(0, _ROOM_BLOCK_BYTES + size, _ROOM_BLOCK_BYTES):
                room.write(bytes(_ROOM_BLOCK_BYTES))

    def _choose_another_out(self) -> str:
        """Returns the cure of a folder in the way: "choose another out."."""
        return f"choose another {self.observer.option('out')}."

    def _occupied_message(self) -> str:
        """Returns what a folder in the way holds, and how to continue or begin again.

        The files decide, see the top of this module::

            files                              message
            no room: the release is complete   continue with `noisegate.fit(out='model',
                                               resume=True)`, or remove it first.
            steps begun, or records being      the same with `noisegate.fit(data, …)`,
            read: its cost is spent            if the user has to give the records
            room alone, or with training.json  what `_never_resumable_message` says, and
                                               "Remove it if no other fit is at work
                                               there, or choose another out."

        A run that is at work in another process has the same files as one that was
        stopped. So none is called dead, and nothing is removed here: whoever continues
        finds the lock (`test_a_run_that_is_at_work_is_let_alone`).
        """
        needs_records = self.is_training or self.is_reading
        if self.has_release or needs_records:
            # "DATA" stands for the records, which nobody has at hand here.
            call = self.resuming_call("DATA" if needs_records else None)
            return (
                f"{self.path} holds an unfinished fit whose budget is spent; "
                f"continue with `{call}`, or remove it first."
            )
        return (
            f"{self._never_resumable_message()} Remove it if no other fit is at work "
            f"there, or {self._choose_another_out()}"
        )

    def _never_resumable_message(self) -> str:
        """Returns which run left a folder that nothing can be resumed from.

        Examples: "model.partial is of a fit that begins, or was killed before it
        reserved its cost.", of a room alone. With training.json it is "of a training
        that has begun no step, or was killed right after its last one": no journal is
        there yet, or none any more.

        It is asked only while the room is there, and `is_training` and `is_reading` are
        false.
        """
        if (self.path / RUN_FILE).exists():
            return (
                f"{self.path} is of a training that has begun no step, or was killed "
                "right after its last one."
            )
        return (
            f"{self.path} is of a fit that begins, or was killed before it reserved "
            "its cost."
        )


def _umask() -> int:
    """Returns the process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _new_state_folder() -> Path:
    """Returns a new path below the user's state directory.

    It lies among temporary files where that directory cannot be made.
    """
    import platformdirs

    runs = platformdirs.user_state_path("noisegate", appauthor=False) / "runs"
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(runs)
    except OSError:
        runs = Path(tempfile.mkdtemp(prefix="noisegate-runs."))
    return runs / f"run-{secrets.token_hex(8)}"


def fitted_message(model: Any) -> str:
    """Returns that a model is fitted, with its verdict if there is one."""
    verdict = getattr(model, "verdict", None)
    return "Fitted." if verdict is None else f"Fitted; verdict: {verdict.headline}"


class Observer(Protocol):
    """Is told what happens in a run, and words options in messages.

    `LogObserver` does so for Python; the command line has one of its own.
    """

    @property
    def watched(self) -> bool:
        """Whether anybody sees the progress, so that it must be computed."""

    def option(self, name: str, *value: Any) -> str:
        """Returns an option as a user writes it, with its value if one is given."""

    def setting(self, name: str, value: Any) -> str:
        """Returns a setting of the method as a user writes it."""

    def call(self, folder: RunFolder, data: Any = None) -> str:
        """Returns the call that resumes a run.

        Args:
            folder: The folder of the run.
            data: Anything if the run needs the records; else None.
        """

    def planned(self, run: Run, gate: Gate, plan: Plan, data: Any) -> None:
        """Is called with the plan before anything is spent.

        Args:
            run: The options of the run.
            gate: The gate before the records.
            plan: What will be asked.
            data: The records, of which nothing may be shown but where they lie.
        """

    def working(self, title: str, total: int | None) -> AbstractContextManager[Tell]:
        """Opens a block of work, whose progress is shown.

        Args:
            title: Such as "Fitting".
            total: Number of steps; None if it is not known.

        Returns:
            A context with a function that takes the steps done, and a note.
        """

    def reading(
        self, about: int | None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Opens the block in which records are read.

        Args:
            about: About how many there are, if that is known.

        Returns:
            A context with a function that takes the number of records read so far. It
            is private, and must not be logged.
        """

    def queried(self, gate: Gate) -> None:
        """Is called when the release is complete and written down."""

    def say(self, text: str) -> None:
        """Is called with what an operator may want to know."""

    def warn(self, text: str) -> None:
        """Is called with what an operator must know."""

    def fitted(self, text: str) -> None:
        """Is called with a problem of the fit, once it has run."""

    def kept(self, error: BaseException, text: str, call: str) -> None:
        """Is called when an error stops a run that can be resumed.

        Args:
            error: What stops it, and is raised afterwards.
            text: What is left, and what it costs to continue.
            call: What resumes the run.
        """

    def made(self, model: Any) -> None:
        """Is called with the model, once it is complete and saved."""


class LogObserver:
    """Logs what happens in a run, and words options as in Python; an `Observer`.

    Args:
        shows_bars: Whether progress is a bar in a terminal or a notebook, as with
            ``noisegate.fit(progress=True)``; it is logged elsewhere.
    """

    def __init__(self, *, shows_bars: bool = False) -> None:
        self._shows_bars = shows_bars

    @property
    def watched(self) -> bool:
        """Whether there are bars, or the log is written."""
        return self._shows_bars or LOG.isEnabledFor(logging.INFO)

    def option(self, name: str, *value: Any) -> str:
        """Returns an option as a user writes it, with its value if one is given.

        Examples:
            >>> from noisegate.app.runs.folder import LogObserver
            >>> observer = LogObserver()
            >>> observer.option("out"), observer.option("out", "model")
            ('out', "out='model'")
        """
        return f"{name}={value[0]!r}" if value else name

    def setting(self, name: str, value: Any) -> str:
        """Returns a setting of the method as a user writes it."""
        return f"{name}={value!r}"

    def call(self, folder: RunFolder, data: Any = None) -> str:
        """Returns the call of `noisegate.fit` that resumes a run."""
        if folder.out is not None:
            options = f"out={str(folder.out)!r}, resume=True"
        else:
            options = f"resume={str(folder.path)!r}"
        records = "" if data is None else "data, "
        return f"noisegate.fit({records}{options})"

    def planned(self, run: Run, gate: Gate, plan: Plan, data: Any) -> None:
        """Logs the cost of the plan."""
        LOG.info(
            "%s: a plan of epsilon = %g, delta = %g, %s",
            run.method.name,
            plan.budget.epsilon,
            plan.budget.delta,
            run.adjacency,
        )

    def working(self, title: str, total: int | None) -> AbstractContextManager[Tell]:
        """Shows or logs the progress of a block of work."""
        return shown(title, total) if self._shows_bars else progress_lines(title, total)

    def reading(
        self, about: int | None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Shows how many records were read, or logs the time alone."""
        return reading(about, standard_error()) if self._shows_bars else reading()

    def queried(self, gate: Gate) -> None:
        """Logs that the release is complete."""
        LOG.info(
            "The release is complete; nothing more is spent, and no record is read "
            "again."
        )

    def say(self, text: str) -> None:
        """Logs what an operator may want to know."""
        LOG.info("%s", text)

    def warn(self, text: str) -> None:
        """Warns of what an operator must know.

        Where warnings are errors, the run continues nevertheless.
        """
        LOG.warning("%s", text)
        with suppress(UserWarning):
            warnings.warn(text, UserWarning, stacklevel=3)

    def fitted(self, text: str) -> None:
        """Warns of a problem of the fit.

        Where warnings are errors, the run continues nevertheless.
        """
        LOG.warning("%s", text)
        with suppress(FitWarning):
            # Points at the call of `noisegate.fit`.
            warnings.warn(text, FitWarning, stacklevel=5)

    def kept(self, error: BaseException, text: str, call: str) -> None:
        """Logs what is left of a run, and adds it to the error."""
        LOG.warning("%s %s", text, call)
        error.add_note(f"{text}\n  {call}")

    def made(self, model: Any) -> None:
        """Logs that the model is complete."""
        LOG.info("%s", fitted_message(model))
