"""Breaks the library on purpose: applies each of the privacy bugs below to a copy, and asserts that the tests find it.

    python tests/planted/planted_bugs.py [-k NAME]

A bug is a textual replacement that must fit exactly once, so that one that no longer applies is an error and not a
success. The tests named beside it must fail on the broken copy, by failing tests and by nothing else; and all of them
must pass on a copy that was not broken.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNBROKEN = "unbroken"
PASSED, FAILED = 0, 1  # pytest's exit codes; anything else is neither

# Loaded into pytest in the copy: an editable install must not stand in for it.
WITNESS = """
import sys
from pathlib import Path

import noisegate


def pytest_configure():
    here = Path(__file__).resolve().parent
    if here not in Path(noisegate.__file__).resolve().parents:
        sys.exit(f"{noisegate.__file__} was imported instead of the copy in {here}")
"""


@dataclass(frozen=True)
class Bug:
    """One planted bug.

    Attributes:
        name: What it is called on the command line and in the suite.
        edits: (file below src/noisegate, text that is there exactly once, text to put there).
        tests: Tests below tests/ of which at least one must fail.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


NOISE, GRID, BOUNDED, GATE = "privacy/noise.py", "privacy/grid.py", "privacy/bounded.py", "gate/gate.py"
PLAN, ACCOUNTING, GAUSSIAN, SUMS = "privacy/plan.py", "privacy/accounting.py", "privacy/gaussian.py", "gate/sums.py"
LEDGER, ACCOUNTS, CERTIFICATE = "privacy/ledger.py", "privacy/ledger_accounts.py", "privacy/certificate.py"
RELEASE = "privacy/release.py"

T_NOISE, T_GRID, T_BOUNDED = "privacy/test_noise.py", "privacy/test_grid.py", "privacy/test_bounded.py"
T_GATE, T_NEIGHBOURS, T_SUMS = "gate/test_gate.py", "gate/test_neighbours.py", "gate/test_sums.py"
T_RELEASED, T_PLAN, T_GAUSSIAN = "gate/test_released_noise.py", "privacy/test_plan.py", "privacy/test_gaussian.py"
T_CERTIFICATE, T_RELEASE = "privacy/test_certificate.py", "privacy/test_release.py"
T_ACCOUNTING = "privacy/test_accounting.py"
T_STEPS = f"{T_ACCOUNTING}::test_sampled_steps_cost_what_dp_accounting_says"
T_DISCRETE = f"{T_ACCOUNTING}::test_the_discrete_gaussian_is_charged_as_one_with_four_units_less_variance"
T_ROUNDED = f"{T_ACCOUNTING}::test_the_rounded_gaussian_is_charged_its_distance_on_every_coordinate"


def one(name: str, file: str, old: str, new: str, *tests: str) -> Bug:
    """Returns a bug of a single edit."""
    return Bug(name, ((file, old, new),), tests)


BUGS = (
    # The noise.
    one(
        "noise-halved",
        NOISE,
        "make_gaussian(*space, scale=noise_std)",
        "make_gaussian(*space, scale=noise_std / 2)",
        T_NOISE,
    ),
    one(
        "noise-halved-at-the-gate", GATE, "noise_std=release.noise_std,", "noise_std=release.noise_std / 2,", T_RELEASED
    ),
    one("fast-noise-two-thirds", NOISE, "+ noise_std * generator", "+ noise_std / 1.5 * generator", T_NOISE),
    one(
        "counts-without-noise",
        GATE,
        "noisy = noise.add_noise(",
        "noisy = sums if sums.shape[1] == 1 else noise.add_noise(",
        T_RELEASED,
    ),
    one(
        "noise-on-the-first-label-only",
        GATE,
        "restore(noisy).T)",
        "restore(np.vstack([noisy[:1], sums[1:]])).T)",
        T_RELEASED,
    ),
    one("chacha-with-a-fixed-key", NOISE, "key=secrets.randbits(256)", "key=20240229", T_NOISE),
    one("discrete-noise-drawn-once", NOISE, "def _discrete_gaussian(", "@cache\ndef _discrete_gaussian(", T_NOISE),
    one(
        "same-noise-on-every-coordinate",
        NOISE,
        "np.asarray(measurement([0] * min(_CHUNK, size - start)), dtype=np.int64)",
        "np.repeat(np.asarray(measurement([0]), dtype=np.int64), min(_CHUNK, size - start))",
        T_NOISE,
    ),
    # The bound on a record's vector.
    one(
        "clip-removed",
        GRID,
        "return _clip_row(row.astype(np.float64), nonnegative)",
        "return scaled.astype(np.int64)",
        T_GRID,
    ),
    one("bound-check-skipped", GRID, "total * (1 + 2.0**-11) <= float(UNITS) ** 2", "np.isfinite(total)", T_GRID),
    one("exact-bound-check-skipped", GRID, "if squares <= UNITS * UNITS:", "if squares >= 0:", T_GRID),
    one("nan-not-zeroed", GRID, "if not np.isfinite(row).all():", "if not row.size:", T_GRID),
    one("nonnegative-not-enforced", GRID, "np.maximum(scaled, 0, out=scaled)", "pass", T_NEIGHBOURS),
    Bug(
        "rounding-to-nearest",
        (
            (GRID, "return scaled.astype(np.int32)", "return np.rint(scaled).astype(np.int32)"),
            (GRID, "scaled[accepted].astype(np.int32)", "np.rint(scaled[accepted]).astype(np.int32)"),
            (GRID, "exact = scaled.astype(np.int64)", "exact = np.rint(scaled).astype(np.int64)"),
        ),
        (T_GRID,),
    ),
    one("centre-forgotten", GRID, "if self.centre is not None:", "if self.centre == ():", T_GRID),
    one("table-not-checked", SUMS, "<= self.grid.bound.units**2 else None", ">= 0 else None", T_SUMS),
    # The sensitivity.
    one(
        "sensitivity-of-the-wrong-adjacency",
        BOUNDED,
        "return 2 * square if self.nonnegative else 4 * square",
        "return square",
        T_BOUNDED,
    ),
    one(
        "signed-taken-for-nonnegative",
        BOUNDED,
        "if self.nonnegative else 4 * square",
        "if True else 4 * square",
        T_NEIGHBOURS,
    ),
    one(
        "sensitivity-rounded-down",
        BOUNDED,
        "return root if root * root == square else root + 1",
        "return root",
        T_BOUNDED,
    ),
    # The sums.
    Bug(
        "padding-counted",
        (
            (SUMS, "yield 0, slice(0, len(records))", "yield 0, slice(0, None)"),
            (SUMS, "task.grid.quantise(vectors)[:rows]", "task.grid.quantise(vectors)"),
        ),
        (T_SUMS,),
    ),
    one(
        "labels-not-separated",
        SUMS,
        "yield int(labels[start]), slice(start, end)",
        "yield 0, slice(start, end)",
        T_SUMS,
    ),
    one(
        "independence-probe-skipped",
        GATE,
        "            check_row_independence(name,",
        "            (lambda *_: None)(name,",
        T_GATE,
    ),
    # The ledger.
    one("ledger-check-skipped", LEDGER, "if total <= cap.epsilon:", "if total >= 0:", T_GATE),
    Bug(
        "reserve-after-read",
        (
            (GATE, "reservation = self._reserve(plan, method)\n", "reservation = None\n"),
            (
                GATE,
                "            self._check_records(totals)\n",
                "            self._check_records(totals)\n            reservation = self._reserve(plan, method)\n",
            ),
        ),
        (T_GATE,),
    ),
    one("commit-skipped", GATE, "self._ledger.commit(reservation, ", "dict(", T_GATE),
    one(
        "cost-given-back-after-the-release",
        GATE,
        "self._ledger.commit(reservation, certificate=certificate.digest())",
        'self._ledger.void(reservation, reason="finished")',
        T_GATE,
    ),
    one("void-after-commit", ACCOUNTS, "if held.state is not State.RESERVED:", "if held.state is State.VOID:", T_GATE),
    one(
        "reserved-runs-cost-nothing",
        ACCOUNTS,
        "r.dataset == dataset and r.state is not State.VOID)",
        "r.dataset == dataset and r.state is State.COMMITTED)",
        T_GATE,
    ),
    # The plan and the price.
    one("epsilon-rounded-down", GAUSSIAN, "return high * (1 + _SAFETY)", "return low * (1 - _SAFETY)", T_GAUSSIAN),
    one("noise-rounded-down", GAUSSIAN, "return low * (1 - 4 * _SAFETY)", "return low * (1 + 4 * _SAFETY)", T_GAUSSIAN),
    one(
        "only-the-dearest-question-paid",
        ACCOUNTING,
        "math.fsum(effective_multiplier(event) ** -2 for event in events)",
        "max(effective_multiplier(event) ** -2 for event in events)",
        T_PLAN,
        T_CERTIFICATE,
    ),
    one("only-one-step-paid", ACCOUNTING, "inner), event.steps)", "inner), 1)", T_STEPS),
    one(
        "discrete-noise-paid-as-continuous",
        ACCOUNTING,
        "if event.sampler is Sampler.DISCRETE_GAUSSIAN:\n        return",
        "if event.sampler is None:\n        return",
        T_DISCRETE,
    ),
    one("sampler-distance-not-paid", ACCOUNTING, "distance += draws * ROUNDED_DISTANCE", "distance += 0.0", T_ROUNDED),
    one("shares-not-normalised", PLAN, "question.share / total)", "question.share)", T_PLAN),
    one("cost-of-a-plan-not-checked", PLAN, "if not spent <= self.budget.epsilon:", "if spent < 0:", T_PLAN),
    one(
        "sensitivity-of-a-plan-not-checked",
        PLAN,
        "if release.sensitivity < release.question.grid.bound.sensitivity(self.budget.adjacency):",
        "if release.sensitivity < 0:",
        T_PLAN,
    ),
    one("plan-for-another-budget", GATE, "if plan.budget != self.budget:", "if plan.budget is None:", T_GATE),
    one("second-answer-for-free", GATE, "if not self._once.acquire(blocking=False):", "if self._once is None:", T_GATE),
    one(
        "number-of-records-not-checked", GATE, "and totals.records != self.records:", "and totals.records < 0:", T_GATE
    ),
    one(
        "vectors-of-any-type",
        GRID,
        "if vectors.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):",
        "if vectors.dtype is None:",
        T_GRID,
    ),
    one(
        "noise-beyond-64-bits",
        NOISE,
        "if not MINIMUM_STD <= noise_std <= MAXIMUM_STD:",
        "if not MINIMUM_STD <= noise_std:",
        T_NOISE,
    ),
    one(
        "one-type-for-all-objects",
        "data/memory.py",
        "if raw in self._objects:",
        "if raw is self._objects:",
        "data/test_objects.py",
    ),
    one(
        "page-not-bound",
        "model_folder.py",
        "if page != render(certificate) and (",
        "if not page and (",
        "test_model_folder.py",
    ),
    one(
        "events-not-bound",
        "model_folder.py",
        "    _check_events(release, folder)\n    page",
        "    page",
        "test_model_folder.py",
    ),
    # What is handed out.
    one(
        "certificate-always-true",
        CERTIFICATE,
        "or recomputed > self.epsilon * (1 + 1e-9):",
        "or recomputed < 0:",
        T_CERTIFICATE,
    ),
    one(
        "hashes-not-checked",
        RELEASE,
        "if array_hashes(arrays) != dict(certificate.hashes):",
        "if not values:",
        T_RELEASE,
    ),
)


def copy(folder: Path) -> None:
    """Copies the sources, and the tests of what the guarantee rests on."""
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    for room in ("privacy", "features", "gate", "data"):
        shutil.copytree(ROOT / "tests" / room, folder / "tests" / room, ignore=ignored)
    for file in ("conftest.py", "test_model_folder.py"):
        shutil.copy(ROOT / "tests" / file, folder / "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "planted_witness.py").write_text(WITNESS, encoding="utf-8")


def plant(bug: Bug, folder: Path) -> None:
    """Applies a bug to the copy.

    Raises:
        ValueError: if a text is not there exactly once.
    """
    for file, old, new in bug.edits:
        path = folder / "src" / "noisegate" / file
        text = path.read_text("utf-8")
        if text.count(old) != 1:
            raise ValueError(
                f"bug {bug.name!r}: {file} has {old!r} {text.count(old)} times, not once; bring it up to date"
            )
        path.write_text(text.replace(old, new), encoding="utf-8")


def run_tests(folder: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Runs tests in the copy until the first failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(folder), str(folder / "src")]), "OMP_NUM_THREADS": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "planted_witness", "--tb=line"]
    command = [sys.executable, "-B", "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def check(bug: Bug | None) -> str:
    """Plants a bug in a fresh copy (None: plants nothing) and runs its tests (all).

    Returns:
        The test that found it, or how many passed.

    Raises:
        AssertionError: if the bug was not found, or the unbroken copy fails.
        ValueError: if the bug cannot be planted.
    """
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        copy(folder)
        tests: tuple[str, ...] = tuple(sorted({test for each in BUGS for test in each.tests}))
        if bug is not None:
            plant(bug, folder)
            tests = bug.tests
        done = run_tests(folder, tests)
    wanted = PASSED if bug is None else FAILED
    told = f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    if bug is not None and done.returncode == PASSED:
        raise AssertionError(f"bug {bug.name!r} was not found by {', '.join(tests)}\n{told}")
    assert done.returncode == wanted, f"exit code {done.returncode} instead of {wanted}\n{told}"
    found = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else done.stdout.strip().splitlines()[-1]


def main() -> int:
    """Checks all bugs, or those whose name contains the given text, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="NAME", default="", help="only the bugs whose name contains this")
    chosen = parser.parse_args().k
    jobs = {bug.name: bug for bug in BUGS if chosen in bug.name} | ({} if chosen else {UNBROKEN: None})
    if not jobs:
        parser.error(f"no bug has {chosen!r} in its name")
    missed = 0
    with ThreadPoolExecutor(2) as pool:
        for name, future in {name: pool.submit(check, bug) for name, bug in jobs.items()}.items():
            try:
                print(f"{'passes' if name == UNBROKEN else 'found '}  {name}: {future.result()}", flush=True)
            except (AssertionError, ValueError) as error:
                missed += 1
                print(f"MISSED  {name}: {error}", flush=True)
    print(f"{len(jobs) - missed} of {len(jobs)} as they should be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
