"""Runs the scoreboard for the commit that is checked out, and prints its table.

    python benchmarks/scoreboard/run.py [--data DIR] [--sets ...] [--seeds 0 1 2] [--code CHECKOUT]

Each set is made in a process of its own, and so is each release and each scoring. A
release appends one line of JSON to results.jsonl at once, and one that has a line is not
done again: stop it and give the command again as you like. The figures are computed on
real data, outside the guarantee.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from board_figures import FIGURES, RESULTS, SETS, read_lines
from harness.options import choices, option, optional, read_options

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# How `board_sets.py` ends where a file is not there.
_LEFT_OUT = 3
_ERROR_LINES = 3


@dataclass(frozen=True, kw_only=True)
class Code:
    """What is measured.

    Attributes:
        commit: Its commit, short; after "+" a digest of what is not committed.
        date: Of the commit.
        packages: Folders that come before those installed; none for this checkout.
    """

    commit: str
    date: str
    packages: tuple[Path, ...] = ()

    @classmethod
    def of(cls, checkout: Path, *, allow_dirty: bool) -> Code:
        """Reads which commit a checkout has.

        Raises:
            RuntimeError: if its packages have changes and `allow_dirty` is not set, or
                it is no checkout with packages.
        """
        packages = tuple(sorted(checkout.glob("packages/*/src")))
        if not packages:
            raise RuntimeError(
                f"{checkout} has no packages; expected a checkout of noisegate"
            )
        commit = _git(checkout, "rev-parse", "--short=8", "HEAD").strip()
        changes = _git(checkout, "status", "--porcelain", "--", "packages")
        if changes:
            if not allow_dirty:
                raise RuntimeError(
                    f"packages of {checkout} have changes, so that no commit has these "
                    "figures; commit them, or give --dirty to measure them as they are"
                )
            content = changes + _git(checkout, "diff", "HEAD", "--", "packages")
            commit += "+" + hashlib.sha1(content.encode()).hexdigest()[:4]
        is_this = checkout.resolve() == ROOT
        return cls(
            commit=commit,
            date=_git(checkout, "show", "-s", "--format=%cs", "HEAD").strip(),
            packages=() if is_this else packages,
        )

    def environment(self) -> dict[str, str]:
        """Returns the variables with which this code is run, one thread each."""
        libraries = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
        variables = {f"{name}_NUM_THREADS": "1" for name in libraries}
        if self.packages:
            variables["PYTHONPATH"] = os.pathsep.join(map(str, self.packages))
        return {**os.environ, **variables}


def _git(checkout: Path, *arguments: str) -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(checkout), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(
            f"git cannot say which commit {checkout} has; expected a clone of the repository"
        ) from error


def machine() -> str:
    """Returns the processor and the number of cores: costs of two machines are not compared."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:  # no Linux
        pass
    return f"{model}, {os.cpu_count()} cores"


def run_script(
    script: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a script of this folder to its end."""
    command = [sys.executable, str(HERE / script), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=dict(environment)
    )


def measure_release(
    name: str, seed: int, code: Code, folder: Path, out: Path
) -> dict[str, Any]:
    """Makes and scores one release.

    Args:
        name: The set.
        seed: Of the fit and the sample.
        code: What is measured; what scores is this checkout.
        folder: The files of the set.
        out: Where the copy is kept.

    Returns:
        Its line.

    Raises:
        RuntimeError: if a process failed, with its last lines.
    """
    place = [name, str(folder)]
    released = run_script(
        "board_release.py",
        [*place, "--seed", str(seed), "--out", str(out)],
        code.environment(),
    )
    _check(released, f"{name}, seed {seed}: the release")
    this_checkout = Code(commit="", date="").environment()
    scored = run_script("board_score.py", [*place, "--copy", str(out)], this_checkout)
    _check(scored, f"{name}, seed {seed}: the scoring")
    measured = json.loads((out / "measured.json").read_text(encoding="utf-8"))
    figures = json.loads(scored.stdout) | measured
    return {
        "commit": code.commit,
        "date": code.date,
        "set": name,
        "seed": seed,
        "machine": machine(),
        "figures": {
            name: round(figures[name], 6) for name in FIGURES if name in figures
        },
    }


def _check(ended: subprocess.CompletedProcess[str], what: str) -> None:
    if ended.returncode:
        last_lines = "\n".join(ended.stderr.strip().splitlines()[-_ERROR_LINES:])
        raise RuntimeError(f"{what} ended with {ended.returncode}: {last_lines}")


def run_board(
    options: argparse.Namespace, code: Code, work: Path
) -> tuple[list[str], list[str]]:
    """Runs what has no line yet, two or more at a time.

    Returns:
        Why sets were left out, and what failed.
    """
    done = {
        (line["commit"], line["set"], line["seed"])
        for line in read_lines(options.results)
    }
    lock, left_out, failed = Lock(), list[str](), list[str]()

    def prepare(name: str) -> bool:
        """Makes the files of a set; whether they are there."""
        data = ["--data", str(options.data)] if options.data else []
        folder = work / "sets" / name
        made = run_script("board_sets.py", [name, str(folder), *data], os.environ)
        if made.returncode == _LEFT_OUT:
            left_out.append(made.stderr.strip())
        elif made.returncode:
            failed.append(f"{name}: {made.stderr.strip()[-500:]}")
        return not made.returncode

    def run(name: str, seed: int) -> None:
        out = work / "copies" / code.commit / name / str(seed)
        try:
            line = measure_release(name, seed, code, work / "sets" / name, out)
        except RuntimeError as error:
            failed.append(str(error))
            return
        with lock, options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{code.commit}: {name}, seed {seed}", flush=True)

    with ThreadPoolExecutor(options.processes) as pool:
        for name in options.sets:
            seeds = [
                seed for seed in options.seeds if (code.commit, name, seed) not in done
            ]
            if seeds and prepare(name):
                for seed in seeds:
                    pool.submit(run, name, seed).add_done_callback(
                        lambda future: future.result()
                    )
    return left_out, failed


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    return read_options(
        __doc__,
        arguments,
        data=optional(
            Path,
            "folder in or below which Adult's train.csv and test.csv and loans.csv are",
        ),
        sets=choices(
            list(SETS),
            [name for name in SETS if SETS[name].is_on_board],
            ", ".join(SETS),
        ),
        seeds=[0, 1, 2],
        code=option(
            ROOT, "another checkout whose packages are measured; this one scores them"
        ),
        dirty=option(False, "measure packages with changes as they are"),
        results=RESULTS,
        processes=2,
        work=optional(Path, "keep sets and copies there"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the board; 0 when all is done, 1 when a release failed, 2 when it cannot run."""
    options = _options(arguments)
    try:
        code = Code.of(options.code, allow_dirty=options.dirty)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        left_out, failed = run_board(options, code, work)
    commits = {line["commit"] for line in read_lines(options.results)}
    if code.commit in commits:
        # The table needs more than the standard library, which would count as memory of
        # the releases.
        arguments = ["--results", str(options.results), "--now", code.commit]
        subprocess.run(
            [sys.executable, str(HERE / "board.py"), *arguments], check=False
        )
    for reason in left_out:
        print(f"Left out: {reason}")
    for reason in failed:
        print(f"Failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
