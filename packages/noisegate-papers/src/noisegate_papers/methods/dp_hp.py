"""DP-HP: mean embeddings by Hermite polynomials, to which a generator is fitted.

Vinaroz, Charusaie, Harder, Adamczewski and Park (ICML 2022), https://arxiv.org/abs/2106.05042. One pass over the
records releases class-wise sums and counts in one plan. `moved=False` and `products="random"` give the paper's series
and products. For deviations from the paper and their reasons see [methods](../../docs/methods.md) and
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from noisegate.errors import OptionError
from noisegate.methods.abilities import BoundsErrors, ChangesFitDefaults
from noisegate.methods.embedding import COUNTS, Embedding, MeanEmbeddingMethod
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.queries.contingency import check_groups
from noisegate.queries.feature_map import Counts, FeatureMap
from noisegate.schema import Layout, Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import (
    Count,
    Names,
    Positive,
    Relative,
    Within,
    derived,
    settings,
)
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.table_or_image import (
    TABLES,
    Generator,
    TableOrImageGenerator,
    by_generator,
    values_by_column,
)
from noisegate_papers.queries import hermite_products as design
from noisegate_papers.queries.error_bounds import (
    ErrorBound,
    error_bound,
    truncation_error,
)
from noisegate_papers.queries.hermite import (
    MOST_ORDER,
    Series,
    column_tables,
    shortest_series,
)
from noisegate_papers.queries.hermite_products import PooledProducts
from noisegate_papers.queries.products import Group, Products
from noisegate_papers.queries.thumbnails import Thumbnails

SUM = "sum"
"""The query of the sum kernel."""
PRODUCT = "product"
"""The query of the product kernels, or what the names of several begin with."""
LengthScale = Annotated[
    float,
    Within(ge=1e-4, le=1e3),
    "a number from 0.0001 to 1000, in units of a column's range; for instance 0.1",
]
Order = Annotated[
    int,
    Within(ge=0, le=MOST_ORDER),
    f"a whole number from 0 to {MOST_ORDER}: beyond it the recursion is not "
    "checked, and the noise would exceed what the series still gains; use a larger "
    "length scale instead",
]
Bound = Annotated[
    float,
    Within(ge=0.001, le=1),
    "between 0.001 and 1, a share of the largest norm there can be",
]
Position = Annotated[
    float, Within(ge=0, le=1), "between 0 and 1, in units of a column's range"
]
Mass = Annotated[float, Within(gt=0, lt=1), "between 0 and 1, for instance 0.9"]
Subsets = Annotated[tuple[Names, ...], "lists of names of columns"]


def _pooled_side(given: Mapping[str, Any]) -> int:
    """Returns the default of `pool`: 2 if squares of two pixels fill the images, else 1."""
    if given["generator"] in TABLES or given["image"] is None:
        return 1
    height, width, _ = given["image"]
    is_filled = height % 2 == 0 and width % 2 == 0
    return 2 if is_filled else 1


@register("dp-hp")
@settings
class DPHP(
    TableOrImageGenerator, MeanEmbeddingMethod, BoundsErrors, ChangesFitDefaults
):
    """DP-HP: mean embeddings by Hermite polynomials (Vinaroz et al. 2022).

    Vinaroz, Charusaie, Harder, Adamczewski and Park (ICML 2022), https://arxiv.org/abs/2106.05042. The sums are those
    of the sum kernel (Hermite features of every column) and of product kernels on groups of columns.

    Defaults were chosen on public and simulated tables and images: see docs/methods.md.

    Examples:
        >>> from noisegate import Budget, DPHP, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> plan = DPHP(order=10).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'sum': (22, 3.79), 'counts': (2, 21.86)}
    """

    renamed: ClassVar[Mapping[str, str]] = {"kept": "kernel_mass"}

    generator: Generator = "mixture"
    """"mixture" of products, or "table", a network as in the paper; for images "convolutional" or another."""
    length_scale: LengthScale = by_generator(table=0.05, images=0.3)
    """Length scale of the sum kernel, in units of a column's range."""
    length_scales: Mapping[str, LengthScale] = field(default_factory=dict)
    """Length scales of single columns, by name; product kernels use them, too."""
    order: Order | None = None
    """Order of the sum kernel's series; None for the smallest order that preserves `kernel_mass` of the kernel."""
    orders: Mapping[str, Order] = field(default_factory=dict)
    """Orders of single columns, by name."""
    product_length_scale: LengthScale = by_generator(table=0.1, images=0.5)
    """Length scale of the product kernels."""
    product_order: Order | None = None
    """Order of the product kernels' series."""
    product_rank: Count | None = by_generator(table=None, images=1)
    """Number of directions of a numeric column's features in a product, the strongest ones; None for all."""
    pool: Count = derived(_pooled_side)
    """For images: side, in pixels, of the squares that are averaged before products are computed."""
    kernel_mass: Mass = 0.9
    """Share of the kernel that the series preserves if `order` is None."""
    moved: bool = True
    """Whether series are centred on and scaled to the column's range. The series of the paper are not, and need
    `order`."""
    reference: Position | None = None
    """A public position, in units of a column's range, whose features are subtracted from those of every column: the
    background of images. A column at this position then adds nothing to a record's vector."""
    sum_bound: Bound = 1.0
    """Norm that a record's sum vector is clipped to, relative to its supremum. Use less than 1 only if public data show
    that hardly any record is longer."""
    product_bound: Bound = 1.0
    """Norm that a record's product vector is clipped to, relative to its supremum; as `sum_bound`."""
    products: design.ProductKind = "pairs"
    """"pairs" (all that fit into `most_coordinates`), "random" (as in the paper: `draws` groups of `product_columns`
    columns, each released by itself) or "none"."""
    subsets: Subsets = ()
    """Names of the columns of each product, in place of `products`; all are released together."""
    product_columns: Count = 2
    """Number of columns of a random product."""
    draws: Count = 1
    """Number of random products."""
    matched: Literal["together", "in-turn"] = "together"
    """Whether the generator is fitted to all products "together", or to one after another ("in-turn"; the paper: one in
    each epoch)."""
    gamma: Positive | None = None
    """γ of equation 16: weight of the products' squared distance relative to that of the sum kernel; None weights by
    noise."""
    most_coordinates: Count = by_generator(table=200_000, images=20_000)
    """Largest number of coordinates of all pairs, for each label value."""
    memory: Count = 4000
    """Largest amount of memory of one query at the gate, in megabytes."""
    sum_share: Relative | None = None
    """Share of the budget for the sum kernel; None for the least total noise."""
    product_share: Relative | None = None
    """Share of the budget for each release of products; None for the least total noise."""
    counts_share: Relative = 0.03
    """Share of the budget for the counts; the other shares sum to 1."""

    def __post_init__(self) -> None:
        for name in ("order", "product_order"):
            if getattr(self, name) is None and not self.moved:
                raise OptionError(
                    f"{name}=None: with moved=False the series is the paper's; say at "
                    "which order to cut it."
                )
        self.check_generator(self.image)

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sum kernel, the products, and the counts; refuses products that need more than `memory`."""
        layout = schema.layout
        if self.image is not None:
            check_image_schema(schema, self.shape)
        elif not self.subsets and self.products == "pairs":
            check_groups(
                len(schema.columns),
                "products='pairs'",
                "products='random', 'none' or subsets=[...]",
            )
        scales = values_by_column(layout, "length_scales", self.length_scales)
        orders = values_by_column(layout, "orders", self.orders)
        alone = [(column,) for column in design.columns_to_learn(layout)]
        orders = [self.order if order is None else order for order in orders]
        series = [
            self._series(scale or self.length_scale, order)
            for scale, order in zip(scales, orders, strict=True)
        ]
        sums = design.weighted(
            column_tables(layout, series, reference=self.reference), alone
        )
        maps: dict[str, FeatureMap] = {SUM: sums, **self._products(layout, scales)}
        for name, one in maps.items():
            design.check_memory(
                name, one, columns=layout.classes or 1, memory=self.memory
            )
        bounds = {name: self._bound_of(name) for name in maps}
        shares = design.least_noise_shares(maps, bounds)
        shares |= {
            name: (self.sum_share if name == SUM else self.product_share)
            or shares[name]
            for name in maps
        }
        counts = Embedding(Counts(), self.counts_share * sum(shares.values()))
        return {
            name: Embedding(one, shares[name], bounds[name])
            for name, one in maps.items()
        } | {COUNTS: counts}

    def error_bounds(
        self, schema: Schema, budget: Budget, records: int
    ) -> tuple[ErrorBound, ...]:
        """Returns the error bound of the sum kernel, by the order of its series; one-hot kernels and counts are exact.

        There is no bound for images, whose kernel is reduced by its value at the background.
        """
        numeric = len(schema.layout.numeric)
        if self.image is not None or not numeric:
            return ()
        plan, series = (
            self.plan(schema, budget),
            self._series(self.length_scale, self.order),
        )
        features: Products = plan.maps[SUM]
        exact = features.dim - sum(
            features.tables[column].width
            for (column,) in features.groups
            if column < numeric
        )
        bound = error_bound(
            plan.release(SUM),
            records=records,
            setting="order",
            value=series.order,
            candidates=range(1, 100),
            dimension=lambda order: numeric * (order + 1) + exact,
            approximation=lambda order: truncation_error(
                1 - min(1.0, replace(series, order=order).kept)
            ),
            source="DP-HP, section 3.1, with the tail of the series in full",
        )
        return (bound,)

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """Changes to the defaults of the fit."""
        return self.fit_defaults_for({"steps": 1500, "batch": 200})

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of the generator to the released means, ready to run."""
        maps = plan.maps if plan else self.maps(release.schema)
        clipped = [name for name in maps if self._bound_of(name) < 1]
        return self.fit_to_means(
            release,
            maps,
            self,
            seed=self.seed,
            device=device,
            clipped=clipped,
            matching=self._matching(),
        )

    def _bound_of(self, query: str) -> float:
        """Returns the share of its supremum that the norm of a query is clipped to."""
        return self.sum_bound if query == SUM else self.product_bound

    def _matching(self) -> Callable[..., Fit] | None:
        """Returns what makes the fit: with γ, and products in turn, where asked for."""
        if self.gamma is None and self.matched == "together":
            return None
        from noisegate_images.training.moment_matching import HalvesMatching
        from noisegate_papers.training.perceptual_matching import SumProductFactors

        factors = SumProductFactors(
            sum_block=SUM, gamma=self.gamma, in_turn=self.matched == "in-turn"
        )
        return partial(HalvesMatching, block_factors=factors)

    def _series(self, length_scale: float, order: int | None) -> Series:
        """Returns the series of a Gaussian kernel; an order of None selects the shortest one."""
        if not self.moved:
            assert order is not None  # see `__post_init__`
            return Series(length_scale=length_scale, order=order, origin=0.0)
        shortest = shortest_series(length_scale, self.kernel_mass)
        return shortest if order is None else replace(shortest, order=order)

    def _products(self, layout: Layout, scales: list[Any]) -> dict[str, FeatureMap]:
        image = None if self.image is None else self.shape
        pooled = image if self.pool > 1 else None
        if pooled is not None:
            layout = design.pooled_schema(pooled, self.pool).layout
            image = Thumbnails(image=pooled, side=self.pool).small
            scales = [None] * len(layout.numeric)
        series = [
            self._series(scale or self.product_length_scale, self.product_order)
            for scale in scales
        ]
        tables = column_tables(
            layout, series, reference=self.reference, rank=self.product_rank
        )
        groups = self._groups(layout, [table.width for table in tables], image)
        maps = {name: design.weighted(tables, some) for name, some in groups.items()}
        if pooled is None:
            return dict(maps)
        return {
            name: PooledProducts(products=one, image=pooled, pool=self.pool)
            for name, one in maps.items()
        }

    def _groups(
        self, layout: Layout, widths: list[int], image: ImageShape | None
    ) -> dict[str, list[Group]]:
        if self.subsets:
            return {PRODUCT: design.named_groups(layout, self.subsets)}
        if self.products == "random":
            groups = design.random_groups(
                layout, columns=self.product_columns, draws=self.draws, seed=self.seed
            )
            return {
                f"{PRODUCT}-{draw}": [group]
                for draw, group in enumerate(groups, start=1)
            }
        if self.products == "none":
            return {}
        pairs = design.pair_groups(
            layout, widths, most=self.most_coordinates, image=image, seed=self.seed
        )
        return {PRODUCT: pairs} if pairs else {}
