"""Figure 1 of DP-HP: how well Hermite and random Fourier features stand for the Gaussian kernel, by their number.

    python benchmarks/dp_hp/figure_1.py [--points 300] [--draws 100] [--plot FILE.png] [--json FILE]

The error is the mean of |k(x, y) − ⟨φ(x), φ(y)⟩| over all pairs of two samples; that of random features is averaged
over draws of the frequencies. Three settings: the paper's figure; that of its Proposition B.1, with the bounds beside;
and the interval [0, 1] that the library's columns live in. Everything is simulated: no private data, no noise.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
from harness.options import option, optional, read_options
from harness.printing import print_table
from harness.results import write_json
from papers.mmd_bounds import hermite_kernel_error, random_fourier_kernel_error

from noisegate_papers.queries.hermite import Series, hermite, rho_of, shortest_series

HERE = Path(__file__).parent
ORDERS = tuple(range(160))
RANDOM = (2, 4, 6, 10, 16, 20, 30, 40, 60, 100, 160, 250, 500)
SHOWN = (1, 2, 3, 4, 6, 10, 16, 20, 30, 40, 60, 100, 160, 250, 500)
Numbers = npt.NDArray[np.float64]
Curve = dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Two samples, a kernel, and whether Proposition B.1 speaks of them."""

    title: str
    one: Numbers
    two: Numbers
    length_scale: float
    bounded: bool = False
    interval: bool = False

    @property
    def kernel(self) -> Numbers:
        """exp(−(x − y)²/2ℓ²) of all pairs."""
        square: Numbers = np.square(self.one[:, None] - self.two)
        return np.exp(-square / (2 * self.length_scale**2))

    def error(self, one: Numbers, two: Numbers) -> float:
        """Mean absolute error over all pairs, of features (points, features) of the two samples."""
        return float(np.abs(self.kernel - one @ two.T).mean())


def main() -> int:
    """Runs the benchmark; 0 when the figure that the paper states is found, else 1."""
    options = read_options(
        __doc__,
        points=option(300, "in each of the two samples; the paper has 100"),
        draws=option(100, "of the random frequencies"),
        plot=optional(Path),
        json=optional(Path),
    )
    settings = _settings(options.points)
    curves = [_curves(setting, options.draws) for setting in settings]
    for setting, curve in zip(settings, curves, strict=True):
        _print(setting, curve)
    expected = tomllib.loads((HERE / "expected.toml").read_text())["figure_1"]
    ratio = curves[0]["Hermite"][3] / curves[0]["random Fourier"][500]
    met = abs(ratio - expected["value"]) <= expected["tolerance"]
    print(
        f"Error of order 2 / error of 500 random features: {ratio:.2f}, expected {expected['value']:g} ± "
        f"{expected['tolerance']:g}: {'pass' if met else 'miss'}. {expected['source']}."
    )
    if options.plot:
        _plot(options.plot, settings, curves)
    content: dict[str, Any] = {
        setting.title: curve for setting, curve in zip(settings, curves, strict=True)
    }
    content |= {"order 2 / 500 random features": ratio, "met": met}
    write_json(options.json, content)
    return 0 if met else 1


def _settings(points: int) -> list[Setting]:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, points))
    both = np.concatenate([x, y + 1])
    median = float(
        np.median(np.abs(both[:, None] - both)[np.triu_indices(len(both), 1)])
    )
    unit = random.uniform(size=(2, points))
    return [
        Setting(
            title="Figure 1: N(0, 1) and N(1, 1)", one=x, two=y + 1, length_scale=median
        ),
        Setting(
            title="B.1: N(0, 1) twice",
            one=x,
            two=y,
            length_scale=math.sqrt(4 / 3),
            bounded=True,
        ),
        Setting(
            title="[0, 1] twice",
            one=unit[0],
            two=unit[1],
            length_scale=0.1,
            interval=True,
        ),
    ]


def _curves(setting: Setting, draws: int) -> dict[str, Curve]:
    """Returns the error by number of features, for each kind."""
    rho = rho_of(setting.length_scale)
    kinds = {
        "Hermite": [
            hermite(sample, order=ORDERS[-1], rho=rho)
            for sample in (setting.one, setting.two)
        ]
    }
    if setting.interval:
        best = shortest_series(setting.length_scale)
        series = Series(
            length_scale=best.length_scale,
            order=ORDERS[-1],
            origin=best.origin,
            stretch=best.stretch,
        )
        kinds["Hermite, centred and stretched"] = [
            series(setting.one),
            series(setting.two),
        ]
    curves = {
        kind: {
            order + 1: setting.error(one[:, : order + 1], two[:, : order + 1])
            for order in ORDERS
        }
        for kind, (one, two) in kinds.items()
    }
    curves["random Fourier"] = _random_curve(setting, draws)
    if setting.bounded:
        curves["B.1, Hermite"] = {
            order + 1: hermite_kernel_error(order) for order in ORDERS
        }
        curves["B.1, random, as printed"] = {count: 1 / (8 * count) for count in RANDOM}
        curves["from below, random"] = {
            count: random_fourier_kernel_error(count)[0] for count in RANDOM
        }
        curves["from above, random"] = {
            count: random_fourier_kernel_error(count)[1] for count in RANDOM
        }
    return curves


def _random_curve(setting: Setting, draws: int) -> Curve:
    random = np.random.default_rng(1)
    errors = dict.fromkeys(RANDOM, 0.0)
    for _ in range(draws):
        omega = random.standard_normal(max(RANDOM) // 2) / setting.length_scale
        one, two = (
            np.exp(1j * sample[:, None] * omega)
            for sample in (setting.one, setting.two)
        )
        for count in RANDOM:
            half = count // 2
            pairs = [
                np.concatenate([part.real, part.imag], axis=1)
                for part in (one[:, :half], two[:, :half])
            ]
            errors[count] += (
                setting.error(*(pair / math.sqrt(half) for pair in pairs)) / draws
            )
    return errors


def _print(setting: Setting, curves: Mapping[str, Curve]) -> None:
    rows = [
        [
            count,
            *(
                f"{curve[count]:.2e}" if count in curve else ""
                for curve in curves.values()
            ),
        ]
        for count in SHOWN
    ]
    title = f"{setting.title}, length scale {setting.length_scale:.3g}"
    print_table(title, ["features", *curves], rows, n_left=0)


def _plot(
    path: Path, settings: Sequence[Setting], curves: Sequence[Mapping[str, Curve]]
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    styles = {
        "Hermite": ("#c1440e", "-"),
        "Hermite, centred and stretched": ("#1b7f5c", "-"),
        "random Fourier": ("#2b5c9e", "-"),
        "B.1, Hermite": ("#c1440e", ":"),
        "B.1, random, as printed": ("#777777", ":"),
        "from below, random": ("#2b5c9e", "--"),
        "from above, random": ("#2b5c9e", ":"),
    }
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, setting, found in zip(
        figure.subplots(1, 3, sharey=True), settings, curves, strict=True
    ):
        for kind, curve in found.items():
            colour, line = styles[kind]
            axes.loglog(
                list(curve), list(curve.values()), line, color=colour, label=kind
            )
        axes.set_title(f"{setting.title}, ℓ = {setting.length_scale:.3g}", fontsize=10)
        axes.set_xlabel("features")
        axes.set_ylim(1e-6, 1)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower left" if setting.interval else "lower right")
    figure.axes[0].set_ylabel("mean absolute error of the kernel")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
