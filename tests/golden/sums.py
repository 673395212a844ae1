"""The sums of every method over the records in `files`, before noise."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .cases import FITS, KINDS, UNSEEN, fit_options, summed_settings
from .names import program, without_noise

SLOW = frozenset(
    {
        "mepf-trained",
        "gan-images",
        "cgan-images",
        "joint-residual",
        "mepf-second",
        "dre-decoded",
        "gan-finetuned",
    }
    | {
        "gan-inversion",
        "merf-connected",
        "joint-odd",
        "llm-projected",
        "psg-prior",
        "dpdm",
        "dpdm-bare",
    }
)
"""Fits that take long, and whose maps others have too."""

DISCOVERY = "schema discover"
"""Its numeric half: levels are counted with noise in one piece."""

Sums = dict[str, npt.NDArray[np.int64]]


def cases() -> Iterator[str]:
    """Yields the fits whose sums can be seen, and the discovery of a schema."""
    yield from (fit for fit, (method, _, _) in FITS.items() if method not in UNSEEN)
    yield DISCOVERY


def sums_of(fit: str) -> Sums:
    """Returns, by fit and number, the sums in the order in which noise is added to them, in grid units."""
    seen: list[npt.NDArray[np.int64]] = []
    with tempfile.TemporaryDirectory() as folder, without_noise(seen.append):
        if fit == DISCOVERY:
            command = ("mixed.csv", "--epsilon", 6, "--kinds", KINDS, "--records", 100)
            code, out, err = program(
                "schema", "discover", *command, "-o", Path(folder) / "schema.toml"
            )
        else:
            code, out, err = program(
                "fit",
                *fit_options(fit, summed_settings(fit)),
                "--out",
                Path(folder) / "model",
            )
    assert code == 0, out + err
    return {f"{fit}/{number}": sums for number, sums in enumerate(seen)}


def machine() -> list[Any]:
    """Returns what sums may depend on beside the code: features are rounded by the kernels of a processor."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    processor = next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")),
        platform.machine(),
    )
    capability = torch.backends.cpu.get_cpu_capability()
    kernels = [os.environ[name] for name in ("MKL_CBWR",) if name in os.environ]
    return [
        processor,
        capability,
        torch.get_num_threads(),
        torch.__version__,
        np.__version__,
        *kernels,
    ]
