"""DP-MERF: mean embeddings by random Fourier features, which a generator is fitted to.

Harder, Adamczewski and Park (AISTATS 2021), https://arxiv.org/abs/2002.11603. One pass over the records releases
class-wise sums and counts in one plan. A generator is then fitted so that its expected embedding matches (equation 18).
What differs from the paper, and why, is in [choosing](../../docs/choosing.md) and
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar

from noisegate.methods.abilities import BoundsErrors, ChangesFitDefaults
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.queries.contingency import check_groups
from noisegate.queries.feature_map import Levels
from noisegate.schema import Schema
from noisegate.settings import Count, Number, Share, Widths, settings
from noisegate_images.models.image_network import check_image_schema
from noisegate_images.queries.fourier import Kernel, draw
from noisegate_papers.methods.table_or_image import (
    TableOrImageGenerator,
    by_generator,
    values_by_column,
)
from noisegate_papers.queries.error_bounds import (
    ErrorBound,
    error_bound,
    random_feature_error,
)

FOURIER = "fourier"
"""The query of the random Fourier features."""
LEVELS = "levels"
"""The query of the one-hot codes."""
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


@register("dp-merf")
@settings
class DPMERF(
    TableOrImageGenerator, MeanEmbeddingMethod, BoundsErrors, ChangesFitDefaults
):
    """DP-MERF: mean embeddings by random Fourier features (Harder et al. 2021).

    Harder, Adamczewski and Park (AISTATS 2021), https://arxiv.org/abs/2002.11603. The sums are those of random Fourier
    features (`noisegate_images.queries.fourier`) and of scaled one-hot codes (`Levels`). The schema determines which of
    the paper's four variants are used:

    - without a categorical, ordinal or boolean label: one sum over all records;
    - with such a label: a sum for each label;
    - balanced by the noisy counts of the labels (section 4.2);
    - with the polynomial kernel of section 4.3 for the other categorical, ordinal and boolean columns.

    Defaults for images were chosen on simulated digits (benchmarks/simulated_digits.py of commit 14f1ae5e), which are
    public. For the procedure and for the paper's settings see benchmarks/dp_merf.

    Examples:
        >>> from noisegate import Budget, DPMERF, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> plan = DPMERF(frequencies=50).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'fourier': (200, 3.79), 'counts': (2, 21.86)}
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"frequencies": 50}

    frequencies: Count = 1000
    """Number of random frequencies. The embedding has twice as many coordinates for each label."""
    kernel: Kernel = by_generator(table="pairs", images="numeric")
    """"pairs" (each frequency uses one or two columns) or "numeric" (as in the paper: all numeric columns)."""
    length_scale: Interval = by_generator(table=(0.005, 0.5), images=(5.0, 5.0))
    """Length scales are drawn log-uniformly from this interval, in units of a column's range."""
    length_scales: Mapping[str, Interval] = field(default_factory=dict)
    """Intervals of the length scales of single columns, by name."""
    fourier_share: Share = 1.0
    """Share of the budget for the Fourier sums."""
    levels_share: Share = 0.5
    """Share of the budget for the one-hot sums."""
    hidden: Widths = by_generator(
        table=(256, 256), images=(), convolutional=(200,), fully_connected=(500, 500)
    )
    """Widths of the generator's hidden layers."""

    def __post_init__(self) -> None:
        self.check_generator(self.image)

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the Fourier sums, and the one-hot sums of a table that has coded columns in addition to the label."""
        layout = schema.layout
        if self.image is not None:
            check_image_schema(schema, self.shape)
        scales = values_by_column(layout, "length_scales", self.length_scales)
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
        """Returns the error bound of the Fourier query. Codes and counts represent their kernels exactly."""
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

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """Changes to the defaults of the fit."""
        return self.fit_defaults_for({"steps": 3000, "batch": 128})

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of the generator to the released means, ready to run."""
        maps = plan.maps if plan else self.maps(release.schema)
        return self.fit_to_means(release, maps, self, seed=self.seed, device=device)
