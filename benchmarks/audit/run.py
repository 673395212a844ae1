"""Audits every method, and planted bugs, and writes the table of README.md.

    python benchmarks/audit/run.py [--only NAME ...] [--epsilon 1 ...] [--runs N] [--table]

What was found is kept in figures.json beside this file, a row at a time, so that a run may be stopped and gone on with;
--table only writes the page again. About an hour on two cores for all; `aim` and `mst`, whose models OpenDP fits in
every run, take most of it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, optional, read_options
from harness.printing import filled, markdown_row, markdown_table
from harness.results import Row, read_json, write_json

HERE = Path(__file__).resolve().parent
FIGURES, PAGE = HERE / "figures.json", HERE / "README.md"
HEADINGS = (
    "what",
    "ε claimed",
    "lower bound",
    "from the noise",
    "from guesses",
    "noise over the stated one",
    "runs",
    "verdict",
)
# Of models that OpenDP compiles in each run.
SLOW = {"aim": 8, "mst": 4}


def rows(epsilons: list[float], runs: int | None) -> dict[str, Callable[[], Any]]:
    """Returns what can be audited, by the name of its row."""
    import periods

    import planted
    from noisegate.methods.registry import METHODS
    from noisegate_evaluate.auditing.measure import measured
    from noisegate_evaluate.auditing.run import audit

    def plain(name: str, epsilon: float) -> Callable[[], Any]:
        return lambda: audit(name, epsilon=epsilon, runs=SLOW.get(name, runs))

    def broken(bug: planted.Bug, name: str, count: int) -> Callable[[], Any]:
        def run() -> Any:
            with bug():
                return audit(name, epsilon=1.0, runs=count)

        return run

    def choice(score: Callable[[Any], float]) -> Callable[[], Any]:
        return lambda: measured(
            *planted.choices(score, epsilon=1.0, runs=1000), kind="guesses", chance=1e-4
        )

    def stream(epsilon: float) -> Any:
        return measured(
            *periods.runs(epsilon, runs or 400), kind="releases", chance=1e-4
        )

    def broken_stream() -> Any:
        with periods.priced_as_one_period():
            return stream(1.0)

    names = sorted(name for name in {*METHODS, "discover"} if name not in SLOW)
    found = {
        f"{name} @ {epsilon:g}": plain(name, epsilon)
        for epsilon in epsilons
        for name in [*names, *SLOW]
    }
    found |= {
        f"stream of {periods.PERIODS} periods @ {one:g}": partial(stream, one)
        for one in epsilons
    }
    found["planted: priced as one period (stream)"] = broken_stream
    for name, bugs, count in (
        ("dp-merf", planted.ON_SUMS, 160),
        ("dp-llm", planted.ON_GRADIENTS, 8),
        ("linked", planted.ON_FAMILIES, 40),
    ):
        found |= {
            f"planted: {bug} ({name})": broken(bugs[bug], name, count) for bug in bugs
        }
    found["planted: another sensitivity (mutual information over entropies)"] = choice(
        planted.normalised
    )
    found["the same with plain mutual information"] = choice(planted.mutual_information)
    for name in ("pairwise", "dp-merf"):
        found[f"{name}, one run with 400 canaries @ 4"] = lambda name=name: audit(
            name, epsilon=4.0, by="one-run"
        )
    found["pairwise, samples alone @ 4"] = lambda: audit(
        "pairwise", epsilon=4.0, by="samples"
    )
    return found


def write_page(figures: dict[str, Row]) -> None:
    """Writes the table into the page, planted bugs last."""
    order = sorted(figures, key=lambda name: ("planted" in name, name))
    lines = markdown_table(HEADINGS, [_cells(name, figures[name]) for name in order])
    text = filled(PAGE.read_text("utf-8"), "\n".join(lines), "figures")
    PAGE.write_text(text, "utf-8")


def _cells(name: str, figures: Row) -> list[str]:
    low, high = figures["noise"]
    noise = "not measured" if high is None or high > 1e9 else f"{low:.3f} to {high:.3f}"
    bound = f"{figures['lower_bound']:.3g}"
    if figures["lower_bound"] > figures["claim"]:
        bound = f"**{bound}**"
    return [
        name,
        f"{figures['claim']:.3g}",
        bound,
        f"{figures['from_noise']:.3g}",
        f"{figures['from_guesses']:.3g}",
        noise,
        str(figures["runs"]),
        figures["verdict"],
    ]


def main() -> int:
    """Runs the audits that are asked for; 1 if a method exceeds its claim or a planted bug does not, else 0."""
    options = read_options(
        __doc__,
        only=Option(
            kind=str, default=[], is_list=True, help="names of rows, or parts of them"
        ),
        epsilon=[0.5, 1.0, 4.0],
        runs=optional(int),
        table=False,
    )
    # OpenDP's models are compiled anew in every run, which this spares in part.
    os.environ.setdefault(
        "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "noisegate-jax")
    )
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    sys.path.insert(0, str(HERE))
    figures = read_json(FIGURES, {})
    audits = {} if options.table else rows(options.epsilon, options.runs)
    for name, run in audits.items():
        if options.only and not any(part in name for part in options.only):
            continue
        start = time.monotonic()
        row = run().to_json()
        for interval in ("noise", "along"):
            row[interval] = [row[interval][0], min(row[interval][1], 1e10)]
        figures[name] = row | {"seconds": round(time.monotonic() - start, 1)}
        print(markdown_row(_cells(name, figures[name])), flush=True)
        write_json(FIGURES, dict(sorted(figures.items())), indent=1)
    write_page(figures)
    wrong = [
        name
        for name, found in figures.items()
        if (found["lower_bound"] > found["claim"]) != ("planted" in name)
    ]
    print("\n".join(f"not as it should be: {name}" for name in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
