"""Prints how often words of plan and fit were above or below that of evaluate, and by which question, in Markdown.

    python benchmarks/verdicts/summary.py [FILE] [--held-out] [--runs] [--epsilons ...]

FILE has the lines of `run.py`, by default those beside this file.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpus import is_held_out
from harness.options import option, optional, positional, read_options
from harness.printing import markdown_table
from harness.results import read_lines

from noisegate.answers.verdict import WORDS

Run = dict[str, Any]

SOURCES = ("plan", "fit")
# Upper ends of groups by training records; the last group has no end.
_SIZES = (500, 1_500, 5_000, 20_000)


def read_runs(path: Path, *, held_out: bool) -> list[Run]:
    """Reads the runs of tables for development, or of held-out ones; the last line of a run counts."""
    runs = {
        (run["table"], run["epsilon"], run["seed"]): run for run in read_lines(path)
    }
    return [run for run in runs.values() if is_held_out(run["table"]) == held_out]


def is_judged(run: Run) -> bool:
    """Returns whether plan, fit and evaluate all came to a word."""
    stages = (*SOURCES, "evaluate")
    return all(run.get(stage, {}).get("word") is not None for stage in stages)


def steps_above(run: Run, source: str) -> int:
    """Returns how many words plan or fit is above evaluate; negative below it."""
    positions = [WORDS.index(run[stage]["word"]) for stage in (source, "evaluate")]
    return positions[0] - positions[1]


def pulled_down_by(run: Run, stage: str, word: str) -> list[str]:
    """Returns the questions of fit or evaluate whose words are below a word."""
    questions = [
        part["question"]
        for part in run[f"{stage}_parts"]
        if part["word"] is not None and WORDS.index(part["word"]) < WORDS.index(word)
    ]
    return sorted(set(questions))


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a table."""
    return "\n".join(markdown_table(headings, rows))


def agreement_row(name: str, runs: Sequence[Run], source: str) -> list[object]:
    """Returns how often a source's word is that of evaluate, as a row of shares."""
    steps = [steps_above(run, source) for run in runs]

    def share(is_counted: Callable[[int], bool]) -> str:
        return f"{sum(map(is_counted, steps)) / len(steps):.1%}"

    return [
        source,
        name,
        len(runs),
        share(lambda step: step == 0),
        share(lambda step: step == 1),
        share(lambda step: step > 1),
        share(lambda step: step == -1),
        share(lambda step: step < -1),
    ]


def groups_by_epsilon(runs: Sequence[Run]) -> Iterator[tuple[str, list[Run]]]:
    """Yields all runs, and those of each ε."""
    yield "all", list(runs)
    for epsilon in sorted({run["epsilon"] for run in runs}):
        yield f"ε {epsilon:g}", [run for run in runs if run["epsilon"] == epsilon]


def groups_by_size(runs: Sequence[Run]) -> Iterator[tuple[str, list[Run]]]:
    """Yields the runs by their number of training records."""
    lower = 0
    for upper in (*_SIZES, None):
        group = [
            run
            for run in runs
            if lower <= run["records"] and (upper is None or run["records"] < upper)
        ]
        name = f"{lower:,} records or more" if upper is None else f"under {upper:,}"
        if group:
            yield name, group
        lower = upper or lower


def agreement(runs: Sequence[Run]) -> str:
    """Returns the rates by ε and by size."""
    headings = ["word of", "runs of", "runs", "same", "above by 1", "by 2 or more"]
    headings += ["below by 1", "by 2 or more"]
    rows = [
        agreement_row(name, group, source)
        for source in SOURCES
        for groups in (groups_by_epsilon(runs), groups_by_size(runs))
        for name, group in groups
    ]
    return markdown(headings, rows)


def confusion(runs: Sequence[Run], source: str) -> str:
    """Returns how often each word of a source met each word of evaluate."""
    pairs = Counter((run[source]["word"], run["evaluate"]["word"]) for run in runs)
    rows = [
        [word, *(pairs[word, other] for other in WORDS[::-1])] for word in WORDS[::-1]
    ]
    return markdown([f"{source} \\ evaluate", *WORDS[::-1]], rows)


def blame(runs: Sequence[Run]) -> str:
    """Returns by which questions evaluate fell below the fit, or the fit below evaluate.

    A run counts for each of its questions, and as "alone" where it has only one.
    """
    rows = []
    for direction, lower, upper in (
        ("above", "evaluate", "fit"),
        ("below", "fit", "evaluate"),
    ):
        sign = 1 if direction == "above" else -1
        wrong = [run for run in runs if sign * steps_above(run, "fit") > 0]
        questions = [pulled_down_by(run, lower, run[upper]["word"]) for run in wrong]
        counts = Counter(name for names in questions for name in names)
        alone = Counter(names[0] for names in questions if len(names) == 1)
        none = sum(not names for names in questions)
        for name, count in counts.most_common():
            rows.append([direction, f"{lower}: {name}", count, alone[name]])
        if none:
            rows.append([direction, f"{lower}: only in its sum", none, none])
    return markdown(["fit is", "lowered by", "runs", "alone"], rows)


def wrong_runs(runs: Sequence[Run]) -> str:
    """Returns each run whose fit is not evaluate's word, with the figures of both."""
    headings = ["table", "ε", "records", "columns", "plan", "fit", "evaluate", "by"]
    headings += ["figures of the fit", "of evaluate"]
    rows = []
    for run in sorted(runs, key=lambda run: -steps_above(run, "fit")):
        steps = steps_above(run, "fit")
        if steps == 0:
            continue
        lower, upper = ("evaluate", "fit") if steps > 0 else ("fit", "evaluate")
        rows.append(
            [
                run["table"],
                f"{run['epsilon']:g}",
                run["records"],
                run["columns"],
                *(run[stage]["word"] for stage in (*SOURCES, "evaluate")),
                ", ".join(pulled_down_by(run, lower, run[upper]["word"])),
                figures_text(run["fit"]["figures"]),
                figures_text(run["evaluate"]["figures"]),
            ]
        )
    return markdown(headings, rows)


# Names of figures as the list of runs has them, by the names in verdicts.
_SHORT_NAMES = {
    "expected_out_of_place_in_pairs": "pairs",
    "out_of_place_in_pairs": "pairs",
    "associations_kept": "associations",
    "coefficients_kept": "coefficients",
    "kept": "learning",
    "rank_error": "quantiles",
    "tail_error": "tails",
    "distance": "distance",
    "pairs_not_measured": "pairs not measured",
}


def figures_text(figures: dict[str, Any]) -> str:
    """Returns the figures of a verdict in short."""
    return ", ".join(
        f"{short} {figures[name]:.2g}"
        for name, short in _SHORT_NAMES.items()
        if figures.get(name) is not None and figures[name] != 0
    )


def errors(runs: Sequence[Run]) -> str:
    """Returns what stopped runs, each message once with its tables."""
    tables: dict[tuple[str, str, str], set[str]] = {}
    for run in runs:
        if "error" in run:
            error = run["error"]
            message = error["message"].replace("\n", " ").replace("|", "\\|")[:300]
            key = (error["stage"], error["type"], message)
            tables.setdefault(key, set()).add(run["table"])
    rows = [[*key, ", ".join(sorted(names))] for key, names in sorted(tables.items())]
    return markdown(["stage", "error", "message", "tables"], rows)


def main() -> None:
    """Prints the summary."""
    beside = Path(__file__).parent / "results.jsonl"
    options = read_options(
        __doc__,
        results=positional(Path, default=beside),
        held_out=option(False, "held-out tables alone"),
        runs=option(False, "also each wrong run"),
        epsilons=optional(float, is_list=True),
    )
    runs = read_runs(options.results, held_out=options.held_out)
    if options.epsilons:
        runs = [run for run in runs if run["epsilon"] in options.epsilons]
    judged = [run for run in runs if is_judged(run)]
    tables = {run["table"] for run in judged}
    print(f"{len(runs):,} runs; {len(judged):,} judged, of {len(tables):,} tables.\n")
    for section in (
        agreement(judged),
        confusion(judged, "plan"),
        confusion(judged, "fit"),
        blame(judged),
        errors(runs),
    ):
        print(f"{section}\n")
    if options.runs:
        print(wrong_runs(judged))


if __name__ == "__main__":
    main()
