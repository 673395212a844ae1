"""What the ways cost in which a block of gradients can be computed: torch's kernels, exact products, one at a time.

    python benchmarks/speed/executions.py [--rounds 7]

The models and the block of 64 made-up records are those of `gradients.py`; a round computes the same records in each
way, in turns, and adds them up on the grid. Processor seconds, medians, as ratios to torch's own kernels. Which way a
machine needs is found by the gate (`noisegate.gate.execution`).
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from gradient_models import MODELS, NORM, records
from rich.console import Console
from rich.table import Table

from noisegate.gate.execution import Execution
from noisegate.gate.per_example.gradients import (
    compute_block_gradients,
    gradient_source,
    module_loss,
)
from noisegate.privacy.gradient_plan import GradientQuery

BLOCK = 64
WAYS = {
    "torch's kernels": Execution(rows=BLOCK),
    "exact products": Execution(rows=BLOCK, exact=True),
    "one record at a time": Execution(rows=1),
}


def main() -> None:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(
        description="What each way to compute gradients costs."
    )
    parser.add_argument("--rounds", type=int, default=7, help="medians are over these")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    table = Table("model", *WAYS)
    for name in MODELS:
        seconds = _seconds(name, rounds)
        plain = seconds["torch's kernels"]
        table.add_row(
            name,
            *(
                f"{1000 * took:.0f} ms ({took / plain:.1f} x)"
                for took in seconds.values()
            ),
        )
    Console().print(table)


def _seconds(name: str, rounds: int) -> dict[str, float]:
    """Returns processor seconds for the block in each way."""
    module = MODELS[name]()
    loss = module_loss(
        module,
        lambda run, x, codes: torch.nn.functional.cross_entropy(
            run(x[None]), codes[:1]
        ),
    )
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    plan = GradientQuery(
        name="g", steps=1, sampling_probability=1.0, clip_norm=NORM, parameters=shapes
    )
    images, labels = (part[:BLOCK] for part in records())
    source = gradient_source(loss, plan, BLOCK)
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds + 1):
        for way, execution in WAYS.items():
            source.execution, sums, start = (
                execution,
                np.zeros(plan.count, dtype=np.int64),
                time.process_time(),
            )
            for first in range(0, BLOCK, execution.rows):
                rows = slice(first, first + execution.rows)
                source.add_clipped(
                    sums,
                    compute_block_gradients(
                        source, parameters, images[rows], labels[rows, None], "cpu"
                    ),
                )
            took[way].append(time.process_time() - start)
    return {way: statistics.median(each[1:]) for way, each in took.items()}


if __name__ == "__main__":
    main()
