"""Streams in Python: a plan is written once, and each period is fitted by it.

- `plan_stream` writes the plan, a file that may be published.
- `fit_period` fits the model after one more period. It continues from the model folder
  of the period before and from the secrets beside the plan (`gate.streams.state`).
- `open_period` is its first half, for the command line: it checks that a period may
  come next, before any query.
"""

from pathlib import Path
from typing import Any

from noisegate.app.heading import check_heading, heading_of
from noisegate.app.request import Request
from noisegate.app.runs.folder import LogObserver, Observer, Run, RunFolder
from noisegate.app.runs.work import start_run
from noisegate.app.streams.period import Period
from noisegate.app.streams.published import publish_stream, read_stream, stream_id
from noisegate.errors import OptionError, said
from noisegate.gate.streams.state import StreamState
from noisegate.gate.sums import Engine
from noisegate.ledger.ledger import Ledger
from noisegate.methods.method import Method
from noisegate.methods.registry import AUTO
from noisegate.models.folder import verify
from noisegate.models.record_model import FittedModel
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.events import MOST_PERIODS, RECORD
from noisegate.privacy.release import Release
from noisegate.privacy.silos import Stream
from noisegate.schema import Schema


def plan_stream(
    path: str | Path,
    *,
    schema: Schema | str | Path,
    epsilon: float,
    delta: float = 1e-5,
    periods: int = MOST_PERIODS,
    window: int | None = None,
    corrections: bool = False,
    method: str | Method = AUTO,
    unit: str = RECORD,
    **settings: Any,
) -> str:
    """Writes the plan of a stream, whose records arrive in several periods.

    Args:
        path: File to create.
        schema: As for `fit`.
        epsilon: ε of all periods together. A record belongs to one period, and its cost
            does not depend on the number of periods.
        delta: As for `fit`.
        periods: Largest number of periods. Leave it out if it is unknown.
        window: Number of most recent periods whose records each release covers; None
            for all periods so far.
        corrections: Whether a record may be withdrawn or amended once, in a later
            period. This needs more noise.
        method: As for `fit`.
        unit: As for `fit`.
        settings: Settings of the method.

    Returns:
        The identifier of the plan.

    Raises:
        UserError: if an argument is unusable.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, fit_period, plan_stream
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill")])
        >>> registry = "registry.json"
        >>> identifier = plan_stream(registry, schema=schema, epsilon=1.0, periods=12)
        >>> january = pa.table({"ill": [True, False] * 1000})
        >>> february = pa.table({"ill": [True, False] * 900})
        >>> first = fit_period(january, stream=registry, out="january")
        >>> second = fit_period(
        ...     february, stream=registry, after="january", out="february"
        ... )
        >>> second.certificate.epsilon, second.certificate.stream.period
        (1.0, 2)
    """
    request = Request(
        epsilon=epsilon,
        schema=schema,
        delta=delta,
        method=method,
        settings=settings,
        unit=unit,
    )
    horizon = Horizon(periods=periods, window=window, corrections=corrections)
    return publish_stream(Run.of(request), horizon, Path(path))


def fit_period(
    data: Any,
    *,
    stream: str | Path,
    after: str | Path | None = None,
    withdrawn: Any = None,
    out: str | Path | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    device: str = "auto",
    progress: bool = False,
    observer: Observer | None = None,
    log: str | Path | None = None,
    engine: Engine | None = None,
    show_values: bool = False,
    title: str | None = None,
    owner: str | None = None,
    purpose: str | None = None,
) -> FittedModel:
    """Releases one more period of a stream, and fits its model.

    A folder beside the plan (``registry.private`` for ``registry.json``) holds what
    must stay secret for later periods. If a run was interrupted, repeat it unchanged:
    it gives the same results.

    Args:
        data: The records of the period.
        stream: The plan that `plan_stream` wrote.
        after: Model folder of the previous period; None for the first period.
        withdrawn: Records to remove from the stream. To amend a record, give its old
            version here and its new version in `data`. The old version cannot be
            checked: if it differs from the record that was given before, the sums are
            wrong. The cost does not change.
        out: Model folder to create; None keeps the model in memory only.
        ledger: Ledger that records the cost, for the first period. Later periods find
            it.
        dataset: Name of the data set in the ledger, for the first period.
        device: As for `fit`.
        progress: Whether to show progress.
        observer: As for `fit`.
        log: As for `fit`.
        engine: As for `fit`.
        show_values: Whether errors may quote values of records.
        title: Title of the model, for its pages; None for that of the previous period.
        owner: Who is responsible for the model; None as for `title`.
        purpose: What the model is for; None as for `title`.

    Returns:
        The model of all records so far, or of those in the window.

    Raises:
        UserError: if an argument or the data is unusable, or the period was released
            already with other records.
        BudgetRefusedError: if the ledger refuses the cost of the first period.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, fit_period, plan_stream
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill")])
        >>> identifier = plan_stream("clinic.json", schema=schema, epsilon=1.0)
        >>> january = pa.table({"ill": [True, False] * 500})
        >>> model = fit_period(january, stream="clinic.json")
        >>> model.certificate.stream.period, model.certificate.stream.periods
        (1, 1000)
    """
    before = None if after is None else Path(after)
    run, period = open_period(Path(stream), before, withdrawn, dataset, ledger)
    heading = {"title": title, "owner": owner, "purpose": purpose}
    run = run.with_heading(check_heading(heading))
    if observer is None and progress:
        observer = LogObserver(shows_bars=True)
    folder = RunFolder(out, observer=observer, log=log)
    return start_run(
        run,
        data,
        folder,
        device=device,
        show_values=show_values,
        engine=engine,
        ask=period,
    )


def open_period(
    plan: Path, after: Path | None, withdrawn: Any, dataset: str | None, ledger: Any
) -> tuple[Run, Period]:
    """Prepares the period that follows another one, or the first.

    Args:
        plan: The plan of the stream.
        after: The model folder of the previous period; None for the first.
        withdrawn: Records to remove from the stream, or None.
        dataset: Name of the data set in the ledger; None to find that of the first
            period.
        ledger: Ledger; None to find that of the first period.

    Returns:
        The run of the period, and its queries at the gate.

    Raises:
        OptionError: if the stream has no such period, or the secrets beside its plan
            are missing.
    """
    state = StreamState(plan)
    if dataset is None and state.ledger_entry:
        dataset, ledger = _recorded_ledger(state, ledger)
    run, horizon = read_stream(plan, dataset=dataset, ledger=ledger)
    identity = stream_id(run, horizon)
    release: Release | None = None
    number = 1
    if after is not None:
        release = verified_release(after)
        facts_before = release.certificate.stream
        if facts_before is None or facts_before.plan != identity:
            raise OptionError(
                f"after: {after} is not a period of the stream in {plan}."
            )
        number = facts_before.period + 1
        run = run.with_heading(heading_of(release.certificate))
    _check_number(number, state, horizon)
    if withdrawn is not None:
        _check_withdrawal(number, horizon)
    facts = Stream(
        plan=identity,
        period=number,
        periods=horizon.periods,
        window=horizon.window,
        corrections=horizon.corrections,
    )
    period = Period(
        method=run.method,
        horizon=horizon,
        state=state,
        facts=facts,
        after=release,
        withdrawn=withdrawn,
    )
    return run, period


def _recorded_ledger(state: StreamState, ledger: Any) -> tuple[str, Any]:
    """Returns the data set and ledger that the first period was recorded in.

    Args:
        state: What the stream keeps.
        ledger: The ledger that was given, which goes before; or None.

    Raises:
        OptionError: if the ledger is a database whose address must be given, or a file
            that is not there.
    """
    dataset = state.ledger_entry["dataset"]
    recorded_ledger = state.ledger_entry["ledger"]
    used_ledger = ledger or recorded_ledger
    if used_ledger is None:
        raise OptionError(
            f"ledger: the stream is recorded in a database under {dataset!r}; give its "
            "address."
        )
    if used_ledger == recorded_ledger and not Path(used_ledger).exists():
        raise OptionError(
            f"ledger: the stream is recorded in {used_ledger} under {dataset!r}, and "
            "this file is not there. Where it was moved or copied, give its new place: "
            f"{said('ledger', 'FILE')} and {said('dataset', dataset)}."
        )
    return dataset, used_ledger


def _check_number(number: int, state: StreamState, horizon: Horizon) -> None:
    """Requires that a period follows the last one, or is the last one again."""
    if not number - 1 <= state.begun_period_count <= number:
        if state.begun_period_count:
            raise OptionError(
                f"stream: {state.begun_period_count} periods are released, and "
                f"this would be period {number}. Continue from the model folder of "
                "the last one. To make that folder again, give the records of "
                f"period {state.begun_period_count} with the folder of the period "
                "before."
            )
        raise OptionError(
            f"{state.folder} is missing or empty: it belongs beside the plan, and "
            "without it the stream cannot continue."
        )
    if number > horizon.periods:
        # A version that kept the seals may have answered its last period.
        state.erase_all_secrets()
        raise OptionError(
            f"the stream was planned for {horizon.periods} periods, and all of "
            "them are released."
        )


def _check_withdrawal(number: int, horizon: Horizon) -> None:
    """Requires that records may leave the stream in a period."""
    if not horizon.corrections:
        raise OptionError(
            "withdrawn: the plan of the stream does not pay for corrections; make one "
            f"with {said('corrections')}."
        )
    if number == 1:
        raise OptionError("withdrawn: before the first period there is no record.")


def verified_release(folder: Path) -> Release:
    """Returns the release in a model folder, with its claim and hashes checked."""
    verify(folder)
    return Release.load(folder)
