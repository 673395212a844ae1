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
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from harness.results import kept
from rich.console import Console
from rich.table import Table

from noisegate import Gate, Synthesizer
from noisegate.methods.registry import method_named
from noisegate.records import Images
from noisegate.schema import EncodedTable, Schema, pixel_schema
from noisegate.sources.sources import open_source
from noisegate_evaluate import EncoderFeatures, images_of
from noisegate_evaluate.images import drawn as some_of
from noisegate_evaluate.images import image_distances
from noisegate_images.networks.decoder import load_decoder
from noisegate_images.networks.encoder import load_encoder
from noisegate_images.output.formats import SampleGrid
from noisegate_papers.methods.dp_mge import DPMGE

SIDE, NOT_PRIVATE = 32, 1000.0
BLOCK = 256  # images that are encoded at once
VEHICLES = (0, 1, 8, 9)
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
UNLABELLED = pixel_schema(SIDE, SIDE, 3, labels=None)


def main() -> int:
    """Fits what is not there yet, and prints the table."""
    options = parser().parse_args()
    print_tables(options, found(options))
    return 0


def found(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Returns the figures of each row at each ε, made now or read; those that hang on no ε under "all"."""
    if options.private == "other" and options.other is None:
        parser().error("--private other needs --other IMAGES")
    options.out.mkdir(parents=True, exist_ok=True)
    _check_set(options)
    sets, path = _sets(options), options.judge or _trained_judge(options)
    judge = EncoderFeatures(load_encoder(path), name=f"encoder {path.stem}")
    rows: dict[str, dict[str, Any]] = {}
    for name in FREE:
        if name.removesuffix("-decoded") in sets:
            rows[name] = {
                "all": _kept(
                    options, name, lambda name=name: _free(options, name, sets, judge)
                )
            }
    for name in options.methods:
        rows[name] = {}
        for epsilon in options.epsilon:
            key = f"{name}-{epsilon:g}-{options.seed}"
            run = partial(_run, options, name, epsilon, key, sets, judge)
            rows[name][f"{epsilon:g}"] = _kept(options, key, run)
    return rows


def _trained_judge(options: argparse.Namespace) -> Path:
    """Returns an encoder of another seed than any method's, trained on the public images in minutes, once."""
    path: Path = options.out / "judge.safetensors"
    if not path.exists():
        public = options.data / "train.parquet"
        command = [
            sys.executable,
            "-m",
            "noisegate",
            "pretrain",
            "encoder",
            public,
            "--seed",
            "1",
            "--out",
            path,
        ]
        subprocess.run(list(map(str, command)), check=True)
    return path


def _check_set(options: argparse.Namespace) -> None:
    """Writes down which images are private; an error where --out holds runs on others."""
    private = {
        "private": options.private,
        "classes": sorted(options.classes),
        "images": options.images,
    }
    private |= (
        {"other": str(options.other), "most": options.most}
        if options.private == "other"
        else {}
    )
    path = options.out / "private.set"
    if not path.exists():
        path.write_text(json.dumps(private) + "\n", encoding="utf-8")
    if json.loads(path.read_text("utf-8")) != private:
        parser().error(
            f"--out {options.out} holds runs of {path.read_text('utf-8').strip()}, asked for is {json.dumps(private)}: "
            "give another folder, or these options."
        )


def _free(
    options: argparse.Namespace,
    name: str,
    sets: dict[str, Images],
    judge: EncoderFeatures,
) -> dict[str, Any]:
    """Returns the figures of public images, or of what the decoder draws for the features of some of them."""
    images = sets[name.removesuffix("-decoded")]
    if name.endswith("-decoded"):
        some = some_of(images, options.images, seed=options.seed)
        images = _decoded(some, options.decoder or "cifar10", options.seed)
    return _figures(images, sets["private"], judge)


def _decoded(images: np.ndarray, name: str, seed: int) -> Images:
    """Returns an image drawn for the feature of each image: what no learned distribution of features can pass."""
    decoder, parts = load_decoder(name), []
    encoding = DPMGE(image=(SIDE, SIDE, 3)).encoding()
    random = torch.Generator().manual_seed(seed)
    for start in range(0, len(images), BLOCK):
        pixels = images[start : start + BLOCK].reshape(-1, SIDE * SIDE * 3)
        features = encoding(
            EncodedTable(pixels / 255, np.zeros((len(pixels), 0), np.int32))
        )
        noise = torch.randn(len(pixels), decoder.latent, generator=random)
        with torch.no_grad():
            parts.append(np.asarray(decoder(torch.from_numpy(features), noise)))
    drawn = (
        np.rint(np.concatenate(parts) * 255).astype(np.uint8).reshape(-1, SIDE, SIDE, 3)
    )
    return Images(drawn)


def _run(
    options: argparse.Namespace,
    name: str,
    epsilon: float,
    key: str,
    sets: dict[str, Images],
    judge: EncoderFeatures,
) -> dict[str, Any]:
    """Returns the figures of one method at one ε."""
    started = time.process_time()
    private = options.out / "private.npz"
    called, settings = _method(options, name)
    method = method_named(called)(**settings)
    real = NOT_PRIVATE if math.isinf(epsilon) else epsilon
    gate = Gate(
        private, schema=UNLABELLED, epsilon=real, records=len(sets["private"].pixels)
    )
    model = options.out / key
    if not model.exists():
        method.fit(gate, device=options.device).save(model)
    made = Synthesizer.load(model)
    drawn = np.concatenate(
        [batch.pixels for batch in made.images(options.images, seed=options.seed)]
    )
    figures = _figures(Images(drawn), sets["private"], judge)
    figures |= {
        "certified_epsilon": made.certificate.check(),
        "cpu": time.process_time() - started,
    }
    if made.summary.notes:
        figures["notes"] = dict(made.summary.notes)
    if name in ("dp-dre", "dp-dre-paper") and options.private == "vehicles":
        figures["on_support"] = _on_support(made.model, sets["public"], options.classes)
    _draw(made, options.out / f"{key}.png", options.seed)
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
    labelled = pixel_schema(SIDE, SIDE, 3, labels=range(10))
    train, test = (
        _read(options.data / f"{part}.parquet", labelled) for part in ("train", "test")
    )
    sets = {"public": train}
    if options.private in ("vehicles", "held-out"):
        sets["private"] = _only(test, options.classes)
        sets["other-vehicles"] = _only(train, options.classes)
        if options.private == "held-out":
            sets["public"] = _only(
                train, [label for label in range(10) if label not in options.classes]
            )
    else:
        form = pixel_schema(SIDE, SIDE, 3, labels=None, resize="stretch", convert=True)
        sets["private"] = Images(
            some_of(_read(options.other, form), options.most, seed=0)
        )
    for name in ("public", "private"):
        path = options.out / f"{name}.npz"
        if not path.exists():
            np.savez(path, images=sets[name].pixels)
    return sets


def _read(path: Path, schema: Schema) -> Images:
    return images_of(open_source(path, schema, show_values=False).batches(), schema)


def _only(images: Images, classes: list[int]) -> Images:
    assert images.labels is not None
    return Images(images.pixels[np.isin(images.labels, classes)])


def _figures(made: Images, real: Images, judge: EncoderFeatures) -> dict[str, Any]:
    figures = image_distances(made, real, judge)
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
    right = [labels[image.tobytes()] in classes for image in model.records.pixels]
    return float(model.weights.sum(axis=0)[right].sum() / model.weights.sum())


def _draw(made: Synthesizer, out: Path, seed: int) -> None:
    form = made.schema.images
    assert form is not None
    out.unlink(missing_ok=True)
    grid = SampleGrid(form=form, out=out)
    for batch in made.images(200, seed=seed):
        grid.add(batch)
    grid.write()


def _kept(options: argparse.Namespace, key: str, run: Any) -> dict[str, Any]:
    """Returns what was written under a key, or runs and writes it."""
    found: dict[str, Any] = kept(options.out / f"{key}.json", run)
    return found


def print_tables(
    options: argparse.Namespace,
    rows: dict[str, dict[str, Any]],
    figures: Collection[str] | None = None,
) -> None:
    """Prints a table of each figure that is asked for, or of all."""
    for figure, title in (
        ("frechet", "Fréchet distance in the judge's features"),
        ("precision", "precision of the distribution, F 1/8"),
        ("recall", "recall of the distribution, F 8"),
        ("ndb", "share of bins that are different (NDB)"),
        ("on_support", "share of the weight on images of the private classes"),
    ):
        if figures is not None and figure not in figures:
            continue
        page = Table(title=title, title_justify="left")
        page.add_column("")
        for epsilon in options.epsilon:
            page.add_column(f"ε = {epsilon:g}", justify="right")
        for name, found in rows.items():
            values = [value_of(found, epsilon, figure) for epsilon in options.epsilon]
            if any(value is not None for value in values):
                page.add_row(
                    name, *("" if value is None else f"{value:.3f}" for value in values)
                )
        if page.row_count:
            Console().print(page)


def value_of(row: dict[str, Any], epsilon: float, figure: str) -> float | None:
    """Returns one figure of a row; None where it has none."""
    value = row.get(f"{epsilon:g}", row.get("all", {})).get(figure)
    share: float | None = value["share"] if isinstance(value, dict) else value
    return share


def parser() -> argparse.ArgumentParser:
    """Returns the options that all tables and figures have."""
    parser = argparse.ArgumentParser(
        description="Methods with public images, on a part of the public support."
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with CIFAR-10's train.parquet, test.parquet",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for models and figures; what is there is kept",
    )
    parser.add_argument(
        "--judge",
        type=Path,
        default=None,
        help="encoder to judge by; without, one is trained in --out",
    )
    parser.add_argument(
        "--private", default="vehicles", choices=["vehicles", "held-out", "other"]
    )
    parser.add_argument(
        "--classes",
        type=int,
        nargs="+",
        default=list(VEHICLES),
        help="that are private",
    )
    parser.add_argument(
        "--other", type=Path, default=None, help="images for --private other"
    )
    parser.add_argument("--most", type=int, default=10_000, help="of them")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument(
        "--epsilon", type=float, nargs="+", default=[0.1, 0.5, 1.0, 10.0, math.inf]
    )
    parser.add_argument(
        "--decoder",
        default=None,
        help="file of a decoder; the one of the package without",
    )
    parser.add_argument("--images", type=int, default=4000, help="synthetic images")
    parser.add_argument("--mepf-steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    return parser


if __name__ == "__main__":
    sys.exit(main())
