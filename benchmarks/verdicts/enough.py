"""Are numbers of records right? Fits as many records as a plan says that a word takes, and asks evaluate for the word.

    python benchmarks/verdicts/enough.py --tables DIR --results FILE --models DIR [--epsilons .3 1 3 10] [--factors 1 2]

A plan without a number of records says "good from 28,000, usable from 3,300, rough from 290". Each table of 4,000
records or more is planned so, at one ε, which is the next one for the next table: with N records the noise is the same
at every ε. Where its training records are as many as a word takes, so many of them are fitted, and two and four times
as many where there are. Each run appends one line of JSON to FILE at once, and a run that has a line is not done
again. After a run that takes longer than the limit, the rest of its table is left out. `enough_rates.py` says how often
the words were reached.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from corpus import Table, find_tables
from harness.options import needed, option, read_options
from judge import Stopwatch, evaluation_parts, prepare, verdict_json
from run import result_within

import noisegate
from noisegate import Budget, Gate, Schema
from noisegate.errors import UserError
from noisegate.sources.frames import read_table
from noisegate_evaluate import Report
from noisegate_evaluate.metrics.analyses import Associations, Quantiles, Regressions
from noisegate_evaluate.metrics.marginals import RulesKept, marginal_distances
from noisegate_evaluate.tables import (
    downstream_scores,
    regression_scores,
    unscorable,
)

_MIN_RECORDS = 4_000
# An evaluation is judged for fewer synthetic records than half the test records.
_MAX_TEST_RATIO = 2
_SEED = 0
# A run is a fork of this process, which has imported what takes seconds to import.
_IMPORTED_BEFORE = (
    "scipy.stats",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.metrics",
)


class Case(NamedTuple):
    """A run that is to be done: a word at the number of records that it takes.

    Attributes:
        table: The table.
        epsilon: ε of the guarantee.
        word: The word that the plan says.
        factor: How many times the number of records that the word takes is fitted.
        records: Number of records to fit.
    """

    table: Table
    epsilon: float
    word: str
    factor: float
    records: int

    @property
    def key(self) -> tuple[str, float, str, float]:
        """What its line in the results is found by."""
        return self.table.name, self.epsilon, self.word, self.factor

    def to_json(self) -> dict[str, Any]:
        """Returns what its line begins with."""
        return {**self._asdict(), "table": self.table.name}


def table_cases(
    table: Table, models: Path, epsilon: float, factors: list[float]
) -> Iterator[Case]:
    """Yields the runs of a table, of words that its training records are enough for."""
    try:
        prepared = prepare(table, models / table.name)
    except UserError as error:
        print(table.name, error, flush=True)
        return
    with prepared.train.open(encoding="utf-8", errors="replace") as file:
        available = sum(1 for _ in file) - 1
    planned = noisegate.plan(prepared.schema, epsilon=epsilon)
    assert planned.verdict is not None
    for word, enough in planned.verdict.figures["records_for"].items():
        for factor in factors:
            records = round(factor * enough)
            if records <= available:
                yield Case(table, epsilon, word, factor, records)


def reach(case: Case, models: Path) -> dict[str, Any]:
    """Plans, fits and evaluates so many records, as a user does.

    The test records are the held-out ones, or the first of them: at most twice as many as are fitted.

    Returns:
        The run as JSON values; an error is a result.
    """
    run = case.to_json()
    stopwatch = Stopwatch()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run |= _reach(case, models, stopwatch)
    # Whatever stops a run is its result.
    except Exception as error:
        run["error"] = {
            "stage": stopwatch.stage,
            "type": type(error).__name__,
            "message": str(error)[:1000],
        }
    run["seconds"] = stopwatch.seconds
    return run


def _reach(case: Case, models: Path, stopwatch: Stopwatch) -> dict[str, Any]:
    """Returns the figures of a run, whose stages the stopwatch measures."""
    prepared = prepare(case.table, models / case.table.name)
    schema = prepared.schema
    with stopwatch.measure("read"):
        # The records of both parts are in random order.
        train = read_table(prepared.train, schema).slice(0, case.records)
        test = read_table(prepared.test, schema)
        test = test.slice(0, _MAX_TEST_RATIO * case.records)
    with stopwatch.measure("plan"):
        planned = noisegate.plan(schema, epsilon=case.epsilon, records=train.num_rows)
        method: Any = planned.method
    with stopwatch.measure("fit"):
        gate = Gate(train, schema=schema, epsilon=case.epsilon)
        release = method.query(gate, planned.plan)
        fitting = method.fitting(release, plan=planned.plan)
        fitting.run()
        synthesizer = method.synthesizer(release, fitting)
    with stopwatch.measure("sample"):
        synthetic = synthesizer.sample(train.num_rows, seed=_SEED)
    with stopwatch.measure("evaluate"):
        report = judged_report(synthetic, test, schema, train)
    budget = Budget(epsilon=case.epsilon)
    return {
        "test_records": test.num_rows,
        "columns": len(schema.columns),
        "has_label": schema.label is not None,
        "noise": method.forecast(schema, budget, train.num_rows).noise,
        "plan": verdict_json(planned.verdict)["word"],
        "fit": verdict_json(synthesizer.verdict)["word"],
        "evaluate": verdict_json(report.verdict)["word"],
        "evaluate_parts": {
            part["question"]: part["word"] for part in evaluation_parts(report)
        },
    }


def judged_report(
    synthetic: pa.Table, test: pa.Table, schema: Schema, train: pa.Table
) -> Report:
    """Evaluates what decides the word, and nothing else, which takes half the time of `evaluate_tables`."""
    is_regression = schema.label_column is not None and schema.label_column.numeric
    reason = unscorable(test, schema, regress=is_regression)
    scores: Any = regression_scores if is_regression else downstream_scores
    scored = [
        None if reason else scores(table, test, schema) for table in (synthetic, train)
    ]
    metrics = (Associations, Quantiles, Regressions, RulesKept)
    return Report(
        compared_with="train",
        marginals=marginal_distances(synthetic, train, schema),
        floor=None,
        metrics={
            metric.METRIC: metric.measured(synthetic, train, schema=schema, seed=_SEED)
            for metric in metrics
        },
        downstream=None if is_regression else scored[0],
        ceiling=None if is_regression else scored[1],
        regression=scored[0] if is_regression else None,
        regression_ceiling=scored[1] if is_regression else None,
        notes=(),
    )


def finished_keys(results: Path) -> set[tuple[str, float, str, float]]:
    """Returns the runs that have a line already."""
    if not results.exists():
        return set()
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    return {(run["table"], run["epsilon"], run["word"], run["factor"]) for run in runs}


def main() -> None:
    """Runs what is asked for and has no line yet."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for module in _IMPORTED_BEFORE:
        import_module(module)
    options = read_options(
        __doc__,
        tables=needed(Path),
        results=needed(Path, "file of lines"),
        models=needed(Path, "folder for tables"),
        epsilons=[0.3, 1.0, 3.0, 10.0],
        factors=[1.0, 2.0, 4.0],
        processes=1,
        limit_seconds=120.0,
        held_out=option(False, "tables that nothing is chosen on"),
    )
    finished = finished_keys(options.results)
    lock = Lock()
    slow_tables: set[str] = set()

    def run(case: Case) -> None:
        if case.table.name in slow_tables:
            return
        line = result_within(
            case.to_json(), options.limit_seconds, reach, case, options.models
        )
        with lock, options.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
            if line.get("error", {}).get("type") == "TooLong":
                slow_tables.add(case.table.name)
            problem = line.get("error", {}).get("message", "")[:100]
            seconds = line["seconds"]["total"]
            print(*case.key, line.get("evaluate"), seconds, problem, flush=True)

    with ThreadPoolExecutor(options.processes) as pool:
        tables = find_tables(options.tables, held_out=options.held_out)
        large_tables = (table for table in tables if table.records >= _MIN_RECORDS)
        epsilons = itertools.cycle(options.epsilons)
        for table, epsilon in zip(large_tables, epsilons, strict=False):
            cases = table_cases(table, options.models, epsilon, options.factors)
            # A table at a time, so that the tables done are a random sample.
            list(pool.map(run, [case for case in cases if case.key not in finished]))


if __name__ == "__main__":
    main()
