"""`noisegate pretrain`: networks from public images, before any private record is touched."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from noisegate.app.cli.console import (
    OUT,
    VerbGroup,
    print_json,
    say,
    show_progress,
    warn,
)
from noisegate.app.cli.options import Json
from noisegate.atomic import new_file
from noisegate.errors import OptionError
from noisegate.seeds import MOST_EVALUATION_SEED

if TYPE_CHECKING:
    from noisegate_images.networks.named import FrozenNetwork
    from noisegate_papers.contrib.pretraining.training import Pretraining, PublicImages

CHECKPOINT_SECONDS = 30.0
Out = Annotated[Path, Option("--out", "-o", help="File to make, .safetensors.")]
OnError = Annotated[
    str,
    Option(
        metavar="refuse|skip",
        help="Images that cannot be read: refuse all, or skip them.",
    ),
]

app = Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    help="Train a network on public images: an encoder of them, or a decoder of its features.\n\nNever give private "
    "images: what is trained here has no privacy of its own.",
)


@app.callback()
def pretrain_command() -> None:
    """Train a network on public images: an encoder of them, or a decoder of its features."""


@app.command("encoder")
def encoder(
    images: Annotated[
        Path,
        Argument(
            help="Public images: class folders, a folder with labels.csv, Parquet, .npz, or MNIST's idx."
        ),
    ],
    out: Out,
    label: Annotated[
        str, Option(help="Column of the labels in Parquet and labels.csv.")
    ] = "label",
    on_error: OnError = "refuse",
    network: Annotated[
        str,
        Option(
            metavar="encoder|torchvision:resnet18",
            help="What to train; a ResNet18 needs noisegate[vision].",
        ),
    ] = "encoder",
    epochs: Annotated[int, Option(help="Times that every image is seen.")] = 5,
    steps: Annotated[
        int | None, Option(help="Steps of 128 images, in place of --epochs.")
    ] = None,
    seed: Annotated[
        int,
        Option(
            min=0, max=MOST_EVALUATION_SEED, help="Of weights, order and augmentation."
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Train an encoder to distinguish the labels of public images.

    It is a small one, or the ResNet18 of torchvision, which `dp-mepf` takes as network=torchvision:resnet18. To
    continue an interrupted training, repeat the same command. It runs on one thread: the same
    command makes the same file on a machine of the same kind.
    """
    from noisegate_images.networks.encoder import SIDE
    from noisegate_papers.contrib.pretraining.encoder import (
        EncoderFitting,
        EncoderTraining,
    )

    settings = EncoderTraining(network=network, epochs=epochs, steps=steps, seed=seed)  # type: ignore[arg-type]
    _check_new(out)
    fitting = EncoderFitting(
        _public(images, SIDE, 3, label=label, on_error=on_error), settings
    )
    loss = _train(fitting, out)
    digest = _write(fitting, out, fitting.classifier.write)
    _tell(
        {
            "encoder": str(out),
            "network": network,
            "sha256": digest,
            "steps": fitting.steps,
            "loss": loss,
        },
        as_json,
    )


@app.command("decoder")
def decoder(
    images: Annotated[
        Path,
        Argument(
            help="Public images: any folder of them, Parquet, .npz, or idx files."
        ),
    ],
    out: Out,
    size: Annotated[
        int, Option(help="Height and width of the images that it makes.")
    ] = 32,
    channels: Annotated[int, Option(help="1 for grey images, 3 for colour.")] = 3,
    grid: Annotated[
        Path | None,
        Option(help="PNG to draw every half minute and at the end: images, and draws."),
    ] = None,
    encoder: Annotated[
        Path | None,
        Option(help="File of `pretrain encoder`; the one in the package by default."),
    ] = None,
    on_error: OnError = "refuse",
    steps: Annotated[int, Option(help="Of the training.")] = 3000,
    seed: Annotated[
        int,
        Option(min=0, max=MOST_EVALUATION_SEED, help="Of weights, order and noise."),
    ] = 0,
    device: Annotated[
        str, Option(help="Where to train: auto, cpu, cuda or mps.")
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Train a small decoder to draw public images from their features, without labels.

    To continue an interrupted training, repeat the same command. It runs on a GPU when there is
    one, else on one thread of the processor, where the same command makes the same file on a machine of the same kind.
    """
    from noisegate.devices import choose_device
    from noisegate.schema.pixels import ImageShape
    from noisegate_images.networks.decoder import decoder_bytes, default_channels
    from noisegate_papers.contrib.pretraining.decoder import (
        DecoderFitting,
        DecoderTraining,
        write_grid,
    )

    settings, network = DecoderTraining(steps=steps, seed=seed), _encoder_of(encoder)
    _check_new(out)
    choose_device(device)  # before images are read
    if channels not in (1, 3):
        raise OptionError(f"--channels {channels}: images are grey (1) or colour (3).")
    default_channels(ImageShape(height=size, width=size, channels=channels))
    public = _public(images, size, channels, label=None, on_error=on_error)
    say("Looking for the neighbours of each image.")
    fitting = DecoderFitting(public, network, settings, device=device)

    def draw() -> None:
        if grid is not None:
            write_grid(fitting, grid)

    loss = _train(fitting, out, draw)
    draw()
    digest = _write(
        fitting, out, lambda path: path.write_bytes(decoder_bytes(fitting.decoder))
    )
    made = {
        "decoder": str(out),
        "sha256": digest,
        "encoder": network.sha256,
        "steps": fitting.steps,
        "loss": loss,
    }
    _tell(made, as_json)


@app.command("import")
def import_network(
    name: Annotated[
        str,
        Argument(
            metavar="hed", help="hed: a VGG-16 that learnt photographs, then edges."
        ),
    ],
    out: Out,
    as_json: Json = False,
) -> None:
    """Convert a public network from an installed package into a file for --set network=hed:vgg16 --set weights=FILE.

    Nothing is downloaded: where the package is missing, this says what to install. The file names its source and its
    licence (MIT).
    """
    from noisegate_papers.contrib.hed import import_hed

    if name != "hed":
        raise OptionError(f"{name} is not known; the only network to import is hed.")
    _check_new(out)
    with new_file(out) as path:
        import_hed(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    _tell({"file": str(out), "network": "hed:vgg16", "sha256": digest}, as_json)


def _check_new(out: Path) -> None:
    if out.exists():
        raise OptionError(
            f"--out {out} exists; choose another name, or remove it first."
        )


def _encoder_of(file: Path | None) -> FrozenNetwork:
    from noisegate_images.networks.encoder import file_digest
    from noisegate_images.networks.named import ENCODER, load_network

    if file is None:
        return load_network(ENCODER)
    return load_network(ENCODER, str(file), file_digest(file, f"--encoder {file}"))


def _public(
    images: Path, size: int, channels: int, *, label: str | None, on_error: str
) -> PublicImages:
    from noisegate_papers.contrib.pretraining.training import read_public_images

    say(f"Reading {images}.")
    public = read_public_images(
        images, size=size, channels=channels, label=label, on_error=on_error
    )
    if public.skipped:
        warn(f"{public.skipped:,} images could not be used and were left out.")
    return public


def _train(
    fitting: Pretraining[Any], out: Path, seen: Callable[[], None] = lambda: None
) -> float:
    """Runs the training, kept beside `out` every half minute and when it is stopped; returns the last steps' loss."""
    import torch

    from noisegate.devices import one_thread
    from noisegate.models.checkpoint import Checkpoint

    checkpoint = Checkpoint(
        Path(f"{out}.partial"),
        fitting,
        cure="Remove it to start again, or give another --out.",
    )
    checkpoint.resume()
    if fitting.step:
        say(f"Continuing after {fitting.step} of {fitting.steps} steps.")
    saved, loss = time.monotonic(), float("nan")
    with show_progress("Training", fitting.steps) as progress:

        def report(done: int, found: float) -> None:
            nonlocal saved, loss
            loss = found if loss != loss else 0.98 * loss + 0.02 * found
            progress(done, f"loss {loss:.3f}")
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                checkpoint.save()
                seen()
                saved = time.monotonic()

        try:
            with checkpoint, one_thread(torch.device("cpu")):
                fitting.run(report)
        except BaseException:
            say(
                f"Stopped after {fitting.step} of {fitting.steps} steps; the same "
                "command continues from there."
            )
            raise
    return loss


def _write(
    fitting: Pretraining[Any], out: Path, write: Callable[[Path], object]
) -> str:
    """Writes what was trained, which needs no checkpoint any more; returns the SHA-256 of the file."""
    with new_file(out) as path:
        write(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    Path(f"{out}.partial").unlink(missing_ok=True)
    return digest


def _tell(made: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        OUT.print(
            f"{next(iter(made.values()))}\nsha256 {made['sha256']}",
            soft_wrap=True,
            markup=False,
        )
