"""Checks on made-up images that the gate's integers are right where gradients are computed on a GPU.

    python benchmarks/gpu/integers.py [--device cuda] [--json FILE]

Four checks. "exact": of a loss whose gradients float32 holds without rounding, the sum over images is that of the CPU,
bit for bit. "alone": of a convolutional network, the integers of each image are the same alone and among others, in any
order, bit for bit, in the blocks that the gate's probe has chosen on this device. "norms": no image's integers are
longer than the grid allows, in whole numbers. "apart": how far a network's integers are from those of the CPU, as a
part of the grid: they differ by what a device rounds, which costs no privacy. Exit code 1 where one does not hold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
import torch
from harness.options import choice, optional, read_options
from torch import nn

from noisegate.gate.execution import made_up_records
from noisegate.gate.per_example.gradients import (
    GradientSource,
    choose_execution,
    compute_block_gradients,
    gradient_source,
    label_loss,
)
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.schema import EncodedTable, pixel_schema

SIDE, CLASSES, IMAGES = 12, 4, 40
SCHEMA = pixel_schema(SIDE, SIDE, labels=range(CLASSES))
FURTHEST = 2.0**-7
"""Of integers on two devices, as a part of the grid: TF32 has 10 bits."""

Parameters = dict[str, torch.Tensor]
Integers = npt.NDArray[np.int64]


def images(seed: int = 0) -> EncodedTable:
    """Returns made-up images whose intensities float32 holds without rounding."""
    records = made_up_records(SCHEMA.layout, IMAGES, np.random.default_rng(seed))
    return EncodedTable(np.rint(records.numeric * 256) / 256, records.codes)


def linear() -> tuple[Callable[..., Any], Parameters]:
    """Returns a loss whose gradients are exact: sums of outputs of a linear layer, and of a product with the image."""

    def loss(parameters: Any, numeric: Any, codes: Any) -> Any:
        return (
            nn.functional.linear(numeric, parameters["w"]).sum()
            + (parameters["b"] * numeric[:5]).sum()
        )

    return loss, {"b": torch.zeros(5), "w": torch.zeros(3, SIDE * SIDE)}


def network() -> tuple[Callable[..., Any], Parameters]:
    """Returns the cross-entropy of a small convolutional network, and its weights."""
    generator = torch.Generator().manual_seed(1)
    made = nn.Sequential(
        *(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.AvgPool2d(3),
            nn.Flatten(),
        ),
        nn.Linear(8 * 16, CLASSES),
    )
    for value in made.parameters():
        value.data = 0.2 * torch.randn(value.shape, generator=generator)
    parameters = {
        name: value.detach().clone() for name, value in made.named_parameters()
    }
    return label_loss(
        made, lambda numeric, codes: numeric.reshape(1, SIDE, SIDE), SCHEMA
    ), parameters


def source_on(
    device: str, made: tuple[Callable[..., Any], Parameters]
) -> tuple[GradientSource, Parameters, int]:
    """Returns gradients on a device in blocks that the probe has chosen there, their parameters, and their length."""
    loss, start = made
    shapes = {name: tuple(value.shape) for name, value in start.items()}
    plan = GradientQuery(
        name="g", steps=1, sampling_probability=0.5, clip_norm=1.0, parameters=shapes
    )
    source, parameters = (
        gradient_source(loss, plan, None),
        {name: value.to(device) for name, value in start.items()},
    )
    choose_execution(source, parameters, SCHEMA.layout, device, "g")
    return source, parameters, plan.count


def integers(
    device: str, made: tuple[Callable[..., Any], Parameters], order: list[int]
) -> Integers:
    """Returns the integers of each image, (images, count), where they are computed in blocks in this order."""
    source, parameters, count = source_on(device, made)
    records, found, rows = (
        images(),
        np.zeros((IMAGES, count), np.int64),
        source.execution.rows,
    )
    for start in range(0, len(order), rows):
        block = order[start : start + rows]
        padded = np.array(block)[np.minimum(np.arange(rows), len(block) - 1)]
        vectors = compute_block_gradients(
            source, parameters, records.numeric[padded], records.codes[padded], device
        )
        for place, image in enumerate(block):
            source.add_clipped(found[image], vectors.take(slice(place, place + 1)))
    return found


def checks(device: str) -> dict[str, Any]:
    """Returns what each check found."""
    order = list(range(IMAGES))
    exact = [integers(one, linear(), order) for one in ("cpu", device)]
    here, there = (integers(one, network(), order) for one in ("cpu", device))
    turned = integers(
        device, network(), np.random.default_rng(2).permutation(IMAGES).tolist()
    )
    units = GradientQuery(
        name="g",
        steps=1,
        sampling_probability=0.5,
        clip_norm=1.0,
        parameters={"w": (here.shape[1],)},
    ).sensitivity
    longest = max(sum(int(value) ** 2 for value in row) for row in there)
    apart = float(np.abs(here - there).max() / units)
    same, alone = bool(np.array_equal(*exact)), bool(np.array_equal(there, turned))
    return {
        "device": device if device == "cpu" else torch.cuda.get_device_name(),
        "exact": same,
        "alone": alone,
        "norms": longest <= units**2,
        "apart": apart,
        "right": same and alone and longest <= units**2 and apart < FURTHEST,
    }


def main() -> int:
    """Prints what was found; 0 where all holds."""
    options = read_options(
        __doc__,
        device=choice(["cuda", "cpu"]),
        json=optional(Path),
    )
    found = checks(options.device)
    text = json.dumps(found, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0 if found["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
