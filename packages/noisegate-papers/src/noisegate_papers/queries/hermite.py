"""Hermite features of one number: the truncated Mehler series of the Gaussian kernel.

Sum and product kernels of Hermite features: which columns are multiplied with which,
and with what weight.

A group of columns with d coordinates and supremum s has noise of energy σ²·Δ²·d/w² when
its vector is multiplied by w, where Δ² = Σ w²·s²: the total is least at w² ∝ √d/s, with
equal columns the paper's 1/√D. Likewise between questions, whose shares are ∝ Δ·√d.

DP-HP (`noisegate_papers.methods.dp_hp`), sections 3.1 and E. For ρ in (0, 1),
exp(−ρ/(1 − ρ²)·(x − y)²) = Σ_k φ_k(x)·φ_k(y), where ρ/(1 − ρ²) = 1/(2ℓ²) for the length
scale ℓ, and

    φ_0(x) = (1 − ρ²)^¼ · exp(−ρ/(1 + ρ)·x²),    φ_{k+1} = √(2ρ/(k + 1))·x·φ_k − ρ·√(k/(k + 1))·φ_{k−1}.

The feature vector of order C holds φ_0 … φ_C, whose norm is at most 1 (G-22). In
float64 the recursion is good to 10⁻¹² up to order 2,000 on [−1, 1].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema import Layout
from noisegate.schema.layout import Cells

MOST_ORDER = 2000


def rho_of(length_scale: float) -> float:
    """Returns the ρ in (0, 1) with ρ/(1 − ρ²) = 1/(2ℓ²), for a length scale ℓ from 10⁻⁴ to 10³ in units of x."""
    alpha = 1 / (2 * length_scale**2)
    # (−1 + √(1 + 4α²))/(2α), written so that nothing cancels.
    return 2 * alpha / (1 + math.sqrt(1 + 4 * alpha**2))


def hermite(
    values: npt.ArrayLike, *, order: int, rho: float
) -> npt.NDArray[np.float64]:
    """Returns φ_0 … φ_C of each value, (*shape, C + 1), with C = `order` (DP-HP, equation 91); `rho` as of `rho_of`."""
    x = np.asarray(values, dtype=np.float64)
    features = np.empty((*x.shape, order + 1))
    features[..., 0] = (1 - rho * rho) ** 0.25 * np.exp(-rho / (1 + rho) * x * x)
    if order:
        features[..., 1] = math.sqrt(2 * rho) * x * features[..., 0]
    for k in range(1, order):
        step = math.sqrt(2 * rho / (k + 1)) * x * features[..., k]
        features[..., k + 1] = (
            step - rho * math.sqrt(k / (k + 1)) * features[..., k - 1]
        )
    return features


@dataclass(frozen=True, kw_only=True)
class Series:
    """A truncated series for positions x in [0, 1], taken at (x − origin)·stretch: the same kernel for every stretch.

    A stretch that fits the interval needs far fewer terms (`shortest_series`). `length_scale` is ℓ, in units of the
    column's range, `order` C: the vector has C + 1 coordinates.
    """

    length_scale: float
    order: int
    origin: float = 0.5
    stretch: float = 1.0

    def __post_init__(self) -> None:
        if type(self.order) is not int or not 0 <= self.order <= MOST_ORDER:
            raise OptionError(
                f"order={self.order!r} must be a whole number from 0 to {MOST_ORDER}."
            )

    @property
    def rho(self) -> float:
        """ρ of the series."""
        return rho_of(self.length_scale * self.stretch)

    def __call__(self, positions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Returns the features of positions in [0, 1], (*shape, order + 1)."""
        moved = (np.asarray(positions, dtype=np.float64) - self.origin) * self.stretch
        return hermite(moved, order=self.order, rho=self.rho)

    @property
    def kept(self) -> float:
        """The least share of the kernel's norm² that the series keeps anywhere in [0, 1]: 1 without truncation."""
        return float(np.square(self(np.linspace(0, 1, 513))).sum(axis=1).min())


@cache
def shortest_series(length_scale: float, kept: float = 0.9) -> Series:
    """Returns the series of lowest order that keeps the share `kept` of the kernel's norm² all over [0, 1]."""
    # The paper takes x as it is; at ℓ² = 0.005 its order 100 keeps 0.69. Here order 11 keeps 0.9 of the same kernel.
    best: Series | None = None
    # About 1/ℓ terms are needed, best with a stretch near 1/√ℓ; longer scales need hardly any term at all.
    for stretch in np.geomspace(0.25, 64, 65).tolist():
        if not 5e-3 <= length_scale * stretch <= 1e3:
            continue
        half = np.linspace(0, stretch / 2, 257)
        most = min(400, MOST_ORDER if best is None else best.order)
        features = hermite(half, order=most, rho=rho_of(length_scale * stretch))
        enough = np.flatnonzero(np.square(features).cumsum(axis=1).min(axis=0) >= kept)
        if enough.size and (best is None or enough[0] < best.order):
            best = Series(
                length_scale=length_scale, order=int(enough[0]), stretch=stretch
            )
    if best is None:
        raise OptionError(
            f"length_scale={length_scale:g} is too small for a series of any use; give at least 0.005."
        )
    return best


MOST_STEPS = 4096  # a numeric column without steps of its own, or with more, is rounded to this many


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnTable:
    """The features of one column."""

    rows: npt.NDArray[np.float32]  # (values, width), read-only
    steps: (
        int | None
    )  # that a numeric range is cut into: values are 0 … steps, then missing if it may be

    @cached_property
    def squared_supremum(self) -> float:
        """Largest squared norm of a row."""
        return float(np.square(self.rows, dtype=np.float64).sum(axis=1).max())

    @property
    def width(self) -> int:
        """Length of a row."""
        return int(self.rows.shape[1])

    def over_cells(self, cells: Cells) -> npt.NDArray[np.float64]:
        """Returns the mean row of each cell of a numeric column, (cells, width): of its steps, or the nearest one."""
        assert self.steps is not None
        values = self.rows.astype(np.float64)
        running = np.vstack(
            [np.zeros(self.width), values[: self.steps + 1].cumsum(axis=0)]
        )
        first = np.rint(cells.low * self.steps).astype(np.intp)
        end = np.maximum(np.rint(cells.high * self.steps).astype(np.intp), first + 1)
        means = (running[end] - running[first]) / (end - first)[:, None]
        return np.vstack([means, values[-1:]]) if cells.missing else means


def numeric_table(
    series: Series, steps: int, *, missing: bool, reference: float | None = None
) -> ColumnTable:
    """Returns the Hermite features of a column whose range is cut into `steps`."""
    # A missing value has a coordinate of its own, as long as the longest of the other rows. The features of
    # `reference`, a public position, are subtracted, so that columns that stand there add nothing.
    rows = series(np.arange(steps + 1) / steps)
    if reference is not None:
        rows -= series(round(reference * steps) / steps)
    if missing:
        longest = math.sqrt(np.square(rows).sum(axis=1).max())
        rows = np.pad(rows, ((0, 1), (0, 1)))
        rows[-1, -1] = longest
    return ColumnTable(rows=_frozen(rows), steps=steps)


def compressed(table: ColumnTable, rank: int) -> ColumnTable:
    """Returns a numeric column's table with its rows projected on their `rank` strongest directions, public ones."""
    if rank >= table.width:
        return table
    directions = np.linalg.svd(table.rows.astype(np.float64), full_matrices=False)[2][
        :rank
    ]
    # Of two opposite directions, the one that more of the rows point along, so that machines agree.
    directions *= np.where(directions.sum(axis=1) < 0, -1.0, 1.0)[:, None]
    return ColumnTable(rows=_frozen(table.rows @ directions.T), steps=table.steps)


def column_tables(
    layout: Layout,
    series: Sequence[Series],
    *,
    reference: float | None = None,
    rank: int | None = None,
) -> tuple[ColumnTable, ...]:
    """Returns the table of each column, numeric ones first, by a series for each of these; equal ones share one."""

    @cache
    def table_of(one: Series, steps: int, missing: bool) -> ColumnTable:
        table = numeric_table(one, steps, missing=missing, reference=reference)
        return table if rank is None else compressed(table, rank)

    tables = []
    for column, one in zip(layout.numeric, series, strict=True):
        steps = MOST_STEPS
        if column.stepped:
            steps = min(column.last_rank, MOST_STEPS)
        tables.append(table_of(one, steps, column.missing))
    return (
        *tables,
        *(
            ColumnTable(rows=_frozen(np.eye(column.size)), steps=None)
            for column in layout.coded
        ),
    )


def _frozen(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    frozen = np.ascontiguousarray(rows, dtype=np.float32)
    frozen.setflags(write=False)
    return frozen
