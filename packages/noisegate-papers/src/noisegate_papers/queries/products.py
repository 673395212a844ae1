"""Products of looked-up column features: the sum and product kernels of DP-HP, section 3.2 (G-22, G-23).

DP-HP (`noisegate_papers.methods.dp_hp`), section 3.2. Every column has a
table with one row for each value that it can take. A *group* of columns has the outer
product of their rows as its vector, times a public weight: groups of one column with
weights 1/√D are the sum kernel (equation 10), one group of several the product kernel
(equation 8). `norm` bounds every record (G-22); where every group is one column,
occurrences are counted (G-23).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.privacy.grid import Grid
from noisegate.queries.feature_map import (
    Constants,
    ExactSum,
    GeneratorOutput,
    TorchForm,
)
from noisegate.schema import EncodedTable, Layout
from noisegate.schema.layout import numeric_cells
from noisegate_papers.queries.hermite import ColumnTable

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@cache
def nearest_rows() -> Callable[[Tensor, Tensor, int], Tensor]:
    """Returns a function of points, (rows, columns), a table, (steps + 1, width), and its steps, to nearest rows."""
    # These are what a rounded pixel gives at the gate, (columns · width, rows), with the slope between the rows around.
    import torch

    class NearestRows(torch.autograd.Function):
        @staticmethod
        def forward(
            context: Any,
            points: Float[Tensor, "rows columns"],
            rows: Float[Tensor, "steps width"],
            steps: int,
        ) -> Float[Tensor, "columns*width rows"]:
            scaled = points.detach().T.clamp(0, 1) * steps
            context.save_for_backward(scaled, rows)
            context.steps = steps
            nearest = rows[scaled.round().long()]  # (columns, rows, width)
            return nearest.transpose(1, 2).reshape(-1, points.shape[0])

        @staticmethod
        def backward(
            context: Any, gradient: Float[Tensor, "..."]
        ) -> tuple[Float[Tensor, "..."], None, None]:
            scaled, rows = context.saved_tensors
            slopes = rows[1:] - rows[:-1]
            below = scaled.floor().long().clamp_(max=len(slopes) - 1)
            columns, count = scaled.shape
            upstream = gradient.reshape(columns, -1, count).transpose(1, 2)
            return (slopes[below] * upstream).sum(dim=2).T * context.steps, None, None

    apply: Callable[[Tensor, Tensor, int], Tensor] = NearestRows.apply
    return apply


MOST_ROWS = 2**31  # counts below 2³¹ times coordinates of at most 2²² stay below 2⁵³
_MARGIN = 1e-5
# With so many pairs for each column, one product of all columns with all columns is quicker than pair by pair.
_DENSE = 4

Group = tuple[int, ...]
_Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Products:
    """The map from a record to the weighted outer products of its groups of columns. Everything in it is public."""

    tables: tuple[ColumnTable, ...]  # of each column of the layout, numeric ones first
    groups: tuple[
        Group, ...
    ]  # columns by position in `tables`, each once; an OptionError if unusable
    weights: tuple[float, ...]  # positive, of each group; an OptionError if unusable

    def __post_init__(self) -> None:
        if not self.groups or len(self.groups) != len(self.weights):
            raise OptionError(
                f"{len(self.groups)} groups of columns and {len(self.weights)} weights do not match."
            )
        for group in self.groups:
            if (
                not group
                or len(set(group)) != len(group)
                or not set(group) <= set(range(len(self.tables)))
            ):
                raise OptionError(
                    f"group {group!r}: expected different columns from 0 to {len(self.tables) - 1}."
                )
        if not all(math.isfinite(weight) and weight > 0 for weight in self.weights):
            raise OptionError(
                "the weight of every group of columns must be positive and finite."
            )

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the coordinates of each group begin, and the end of the last."""
        sizes = [
            math.prod(self.tables[column].width for column in group)
            for group in self.groups
        ]
        return tuple(accumulate(sizes, initial=0))

    @property
    def dim(self) -> int:
        """Number of coordinates of all groups."""
        return self.starts[-1]

    @cached_property
    def norm(self) -> float:
        """The bound of G-22 on the norm of every vector."""
        squares = [
            weight**2
            * math.prod(self.tables[column].squared_supremum for column in group)
            for group, weight in zip(self.groups, self.weights, strict=True)
        ]
        return math.sqrt(math.fsum(squares)) * (1 + _MARGIN)

    @property
    def nonnegative(self) -> bool:
        """Whether all groups are of coded columns: Hermite features change sign."""
        return all(
            self.tables[column].steps is None
            for group in self.groups
            for column in group
        )

    @property
    def count_functional(self) -> npt.NDArray[np.float64] | None:
        """See `CountingMap`: a group of coded columns has one coordinate at its weight in every record."""
        coded = [
            all(self.tables[column].steps is None for column in group)
            for group in self.groups
        ]
        if not any(coded):
            return None
        sizes, weights = np.diff(self.starts), np.asarray(self.weights) * coded
        return np.asarray(
            np.repeat(weights / sizes, sizes) / (weights**2 / sizes).sum()
        )

    @cached_property
    def single(self) -> bool:
        """Whether every group is one column, so that its sum follows from how often each value occurs."""
        return all(len(group) == 1 for group in self.groups)

    @cached_property
    def _ends(self) -> npt.NDArray[np.float64]:
        """The steps of each numeric column, and the row of its missing values, (2, columns)."""
        ends = [
            (table.steps, len(table.rows) - 1)
            for table in self.tables
            if table.steps is not None
        ]
        return np.asarray(ends, dtype=np.float64).reshape(-1, 2).T

    def places(self, records: EncodedTable) -> _Indices:
        """Returns which row of its table each record looks up in each column, (rows, columns)."""
        numeric = records.numeric.shape[1]
        places = np.empty((len(records), len(self.tables)), dtype=np.intp)
        missing = np.isnan(records.numeric)
        steps, last = self._ends
        nearest = np.rint(np.where(missing, 0, records.numeric).clip(0, 1) * steps)
        places[:, :numeric] = np.where(missing, last, nearest)
        places[:, numeric:] = records.codes
        return places

    @cached_property
    def alike(self) -> dict[Group, list[int]]:
        """The groups by the widths of their columns, so that alike ones are multiplied at once."""
        alike: dict[Group, list[int]] = defaultdict(list)
        for place, group in enumerate(self.groups):
            alike[tuple(self.tables[column].width for column in group)].append(place)
        return alike

    def coordinates(self, groups: Sequence[int]) -> _Indices:
        """Returns where the products of these groups stand in a vector."""
        return np.concatenate(
            [np.arange(self.starts[group], self.starts[group + 1]) for group in groups]
        )

    @cached_property
    def _shelves(
        self,
    ) -> list[tuple[list[_Place], npt.NDArray[np.float32], _Indices | slice]]:
        """Alike groups: the columns at each place in them, their weights, and where their products go."""
        shelves: list[
            tuple[list[_Place], npt.NDArray[np.float32], _Indices | slice]
        ] = []
        for groups in self.alike.values():
            columns = np.asarray(
                [self.groups[group] for group in groups], dtype=np.intp
            )
            weights = np.asarray(
                [self.weights[group] for group in groups], dtype=np.float32
            )
            coordinates = self.coordinates(groups)
            first, end = int(coordinates[0]), int(coordinates[-1]) + 1
            places = [_Place.of(self.tables, of_group) for of_group in columns.T]
            shelves.append(
                (
                    places,
                    weights,
                    slice(first, end)
                    if end - first == len(coordinates)
                    else coordinates,
                )
            )
        return shelves

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim). A product is the same bits wherever its record stands."""
        places = self.places(records)
        vectors = np.empty((len(records), self.dim), dtype=np.float32)
        for members, weights, coordinates in self._shelves:
            product = members[-1].look_up(places) * weights[:, None]
            # From the last column to the first, so that the inner loops are long; the coordinates' order is the same.
            for member in reversed(members[:-1]):
                product = member.look_up(places)[..., None] * product[:, :, None, :]
                product = product.reshape(*product.shape[:2], -1)
            vectors[:, coordinates] = product.reshape(len(places), -1)
        return vectors

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum by counts of values, where every group is one column (G-23)."""
        if not self.single or grid.centre is not None:
            return None
        # Columns that share one table and one weight are counted together.
        alike: dict[tuple[int, float], list[tuple[int, int]]] = defaultdict(list)
        for (column,), weight, start in zip(
            self.groups, self.weights, self.starts[:-1], strict=True
        ):
            alike[id(self.tables[column]), weight].append((column, start))
        largest, counted = 0, []
        for (_, weight), members in alike.items():
            columns, starts = np.asarray(members, dtype=np.intp).T
            table = self.tables[columns[0]]
            rounded = grid.quantise(table.rows * np.float32(weight))
            largest += len(members) * int(
                np.square(rounded, dtype=np.int64).sum(axis=1).max()
            )
            counted.append(
                (
                    columns,
                    starts[:, None] + np.arange(table.width),
                    rounded.astype(np.float64),
                )
            )

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            if (count := len(records)) >= MOST_ROWS:
                raise OverflowError(
                    f"{count} records at once: the products could leave float64's whole numbers."
                )
            places = self.places(records)
            for columns, coordinates, rows in counted:
                cells = places[:, columns] + np.arange(len(columns)) * len(rows)
                counts = np.bincount(
                    cells.ravel(), minlength=len(columns) * len(rows)
                ).reshape(len(columns), -1)
                sums[coordinates] += (counts.astype(np.float64) @ rows).astype(np.int64)

        return ExactSum(squared_norm=largest, add=add)

    def of_cells(self, layout: Layout) -> TorchForm:
        """Returns the means of expected products: given its noise, a generated record's columns are independent."""
        import torch

        numeric = len(layout.numeric)
        cells = [numeric_cells(column) for column in layout.numeric]
        tables = [
            table.over_cells(one)
            for table, one in zip(self.tables, cells, strict=False)
        ]
        rows: list[npt.NDArray[np.floating]] = [
            *tables,
            *(table.rows for table in self.tables[numeric:]),
        ]

        def expected(
            constants: Constants, probabilities: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            return torch.cat(
                [
                    constants[f"rows/{place}"] @ probabilities[place]
                    for place in range(len(rows))
                ]
            )

        return _mean_products(
            self, expected, {f"rows/{place}": one.T for place, one in enumerate(rows)}
        )

    def of_points(
        self, before: Callable[[Tensor], Tensor] = lambda points: points
    ) -> TorchForm:
        """Returns the means of products at points (after `before`) of alike columns, with slopes between the steps."""
        first, steps = self.tables[0], self.tables[0].steps
        assert steps is not None
        assert all(table is first for table in self.tables if table.steps is not None)

        def looked_up(
            constants: Constants, points: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            return nearest_rows()(
                before(cast("Tensor", points)), constants["rows"], steps
            )

        return _mean_products(self, looked_up, {"rows": first.rows})


class _Place(NamedTuple):
    """The columns that stand at one place of alike groups, each looked up once."""

    columns: _Indices  # the different ones
    offsets: _Indices  # where the table of each begins in `rows`
    rows: npt.NDArray[np.float32]  # their tables, one under the other
    of_group: _Indices  # which of the columns stands in each group

    @classmethod
    def of(cls, tables: Sequence[ColumnTable], of_group: _Indices) -> _Place:
        """Returns the place where groups have the columns that `of_group` says; shared tables are kept once."""
        columns, inverse = np.unique(of_group, return_inverse=True)
        used = {id(tables[column]): tables[column].rows for column in columns}
        starts = dict(
            zip(used, np.cumsum([0, *map(len, used.values())]).tolist(), strict=False)
        )
        offsets = np.asarray(
            [starts[id(tables[column])] for column in columns], dtype=np.intp
        )
        return cls(
            columns,
            offsets,
            np.concatenate(list(used.values())),
            inverse.astype(np.intp),
        )

    def look_up(self, places: _Indices) -> npt.NDArray[np.float32]:
        """Returns what each group has at this place, (rows, groups, width)."""
        return self.rows.take(places[:, self.columns] + self.offsets, axis=0).take(
            self.of_group, axis=1
        )


def _mean_products(
    features: Products,
    rows_fn: Callable[[Constants, GeneratorOutput], Tensor],
    constants: Mapping[str, Any],
) -> TorchForm:
    """Returns the torch form of a map; `rows_fn` gives the rows of all columns, (sum of widths, rows)."""
    import torch

    offsets = np.cumsum([0, *(table.width for table in features.tables)])
    shelves, indices = [], dict(constants)
    for shelf, (widths, groups) in enumerate(features.alike.items()):
        members = np.asarray([features.groups[group] for group in groups])
        dense = len(widths) == 2 and len(groups) > _DENSE * len(np.unique(members))
        weights = np.asarray([features.weights[group] for group in groups])
        if dense:
            indices[f"used/{shelf}"], indices[f"cells/{shelf}"] = _of_gram(
                members, offsets, widths
            )
            indices[f"weights/{shelf}"] = weights.repeat(widths[0] * widths[1])
        else:
            for place, width in enumerate(widths):
                indices[f"{place}/{shelf}"] = offsets[members[:, place]][
                    :, None
                ] + np.arange(width)
            indices[f"weights/{shelf}"] = weights[:, None, None, None]
        shelves.append((f"{shelf}", len(widths), dense))
    indices["order"] = np.argsort(
        np.concatenate(
            [features.coordinates(groups) for groups in features.alike.values()]
        )
    )

    def means(
        constants: Constants, made: GeneratorOutput, sets: int
    ) -> Float[Tensor, "dim sets"]:
        rows = rows_fn(constants, made)
        rows = rows.reshape(len(rows), sets, -1)
        parts = [
            _gram(constants, shelf, rows)
            if dense
            else _products(constants, shelf, size, rows)
            for shelf, size, dense in shelves
        ]
        return torch.cat(parts).index_select(0, constants["order"])

    return TorchForm(means, indices)


def _products(
    constants: Constants, shelf: str, size: int, rows: Float[Tensor, "widths sets rows"]
) -> Float[Tensor, "coords sets"]:
    """Returns the means of groups of one shape, (groups · coordinates, sets), of rows (sum of widths, sets, rows)."""
    indices = [constants[f"{place}/{shelf}"] for place in range(size)]
    # (groups, width, sets, rows) each
    looked = [
        rows.index_select(0, index.flatten()).reshape(*index.shape, *rows.shape[1:])
        for index in indices
    ]
    product: Tensor = looked[0] * constants[f"weights/{shelf}"]
    if size == 1:
        return product.mean(dim=3).flatten(0, 1)
    for factor in looked[1:-1]:
        product = (product[:, :, None] * factor[:, None]).flatten(1, 2)
    # (groups, sets, coordinates, rows) times (groups, sets, rows, width)
    mean: Tensor = (
        product.permute(0, 2, 1, 3) @ looked[-1].permute(0, 2, 3, 1) / rows.shape[2]
    )
    return mean.flatten(2).permute(0, 2, 1).flatten(0, 1)


def _of_gram(
    members: _Indices, offsets: _Indices, widths: Sequence[int]
) -> tuple[_Indices, _Indices]:
    """Returns the rows of the columns of pairs, and where each pair's products stand in their flat Gram matrix."""
    sizes = {
        column: width
        for pair in members.tolist()
        for column, width in zip(pair, widths, strict=True)
    }
    columns = sorted(sizes)
    rows = np.concatenate(
        [offsets[column] + np.arange(sizes[column]) for column in columns]
    )
    start = dict(
        zip(
            columns,
            np.cumsum([0, *(sizes[column] for column in columns)]).tolist(),
            strict=False,
        )
    )
    spans = np.arange(widths[0])[:, None] * len(rows) + np.arange(widths[1])
    return rows, np.concatenate(
        [(start[a] * len(rows) + start[b] + spans).ravel() for a, b in members.tolist()]
    )


def _gram(
    constants: Constants, shelf: str, rows: Float[Tensor, "widths sets rows"]
) -> Float[Tensor, "coords sets"]:
    """Returns the means of pairs that are nearly all pairs: parts of one Gram matrix, (groups · coordinates, sets)."""
    used = rows.index_select(0, constants[f"used/{shelf}"]).permute(1, 0, 2)
    gram = (used @ used.transpose(1, 2)).flatten(1) / rows.shape[2]
    means: Tensor = (
        gram.index_select(1, constants[f"cells/{shelf}"])
        * constants[f"weights/{shelf}"]
    ).T
    return means
