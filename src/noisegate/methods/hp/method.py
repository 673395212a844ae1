"""DP-HP: Hermite polynomial features for private data generation (Vinaroz, Charusaie, Harder, Adamczewski, Park 2022).

One pass over the records releases class-wise sums in one plan: the sum kernel (Hermite features of every column),
product kernels on groups of columns, and counts. A generator is then fitted so that its expected embedding matches.
Every sum, the products' too, is split by label.

What differs from the paper, and why, is in docs/choosing.md: the series is centred and stretched to the column's range,
which needs a tenth of the terms; coded columns have an exact one-hot kernel; the bound is the truncated supremum and
not 1; all pairs of columns are multiplied, not a few random ones; and the budget is split for the least total noise.
`moved=False`, `products="random"` and `noisegate.methods.hp.design.paper_split` give the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.features.labels import Counts
from noisegate.features.pooled import PooledProducts
from noisegate.features.products import Group, Products
from noisegate.methods.generator_choice import TABLES, Generator, check_image_schema, read_shape
from noisegate.methods.hp.design import (
    Kernel,
    ProductKind,
    least_noise_shares,
    named_groups,
    pair_groups,
    pooled_schema,
    random_groups,
    small_shape,
    sum_groups,
    tables_of,
    weighted,
)
from noisegate.methods.hp.settings import check_memory, check_numbers, defaults_of
from noisegate.methods.matched import COUNTS, Matched
from noisegate.methods.numbers import check_groups
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.approximation_bounds import truncation_error
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Question
from noisegate.privacy.release import Release
from noisegate.privacy.trade_off import ErrorBound, error_bound
from noisegate.schema import Layout, Schema
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import check_seed

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate

SUM, PRODUCT = "sum", "product"
# Stands for the default of the generator (`settings.DEFAULTS`) until a method is made.
_OF_GENERATOR: Any = None


@dataclass(frozen=True, kw_only=True)
class DPHP(Matched):
    """Settings of DP-HP; none of them depends on private data.

    Where a default is not given, it is that of the generator, in `noisegate.methods.hp.settings.DEFAULTS`.

    Attributes:
        generator: "mixture" of products, or "table", the paper's kind of network; for images as a table of pixels
            "convolutional" or "fully-connected".
        image: Height, width and channels of the images; None for a table.
        length_scale: Of the sum kernel, in units of a column's range.
        length_scales: The same for single columns, by name; products use them too.
        order: Of the sum kernel's series; None for the shortest one that keeps `kept` of the kernel.
        product_length_scale: Of the product kernels.
        product_order: Of their series.
        product_rank: How many directions of a numeric column's features a product keeps, the strongest ones; None for
            all.
        pool: For images, products are of averages over squares of so many pixels a side.
        kept: See `order`.
        moved: Whether series are centred and stretched to the column's range; the paper's are not, and need orders.
        reference: A public position, in units of a column's range, whose features are subtracted from every column's:
            the background of images. Columns that stand there then add nothing to a record's vector.
        sum_bound: Share of its supremum that the norm of a record's sum vector is clipped to; below 1 only where public
            data say that hardly any record is longer.
        product_bound: The same for the products.
        products: "pairs" (all that fit into `most_coordinates`), "random" (the paper: groups of `product_columns`,
            `draws` times, each a release of its own) or "none".
        subsets: Names of the columns of each product, instead; all in one release.
        product_columns: Columns of a random product.
        draws: Number of random products.
        most_coordinates: How many coordinates all pairs may have, for each label value.
        memory: What one question may take at the gate, in megabytes.
        sum_share: Budget share of the sum kernel; None for the least total noise.
        product_share: Of each release of products; None for the least total noise.
        counts_share: Of the counts, where the others sum to 1.
        components: Of a mixture, for each label value.
        latent: Length of the noise vector of a network.
        hidden: Widths of its hidden layers.
        channels: Of the convolutional generator, at a quarter and at half of the image's size.
        fit_options: Changes to `noisegate.fitting.loop.FitSettings`; they cannot change the privacy.
        seed: Of the public randomness: random products, initial weights, fitting. Never of the private noise.
    """

    generator: Generator = "mixture"
    image: tuple[int, int, int] | None = None
    length_scale: float = _OF_GENERATOR
    length_scales: Mapping[str, float] = field(default_factory=dict)
    order: int | None = None
    product_length_scale: float = _OF_GENERATOR
    product_order: int | None = None
    product_rank: int | None = _OF_GENERATOR
    pool: int = _OF_GENERATOR
    kept: float = 0.9
    moved: bool = True
    reference: float | None = _OF_GENERATOR
    sum_bound: float = _OF_GENERATOR
    product_bound: float = _OF_GENERATOR
    products: ProductKind = "pairs"
    subsets: tuple[tuple[str, ...], ...] = ()
    product_columns: int = 2
    draws: int = 1
    most_coordinates: int = _OF_GENERATOR
    memory: int = 4000
    sum_share: float | None = None
    product_share: float | None = None
    counts_share: float = 0.03
    components: int = 100
    latent: int = _OF_GENERATOR
    hidden: tuple[int, ...] = _OF_GENERATOR
    channels: tuple[int, ...] = (16, 8)
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    name: Literal["dp-hp"] = field(default="dp-hp", init=False)

    def __post_init__(self) -> None:
        for option, value in defaults_of(self.generator).settings.items():
            if getattr(self, option) is _OF_GENERATOR:
                object.__setattr__(self, option, value)
        if not isinstance(self.length_scales, Mapping) or not isinstance(self.fit_options, Mapping):
            raise OptionError("length_scales and fit_options of dp-hp must map names to values.")
        check_numbers(vars(self))
        check_seed(self.seed)
        # JSON, on the command line and in certificates, knows lists only.
        try:
            object.__setattr__(self, "hidden", tuple(map(_width, self.hidden)))
            object.__setattr__(self, "channels", tuple(map(_width, self.channels)))
            object.__setattr__(self, "subsets", tuple(tuple(map(str, subset)) for subset in self.subsets))
        except (TypeError, ValueError) as error:
            raise OptionError(f"hidden, channels or subsets of dp-hp is unusable: {error}") from None
        if self.generator not in TABLES:
            object.__setattr__(self, "image", astuple(read_shape(self.image)))
        elif self.image is not None:
            raise OptionError(f"image={self.image!r} needs a generator of images; add generator='convolutional'.")
        self.generator_network()

    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each question; the same for the same schema, settings and seed."""
        layout = schema.layout
        if self.image is not None:
            check_image_schema(schema, read_shape(self.image))
        elif not self.subsets and self.products not in ("random", "none"):
            instead = "products='random', 'none' or subsets=[...]"
            check_groups(len(schema.columns), f"products={self.products!r}", instead)
        for name in self.length_scales:
            if name not in [column.name for column in layout.numeric]:
                raise OptionError(f"length_scales names {name!r}, which is no numeric column of the schema.")
        scales = [self.length_scales.get(column.name) for column in layout.numeric]
        kernel = Kernel(
            length_scale=self.length_scale,
            order=self.order,
            kept=self.kept,
            moved=self.moved,
            reference=self.reference,
        )
        maps: dict[str, FeatureMap] = {SUM: weighted(tables_of(layout, kernel, scales), sum_groups(layout))}
        kernel = replace(
            kernel, length_scale=self.product_length_scale, order=self.product_order, rank=self.product_rank
        )
        return maps | self._product_maps(layout, kernel, scales) | {COUNTS: Counts()}

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan: what will be asked, and with what noise. Reads no data.

        Raises:
            OptionError: if a setting does not fit the schema, or a product would take more than `memory`.
        """
        label = schema.layout.label
        columns = 1 if label is None else schema.layout.coded[label].size
        maps = self._asked(schema, budget)
        for name, feature_map in maps.items():
            products = feature_map.products if isinstance(feature_map, PooledProducts) else feature_map
            if isinstance(products, Products) and not products.single:
                largest = max(products.groups, key=lambda group: len(group))
                widths = tuple(products.tables[column].width for column in largest)
                check_memory(name, dim=feature_map.dim, columns=columns, widths=widths, memory=self.memory)
        shares = self._shares(maps)
        questions = [
            Question(
                name=name,
                dim=feature_map.dim,
                columns=columns,
                norm=feature_map.norm * self._bound(name),
                share=shares[name],
                nonnegative=feature_map.nonnegative,
            )
            for name, feature_map in maps.items()
        ]
        return Plan(questions=tuple(questions)).calibrate(budget)

    def error_bounds(self, schema: Schema, budget: Budget, records: int) -> tuple[ErrorBound, ...]:
        """Returns the bound on the sum kernel, by the order of its series; one-hot kernels and counts are exact.

        There is none for images, whose features are those of a kernel less its value at the background.
        """
        features = self.maps(schema)[SUM]
        numeric = len(schema.layout.numeric)
        if self.image is not None or not numeric or not isinstance(features, Products):
            return ()
        kernel = Kernel(length_scale=self.length_scale, order=self.order, kept=self.kept, moved=self.moved)
        series = kernel.series()
        exact = features.dim - sum(features.tables[column].width for (column,) in features.groups if column < numeric)
        bound = error_bound(
            self.plan(schema, budget).release(SUM),
            records=records,
            setting="order",
            value=series.order,
            candidates=range(1, 100),
            dimension=lambda order: numeric * (order + 1) + exact,
            approximation=lambda order: truncation_error(1 - min(1.0, replace(series, order=order).kept)),
            source="DP-HP, section 3.1, with the tail of the series in full",
        )
        return (bound,)

    def ask(self, gate: Gate) -> Release:
        """Returns the release: the one time that private records are used."""
        plan = self.plan(gate.schema, gate.budget)
        return gate.sum(
            plan, self._asked(gate.schema, gate.budget), method=self.name, public={"settings": self.to_json()}
        )

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the generator's fit has otherwise than `noisegate.fitting.loop.FitSettings`."""
        return defaults_of(self.generator).fit

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        settings = asdict(self)
        settings.pop("name")
        lists = {name: list(settings[name]) for name in ("hidden", "channels")}
        image = None if self.image is None else list(self.image)
        return settings | lists | {"image": image, "subsets": [list(subset) for subset in self.subsets]}

    def _product_maps(self, layout: Layout, kernel: Kernel, scales: list[float | None]) -> dict[str, FeatureMap]:
        image = None if self.image is None else read_shape(self.image)
        shape = image if self.pool > 1 else None
        if shape is not None:
            image, layout = small_shape(shape, self.pool), pooled_schema(shape, self.pool).layout
            scales = [None] * len(layout.numeric)
        tables = tables_of(layout, kernel, scales)
        groups = self._products(layout, [table.width for table in tables], image)
        maps = {name: weighted(tables, some) for name, some in groups.items()}
        if shape is None:
            return dict(maps)
        return {name: PooledProducts(products=one, image=shape, pool=self.pool) for name, one in maps.items()}

    def _products(self, layout: Layout, widths: list[int], image: ImageShape | None) -> dict[str, list[Group]]:
        """Returns the groups of each release of products, by question."""
        if self.subsets:
            return {PRODUCT: named_groups(layout, self.subsets)}
        if self.products == "random":
            groups = random_groups(layout, columns=self.product_columns, draws=self.draws, seed=self.seed)
            return {f"{PRODUCT}-{place + 1}": [group] for place, group in enumerate(groups)}
        if self.products == "none":
            return {}
        pairs = pair_groups(layout, widths, most=self.most_coordinates, image=image, seed=self.seed)
        return {PRODUCT: pairs} if pairs else {}

    def _shares(self, maps: Mapping[str, FeatureMap]) -> dict[str, float]:
        embeddings = {name: feature_map for name, feature_map in maps.items() if name != COUNTS}
        shares = least_noise_shares(embeddings, {name: self._bound(name) for name in embeddings})
        for name in shares:
            given = self.sum_share if name == SUM else self.product_share
            shares[name] = shares[name] if given is None else given
        return shares | {COUNTS: self.counts_share * sum(shares.values())}

    def _bound(self, name: str) -> float:
        if name == COUNTS:
            return 1.0
        return self.sum_bound if name == SUM else self.product_bound

    def _asked(self, schema: Schema, budget: Budget) -> dict[str, FeatureMap]:
        maps = self.maps(schema)
        # Under replace-one the number of records is public; without a label there is nothing else to count.
        if schema.layout.label is None and budget.adjacency is Adjacency.REPLACE_ONE:
            maps.pop(COUNTS)
        return maps


def _width(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"a layer of width {value!r}; widths are positive whole numbers.")
    return value
