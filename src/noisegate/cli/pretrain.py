"""`noisegate pretrain`: networks from public images, before any private record is touched."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.console import OUT, print_json, say, steps
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.pretraining.encoder import EncoderFitting

CHECKPOINT_SECONDS = 30.0

app = typer.Typer(
    no_args_is_help=True,
    help="Train a network on public images, for perceptual features.\n\nNever give private images: what is trained "
    "here has no privacy of its own.",
)


@app.callback()
def pretrain() -> None:
    """Train a network on public images, for perceptual features."""


@app.command("encoder")
def encoder(
    images: Annotated[
        Path, typer.Argument(help="Public images: a Parquet file with an image column, or a folder with one per class.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to make, .safetensors.")],
    label: Annotated[str, typer.Option("--label", help="Column of the labels in Parquet files.")] = "label",
    epochs: Annotated[int, typer.Option("--epochs", help="Times that every image is seen.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Of weights, order and augmentation.")] = 0,
    as_json: Json = False,
) -> None:
    """Train a small encoder to tell the labels of public images apart.

    An interrupted training goes on where it was when the same command is given again. It runs on one thread: the same
    command makes the same file on a machine of the same kind.
    """
    from noisegate.networks.encoder import SIDE
    from noisegate.output.whole import new_file
    from noisegate.pretraining.encoder import EncoderFitting, EncoderTraining
    from noisegate.pretraining.images import read_public_images
    from noisegate.pretraining.kept import partial_of, take_up

    settings = EncoderTraining(epochs=epochs, seed=seed)
    if out.exists():
        raise OptionError(f"--out {out} exists; choose another name, or remove it first.")
    say(f"Reading {images}.")
    fitting = EncoderFitting(read_public_images(images, size=SIDE, label=label), settings)
    if take_up(fitting, partial_of(out)):
        say(f"Going on after {fitting.step} of {fitting.steps} steps.")
    loss = _train(fitting, partial_of(out))
    with new_file(out) as path:
        digest = _write(fitting, path)
    partial_of(out).unlink(missing_ok=True)
    if as_json:
        print_json({"encoder": str(out), "sha256": digest, "steps": fitting.steps, "loss": loss})
        return
    OUT.print(f"{out}\nsha256 {digest}", soft_wrap=True, markup=False)


def _train(fitting: EncoderFitting, partial: Path) -> float:
    """Runs the training, kept at `partial` every half minute and when it is stopped; returns the last steps' loss."""
    import torch

    from noisegate.fitting.device import one_thread
    from noisegate.pretraining.kept import keep

    saved, loss = time.monotonic(), float("nan")
    with steps("Training", fitting.steps) as progress:

        def report(done: int, found: float) -> None:
            nonlocal saved, loss
            loss = found if loss != loss else 0.98 * loss + 0.02 * found
            progress(done, f"loss {loss:.3f}")
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                keep(fitting, partial)
                saved = time.monotonic()

        try:
            with one_thread(torch.device("cpu")):
                fitting.run(report)
        except BaseException:
            keep(fitting, partial)
            say(f"Stopped after {fitting.step} of {fitting.steps} steps; the same command goes on from there.")
            raise
    return loss


def _write(fitting: EncoderFitting, path: Path) -> str:
    from noisegate.networks.encoder import save_encoder

    return save_encoder(fitting.encoder, fitting.head, path)
