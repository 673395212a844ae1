"""A table that grows: its copy after each period from a stream, from releases of single periods, and from one of all.

    python benchmarks/streams/run.py --data DIR --out FOLDER [--epsilon 1] [--periods 24] [--seeds 3] [--arms ARM ...]
        [--json FILE] [--plot FILE]

DIR holds train.csv and test.csv of the UCI table "Adult", which is shuffled and cut into periods. Figures are computed
on real data, outside the guarantee: total variation error over pairs of columns and ROC-AUC of classifiers
that are trained on the copy, both by the test records. FOLDER keeps the streams; --arms alone runs
nothing, for the plot.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from harness.options import needed, optional, read_options
from harness.results import write_json

import noisegate
from noisegate import Schema
from noisegate.app.streams.period import Period
from noisegate.app.streams.published import read_stream, stream_id
from noisegate.gate.streams.state import StreamState
from noisegate.privacy.release import Release
from noisegate.privacy.silos import Stream
from noisegate.sources.frames import read_table
from noisegate_evaluate import evaluate_tables

HERE = Path(__file__).parent
SHOWN = (1, 6, 12, 24)


def main() -> None:
    """Runs all arms with all seeds, and prints and writes their figures."""
    options = read_options(
        __doc__,
        data=needed(Path),
        out=needed(Path),
        epsilon=1.0,
        periods=24,
        seeds=3,
        arms=optional(str, "names of arms; all where it is not given", is_list=True),
        json=HERE / "results.json",
        plot=optional(Path),
    )
    schema = Schema.from_toml(HERE.parent / "adult" / "schema.toml")
    train, test = (
        read_table(options.data / name, schema) for name in ("train.csv", "test.csv")
    )
    found: list[dict[str, Any]] = (
        json.loads(options.json.read_text("utf-8")) if options.json.exists() else []
    )
    for seed in range(options.seeds):
        order = np.random.default_rng(seed).permutation(len(train))
        cuts = [part.tolist() for part in np.array_split(order, options.periods)]
        periods = [train.take(pa.array(part)) for part in cuts]
        folder = options.out / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        given: Any = (periods, schema, options.epsilon)
        arms: dict[str, Callable[[], list[tuple[int, Any, float]]]] = {
            "stream": partial(
                _stream, folder / "known", *given, {"periods": options.periods}
            ),
            "stream, open": partial(_stream, folder / "open", *given, {}),
            "periods added up": partial(_added_up, *given),
            "at once": partial(_at_once, *given),
        }
        for arm, copies in arms.items():
            if options.arms is not None and arm not in options.arms:
                continue
            for period, model, noise in copies():
                so_far = pa.concat_tables(periods[:period])
                report = evaluate_tables(
                    model.sample(len(train), seed=seed), test, schema, train=train
                )
                entry = {
                    "arm": arm,
                    "seed": seed,
                    "period": period,
                    "noise": noise,
                    "records": len(so_far),
                }
                assert report.downstream is not None  # Adult has a label
                entry |= {
                    "pairs": report.marginals.order(2).mean,
                    "roc_auc": report.downstream.mean.roc_auc,
                }
                found.append(entry)
                print(json.dumps(entry), flush=True)
                write_json(options.json, found, indent=1)
    _summary(found, options.periods)
    if options.plot:
        _plot(found, options.plot)


def _summary(found: list[dict[str, Any]], periods: int) -> None:
    for arm in dict.fromkeys(entry["arm"] for entry in found):
        last = [
            entry
            for entry in found
            if entry["arm"] == arm and entry["period"] == periods
        ]
        told = {
            name: statistics.fmean(entry[name] for entry in last)
            for name in ("noise", "pairs", "roc_auc")
        }
        print(
            f"{arm:18} "
            + "  ".join(f"{name} {value:.4f}" for name, value in told.items())
        )


def _plot(found: list[dict[str, Any]], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for axes, name, title in zip(
        figure.subplots(1, 2), _SHOWN, _SHOWN.values(), strict=True
    ):
        for arm in dict.fromkeys(entry["arm"] for entry in found):
            mine = [entry for entry in found if entry["arm"] == arm]
            periods = sorted({entry["period"] for entry in mine})
            each = [
                [entry[name] for entry in mine if entry["period"] == period]
                for period in periods
            ]
            axes.plot(
                periods, [statistics.fmean(one) for one in each], marker="o", label=arm
            )
            axes.fill_between(
                periods,
                [min(one) for one in each],
                [max(one) for one in each],
                alpha=0.2,
            )
        axes.set(xlabel="months so far", title=title)
    axes.legend()
    figure.savefig(out, dpi=100)


_SHOWN = {
    "pairs": "total variation error of pairs of columns",
    "roc_auc": "ROC-AUC of classifiers",
}


def _noise(release: Release) -> float:
    return release.noise_std["pairs"]


def _stream(
    place: Path,
    periods: list[pa.Table],
    schema: Schema,
    epsilon: float,
    horizon: dict[str, int],
) -> list[tuple[int, Any, float]]:
    plan, copies, release = place.with_suffix(".json"), [], None
    noisegate.plan_stream(plan, schema=schema, epsilon=epsilon, **horizon)
    run, asked = read_stream(plan)
    told: dict[str, Any] = {
        "method": run.method,
        "horizon": asked,
        "state": StreamState(plan),
    }
    for number, records in enumerate(
        periods, 1
    ):  # as `fit_period` does, with a fit of those alone that are shown
        gate = run.gate(records, show_values=False, progress=lambda done: None)
        facts = Stream(plan=stream_id(run, asked), period=number, **asdict(asked))
        period = Period(**told, facts=facts, after=release)
        release = period(gate, period.priced(run.method.plan(gate.schema, gate.budget)))
        if number in SHOWN:
            copies.append((number, run.method.fit_release(release), _noise(release)))
    return copies


def _added_up(
    periods: list[pa.Table], schema: Schema, epsilon: float
) -> list[tuple[int, Any, float]]:
    copies = []
    for number in SHOWN[1:]:  # of one there is nothing to add up
        asked: dict[str, Any] = {"schema": schema, "epsilon": epsilon}
        named = [
            (f"period {at}", records) for at, records in enumerate(periods[:number], 1)
        ]
        first = noisegate.merge(
            [noisegate.release(records, silo=silo, **asked) for silo, records in named]
        )
        last = [
            noisegate.release(records, silo=silo, after=first, **asked)
            for silo, records in named
        ]
        model = noisegate.merge(last, after=first)
        copies.append((number, model, _noise(model.release)))
    return copies


def _at_once(
    periods: list[pa.Table], schema: Schema, epsilon: float
) -> list[tuple[int, Any, float]]:
    copies = []
    for number in SHOWN:
        model = noisegate.fit(
            pa.concat_tables(periods[:number]), schema=schema, epsilon=epsilon
        )
        copies.append((number, model, _noise(model.release)))
    return copies


if __name__ == "__main__":
    main()
