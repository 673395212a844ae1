"""Streams on the command line: `plan --periods`, `fit --stream`, `fit --continue`.

The plan of a stream is published once. Each period is a fit to its own records, and
names the model of the period before::

    plan ... --periods 24 --save registry.json
    fit january.csv  --stream registry.json --out january
    fit february.csv --continue january     --out february

So a fit of a stream has only those options that its plan does not state.
"""

from collections.abc import Iterator
from pathlib import Path

from typer import Context

from noisegate.app.cli.options import FitOptions
from noisegate.app.heading import HEADING_NAMES, check_heading
from noisegate.app.runs.folder import RunFolder
from noisegate.app.runs.work import start_run
from noisegate.app.streams.periods import open_period, verified_release
from noisegate.app.streams.published import read_stream, stream_id
from noisegate.errors import ModelError, OptionError
from noisegate.gate.sums import Engine
from noisegate.models.record_model import FittedModel
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.events import MOST_PERIODS


def parse_horizon(periods: str, window: int | None, corrections: bool) -> Horizon:
    """Reads the options of `plan` that describe how long a stream is.

    Args:
        periods: A number in decimal, or "open" if it is not known.
        window: How many of the last periods each release is about; None for all.
        corrections: Whether a record may be withdrawn or amended once.

    Raises:
        OptionError: if a number is none, or is out of range.

    Examples:
        >>> from noisegate.app.cli.streams import parse_horizon
        >>> parse_horizon("24", window=None, corrections=False).periods
        24
    """
    if periods != "open" and not periods.isdecimal():
        raise OptionError(
            f"--periods {periods!r} must be a number of periods, or open where it is "
            "not known."
        )
    count = MOST_PERIODS if periods == "open" else int(periods)
    return Horizon(periods=count, window=window, corrections=corrections)


def fit_next_period(
    context: Context,
    data: str,
    folder: RunFolder,
    options: FitOptions,
    *,
    withdrawn: str | None,
    device: str,
    show_values: bool,
    engine: Engine | None,
) -> FittedModel:
    """Fits the first period of a stream, or the one behind a model, and says which.

    Args:
        context: Context of the verb `fit`.
        data: Path of the records of the period.
        folder: Where the run is written to.
        options: Of the verb.
        withdrawn: Path of the records that leave the stream; None for none.
        device: Where to fit.
        show_values: Whether errors may quote private values.
        engine: Where sums run; None for this machine.

    Returns:
        The model of all periods so far, or of those in the window.

    Raises:
        OptionError: if an option is one that the plan of the stream states, or the plan
            is not found.
    """
    explicit = options.explicit_options(context)
    stream = Path(explicit["stream"]) if "stream" in explicit else None
    after = Path(explicit["after"]) if "after" in explicit else None
    if stream is None and after is None:
        raise OptionError("--withdrawn applies to a stream; give --continue DIR too.")
    stated_twice = options.stated_by_plan(context, HEADING_NAMES)
    if stated_twice:
        raise OptionError(
            f"{stated_twice[0]}: the plan of the stream fixes this; leave it out."
        )
    plan = stream
    if plan is None and after is not None:
        plan = next(_plans_near(after), None)
    if plan is None:
        raise OptionError(
            f"--continue {after}: the plan of its stream is neither beside it nor "
            "in this folder; add --stream FILE."
        )
    run, period = open_period(
        plan, after, withdrawn, options.request.dataset, options.run_ledger
    )
    run = run.with_heading(check_heading(vars(options.request)))
    model = start_run(
        run,
        data,
        folder,
        device=device,
        show_values=show_values,
        engine=engine,
        ask=period,
    )
    remaining = period.horizon.periods - period.facts.period
    folder.observer.say(
        f"Period {period.facts.period} of {period.horizon.periods}; {remaining} "
        f"are left, at no further cost. Protect {period.state.folder} like the "
        "records: it reveals their exact sums."
    )
    return model


def _plans_near(model: Path) -> Iterator[Path]:
    """Yields the plan of the stream that a model folder belongs to.

    Plans are searched for beside the folder and in the current one; each has a folder
    of its exact state beside it, as registry.private beside registry.json.
    """
    facts = verified_release(model).certificate.stream
    if facts is None:
        return
    for path in sorted({*model.resolve().parent.iterdir(), *Path.cwd().iterdir()}):
        is_plan_file = path.suffix in (".json", ".toml")
        if not is_plan_file or not path.with_suffix(".private").is_dir():
            continue
        try:
            if stream_id(*read_stream(path)) == facts.plan:
                yield path
        except ModelError:
            continue
