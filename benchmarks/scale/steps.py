"""Steps a second of a training: clipped gradients of a classifier over Poisson samples, on this machine or on Ray."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from processes import Watched
from scale_table import PART_ROWS, SCHEMA, linked_folder

from noisegate import Gate, Schema
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.sums import Engine, LocalEngine
from noisegate_papers.methods.dp_sgd import DPSGD

SAMPLE = 4096
"""Records of a step, about."""
_LABELLED = Schema(SCHEMA.columns, label="c00")


def steps(
    place: Path, rows: int, engine: str, number: int, count: int
) -> dict[str, Any]:
    """Times `count` steps by `number` threads of this process, or workers of Ray, behind a first one that reads."""
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # Ray gives its workers 15, which tells on a busy machine
    rows = min(rows, PART_ROWS)
    folder, _ = linked_folder(place, "parquet", rows)
    if engine == "local":
        torch.set_num_threads(number)
    chosen: Engine = (
        LocalEngine(threads=number) if engine == "local" else RayEngine(workers=number)
    )
    method = DPSGD(
        hidden=(512, 512),
        steps=count + 1,
        sampling_probability=min(SAMPLE / rows, 1.0),
        clip_norm=1.0,
    )
    gate = Gate(folder, schema=_LABELLED, epsilon=10.0, records=rows, engine=chosen)
    plan = method.plan(_LABELLED, gate.budget)
    training = method.training(_LABELLED, plan, SAMPLE, "cpu")
    with method.session(gate, plan, journal=None, device="cpu") as session:
        started = time.perf_counter()
        session.step(training.parameters())
        first = time.perf_counter() - started
        with Watched() as watched:
            started = time.perf_counter()
            for _ in range(count):
                session.step(training.parameters())
            seconds = time.perf_counter() - started
            found = watched.found()
    return {
        "seconds": seconds,
        "steps_per_second": count / seconds,
        "start_seconds": first,
        **found,
    }
