"""The tabular benchmark of DP-MERF (Tables 1 and 5 to 8) and DP-HP (Tables 2 and 7): fit, sample, twelve classifiers.

    python benchmarks/dp_merf/table_tabular.py --dataset adult --data DIR [--method dp-merf] [--epsilon 1] [--seeds 5]
        [--even] [--thinned]

Any method of tables that noisegate knows can be asked: dp-merf, dp-hp, dp-gan, dp-cgan, pairwise and so on. DIR holds
the files of the data set as its publisher hands them out; benchmarks/papers/README.md lists them. Seed i splits the
records and drives the public randomness of run i; the private noise takes none. The papers' figures are printed beside
and not asserted: expected.toml says why they are not comparable. The scores are computed on real data, outside the
guarantee.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress, TaskID

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, choice, fail, needed, option, optional, read_options
from harness.printing import run_main
from harness.results import write_json
from papers.catalogue import TABLES, load, published
from papers.published import Loaded
from tabular_page import Asked, Runs, content, papers_rate, print_page

from noisegate import Adjacency, Gate
from noisegate.methods.registry import method_named
from noisegate_evaluate import UtilityReport, downstream_scores, twelve

PRESETS = Path(__file__).with_name("paper_settings.toml")


def main() -> int:
    """Runs the benchmark; 0 when it is done, 2 when it cannot run."""
    options = _options()
    console = Console()
    asked = Asked(
        **{name: getattr(options, name) for name in Asked.__dataclass_fields__}
    )
    method_named(options.method, makes="records")
    with Progress(console=console, transient=True) as progress:
        runs = _runs(options, progress)
    print_page(asked, runs, each=options.each)
    write_json(options.json, content(asked, runs))
    return 0


def _options() -> argparse.Namespace:
    options = read_options(
        __doc__,
        dataset=Option(kind=str, choices=tuple(TABLES), is_required=True),
        data=needed(Path, "folder with the published files"),
        method="dp-merf",
        settings=Option(kind=_settings, default={}),
        preset=choice(
            ["default", "paper"],
            text="paper: paper_settings.toml, of dp-merf and dp-hp",
        ),
        epsilon=1.0,
        delta=1e-5,
        adjacency=choice(
            [kind.value for kind in Adjacency],
            Adjacency.ADD_REMOVE.value,
            "replace-one takes the number of records as public, as the papers do",
        ),
        seeds=5,
        even=option(False, "as many synthetic records of each class"),
        thinned=option(
            False,
            "keep the test records of the largest class at DP-MERF's rate (expected.toml); the private ones all stay",
        ),
        rows=optional(
            int, "synthetic records; default: the published number of training records"
        ),
        each=option(False, "print each classifier too, as DP-MERF's Tables 5 to 8 do"),
        no_real=option(False, "do not train on the real records as well"),
        jobs=optional(int),
        device="cpu",
        json=optional(Path),
    )
    if options.preset == "paper":
        if options.method not in (
            presets := tomllib.loads(PRESETS.read_text(encoding="utf-8"))
        ):
            fail(
                f"--preset paper: there are settings of {' and '.join(presets)}, not of {options.method}"
            )
        settings = presets[options.method]
        options.settings = {
            **settings["all"],
            **settings[options.dataset],
            **options.settings,
        }
    for name in ("seeds", "rows", "jobs"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            fail(f"--{name} {getattr(options, name)} must be at least 1")
    return options


def _settings(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(found, dict) or "seed" in found:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a JSON object of settings, without the seed"
        )
    return found


def _runs(options: argparse.Namespace, progress: Progress) -> Runs:
    count = twelve("tables").count
    total = options.seeds * (1 + count) + (0 if options.no_real else count)
    task = progress.add_task(options.dataset, total=total)
    reports: list[UtilityReport] = []
    records: list[int] = []
    real = None
    for seed in range(options.seeds):
        progress.update(
            task, description=f"{options.dataset}, seed {seed}: fit and sample"
        )
        loaded = load(options.dataset, options.data, seed=seed)
        if options.thinned:
            loaded = loaded._replace(
                test=thinned(loaded.test, options.dataset, loaded.schema.label, seed)
            )
        synthetic = _synthetic(options, loaded, seed)
        progress.advance(task)
        told = _teller(progress, task, f"{options.dataset}, seed {seed}")
        reports.append(_scored(synthetic, loaded, seed, options.jobs, told))
        records.append(loaded.train.num_rows)
        if seed == 0 and not options.no_real:
            told = _teller(progress, task, f"{options.dataset}, real records")
            real = _scored(loaded.train, loaded, seed, options.jobs, told)
    return Runs(synthetic=tuple(reports), real=real, records=tuple(records))


def _synthetic(options: argparse.Namespace, loaded: Loaded, seed: int) -> pa.Table:
    replace_one = options.adjacency == Adjacency.REPLACE_ONE.value
    gate = Gate(
        loaded.train,
        schema=loaded.schema,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        # Methods of gradients need a public number; under add/remove-one it is the published one.
        records=loaded.train.num_rows
        if replace_one
        else published(options.dataset).train_records,
    )
    # The seed is of the public randomness: features, weights, fitting. The private noise takes none.
    synthesizer = method_named(options.method)(
        **{**options.settings, "seed": seed}
    ).fit(gate, device=options.device)
    # As many as the published set has for training: the number of the records at hand is private.
    even = loaded.schema.label if options.even else None
    return synthesizer.sample(
        options.rows or published(options.dataset).train_records, seed=seed, even=even
    )


def thinned(test: pa.Table, dataset: str, label: str | None, seed: int) -> pa.Table:
    """Returns test records without most of the largest class: each is kept at the papers' rate, by a public seed."""
    classes = np.asarray(test[label].to_pylist())
    names, counts = np.unique(classes, return_counts=True)
    chance = np.random.Generator(np.random.Philox([seed, 1])).random(len(classes))
    return test.filter(
        pa.array((classes != names[counts.argmax()]) | (chance < papers_rate(dataset)))
    )


def _scored(
    train: pa.Table,
    loaded: Loaded,
    seed: int,
    jobs: int | None,
    told: Callable[[str, int, int], None],
) -> UtilityReport:
    return downstream_scores(
        train,
        loaded.test,
        loaded.schema,
        seed=seed,
        classifiers="twelve",
        jobs=jobs,
        progress=told,
    )


def _teller(
    progress: Progress, task: TaskID, what: str
) -> Callable[[str, int, int], None]:
    def tell(name: str, done: int, of: int) -> None:
        progress.update(
            task, advance=1, description=f"{what}: {done} of {of} classifiers"
        )

    return tell


if __name__ == "__main__":
    run_main(main)
