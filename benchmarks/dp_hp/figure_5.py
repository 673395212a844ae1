"""Figure 5 of DP-HP: random Fourier and Hermite features of four points, at a small and at a large length scale.

    python benchmarks/dp_hp/figure_5.py [--plot FILE.png] [--json FILE]

At each length scale, ℓ = 0.71 and 7.07 as in the paper: how much random features of a point vary, and from which order
on all Hermite features of all points stay below 0.05. The paper states orders of about 20 and 5. Four points drawn from
a standard normal with a fixed seed; no private data.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
from harness.options import optional, read_options
from harness.printing import print_table
from harness.results import write_json

from noisegate_papers.queries.hermite import hermite, rho_of

HERE = Path(__file__).parent
SCALES = (0.71, 7.07)
FEATURES, POINTS, SMALL = 100, 4, 0.05
Numbers = npt.NDArray[np.float64]


def main() -> int:
    """Prints the page; 0 when both orders are at most what the paper states, else 1."""
    options = read_options(
        __doc__,
        plot=optional(Path),
        json=optional(Path),
    )
    points = np.random.default_rng(2).standard_normal(POINTS)
    features = {scale: features_of(points, scale) for scale in SCALES}
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))[
        "figure_5"
    ]
    met = True
    scales = []
    rows = []
    for scale, paper in zip(SCALES, expected["orders"], strict=True):
        random, series = features[scale]
        order = settled(series)
        deviation = float(random.std(axis=0).mean())
        met &= order <= paper
        scales.append(
            {
                "length_scale": scale,
                "random_deviation": deviation,
                "order": order,
                "paper": paper,
            }
        )
        rows.append([f"{scale:g}", f"{deviation:.3f}", order, f"about {paper} or less"])
    headings = ["ℓ", "deviation of a random feature between points"]
    headings += ["Hermite features below 0.05 from order", "the paper"]
    title = f"{POINTS} points from a standard normal, {FEATURES} features"
    print_table(title, headings, rows, n_left=0)
    print(f"{expected['source']}: {'met' if met else 'missed'}")
    write_json(options.json, {"scales": scales, "met": met})
    if options.plot:
        _plot(options.plot, features)
    return 0 if met else 1


def features_of(points: Numbers, length_scale: float) -> tuple[Numbers, Numbers]:
    """Returns random Fourier features, √2·cos(ωx + b) as the paper draws them, and Hermite features, (points, 100)."""
    random = np.random.default_rng(5)
    omega, phase = (
        random.standard_normal(FEATURES) / length_scale,
        random.uniform(0, 2 * np.pi, FEATURES),
    )
    series = hermite(points, order=FEATURES - 1, rho=rho_of(length_scale))
    return np.sqrt(2) * np.cos(np.outer(points, omega) + phase), series


def settled(series: Numbers) -> int:
    """Returns the order from which on no feature of any point is 0.05 or more."""
    large = np.flatnonzero((np.abs(series) >= SMALL).any(axis=0))
    return int(large[-1]) + 1 if large.size else 0


def _plot(path: Path, features: dict[float, tuple[Numbers, Numbers]]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(features))
    for column, (scale, kinds) in enumerate(features.items()):
        for row, (name, values) in enumerate(
            zip(("random Fourier", "Hermite"), kinds, strict=True)
        ):
            axes[row, column].plot(values.T, linewidth=1)
            axes[row, column].set_title(f"{name}, ℓ = {scale:g}")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
