"""Figure 5 of DP-LLM: accuracy on MNIST by ε, by the number of maps M and by the dimensions D' of the projection.

    python benchmarks/dp_llm/figure_5.py --data DIR --out OUT [--panels epsilon maps projection]
        [--kinds private public] [--epsilon 2] [--maps 10 30] [--projection 300 0] [--epochs 20] [--seeds 1]
        [--device cuda] [--picture FILE.png] [--json FILE] [--as-it-stands]

Private rows have the authors' settings (`settings.paper` of expected.toml), public ones the same without sampling,
clipping or noise (ε = ∞; `without_privacy`). What is trained is kept in OUT and not trained again: stop and start as
you like, and ask for --as-it-stands to see what is there. Fewer than 20 epochs is a reduced schedule, and says so.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import (
    choice,
    choices,
    needed,
    option,
    optional,
    read_options,
)
from harness.printing import print_table, run_main
from harness.results import write_json
from maps import PAGE, Setup, prepared
from rich.console import Console
from rich.progress import Progress

CURVES = PAGE["figure_5"]
PANELS = ("epsilon", "maps", "projection")
KINDS = {"private": 2.0, "public": math.inf}
Rows = Mapping[tuple[str, Setup], Sequence[float]]


def main() -> int:
    """Runs what is asked for; 0 when no full row misses the paper's, 1 when one does, 2 when it cannot run."""
    options = read_options(
        __doc__,
        data=needed(Path),
        out=needed(Path),
        panels=choices(PANELS, text="which to run"),
        kinds=choices(tuple(KINDS), list(KINDS), "which curves to run"),
        epsilon=CURVES["epsilon"],
        maps=option(CURVES["maps"], "rows of the second panel"),
        projection=option(CURVES["projection"], "of the third; 0: none"),
        epochs=CURVES["epochs"],
        seeds=1,
        device=choice(("cpu", "cuda")),
        as_it_stands=option(False, "train nothing, show what is in OUT"),
        picture=optional(Path, "draw the curves into this PNG"),
        json=optional(Path),
    )
    console = Console(width=120)
    rows = _accuracies(options, console)
    met = _print(rows, options.epochs)
    if options.picture:
        _draw(rows, options)
    if options.json:
        content = [
            {
                "panel": panel,
                **asdict(setup),
                "epsilon": _number(setup.epsilon),
                "accuracy": found,
            }
            for (panel, setup), found in rows.items()
        ]
        write_json(options.json, {"rows": content})
    return 0 if met else 1


def setups(
    panels: Sequence[str],
    kinds: Sequence[str],
    epochs: int,
    values: Mapping[str, Any] = CURVES,
) -> Iterator[tuple[str, Setup]]:
    """Yields the rows of some panels, of seed 0; `values` has what each panel varies."""
    start = Setup(epsilon=2.0, epochs=epochs)
    for panel in panels:
        for value in values[panel]:
            for kind in kinds:
                setup = replace(
                    start,
                    epsilon=KINDS[kind],
                    **{panel: value or None} if panel != "epsilon" else {},
                )
                if panel == "epsilon" and kind == "private":
                    setup = replace(setup, epsilon=value)
                if (
                    panel != "epsilon"
                    or kind == "private"
                    or value == values[panel][-1]
                ):
                    yield panel, setup


def _accuracies(options: argparse.Namespace, console: Console) -> Rows:
    """Returns the accuracies of each row that is there, one for each seed."""
    rows: dict[tuple[str, Setup], list[float]] = {}
    wanted = list(setups(options.panels, options.kinds, options.epochs, vars(options)))
    with Progress(console=console, transient=True) as progress:
        whole, part = (
            progress.add_task("rows", total=len(wanted) * options.seeds),
            progress.add_task("steps"),
        )
        for seed in range(options.seeds):
            for panel, first in wanted:
                setup = replace(first, seed=seed)
                if (
                    not options.as_it_stands
                    or (options.out / f"{setup.name}.json").exists()
                ):

                    def report(done: int, steps: int) -> None:
                        progress.update(part, completed=done, total=steps)

                    told = prepared(
                        setup, options.data, options.out, report, options.device
                    ).told
                    rows.setdefault((panel, first), []).append(told["accuracy"])
                progress.advance(whole)
    return rows


def _print(rows: Rows, epochs: int) -> bool:
    """Prints our rows beside the paper's; returns whether each full row is at least within its spread."""
    title = "MNIST: accuracy on the 10,000 test images, ± two standard deviations over seeds"
    if epochs != CURVES["epochs"]:
        title += f" (reduced schedule: {epochs} of {CURVES['epochs']} epochs)"
    met = True
    lines = []
    for (panel, setup), found in rows.items():
        printed = _printed(setup)
        shown = "" if printed is None else f"{printed['accuracy']:.3f}"
        if printed and "spread" in printed:
            shown += f" ± {printed['spread']:.3f}"
        if printed and epochs == CURVES["epochs"]:
            met &= statistics.fmean(found) >= printed["accuracy"] - printed.get(
                "spread", 0.004
            )
        private = (
            f"{setup.epsilon:g}" if math.isfinite(setup.epsilon) else "∞ (no privacy)"
        )
        dimensions = str(setup.projection or "none")
        lines.append(
            [panel, private, setup.maps, dimensions, len(found), _mean(found), shown]
        )
    headings = ["panel", "ε", "M", "D'", "seeds", "accuracy", "the paper"]
    print_table(title, headings, lines, n_left=0, width=120)
    if not rows:
        print("Nothing has been run yet: leave --as-it-stands out.")
    return met


def _printed(setup: Setup) -> Mapping[str, Any] | None:
    here = setup.epsilon, setup.maps, setup.projection or 0
    return next(
        (
            row
            for row in CURVES["paper"]
            if (row["epsilon"], row["maps"], row["projection"]) == here
        ),
        None,
    )


def _mean(found: Sequence[float]) -> str:
    spread = f" ± {2 * statistics.stdev(found):.4f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.4f}{spread}"


def _number(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _draw(rows: Rows, options: argparse.Namespace) -> None:
    """Draws the panels side by side: accuracy with privacy, orange, and without, blue, as in the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(options.panels), 3.4), layout="constrained")
    for axes, panel in zip(
        figure.subplots(1, len(options.panels), squeeze=False)[0],
        options.panels,
        strict=True,
    ):
        for kind, colour in (("private", "tab:orange"), ("public", "tab:blue")):
            finite = kind == "private"
            chosen = [
                (s, f)
                for (p, s), f in rows.items()
                if p == panel and math.isfinite(s.epsilon) == finite
            ]
            if panel == "epsilon" and kind == "public":
                for _, found in chosen:
                    axes.axhline(
                        statistics.fmean(found), color=colour, label="no privacy"
                    )
                continue
            points = [
                (getattr(s, panel), f)
                for s, f in chosen
                if getattr(s, panel) is not None
            ]
            spreads = [2 * statistics.stdev(f) if len(f) > 1 else 0 for _, f in points]
            means = [statistics.fmean(f) for _, f in points]
            label = (
                "ε on the axis"
                if panel == "epsilon"
                else "ε = 2"
                if kind == "private"
                else "no privacy"
            )
            axes.errorbar(
                [x for x, _ in points],
                means,
                spreads,
                color=colour,
                marker="o",
                label=label,
            )
            for setup, found in chosen:
                if getattr(setup, panel) is None:
                    axes.axhline(
                        statistics.fmean(found),
                        color=colour,
                        linestyle="--",
                        label=f"{label}, no projection",
                    )
        axes.set_xscale("log")
        axes.set_xlabel(
            {"epsilon": "ε", "maps": "M: maps of each class", "projection": "D'"}[panel]
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.axes[0].set_ylabel("accuracy")
    reduced = (
        ""
        if options.epochs == CURVES["epochs"]
        else f", {options.epochs} of {CURVES['epochs']} epochs"
    )
    figure.suptitle(f"DP-LLM on MNIST, δ = 1e-5{reduced}", fontsize=10)
    figure.savefig(options.picture, dpi=110)


if __name__ == "__main__":
    run_main(main)
