"""Mean products of column features under a generator, exactly and differentiably, without building a record's vector.

Given its noise, the columns of a record from a table generator are independent, so the expected outer product of a
group is the outer product of the expected rows; for points it is the outer product of their rows. Either way the mean
over noise vectors of a group's vector is one small matrix product: the noise vectors are summed over, not stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from noisegate.features.products import ColumnTable, Group, Products
from noisegate.fitting.embedding import Embedding
from noisegate.generators.cells import Cells
from noisegate.schema.pixels import ImageShape

# With so many pairs for each column, one product of all columns with all columns is quicker than pair by pair.
_DENSE = 4


class ExpectedColumns(nn.Module):
    """Expected rows of each column's table, over the cells of a table generator.

    Args:
        tables: Of each column, numeric ones first.
        cells: Of each numeric column.
    """

    def __init__(self, tables: Sequence[ColumnTable], cells: Sequence[Cells]) -> None:
        super().__init__()
        self.columns = len(tables)
        for place, table in enumerate(tables):
            rows = _over_cells(table, cells[place]) if place < len(cells) else table.rows
            self.register_buffer(f"rows_{place}", torch.from_numpy(rows.T.astype(np.float32)))

    def forward(self, probabilities: Sequence[Tensor]) -> Tensor:
        """Returns the expected rows of all columns, one under the other, (sum of widths, rows).

        Args:
            probabilities: For each column, numeric ones first, (cells, rows).
        """
        expected = [self.get_buffer(f"rows_{place}") @ probabilities[place] for place in range(self.columns)]
        return torch.cat(expected)


def _over_cells(table: ColumnTable, cells: Cells) -> npt.NDArray[np.float64]:
    """Returns the mean row of each cell, (cells, width): of the steps within it, or of the nearest one."""
    assert table.steps is not None
    values = table.rows.astype(np.float64)
    count = table.steps + 1
    running = np.vstack([np.zeros(table.width), values[:count].cumsum(axis=0)])
    first = np.rint(cells.low * table.steps).astype(np.intp)
    end = np.maximum(np.rint(cells.high * table.steps).astype(np.intp), first + 1)
    means = (running[end] - running[first]) / (end - first)[:, None]
    return np.vstack([means, values[-1:]]) if cells.missing else means


class PointColumns(nn.Module):
    """Rows of each column's table at points, such as pixels; differentiable between the steps.

    Args:
        tables: Of each numeric column, all of the same shape and steps.
    """

    rows: Tensor

    def __init__(self, tables: Sequence[ColumnTable]) -> None:
        super().__init__()
        first = tables[0]
        assert first.steps is not None
        assert all(table is first for table in tables)
        self.steps = first.steps
        self.register_buffer("rows", torch.from_numpy(first.rows.copy()))

    def forward(self, points: Tensor) -> Tensor:
        """Returns the rows of all columns, one under the other, (sum of widths, rows).

        Args:
            points: (rows, columns), in [0, 1].
        """
        looked_up: Tensor = _LookedUp.apply(points, self.rows, self.steps)
        return looked_up


class PooledPoints(nn.Module):
    """`PointColumns` of an image's averages over squares of pixels.

    Args:
        image: Shape of the images.
        pool: Side of the squares.
        columns: Of the smaller image.
    """

    def __init__(self, image: ImageShape, pool: int, columns: PointColumns) -> None:
        super().__init__()
        self.shape, self.pool, self.columns = (image.height, image.width, image.channels), pool, columns

    def forward(self, points: Tensor) -> Tensor:
        """Returns the rows of all columns of the smaller images; see `PointColumns`."""
        images = points.reshape(-1, *self.shape).permute(0, 3, 1, 2)
        small = nn.functional.avg_pool2d(images, self.pool)
        looked_up: Tensor = self.columns(small.permute(0, 2, 3, 1).flatten(1))
        return looked_up


class _LookedUp(torch.autograd.Function):
    """The nearest rows, which is what a rounded pixel gives at the gate, with the slope between the rows around."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, points: Tensor, rows: Tensor, steps: int) -> Tensor:
        scaled = points.detach().T.clamp(0, 1) * steps
        context.save_for_backward(scaled, rows)
        context.steps = steps  # type: ignore[attr-defined]
        found = rows[scaled.round().long()]  # (columns, rows, width)
        return found.transpose(1, 2).reshape(-1, points.shape[0])

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        scaled, rows = context.saved_tensors  # type: ignore[attr-defined]
        slopes = rows[1:] - rows[:-1]
        below = scaled.floor().long().clamp_(max=len(slopes) - 1)
        columns, count = scaled.shape
        upstream = gradient.reshape(columns, -1, count).transpose(1, 2)
        return (slopes[below] * upstream).sum(dim=2).T * context.steps, None, None  # type: ignore[attr-defined]


class MeanProducts(Embedding):
    """`Products`, averaged over rows.

    Args:
        features: The frozen map.
        columns: What gives the rows of all columns, `ExpectedColumns` or `PointColumns`.
    """

    def __init__(self, features: Products, columns: nn.Module) -> None:
        super().__init__()
        self.columns = columns
        offsets = np.concatenate([[0], np.cumsum([table.width for table in features.tables])])
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for group, members in enumerate(features.groups):
            alike[tuple(features.tables[column].width for column in members)].append(group)
        self.sizes: list[int] = []
        self.dense: set[int] = set()
        order = []
        for bucket, (widths, groups) in enumerate(alike.items()):
            self.sizes.append(len(widths))
            alike_groups = [features.groups[group] for group in groups]
            used = {column for group in alike_groups for column in group}
            if len(widths) == 2 and len(groups) > _DENSE * len(used):
                self._make_dense(bucket, alike_groups, offsets, widths)
                weights = torch.tensor([features.weights[group] for group in groups], dtype=torch.float32)
                self.register_buffer(f"weights_{bucket}", weights.repeat_interleave(widths[0] * widths[1]))
                order += [np.arange(features.starts[group], features.starts[group + 1]) for group in groups]
                continue
            for place, width in enumerate(widths):
                starts = offsets[[features.groups[group][place] for group in groups]]
                index = torch.from_numpy((starts[:, None] + np.arange(width)).astype(np.int64))
                self.register_buffer(f"index_{bucket}_{place}", index)
            weights = torch.tensor([features.weights[group] for group in groups], dtype=torch.float32)
            self.register_buffer(f"weights_{bucket}", weights)
            order += [np.arange(features.starts[group], features.starts[group + 1]) for group in groups]
        self.register_buffer("order", torch.from_numpy(np.argsort(np.concatenate(order))))

    def means(self, made: Tensor | Sequence[Tensor], sets: int) -> Tensor:
        """Returns mean vectors, (dim, sets), in the order of `Products`.

        Args:
            made: What the generator gave.
            sets: The rows stand in this many sets of equal size, one after the other; each has a mean of its own.
        """
        rows = self.columns(made)
        rows = rows.reshape(len(rows), sets, -1)
        parts = [
            self._gram(bucket, rows) if bucket in self.dense else self._bucket(bucket, size, rows)
            for bucket, size in enumerate(self.sizes)
        ]
        means: Tensor = torch.cat(parts).index_select(0, self.get_buffer("order"))
        return means

    def _bucket(self, bucket: int, size: int, rows: Tensor) -> Tensor:
        """Returns the means of the groups of one shape, (groups · coordinates, sets)."""
        looked = [self._looked(bucket, place, rows) for place in range(size)]
        product = looked[0] * self.get_buffer(f"weights_{bucket}")[:, None, None, None]
        if size == 1:
            return product.mean(dim=3).flatten(0, 1)
        for factor in looked[1:-1]:
            product = (product[:, :, None] * factor[:, None]).flatten(1, 2)
        # (groups, sets, coordinates, rows) times (groups, sets, rows, width)
        mean = product.permute(0, 2, 1, 3) @ looked[-1].permute(0, 2, 3, 1) / rows.shape[2]
        return mean.flatten(2).permute(0, 2, 1).flatten(0, 1)

    def _make_dense(
        self, bucket: int, members: Sequence[Group], offsets: npt.NDArray[np.int64], widths: tuple[int, ...]
    ) -> None:
        """Prepares groups of two columns each that are nearly all pairs: their means are part of one Gram matrix."""
        used = np.unique(np.asarray(members))
        sizes = {column: width for group in members for column, width in zip(group, widths, strict=True)}
        rows = np.concatenate([offsets[column] + np.arange(sizes[column]) for column in used.tolist()])
        start = dict(zip(used.tolist(), np.cumsum([0, *(sizes[c] for c in used.tolist())])[:-1].tolist(), strict=True))
        first = [start[a] + np.arange(widths[0]) for a, _ in members]
        second = [start[b] + np.arange(widths[1]) for _, b in members]
        cells = [(a[:, None] * len(rows) + b[None]).ravel() for a, b in zip(first, second, strict=True)]
        self.register_buffer(f"rows_{bucket}", torch.from_numpy(rows.astype(np.int64)))
        self.register_buffer(f"cells_{bucket}", torch.from_numpy(np.concatenate(cells).astype(np.int64)))
        self.dense.add(bucket)

    def _gram(self, bucket: int, rows: Tensor) -> Tensor:
        """Returns the means of a dense bucket, (groups · coordinates, sets)."""
        used = rows.index_select(0, self.get_buffer(f"rows_{bucket}")).permute(1, 0, 2)
        gram = (used @ used.transpose(1, 2)).flatten(1) / rows.shape[2]
        return (gram.index_select(1, self.get_buffer(f"cells_{bucket}")) * self.get_buffer(f"weights_{bucket}")).T

    def _looked(self, bucket: int, place: int, rows: Tensor) -> Tensor:
        """Returns the rows of one member of each group, (groups, width, sets, rows)."""
        index = self.get_buffer(f"index_{bucket}_{place}")
        return rows.index_select(0, index.flatten()).reshape(*index.shape, *rows.shape[1:])
