"""The tables of DP-MEPF: which rows each has, and the page that puts ours beside the paper's.

`table_N.py` runs table N. Tables 1, 2, 3, 5 and 6 print parts of 10 to 16, so they make and take the same rows. A row
that is in the file of --json already is not made again, and a model that is in --out is not fitted again.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from mepf_rates import RATES
from mepf_rows import STOPPING, Book, Row, accuracies, fitted, frechet
from rich.console import Console
from rich.table import Table

from noisegate.errors import OptionError, UserError
from noisegate_evaluate import named_features

PUBLISHED: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("expected.toml").read_text("utf-8")
)
SHAPES = {
    "mnist": (28, 28, 1),
    "fashion-mnist": (28, 28, 1),
    "celeba32": (32, 32, 3),
    "celeba64": (64, 64, 3),
}
SHAPES |= {"cifar10": (32, 32, 3), "cifar10-unlabelled": (32, 32, 3)}
_MANY: tuple[float, ...] = (10, 5, 2, 1, 0.5, 0.2)


class Printed(NamedTuple):
    """What a table prints: of which tables the figures are, at which ε, with which early stopping."""

    title: str
    of: tuple[int, ...]
    epsilons: tuple[float, ...]
    stopping: str | None = None


TABLES: dict[int, Printed] = {
    1: Printed("accuracies at ε = 10", (10, 11), (10,)),
    2: Printed("accuracies by ε", (10, 11), (5, 2, 1, 0.2)),
    3: Printed("Fréchet distances, CelebA", (12, 13), _MANY, "private"),
    4: Printed("what early stopping brings, labelled CIFAR-10", (4,), (1, 0.5, 0.2)),
    5: Printed("Fréchet distances, CIFAR-10", (16, 14), _MANY, "private"),
    6: Printed("accuracies of ResNet9, CIFAR-10", (15,), _MANY, "private"),
    10: Printed("accuracies, MNIST", (10,), (10, 5, 2, 1, 0.2)),
    11: Printed("accuracies, FashionMNIST", (11,), (10, 5, 2, 1, 0.2)),
    12: Printed("Fréchet distances, CelebA 32 x 32", (12,), _MANY, "private"),
    13: Printed("Fréchet distances, CelebA 64 x 64", (13,), _MANY, "private"),
    14: Printed("Fréchet distances, labelled CIFAR-10", (14,), _MANY, "private"),
    15: Printed("accuracies of ResNet9, CIFAR-10", (15,), _MANY, "private"),
    16: Printed("Fréchet distances, unlabelled CIFAR-10", (16,), _MANY, "private"),
}


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


def row_of(options: argparse.Namespace, figure: Figure, seed: int) -> Row:
    """Returns the fit that a figure is of, by the options of the command."""
    grey = SHAPES[figure.data][2] == 1
    preset = {"paper": "paper-grey" if grey else "paper"}.get(
        options.preset, options.preset
    )
    stopping = (
        figure.stopping
        if options.stopping is None or figure.stopping == "none"
        else options.stopping
    )
    given = {name: getattr(options, name) for name in ("network", "weights", "sha256")}
    return Row(
        data=figure.data.removesuffix("-unlabelled"),
        shape=SHAPES[figure.data],
        classes=10 if figure.data in ("mnist", "fashion-mnist", "cifar10") else 0,
        epsilon=figure.epsilon,
        moments=figure.moments,
        preset=preset,
        stopping=stopping,
        steps=options.steps,
        settings={name: value for name, value in given.items() if value is not None},
        delta=1e-6 if figure.data.startswith("celeba") else 1e-5,
        seed=seed,
    )


def measured(
    options: argparse.Namespace, book: Book, figure: Figure, seed: int
) -> dict[str, Any]:
    """Returns our row of a figure: accuracy or Fréchet distance, ε as certified, seconds."""
    row = row_of(options, figure, seed)
    asked = {
        "metric": figure.metric,
        "images": options.images,
        "features": options.features,
    }

    def make() -> Mapping[str, Any]:
        train = images(options.data, figure.data)
        fields = (
            row.data,
            row.classes,
            row.preset,
            row.stopping,
            row.moments,
            row.epsilon,
            row.steps or "all",
            row.seed,
        )
        model = options.out / "-".join(map(str, fields))
        made = fitted(row, train, model, device=options.device)
        if figure.metric == "frechet":
            features = named_features(options.features, options.features_weights)
            found = frechet(
                row, made, train, images=min(options.images, 5000), features=features
            )
        else:
            test = images(options.data, figure.data, "test")
            found = accuracies(
                row, made, test, images=options.images, classifiers=figure.metric
            )
        return {"certified_epsilon": made.certificate.check(), "figures": found}

    return book.row(row, asked, make)


def main(number: int) -> int:
    """Runs a table and prints it beside the paper's; 2 where nothing of it can be run."""
    options, console = _options(number), Console()
    options.out.mkdir(parents=True, exist_ok=True)
    book, page = (
        Book(options.json or options.out / "rows.json"),
        Table(title=_title(number, options)),
    )
    for heading in (
        "data",
        "measured",
        "moments",
        "stopping",
        "ε",
        "seed",
        "paper",
        "ours",
        "schedule",
    ):
        page.add_column(heading)
    ran, refused = 0, dict[str, None]()
    for figure in figures(number):
        wanted = (options.epsilon, options.moments, options.only)
        mine = (figure.epsilon, figure.moments, figure.data)
        if any(
            asked and value not in asked
            for asked, value in zip(wanted, mine, strict=True)
        ):
            continue
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            paper = f"{figure.mean:g}" + (
                "" if figure.std is None else f" ± {figure.std:g}"
            )
            ours, schedule = "-", "not run"
            try:
                row = measured(options, book, figure, seed)
                (value,) = row["figures"].values()
                ours = (
                    f"{100 * value:.1f}"
                    if figure.metric != "frechet"
                    else f"{value:.4g}"
                )
                schedule, ran = "reduced" if row["reduced"] else "full", ran + 1
            except UserError as error:
                refused[str(error)] = None
            told = (
                figure.data,
                figure.metric,
                figure.moments,
                figure.stopping,
                figure.epsilon,
                seed,
            )
            page.add_row(
                *(
                    f"{value:g}" if isinstance(value, float) else str(value)
                    for value in told
                ),
                paper,
                ours,
                schedule,
            )
    console.print(page)
    for reason in refused:
        console.print(f"[red]{reason}[/red]")
    return 0 if ran else 2


def _title(number: int, options: argparse.Namespace) -> str:
    protocol = (
        f"{options.images:,} synthetic images, add/remove-one, tolerance: the paper's ±"
    )
    if "Fréchet" in TABLES[number].title and options.features != "inception-v3":
        protocol += f"; distances in features {options.features!r} are not comparable with the paper's"
    return f"DP-MEPF, Table {number}: {TABLES[number].title} ({protocol})"


def settings_page(number: int) -> int:
    """Prints Table 7 (learning rates) or 8 (what is fixed) as the presets have it."""
    from noisegate_papers.methods.mepf import FIT

    page = Table(title=f"DP-MEPF, Table {number}")
    if number == 7:
        for heading in ("data", "moments", "ε from", "generator", "moving average"):
            page.add_column(heading)
        for (data, moments), entries in RATES.items():
            for entry in entries:
                page.add_row(
                    data,
                    str(moments),
                    f"{entry.least:g}",
                    f"{entry.generator:g}",
                    f"{entry.average:g}",
                )
    else:
        for heading in ("preset", "bound of φ₁, φ₂", "iterations", "batch"):
            page.add_column(heading)
        for preset in ("paper-grey", "paper"):
            page.add_row(
                preset, "1, 1", f"{FIT[preset]['steps']:,}", str(FIT[preset]["batch"])
            )
    Console().print(page)
    return 0


def _options(number: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"Table {number} of DP-MEPF: {TABLES[number].title}. Rows that are there are not made again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    common_options(parser)
    add = parser.add_argument
    add("--epsilon", type=float, nargs="+", default=None, help="of these rows only")
    add(
        "--only",
        nargs="+",
        choices=sorted(SHAPES),
        default=None,
        help="rows of these data sets",
    )
    add("--seeds", type=int, default=1, help="repetitions")
    add(
        "--preset",
        choices=["paper", "small"],
        default="paper",
        help="small: 1,600 steps of a small generator",
    )
    add("--network", default=None, help='"encoder", "torchvision:NAME"; the preset\'s')
    add("--weights", default=None, help="file of its weights")
    add("--sha256", default=None, help="digest of that file")
    return parser.parse_args()


def common_options(parser: argparse.ArgumentParser) -> None:
    """Adds what the commands of all tables have."""
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        required=True,
        help="folder with mnist/, fashion-mnist/, cifar10/, celeba32/, celeba64/",
    )
    add(
        "--out",
        type=Path,
        default=Path("out/dp_mepf"),
        help="folder for models and rows",
    )
    add(
        "--json",
        type=Path,
        default=None,
        help="file of rows; --out/rows.json where none is given",
    )
    add(
        "--moments",
        type=int,
        nargs="+",
        choices=[1, 2],
        default=None,
        help="1 for φ₁, 2 for φ₁ and φ₂; both",
    )
    add("--first-seed", type=int, default=0)
    add("--steps", type=int, default=None, help="a reduced schedule of as many steps")
    add(
        "--stopping",
        choices=sorted(STOPPING),
        default=None,
        help="other early stopping where the table has one",
    )
    add(
        "--images",
        type=int,
        default=60_000,
        help="synthetic images; 5,000 of them for distances",
    )
    add(
        "--features",
        default="inception-v3",
        help="of distances; encoder where Inception's weights are not at hand",
    )
    add(
        "--features-weights",
        type=Path,
        default=None,
        help="file of Inception's weights",
    )
    add("--device", default="auto")
