"""Streams on the command line: `plan --periods`, `fit --stream`, `fit --continue`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisegate.app.runs.folder import RunFolder
from noisegate.app.runs.work import start_run
from noisegate.app.streams.periods import open_period, verified_release
from noisegate.app.streams.published import read_stream, stream_id
from noisegate.errors import ModelError, OptionError
from noisegate.models.record_model import FittedModel
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.events import MOST_PERIODS

# Options of `fit` that go with a stream; all others are in its plan.
_OPTIONS_OF_A_PERIOD = {
    "address",
    "after",
    "as_json",
    "data",
    "dataset",
    "device",
    "engine",
    "ledger",
    "out",
    "settings",
    "show_values",
    "stream",
    "withdrawn",
}


def horizon_of(periods: str, window: int | None, corrections: bool) -> Horizon:
    """Returns the horizon that options of `plan` describe.

    Args:
        periods: A number in decimal, or "open" where it is not known.
        window: How many of the last periods each release is about; None for all.
        corrections: Whether a record may be withdrawn or amended once.
    """
    if periods != "open" and not periods.isdecimal():
        raise OptionError(
            f"--periods {periods!r} must be a number of periods, or open where it is "
            "not known."
        )
    count = MOST_PERIODS if periods == "open" else int(periods)
    return Horizon(periods=count, window=window, corrections=corrections)


def next_period(
    context: Any, data: Any, folder: RunFolder, options: Any, **run_options: Any
) -> FittedModel:
    """Fits a period, as `fit` with --stream or --continue.

    Args:
        context: Of the verb.
        data: The records of the period.
        folder: Where the run is written to.
        options: Of the verb; those that the plan of the stream states are refused.
        run_options: As `start_run` takes them, and the `withdrawn` records.
    """
    typed = options.explicit_options(context)
    stream = Path(typed["stream"]) if "stream" in typed else None
    after = Path(typed["after"]) if "after" in typed else None
    if stream is None and after is None:
        raise OptionError("--withdrawn is of a stream; give --continue DIR beside it.")
    stated_twice = [
        folder.observer.option(name)
        for name in sorted(set(typed) - _OPTIONS_OF_A_PERIOD)
    ]
    stated_twice += [
        folder.observer.setting(*item) for item in typed["settings"].items()
    ]
    if stated_twice:
        raise OptionError(
            f"{stated_twice[0]}: the plan of the stream says what is queried; leave it "
            "out."
        )
    plan = stream or next(_plans_near(Path(after or "")), None)
    if plan is None:
        raise OptionError(
            f"--continue {after}: the plan of its stream lies neither beside it nor in "
            "this folder; add --stream FILE."
        )
    withdrawn = run_options.pop("withdrawn")
    run, period = open_period(
        plan, after, withdrawn, options.dataset, options.run_ledger
    )
    model = start_run(run, data, folder, ask=period, **run_options)
    remaining = period.horizon.periods - period.facts.period
    folder.observer.say(
        f"Period {period.facts.period} of {period.horizon.periods}; {remaining} are "
        f"left, at no further cost. Keep {period.state.folder} like the records: with "
        "it, anybody can compute their exact sums."
    )
    return model


def _plans_near(model: Path) -> Iterator[Path]:
    """Yields the plan of the stream that a model folder belongs to.

    It is looked for beside the folder and in the current one.
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
