"""A plugin of pytest that tries mutants: a process for each, forked from one that imported and collected everything.

mutmut starts pytest anew for each mutant, which takes seconds where a test takes milliseconds. Its mutants wait in the
same files, chosen by an environment variable, and it measured which tests call which function; so one collection does
for all. Test files that import the mutated module come first, short tests before long ones, until one fails. After
`MOST` tests or `ENOUGH` seconds no more of them run: a mutant that only the others would find counts as survived, and
the score as stated is too low.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import signal
from functools import cache
from itertools import accumulate, takewhile
from pathlib import Path

import pytest

STATISTICS = Path("mutmut-stats.json")
MOST = 200
ENOUGH = 10.0
SURVIVED = "survived"
FOUND = "found"
UNTESTED = "untested"


def pytest_addoption(parser):
    group = parser.getgroup("mutation")
    group.addoption(
        "--mutants",
        type=Path,
        help="file with the names of the mutants to try, one a line",
    )
    group.addoption(
        "--verdicts",
        type=Path,
        help="file for one line a mutant: its verdict, its name",
    )
    group.addoption("--processes", type=int, default=2)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    statistics = json.loads(STATISTICS.read_text("utf-8"))
    options = session.config.option
    # A database server for each mutant would take longer than all else; the same tests run on SQLite.
    items = {
        item.nodeid: item
        for item in session.items
        if "postgres" not in item.fixturenames
    }
    # What was imported lives for ever: the processes forked from here need not look through it again and again.
    gc.collect()
    gc.freeze()
    mutants = options.mutants.read_text("utf-8").split()
    _check(
        {
            tests[0]: items[tests[0]]
            for mutant in mutants
            if (tests := chosen(mutant, items, statistics))
        }
    )
    running: dict[int, str] = {}
    with options.verdicts.open("w", encoding="utf-8") as verdicts:
        for mutant in mutants:
            tests = chosen(mutant, items, statistics)
            if not tests:
                print(UNTESTED, mutant, file=verdicts, flush=True)
                continue
            if len(running) == options.processes:
                _finish(running, verdicts)
            running[_start(mutant, [items[test] for test in tests])] = mutant
        while running:
            _finish(running, verdicts)
    return True


def chosen(mutant, known, statistics):
    """Returns the tests to run on a mutant, in this order."""
    seconds = statistics["duration_by_test"]
    covering = statistics["tests_by_mangled_function_name"]
    tests = [
        test
        for test in covering.get(mutant.rpartition("__mutmut_")[0], [])
        if test in known
    ]
    files = {test: Path(test.partition("::")[0]) for test in tests}
    direct = {
        file: _imports(file, mutant.rpartition(".")[0]) for file in set(files.values())
    }
    tests = sorted(
        tests, key=lambda test: (not direct[files[test]], seconds[test], test)
    )[:MOST]
    within = takewhile(
        lambda total: total <= ENOUGH, accumulate(seconds[test] for test in tests)
    )
    return tests[: max(len(list(within)), 1)]


@cache
def _imports(file, module):
    package, _, name = module.rpartition(".")
    direct = rf"from {re.escape(module)} import|from {re.escape(package)} import .*\b{name}\b"
    return re.search(direct, file.read_text("utf-8")) is not None


def _check(items):
    """Ends the run if tests fail in a process of their own without a mutant: then all mutants would seem found."""
    if items and os.waitpid(_start("", list(items.values())), 0)[1]:
        pytest.exit(
            "tests fail in a forked process without any mutant",
            returncode=pytest.ExitCode.INTERNAL_ERROR,
        )


def _start(mutant, items):
    """Returns the process that runs the tests on this mutant; it ends with 0 if they all pass."""
    child = os.fork()
    if child:
        return child
    try:
        resource.setrlimit(
            resource.RLIMIT_CPU, (60, 60) if mutant else (-1, -1)
        )  # an endless loop
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.environ["MUTANT_UNDER_TEST"] = mutant
        _run(items)
    finally:
        os._exit(1)


def _run(items):
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            os._exit(1)
    os._exit(0)


def _finish(running, verdicts):
    child, status = os.wait()
    print(
        SURVIVED if status == 0 else FOUND,
        running.pop(child),
        file=verdicts,
        flush=True,
    )
