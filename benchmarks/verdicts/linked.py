"""Are the words of linked tables right? Runs plan, fit and evaluate on simulated and public linked tables.

    python benchmarks/verdicts/linked.py --results FILE [--tables DIR] [--epsilons 1 10 .3 3] [--only NAME ...]
    python benchmarks/verdicts/linked.py --results FILE --held-out [--tables DIR]

Each run appends one line of JSON to FILE at once, and a run that has a line is not done again: stop it and give the
command again as you like. Without ``--tables``, a checkout of Rdatasets, only the simulated sets are run. Held-out
sets are held-out tables and sets of another draw, on which nothing is chosen.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import needed, option, optional, read_options
from judge import Stopwatch, verdict_json
from linked_sets import (
    HELD_OUT,
    PUBLIC,
    SIMULATED,
    Public,
    Simulated,
    Tables,
    drawn_sets,
    split_parents,
)

import noisegate
from noisegate import Gate
from noisegate.app.drafts.linked import draft_linked
from noisegate.methods.forecast import Forecast, forecast_of
from noisegate.models.linked.fit import LinkAnswers
from noisegate_evaluate import evaluate_linked
from noisegate_evaluate.comparison import LinkedReport
from noisegate_evaluate.judging import of_distance
from noisegate_evaluate.metrics.marginals import OrderDistance

_SEED = 0
# Rules were chosen on the sets of draw 0.
_HELD_OUT_DRAW = 1


def judge_linked(
    name: str, tables: Tables, epsilon: float, run: dict[str, Any]
) -> None:
    """Runs plan, fit and evaluate on linked tables, as a user does, and adds figures to the run.

    Args:
        name: Name of the set.
        tables: Its tables, parents first.
        epsilon: ε of the guarantee.
        run: The run, which has what was done so far also after an error.
    """
    stopwatch = Stopwatch(run["seconds"])
    train, test = split_parents(tables)
    with stopwatch.measure("draft"):
        schema = draft_linked(tables).schema
    n_parents = train[schema.root.name].num_rows
    with stopwatch.measure("plan"):
        planned = noisegate.plan(schema, epsilon=epsilon, records=n_parents)
        method: Any = planned.method
    run["records"] = n_parents
    run["plan"] = verdict_json(planned.verdict)
    run["links"] = {
        design.link.name: {
            **forecast_json(link_forecast(design, planned.plan, n_parents)),
            "is_ordered": design.link.order is not None,
            "most": design.link.child.most,
            "parent_columns": len(design.link.parent.schema.columns),
            "child_columns": len(design.link.child.schema.columns),
            "parents": train[design.link.parent.name].num_rows,
            "children": train[design.link.name].num_rows,
        }
        for design in planned.plan.design
    }
    with stopwatch.measure("fit"):
        release = method.query(
            Gate(train, schema=schema, epsilon=epsilon), planned.plan
        )
        fitting = method.fitting(release, plan=planned.plan)
        fitting.run()
        synthesizer = method.synthesizer(release, fitting)
    run["fit"] = verdict_json(synthesizer.verdict)
    for link in fitting.links:
        shares = link.step_shares
        run["links"][link.design.link.name] |= {
            "first_share": shares["first"],
            "next_share": shares["next"],
        }
    run["distances"] = {
        link.design.link.name: link.fit.discrepancy for link in fitting.links
    }
    with stopwatch.measure("sample"):
        synthetic = synthesizer.sample(n_parents, seed=_SEED)
    with stopwatch.measure("evaluate"):
        report = evaluate_linked(synthetic, test, schema, train)
    run["evaluate"] = verdict_json(report.verdict)
    run["evaluate_parts"] = list(evaluation_parts(report))


def link_forecast(design: Any, plan: Any, records: float) -> Forecast:
    """Forecasts the transitions of one link from the noise of the plan alone."""
    noise_std = {
        release.query.name: release.noise_std_natural for release in plan.releases
    }
    answers = design.answers(LinkAnswers(values={}, noise_std=noise_std))
    return forecast_of(design.tables, answers, records)


def forecast_json(expected: Forecast) -> dict[str, Any]:
    """Returns what a forecast rests on as JSON values."""
    return {
        "noise": expected.noise,
        "columns": expected.columns,
        "paired": expected.paired,
    }


def evaluation_parts(report: LinkedReport) -> Iterator[dict[str, Any]]:
    """Yields each distance that the verdict of an evaluation rests on, and those of links that it leaves aside.

    "floor" is the same distance between the training and the test records, where it is known.
    """
    for name, marginals in report.tables.items():
        entry = marginals.orders[min(len(marginals.orders), 2) - 1]
        yield distance_json("pairs of one table", name, entry, None)
    for name, link in report.links.items():
        floor = None if report.links_floor is None else report.links_floor[name]
        for question, figure in (
            ("parent and child", "parent_child"),
            ("successive children", "transitions"),
            ("number of children", "child_counts"),
            ("different values", "distinct_values"),
        ):
            entry = getattr(link, figure)
            if entry is not None:
                floor_entry = None if floor is None else getattr(floor, figure)
                yield distance_json(question, name, entry, floor_entry)
        if link.gaps is not None:
            yield {"question": "gaps", "table": name, "largest": link.gaps.largest}


def distance_json(
    question: str, table: str, entry: OrderDistance, floor: OrderDistance | None
) -> dict[str, Any]:
    """Returns one distance as JSON values, with the word for it."""
    return {
        "question": question,
        "table": table,
        "word": of_distance(entry, table).word,
        "mean": entry.mean,
        "sampling": entry.sampling,
        "beyond_sampling": entry.beyond_sampling,
        "largest": entry.largest,
        "largest_columns": list(entry.largest_columns),
        "floor": None if floor is None else floor.beyond_sampling,
    }


def finished_keys(results: Path) -> set[tuple[str, float]]:
    """Returns the runs that have a line already."""
    if not results.exists():
        return set()
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    return {(run["set"], run["epsilon"]) for run in runs}


def judged(
    linked_set: Simulated | Public, epsilon: float, folder: Path
) -> dict[str, Any]:
    """Returns a run as JSON values; an error is a result."""
    run: dict[str, Any] = {
        "set": linked_set.name,
        "epsilon": epsilon,
        "seed": _SEED,
        "seconds": {},
    }
    start = time.monotonic()
    try:
        if isinstance(linked_set, Public):
            tables = linked_set.tables(folder)
        else:
            tables = linked_set.tables()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            judge_linked(linked_set.name, tables, epsilon, run)
        run["warnings"] = sorted({str(warning.message)[:300] for warning in caught})
    # Whatever stops a run is its result.
    except Exception as error:
        message = str(error)[:1000]
        run["error"] = {"type": type(error).__name__, "message": message}
        traceback.print_exc()
    run["seconds"]["total"] = round(time.monotonic() - start, 1)
    return run


def main() -> None:
    """Runs what is asked for and has no line yet."""
    os.environ["OMP_NUM_THREADS"] = "1"
    options = read_options(
        __doc__,
        results=needed(Path, "file of lines"),
        tables=optional(Path, "checkout of Rdatasets"),
        epsilons=[1.0, 10.0, 0.3, 3.0],
        drawn=option(30, "sets drawn at random"),
        only=optional(str, "names of sets", is_list=True),
        held_out=option(False, "sets that nothing is chosen on"),
    )
    sets: list[Simulated | Public] = [] if options.held_out else [*SIMULATED]
    if options.tables is not None:
        sets += HELD_OUT if options.held_out else PUBLIC
    sets += drawn_sets(options.drawn, seed=_HELD_OUT_DRAW if options.held_out else 0)
    finished = finished_keys(options.results)
    for epsilon in options.epsilons:
        for linked_set in sets:
            is_left_out = options.only and linked_set.name not in options.only
            if is_left_out or (linked_set.name, epsilon) in finished:
                continue
            run = judged(linked_set, epsilon, options.tables)
            with options.results.open("a") as file:
                file.write(json.dumps(run, default=float) + "\n")
            words = [run.get(stage, {}).get("word") for stage in _STAGES]
            problem = run.get("error", {}).get("message", "")[:100]
            print(*(run["set"], epsilon), *words, run["seconds"], problem, flush=True)


_STAGES = ("plan", "fit", "evaluate")


if __name__ == "__main__":
    main()
