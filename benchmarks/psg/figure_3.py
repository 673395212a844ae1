"""Figure 3 of PSG: five parties, two classes each, teach one network in turn (section 5.2, class-incremental).

    python benchmarks/psg/figure_3.py --data DIR --out DIR [--epsilon 1 10] [--methods psg dp-sgd] [--plot FILE]

No record leaves its party: each has a gate of its own, with the whole ε for its records, which no other party holds.

* psg: a party hands on a set of ten images of each of its classes; at each stage a fresh ConvNet is trained on all sets
  so far.
* dp-sgd: a party goes on from the network that the one before has handed on, with DP-SGD on its own records.
* dp-merf: a party hands on 6,000 generated images of each of its classes; a network is trained on all so far.

A stage is scored by the mean, over the parties so far, of the accuracy on the test images of a party's classes. The
paper draws curves and prints no numbers. See README.md.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness.images import fitted_once, labelled_rows
from harness.options import choices, option, optional, read_options
from harness.printing import run_main
from harness.results import kept, write_json
from psg.descent import classifier_of, descent_of, model_folder, right
from psg.sets import (
    DELTA,
    OPTIONS,
    RECORDS,
    SHAPE,
    Bench,
    bench_of,
    method_of,
    print_page,
    schedule_text,
)

from noisegate import Gate
from noisegate.methods.registry import make_for
from noisegate.schema import Schema, pixel_schema
from noisegate_evaluate import LabelledRows, Training
from noisegate_evaluate.utility.suites import Network

ORDER = (5, 6, 1, 2, 0, 8, 9, 3, 4, 7)
"""Classes in the order of the authors' program, two a party."""
PARTIES = tuple(zip(ORDER[::2], ORDER[1::2], strict=True))
METHODS = ("psg", "dp-sgd", "dp-merf")
SAMPLES = 10
PARTY_RECORDS = RECORDS // len(PARTIES)
"""What the public knows of a party: ten classes of about the same size."""


def main() -> None:
    """Makes the page, and the plot if one is asked for."""
    options = read_options(
        __doc__,
        **OPTIONS,
        epsilon=[1.0, 10.0],
        methods=choices(METHODS),
        merf_each=option(6000, "images of each class from DP-MERF"),
        merf_epochs=option(5, "passes over these, of which there are many"),
        plot=optional(Path),
    )
    bench = replace(bench_of(options), records=PARTY_RECORDS)
    curves = []
    for epsilon, method, seed in itertools.product(
        options.epsilon, options.methods, range(options.seeds)
    ):
        stages = CURVES[method](bench, options, epsilon, seed)
        key = {"method": method, "epsilon": epsilon, "seed": seed}
        curves.append({**key, "stages": stages})
        scores = ", ".join(f"{score:.4f}" for score in stages)
        print(f"{method}, ε = {epsilon:g}: {scores}")
    schedule = schedule_text(options)
    title = f"PSG, Figure 3, {options.data_set} in {len(PARTIES)} parts: {schedule}; {bench.protocol}"
    means = _means(curves)
    print_page(title, [cell for curve in means for cell in _cells(curve)])
    content = {
        "title": title,
        "data_set": options.data_set,
        "schedule": schedule,
        "curves": curves,
    }
    write_json(options.json, content, indent=1)
    if options.plot:
        draw(options.plot, title, means)


def party_of(bench: Bench, party: Sequence[int]) -> tuple[pa.Table, Schema]:
    """Returns the records of a party, and their schema, which knows its classes only."""
    train, schema = bench.loaded.train, bench.loaded.schema
    mine = train.filter(
        pc.is_in(train[schema.label], pa.array(party, train[schema.label].type))
    )
    return mine, pixel_schema(SHAPE.height, SHAPE.width, labels=tuple(sorted(party)))


def by_sets(
    bench: Bench, options: argparse.Namespace, epsilon: float, seed: int
) -> list[float]:
    """Returns the scores of the stages where parties hand on private sets."""
    given = {
        "steps": options.steps,
        "width": options.width,
        "sampling_probability": 256 / PARTY_RECORDS,
    }
    method = method_of(
        options.schedule, samples_per_class=SAMPLES, epsilon=epsilon, seed=seed, **given
    )
    if options.schedule == "paper" and options.steps is None:
        method = replace(method, steps=20_000)  # 200 rounds at either ε
    sets, scores = [], []
    for party in PARTIES:
        part = f"-{min(party)}{max(party)}"
        sets.append(
            bench.images(method, epsilon, part=part, records=party_of(bench, party))
        )
        scores.append(_taught(bench, sets, bench.folder(method, epsilon, part), seed))
    return scores


def by_descent(
    bench: Bench, options: argparse.Namespace, epsilon: float, seed: int
) -> list[float]:
    """Returns the scores of the stages where parties hand on the network itself."""
    given = {
        "records": PARTY_RECORDS,
        "steps": options.steps,
        "width": options.width,
        "seed": seed,
    }
    method, scores = descent_of(options.schedule, **given), []
    schema = bench.loaded.schema
    for stage, party in enumerate(PARTIES):
        name = f"dp-sgd-{stage + 1}"
        # The network tells all ten classes apart, of which this party's records have two.
        records, _ = party_of(bench, party)
        model = classifier_of(
            bench, method, epsilon, name=name, records=records, schema=schema
        )
        hits = right(model, bench.loaded.test, schema)
        scores.append(
            _mean_of_parties(
                hits, bench.loaded.test[schema.label].to_numpy(), stage + 1
            )
        )
        method = replace(method, start=str(model_folder(bench, method, epsilon, name)))
    return scores


def by_merf(
    bench: Bench, options: argparse.Namespace, epsilon: float, seed: int
) -> list[float]:
    """Returns the scores of the stages where parties hand on images of DP-MERF."""
    sets = []
    scores = []
    bench = replace(bench, epochs=options.merf_epochs)
    for party in PARTIES:
        part = f"{min(party)}{max(party)}"
        folder = bench.out / f"{bench.data_set}-{part}-merf-{epsilon:g}-{seed}"
        records, schema = party_of(bench, party)
        gate = Gate(
            records, schema=schema, epsilon=epsilon, delta=DELTA, records=PARTY_RECORDS
        )
        method = make_for("dp-merf", schema, {"seed": seed})
        model = fitted_once(folder / "model", method, gate, device=bench.device)
        batch = model.sample(2 * options.merf_each, seed=seed)
        sets.append(labelled_rows(batch))
        scores.append(_taught(bench, sets, folder, seed))
    return scores


CURVES = {"psg": by_sets, "dp-sgd": by_descent, "dp-merf": by_merf}


def _taught(
    bench: Bench, sets: Sequence[LabelledRows], folder: Path, seed: int
) -> float:
    """Returns the score of the stage whose sets these are, kept in the folder of the last."""
    told = Training(augment=bench.augment, epochs=bench.epochs, device=bench.device)
    file = (
        folder
        / f"stage-{bench.repeats}-{told.passes}{'-altered' if bench.augment else ''}.json"
    )

    def score() -> list[float]:
        train = LabelledRows(
            features=np.concatenate([one.features for one in sets]),
            labels=np.concatenate([one.labels for one in sets]),
        )
        every = labelled_rows(bench.loaded.test)
        seen = np.isin(every.labels, PARTIES[: len(sets)])
        test = LabelledRows(features=every.features[seen], labels=every.labels[seen])
        network = Network(name="ConvNet", training=told)
        scores = []
        for start in range(bench.repeats):
            # A class that no party has had yet is in no image and wins nowhere.
            answer = network.answer(train, test, classes=10, seed=seed + start)
            hits = answer.scores.argmax(axis=1) == test.labels
            scores.append(_mean_of_parties(hits, test.labels, len(sets)))
        return scores

    return statistics.fmean(kept(file, score))


def _mean_of_parties(hits: Any, labels: Any, stages: int) -> float:
    """Returns the mean, over the parties so far, of the share of their test images that is right."""
    return statistics.fmean(
        float(hits[np.isin(labels, party)].mean()) for party in PARTIES[:stages]
    )


def _means(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the curves, means over seeds."""
    means = []
    for method, epsilon in dict.fromkeys(
        (one["method"], one["epsilon"]) for one in found
    ):
        curves = [
            one["stages"]
            for one in found
            if (one["method"], one["epsilon"]) == (method, epsilon)
        ]
        means.append(
            {
                "row": f"{method}, ε = {epsilon:g}",
                "stages": [statistics.fmean(s) for s in zip(*curves, strict=True)],
            }
        )
    return means


def _cells(curve: dict[str, Any]) -> list[dict[str, Any]]:
    stages = enumerate(curve["stages"], start=1)
    return [
        {"row": curve["row"], "column": f"stage {n}", "accuracy": score, "paper": None}
        for n, score in stages
    ]


def draw(path: Path, title: str, curves: Sequence[dict[str, Any]]) -> None:
    """Writes the curves into a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        axes.plot(
            range(1, len(PARTIES) + 1), curve["stages"], marker="o", label=curve["row"]
        )
    axes.set_xlabel("stage")
    axes.set_ylabel("mean accuracy over the parties so far")
    axes.set_title(title.split(";")[0], fontsize=8)
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    run_main(main)
