"""How often do plan and fit promise more than evaluate finds? Runs all three on tables of Rdatasets.

    python benchmarks/verdicts/run.py --tables DIR --results FILE --models DIR [--epsilons 1 .3 3] [--seeds 0]

Each run appends one line of JSON to FILE at once, and a run that has a line is not done again: stop it and give the
command again as you like. Tables come in a random order that is always the same (`corpus.py`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpus import Table, find_tables
from harness.options import needed, option, optional, read_options
from harness.results import Lines, read_lines
from judge import judge

# A run is a fork of this process, which has imported everything.
_PROCESSES = multiprocessing.get_context("fork")


class Case(NamedTuple):
    """A run that is to be done."""

    table: Table
    epsilon: float
    seed: int

    @property
    def key(self) -> tuple[str, float, int]:
        """What its line in the results is found by."""
        return self.table.name, self.epsilon, self.seed


def planned_cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yields the runs that are asked for, table by table."""
    tables = list(find_tables(options.tables, held_out=options.held_out))
    for table in tables[: round(options.share * len(tables))]:
        if options.only and table.name not in options.only:
            continue
        for seed in options.seeds:
            for epsilon in options.epsilons:
                yield Case(table, epsilon, seed)


def finished_keys(results: Path, *, retry_errors: bool) -> set[tuple[str, float, int]]:
    """Returns the runs that have a line already.

    Args:
        results: File of lines.
        retry_errors: Whether a line with an error does not count.
    """
    return {
        (run["table"], run["epsilon"], run["seed"])
        for run in read_lines(results)
        if not (retry_errors and "error" in run)
    }


def result_within(
    run: dict[str, Any],
    limit_seconds: float,
    function: Callable[..., dict[str, Any]],
    *arguments: object,
) -> dict[str, Any]:
    """Calls a function in a process of its own, which is stopped at the limit.

    Args:
        run: What is known of the run before; the result where there is no other.
        limit_seconds: The limit.
        function: Returns the run.
        arguments: Its arguments.

    Returns:
        The run, with its seconds in total. That a process was stopped or ended is its "error".
    """
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_send, args=(sender, function, *arguments))
    start = time.monotonic()
    process.start()
    sender.close()
    run = {**run, "seconds": {}}
    try:
        if receiver.poll(limit_seconds):
            run = receiver.recv()
        else:
            message = f"too long: more than {limit_seconds:g} seconds"
            run["error"] = {"stage": "", "type": "TooLong", "message": message}
    except EOFError:
        process.join()
        message = f"the process ended with {process.exitcode}"
        run["error"] = {"stage": "", "type": "Crash", "message": message}
    finally:
        process.kill()
        process.join()
    run["seconds"]["total"] = round(time.monotonic() - start, 1)
    return run


def _send(
    sender: Connection, function: Callable[..., dict[str, Any]], *arguments: object
) -> None:
    sender.send(function(*arguments))


def main() -> None:
    """Runs what is asked for and has no line yet."""
    os.environ["OMP_NUM_THREADS"] = "1"
    options = read_options(
        __doc__,
        tables=needed(Path, "checkout of Rdatasets, with datasets.csv and csv/"),
        results=needed(Path, "file of lines to append to"),
        models=needed(Path, "folder for models and records"),
        epsilons=[1.0, 0.3, 3.0],
        seeds=[0],
        processes=1,
        limit_seconds=option(300.0, "longest time of a run"),
        share=option(1.0, "share of the tables, the first ones"),
        only=optional(str, "names of tables, PACKAGE/NAME", is_list=True),
        retry_errors=option(
            False, "do runs again that an error stopped; their last line counts"
        ),
        held_out=option(
            False, "the tables that nothing is chosen on, for final figures"
        ),
    )
    finished = finished_keys(options.results, retry_errors=options.retry_errors)
    cases = [case for case in planned_cases(options) if case.key not in finished]
    print(f"{len(finished):,} runs are done, {len(cases):,} remain", flush=True)
    lines = Lines(options.results)
    lock = Lock()

    def run(case: Case) -> None:
        key = {"table": case.table.name, "epsilon": case.epsilon, "seed": case.seed}
        line = result_within(key, options.limit_seconds, judge, *case, options.models)
        words = [
            line.get(stage, {}).get("word") for stage in ("plan", "fit", "evaluate")
        ]
        problem = line.get("error", {}).get("message", "")[:100]
        with lock:
            lines.add(line)
            print(*case.key, *words, line["seconds"]["total"], problem, flush=True)

    with ThreadPoolExecutor(options.processes) as pool:
        list(pool.map(run, cases))


if __name__ == "__main__":
    main()
