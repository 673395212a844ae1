"""DP-MERF, DP-NTK and DP-HP: mean embeddings, released in one pass and one plan, which a generator is fitted to.

One pass over the records releases class-wise sums and counts in one plan. A generator
is then fitted so that its expected embedding matches. Of DP-HP, `moved=False` and
`products="random"` give the paper's series and products. What differs from the papers,
and why, is in [choosing](../../docs/choosing.md) and
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from noisegate.errors import OptionError
from noisegate.methods.abilities import BoundsErrors
from noisegate.methods.embedding import COUNTS, Embedding
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.plan import Budget
from noisegate.queries.contingency import check_groups
from noisegate.queries.feature_map import Counts, FeatureMap, Levels
from noisegate.schema import Layout, Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import (
    Count,
    Names,
    Number,
    Positive,
    Relative,
    Share,
    TwoOrMore,
    Widths,
    Within,
    settings,
)
from noisegate_images.methods.matched import (
    IMAGE_FIT,
    TABLES,
    Generator,
    MatchedMethod,
    by_generator,
)
from noisegate_images.models.image_network import check_image_schema
from noisegate_images.queries.fourier import Kernel, draw
from noisegate_papers.queries import hermite_products as design
from noisegate_papers.queries.error_bounds import (
    ErrorBound,
    error_bound,
    random_feature_error,
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
from noisegate_papers.queries.tangent import draw_network, draw_pairs
from noisegate_papers.queries.thumbnails import Thumbnails

FOURIER, LEVELS = "fourier", "levels"
Interval = Annotated[
    tuple[Number, Number],
    lambda value: (value, value) if isinstance(value, int | float) else value,
    "an interval, low first, as in (0.1, 0.5), or a number",
]
# What the error bound chooses from: steps of two figures, and no embedding longer than the gate can sum at ease.
_FREQUENCIES = (
    *range(1, 10),
    *(figures * 10**power for power in range(5) for figures in range(10, 100)),
)


@settings
class EmbeddedMethod(MatchedMethod):
    """Base of the three, whose fits differ for images alone, by `image_fit`."""

    image_fit: ClassVar[Mapping[str, Any]]

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        if self.generator in TABLES:
            return (
                {"steps": 1000, "learning_rate": 0.1}
                if self.generator == "mixture"
                else {}
            )
        return {**self.image_fit, "learning_rate": 5e-3, **IMAGE_FIT}

    def by_column(self, layout: Layout, setting: str) -> list[Any]:
        """Returns what `length_scales` or `orders` says of each numeric column, None where nothing."""
        given: Mapping[str, Any] = getattr(self, setting)
        names = [column.name for column in layout.numeric] if given else []
        for name in given:
            if name not in names:
                raise OptionError(
                    f"{setting} names {name!r}, which is not a numeric column of the schema."
                )
        return [given.get(name) for name in names] or [None] * len(layout.numeric)


@register("dp-merf")
@settings
class DPMERF(EmbeddedMethod, BoundsErrors):
    """DP-MERF: mean embeddings by random Fourier features (Harder et al. 2021).

    Harder, Adamczewski and Park (AISTATS 2021), https://arxiv.org/abs/2002.11603. The sums are of random Fourier
    features (`noisegate_images.queries.fourier`) and scaled one-hot codes (`Levels`). The paper's four variants follow
    from the schema: labelled by a coded column or not, balanced by noisy counts (section 4.2), and with the polynomial
    kernel of section 4.3 for coded columns.

    Defaults for images were chosen on simulated digits (benchmarks/simulated_digits.py of commit 14f1ae5e),
    which are public; benchmarks/dp_merf says how, and has the paper's.

    Examples:
        >>> from noisegate import Budget, DPMERF, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> plan = DPMERF(frequencies=50).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'fourier': (200, 3.79), 'counts': (2, 21.86)}
    """

    image_fit: ClassVar = {"steps": 3000, "batch": 128}
    audit_settings: ClassVar[Mapping[str, Any]] = {"frequencies": 50}

    frequencies: Count = 1000
    """Random frequencies; the embedding has twice as many coordinates for each label."""
    kernel: Kernel = by_generator(table="pairs", images="numeric")
    """"pairs" (one or two columns a frequency) or "numeric" (the paper: all numeric columns)."""
    length_scale: Interval = by_generator(table=(0.005, 0.5), images=(5.0, 5.0))
    """Length scales are drawn log-uniformly from this interval, in units of a column's range."""
    length_scales: Mapping[str, Interval] = field(default_factory=dict)
    """The same for single columns, by name."""
    fourier_share: Share = 1.0
    """Budget share of the Fourier sums."""
    levels_share: Share = 0.5
    """Budget share of the one-hot sums."""
    hidden: Widths = by_generator(
        table=(256, 256), images=(), convolutional=(200,), fully_connected=(500, 500)
    )
    """Widths of the generator's hidden layers."""

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the Fourier sums, and the one-hot sums of a table with coded columns besides the label."""
        layout = schema.layout
        if self.image is not None:
            check_image_schema(schema, self.shape)
        scales = self.by_column(layout, "length_scales")
        if self.kernel == "pairs":
            check_groups(
                len(schema.columns),
                "kernel='pairs'",
                "kernel='numeric', where there are numeric columns",
            )
        fourier = draw(
            layout,
            count=self.frequencies,
            kernel=self.kernel,
            length_scales=[scale or self.length_scale for scale in scales],
            exclude_label=layout.label is not None,
            seed=self.seed,
        )
        embeddings = {FOURIER: Embedding(fourier, self.fourier_share)}
        if coded := layout.others:
            levels = Levels(
                columns=coded, sizes=tuple(layout.coded[j].size for j in coded)
            )
            embeddings[LEVELS] = Embedding(levels, self.levels_share)
        return embeddings

    def error_bounds(
        self, schema: Schema, budget: Budget, records: int
    ) -> tuple[ErrorBound, ...]:
        """Returns the bound on the Fourier query; codes and counts stand for their kernels exactly."""
        bound = error_bound(
            self.plan(schema, budget).release(FOURIER),
            records=records,
            setting="frequencies",
            value=self.frequencies,
            candidates=_FREQUENCIES,
            dimension=lambda frequencies: 2 * frequencies,
            approximation=random_feature_error,
            source="DP-MERF, Proposition 3.1, tightened",
        )
        return (bound,)


TANGENT = "tangent"


@register("dp-ntk")
@settings
class DPNTK(EmbeddedMethod):
    """DP-NTK: mean embeddings by a neural tangent kernel (Yang et al. 2024).

    Yang, Adamczewski, Sutherland and Park (TMLR 2024), https://arxiv.org/abs/2303.01687. The sum is of normalised
    gradients of a random network in its weights.

    Examples:
        >>> from noisegate import Budget, DPNTK, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill")), label="ill")
        >>> plan = DPNTK(width=5).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'tangent': (30, 3.79), 'counts': (2, 21.86)}
    """

    image_fit: ClassVar = {"steps": 2000, "batch": 200}
    audit_settings: ClassVar[Mapping[str, Any]] = {"width": 4, "cells": 8}

    width: Count = by_generator(table=8, images=200)
    """Hidden units of a network; a gradient has width · (inputs + 2) coordinates. The paper has 800 for images."""
    cells: TwoOrMore = 32
    """Cells of a numeric column of a table, about."""
    memory: Count = 1000
    """What the vectors of all cells of a table may take, in megabytes."""
    hidden: Widths = by_generator(
        table=(256, 256), images=(), convolutional=(200,), fully_connected=(500, 500)
    )
    """Widths of the generator's hidden layers."""

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sum of gradients; refuses tables whose vectors would take more than `memory`."""
        if self.image is not None:
            check_image_schema(schema, self.shape)
            return {
                TANGENT: Embedding(
                    draw_network(self.shape.size, width=self.width, seed=self.seed), 1.0
                )
            }
        check_groups(len(schema.columns), "dp-ntk", "fewer columns")
        drawn = draw_pairs(
            schema.layout,
            width=self.width,
            cells=self.cells,
            memory=self.memory,
            seed=self.seed,
        )
        return {TANGENT: Embedding(drawn, 1.0)}


SUM, PRODUCT = "sum", "product"
LengthScale = Annotated[
    float,
    Within(ge=1e-4, le=1e3),
    "a number from 0.0001 to 1000, in units of a column's range; for instance 0.1",
]
Order = Annotated[
    int,
    Within(ge=0, le=MOST_ORDER),
    f"a whole number from 0 to {MOST_ORDER}: beyond it the recursion is not checked, and noise would drown what the "
    "series still gains; use a larger length scale instead",
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


@register("dp-hp")
@settings
class DPHP(EmbeddedMethod, BoundsErrors):
    """DP-HP: mean embeddings by Hermite polynomials (Vinaroz et al. 2022).

    Vinaroz, Charusaie, Harder, Adamczewski and Park (ICML 2022), https://arxiv.org/abs/2106.05042. The sums are of the
    sum kernel (Hermite features of every column) and of product kernels on groups of columns.

    Defaults were chosen on public and simulated tables and images; docs/choosing.md says which.

    Examples:
        >>> from noisegate import Budget, DPHP, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> plan = DPHP(order=10).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'sum': (22, 3.79), 'counts': (2, 21.86)}
    """

    image_fit: ClassVar = {"steps": 1500, "batch": 200}
    renamed: ClassVar[Mapping[str, str]] = {"kept": "kernel_mass"}

    generator: Generator = "mixture"
    """"mixture" of products, or "table", the paper's kind of network; for images "convolutional" or another."""
    length_scale: LengthScale = by_generator(table=0.05, images=0.3)
    """Of the sum kernel, in units of a column's range."""
    length_scales: Mapping[str, LengthScale] = field(default_factory=dict)
    """The same for single columns, by name; products use them too."""
    order: Order | None = None
    """Of the sum kernel's series; None for the shortest one that keeps `kernel_mass` of the kernel."""
    orders: Mapping[str, Order] = field(default_factory=dict)
    """The same for single columns, by name."""
    product_length_scale: LengthScale = by_generator(table=0.1, images=0.5)
    """Of the product kernels."""
    product_order: Order | None = None
    """Of their series."""
    product_rank: Count | None = by_generator(table=None, images=1)
    """How many directions of a numeric column's features a product keeps, the strongest ones; None for all."""
    pool: Count = by_generator(table=1, images=2)
    """For images, products are of averages over squares of so many pixels a side."""
    kernel_mass: Mass = 0.9
    """See `order`."""
    moved: bool = True
    """Whether series are centred and stretched to the column's range; the paper's are not, and need orders."""
    reference: Position | None = None
    """A public position, in units of a column's range, whose features are subtracted from every column's: the
    background of images. Columns that stand there then add nothing to a record's vector."""
    sum_bound: Bound = 1.0
    """Share of its supremum that the norm of a record's sum vector is clipped to; below 1 only where public data say
    that hardly any record is longer."""
    product_bound: Bound = 1.0
    """The same for the products."""
    products: design.ProductKind = "pairs"
    """"pairs" (all that fit into `most_coordinates`), "random" (the paper: groups of `product_columns`, `draws` times,
    each a release of its own) or "none"."""
    subsets: Subsets = ()
    """Names of the columns of each product, instead; all in one release."""
    product_columns: Count = 2
    """Columns of a random product."""
    draws: Count = 1
    """Number of random products."""
    matched: Literal["together", "in-turn"] = "together"
    """Whether a generator is matched to all products at once, or to one after another; the paper: one an epoch."""
    gamma: Positive | None = None
    """γ of equation 16: weight of the products' squared distance beside the sum kernel's; None weighs by noise."""
    most_coordinates: Count = by_generator(table=200_000, images=20_000)
    """How many coordinates all pairs may have, for each label value."""
    memory: Count = 4000
    """What one query may take at the gate, in megabytes."""
    sum_share: Relative | None = None
    """Budget share of the sum kernel; None for the least total noise."""
    product_share: Relative | None = None
    """Of each release of products; None for the least total noise."""
    counts_share: Relative = 0.03
    """Of the counts, where the others sum to 1."""

    def __post_init__(self) -> None:
        for name in ("order", "product_order"):
            if getattr(self, name) is None and not self.moved:
                cure = "say at which order to cut it."
                raise OptionError(
                    f"{name}=None: with moved=False the series is the paper's; {cure}"
                )
        super().__post_init__()

    @classmethod
    def for_images(cls, shape: ImageShape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the shape, a generator that can make such images, and no pooling where squares do not fill them."""
        settings = super().for_images(shape, given)
        return settings | (
            {"pool": 1} if settings and (shape.height % 2 or shape.width % 2) else {}
        )

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sum kernel, the products, and the counts; refuses products that would take more than `memory`."""
        layout = schema.layout
        if self.image is not None:
            check_image_schema(schema, self.shape)
        elif not self.subsets and self.products == "pairs":
            check_groups(
                len(schema.columns),
                "products='pairs'",
                "products='random', 'none' or subsets=[...]",
            )
        scales, orders = (
            self.by_column(layout, setting) for setting in ("length_scales", "orders")
        )
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
        bounds = {
            name: self.sum_bound if name == SUM else self.product_bound for name in maps
        }
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
        """Returns the bound on the sum kernel, by the order of its series; one-hot kernels and counts are exact.

        There is none for images, whose features are those of a kernel less its value at the background.
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

    def counters(self, maps: Mapping[str, FeatureMap]) -> dict[str, Any]:
        """Returns those of sums that are not clipped: a shorter vector counts for less than one record."""
        clipped = {
            name
            for name in maps
            if (self.sum_bound if name == SUM else self.product_bound) < 1
        }
        return {
            name: counter
            for name, counter in super().counters(maps).items()
            if name not in clipped
        }

    def matching(self) -> Callable[..., Fit]:
        """Returns what makes the fit of a generator to a target: with γ, and products in turn, where asked for."""
        if self.gamma is None and self.matched == "together":
            return super().matching()
        from noisegate_papers.training.perceptual_matching import SumProductMatching

        return partial(
            SumProductMatching,
            sum_block=SUM,
            gamma=self.gamma,
            in_turn=self.matched == "in-turn",
        )

    def _series(self, length_scale: float, order: int | None) -> Series:
        """Returns the series that stands for a Gaussian kernel; an order of None is for the shortest one."""
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
