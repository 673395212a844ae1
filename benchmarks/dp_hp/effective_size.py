"""Section 5.3 of DP-HP: how many synthetic images are of use, and how many real ones they are worth.

    python benchmarks/dp_hp/effective_size.py [--runs FILE ...] [--json FILE]

Each FILE is what `figure_3.py --json` wrote with --curve, that of real images, `--method real`, among them. Beside them
stand the curves of the papers' authors (`expected.toml`). Two numbers for each:

* levels off: the least number of images from which accuracy stays within a point of that with all of them. This is the
  "effective dataset size" of the paper, which reads it off its figure: 3,000 to 6,000 of 60,000 for DP-HP and DP-MERF.
* worth: with how many real images the classifiers reach the accuracy that all synthetic ones give.

Accuracies are of real test images, outside the guarantee.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, optional, read_options
from harness.results import write_json
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
Curve = Mapping[int, float]
"""Accuracy by the number of training images."""
REAL = "real"


def levels_off(curve: Curve, *, within: float = 0.01) -> int:
    """Returns the least number from which on no accuracy is further than `within` from that of the largest."""
    last, least = curve[max(curve)], max(curve)
    for number in sorted(curve, reverse=True):
        if abs(curve[number] - last) > within:
            break
        least = number
    return least


def worth(accuracy: float, real: Curve) -> float:
    """Returns the number of real images that first reach an accuracy; infinity where none of those tried do.

    Between two that were tried the curve is taken as straight in the logarithm of the number.
    """
    before: tuple[int, float] | None = None
    for number, reached in sorted(real.items()):
        if reached >= accuracy:
            if before is None:
                return float(number)
            share = (accuracy - before[1]) / (reached - before[1])
            return math.exp(math.log(before[0]) + share * math.log(number / before[0]))
        before = number, reached
    return math.inf


def curve_of(content: Mapping[str, Any]) -> Curve:
    """Returns the curve, mean over seeds, of what `figure_3.py --json` wrote."""
    runs = {int(number): of_number for number, of_number in content["curve"].items()}
    return {
        number: statistics.fmean(run["accuracy"] for run in of_number)
        for number, of_number in runs.items()
    }


def figures(curves: Mapping[str, Curve]) -> dict[str, dict[str, float | None]]:
    """Returns both numbers for each curve; None where there are no real images to compare with, or not enough."""
    found: dict[str, dict[str, float | None]] = {}
    for name, curve in curves.items():
        value = (
            worth(curve[max(curve)], curves[REAL])
            if REAL in curves and name != REAL
            else math.inf
        )
        found[name] = {
            "images": max(curve),
            "accuracy": curve[max(curve)],
            "levels off": levels_off(curve),
            "worth": round(value) if math.isfinite(value) else None,
        }
    return found


def main() -> int:
    """Prints both numbers for the authors' curves and ours."""
    options = read_options(
        __doc__,
        runs=Option(
            kind=Path,
            default=[],
            is_list=True,
            help="files of figure_3.py --curve --json",
        ),
        json=optional(Path),
    )
    published = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))[
        "curves"
    ]
    numbers = published["images"]
    found = {
        f"{data_set}, authors": figures(
            {
                name: dict(zip(numbers, values, strict=True))
                for name, values in published[data_set].items()
            }
        )
        for data_set in ("mnist", "fashion-mnist")
    }
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in options.runs]
    if contents:
        found["ours"] = figures(
            {content["method"]: curve_of(content) for content in contents}
        )
    page = Table(
        title="Images that are of use, and real images that they are worth",
        title_justify="left",
    )
    for heading in ("", "of", "images", "accuracy", "levels off at", "worth"):
        page.add_column(heading, justify="right")
    for source, rows in found.items():
        for name, row in rows.items():
            value = "" if row["worth"] is None else f"{row['worth']:,}"
            page.add_row(
                source,
                name,
                f"{row['images']:,}",
                f"{row['accuracy']:.3f}",
                f"{row['levels off']:,}",
                value,
            )
    Console().print(page)
    write_json(options.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
