"""Tables 17, 18 and 19 of DP-MEPF: what the encoder was, on what it was trained, and one trained by DP-SGD.

The rows are those of `mepf_tables`; what changes is the method's network. Nothing is downloaded: a row whose weights
are not at hand says so, and prints what can be known without them, the number of features.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness.options import optional, read_options
from harness.results import Rows
from mepf_rows import Row, fitted, measured, row_of
from mepf_tables import COMMON, PUBLISHED, SHAPES, images, print_rows

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


def fits(
    number: int, options: argparse.Namespace
) -> Iterator[tuple[str, int, Row, float]]:
    """Yields name, features where they are known, fit and published distance of each row of a table."""
    (source,) = (entry for entry in PUBLISHED["encoders"] if entry["table"] == number)
    fit = partial(
        Row,
        data=source["data"].removesuffix("-unlabelled"),
        shape=SHAPES[source["data"]],
        classes=0,
        epsilon=0.2,
        moments=2,
        preset="paper",
        stopping=options.stopping or "private",
        steps=options.steps,
        seed=options.first_seed,
    )
    if number == 17:
        for name in options.encoders or source["numbers"]:
            for moments in options.moments or (2, 1):
                settings = {"network": f"torchvision:{name}"}
                row = fit(moments=moments, settings=settings)
                yield name, features_of(name), row, source[f"frechet {moments}"][name]
        return
    files = dict(item.partition("=")[::2] for item in options.encoders or ())
    for name, paper in source["frechet"].items():
        if number == 18:
            weights, _, digest = files.get(name, "").partition("@")
            settings = {
                "network": "torchvision:resnet18",
                "weights": weights or f"{name}.safetensors",
                "sha256": digest or None,
            }
            row = fit(settings=settings, delta=1e-6)
            yield name, features_of("resnet18"), row, paper
        else:
            row = fit(
                settings=split(float(name)),
                method="dp-mepf-trained",
                epsilon=10.0,
                classes=10,
            )
            yield f"ε = {name} of 10", 0, row, paper


def main(number: int) -> int:
    """Runs a table and prints it beside the paper's; 2 where nothing of it can be run."""
    options = read_options(
        f"Table {number} of DP-MEPF.",
        **COMMON,
        encoders=optional(
            str,
            "names in torchvision, as vgg19 resnet18 (Table 17), or NAME=FILE@DIGEST of a ResNet18 in the form of "
            "torchvision, for imagenet, cifar10, svhn (Table 18)",
            is_list=True,
        ),
    )
    headings = ["encoder", "features", "moments", "paper"]
    headings += [f"ours, in {options.features}", "schedule"]
    return print_rows(f"DP-MEPF, Table {number}", headings, _rows(number, options))


def _rows(
    number: int, options: argparse.Namespace
) -> Iterator[tuple[list[Any], Callable[[], dict[str, Any]], str]]:
    """Yields the rows of a table, and how they are made."""
    book = Rows(options.json or options.out / "rows.json")
    for name, numbers, row, paper in fits(number, options):
        known = [name, f"{numbers:,}" if numbers else "-", row.moments, f"{paper:g}"]
        make = partial(
            row_of,
            book,
            row,
            {"features": options.features},
            partial(_figures, options, row),
        )
        yield known, make, "{:.4g}"


def _figures(options: argparse.Namespace, row: Row) -> dict[str, Any]:
    """Returns the distance, and ε as certified."""
    train = images(options.data, row.data)
    changed = "-".join(str(value).replace("/", "_") for value in row.settings.values())
    records = RECORDS if row.method == "dp-mepf-trained" else None
    folder = options.out / f"{row.method}-{row.moments}-{changed}"
    model = fitted(row, train, folder, device=options.device, records=records)
    figures = measured(options, row, model, train)
    return {"certified_epsilon": model.certificate.check(), "figures": figures}
