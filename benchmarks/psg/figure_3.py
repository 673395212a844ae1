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
import json
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
from harness.printing import run_main
from harness.results import write_json
from psg.descent import classifier_of, descent_of, model_folder, right
from psg.sets import (
    DELTA,
    RECORDS,
    SHAPE,
    Bench,
    bench_of,
    method_of,
    parser_of,
    print_page,
    rows_of,
    told_of,
)
from rich.console import Console

from noisegate import Gate, Synthesizer
from noisegate.methods.registry import make_for
from noisegate.schema import Schema, pixel_schema
from noisegate_evaluate import LabelledRows, Training
from noisegate_evaluate.utility.suites import Network

ORDER = (5, 6, 1, 2, 0, 8, 9, 3, 4, 7)
"""Classes in the order of the authors' program, two a party."""
PARTIES = tuple(zip(ORDER[::2], ORDER[1::2], strict=True))
METHODS = ("psg", "dp-sgd", "dp-merf")
MERF_EACH = 6000
SAMPLES = 10
PARTY_RECORDS = RECORDS // len(PARTIES)
"""What the public knows of a party: ten classes of about the same size."""


def main() -> int:
    """Makes the page, and the plot if one is asked for; 0 when it ran, 2 when it cannot."""
    options, console = _options(), Console()
    bench = replace(bench_of(options), records=PARTY_RECORDS)
    found = []
    for epsilon in options.epsilon:
        for method in options.methods:
            for seed in range(options.seeds):
                curve = CURVES[method](bench, options, epsilon, seed)
                found.append(
                    {
                        "method": method,
                        "epsilon": epsilon,
                        "seed": seed,
                        "stages": curve,
                    }
                )
                console.print(
                    f"{method}, ε = {epsilon:g}: "
                    + ", ".join(f"{one:.4f}" for one in curve)
                )
    title = f"PSG, Figure 3, {options.data_set} in {len(PARTIES)} parts: {told_of(options)}; {bench.protocol}"
    print_page(console, title, [cell for one in _means(found) for cell in _cells(one)])
    if options.json:
        content = {
            "title": title,
            "data_set": options.data_set,
            "schedule": told_of(options),
            "curves": found,
        }
        write_json(options.json, content, indent=1)
    if options.plot:
        draw(options.plot, title, _means(found))
    return 0


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
    sets, scores = [], []
    bench = replace(bench, epochs=options.merf_epochs)
    for party in PARTIES:
        folder = (
            bench.out
            / f"{bench.data_set}-{min(party)}{max(party)}-merf-{epsilon:g}-{seed}"
        )
        records, schema = party_of(bench, party)
        if not (folder / "model").exists():
            folder.mkdir(parents=True, exist_ok=True)
            gate = Gate(
                records,
                schema=schema,
                epsilon=epsilon,
                delta=DELTA,
                records=PARTY_RECORDS,
            )
            make_for("dp-merf", schema, {"seed": seed}).fit(
                gate, device=bench.device
            ).save(folder / "model")
        batch = Synthesizer.load(folder / "model").sample(
            2 * options.merf_each, seed=seed
        )
        sets.append(rows_of(batch, schema))
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
    if not file.exists():
        train = LabelledRows(
            features=np.concatenate([one.features for one in sets]),
            labels=np.concatenate([one.labels for one in sets]),
        )
        test, network = (
            rows_of(bench.loaded.test, bench.loaded.schema),
            Network(name="ConvNet", training=told),
        )
        seen = np.isin(test.labels, PARTIES[: len(sets)])
        test, scores = (
            LabelledRows(features=test.features[seen], labels=test.labels[seen]),
            [],
        )
        for start in range(bench.repeats):
            # A class that no party has had yet is in no image and wins nowhere.
            answer = network.answer(train, test, classes=10, seed=seed + start)
            scores.append(
                _mean_of_parties(
                    answer.scores.argmax(axis=1) == test.labels, test.labels, len(sets)
                )
            )
        file.write_text(json.dumps(scores))
    return statistics.fmean(json.loads(file.read_text()))


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


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__ or "")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--merf-each",
        type=int,
        default=MERF_EACH,
        help="images of each class from DP-MERF",
    )
    parser.add_argument(
        "--merf-epochs",
        type=int,
        default=5,
        help="passes over these, of which there are many",
    )
    parser.add_argument("--plot", type=Path, default=None, help="draw the curves there")
    return parser.parse_args()


if __name__ == "__main__":
    run_main(main)
