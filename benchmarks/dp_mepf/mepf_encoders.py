"""Tables 17, 18 and 19 of DP-MEPF: what the encoder was, on what it was trained, and one trained by DP-SGD.

The rows are those of `mepf_tables`; what changes is the method's network. Nothing is downloaded: a row whose weights
are not at hand says so, and prints what can be known without them, the number of features.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from mepf_rows import Book, Row, fitted, frechet
from mepf_tables import PUBLISHED, SHAPES, common_options, images
from rich.console import Console
from rich.table import Table

from noisegate.errors import UserError
from noisegate_evaluate import named_features
from noisegate_images.networks.named import feature_convolutions

QUERIES = 2.02
"""Budget shares of both moments and of their embeddings for stopping, which the encoder's share stands beside."""

RECORDS = 50_000
"""What the documentation of CIFAR-10 says of its training images, which sums of gradients are divided by."""


def features_of(name: str) -> int:
    """Returns how many numbers the layers of a network of torchvision give for 32 x 32 pixels; needs no weights."""
    from torchvision import models

    taken: list[int] = []
    with torch.device("meta"):
        network = models.get_model(name, weights=None).eval()
        for layer in feature_convolutions(network):
            network.get_submodule(layer).register_forward_hook(
                lambda _, __, given: taken.append(given.numel())
            )
        network(torch.zeros(1, 3, 32, 32))
    return sum(taken)


def split(encoder: float) -> dict[str, Any]:
    """Returns settings by which the encoder takes `encoder` of ε = 10, and the generator's queries the rest.

    In one plan a share goes with the square of the signal-to-noise ratio, nearly as ε² does; so the shares are those of
    the squares. An encoder of ε = 0 is trained for one step with next to nothing, and is as good as untrained.
    """
    if encoder == 0:
        return {"encoder_steps": 1, "encoder_share": 1e-4}
    return {"encoder_share": QUERIES * (encoder / (10 - encoder)) ** 2}


def rows(number: int, options: argparse.Namespace) -> list[tuple[str, int, Row, float]]:
    """Returns name, features where they are known, fit and published distance of each row of a table."""
    (source,) = (entry for entry in PUBLISHED["encoders"] if entry["table"] == number)
    shape = SHAPES[source["data"]]
    made: list[tuple[str, int, Row, float]] = []

    def add(
        name: str, numbers: int, paper: float, *, moments: int = 2, **changed: Any
    ) -> None:
        row = Row(
            **{
                "data": source["data"].removesuffix("-unlabelled"),
                "shape": shape,
                "classes": 0,
                "epsilon": 0.2,
            },
            **{
                "moments": moments,
                "preset": "paper",
                "stopping": options.stopping or "private",
                "steps": options.steps,
            },
            **{"seed": options.first_seed, "delta": 1e-6 if number == 18 else 1e-5},
            **changed,
        )
        made.append((name, numbers, row, paper))

    if number == 17:
        for name in options.encoders or source["numbers"]:
            for moments in options.moments or (2, 1):
                paper = source[f"frechet {moments}"][name]
                add(
                    name,
                    features_of(name),
                    paper,
                    moments=moments,
                    settings={"network": f"torchvision:{name}"},
                )
    elif number == 18:
        given = dict(item.partition("=")[::2] for item in options.encoders or ())
        for name, paper in source["frechet"].items():
            weights, _, digest = given.get(name, "").partition("@")
            network = {
                "network": "torchvision:resnet18",
                "weights": weights or f"{name}.safetensors",
            }
            add(
                name,
                features_of("resnet18"),
                paper,
                settings=network | {"sha256": digest or None},
            )
    else:
        for name, paper in source["frechet"].items():
            changed = {
                "settings": split(float(name)),
                "method": "dp-mepf-trained",
                "epsilon": 10.0,
                "classes": 10,
            }
            row = Row(
                **{
                    "data": "cifar10",
                    "shape": shape,
                    "moments": 2,
                    "preset": "paper",
                    "delta": 1e-5,
                },
                **{
                    "stopping": options.stopping or "private",
                    "steps": options.steps,
                    "seed": options.first_seed,
                },
                **changed,  # type: ignore[arg-type]
            )
            made.append((f"ε = {name} of 10", 0, row, paper))
    return made


def main(number: int) -> int:
    """Runs a table and prints it beside the paper's; 2 where nothing of it can be run."""
    options, console = _options(number), Console()
    options.out.mkdir(parents=True, exist_ok=True)
    book, page = (
        Book(options.json or options.out / "rows.json"),
        Table(title=f"DP-MEPF, Table {number}"),
    )
    for heading in (
        "encoder",
        "features",
        "moments",
        "paper",
        f"ours, in {options.features}",
        "schedule",
    ):
        page.add_column(heading)
    ran, refused = 0, dict[str, None]()
    for name, numbers, row, paper in rows(number, options):
        ours = "not run"
        try:
            found = book.row(
                row,
                {"features": options.features},
                lambda row=row: _measured(options, row),
            )
            ours, ran = f"{next(iter(found['figures'].values())):.4g}", ran + 1
        except UserError as error:
            refused[f"{name}: {error}"] = None
        schedule = "reduced" if row.reduced else "full"
        page.add_row(
            name,
            f"{numbers:,}" if numbers else "-",
            str(row.moments),
            f"{paper:g}",
            ours,
            schedule,
        )
    console.print(page)
    for reason in refused:
        console.print(f"[red]{reason}[/red]")
    return 0 if ran else 2


def _measured(options: argparse.Namespace, row: Row) -> Mapping[str, Any]:
    train = images(options.data, row.data)
    changed = "-".join(str(value).replace("/", "_") for value in row.settings.values())
    records = RECORDS if row.method == "dp-mepf-trained" else None
    folder = options.out / f"{row.method}-{row.moments}-{changed}"
    made = fitted(row, train, folder, device=options.device, records=records)
    features = named_features(options.features, options.features_weights)
    found = frechet(
        row, made, train, images=min(options.images, 5000), features=features
    )
    return {"certified_epsilon": made.certificate.check(), "figures": found}


def _options(number: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"Table {number} of DP-MEPF.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    common_options(parser)
    if number == 17:
        parser.add_argument(
            "--encoders",
            nargs="+",
            default=None,
            help="names in torchvision, as vgg19 resnet18",
        )
    if number == 18:
        told = "NAME=FILE@DIGEST of a ResNet18 in the form of torchvision, for imagenet, cifar10, svhn"
        parser.add_argument("--encoders", nargs="+", default=None, help=told)
    return parser.parse_args()
