"""The grid that the defaults of `joint` are settled on: sets x records x ε x settings, no single one of which decides.

    python benchmarks/images/grid.py --out OUT [--data DIR] [--sets glyphs digits] [--records 8000] [--epsilon 1 10]
        [--settings auto drawing pose-0] [--steps 2000]
    python benchmarks/images/grid.py --page [OUT]

Each run fits so many records of a set through the gate, makes images and scores classifiers that saw these alone on
others of the same set; "real" trains them on the records themselves. It ends in a file of OUT and is not made again:
stop and start as you like. DIR has the folders mnist and cifar10, whose *training* images alone are used, to fit and to
score; the other sets are drawn here, but for scikit-learn's digits. `--page` takes runs into grid.json and writes
grid.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import numpy.typing as npt
from baselines.page import filled, short
from drawn_sets import drawn
from PIL import Image
from rich.console import Console
from rich.progress import Progress
from simulated_digits import simulated_digits
from sklearn.datasets import load_digits

from noisegate import Gate
from noisegate.methods.registry import make_for
from noisegate.schema import Schema, pixel_schema
from noisegate_evaluate import LabelledRows, read_classifiers, utility_scores
from noisegate_images.sources.images import ImageSource

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "grid.json", HERE / "grid.md"
KINDS = "cnn", "mlp", "logistic"
REAL, AUTO, OTHERS, NOISELESS = "real", "auto", 3000, 1000.0
SETTINGS: dict[str, dict[str, Any]] = {
    **{AUTO: {}, "drawing": {"generator": "drawing"}},
    **{
        "pose-0": {"pose": 0},
        "pose-1": {"pose": 1},
        "strokes-0": {"strokes": 0},
        "tries-1": {"tries": 1},
    },
    **{"tone-0": {"tone": 0}, "wavelets-0": {"wavelets": 0}},
    **{"wavelets-.5": {"wavelets_share": 0.5}, "perceptual": {"perceptual_share": 1.0}},
    **{"rate-.005": {"fit_options": {"learning_rate": 5e-3}}},
    **{
        "wide": {"channels": (64, 32)},
        "rough": {"fit_options": {"total_variation": 0}},
    },
    **{
        f"smooth-.{tenths}": {"fit_options": {"total_variation": tenths / 10}}
        for tenths in (1, 4)
    },
    "many": {"pixels": 2250, "orientations": 2250, "wavelets": 2250, "strokes": 2250},
}
"""What is compared with "auto", each by its name in the tables."""
GONE = ("pixels-2", "pixels-.5", "pixels-.25", "fine", "coarse")
"""Rows of settings that did not pay and went: half and twice the length scales, and other shares of pixels."""
DRAWN, SMALL = ("glyphs", "shapes", "digits"), "-16"
"""Sets that are drawn here, and what stands behind their names where they are 16 x 16."""
PUBLISHED = {"mnist": (28, 1), "cifar10-grey": (32, 1), "cifar10": (32, 3)}
"""Side and channels of the sets that --data has."""
SETS = (*DRAWN, *(f"{name}{SMALL}" for name in DRAWN), "sklearn", *PUBLISHED)

HEAD = (
    "| set | records | ε | settings | CNN / MLP / logistic | behind the best | generator, steps "
    "| distance ÷ noise | of 100 fit their class | seeds |",
    "| --- | ---: | ---: | --- | --- | ---: | --- | ---: | ---: | ---: |",
)

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


class Run(NamedTuple):
    """What tells one run from another."""

    data_set: str
    records: int
    epsilon: float
    settings: str
    seed: int
    steps: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.data_set}-{self.records}-{self.epsilon:g}-{self.settings}-{self.seed}-{self.steps}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the runs that are not there, or the page."""
    options = _options(arguments)
    if options.page:
        runs = (
            [
                json.loads(path.read_text("utf-8"))
                for path in sorted(options.out.glob("*.json"))
            ]
            if options.out
            else []
        )
        ROWS.write_text(
            json.dumps(collected([*_read(), *runs]), indent=1) + "\n", encoding="utf-8"
        )
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    for run in _runs(options):
        if not (file := options.out / run.name).exists():
            row = {**run._asdict(), **_figures(run, options)}
            file.write_text(json.dumps(row), encoding="utf-8")
            Console().print(row)
    return 0


def _runs(options: argparse.Namespace) -> Iterator[Run]:
    asked = itertools.product(
        options.sets, options.records, options.epsilon, options.settings, options.seeds
    )
    runs = (Run(*run, steps) for run in asked for steps in options.steps)
    return iter(
        dict.fromkeys(
            run._replace(epsilon=NOISELESS, steps=0) if run.settings == REAL else run
            for run in runs
        )
    )


def _figures(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Returns accuracies, the distance in noise, the agreement, and the processor time of gate and fit."""
    train, others, schema = _halves(run, options.data)
    if run.settings == REAL:
        return _scores(run, *train, others)
    settings = {"seed": run.seed, **SETTINGS[run.settings]}
    settings["fit_options"] = {
        **({"steps": run.steps} if run.steps else {}),
        **settings.get("fit_options", {}),
    }
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            private := Path(folder) / "private.npz", images=train[0], labels=train[1]
        )
        gate = Gate(private, schema=schema, epsilon=run.epsilon)
        with Progress(transient=True) as progress:
            task = progress.add_task(run.name, total=None)
            made = make_for("joint", schema, settings).fit(
                gate,
                device="cpu",
                report=lambda state: progress.update(
                    task, completed=state.step, total=state.steps
                ),
            )
    seconds = time.process_time() - started
    made.save(options.out / run.name.removesuffix(".json"))
    batches = list(made.images(options.images, seed=run.seed))
    images = np.concatenate([batch.pixels for batch in batches])
    labels = np.concatenate([np.asarray(batch.labels) for batch in batches]).astype(
        np.int64
    )
    return {
        **_scores(run, images, labels, others),
        "distance": made.summary.discrepancy,
        "agreement": made.summary.notes.get("agreement"),
        "generator": made.model.generator.network.kind,
        "cpu": round(seconds),
    }


def _scores(
    run: Run, images: Images, labels: Labels, others: LabelledRows
) -> dict[str, float]:
    train, found = LabelledRows(features=_pixels(images), labels=labels), {}
    for kind in KINDS:
        mean = utility_scores(
            read_classifiers(kind), train, others, classes=10, seed=run.seed, jobs=1
        ).mean
        found[kind] = round(mean.accuracy, 4)
    return found


def _halves(
    run: Run, data: Path | None
) -> tuple[tuple[Images, Labels], LabelledRows, Schema]:
    """Returns the records, others of the same set to score on, and the schema."""
    images, labels = _read_set(run.data_set, run.records + OTHERS, data)
    if len(images) <= run.records:
        raise SystemExit(
            f"{run.data_set} has {len(images):,} images, which are not more than {run.records:,}."
        )
    records = (images[: run.records], labels[: run.records])
    others = LabelledRows(
        features=_pixels(images[run.records :]), labels=labels[run.records :]
    )
    return records, others, pixel_schema(*_pixels(images).shape[1:], labels=range(10))


def _pixels(images: Images) -> Images:
    """Returns images with an axis of channels."""
    return images.reshape(*images.shape[:3], -1)


def _read_set(name: str, count: int, data: Path | None) -> tuple[Images, Labels]:
    """Returns at most so many images of a set and their labels, in an order that a public seed draws."""
    if name in PUBLISHED:
        return _published(name, count, data)
    if name == "sklearn":
        digits = load_digits()
        order = np.random.Generator(np.random.Philox(0)).permutation(
            len(digits.images)
        )[:count]
        return np.rint(digits.images[order] * (255 / 16)).astype(
            np.uint8
        ), digits.target[order].astype(np.int64)
    base = name.removesuffix(SMALL)
    images, labels = (
        simulated_digits(count, seed=0)
        if base == "digits"
        else drawn(base, count, seed=0)
    )
    if name != base:
        images = np.stack(
            [
                np.asarray(Image.fromarray(image).resize((16, 16), box=(3, 3, 25, 25)))
                for image in images
            ]
        )
    return images, labels.astype(np.int64)


def _published(name: str, count: int, data: Path | None) -> tuple[Images, Labels]:
    assert data is not None
    side, channels = PUBLISHED[name]
    schema = pixel_schema(side, side, channels, labels=range(10), convert=True)
    batches = list(
        ImageSource(
            data / name.removesuffix("-grey") / "train.parquet", schema
        ).batches()
    )
    images, labels = (
        np.concatenate([getattr(batch, part) for batch in batches])
        for part in ("pixels", "labels")
    )
    order = np.random.Generator(np.random.Philox(0)).permutation(len(images))[:count]
    return images[order], labels[order].astype(np.int64)


def collected(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the last row of each run, in the order of the table."""
    return sorted(
        {_run(row): row for row in rows}.values(),
        key=lambda row: (
            _place(row),
            [REAL, *SETTINGS, *GONE].index(row["settings"]),
            row["seed"],
        ),
    )


def page() -> str:
    """Returns grid.md with the table that grid.json says."""
    return filled(PAGE.read_text("utf-8"), "\n".join([*HEAD, *table(_read())]))


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yields a line for each set, records, ε and settings: means over seeds, and how far it is behind the best."""
    for (name, records, epsilon), cell in _grouped(rows, _place).items():
        kinds = _grouped(cell, lambda row: (row["settings"], row["steps"]))
        best = max(
            (_mean(runs, "cnn") for (kind, _), runs in kinds.items() if kind != REAL),
            default=0.0,
        )
        for (kind, steps), runs in kinds.items():
            scores = " / ".join(short(_mean(runs, score)) for score in KINDS)
            row, behind = (
                runs[0],
                "" if kind == REAL else short(best - _mean(runs, "cnn")),
            )
            what = (
                f"{row['generator']}, {f'{steps:,}' if steps else 'as by default'}"
                if kind != REAL
                else ""
            )
            told = (
                []
                if kind == REAL
                else [
                    f"{_mean(runs, 'distance'):.2f}",
                    str(round(100 * _mean(runs, "agreement"))),
                ]
            )
            bold = "**" if kind == AUTO else ""
            level = "" if kind == REAL else f"{epsilon:g}"
            cells = (
                name,
                f"{records:,}",
                level,
                f"{bold}{kind}{bold}",
                f"{bold}{scores}{bold}",
                behind,
                what,
                *(told or ("", "")),
            )
            yield f"| {' | '.join((*cells, str(len(runs))))} |"


def _grouped(
    rows: Iterable[dict[str, Any]], key: Any
) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return statistics.fmean(row[name] or 0.0 for row in rows)


def _place(row: dict[str, Any]) -> tuple[str, int, float]:
    return row["data_set"], row["records"], row["epsilon"]


def _run(row: dict[str, Any]) -> Run:
    return Run(*(row[name] for name in Run._fields))


def _read() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        json.loads(ROWS.read_text("utf-8")) if ROWS.exists() else []
    )
    return rows


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder of runs")
    parser.add_argument("--data", type=Path, help="folder with mnist and cifar10")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*DRAWN, "sklearn"])
    parser.add_argument("--records", nargs="+", type=int, default=[8000])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument(
        "--settings", nargs="+", choices=[REAL, *SETTINGS], default=[AUTO]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--steps",
        nargs="+",
        type=int,
        default=[0],
        help="of a fit; 0 for as many as by default",
    )
    parser.add_argument(
        "--images", type=int, default=10_000, help="synthetic images of a run"
    )
    parser.add_argument(
        "--page", action="store_true", help="write the page from the runs"
    )
    options = parser.parse_args(arguments)
    if not (options.page or options.out):
        parser.error("--out says where runs go")
    if not options.data and (
        files := [name for name in options.sets if name in PUBLISHED]
    ):
        parser.error(
            f"--sets {files[0]}: --data says in which folder mnist and cifar10 are"
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
