"""Public images weighed, or a public decoder fed: DP-DRE, DP-MGE, DP-MEPF and GANs in feature space, in one table.

    python benchmarks/mge_dre/run.py --data DIR --out DIR --judge ENCODER [--epsilon 0.1 1 inf] [--methods dp-dre]
    python benchmarks/mge_dre/run.py --data DIR --out DIR --judge ENCODER --private held-out
    python benchmarks/mge_dre/run.py --data DIR --out DIR --judge ENCODER --private other --other IMAGES

DIR of `--data` holds CIFAR-10 as train.parquet and test.parquet. Public are the 50,000 training images, without their
labels; encoder and decoder were trained on them. Private are the vehicles among the test images (`--classes`): a part
of the public support, from one source with it. `--private held-out` takes these classes out of the public images, and
`--private other` takes any other images for private ones, brought to 32 x 32 x 3: public and private do not come from
one source then, and what DP-DRE assumes fails. The judge is an encoder that no method uses; see README.md.

`private-decoded` is the paper's non-private bound: what the decoder draws for the features of the private images
themselves. It is outside every guarantee, and here for comparison only.

Each run is written to --out and not repeated. Distances are to the private images themselves, outside the guarantee.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from harness.images import draw_grid, fitted_once
from harness.measuring import measured_seconds
from harness.options import (
    choice,
    choices,
    fail,
    needed,
    option,
    optional,
    read_options,
)
from harness.printing import print_table, run_main
from harness.results import Row, kept, read_json

from noisegate import Gate
from noisegate.methods.registry import method_named
from noisegate.records import Images
from noisegate.schema import EncodedTable, Schema, pixel_schema
from noisegate.sources.sources import open_source
from noisegate_evaluate import EncoderFeatures, images_of
from noisegate_evaluate.images import drawn as some_of
from noisegate_evaluate.images import image_distances
from noisegate_images.networks.decoder import load_decoder
from noisegate_images.networks.encoder import load_encoder
from noisegate_papers.methods.dp_mge import DPMGE

SIDE, NOT_PRIVATE = 32, 1000.0
BLOCK = 256  # images that are encoded at once
N_CLASSES = 10
METHODS = (
    "dp-dre",
    "dp-dre-paper",
    "dp-dre-decoded",
    "dp-mge",
    "dp-mge-full",
    "dp-mepf",
    "dp-gan-ft",
    "dp-gan-mi",
)
FREE = (
    "public",
    "other-vehicles",
    "public-decoded",
    "other-vehicles-decoded",
    "private-decoded",
)
TITLES = {
    "frechet": "Fréchet distance in the judge's features",
    "precision": "precision of the distribution, F 1/8",
    "recall": "recall of the distribution, F 8",
    "ndb": "share of bins that are different (NDB)",
    "on_support": "share of the weight on images of the private classes",
}
UNLABELLED = pixel_schema(SIDE, SIDE, 3, labels=None)
OPTIONS = {
    "data": needed(Path, "folder with CIFAR-10's train.parquet, test.parquet"),
    "out": needed(Path, "folder for models and figures; what is there is kept"),
    "judge": optional(Path, "encoder to judge by; without, one is trained in --out"),
    "private": choice(["vehicles", "held-out", "other"]),
    "classes": option([0, 1, 8, 9], "that are private"),
    "other": optional(Path, "images for --private other"),
    "most": option(10_000, "of them"),
    "methods": choices(METHODS),
    "epsilon": [0.1, 0.5, 1.0, 10.0, math.inf],
    "decoder": optional(str, "file of a decoder; the one of the package without"),
    "images": 4000,
    "mepf_steps": 3000,
    "seed": 0,
    "device": "cpu",
}
"""Options that all tables and figures have."""


def main() -> None:
    """Fits what is not there yet, and prints the table."""
    options = read_options(__doc__, **OPTIONS)
    print_tables(options, figures_of(options), TITLES)


def figures_of(options: argparse.Namespace) -> dict[str, dict[str, Row]]:
    """Returns the figures of each row at each ε, made now or read; those that hang on no ε under "all"."""
    if options.private == "other" and options.other is None:
        fail("--private other needs --other IMAGES")
    options.out.mkdir(parents=True, exist_ok=True)
    _check_set(options)
    sets = _sets(options)
    path = options.judge or _trained_judge(options)
    judge = EncoderFeatures(load_encoder(path), name=f"encoder {path.stem}")
    rows: dict[str, dict[str, Row]] = {}
    for name in FREE:
        if name.removesuffix("-decoded") in sets:
            free = partial(_free, options, name, sets, judge)
            rows[name] = {"all": kept(options.out / f"{name}.json", free)}
    for name in options.methods:
        rows[name] = {}
        for epsilon in options.epsilon:
            key = f"{name}-{epsilon:g}-{options.seed}"
            run = partial(_run, options, name, epsilon, key, sets, judge)
            rows[name][f"{epsilon:g}"] = kept(options.out / f"{key}.json", run)
    return rows


def _trained_judge(options: argparse.Namespace) -> Path:
    """Returns an encoder of another seed than any method's, trained on the public images in minutes, once."""
    path: Path = options.out / "judge.safetensors"
    if not path.exists():
        public = options.data / "train.parquet"
        command = ["-m", "noisegate", "pretrain", "encoder", str(public)]
        command += ["--seed", "1", "--out", str(path)]
        subprocess.run([sys.executable, *command], check=True)
    return path


def _check_set(options: argparse.Namespace) -> None:
    """Writes down which images are private; an error where --out holds runs on others."""
    private = {
        "private": options.private,
        "classes": sorted(options.classes),
        "images": options.images,
    }
    if options.private == "other":
        private |= {"other": str(options.other), "most": options.most}
    path = options.out / "private.set"
    if not path.exists():
        path.write_text(json.dumps(private) + "\n", encoding="utf-8")
    before = read_json(path)
    if before != private:
        fail(
            f"--out {options.out} holds runs of {json.dumps(before)}, asked for is {json.dumps(private)}: "
            "give another folder, or these options."
        )


def _free(
    options: argparse.Namespace,
    name: str,
    sets: dict[str, Images],
    judge: EncoderFeatures,
) -> Row:
    """Returns the figures of public images, or of what the decoder draws for the features of some of them."""
    images = sets[name.removesuffix("-decoded")]
    if name.endswith("-decoded"):
        some = some_of(images, options.images, seed=options.seed)
        images = _decoded(some, options.decoder or "cifar10", options.seed)
    return _figures(images, sets["private"], judge)


def _decoded(images: np.ndarray, name: str, seed: int) -> Images:
    """Returns an image drawn for the feature of each image: what no learned distribution of features can pass."""
    decoder = load_decoder(name)
    encoding = DPMGE(image=(SIDE, SIDE, 3)).encoding()
    random = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, len(images), BLOCK):
        pixels = images[start : start + BLOCK].reshape(-1, SIDE * SIDE * 3)
        no_codes = np.zeros((len(pixels), 0), np.int32)
        features = encoding(EncodedTable(pixels / 255, no_codes))
        noise = torch.randn(len(pixels), decoder.latent, generator=random)
        with torch.no_grad():
            parts.append(np.asarray(decoder(torch.from_numpy(features), noise)))
    drawn = np.rint(np.concatenate(parts) * 255).astype(np.uint8)
    return Images(drawn.reshape(-1, SIDE, SIDE, 3))


def _run(
    options: argparse.Namespace,
    name: str,
    epsilon: float,
    key: str,
    sets: dict[str, Images],
    judge: EncoderFeatures,
) -> Row:
    """Returns the figures of one method at one ε."""
    called, settings = _method(options, name)
    with measured_seconds() as seconds:
        gate = Gate(
            options.out / "private.npz",
            schema=UNLABELLED,
            epsilon=NOT_PRIVATE if math.isinf(epsilon) else epsilon,
            records=len(sets["private"].pixels),
        )
        method = method_named(called)(**settings)
        model = fitted_once(options.out / key, method, gate, device=options.device)
        batches = model.images(options.images, seed=options.seed)
        drawn = np.concatenate([batch.pixels for batch in batches])
        figures = _figures(Images(drawn), sets["private"], judge)
        figures["certified_epsilon"] = model.certificate.check()
    figures["cpu"] = seconds["cpu"]
    if model.summary.notes:
        figures["notes"] = dict(model.summary.notes)
    if name in ("dp-dre", "dp-dre-paper") and options.private == "vehicles":
        figures["on_support"] = _on_support(
            model.model, sets["public"], options.classes
        )
    picture = options.out / f"{key}.png"
    draw_grid(model, picture, seed=options.seed, n_images=200)
    return figures


def _method(options: argparse.Namespace, name: str) -> tuple[str, dict[str, Any]]:
    """Returns a method of the library and its settings."""
    settings: dict[str, Any] = {"image": (SIDE, SIDE, 3), "seed": options.seed}
    public = str(options.out / "public.npz")
    if name.startswith("dp-dre") or name == "dp-gan-ft":
        settings["public"] = public
    if name == "dp-dre-paper":
        settings["preset"] = "paper"
    if name == "dp-dre-decoded":
        settings["decoder"] = options.decoder or "cifar10"
    if name == "dp-mge-full":
        settings |= {"covariance": "full", "public": public}
    if name == "dp-mepf":
        settings["fit_options"] = {"steps": options.mepf_steps}
    if options.decoder and name.startswith(("dp-mge", "dp-gan")):
        settings["decoder"] = options.decoder
    for variant in ("-full", "-decoded", "-paper"):
        name = name.removesuffix(variant)
    return name, settings


def _sets(options: argparse.Namespace) -> dict[str, Images]:
    """Returns public and private images, and writes them where methods read them."""
    labelled = pixel_schema(SIDE, SIDE, 3, labels=range(N_CLASSES))
    train = _read(options.data / "train.parquet", labelled)
    sets = {"public": train}
    if options.private == "other":
        form = pixel_schema(SIDE, SIDE, 3, labels=None, resize="stretch", convert=True)
        images = _read(options.other, form)
        sets["private"] = Images(some_of(images, options.most, seed=0))
    else:
        test = _read(options.data / "test.parquet", labelled)
        sets["private"] = _only(test, options.classes)
        sets["other-vehicles"] = _only(train, options.classes)
        if options.private == "held-out":
            sets["public"] = _only(train, set(range(N_CLASSES)) - set(options.classes))
    for name in ("public", "private"):
        path = options.out / f"{name}.npz"
        if not path.exists():
            np.savez(path, images=sets[name].pixels)
    return sets


def _read(path: Path, schema: Schema) -> Images:
    return images_of(open_source(path, schema, show_values=False).batches(), schema)


def _only(images: Images, classes: Collection[int]) -> Images:
    assert images.labels is not None
    return Images(images.pixels[np.isin(images.labels, list(classes))])


def _figures(synthetic: Images, real: Images, judge: EncoderFeatures) -> Row:
    figures = image_distances(synthetic, real, judge)
    return {
        "frechet": figures["frechet"].distance,
        "precision": figures["prd"].precision if figures["prd"] else None,
        "recall": figures["prd"].recall if figures["prd"] else None,
        "ndb": figures["ndb"].to_json() if figures["ndb"] else None,
    }


def _on_support(model: Any, public: Images, classes: list[int]) -> float:
    """Returns the share of the weight that lies on public images of the private classes (Table 3 of the paper)."""
    assert public.labels is not None
    labels = {
        image.tobytes(): int(label)
        for image, label in zip(public.pixels, public.labels, strict=True)
    }
    is_private = [labels[image.tobytes()] in classes for image in model.records.pixels]
    return float(model.weights.sum(axis=0)[is_private].sum() / model.weights.sum())


def print_tables(
    options: argparse.Namespace,
    rows: Mapping[str, Mapping[str, Row]],
    figures: Collection[str],
) -> None:
    """Prints a table of each of some figures."""
    headings = [f"ε = {epsilon:g}" for epsilon in options.epsilon]
    for figure in figures:
        lines = []
        for name, row in rows.items():
            values = [value_of(row, epsilon, figure) for epsilon in options.epsilon]
            if any(value is not None for value in values):
                texts = ["" if value is None else f"{value:.3f}" for value in values]
                lines.append([name, *texts])
        print_table(TITLES[figure], ["", *headings], lines)


def value_of(row: Mapping[str, Row], epsilon: float, figure: str) -> float | None:
    """Returns one figure of a row; None where it has none."""
    value = row.get(f"{epsilon:g}", row.get("all", {})).get(figure)
    share: float | None = value["share"] if isinstance(value, dict) else value
    return share


if __name__ == "__main__":
    run_main(main)
