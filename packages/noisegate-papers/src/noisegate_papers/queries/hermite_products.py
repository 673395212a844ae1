"""Sum and product kernels of Hermite features: which columns are multiplied with which, and with what weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, takewhile
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.queries.feature_map import FeatureMap, TorchForm
from noisegate.schema import EncodedTable, Integer, Layout, Schema
from noisegate.schema.pixels import ImageShape
from noisegate_papers.queries.hermite import ColumnTable
from noisegate_papers.queries.products import Group, Products
from noisegate_papers.queries.thumbnails import Thumbnails

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


ProductKind = Literal["pairs", "random", "none"]

# Four int64 sums for each coordinate, and a block of 256 vectors as float32, scaled, and rounded.
_BYTES_A_COORDINATE = 4 * 8
_BYTES_A_FEATURE = 256 * 3 * 4


def weighted(tables: Sequence[ColumnTable], groups: Sequence[Group]) -> Products:
    """Returns the map of these groups, with the weights of least total noise, and norm 1 at most."""
    sizes = [math.prod(tables[column].width for column in group) for group in groups]
    squares = [
        math.prod(tables[column].squared_supremum for column in group)
        for group in groups
    ]
    weights = [
        math.sqrt(math.sqrt(size / square))
        for size, square in zip(sizes, squares, strict=True)
    ]
    # Divided by what the bound would be if no series were cut short, so that the papers' 1 stays the measure.
    whole = math.sqrt(math.fsum(weight**2 for weight in weights))
    return Products(
        tables=tuple(tables),
        groups=tuple(groups),
        weights=tuple(weight / whole for weight in weights),
    )


def pair_groups(
    layout: Layout,
    widths: Sequence[int],
    *,
    most: int,
    image: ImageShape | None,
    seed: int,
) -> list[Group]:
    """Returns pairs of columns but the label: all, or at random as `most` coordinates allow, near pixels first."""
    random = np.random.Generator(np.random.Philox(seed))
    pairs: list[Group] = list(combinations(columns_to_learn(layout), 2))
    if sum(widths[a] * widths[b] for a, b in pairs) > most:
        order = random.permutation(len(pairs)).tolist()
        pairs = (
            [pairs[place] for place in order]
            if image is None
            else _pixel_pairs(image, random)
        )
    taken = accumulate(widths[a] * widths[b] for a, b in pairs)
    return sorted(
        pair
        for pair, _ in takewhile(
            lambda one: one[1] <= most, zip(pairs, taken, strict=True)
        )
    )


def random_groups(
    layout: Layout, *, columns: int, draws: int, seed: int
) -> list[Group]:
    """Returns one group of randomly chosen columns for each draw, as the paper's product kernel (section 3.2.1)."""
    random = np.random.Generator(np.random.Philox(seed))
    usable = np.asarray(columns_to_learn(layout))
    if columns > len(usable):
        cure = "choose at most that."
        raise OptionError(
            f"product_columns={columns}: the schema has {len(usable)} columns besides the label; {cure}"
        )
    return [
        tuple(sorted(random.choice(usable, columns, replace=False).tolist()))
        for _ in range(draws)
    ]


def named_groups(layout: Layout, subsets: Sequence[Sequence[str]]) -> list[Group]:
    """Returns the groups of columns that `subsets` names."""
    names = [column.name for column in (*layout.numeric, *layout.coded)]
    allowed = [names[column] for column in columns_to_learn(layout)]
    for subset in subsets:
        for name in subset:
            if name not in allowed:
                why = (
                    "is the label, which every sum is split by already"
                    if name in names
                    else "is no column"
                )
                raise OptionError(
                    f"subsets: {name!r} {why}; choose from {', '.join(allowed)}."
                )
        if len(set(subset)) != len(subset) or not subset:
            raise OptionError(
                f"subsets: {list(subset)!r} must name at least one column, and each once."
            )
    return [tuple(sorted(names.index(name) for name in subset)) for subset in subsets]


def pooled_schema(image: ImageShape, pool: int) -> Schema:
    """Returns the columns of averages over squares of `pool` pixels a side: whole multiples of 1/(255·pool²)."""
    if image.height % pool or image.width % pool:
        raise OptionError(
            f"pool={pool} does not divide images of {image}; choose a number that does, or 1."
        )
    squares = range(Thumbnails(image=image, side=pool).dim)
    return Schema(
        tuple(
            Integer(name=f"square_{place}", lower=0, upper=255 * pool**2)
            for place in squares
        )
    )


def least_noise_shares(
    maps: Mapping[str, FeatureMap], bounds: Mapping[str, float]
) -> dict[str, float]:
    """Returns the budget shares, of sum 1, of the least total noise; each is clipped to a part `bounds` of its norm."""
    raw = {
        name: bounds[name] * one.norm * math.sqrt(one.dim) for name, one in maps.items()
    }
    return {name: value / sum(raw.values()) for name, value in raw.items()}


def check_memory(
    name: str, feature_map: FeatureMap, *, columns: int, memory: int
) -> None:
    """Checks before anything is spent that products can be summed in `memory` megabytes, by `columns`."""
    products, dim = getattr(feature_map, "products", feature_map), feature_map.dim
    if not isinstance(products, Products) or products.single:
        return
    widths = tuple(
        products.tables[column].width for column in max(products.groups, key=len)
    )
    needed = (dim * _BYTES_A_FEATURE + dim * columns * _BYTES_A_COORDINATE) / 1e6
    if needed <= memory:
        return
    fits = int(memory * 1e6 / (_BYTES_A_FEATURE + columns * _BYTES_A_COORDINATE))
    width = max(int(fits ** (1 / len(widths)) + 1e-9), 1)
    cure = f"a product of {len(widths)} columns fits with {width} coordinates each, that is order {width - 1}"
    if len(widths) > 1 and max(widths) > 1:
        fitting_columns = max(int(math.log(fits) / math.log(max(widths))), 1)
        cure += f", or {fitting_columns} columns with {max(widths)} coordinates each"
    raise OptionError(
        f"question {name!r} has {dim:,} x {columns} coordinates and would take {needed:,.0f} MB at the gate, more than "
        f"memory={memory} MB: {cure}. Lower product_order or product_columns, or raise memory."
    )


def columns_to_learn(layout: Layout) -> list[int]:
    """Returns every column but the label; an OptionError if there is none."""
    label = None if layout.label is None else len(layout.numeric) + layout.label
    usable = [
        column
        for column in range(len(layout.numeric) + len(layout.coded))
        if column != label
    ]
    if not usable:
        raise OptionError(
            "the schema has no column besides the label; there is nothing to learn."
        )
    return usable


def _pixel_pairs(image: ImageShape, random: np.random.Generator) -> list[Group]:
    """Returns pairs of pixels, each once, in order: half at most three apart, where strokes are, others anywhere."""
    count = image.size
    far = random.integers(0, count, (200_000, 2))
    rows, columns = np.divmod(far[:, 0] // image.channels, image.width)
    step = random.integers(-3, 4, (len(far), 2))
    near_rows, near_columns = rows + step[:, 0], columns + step[:, 1]
    inside = (
        (near_rows >= 0)
        & (near_rows < image.height)
        & (near_columns >= 0)
        & (near_columns < image.width)
    )
    near = (near_rows * image.width + near_columns) * image.channels + far[
        :, 1
    ] % image.channels
    far[:, 1] = np.where(inside & (np.arange(len(far)) % 2 == 0), near, far[:, 1])
    pairs = np.sort(far[far[:, 0] != far[:, 1]], axis=1)
    return list(dict.fromkeys((int(a), int(b)) for a, b in pairs.tolist()))


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledProducts:
    """`Products` of an image's averages over squares of `pool` x `pool` pixels, looked up as a smaller image.

    An average of k·k intensities is a whole multiple of 1/(255·k²), a step of the smaller image's columns, and what
    `Thumbnails` rounds is far less than a step: it is looked up at the right one.
    """

    products: Products
    image: ImageShape
    pool: int

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.products.dim

    @property
    def norm(self) -> float:
        """The bound of G-22."""
        return self.products.norm

    @property
    def nonnegative(self) -> bool:
        """Whether no coordinate is ever negative."""
        return self.products.nonnegative

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim)."""
        small = Thumbnails(image=self.image, side=self.pool)(records).astype(np.float64)
        return self.products(
            EncodedTable(small, np.zeros((len(small), 0), dtype=np.int32))
        )

    def of_points(self) -> TorchForm:
        """Returns the means of products at images of points, (rows, pixels)."""
        import torch

        def small(points: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
            images = points.reshape(
                -1, self.image.height, self.image.width, self.image.channels
            ).permute(0, 3, 1, 2)
            return (
                torch.nn.functional.avg_pool2d(images, self.pool)
                .permute(0, 2, 3, 1)
                .flatten(1)
            )

        return self.products.of_points(small)
