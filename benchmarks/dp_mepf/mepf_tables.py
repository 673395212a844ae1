"""The tables of DP-MEPF: which rows each has, and the page that puts ours beside the paper's.

`table_N.py` runs table N. Tables 1, 2, 3, 5 and 6 print parts of 10 to 16, so they make and take the same rows. A row
that is in the file of --json already is not made again, and a model that is in --out is not fitted again.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, needed, option, optional, read_options
from harness.printing import CANNOT_RUN, print_table
from harness.results import Rows
from mepf_rates import RATES
from mepf_rows import (
    MEASURING,
    NETWORK,
    STOPPING,
    Row,
    fitted,
    measured,
    network_of,
    preset_of,
    row_of,
    scored,
)

from noisegate.errors import OptionError, UserError

PUBLISHED: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("expected.toml").read_text("utf-8")
)
SHAPES = {name: tuple(shape) for name, shape in PUBLISHED["shapes"].items()}


class Printed(NamedTuple):
    """What a table prints: of which tables the figures are, at which ε, with which early stopping."""

    title: str
    of: tuple[int, ...]
    epsilons: tuple[float, ...]
    stopping: str | None = None


TABLES = {entry.pop("number"): Printed(**entry) for entry in PUBLISHED["printed"]}


class Figure(NamedTuple):
    """One published figure: what is measured, of which fit, mean and maybe standard deviation."""

    data: str
    metric: str
    moments: int
    stopping: str
    epsilon: float
    mean: float
    std: float | None


def figures(number: int) -> Iterator[Figure]:
    """Yields the published figures that a table prints, without those of ε = ∞, which no gate gives."""
    printed = TABLES[number]
    for source in (
        entry
        for table in printed.of
        for entry in PUBLISHED["published"]
        if entry["table"] == table
    ):
        for name, values in source.items():
            if not isinstance(values, list) or name == "epsilon":
                continue
            metric, moments, *rest = name.split()
            default = printed.stopping or (
                "none" if "mnist" in source["data"] else "private"
            )
            for epsilon, (mean, *std) in zip(source["epsilon"], values, strict=True):
                if epsilon in printed.epsilons and math.isfinite(epsilon):
                    stopping = rest[0] if rest else default
                    yield Figure(
                        source["data"],
                        metric,
                        int(moments),
                        stopping,
                        epsilon,
                        mean,
                        std[0] if std else None,
                    )


def images(folder: Path, data: str, part: str = "train") -> Path:
    """Returns where the images of a set are in a folder, its own or that which holds it.

    Raises:
        OptionError: if they are not there; it says what is looked for.
    """
    name = data.removesuffix("-unlabelled")
    for where in (folder / name, folder):
        for form in ("parquet", "npz"):
            if (where / f"{part}.{form}").is_file() and (
                where.name == name or folder.name == name
            ):
                return where / f"{part}.{form}"
        if (where / part).is_dir() and where.name == name:
            return where / part
    raise OptionError(
        f"--data {folder}: no {part} images of {name}; expected {name}/{part}.parquet, {name}/{part}.npz or a folder "
        f"{name}/{part} of images of {'x'.join(map(str, SHAPES[data][:2]))} pixels. Nothing is downloaded."
    )


def fit_of(options: argparse.Namespace, figure: Figure, seed: int) -> Row:
    """Returns the fit that a figure is of, by the options of the command."""
    stopping = figure.stopping
    if options.stopping is not None and stopping != "none":
        stopping = options.stopping
    is_labelled = figure.data in ("mnist", "fashion-mnist", "cifar10")
    return Row(
        data=figure.data.removesuffix("-unlabelled"),
        shape=SHAPES[figure.data],
        classes=10 if is_labelled else 0,
        epsilon=figure.epsilon,
        moments=figure.moments,
        preset=preset_of(options.preset, SHAPES[figure.data][2]),
        stopping=stopping,
        steps=options.steps,
        settings=network_of(options),
        delta=1e-6 if figure.data.startswith("celeba") else 1e-5,
        seed=seed,
    )


def _figures(options: argparse.Namespace, figure: Figure, row: Row) -> dict[str, Any]:
    """Returns accuracy or Fréchet distance, and ε as certified."""
    train = images(options.data, figure.data)
    name = (
        f"{row.data}-{row.classes}-{row.preset}-{row.stopping}-{row.moments}"
        f"-{row.epsilon}-{row.steps or 'all'}-{row.seed}"
    )
    model = fitted(row, train, options.out / name, device=options.device)
    if figure.metric == "frechet":
        figures = measured(options, row, model, train)
    else:
        test = images(options.data, figure.data, "test")
        figures = scored(
            row, model, test, images=options.images, classifiers=figure.metric
        )
    return {"certified_epsilon": model.certificate.check(), "figures": figures}


def print_rows(
    title: str,
    headings: list[str],
    rows: Iterator[tuple[list[Any], Callable[[], dict[str, Any]], str]],
) -> int:
    """Makes rows and prints them beside the paper's; code 2 where none of them can be run.

    Args:
        title: Of the table.
        headings: Of all columns; the last two are ours and the schedule.
        rows: What is known of each, how its figures are made, and the format of its figure.
    """
    n_made = 0
    refusals: dict[str, None] = {}
    lines = []
    for known, make, form in rows:
        ours = "-"
        schedule = "not run"
        try:
            row = make()
            (value,) = row["figures"].values()
            ours = form.format(value)
            schedule = "reduced" if row["reduced"] else "full"
            n_made += 1
        except UserError as error:
            refusals[str(error)] = None
        lines.append([*known, ours, schedule])
    print_table(title, headings, lines, n_left=len(headings))
    for reason in refusals:
        print(reason)
    return 0 if n_made else CANNOT_RUN


def main(number: int) -> int:
    """Runs a table and prints it beside the paper's; 2 where nothing of it can be run."""
    options = read_options(
        f"Table {number} of DP-MEPF: {TABLES[number].title}. Rows that are there are not made again.",
        **COMMON,
        **NETWORK,
        epsilon=optional(float, "of these rows only", is_list=True),
        only=Option(
            kind=str,
            choices=tuple(sorted(SHAPES)),
            is_list=True,
            help="rows of these data sets",
        ),
        seeds=option(1, "repetitions"),
    )
    title = f"DP-MEPF, Table {number}: {TABLES[number].title} ({_protocol(number, options)})"
    headings = ["data", "measured", "moments", "stopping", "ε", "seed", "paper"]
    rows = _rows(number, options)
    return print_rows(title, [*headings, "ours", "schedule"], rows)


def _rows(
    number: int, options: argparse.Namespace
) -> Iterator[tuple[list[Any], Callable[[], dict[str, Any]], str]]:
    """Yields the rows of a table that are asked for."""
    book = Rows(options.json or options.out / "rows.json")
    more = {"images": options.images, "features": options.features}
    for figure in figures(number):
        wanted = (
            (options.epsilon, figure.epsilon),
            (options.moments, figure.moments),
            (options.only, figure.data),
        )
        if any(values and value not in values for values, value in wanted):
            continue
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            spread = "" if figure.std is None else f" ± {figure.std:g}"
            known = [
                *figure[:4],
                f"{figure.epsilon:g}",
                seed,
                f"{figure.mean:g}{spread}",
            ]
            fit = fit_of(options, figure, seed)
            make = partial(
                row_of,
                book,
                fit,
                {"metric": figure.metric, **more},
                partial(_figures, options, figure, fit),
            )
            yield known, make, "{:.4g}" if figure.metric == "frechet" else "{:.1%}"


def _protocol(number: int, options: argparse.Namespace) -> str:
    protocol = (
        f"{options.images:,} synthetic images, add/remove-one, tolerance: the paper's ±"
    )
    if "Fréchet" in TABLES[number].title and options.features != "inception-v3":
        protocol += f"; distances in features {options.features!r} are not comparable with the paper's"
    return protocol


def settings_page(number: int) -> int:
    """Prints Table 7 (learning rates) or 8 (what is fixed) as the presets have it."""
    from noisegate_papers.methods.perceptual import FIT

    if number == 7:
        headings = ["data", "moments", "ε from", "generator", "moving average"]
        rows = [
            [data, moments, *(f"{value:g}" for value in entry)]
            for (data, moments), entries in RATES.items()
            for entry in entries
        ]
    else:
        headings = ["preset", "bound of φ₁, φ₂", "iterations", "batch"]
        rows = [
            [preset, "1, 1", f"{FIT[preset]['steps']:,}", FIT[preset]["batch"]]
            for preset in ("paper-grey", "paper")
        ]
    print_table(f"DP-MEPF, Table {number}", headings, rows, n_left=len(headings))
    return 0


COMMON = {
    "data": needed(
        Path, "folder with mnist/, fashion-mnist/, cifar10/, celeba32/, celeba64/"
    ),
    "out": option(Path("out/dp_mepf"), "folder for models and rows"),
    "moments": Option(
        kind=int,
        choices=(1, 2),
        is_list=True,
        help="1 for φ₁, 2 for φ₁ and φ₂; both",
    ),
    "first_seed": 0,
    "stopping": Option(
        kind=str,
        choices=tuple(sorted(STOPPING)),
        help="other early stopping where the table has one",
    ),
    "features": option(
        "inception-v3",
        "of distances; encoder where Inception's weights are not at hand",
    ),
    **MEASURING,
}
"""Options of the commands of all tables."""
