"""Total variation distances between marginals of two tables, and rules of real records that synthetic ones break."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from noisegate.app.drafts.dependencies import MAX_COLUMNS, Sum
from noisegate.app.drafts.rules import find_rules, numbers_by_column
from noisegate.errors import DataError, OptionError
from noisegate.records import Rows
from noisegate.schema import Column, Constraint, Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import CAVEAT, MetricResult, metric
from noisegate_evaluate.reading import cells, read_rows

Counts: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Records in each cell of a marginal, for two tables."""

# Above this many cells the ones that occur are renumbered first, so that memory follows the rows and not the cells.
_DENSE_CELLS = 1 << 20
_MAX_ATTEMPTS = 50  # a subset; nearly all of 10^20 subsets come up in as many


@dataclass(frozen=True, kw_only=True)
class OrderDistance:
    """Distances over the marginals of one order, which is their number of columns."""

    order: int
    """Number of columns in each marginal."""
    mean: float
    """Average total variation distance, in [0, 1]."""
    largest: float
    """Largest total variation distance."""
    largest_columns: tuple[str, ...]
    """The columns of the marginal with the largest distance."""
    sampling: float
    """Expected ``mean`` if both tables were samples of one distribution (the sampling error)."""
    used: int
    """Number of marginals that were compared."""
    total: int
    """Number of all marginals of this order."""

    @property
    def beyond_sampling(self) -> float:
        """Part of ``mean`` that the sampling error does not explain.

        It is √(mean² − sampling²), because the squares of independent errors add up; 0 if ``mean`` is smaller.
        """
        return math.sqrt(max(self.mean**2 - self.sampling**2, 0.0))

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values."""
        return {
            "order": self.order,
            "mean_total_variation": self.mean,
            "sampling_total_variation": self.sampling,
            "largest_total_variation": self.largest,
            "largest_columns": list(self.largest_columns),
            "marginals_used": self.used,
            "marginals_total": self.total,
        }


@dataclass(frozen=True, kw_only=True)
class MarginalReport:
    """Distances between the marginals of two tables.

    The order of a marginal is its number of columns. The distance of two marginals is the total variation distance:
    half the sum of the absolute differences of the cells' shares, in [0, 1].
    """

    orders: tuple[OrderDistance, ...]
    """Distances of each order; an order above the number of columns is left out."""
    bins: int
    """Number of equal-width bins of each numeric column."""
    seed: int
    """Seed of the subset of marginals, for orders with too many."""
    rows: tuple[int, int]
    """Number of records in the synthetic and in the real table."""

    @property
    def drawn_too_few(self) -> float:
        """Sampling error of single columns if there are fewer than half as many synthetic as real records; else 0."""
        drawn, real = self.rows
        return (
            0.0
            if 2 * drawn >= real
            else self.orders[0].sampling * math.sqrt(real / (drawn + real))
        )

    def order(self, order: int) -> OrderDistance:
        """Returns the distances of one order; raises a KeyError if they were not computed."""
        return {entry.order: entry for entry in self.orders}[order]

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with a statement that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "bins": self.bins,
            "seed": self.seed,
            "rows": list(self.rows),
            "orders": [entry.to_json() for entry in self.orders],
        }


@dataclass(frozen=True, kw_only=True)
class ColumnShares:
    """The share of rows in each cell of a column, the last two missing and outside, in two tables."""

    column: Column
    real: np.ndarray
    synthetic: np.ndarray
    distance: float


def column_shares(
    synthetic: pa.Table, real: pa.Table, column: Column, schema: Schema, *, bins: int
) -> ColumnShares:
    """Returns one column of two tables that are not empty; numbers and dates in equal-width bins of the bounds."""
    both = (cells(table, column, schema, bins=bins) for table in (synthetic, real))
    ours, theirs = (np.bincount(found.codes, minlength=found.size) for found in both)
    shares = ours / ours.sum()
    real_shares = theirs / theirs.sum()
    return ColumnShares(
        column=column,
        real=real_shares,
        synthetic=shares,
        distance=total_variation(ours, theirs),
    )


def marginal_distances(
    synthetic: pa.Table,
    real: pa.Table,
    schema: Schema,
    *,
    orders: Sequence[int] = (1, 2, 3),
    bins: int = 20,
    max_subsets: int | None = 120,
    seed: int = 0,
) -> MarginalReport:
    """Computes the average total variation distance over all marginals of each order.

    Numeric and date columns are divided into equal-width bins between the bounds of the schema, so the bins do not
    depend on either table. Missing values have a separate bin. Values that do not fit the schema have
    another one. Columns that are not in the schema are ignored.

    Args:
        synthetic: The synthetic table.
        real: The real table.
        schema: The schema of both.
        orders: Numbers of columns of the marginals. All marginals of orders 1 and 2 are always compared.
        bins: Number of bins of a numeric or date column.
        max_subsets: Largest number of marginals of each order above 2, drawn at random; None for all.
        seed: Seed of the draw of marginals.

    Raises:
        OptionError: an order, ``bins`` or ``max_subsets`` is below 1.
        DataError: a table has no rows or lacks a column.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    if max_subsets is not None and max_subsets < 1:
        raise OptionError(f"max_subsets is {max_subsets}; expected at least 1")
    if min(orders, default=1) < 1:
        raise OptionError(
            f"orders has {min(orders)}; expected numbers of columns, at least 1"
        )
    for name, table in (("synthetic", synthetic), ("real", real)):
        if not len(table):
            raise DataError(
                f"the {name} table has no rows; distances need at least one row in each table"
            )
    # The cells of all rows of a column, synthetic ones first, and how many there are.
    columns: list[tuple[np.ndarray, int]] = []
    for column in schema.columns:
        first, second = (
            cells(table, column, schema, bins=bins) for table in (synthetic, real)
        )
        columns.append((np.concatenate([first.codes, second.codes]), first.size))
    entries = []
    for order in sorted(set(orders)):
        subsets = _subsets(len(columns), order, max_subsets, seed)
        if subsets:
            counted = {
                tuple(schema.names[i] for i in subset): cell_counts(
                    [columns[i] for i in subset], len(synthetic)
                )
                for subset in subsets
            }
            total = math.comb(len(columns), order)
            entries.append(order_distance(counted, total=total))
    return MarginalReport(
        orders=tuple(entries),
        bins=bins,
        seed=seed,
        rows=(len(synthetic), len(real)),
    )


def order_distance(
    counted: Mapping[tuple[str, ...], Counts], *, total: int | None = None
) -> OrderDistance:
    """Returns the distance of marginals, each with the counts of its cells in two tables; there are ``total``."""
    distances = {names: total_variation(*counts) for names, counts in counted.items()}
    worst = max(distances, key=lambda names: distances[names])
    return OrderDistance(
        order=len(worst),
        mean=float(np.mean(list(distances.values()))),
        largest=distances[worst],
        largest_columns=worst,
        sampling=float(
            np.mean([expected_distance(*counts) for counts in counted.values()])
        ),
        used=len(distances),
        total=len(distances) if total is None else total,
    )


def total_variation(left: np.ndarray, right: np.ndarray) -> float:
    """Returns half the sum of the absolute differences of the relative frequencies of two counts of the same cells."""
    return float(0.5 * np.abs(left / left.sum() - right / right.sum()).sum())


def expected_distance(left: np.ndarray, right: np.ndarray) -> float:
    """Returns the mean total variation of two tables with as many records, dealt at random from the records of both.

    Of c records in a cell a share q = a/(a + b) is dealt to the left, X of them with the hypergeometric mean c·q, and
    the relative frequencies differ by |X − c·q|·(1/a + 1/b). Its mean absolute deviation is about de Moivre's of the
    binomial, 2·(m + 1)·C(c, m + 1)·q^(m+1)·(1 − q)^(c−m) with m = ⌊c·q⌋, times the root of the correction for a finite
    population.

    Examples:
        >>> import numpy as np
        >>> round(expected_distance(np.array([30, 10]), np.array([3, 1])), 3)  # mostly the few records on the right
        0.174
        >>> expected_distance(np.array([30, 0]), np.array([4, 0]))
        0.0
    """
    from scipy.special import gammaln, xlog1py, xlogy

    dealt = float(left.sum())
    rows = float(left.sum() + right.sum())
    share = dealt / rows
    counts, times = np.unique((left + right)[left + right > 0], return_counts=True)
    counts = counts.astype(np.float64)
    low = np.floor(counts * share)
    ways = gammaln(counts + 1) - gammaln(low + 1) - gammaln(counts - low)
    deviation = 2 * np.exp(ways + xlogy(low + 1, share) + xlog1py(counts - low, -share))
    finite = np.sqrt((rows - counts) / max(rows - 1, 1))
    return float(
        0.5 * (times * deviation * finite).sum() * (1 / dealt + 1 / (rows - dealt))
    )


def _subsets(
    columns: int, order: int, most: int | None, seed: int
) -> list[tuple[int, ...]]:
    if order <= 2 or most is None or math.comb(columns, order) <= most:
        return list(itertools.combinations(range(columns), order))
    generator = np.random.default_rng([seed, order])
    drawn: set[tuple[int, ...]] = set()
    # Nearly all of them would be drawn by chance only after many attempts: what then lacks is taken in their order.
    for _ in range(_MAX_ATTEMPTS * most):
        if len(drawn) == most:
            return sorted(drawn)
        drawn.add(
            tuple(sorted(generator.choice(columns, order, replace=False).tolist()))
        )
    others = (
        one for one in itertools.combinations(range(columns), order) if one not in drawn
    )
    drawn.update(itertools.islice(others, most - len(drawn)))
    return sorted(drawn)


def cell_counts(columns: Sequence[tuple[np.ndarray, int]], split: int) -> Counts:
    """Records in each cell of a marginal of (codes, size): of the first ``split`` rows, and of the others."""
    codes, size = columns[0]
    for more, its_size in columns[1:]:
        codes = codes * its_size + more
        size = size * its_size
        if size > _DENSE_CELLS:
            # Renumbering after each column also keeps the mixed-radix code far from int64 overflow.
            present, codes = np.unique(codes, return_inverse=True)
            size = len(present)
    return np.bincount(codes[:split], minlength=size), np.bincount(
        codes[split:], minlength=size
    )


MOST_ROWS = 20_000
_MAX_PRINTED = 5  # rules that are broken
WORTH_TELLING = 0.01
"""A rule is reported if the share of records that break it is larger by this among synthetic records than among real
ones."""


@metric("rules", "tables")
@dataclass(frozen=True, kw_only=True)
class RulesKept(MetricResult):
    """Rules that (nearly) all real records keep to, as `noisegate schema init` finds them, in synthetic records.

    ``found`` is how many there are; ``broken`` those that synthetic records break more often, the worst first, each
    (rule, part of the real records that breaks it, part of the synthetic ones).
    """

    PRINTED: ClassVar = {"rules of real records kept": "{it.kept_count} of {it.found}"}
    LISTED: ClassVar = "worst_texts"
    found: int
    broken: Sequence[tuple[str, float, float]]

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> RulesKept | None:
        """Returns the figures; None where real records show no rule, or have too many columns to look for some."""
        # Rules are found in the columns of the file; those that relations leave out are among them.
        schema: Schema = replace(more["schema"], relations=())
        if len(schema.names) > MAX_COLUMNS:
            return None
        synthetic_rows = read_rows(synthetic, schema, MOST_ROWS)
        real_rows = read_rows(real, schema, MOST_ROWS)
        rules = find_rules(real_rows, schema)
        shares = [
            (
                str(rule),
                _broken_share(rule, real_rows, schema),
                _broken_share(rule, synthetic_rows, schema),
            )
            for rule in (*rules.constraints, *rules.sums)
        ]
        if not shares:
            return None
        broken = [
            (rule, real_share, synthetic_share)
            for rule, real_share, synthetic_share in shares
            if synthetic_share > real_share + WORTH_TELLING
        ]
        return cls(found=len(shares), broken=sorted(broken, key=lambda rule: -rule[2]))

    @property
    def kept_count(self) -> int:
        """How many rules synthetic records break no more often than real ones."""
        return self.found - len(self.broken)

    @property
    def worst_texts(self) -> dict[str, str]:
        """Of the rules that are broken most, which parts of the records break each."""
        return {
            f"broken: {rule}": f"{synthetic_part:.1%} for {real_part:.1%}"
            for rule, real_part, synthetic_part in self.broken[:_MAX_PRINTED]
        }


def _broken_share(rule: Constraint | Sum, rows: Rows, schema: Schema) -> float:
    """Returns the share of the records that break a rule; 0 of no records."""
    if not len(rows):
        return 0.0
    if isinstance(rule, Sum):
        is_broken = rule.broken(numbers_by_column(rows, schema))
    else:
        is_broken = rule.broken(rows, schema.file_layout, schema.missing_values)
    return float(np.mean(is_broken))
