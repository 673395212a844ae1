"""The mutation score of the rooms that the guarantee rests on, from a sample that is drawn with a seed.

    python tests/mutation/score.py [--share 0.05] [--seed 0] [--rooms privacy ledger gate training] [--survivors FILE]

mutmut makes the mutants and measures which tests call which function (settings: pyproject.toml); `forked.py` beside
this file tries them. All of them would take hours. So the same share is drawn of each file: the share found is then an
unbiased estimate of a room's score, and Clopper and Pearson's interval holds for it, with room to spare, since a
stratified sample varies less than a plain one. What only changes the words of a sentence, in a message or on a page, is
no mutant.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[2]
LAID_OUT = ROOT / "mutants"
MUTANTS = LAID_OUT / "mutants"
COPIED = (
    "conftest.py",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "packages/noisegate",
    "pyproject.toml",
)
COPIED += ("tests", "uv.lock")
MUTMUT = Path(sys.executable).with_name("mutmut")
LEAST = 0.85
ROOMS = ("privacy", "ledger", "gate", "answers", "models/tables", "methods")
SOURCE = Path("src")
# Asked for to have all mutants made and all tests timed: few tests call this function.
ONE = "noisegate.privacy.events.*sentence__mutmut_1"
PLUGINS = [
    "-p",
    "tests.mutation.forked",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:unraisableexception",
]
# As pyproject.toml has them.
TESTED = (
    "app/silos",
    "privacy",
    "ledger",
    "gate",
    "answers",
    "models",
    "queries",
    "methods",
    "sources",
    "schema",
)
TESTS = ["tests/contracts"]
TESTS += [f"packages/noisegate/tests/{file}" for file in ("test_cards.py", "app/runs")]
TESTS += [*(f"packages/noisegate/tests/{room}" for room in TESTED)]


def drawn(room: str, share: float, seed: int) -> dict[str, list[str]]:
    """Returns the mutants of each file of a room that are in the sample."""
    folder = MUTANTS / SOURCE / "noisegate" / room
    sample = {}
    for path in sorted(folder.rglob("*.py.meta")):
        name = f"{room}/{path.relative_to(folder).as_posix().removesuffix('.meta')}"
        mutants = sorted(json.loads(path.read_text("utf-8"))["exit_code_by_key"])
        some = random.Random(f"{seed}/{name}").sample(
            mutants, math.ceil(share * len(mutants))
        )
        sample[name] = [mutant for mutant in some if not rewords(change(mutant))]
    return {name: mutants for name, mutants in sample.items() if mutants}


def change(mutant: str) -> str:
    """Returns what a mutant changes, as a diff of its function."""
    path = Path(SOURCE, *mutant.split(".")[:-1]).with_suffix(".py")
    return str(get_diff_for_mutant(mutant, path=path))


def rewords(diff: str) -> bool:
    """Returns whether nothing changes but the letters of one string with blanks in it."""
    before, after = (
        " ".join(re.findall(rf"^\{sign}(?!\{sign})(.*)", diff, re.MULTILINE))
        for sign in "-+"
    )
    changed = [text for text in re.findall(r'"[^"]*"', before) if text not in after]
    return before.casefold() == after.replace("XX", "").casefold() and any(
        " " in text for text in changed
    )


def lay_out() -> None:
    """Copies what is tested to where mutmut finds sources in `src`, as it wants them."""
    shutil.rmtree(LAID_OUT, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in COPIED:
        source = ROOT / name
        target = LAID_OUT / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(
            source, target, ignore=ignore
        ) if source.is_dir() else shutil.copy2(source, target)
    shutil.copytree(
        ROOT / "packages" / "noisegate" / "src", LAID_OUT / SOURCE, ignore=ignore
    )


def tried(names: list[str], processes: int) -> dict[str, str]:
    """Returns the verdict on each mutant."""
    asked = MUTANTS / "sample.txt"
    verdicts = MUTANTS / "verdicts.txt"
    asked.write_text("\n".join(names), encoding="utf-8")
    # Tests that start Python get the mutant too.
    environment = {
        **os.environ,
        "PYTHONPATH": f"{MUTANTS / SOURCE}{os.pathsep}{MUTANTS}",
        "MUTANT_UNDER_TEST": "",
    }
    options = [
        f"--mutants={asked}",
        f"--verdicts={verdicts}",
        f"--processes={processes}",
        "-m",
        "not slow",
    ]
    options += [
        "--ignore=packages/noisegate-papers/tests/gate/engines/test_ray.py"
    ]  # a cluster does not survive a fork
    command = [sys.executable, "-m", "pytest", "-q", *PLUGINS, *options, *TESTS]
    subprocess.run(
        command, cwd=MUTANTS, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return {
        name: verdict
        for verdict, name in map(str.split, verdicts.read_text("utf-8").splitlines())
    }


def line(name: str, found: int, of: int) -> str:
    """Returns a row of the table: the score, and its interval at 95 %."""
    interval = binomtest(found, of).proportion_ci(0.95, method="exact")
    return f"| {name} | {found} of {of} | {found / of:.0%} | {interval.low:.0%} to {interval.high:.0%} |"


def report(room: str, sample: dict[str, list[str]], verdicts: dict[str, str]) -> float:
    """Prints the rows of a room's files and of the room; returns the most that the room's score may be."""
    found = {
        name: sum(verdicts[mutant] == "found" for mutant in mutants)
        for name, mutants in sample.items()
    }
    for name, mutants in sample.items():
        print(line(name, found[name], len(mutants)))
    together = sum(found.values())
    of = sum(map(len, sample.values()))
    print(line(f"**{room}**", together, of))
    return float(binomtest(together, of).proportion_ci(0.95, method="exact").high)


def main() -> None:
    """Draws the sample, tries its mutants, and prints the scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--share", type=float, default=0.05, help="of each file's mutants"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--again",
        action="store_true",
        help="another sample of the mutants of the last run",
    )
    parser.add_argument(
        "--survivors", type=Path, help="file for what each surviving mutant changes"
    )
    options = parser.parse_args()
    if not options.again:
        lay_out()
    os.chdir(LAID_OUT)  # where mutmut looks for sources and mutants
    if not options.again:  # what mutmut then thinks of that one mutant does not matter
        subprocess.run(
            [MUTMUT, "run", "--max-children", str(options.processes), ONE], check=False
        )
    if not (MUTANTS / "mutmut-stats.json").exists():
        sys.exit(
            "mutmut could not run the tests on what nobody changed: they have to pass in "
            + str(MUTANTS)
        )
    samples = {room: drawn(room, options.share, options.seed) for room in options.rooms}
    names = [
        mutant
        for sample in samples.values()
        for mutants in sample.values()
        for mutant in mutants
    ]
    verdicts = tried(names, options.processes)
    print("| file | found | score | 95 % interval |\n| --- | --- | --- | --- |")
    most = {room: report(room, sample, verdicts) for room, sample in samples.items()}
    if options.survivors:
        missed = [name for name in names if verdicts[name] != "found"]
        shown = [f"# {name}: {verdicts[name]}\n{change(name)}\n" for name in missed]
        options.survivors.write_text("\n".join(shown), encoding="utf-8")
    if low := [room for room, score in most.items() if score < LEAST]:
        sys.exit(
            f"The score of {', '.join(low)} is below {LEAST:.0%}, whatever the sample."
        )


if __name__ == "__main__":
    main()
