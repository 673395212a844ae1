"""Streams for Python and the command line: `noisegate plan --periods`, and `noisegate fit --stream` or `--continue`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisegate.app.runs.folder import Observer, Run, RunFolder, ShownProgress
from noisegate.app.runs.work import start_run
from noisegate.app.streams.period import Period
from noisegate.app.streams.published import publish_stream, read_stream, stream_id
from noisegate.errors import ModelError, OptionError, said
from noisegate.gate.streams.state import StreamState
from noisegate.gate.sums import Engine
from noisegate.ledger.ledger import Ledger
from noisegate.methods.method import Method
from noisegate.methods.registry import AUTO
from noisegate.models.folder import verify
from noisegate.models.record_model import FittedModel
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.events import MOST_PERIODS, RECORD, Adjacency
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
    """Writes the plan of a stream, whose records come in several periods; returns its identifier.

    A record lies in one period, and ``epsilon`` is what it costs once, whatever the number of ``periods``; where that
    is not known, leave it out. Each release is about all records so far, or those of the last ``window`` periods. With
    ``corrections`` a record may be withdrawn or amended once, in a later period, at more noise. The others are as for
    `fit`.

    Raises:
        UserError: if anything given is unusable.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, fit_period, plan_stream
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill")])
        >>> identifier = plan_stream("registry.json", schema=schema, epsilon=1.0, periods=12)
        >>> january, february = (pa.table({"ill": [True, False] * each}) for each in (1000, 900))
        >>> first = fit_period(january, stream="registry.json", out="january")
        >>> second = fit_period(february, stream="registry.json", after="january", out="february")
        >>> second.certificate.epsilon, second.certificate.stream.period, second.sample(3).shape
        (1.0, 2, (3, 1))
    """
    told: dict[str, Any] = dict.fromkeys(
        ("records", "unit_column", "contributions", "dataset", "ledger")
    )
    told |= {
        "adjacency": Adjacency.ADD_REMOVE,
        "settings": settings,
        "epsilon": epsilon,
        "delta": delta,
        "unit": unit,
    }
    run = Run.of(method=method, schema=schema, **told)
    horizon = Horizon(periods=periods, window=window, corrections=corrections)
    return publish_stream(run, horizon, Path(path))


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
    engine: Engine | None = None,
    show_values: bool = False,
) -> FittedModel:
    """Returns the model of a stream after one more period, whose records are in ``data``.

    The ``stream`` is the plan that `plan_stream` wrote, and ``after`` the model folder of the period before; None for
    the first. Records in ``withdrawn`` leave the stream; to amend one, withdraw it as it was and give it in ``data`` as
    it is. Nothing can check that it was so: a record that is withdrawn otherwise makes the sums wrong, and costs no
    more. What must stay secret for later periods lies in a folder beside the plan (``registry.private``). A run that
    was stopped is started again as it was, and gives the same answer. Where the first period was recorded in a ledger,
    the others find their ``dataset`` and ``ledger`` themselves. The others are as for `fit`.

    Raises:
        UserError: if anything given is unusable, or the period was answered already with other records.
        BudgetRefusedError: if the ledger refuses the first period.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, fit_period, plan_stream
        >>> from noisegate.schema import Boolean
        >>> identifier = plan_stream("clinic.json", schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> fit_period(pa.table({"ill": [True, False] * 500}), stream="clinic.json").certificate.stream.periods
        1000
    """
    run, period = _period(
        Path(stream), None if after is None else Path(after), withdrawn, dataset, ledger
    )
    folder = RunFolder(
        None if out is None else Path(out),
        observer=observer or (ShownProgress() if progress else None),
    )
    return start_run(
        run,
        data,
        folder,
        device=device,
        show_values=show_values,
        engine=engine,
        ask=period,
    )


def _period(
    plan: Path, after: Path | None, withdrawn: Any, dataset: str | None, ledger: Any
) -> tuple[Run, Period]:
    """Returns what is asked of the period behind the one in the folder `after`, or of the first."""
    state = StreamState(plan)
    booked = state.booked
    if dataset is None and booked:
        dataset, ledger = booked["dataset"], ledger or booked["ledger"]
        if ledger is None:
            raise OptionError(
                f"ledger: the stream is recorded in a database under {dataset!r}; give its address."
            )
        if ledger == booked["ledger"] and not Path(ledger).exists():
            raise OptionError(
                f"ledger: the stream is recorded in {ledger} under {dataset!r}, and this file is not there. Where it "
                f"was moved or copied, give its new place: {said('ledger', 'FILE')} and {said('dataset', dataset)}."
            )
    run, horizon = read_stream(plan, dataset=dataset, ledger=ledger)
    identity, release, period = stream_id(run, horizon), None, 1
    if after is not None:
        release = _released(after)
        facts = release.certificate.stream
        if facts is None or facts.plan != identity:
            raise OptionError(
                f"after: {after} is not a period of the stream in {plan}."
            )
        period = facts.period + 1
    if not period - 1 <= state.periods <= period:
        raise OptionError(
            f"stream: {state.periods} of its periods have their records, and this would be period {period}; go on from "
            f"the model folder of the last one. It may be made again: give the records of period "
            f"{state.periods} with the folder of the one before."
            if state.periods
            else f"{state.folder} is missing or empty: it lay beside the plan, and without it the stream cannot go on."
        )
    if period > horizon.periods:
        state.end()  # a version that kept the seals may have answered its last period
        raise OptionError(
            f"the stream was planned for {horizon.periods} periods, and has all of them."
        )
    if withdrawn is not None and not (horizon.corrections and period > 1):
        raise OptionError(
            f"withdrawn: the plan of the stream does not pay for corrections; make one with {said('corrections')}."
            if not horizon.corrections
            else "withdrawn: before the first period there is no record."
        )
    facts = Stream(
        plan=identity,
        period=period,
        periods=horizon.periods,
        window=horizon.window,
        corrections=horizon.corrections,
    )
    told: dict[str, Any] = {
        "method": run.method,
        "horizon": horizon,
        "state": state,
        "facts": facts,
    }
    return run, Period(**told, after=release, withdrawn=withdrawn)


def _released(folder: Path) -> Release:
    verify(folder)
    return Release.load(folder)


def horizon_of(periods: str, window: int | None, corrections: bool) -> Horizon:
    """Returns the horizon of `noisegate plan --periods`: a number, or "open" where it is not known."""
    if periods != "open" and not periods.isdecimal():
        raise OptionError(
            f"--periods {periods!r} must be a number of periods, or open where it is not known."
        )
    count = MOST_PERIODS if periods == "open" else int(periods)
    return Horizon(periods=count, window=window, corrections=corrections)


_BESIDE_A_STREAM = {
    *(
        "data",
        "out",
        "stream",
        "after",
        "withdrawn",
        "dataset",
        "ledger",
        "device",
        "engine",
        "address",
    ),
    *("show_values", "as_json", "settings"),
}


def next_period(
    context: Any, data: Any, folder: RunFolder, options: Any, **told: Any
) -> FittedModel:
    """Does what `noisegate fit` does with --stream or --continue."""
    typed = options.typed(context)
    stream, after = (
        Path(typed[name]) if name in typed else None for name in ("stream", "after")
    )
    if stream is None and after is None:
        raise OptionError("--withdrawn is of a stream; give --continue DIR beside it.")
    twice = [
        folder.observer.option(name) for name in sorted(set(typed) - _BESIDE_A_STREAM)
    ]
    twice += [folder.observer.setting(*each) for each in typed["settings"].items()]
    if twice:
        raise OptionError(
            f"{twice[0]}: the plan of the stream says what is queried; leave it out."
        )
    found = stream or next(_beside(Path(after or "")), None)
    if found is None:
        says = f"--continue {after}: the plan of its stream lies neither beside it nor in this folder"
        raise OptionError(f"{says}; add --stream FILE.")
    run, period = _period(
        found, after, told.pop("withdrawn"), options.dataset, options.book
    )
    model = start_run(run, data, folder, ask=period, **told)
    left = period.horizon.periods - period.facts.period
    folder.observer.say(
        f"Period {period.facts.period} of {period.horizon.periods}; {left} are left, at no further cost. Keep "
        f"{period.state.folder} like the records: with it, anybody can compute their exact sums."
    )
    return model


def _beside(model: Path) -> Iterator[Path]:
    """Yields the plan of the stream that a model folder is of, where it lies beside it or in the current folder."""
    facts = _released(model).certificate.stream
    for path in sorted({*model.resolve().parent.iterdir(), *Path.cwd().iterdir()}):
        if (
            facts is not None
            and path.suffix in (".json", ".toml")
            and path.with_suffix(".private").is_dir()
        ):
            try:
                if stream_id(*read_stream(path)) == facts.plan:
                    yield path
            except ModelError:
                continue
