"""Images at the gate and through the whole default method: images per second, minutes, and memory.

    python benchmarks/speed/images.py [--networks encoder pooled vgg19] [--rounds 7] [--json FILE]
    python benchmarks/speed/images.py --whole [--images 60000] [--synthetic 60000]
    python benchmarks/speed/images.py --scaling 10000 40000

The first is the exact sum of perceptual features by the engine of the gate, beside a bare forward pass of the same
network over the same batches in the same precision, in turns, on one thread: what scaling, clipping, rounding and
adding cost. The second is a whole run at ε = 1 on simulated digits, in a process of its own: read, release, fit, sample
to a Parquet file. The third is a release from a Parquet file of image columns, for two sizes.

Goals: 0.8 of the bare pass; 15 minutes on two cores and 4 GB for the whole; time linear and memory constant.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RATIO_GOAL, SECONDS_GOAL, MEGABYTES_GOAL, GROWTH_GOAL = 0.8, 900.0, 4000.0, 1.1
NETWORKS = ("encoder", "pooled", "vgg19")
BLOCKS = 4


def main() -> int:
    """Runs what was asked for; 0 when its goals are met, else 1."""
    options = _options()
    if options.measure:
        return _measure(options)
    if options.whole:
        return _print_whole(_process(options, "whole"), options)
    if options.scaling:
        return _print_scaling(
            [_process(options, "release", rows) for rows in options.scaling], options
        )
    return _print_races(
        [_race(name, options.rounds) for name in options.networks], options
    )


def _race(network: str, rounds: int) -> dict[str, Any]:
    """Times both in turns; returns images per second, and the ratio's median over rounds."""
    import numpy as np
    import torch

    from noisegate.gate.execution import block_rows
    from noisegate.gate.sums import SumTask, sum_records
    from noisegate.privacy.grid import Grid
    from noisegate.schema import EncodedTable, pixel_schema
    from noisegate.schema.pixels import ImageShape
    from noisegate_papers.methods.mepf import DPMEPF

    torch.set_num_threads(1)
    shape, schema = (
        ImageShape(height=32, width=32, channels=3),
        pixel_schema(32, 32, 3, labels=range(10)),
    )
    features, module = _maps(network, DPMEPF, schema)
    rows = BLOCKS * block_rows(next(iter(features.values())))
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (rows, shape.size))
    records = EncodedTable(
        pixels / 255, random.integers(0, 10, (rows, 1)).astype(np.int32)
    )
    tasks = {
        name: SumTask(
            feature_map=each,
            grid=Grid(norm=1.0, nonnegative=each.nonnegative),
            columns=10,
            label=0,
        )
        for name, each in features.items()
    }
    images = (
        torch.from_numpy((pixels / 255).astype(np.float32))
        .reshape(rows, 32, 32, 3)
        .permute(0, 3, 1, 2)
    )
    batches = images.contiguous(memory_format=torch.channels_last).chunk(BLOCKS)

    def bare() -> None:
        with torch.inference_mode():
            for batch in batches:
                module(batch)

    def ours() -> None:
        sum_records(records, tasks)

    bare(), ours()
    times = [(_seconds(bare), _seconds(ours)) for _ in range(rounds)]
    return {
        "network": network,
        "features": sum(each.dim for each in features.values()),
        "batch": rows // BLOCKS,
        "bare_images_per_second": rows
        / statistics.median(theirs for theirs, _ in times),
        "images_per_second": rows / statistics.median(mine for _, mine in times),
        "ratio": statistics.median(theirs / mine for theirs, mine in times),
    }


def _maps(
    network: str, method: Any, schema: Any
) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Returns feature maps and the network that they run, as far as its last chosen layer."""
    from noisegate_images.networks.named import ChosenLayers, load_network
    from noisegate_images.queries.perceptual import Activations, Perceptual

    shape = schema.images.shape
    if network == "vgg19":
        from torchvision.models import vgg19

        module = vgg19(weights=None).features.requires_grad_(False).eval()
        names = [
            name
            for name, part in module.named_modules()
            if type(part).__name__ == "Conv2d"
        ]
        activations = Activations(layers=ChosenLayers(module, names, shape))
        return {
            f"moment {n}": Perceptual(activations=activations, moment=n) for n in (1, 2)
        }, module
    found = load_network("encoder")
    layers = ChosenLayers(found.module, found.layers, shape, pool=network == "pooled")
    activations = Activations(layers=layers, nonnegative=True)
    return {
        f"moment {n}": Perceptual(activations=activations, moment=n) for n in (1, 2)
    }, found.module


def _measure(options: argparse.Namespace) -> int:
    """Prints the figures of one run in this process."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import numpy as np
    from memory import peak_megabytes
    from simulated_digits import simulated_digits

    from noisegate import Gate
    from noisegate.gate.sums import LocalEngine
    from noisegate.models.output.sample_file import ImageBatch
    from noisegate.schema import pixel_schema
    from noisegate_images.methods.joint import JointEmbedding
    from noisegate_images.output.formats import image_writer

    schema = pixel_schema(28, 28, labels=range(10))
    with tempfile.TemporaryDirectory(prefix="noisegate-images-") as folder:
        private = Path(folder) / "private.parquet"
        drawn, labels = simulated_digits(min(options.images, 5000), seed=0)
        assert schema.images is not None
        with image_writer(private, schema.images, options.images) as write:
            for start in range(
                0, options.images, 1000
            ):  # their number matters here, not their variety
                some = np.arange(start, min(start + 1000, options.images)) % len(drawn)
                write(
                    ImageBatch(
                        pixels=drawn[some][..., None],
                        labels=tuple(labels[some].tolist()),
                    )
                )
        before, method = peak_megabytes(), JointEmbedding(image=(28, 28, 1))
        clock, processor = time.perf_counter(), time.process_time()
        gate = Gate(
            private,
            schema=schema,
            epsilon=1.0,
            engine=LocalEngine(threads=options.threads),
        )
        if options.measure == "release":
            method.query(gate)
        else:
            made = method.fit(gate, device="cpu")
            with image_writer(
                Path(folder) / "out.parquet", schema.images, options.synthetic
            ) as write:
                for batch in made.images(options.synthetic, seed=0):
                    write(batch)
    answer = {
        "seconds": time.perf_counter() - clock,
        "processor_seconds": time.process_time() - processor,
    }
    memory = {"peak_megabytes": peak_megabytes(), "megabytes_before": before}
    print(json.dumps({"images": options.images, **answer, **memory}))
    return 0


def _process(
    options: argparse.Namespace, measure: str, images: int | None = None
) -> dict[str, Any]:
    named = {
        "images": images or options.images,
        "synthetic": options.synthetic,
        "threads": options.threads,
    }
    passed = [
        part for name, value in named.items() for part in (f"--{name}", str(value))
    ]
    command = [sys.executable, __file__, "--measure", measure, *passed]
    answer: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    )
    return answer


def _print_races(races: list[dict[str, Any]], options: argparse.Namespace) -> int:
    headings = (
        "network",
        "features",
        "batch",
        "bare_images_per_second",
        "images_per_second",
        "ratio",
    )
    _page(
        "perceptual features at the gate, both moments, 10 labels, one thread",
        headings,
        races,
        options,
    )
    return 0 if all(race["ratio"] >= RATIO_GOAL for race in races) else 1


def _print_whole(answer: dict[str, Any], options: argparse.Namespace) -> int:
    headings = ("images", "seconds", "processor_seconds", "peak_megabytes")
    _page(
        f"the whole default run, {options.threads} thread(s)",
        headings,
        [answer],
        options,
    )
    return (
        0
        if answer["seconds"] <= SECONDS_GOAL
        and answer["peak_megabytes"] <= MEGABYTES_GOAL
        else 1
    )


def _print_scaling(answers: list[dict[str, Any]], options: argparse.Namespace) -> int:
    headings = (
        "images",
        "seconds",
        "processor_seconds",
        "peak_megabytes",
        "megabytes_before",
    )
    _page("a release from a Parquet file of images", headings, answers, options)
    return (
        0
        if answers[-1]["peak_megabytes"] <= GROWTH_GOAL * answers[0]["peak_megabytes"]
        else 1
    )


def _page(
    title: str,
    headings: tuple[str, ...],
    rows: list[dict[str, Any]],
    options: argparse.Namespace,
) -> None:
    from rich.console import Console
    from rich.table import Table

    page = Table(title=title, title_justify="left")
    for heading in headings:
        page.add_column(
            heading.replace("_", " "),
            justify="left" if heading == "network" else "right",
        )
    for row in rows:
        values = [row[heading] for heading in headings]
        page.add_row(
            *(
                f"{value:,.2f}" if isinstance(value, float) else str(value)
                for value in values
            )
        )
    Console().print(page)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _seconds(run: Callable[[], Any]) -> float:
    started = (
        time.process_time()
    )  # one thread: other work on the machine hardly counts in it
    run()
    return time.process_time() - started


def _options() -> argparse.Namespace:
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    parser = argparse.ArgumentParser(description="Speed and memory of private images.")
    parser.add_argument(
        "--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS)
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=7,
        help="both sides in turns; medians are compared",
    )
    parser.add_argument(
        "--whole", action="store_true", help="the whole default run instead"
    )
    parser.add_argument(
        "--scaling",
        type=int,
        nargs="+",
        help="a release of each of these numbers of images instead",
    )
    parser.add_argument("--images", type=int, default=60_000, help="private images")
    parser.add_argument(
        "--synthetic", type=int, default=60_000, help="images to sample"
    )
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument(
        "--json", type=Path, default=None, help="write the figures there"
    )
    parser.add_argument(
        "--measure", choices=["whole", "release"], default=None, help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if (
        min(
            options.images,
            options.synthetic,
            options.threads,
            options.rounds,
            *(options.scaling or [1]),
        )
        < 1
    ):
        parser.error("all numbers must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
