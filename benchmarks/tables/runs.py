"""One run of the bake-off: a table, a method, an ε and a seed. Its answer is a file, so work can be taken up again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.commands import commit
from harness.results import read_json, write_json
from isolated import Limits, run_limited
from peer_packages import PEERS, environment
from scoring import Judge

from noisegate import UserError

HERE = Path(__file__).parent
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is asked; the seed is of public randomness only where a method draws its noise securely, as ours do."""

    table: str
    method: str
    epsilon: float
    seed: int

    def path(self, out: Path) -> Path:
        """The file of the answer below the output folder."""
        return (
            out
            / "runs"
            / self.table
            / self.method
            / f"eps-{self.epsilon:g}-seed-{self.seed}.json"
        )

    def __str__(self) -> str:
        return f"{self.table}, {self.method}, ε = {self.epsilon:g}, seed {self.seed}"


def fit(run: Run, out: Path, limits: Limits, threads: int) -> dict[str, Any]:
    """Runs a method in a process of its own and writes how it went; the synthetic table lies beside as CSV.

    Args:
        run: what is asked.
        out: the output folder.
        limits: of the process.
        threads: of numerical libraries.

    Returns:
        The answer, in which ``status`` is "done", "failed", "timeout", "memory" or "not installed".
    """
    path = run.path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = path.with_suffix(".meta.json")
    meta.unlink(missing_ok=True)
    command, error = _command(run, out)
    answer: dict[str, Any] = {
        **vars(run),
        "delta": DELTA,
        "threads": threads,
        "date": str(date.today()),
        "commit": commit(),
    }
    if error:
        answer |= {"status": "not installed", "error": error}
    else:
        outcome = run_limited(
            [*command, *_contract(run, out, meta)],
            path.with_suffix(".log"),
            limits,
            _variables(threads),
        )
        answer |= {
            "status": outcome.status,
            "process_seconds": outcome.seconds,
            "process_cpu_seconds": outcome.cpu_seconds,
            "peak_megabytes": outcome.peak_megabytes,
            "error": outcome.error,
        }
        if outcome.status == "done":
            answer |= json.loads(meta.read_text(encoding="utf-8"))
    meta.unlink(missing_ok=True)
    write_json(path, answer)
    return answer


def score(run: Run, out: Path, judge: Callable[[], Judge]) -> dict[str, Any]:
    """Adds its figures to the answer of a run that is done; a table that cannot be read makes the run a failed one."""
    path = run.path(out)
    answer = read_json(path)
    if answer["status"] == "done" and "scores" not in answer:
        try:
            answer["scores"] = judge().score(path.with_suffix(".csv"))
        except UserError as error:
            answer |= {
                "status": "failed",
                "error": f"its table cannot be scored: {error}",
            }
        write_json(path, answer)
    return answer


def _command(run: Run, out: Path) -> tuple[list[str], str]:
    """The program that answers, or why there is none."""
    if run.method not in PEERS:
        return [sys.executable, "-u", str(HERE / "ours.py"), run.method], ""
    peer = PEERS[run.method]
    made = environment(peer.package, out / "environments")
    if made.error:
        return [], made.error
    if peer.script is None:
        return (
            [],
            f"{peer.package} installs now; it has no script in peers/ yet, because none could be tried",
        )
    # -E: no variable of this Python reaches theirs. -u: the last lines are there when a run is ended.
    return [str(made.python), "-Eu", str(HERE / "peers" / peer.script)], ""


def _contract(run: Run, out: Path, meta: Path) -> list[str]:
    table = out / "tables" / run.table
    named = {
        "--train": table / "train.csv",
        "--schema": table / "schema.toml",
        "--epsilon": f"{run.epsilon:g}",
        "--delta": f"{DELTA:g}",
        "--seed": run.seed,
        "--out": run.path(out).with_suffix(".csv"),
        "--meta": meta,
    }
    return [text for name, value in named.items() for text in (name, str(value))]


def _variables(threads: int) -> dict[str, str]:
    libraries = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NUMEXPR")
    limits = dict.fromkeys(
        [*(f"{name}_NUM_THREADS" for name in libraries), "POLARS_MAX_THREADS"],
        str(threads),
    )
    # JAX (in mbi) counts cores by itself; XLA has no variable for a number, only for one thread.
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"} if threads == 1 else {}
    return {**os.environ, **limits, **flags}
