"""Runs: reserve, read, fit, and go on after an interruption, for Python and the command line alike."""

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

from noisegate.app.runs.folder import CHECKPOINT_FILE, Run, RunFolder
from noisegate.atomic import check_outside
from noisegate.devices import choose_device
from noisegate.errors import ModelError, NoisegateError, OptionError
from noisegate.gate.gate import Gate
from noisegate.gate.sums import Engine
from noisegate.methods.gradient import GradientMethod
from noisegate.methods.method import Method
from noisegate.methods.registry import method_of
from noisegate.models.checkpoint import Checkpoint, FitState
from noisegate.privacy import accounting
from noisegate.privacy.gradient_plan import CalibratedStepPlan
from noisegate.privacy.plan import PricedPlan
from noisegate.privacy.release import Release
from noisegate.registry import extensions

if TYPE_CHECKING:
    from noisegate.models.record_model import FittedModel

Ask: TypeAlias = Callable[[Gate, Any], Release]
"""What a run asks at its gate, by a plan; returns what has left it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PARTS = 20  # of a training: how often its cost so far is computed for a progress line
_CURE = "Remove it to start the fit again from the release."


@contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Holds Ctrl-C and SIGTERM back; yields a function to call where the work may stop, which lets them through.

    A second signal is let through at once. A SIGTERM that would have ended the process still does, behind the block.
    Arrow puts handlers of its own in their place while it reads, and was seen to lose a signal: it is told not to.
    """
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    def may_stop() -> None:
        if asked:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Signals go to the main thread only.
        yield may_stop
        return
    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    pa.enable_signal_handlers(False)
    stopped = True
    try:
        yield may_stop
        stopped = False
    finally:
        pa.enable_signal_handlers(True)
        for number, handler in before.items():
            signal.signal(number, handler)
        if stopped and asked and before[signal.Signals(asked[0])] is signal.SIG_DFL:
            signal.raise_signal(asked[0])


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
    """Returns the model of a new run of private records, which is written to the `out` of its folder, if it has one.

    Sums run on `engine`; None for this machine. What is asked is the query of the method, or `ask`. A UserError or a
    BudgetRefusedError comes before anything is spent.
    """
    with held() as may_stop:
        work, told = (
            _Work(folder=folder, device=device, may_stop=may_stop, data=data),
            {"show_values": show_values},
        )
        release, plan = work.release(
            run, data, **told, resumed=False, engine=engine, ask=ask
        )
        return work.model(run.method, release, plan if ask is None else None)


def release_run(
    run: Run,
    data: Any,
    folder: RunFolder,
    ask: Ask,
    *,
    show_values: bool = False,
    engine: Engine | None = None,
) -> Release:
    """Returns what `ask` releases of private records, in the folder by then, nothing fitted; raises as `start_run`."""
    with held() as may_stop:
        work = _Work(folder=folder, device="cpu", may_stop=may_stop)
        return work.release(
            run, data, show_values=show_values, resumed=False, engine=engine, ask=ask
        )[0]


def fit_run(release: Release, folder: RunFolder, *, device: str) -> FittedModel:
    """Returns the model of a release that was made elsewhere; it is written to the `out` of the folder, if it has one.

    An interruption leaves the release in the folder, and `resume_run` goes on.
    """
    with held() as may_stop:
        method = method_of(release.certificate)
        method.check_fit(device)
        with folder.prepared(sum(values.size for values in release.values.values())):
            folder.keep(release)
        return _Work(folder=folder, device=device, may_stop=may_stop).model(
            method, release
        )


def resume_run(
    folder: RunFolder,
    data: Any = None,
    *,
    given: Mapping[str, Any],
    device: str,
    ledger: Any = None,
    show_values: bool = False,
    engine: Engine | None = None,
) -> FittedModel:
    """Returns the model of a run that was interrupted; costs nothing.

    The records are needed only by a training whose steps are not done. `given` are options that were given beside it,
    by name (see `Run.check`), and `ledger` is for where it has none and none was kept. A UserError if there is nothing
    to resume, or an option differs from what the run began with.
    """
    observer = folder.observer
    with held() as may_stop:
        work = _Work(folder=folder, device=device, may_stop=may_stop, data=data)
        if not (folder.training or folder.reading):
            if engine is not None:
                cure = f"leave it out with {observer.option('resume')}."
                raise OptionError(
                    f"{observer.option('engine')}: a resumed fit reads no records; {cure}"
                )
            release = folder.reopen()
            method = method_of(release.certificate, seed=given["settings"].get("seed"))
            method.check_fit(device)
            observer.say(
                f"Going on with {folder.out or folder.path}: nothing is read or spent."
            )
            return work.model(method, release)
        records = folder.records(data)
        work = replace(work, data=records)
        run = Run.read(
            folder.path, ledger=given.get("ledger"), default=ledger, observer=observer
        )
        run.check(given, observer)
        began = folder.out or folder.path
        if folder.training:
            observer.say(
                f"Going on with {began} after {folder.steps_begun} steps: nothing more is spent."
            )
        else:
            observer.say(
                f"Going on with {began}: the records are read again, and nothing more is spent."
            )
        return work.model(
            run.method,
            *work.release(
                run, records, show_values=show_values, resumed=True, engine=engine
            ),
        )


@dataclass(frozen=True, kw_only=True)
class _Work:
    """The two halves of a run: the release, and what is made of it."""

    folder: RunFolder
    device: str
    may_stop: Callable[[], None]
    data: Any = None  # the records, if they are at hand: what is sampled is of the kind of table that they came in

    def release(
        self,
        run: Run,
        data: Any,
        *,
        show_values: bool,
        resumed: bool,
        engine: Engine | None = None,
        ask: Ask | None = None,
    ) -> tuple[Release, PricedPlan]:
        """Asks the query of the method, or `ask`; returns the release, which is on disk by then, and its plan."""
        read: Callable[[int], None] | None = (
            None  # steps have a bar of their own, and read before the first
        )

        def count(done: int) -> None:
            self.may_stop()
            if read is not None:
                read(done)

        run.method.check_fit(self.device)
        gate = run.gate(data, show_values=show_values, progress=count, engine=engine)
        for place in data.values() if isinstance(data, Mapping) else [data]:
            if self.folder.out is not None and isinstance(place, str | Path):
                check_outside(self.folder.out, place)
        plan = run.method.plan(gate.schema, gate.budget)
        plan = getattr(ask, "priced", lambda same: same)(
            plan
        )  # a period of a stream asks it with another noise
        has_begun = False
        try:
            with self._opened(plan, resumed=resumed):
                has_begun = True
                if ask is None and (resumed or self._written(run, data)):
                    gate.journal = self.folder.answers
                self.folder.observer.planned(run, gate, plan, data)
                if isinstance(plan, CalibratedStepPlan):
                    with self.folder.observer.working(
                        "Training", plan.plan.steps
                    ) as progress:
                        release = self._train(run, gate, plan, data, progress)
                else:
                    try:
                        about = gate.about if self.folder.observer.watched else None
                        with self.folder.observer.reading(about) as read:
                            release = (ask or run.method.query)(gate, plan)
                    except KeyboardInterrupt as stop:
                        for note in getattr(stop, "__notes__", ()):
                            self.folder.observer.say(note)
                        raise
                self.folder.keep(release)
        except BaseException as error:
            if has_begun and self.folder.can_go_on:
                text = "Stopped before everything was answered. The cost stays spent; what is left costs nothing more:"
                self.folder.observer.kept(error, text, self.folder.call(data))
            raise
        self.folder.observer.queried(gate)
        return release, plan

    def _opened(
        self, plan: PricedPlan, *, resumed: bool
    ) -> AbstractContextManager[None]:
        """Returns the block in which the folder is there to write the run's way down."""
        if not resumed:
            return self.folder.prepared(plan.coordinates)
        if self.folder.training:
            return nullcontext()
        return self.folder.reopened()

    def _written(self, run: Run, data: Any) -> bool:
        """Writes down what is asked, so that the run can go on; returns whether it can be written."""
        folder = self.folder
        try:
            return run.write(folder.path, data)
        except OSError as error:
            another = f"choose another {folder.observer.option('out')}."
            raise ModelError(
                f"{folder.path} cannot be written: {error.strerror}. Nothing was spent; {another}"
            ) from None

    def _train(
        self,
        run: Run,
        gate: Gate,
        plan: CalibratedStepPlan,
        data: Any,
        progress: Callable[[int, str], None],
    ) -> Release:
        """Returns what the training at the gate came to; stopped by anything, it can be resumed with the records."""
        assert isinstance(run.method, GradientMethod)
        folder, spent = self.folder, _Spent(plan, self.folder.observer.watched)

        def report(done: int) -> None:
            self.may_stop()
            progress(done, spent.after(done))

        try:
            return run.method.query(
                gate,
                plan,
                report=report,
                device=str(choose_device(self.device)),
                folder=folder.path,
            )
        except BaseException as error:
            if folder.training and (
                folder.out is None or not isinstance(error, NoisegateError)
            ):
                begun = folder.steps_begun
                kept = (
                    f"Stopped after {begun} of {plan.plan.steps} steps, which cost epsilon = {spent.cost(begun):.3g}. "
                    f"The whole {plan.budget.epsilon:g} stays spent; the other steps cost nothing more, but read the "
                    "records again:"
                )
                self.folder.observer.kept(error, kept, folder.call(data))
            raise

    def model(
        self, method: Method, release: Release, plan: PricedPlan | None = None
    ) -> FittedModel:
        """Fits and saves; whatever stops it, the budget is not lost."""
        folder, step = self.folder, 0
        try:
            fitting = method.fitting(release, device=self.device, plan=plan)
            kept = Checkpoint(
                folder.path / CHECKPOINT_FILE if fitting.steps else None,
                fitting,
                cure=_CURE,
            )
            kept.resume()
            try:
                with (
                    kept,
                    self.folder.observer.working("Fitting", fitting.steps) as progress,
                ):
                    fitting.run(lambda state: self._stepped(state, kept, progress))
                    model: FittedModel = method.synthesizer(release, fitting)
                    if not isinstance(self.data, str | Path | None):
                        from noisegate.models.output.native_table import (
                            with_native_output,
                        )

                        model = with_native_output(model, self.data)
                    if folder.out is not None:
                        model.save(folder.out)
            finally:
                step = fitting.step
        except BaseException as error:
            if folder.resumable:
                where = (
                    f"at step {step}"
                    if method.makes == "records"
                    else "before the classifier was written"
                )
                text = f"Stopped {where}. The budget is spent and the release is kept; go on with:"
                self.folder.observer.kept(
                    error, text, self.folder.observer.call(folder)
                )
            raise
        folder.remove()
        if folder.out is not None:
            for page in extensions("noisegate.pages").values():
                try:
                    page.load()(model, folder.out)
                except (NoisegateError, OSError, ImportError) as error:
                    cure = f"Make it with `noisegate report {folder.out} -o DIR`."
                    folder.observer.warn(f"{folder.out} has no page: {error}. {cure}")
        folder.observer.made(model)
        if (
            summary := getattr(model, "summary", None)
        ) is not None and "warning" in summary.notes:
            folder.observer.fitted(summary.notes["warning"])
        return model

    def _stepped(
        self, state: FitState, kept: Checkpoint, progress: Callable[[int, str], None]
    ) -> None:
        self.may_stop()
        with kept.step():
            progress(state.step, state.closeness)


class _Spent:
    """What the steps so far cost, for a progress line; computed for people only, and not at every step."""

    def __init__(self, plan: CalibratedStepPlan, watched: bool) -> None:
        self._plan, self._watched, self._part, self._note = plan, watched, -1, ""

    def after(self, done: int) -> str:
        """Returns what so many steps cost, or a few more; nothing where nobody looks."""
        total = self._plan.plan.steps
        part = _PARTS * done // total
        if self._watched and part > self._part:
            most = -(-(part + 1) * total // _PARTS)
            self._part, self._note = (
                part,
                f"epsilon so far at most {self.cost(min(most, total)):.3g}",
            )
        return self._note

    def cost(self, done: int) -> float:
        if not done:
            return 0.0
        plan = self._plan
        taken = replace(plan.event, steps=min(done, plan.plan.steps))
        return accounting.epsilon(
            (*plan.events[:-1], taken), plan.budget.delta, plan.budget.adjacency
        )
