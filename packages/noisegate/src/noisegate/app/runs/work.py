"""Starts, resumes and executes runs, for Python and the command line alike.

::

                    query the gate   fit and save   for
    start_run             x               x         a new run
    release_run           x                         a release alone
    fit_run                               x         a release that was made elsewhere
    resume_run           (x)              x         a run that was stopped; x if before
                                                    its release was complete

`_Execution` has these two halves: `query_gate` and `fit_model`. Whatever stops either
of them, the budget is not lost: what was paid for is in the run's folder by then, and
the error says how to continue.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from noisegate.app.runs.folder import (
    CHECKPOINT_FILE,
    Run,
    RunFolder,
    fitted_message,
)
from noisegate.devices import choose_device
from noisegate.errors import ModelError, NoisegateError, OptionError
from noisegate.gate.gate import Gate
from noisegate.gate.sums import Engine
from noisegate.methods.gradient import GradientMethod
from noisegate.methods.method import Method
from noisegate.methods.registry import method_of
from noisegate.models.checkpoint import Checkpoint, FitState
from noisegate.privacy import accounting
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release
from noisegate.registry import extensions

if TYPE_CHECKING:
    from noisegate.models.record_model import FittedModel

Ask: TypeAlias = Callable[[Gate, Any], Release]
"""Asks the queries of a plan at a gate, and returns the release.

It may have a method `priced`, which returns the plan with another noise: a period of a
stream has."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# How often the cost so far of a training is computed for its progress line.
_COST_NOTES = 20

_CHECKPOINT_CURE = "Remove it to start the fit again from the release."


@contextmanager
def hold_signals() -> Iterator[Callable[[], None]]:
    """Holds back Ctrl-C and SIGTERM until the work can stop without loss.

    A second signal is let through at once. A SIGTERM that would have ended the process
    still does, after the block. Threads other than the main one get no signals, and
    nothing is held back there.

    Yields:
        A function to call where the work may stop. It raises `KeyboardInterrupt` if
        there was a signal.
    """
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    def may_stop() -> None:
        if received:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield may_stop
        return

    previous_handlers = {number: signal.signal(number, receive) for number in _SIGNALS}
    # While Arrow reads, it puts handlers of its own in place of these, and was seen to
    # lose a signal.
    pa.enable_signal_handlers(False)
    has_failed = True
    try:
        yield may_stop
        has_failed = False
    finally:
        pa.enable_signal_handlers(True)
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        if has_failed and received:
            first_signal = signal.Signals(received[0])
            ends_process = previous_handlers[first_signal] is signal.SIG_DFL
            if ends_process:
                signal.raise_signal(first_signal)


@contextmanager
def _begin(folder: RunFolder, data: Any = None) -> Iterator[Callable[[], None]]:
    """Opens the log of a run before anything is read or spent, and holds signals.

    Args:
        folder: Where the run is written down.
        data: The records, among which it must not lie.

    Yields:
        A function that stops the run if there was a signal, see `hold_signals`.
    """
    folder.check_outside(data)
    with hold_signals() as may_stop, folder.logged():
        yield may_stop


def start_run(
    run: Run,
    data: Any,
    folder: RunFolder,
    *,
    device: str,
    show_values: bool = False,
    engine: Engine | None = None,
    ask: Ask | None = None,
) -> FittedModel:
    """Executes a new run of private records.

    Args:
        run: The options of the run.
        data: The records, as `Gate` takes them.
        folder: Where the run is written down. The model is saved to its `out`, if it
            has one.
        device: Where the model is fitted: "auto", "cpu", "cuda" or "mps".
        show_values: Whether errors may show cells of the records.
        engine: Where records are summed; None for this machine.
        ask: Asks the queries; None for those of the method.

    Returns:
        The fitted model.

    Raises:
        UserError, BudgetRefusedError: before anything is spent, if the run is not
            possible.
    """
    with _begin(folder, data) as may_stop:
        execution = _Execution(
            folder=folder, device=device, may_stop=may_stop, data=data
        )
        release, plan = execution.query_gate(
            run, show_values=show_values, resumed=False, engine=engine, ask=ask
        )
        return execution.fit_model(run.method, release, plan if ask is None else None)


def release_run(
    run: Run,
    data: Any,
    folder: RunFolder,
    ask: Ask,
    *,
    show_values: bool = False,
    engine: Engine | None = None,
) -> Release:
    """Releases answers about private records, and fits nothing to them.

    Args:
        run: The options of the run.
        data: The records, as `Gate` takes them.
        folder: Where the run, and then the release, is written down.
        ask: Asks the queries.
        show_values: Whether errors may show cells of the records.
        engine: Where records are summed; None for this machine.

    Raises:
        UserError, BudgetRefusedError: as `start_run` does.
    """
    with _begin(folder, data) as may_stop:
        execution = _Execution(
            folder=folder, device="cpu", may_stop=may_stop, data=data
        )
        release, _ = execution.query_gate(
            run, show_values=show_values, resumed=False, engine=engine, ask=ask
        )
        return release


def fit_run(release: Release, folder: RunFolder, *, device: str) -> FittedModel:
    """Fits the model of a release that was made elsewhere.

    An interruption leaves the release in the folder, and `resume_run` continues.

    Args:
        release: The release, of any method.
        folder: Where the run is written down. The model is saved to its `out`, if it
            has one.
        device: Where the model is fitted.
    """
    with _begin(folder) as may_stop:
        method = method_of(release.certificate)
        method.check_fit(device)
        coordinates = sum(values.size for values in release.values.values())
        with folder.prepared(coordinates):
            folder.keep(release)
        execution = _Execution(folder=folder, device=device, may_stop=may_stop)
        return execution.fit_model(method, release)


def resume_run(
    folder: RunFolder,
    data: Any = None,
    *,
    options: Mapping[str, Any],
    device: str,
    ledger: Any = None,
    show_values: bool = False,
    engine: Engine | None = None,
) -> FittedModel:
    """Continues a run that was interrupted, at no cost.

    Args:
        folder: The folder of the run.
        data: The records, which are needed only if the run was stopped before its
            release was complete; None for those that it began with.
        options: Options that the caller gave beside the folder: see
            `Run.check_unchanged`.
        device: Where the model is fitted.
        ledger: The ledger if the run has none of its own, and none is in
            `options`.
        show_values: Whether errors may show cells of the records.
        engine: Where records are summed; None for this machine.

    Raises:
        UserError: if there is nothing to resume, or an option differs from what the run
            began with.
    """
    observer = folder.observer
    name = folder.out or folder.path
    with _begin(folder, data) as may_stop:
        execution = _Execution(
            folder=folder, device=device, may_stop=may_stop, data=data
        )
        needs_records = folder.is_training or folder.is_reading
        if not needs_records:
            if engine is not None:
                raise OptionError(
                    f"{observer.option('engine')}: a resumed fit reads no records; "
                    f"leave it out with {observer.option('resume')}."
                )
            release = folder.load_release()
            method = method_of(
                release.certificate, seed=options["settings"].get("seed")
            )
            method.check_fit(device)
            observer.say(f"Continuing {name}: nothing is read or spent.")
            return execution.fit_model(method, release)

        execution = replace(execution, data=folder.records_to_resume(data))
        run = Run.read(
            folder.path, ledger=options.get("ledger"), default=ledger, observer=observer
        )
        run.check_unchanged(options, observer)
        if folder.is_training:
            observer.say(
                f"Continuing {name} after {folder.steps_begun} steps: nothing more "
                "is spent."
            )
        else:
            observer.say(
                f"Continuing {name}: the records are read again, and nothing more "
                "is spent."
            )
        release, plan = execution.query_gate(
            run, show_values=show_values, resumed=True, engine=engine
        )
        return execution.fit_model(run.method, release, plan)


class _ReadingProgress:
    """Counts the records that are read, and stops where a signal was received.

    The gate takes it before it is known whether there is a bar to show. A training has
    a bar of its own, for steps.
    """

    def __init__(self, may_stop: Callable[[], None]) -> None:
        self._may_stop = may_stop
        self.bar: Callable[[int], None] | None = None

    def __call__(self, record_count: int) -> None:
        self._may_stop()
        if self.bar is not None:
            self.bar(record_count)


@dataclass(frozen=True, kw_only=True)
class _Execution:
    """The two halves of a run: the release, and the model that is fitted to it.

    Attributes:
        folder: Where the run is written down.
        device: Where the model is fitted.
        may_stop: Raises `KeyboardInterrupt` if there was a signal.
        data: The records, if they are at hand; what the model samples is of the kind of
            table that they came in.
    """

    folder: RunFolder
    device: str
    may_stop: Callable[[], None]
    data: Any = None

    def query_gate(
        self,
        run: Run,
        *,
        show_values: bool,
        resumed: bool,
        engine: Engine | None = None,
        ask: Ask | None = None,
    ) -> tuple[Release, Plan]:
        """Asks the queries of a run at a gate before the records.

        Args:
            run: The options of the run.
            show_values: Whether errors may show cells of the records.
            resumed: Whether the run was interrupted before.
            engine: Where records are summed; None for this machine.
            ask: Asks the queries; None for those of the method.

        Returns:
            The release, which is on disk by then, and its plan.
        """
        folder = self.folder
        run.method.check_fit(self.device)
        progress = _ReadingProgress(self.may_stop)
        gate = run.gate(
            self.data, show_values=show_values, progress=progress, engine=engine
        )
        folder.check_outside(self.data)
        plan: Plan = run.method.plan(gate.schema, gate.budget)
        reprice = getattr(ask, "priced", None)
        if reprice is not None:
            plan = reprice(plan)

        has_begun = False
        try:
            with self._open_folder(plan, resumed=resumed):
                has_begun = True
                # Queries of a caller's own cannot be written down.
                if ask is None and (resumed or self._write_run(run)):
                    gate.journal = folder.answers
                folder.observer.planned(run, gate, plan, self.data)
                self._record_plan(run, plan)
                if isinstance(run.method, GradientMethod):
                    release = self._train(run.method, gate, plan)
                else:
                    release = self._query(ask or run.method.query, gate, plan, progress)
                folder.keep(release)
                folder.record(
                    "The release is complete; epsilon = "
                    f"{plan.budget.epsilon:g} is spent."
                )
        except BaseException as error:
            if has_begun and folder.can_resume_reading:
                folder.explain_stop(
                    error,
                    "Stopped before all queries were run. The cost stays spent; "
                    "the remaining queries cost nothing more:",
                    folder.resuming_call(self.data),
                )
            raise
        folder.observer.queried(gate)
        return release, plan

    def _record_plan(self, run: Run, plan: Plan) -> None:
        """Appends the options of a run, which are public, and its cost to its log."""
        options = {
            "method": run.method.name,
            "settings": run.method.to_json(),
            **run.file_options,
        }
        listed = [
            f"{name}={value!r}" for name, value in options.items() if value is not None
        ]
        self.folder.record(f"Options: {', '.join(listed)}.")
        self.folder.record(
            f"The records are read, for epsilon = {plan.budget.epsilon:g} at delta = "
            f"{plan.budget.delta:g}."
        )

    def _open_folder(
        self, plan: Plan, *, resumed: bool
    ) -> AbstractContextManager[None]:
        """Returns the block in which the run can be written down in its folder."""
        if not resumed:
            return self.folder.prepared(plan.coordinates)
        if self.folder.is_training:
            # The journal of steps guards the folder.
            return nullcontext()
        return self.folder.reopened()

    def _write_run(self, run: Run) -> bool:
        """Writes down the options of the run, so that it can continue.

        Returns:
            Whether they can be written.

        Raises:
            ModelError: if the disk is full.
        """
        folder = self.folder
        try:
            return run.write(folder.path, self.data)
        except OSError as error:
            raise ModelError(
                f"{folder.path} cannot be written: {error.strerror}. Nothing was "
                f"spent; choose another {folder.observer.option('out')}."
            ) from None

    def _query(
        self, ask: Ask, gate: Gate, plan: Plan, progress: _ReadingProgress
    ) -> Release:
        """Asks for sums, and shows how many records were read."""
        observer = self.folder.observer
        try:
            about = gate.about if observer.watched else None
            with observer.reading(about) as bar:
                progress.bar = bar
                return ask(gate, plan)
        except KeyboardInterrupt as stop:
            # The gate notes what the interruption has cost.
            for note in getattr(stop, "__notes__", ()):
                observer.say(note)
            raise

    def _train(self, method: GradientMethod, gate: Gate, plan: Plan) -> Release:
        """Takes the steps of a training, which shows its cost so far.

        Whatever stops it, it can be resumed with the records.
        """
        folder = self.folder
        cost = _CostSoFar(plan, watched=folder.observer.watched)
        step_count = steps_of(plan).query.steps
        with folder.observer.working("Training", step_count) as show_steps:

            def report(steps_done: int) -> None:
                self.may_stop()
                show_steps(steps_done, cost.note_after(steps_done))

            try:
                return method.query(
                    gate,
                    plan,
                    report=report,
                    device=str(choose_device(self.device)),
                    folder=folder.path,
                )
            except BaseException as error:
                self._note_stopped_training(error, plan, cost)
                raise

    def _note_stopped_training(
        self, error: BaseException, plan: Plan, cost: _CostSoFar
    ) -> None:
        """Says how to resume a training that an error has stopped, if it can be."""
        folder = self.folder
        if not folder.is_training:
            return
        # In a command, an error of the user's says by itself how to continue.
        if folder.out is not None and isinstance(error, NoisegateError):
            return
        steps_begun = folder.steps_begun
        text = (
            f"Stopped after {steps_begun} of {steps_of(plan).event.steps} steps, which "
            "cost "
            f"epsilon = {cost.after(steps_begun):.3g}. The whole "
            f"{plan.budget.epsilon:g} stays spent; the other steps cost nothing more, "
            "but read the records again:"
        )
        folder.explain_stop(error, text, folder.resuming_call(self.data))

    def fit_model(
        self, method: Method, release: Release, plan: Plan | None = None
    ) -> FittedModel:
        """Fits a model to a release and saves it; whatever stops it can be resumed.

        Args:
            method: The method of the release.
            release: The release, which is in the folder.
            plan: The plan of the release, if it is at hand.
        """
        folder = self.folder
        step = 0
        try:
            fitting = method.fitting(release, device=self.device, plan=plan)
            checkpoint = Checkpoint(
                folder.path / CHECKPOINT_FILE if fitting.steps else None,
                fitting,
                cure=_CHECKPOINT_CURE,
            )
            checkpoint.resume()
            folder.record(
                f"A model is fitted, from step {fitting.step} of {fitting.steps}."
            )
            try:
                with (
                    checkpoint,
                    folder.observer.working("Fitting", fitting.steps) as show_steps,
                ):
                    fitting.run(
                        lambda state: self._finish_step(state, checkpoint, show_steps)
                    )
                    model = self._made_model(method, release, fitting)
                    if folder.out is not None:
                        model.save(folder.out)
            finally:
                step = fitting.step
        except BaseException as error:
            if folder.has_release:
                if method.makes == "records":
                    where = f"at step {step}"
                else:
                    where = "before the classifier was written"
                folder.explain_stop(
                    error,
                    f"Stopped {where}. The budget is spent and the release is "
                    "kept; continue with:",
                    folder.observer.call(folder),
                )
            raise
        folder.remove()
        self._write_pages(model)
        folder.observer.made(model)
        folder.record(fitted_message(model))
        # Classifiers have no summary. This is called here, as the warning points so
        # many frames up.
        summary = getattr(model, "summary", None)
        if summary is not None and "warning" in summary.notes:
            folder.observer.fitted(summary.notes["warning"])
            folder.record(summary.notes["warning"])
        return model

    def _finish_step(
        self,
        state: FitState,
        checkpoint: Checkpoint,
        show_steps: Callable[[int, str], None],
    ) -> None:
        """Stops if there was a signal; else shows the state of a fit and saves it."""
        self.may_stop()
        with checkpoint.step():
            show_steps(state.step, state.closeness)

    def _made_model(
        self, method: Method, release: Release, fitting: Any
    ) -> FittedModel:
        """Returns the model that a fit has reached.

        Its samples are of the kind of table that the records came in.
        """
        model: FittedModel = method.synthesizer(release, fitting)
        is_in_memory = not isinstance(self.data, str | Path | None)
        if is_in_memory:
            # Imported late: records in files are the rule at the command line.
            from noisegate.models.output.native_table import with_native_output

            model = with_native_output(model, self.data)
        return model

    def _write_pages(self, model: FittedModel) -> None:
        """Adds the pages that installed packages make of a model to its folder."""
        out = self.folder.out
        if out is None:
            return
        for page in extensions("noisegate.pages").values():
            try:
                page.load()(model, out)
            except (NoisegateError, OSError, ImportError) as error:
                self.folder.observer.warn(
                    f"{out} has no page: {error}. Make it with `noisegate report {out} "
                    "-o DIR`."
                )


class _CostSoFar:
    """What the steps of a training have cost so far, for its progress line.

    The cost takes a while to compute. So it is computed only where somebody sees it,
    and 20 times in a training.

    Args:
        plan: The plan of the training.
        watched: Whether anybody sees the progress.
    """

    def __init__(self, plan: Plan, *, watched: bool) -> None:
        self._plan = plan
        self._watched = watched
        self._part = -1  # of the training, for which the note was computed
        self._note = ""

    def note_after(self, done: int) -> str:
        """Returns a note on the cost of `done` steps, or a few more.

        It is empty where nobody sees it.
        """
        total = steps_of(self._plan).query.steps
        part = _COST_NOTES * done // total
        if self._watched and part > self._part:
            # Rounded up, so that the note holds until the next one.
            last_step = -(-(part + 1) * total // _COST_NOTES)
            epsilon = self.after(min(last_step, total))
            self._part = part
            self._note = f"epsilon so far at most {epsilon:.3g}"
        return self._note

    def after(self, done: int) -> float:
        """Returns the ε of `done` steps, at the δ of the plan."""
        if not done:
            return 0.0
        plan = self._plan
        steps = steps_of(plan).event
        steps_so_far = replace(steps, steps=min(done, steps.steps))
        other_events = (release.event for release in plan.releases)
        return accounting.epsilon(
            (*other_events, steps_so_far),
            plan.budget.delta,
            plan.budget.adjacency,
        )
