"""Breaks the library on purpose: plants each of the bugs in `bugs_*.py`, and asserts that its tests find it.

    python tests/planted/run.py [-k NAME]

Each bug is a run of its own tests by pytest, with the plugin that plants it. Every test that a bug names must fail,
and all of them must pass when nothing is planted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.planted.all_bugs import BUGS
from tests.planted.finders import ROOT, located
from tests.planted.patches import Bug, CannotPlantError

UNBROKEN = "unbroken"
PASSED, FAILED = 0, 1  # pytest's exit codes; anything else is neither


def check(bug: Bug | None) -> str:
    """Runs the tests of a bug while it is planted (None: those of all bugs, and nothing is planted).

    Returns:
        Which tests found it, or how many passed; or that those which are left were skipped here.

    Raises:
        AssertionError: if a test did not find it, or the library as it is fails.
    """
    tests = (
        sorted({test for each in BUGS.values() for test in each.tests})
        if bug is None
        else bug.tests
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    # The library beside these tests, wherever the installed one lies.
    environment |= {
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT), *map(str, ROOT.glob("packages/*/src"))]
        ),
        "OMP_NUM_THREADS": "1",
    }
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "tests.planted.plugin",
        "--tb=line",
    ]
    options += ["-x"] if bug is None else ["--plant", bug.name]
    command = [sys.executable, "-m", "pytest", *options, *map(located, tests)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    told = f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    if bug is None:
        assert done.returncode == PASSED, (
            f"exit code {done.returncode} instead of {PASSED}\n{told}"
        )
        return done.stdout.strip().splitlines()[-1]
    said = [
        line.removeprefix("planted: ")
        for line in done.stdout.splitlines()
        if line.startswith("planted: ")
    ]
    assert done.returncode in (PASSED, FAILED), (
        f"bug {bug.name!r}: exit code {done.returncode}\n{told}"
    )
    wrong = [line for line in said if not line.startswith(("found ", "SKIPPED "))]
    assert said, f"bug {bug.name!r}: no test ran\n{told}"
    assert not wrong, (
        f"bug {bug.name!r} was not found by all its tests: {'; '.join(wrong)}\n{told}"
    )
    return "; ".join(
        sorted((line.removeprefix("found ") for line in said), reverse=True)
    )


def main() -> int:
    """Checks all bugs, or those whose name contains the given text, some at a time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-k", metavar="NAME", default="", help="only the bugs whose name contains this"
    )
    parser.add_argument(
        "-n", metavar="WORKERS", type=int, default=2, help="how many at a time"
    )
    options = parser.parse_args()
    jobs = {name: bug for name, bug in BUGS.items() if options.k in name} | (
        {} if options.k else {UNBROKEN: None}
    )
    if not jobs:
        parser.error(f"no bug has {options.k!r} in its name")
    missed = 0
    with ThreadPoolExecutor(options.n) as pool:
        for name, future in {
            name: pool.submit(check, bug) for name, bug in jobs.items()
        }.items():
            try:
                print(
                    f"{'passes' if name == UNBROKEN else 'found '}  {name}: {future.result()}",
                    flush=True,
                )
            except (AssertionError, CannotPlantError) as error:
                missed += 1
                print(f"MISSED  {name}: {error}", flush=True)
    print(f"{len(jobs) - missed} of {len(jobs)} as they should be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
