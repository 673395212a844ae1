"""Tools for tests of your own feature maps and methods: simulated records, a gate, and checks of their contracts."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.gate.execution import made_up_records, map_execution
from noisegate.gate.gate import Gate
from noisegate.gate.sums import Engine, LocalEngine, Progress, SumTask, Totals
from noisegate.methods.method import Method
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget
from noisegate.queries.feature_map import CellMap, FeatureMap, PointMap, SharingMap
from noisegate.schema import EncodedTable, Layout, Schema
from noisegate.schema.decode import decode
from noisegate.schema.layout import numeric_cells

_ROUNDING = 2.0**-15


def made_up(layout: Layout, rows: int = 96, seed: int = 0) -> EncodedTable:
    """Simulates records that a schema allows. The first ones are extreme: bounds, missing values, last codes.

    >>> from noisegate import Schema
    >>> from noisegate.schema import Boolean
    >>> len(made_up(Schema((Boolean(name="ill"),)).layout, rows=5))
    5
    """
    records = made_up_records(layout, rows, np.random.default_rng(seed))
    for row, value in enumerate((0.0, 1.0)[:rows]):
        records.numeric[row] = value
        records.codes[row] = [value * (column.size - 1) for column in layout.coded]
    if rows > 2:
        records.numeric[2, [column.missing for column in layout.numeric]] = np.nan
    return records


class FakeGate(Gate):
    """A gate with simulated records, which keeps the exact sums in addition to the release.

    Its ε is so large that there is hardly any noise.

    Args:
        schema: Schema of the records.
        rows: Number of simulated records.
        options: Options of `Gate`.

    Attributes:
        made_up: The simulated records.
        exact: For each released query, its sum without noise, (dim, columns).

    Examples:
        >>> from noisegate import DPMERF, Schema
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import FakeGate
        >>> gate = FakeGate(Schema([Boolean(name="ill")]), rows=50)
        >>> release = DPMERF(frequencies=5).query(gate)
        >>> gate.exact["counts"].tolist(), release.values["counts"].shape
        ([[50.0]], (1, 1))
    """

    counted = False

    def __init__(
        self,
        schema: Schema,
        *,
        rows: int = 200,
        seed: int = 0,
        epsilon: float = 1000.0,
        **options: Any,
    ) -> None:
        self.made_up = made_up(schema.layout, rows, seed)
        self.exact: dict[str, npt.NDArray[np.float64]] = {}
        engine = _Keeping(self.exact)
        super().__init__(
            decode(self.made_up, schema),
            schema=schema,
            epsilon=epsilon,
            records=rows,
            engine=engine,
            **options,
        )


class _Keeping(Engine):
    def __init__(self, exact: dict[str, npt.NDArray[np.float64]]) -> None:
        self._exact = exact

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Returns the exact totals, and keeps them for the test, (dim, columns) each."""
        totals = LocalEngine(threads=1).sum(source, tasks, progress)
        self._exact |= {
            name: task.grid.restore(totals.sums[name]).T for name, task in tasks.items()
        }
        return totals


def check_feature_map(
    feature_map: FeatureMap,
    layout: Layout,
    *,
    tolerance: float = 1e-5,
    exact: bool = True,
) -> None:
    """Checks the contract of `FeatureMap`: facts, bound, independence of records, and agreement of the torch form.

    Args:
        feature_map: The map.
        layout: The layout of the records, as in `schema.layout`.
        tolerance: Largest difference between the averages by NumPy and by torch, for each coordinate.
        exact: Whether the vector of a record must have the same bits alone and among others, in every call. False if
            the gate has to find a way to compute it so, as for networks.

    Raises:
        AssertionError: if the contract is broken.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.queries.feature_map import Counts
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import check_feature_map
        >>> check_feature_map(Counts(), Schema([Boolean(name="ill")]).layout)
    """
    assert type(feature_map.dim) is int and feature_map.dim >= 1, (
        "dim is not a positive int"
    )
    assert type(feature_map.norm) is float and 0 < feature_map.norm < math.inf, (
        "norm is not a positive float"
    )
    assert type(feature_map.nonnegative) is bool, "nonnegative is not a bool"
    for seed in range(3):
        vectors = feature_map(made_up(layout, seed=seed))
        assert vectors.dtype == np.float32 and vectors.shape == (96, feature_map.dim), (
            "not float32 (rows, dim)"
        )
        assert np.isfinite(vectors).all(), "a number is not finite"
        longest = float(np.linalg.norm(vectors.astype(np.float64), axis=1).max())
        assert longest <= feature_map.norm * (1 + _ROUNDING), (
            f"a vector has norm {longest}, above {feature_map.norm}"
        )
        assert vectors.min() >= 0 or not feature_map.nonnegative, (
            "a coordinate is negative"
        )
    _check_independence(feature_map, layout, exact=exact)
    if isinstance(feature_map, PointMap) and not any(
        column.missing for column in layout.numeric
    ):
        _check_points(feature_map, layout, tolerance)
    if isinstance(feature_map, CellMap) and len(layout.numeric) < 16:
        _check_cells(feature_map, layout, tolerance)


def _check_independence(
    feature_map: FeatureMap, layout: Layout, *, exact: bool
) -> None:
    records = made_up(layout, seed=4)
    map_execution(
        "features", feature_map, layout, 32
    )  # as the gate would compute it; raises where there is no way
    together = feature_map(records)
    if exact:
        for row in range(len(records)):
            alone = feature_map(records.rows(slice(row, row + 1)))
            assert alone.tobytes() == together[row].tobytes(), (
                f"record {row} alone has another vector"
            )
    if isinstance(feature_map, SharingMap):
        values = feature_map.first_half(records)
        before = values.copy()
        assert feature_map.second_half(values).tobytes() == together.tobytes(), (
            "halves are not the whole"
        )
        assert values.tobytes() == before.tobytes(), (
            "the second half changes what the first gave"
        )


def _check_points(feature_map: PointMap, layout: Layout, tolerance: float) -> None:
    import torch

    records = made_up(layout, seed=7)
    records.numeric[:] = np.rint(records.numeric * 255) / 255
    points = torch.from_numpy(records.numeric.astype(np.float32)).requires_grad_()
    means = feature_map.of_points().means(points, 4)
    _check_means(means.detach().numpy(), feature_map, records, tolerance)
    means.square().sum().backward()  # type: ignore[no-untyped-call]
    assert points.grad is not None and bool(points.grad.isfinite().all()), (
        "gradients are not finite"
    )
    assert bool(points.grad.abs().sum() > 0), "gradients are zero"


def _check_cells(feature_map: CellMap, layout: Layout, tolerance: float) -> None:
    """Compares both forms on records whose numeric values are cells of one value."""
    import torch

    records, random, hot = made_up(layout, seed=8), np.random.default_rng(8), []
    for place, column in enumerate(layout.numeric):
        cells, missing = numeric_cells(column), np.isnan(records.numeric[:, place])
        atoms = np.flatnonzero(cells.low == cells.high)
        chosen = random.choice(atoms, len(records))
        records.numeric[:, place] = np.where(missing, np.nan, cells.low[chosen])
        hot.append(
            np.arange(cells.size)[:, None] == np.where(missing, cells.size - 1, chosen)
        )
    hot += [
        np.arange(column.size)[:, None] == records.codes[:, j]
        for j, column in enumerate(layout.coded)
    ]
    means = feature_map.of_cells(layout).means(
        [torch.from_numpy(one.astype(np.float32)) for one in hot], 4
    )
    _check_means(means.numpy(), feature_map, records, tolerance)


def _check_means(
    means: Any, feature_map: FeatureMap, records: EncodedTable, tolerance: float
) -> None:
    expected = feature_map(records).reshape(4, -1, feature_map.dim).mean(axis=1)
    apart = float(np.abs(means.T - expected).max())
    assert apart <= tolerance, f"the torch form is off by {apart}"


def check_method(
    method: Method, schema: Schema, *, budget: Budget | None = None, sample: bool = True
) -> None:
    """Checks the contract of `Method`: settings in JSON, a plan without data within its budget, release and model.

    Args:
        method: The method, with small settings for a quick check.
        schema: Schema of simulated records.
        budget: Budget of the check; None for ε = 1 under both adjacencies. Under replace-one the number of records is
            public, and must not be queried.
        sample: Whether to fit a model and to sample synthetic records, too.

    Raises:
        AssertionError: if the contract is broken.

    Examples:
        >>> from noisegate import DPMERF, Schema
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import check_method
        >>> check_method(DPMERF(frequencies=5), Schema([Boolean(name="ill")]), sample=False)
    """
    if budget is None:
        for adjacency in Adjacency:
            each_budget = Budget(epsilon=1.0, adjacency=adjacency)
            check_method(method, schema, budget=each_budget, sample=sample)
        return
    assert type(method).from_json(method.to_json()) == method, (
        "settings do not come back from JSON"
    )
    plan = method.plan(schema, budget)
    assert plan.budget == budget, "the plan has another budget"
    assert plan.epsilon <= budget.epsilon * (1 + 1e-9), f"the plan costs {plan.epsilon}"
    assert method.plan(schema, budget).events == plan.events, "two plans differ"
    gate = FakeGate(
        schema, epsilon=budget.epsilon, delta=budget.delta, adjacency=budget.adjacency
    )
    release = method.query(gate, plan)
    release.certificate.check()
    assert release.certificate.method == method.name, (
        "the certificate names another method"
    )
    assert release.certificate.epsilon <= budget.epsilon, (
        "the certificate claims more than the budget"
    )
    if sample and method.makes == "records":
        table = method.fit_release(release, device="cpu").sample(20, seed=0)
        assert table.column_names == list(schema.names), (
            "synthetic records have other columns"
        )
        assert len(table) == 20, "synthetic records are not as many as were asked for"
