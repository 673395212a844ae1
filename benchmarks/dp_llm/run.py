"""DP-LLM on MNIST: train through the gate, score on the test images, compare with the targets, draw the maps.

    python benchmarks/dp_llm/run.py --data DIR [--epsilon 2] [--seeds 3] [--settings paper] [--pictures DIR]

DIR holds MNIST, as benchmarks/papers/README.md says.
"""

from __future__ import annotations

import statistics
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from harness.images import labelled_rows
from harness.options import Option, needed, option, optional, read_options
from harness.printing import print_table, run_main
from harness.results import write_json
from papers.catalogue import load

from noisegate.schema import pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate_evaluate.reporting.pictures import MapRow, maps_picture
from noisegate_papers.estimators.locally_linear_maps import LocallyLinearMaps

HERE = Path(__file__).parent
SIDE, DIGITS = 28, tuple(range(10))
# What the documentation of MNIST says about its training images: a public number, rounded as it happens.
RECORDS = 60_000
_BEST = 3


def main() -> int:
    """Runs the benchmark; 0 when the target is met or there is none, 1 when it is missed, 2 when it cannot run."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder of MNIST"),
        epsilon=2.0,
        delta=1e-5,
        seeds=3,
        first=option(0, "public seed of the first run"),
        settings=Option(
            kind=str,
            choices=("defaults", "tuned", "small", "full", "paper"),
            help="of expected.toml",
        ),
        pictures=optional(Path, "draw the maps of the first run into this folder"),
        json=optional(Path),
    )
    page = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    name = options.settings or ("tuned" if options.epsilon >= 1 else "small")
    settings = dict(page["settings"][name])
    shrink = settings.pop("shrink", 1)
    side = SIDE // shrink
    loaded = load("mnist", options.data)
    train = shrunken(loaded.train, shrink)
    test = shrunken(loaded.test, shrink)
    runs: list[dict[str, Any]] = []
    for seed in range(options.first, options.first + options.seeds):
        start = time.perf_counter()
        model = made(settings, side, options.epsilon, options.delta, seed).fit(*train)
        runs.append(
            {
                "seed": seed,
                "accuracy": float((model.predict(test[0]) == test[1]).mean()),
                "epsilon": model.certificate_.check(),
                "seconds": time.perf_counter() - start,
            }
        )
        print(runs[-1], flush=True)
        if options.pictures and seed == options.first:
            draw(model, test, side, options.pictures, options.epsilon)
    mean = statistics.fmean(run["accuracy"] for run in runs)
    targets = [
        entry
        for entry in page["target"]
        if options.delta == 1e-5 and entry["epsilon"] == options.epsilon
    ]
    _print(runs, mean, targets)
    content = {"settings": name, "epsilon": options.epsilon, "runs": runs, "mean": mean}
    write_json(options.json, content)
    return 0 if all(mean >= entry["value"] for entry in targets) else 1


def shrunken(
    table: pa.Table, shrink: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns images as rows of whole numbers from 0 to 255, (records, pixels), and their digits, (records,).

    Args:
        table: Of a column for each pixel, and the label.
        shrink: How many pixels are averaged to one along each axis, which is public and done image by image.
    """
    rows = labelled_rows(table)
    side = SIDE // shrink
    means = rows.features.reshape(-1, side, shrink, side, shrink).mean(axis=(2, 4))
    return np.rint(means).astype(np.uint8).reshape(len(means), -1), rows.labels


def made(
    settings: dict[str, Any], side: int, epsilon: float, delta: float, seed: int
) -> LocallyLinearMaps:
    """Returns the classifier, not fitted yet; `projection = 0` in the settings is none."""
    settings = settings | {"projection": settings.get("projection") or None}
    schema = pixel_schema(side, side, labels=DIGITS)
    return LocallyLinearMaps(
        epsilon=epsilon,
        delta=delta,
        schema=schema,
        records=RECORDS,
        random_state=seed,
        **settings,
    )


def draw(
    model: LocallyLinearMaps,
    test: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    side: int,
    folder: Path,
    epsilon: float,
) -> None:
    """Writes pictures of the maps of each digit, and of the strongest ones for a test image of each (Figures 2, 3)."""
    folder.mkdir(parents=True, exist_ok=True)
    shape, rows = ImageShape(height=side, width=side), []
    for digit in DIGITS:
        image = test[0][np.flatnonzero(test[1] == digit)[:1]]
        found, weights = model.predict(image)[0], model.importance(image)[0]
        best = np.argsort(-weights)[:_BEST]
        rows.append(
            MapRow(
                name=f"{digit}, predicted {found}",
                image=image[0] / 255,
                maps=np.concatenate([model.explain(image), model.filters(found)[best]]),
                captions=("weighed", *(f"{weights[m]:.2f}" for m in best)),
            )
        )
    title = f"Why: the weighed map and the {_BEST} strongest, ε = {epsilon:g}"
    maps_picture(rows, folder / f"explained_{epsilon:g}.png", shape=shape, title=title)
    maps_picture(
        rows,
        folder / f"explained_{epsilon:g}_smooth.png",
        shape=shape,
        title=f"{title}, blurred",
        smooth=1.0,
    )
    shown = [
        MapRow(name=str(digit), maps=model.filters(digit)[:12]) for digit in DIGITS
    ]
    maps_picture(
        shown,
        folder / f"filters_{epsilon:g}.png",
        shape=shape,
        title=f"Maps of each digit, ε = {epsilon:g}",
    )


def _print(
    runs: list[dict[str, Any]], mean: float, targets: list[dict[str, Any]]
) -> None:
    rows = [
        [
            run["seed"],
            f"{run['accuracy']:.4f}",
            f"{run['epsilon']:.4f}",
            f"{run['seconds']:.0f}",
        ]
        for run in runs
    ]
    print_table(
        "MNIST: accuracy on the 10,000 test images",
        ["seed", "accuracy", "ε recomputed", "seconds"],
        [*rows, ["mean", f"{mean:.4f}", "", ""]],
        n_left=0,
    )
    for entry in targets:
        met = mean >= entry["value"]
        print(
            f"mean accuracy ≥ {entry['value']}: {'pass' if met else 'miss'} ({entry['source']})"
        )


if __name__ == "__main__":
    run_main(main)
