"""A run: what is asked for, what it tells of itself, and the folder where it is written down on its way.

What lies in the folder of a run (OUT.partial, or one below the user's state directory) says how far it came:

* ``room``, or that and ``training.json``: nothing is reserved yet.
* ``room``, ``training.json`` and ``answers.journal``: the cost is reserved, or is about to be, and the records are
  being read. The journal holds the answers so far; the run needs the records to go on.
* these and ``steps.journal``: a method that trains on gradients has begun its steps, and needs the records to go on.
  ``training.safetensors`` is the state of the training.
* no ``room``: the release is whole. The fit goes on without records, from ``checkpoint.safetensors`` if it is there.
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
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError

from noisegate.atomic import address, check_named, close_to_others, hold_folder
from noisegate.errors import FitWarning, ModelError, OptionError
from noisegate.gate.gate import Gate
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.session import ledger_of
from noisegate.gate.sums import Engine
from noisegate.ledger.ledger import Ledger
from noisegate.methods.gradient import JOURNAL_FILE, STATE_FILE
from noisegate.methods.method import Method
from noisegate.methods.registry import make_for, method_named
from noisegate.models.folder import PAGE_FILE, check_new
from noisegate.privacy.certificate import Certificate, render
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, PricedPlan, linked_unit, unit_text
from noisegate.privacy.release import Release
from noisegate.privacy.schema_certificate import discovery_beside
from noisegate.progress import LOG, log_lines, reading, shown, standard_error
from noisegate.schema import Schema
from noisegate.schema.files import was_discovered
from noisegate.schema.schema import is_linked, is_schema, read_schema, schema_from_json

RUN_FILE, CHECKPOINT_FILE, ROOM_FILE = "training.json", "checkpoint.safetensors", "room"
ANSWERS_FILE = "answers.journal"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is asked for; kept beside a training, so that it goes on as it began. Nothing private is in it.

    The attributes are the parameters of `noisegate.fit`, but for `method`, which has its settings, and `discovery`, a
    certificate as a JSON object.
    """

    method: Method
    schema: Any
    epsilon: float
    delta: float
    adjacency: str
    records: int | None
    unit: str
    unit_column: str | None
    contributions: int | None
    dataset: str | None
    ledger: Ledger | str | Path | None
    on_error: str = "refuse"
    discovery: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        *,
        method: str | Method,
        schema: Schema | Any | str | Path,
        adjacency: Adjacency | str,
        settings: Mapping[str, Any],
        discovery: Certificate | None = None,
        **options: Any,
    ) -> Run:
        """Returns what is asked for; a discovery beside a schema file is found.

        The method is given by its name, with its settings, or made, with none but the seed that it has anyway.
        """
        if isinstance(schema, str | Path):
            if discovery is None and was_discovered(Path(schema)):
                discovery = discovery_beside(Path(schema))
            schema = read_schema(schema)
        if not is_schema(schema):
            raise OptionError(
                f"schema={schema!r} must be a noisegate.Schema, or the path of its TOML file."
            )
        bought = None if discovery is None else discovery.to_json()
        relation = Adjacency.parse(adjacency).value
        if not isinstance(method, Method):
            method = make_for(method, schema, settings)
        elif told := next(
            (
                f"{name}={value!r}"
                for name, value in settings.items()
                if (name, value) != ("seed", 0)
            ),
            None,
        ):
            note = f"pass it to {type(method).__name__}(...)."
            raise OptionError(
                f"{told}: cannot be given together with a configured method; {note}"
            )
        return cls(
            method=method,
            schema=schema,
            adjacency=relation,
            discovery=bought,
            **options,
        )

    @property
    def table(self) -> Schema:
        """The schema of one table or of images; an OptionError where tables are linked."""
        if is_linked(self.schema):
            raise OptionError(
                f"the schema describes linked tables ({', '.join(self.schema.names)}), and silos share the plan of one "
                "table; fit linked tables where they lie."
            )
        return cast("Schema", self.schema)

    @property
    def budget(self) -> Budget:
        """The guarantee that is asked for."""
        unit = unit_text(self.unit, self.unit_column, self.contributions)
        return Budget(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=Adjacency.parse(self.adjacency),
            unit=linked_unit(self.schema.names) if is_linked(self.schema) else unit,
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
        """Returns the gate before the records in `data`; nothing is read yet."""
        told = {
            name: value
            for name, value in vars(self).items()
            if name not in ("method", "discovery")
        }
        discovery = (
            None if self.discovery is None else Certificate.from_json(self.discovery)
        )
        return Gate(
            data,
            discovery=discovery,
            show_values=show_values,
            progress=progress,
            engine=engine,
            **told,
        )

    def write(self, folder: Path, data: Any = None) -> bool:
        """Writes the run into `folder`, and where its records lie on disk; returns whether it can be written.

        Of a ledger in a database the address is left out, which may hold a password, and of records that are not files
        of this machine all. A method that holds arrays of its own cannot be written.

        Raises:
            OSError: if there is no room for it.
        """
        plain = {
            name: value
            for name, value in vars(self).items()
            if name not in ("method", "schema", "ledger")
        }
        book = ledger_of(self.ledger, self.dataset)
        content = {
            "format": FORMAT,
            "method": self.method.name,
            "settings": self.method.to_json(),
            "schema": self.schema.to_json(),
            **plain,
            "ledger": None if book is None or book.path is None else str(book.path),
            "ledger_shown": None if book is None else book.location,
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
        """Returns the run that `write` wrote; `ledger` goes before the one that was kept, and `default` behind it."""
        path = folder / RUN_FILE
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            shown, kept = content.pop("ledger_shown"), content.pop("ledger")
            content.pop("data", None)
            method = method_named(content.pop("method")).from_json(
                content.pop("settings")
            )
            schema = schema_from_json(content.pop("schema"))
            place = None if content["dataset"] is None else ledger or kept or default
            run = cls(method=method, schema=schema, ledger=place, **content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            note = "The training cannot go on, and stays spent; remove its folder to begin anew."
            raise ModelError(
                f"{path} is broken: {type(error).__name__}. {note}"
            ) from None
        if shown is not None and run.ledger is None:
            why = f"the run is in {shown}, whose address is not kept, as it may hold a password."
            raise OptionError(
                f"{(observer or Observer()).option('ledger')} is missing: {why}"
            )
        return run

    def check(self, given: Mapping[str, Any], observer: Observer) -> None:
        """Checks options that are given to go on with, by attribute; "method" by its name, "schema" as a file too."""
        another = observer.option("out")
        cure = "Leave the option out: a run continues with the options that it started with. Another run needs another "
        cure += f"{another}, and costs again."
        settings, known = (
            self.method.to_json(),
            {**vars(self), "method": self.method.name},
        )
        pairs = [
            (
                observer.setting(name, value),
                value,
                settings.get(self.method.stored_name(name)),
            )
            for name, value in given["settings"].items()
        ]
        pairs += [
            (observer.option(name, value), value, known[name])
            for name, value in given.items()
            if name in known and name not in ("schema", "ledger", "discovery")
        ]
        for what, value, kept in pairs:
            if value != kept:
                raise OptionError(f"{what}: the run began with {kept}. {cure}")
        if given.get("schema") is not None:
            schema = given["schema"]
            schema = read_schema(schema) if isinstance(schema, str | Path) else schema
            if schema.digest() != self.schema.digest():
                what = observer.option("schema", given["schema"])
                raise OptionError(
                    f"{what} differs from the schema that the run began with. {cure}"
                )


def paths_of(data: Any) -> Any:
    """Returns where records lie on disks of this machine, as absolute paths, by table if linked; None for others."""
    if isinstance(data, Mapping):
        paths = {str(name): paths_of(part) for name, part in data.items()}
        return None if None in paths.values() else paths
    if not isinstance(data, str | Path) or address(Path(data)) is not None:
        return None
    return os.path.realpath(data)


class RunFolder:
    """Where a run is written down on its way: OUT.partial beside the model folder OUT, or a folder of its own.

    Without `out` the model stays in memory, and `path` is the folder of an interrupted run; None for a new one, below
    the user's state directory.
    """

    def __init__(
        self,
        out: Path | None,
        path: Path | None = None,
        *,
        observer: Observer | None = None,
    ) -> None:
        if out is not None:
            check_named(out)
        self.out, self.observer = out, observer or Observer()
        self.path = path or (
            _state_folder() if out is None else out.with_name(out.name + ".partial")
        )
        self.answers = AnswerJournal(self.path / ANSWERS_FILE)
        self._lock: int | None = None

    @contextmanager
    def prepared(self, coordinates: int) -> Iterator[None]:
        """Makes the folder, with room for a release of so many numbers, before any budget is spent.

        If the block fails before `keep`, the folder goes away again, unless steps of a training were begun in it, or
        something is reserved with which the run can go on.
        """
        self._check_new()
        another = f"choose another {self.observer.option('out')}."
        if self.path.exists():
            raise ModelError(
                f"{self._nothing_kept()} Remove it if no other fit is at work there, or {another}"
                if not (self.resumable or self.training or self.reading)
                else f"{self.path} holds an unfinished fit whose budget is spent; go on with "
                f"`{self.call('DATA' if self.training or self.reading else None)}`, or remove it first."
            )
        try:
            # Nobody else is to change what a run goes on by.
            self.path.mkdir(mode=0o700)
            self._hold()
            with (self.path / ROOM_FILE).open("wb") as room:
                for _ in range(0, 2**20 + 16 * coordinates, 2**20):
                    room.write(bytes(2**20))
        except OSError as error:
            self.remove()
            raise ModelError(
                f"{self.path} cannot be written: {error.strerror}. Nothing was spent; {another}"
            ) from None
        try:
            yield
        finally:
            if (
                (self.path / ROOM_FILE).exists()
                and not self.training
                and not self.can_go_on
            ):
                self.remove()
            self._let_go()

    @contextmanager
    def reopened(self) -> Iterator[None]:
        """Goes on in the folder of a run that was stopped while it read; another one at work there is refused.

        If the block fails, the folder goes away where nothing is reserved any more.
        """
        self._hold()
        try:
            yield
        finally:
            if (
                (self.path / ROOM_FILE).exists()
                and not self.training
                and not self.answers.exists
            ):
                self.remove()
            self._let_go()

    def _hold(self) -> None:
        """Locks the folder until this process ends.

        Raises:
            ModelError: if another process has it.
        """
        try:
            self._lock = self._lock or hold_folder(self.path)
        except BlockingIOError:
            raise ModelError(
                f"another fit is at work in {self.path}; let it end, or stop it first."
            ) from None

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def can_go_on(self) -> bool:
        """Whether a run that was stopped while it read can go on: no noise was drawn whose answer is lost."""
        if not self.reading:
            return False
        try:
            self.answers.read()
        except OptionError:
            return False
        return not self.answers.lost

    def keep(self, release: Release) -> None:
        """Writes the release into the room that was kept for it; the room's file goes last, as the sign of success."""
        try:
            (self.path / ROOM_FILE).write_bytes(b"")
            release.save(self.path)
            (self.path / ROOM_FILE).unlink()
            for name in (STATE_FILE, RUN_FILE, ANSWERS_FILE):
                (self.path / name).unlink(missing_ok=True)
        except (OSError, SafetensorError) as error:
            # The journal, if it is whole, has the answers too.
            note = (
                ""
                if self.can_go_on
                else " Do not interrupt this fit, it could not be resumed."
            )
            self.observer.warn(f"{self.path} cannot be written: {error}.{note}")

    @property
    def resumable(self) -> bool:
        """Whether a release lies in the folder."""
        return self.path.is_dir() and not (self.path / ROOM_FILE).exists()

    @property
    def training(self) -> bool:
        """Whether steps of a training were begun in the folder, and their release is not there yet."""
        return (self.path / ROOM_FILE).exists() and (self.path / JOURNAL_FILE).exists()

    @property
    def reading(self) -> bool:
        """Whether a run has begun in the folder that was stopped, or is at work, while its records are read."""
        files = (self.path / name for name in (ROOM_FILE, RUN_FILE, ANSWERS_FILE))
        return all(file.exists() for file in files) and not self.training

    def recorded_data(self) -> Any:
        """Returns where the records of the run lie on disk, by table if linked; None where that was not written."""
        try:
            return json.loads((self.path / RUN_FILE).read_text(encoding="utf-8")).get(
                "data"
            )
        except (OSError, ValueError, AttributeError):
            return None

    def call(self, data: Any = None) -> str:
        """Returns what goes on with the run; the records are given with it unless it is written where they lie."""
        return self.observer.call(
            self, None if self.recorded_data() is not None else data
        )

    def records(self, data: Any) -> Any:
        """Returns the records to go on with: those that are given, or those where they lay.

        Raises:
            OptionError: if there are none, or the run began with others.
        """
        self._check_own()
        recorded, option = self.recorded_data(), self.observer.option
        if data is None and recorded is None:
            raise OptionError(
                f"{option('data')} is missing: {self.path} holds a fit that was interrupted, and it has to read "
                f"records. `{self.observer.call(self, 'DATA')}` goes on, and costs nothing more."
            )
        if data is None:
            return recorded
        if recorded is not None and paths_of(data) != recorded:
            shown = (
                recorded if isinstance(recorded, str) else ", ".join(recorded.values())
            )
            raise OptionError(
                f"{option('data')} is not what the run began with, {shown}. Leave it out, or give the same; "
                "another run needs another folder, and costs again."
            )
        return data

    def _check_own(self) -> None:
        """Closes the folder to other users: whoever may write to it says what is read, and what was drawn.

        Raises:
            ModelError: if it is somebody else's.
        """
        try:
            close_to_others(self.path)
        except OSError as error:
            raise ModelError(
                f"{self.path} cannot be gone on with: {error.strerror}. Go on as the user who began the fit."
            ) from None

    @property
    def steps_begun(self) -> int:
        """How many steps of a training were begun."""
        return (self.path / JOURNAL_FILE).read_bytes().partition(b"\n")[2].count(b".")

    def reopen(self) -> Release:
        """Returns the release of an interrupted fit."""
        if not self.path.is_dir():
            missing = (
                ""
                if self.out is None
                else f" for {self.observer.option('out')} {self.out}"
            )
            raise ModelError(
                f"{self.path} does not exist: there is no unfinished fit to resume{missing}."
            )
        self._check_new()
        if (self.path / ROOM_FILE).exists():
            note = (
                "A run that was stopped before it reserved its cost has spent nothing; "
                "in a ledger, others stay spent."
            )
            raise ModelError(
                f"{self._nothing_kept()} There is nothing to resume: remove it and fit again. {note}"
            )
        return Release.load(self.path)

    def hand_out(self) -> None:
        """Puts the release in place at `out`, with its certificate in plain words; nothing is fitted to it."""
        assert self.out is not None
        try:
            (self.path / PAGE_FILE).write_text(
                render(Release.load(self.path).certificate), encoding="utf-8"
            )
            self.path.chmod(0o777 & ~_umask())
            self.path.rename(self.out)
        except OSError as error:
            note = f"{self.path} holds the release."
            raise ModelError(
                f"{self.out} cannot be written: {error.strerror}. {note}"
            ) from None

    def remove(self) -> None:
        """Removes the folder; the model is complete."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _check_new(self) -> None:
        if self.out is not None:
            check_new(self.out)

    def _nothing_kept(self) -> str:
        if (self.path / RUN_FILE).exists():
            return f"{self.path} is of a training that has begun no step, or was killed right after its last one."
        return f"{self.path} is of a fit that begins, or was killed before it reserved its cost."


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _state_folder() -> Path:
    """Returns a new name below the user's state directory; below that of temporary files where it cannot be made."""
    import platformdirs

    runs = platformdirs.user_state_path("noisegate", appauthor=False) / "runs"
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(runs)
    except OSError:
        runs = Path(tempfile.mkdtemp(prefix="noisegate-runs."))
    return runs / f"run-{secrets.token_hex(8)}"


class Observer:
    """What a run tells of itself. This one logs it, and words what must be said in Python."""

    @property
    def watched(self) -> bool:
        """Whether anybody sees the progress."""
        return LOG.isEnabledFor(logging.INFO)

    def option(self, name: str, *value: Any) -> str:
        """Returns an option as it is written, with its value if one is given."""
        return f"{name}={value[0]!r}" if value else name

    def setting(self, name: str, value: Any) -> str:
        """Returns a setting of the method as it is written."""
        return f"{name}={value!r}"

    def call(self, folder: Any, data: Any = None) -> str:
        """Returns what resumes a run; with `data` for one that needs the records."""
        kept = (
            f"out={str(folder.out)!r}, resume=True"
            if folder.out is not None
            else f"resume={str(folder.path)!r}"
        )
        return f"noisegate.fit({'' if data is None else 'data, '}{kept})"

    def planned(self, run: Any, gate: Gate, plan: PricedPlan, data: Any) -> None:
        """Called before anything is spent."""
        budget, method = plan.budget, run.method.name
        LOG.info(
            "%s: a plan of epsilon = %g, delta = %g, %s",
            method,
            budget.epsilon,
            budget.delta,
            run.adjacency,
        )

    def working(
        self, title: str, total: int | None
    ) -> AbstractContextManager[Callable[[int, str], None]]:
        """Returns a block of work; its function is called with how much is done, and a note."""
        return log_lines(title, total)

    def reading(
        self, about: int | None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Returns the block in which `about` so many records are read; its function takes the private number so far."""
        return reading()

    def queried(self, gate: Gate) -> None:
        """Called when the release is whole and written down."""
        LOG.info(
            "The release is whole; nothing more is spent, and no record is needed any more."
        )

    def say(self, text: str) -> None:
        """Called with what an operator may want to know."""
        LOG.info("%s", text)

    def warn(self, text: str) -> None:
        """Called with what an operator must know; where warnings are errors, nothing is lost for it."""
        LOG.warning("%s", text)
        with suppress(UserWarning):
            warnings.warn(text, UserWarning, stacklevel=3)

    def fitted(self, text: str) -> None:
        """Called with what is wrong with a fit; where warnings are errors, nothing is lost for it."""
        LOG.warning("%s", text)
        with suppress(FitWarning):
            warnings.warn(text, FitWarning, stacklevel=5)

    def kept(self, error: BaseException, text: str, call: str) -> None:
        """Called with what is left of a run that `error` stops, and how to resume it."""
        LOG.warning("%s %s", text, call)
        error.add_note(f"{text}\n  {call}")

    def made(self, model: Any) -> None:
        """Called with the model, once it is whole."""
        verdict = getattr(model, "verdict", None)
        LOG.info(
            "Fitted%s", "." if verdict is None else f"; verdict: {verdict.headline}"
        )


class ShownProgress(Observer):
    """An observer that shows bars in a terminal or a notebook, and logs elsewhere: ``noisegate.fit(progress=True)``."""

    watched = True

    def working(
        self, title: str, total: int | None
    ) -> AbstractContextManager[Callable[[int, str], None]]:
        """Returns a block of work, shown where it can be."""
        return shown(title, total)

    def reading(
        self, about: int | None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Returns the block in which records are read; see `noisegate.progress.reading`."""
        return reading(about, standard_error())
