"""DP-MERF: differentially private mean embeddings with random features (Harder, Adamczewski, Park, AISTATS 2021).

One pass over the records releases three class-wise sums in one plan: random Fourier features (`features.fourier`),
scaled one-hot codes (`features.categorical`) and counts. A generator is then fitted so that its expected embedding
matches.

The paper's four variants follow from the schema: without a coded label the table is unlabelled (a numeric label is
one more column); with one, sums are class-wise and noisy counts reweigh them (balanced or not, section 4.2); coded
columns add the polynomial kernel of section 4.3. What differs from the paper, and why, is in docs/choosing.md.

A table of pixels (`noisegate.schema.pixel_schema`) may have an image generator instead, with defaults of its own
(`methods.merf_settings`). What is asked of the records is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from noisegate.errors import OptionError
from noisegate.features.categorical import Levels
from noisegate.features.feature_map import FeatureMap
from noisegate.features.fourier import Kernel, draw
from noisegate.features.labels import Counts
from noisegate.methods.generator_choice import TABLES, Generator, check_image_schema, read_shape
from noisegate.methods.matched import COUNTS, Matched
from noisegate.methods.merf_settings import defaults_of
from noisegate.methods.numbers import check_groups
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.approximation_bounds import random_feature_error
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Question
from noisegate.privacy.release import Release
from noisegate.privacy.trade_off import ErrorBound, error_bound
from noisegate.schema import Schema
from noisegate.seeds import check_seed

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate

FOURIER, LEVELS = "fourier", "levels"
PUBLIC_SEED = 0
# Stands for the default of the generator (`methods.merf_settings.DEFAULTS`) until a method is made.
_OF_GENERATOR: Any = None
# What the error bound chooses from: steps of two figures, and no embedding longer than the gate can sum at ease.
_FREQUENCIES = (*range(1, 10), *(figures * 10**power for power in range(5) for figures in range(10, 100)))


@dataclass(frozen=True, kw_only=True)
class DPMERF(Matched):
    """Settings of DP-MERF; none of them depends on private data.

    Where a default is not given, it is that of the generator, in `noisegate.methods.merf_settings.DEFAULTS`.

    Attributes:
        generator: "table", the paper's kind of network, or "mixture" of products; for images as a table of pixels
            "convolutional" or "fully-connected".
        image: Height, width and channels of the images; None for a table.
        frequencies: Number of random frequencies; the embedding has twice as many coordinates for each label.
        kernel: "pairs" (one or two columns a frequency) or "numeric" (the paper: all numeric columns).
        length_scale: Length scales are drawn log-uniformly from this interval, in units of a column's range.
        length_scales: The same for single columns, by name.
        fourier_share: Budget share of the Fourier sums.
        levels_share: Budget share of the one-hot sums.
        counts_share: Budget share of the counts.
        components: Of a mixture, for each label value.
        latent: Length of the noise vector of a network.
        hidden: Widths of its hidden layers.
        channels: Of the convolutional generator, at a quarter and at half of the image's size.
        fit_options: Changes to `noisegate.fitting.loop.FitSettings`; they cannot change the privacy.
        seed: Of the public randomness: features, initial weights, fitting. Never of the private noise.
    """

    generator: Generator = "table"
    image: tuple[int, int, int] | None = None
    frequencies: int = _OF_GENERATOR
    kernel: Kernel = _OF_GENERATOR
    length_scale: tuple[float, float] = _OF_GENERATOR
    length_scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fourier_share: float = 1.0
    levels_share: float = 0.5
    counts_share: float = 0.03
    components: int = 100
    latent: int = _OF_GENERATOR
    hidden: tuple[int, ...] = _OF_GENERATOR
    channels: tuple[int, ...] = (16, 8)
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = PUBLIC_SEED

    name: Literal["dp-merf"] = field(default="dp-merf", init=False)

    def __post_init__(self) -> None:
        for option, value in defaults_of(self.generator).settings.items():
            if getattr(self, option) is _OF_GENERATOR:
                object.__setattr__(self, option, value)
        for option in ("frequencies", "components", "latent"):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{option}={value!r} must be a positive whole number.")
        check_seed(self.seed)
        if self.kernel not in ("pairs", "numeric"):
            raise OptionError(f"kernel={self.kernel!r} is not known; choose 'pairs' or 'numeric'.")
        if not isinstance(self.fit_options, Mapping):
            raise OptionError(f"fit_options={self.fit_options!r} must map names of FitSettings to values.")
        # JSON, on the command line and in certificates, knows lists only.
        try:
            object.__setattr__(self, "hidden", tuple(_width(width) for width in self.hidden))
            object.__setattr__(self, "channels", tuple(_width(width) for width in self.channels))
            object.__setattr__(self, "length_scale", _interval(self.length_scale))
            scales = {str(name): _interval(value) for name, value in self.length_scales.items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise OptionError(
                f"hidden, channels, length_scale or length_scales of dp-merf is unusable: {error}"
            ) from None
        object.__setattr__(self, "length_scales", scales)
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
        for name in self.length_scales:
            if name not in [column.name for column in layout.numeric]:
                raise OptionError(f"length_scales names {name!r}, which is no numeric column of the schema.")
        if self.kernel == "pairs":
            check_groups(len(schema.columns), "kernel='pairs'", "kernel='numeric', where there are numeric columns")
        coded = tuple(j for j in range(len(layout.coded)) if j != layout.label)
        maps: dict[str, FeatureMap] = {
            FOURIER: draw(
                layout,
                count=self.frequencies,
                kernel=self.kernel,
                length_scales=[self.length_scales.get(column.name, self.length_scale) for column in layout.numeric],
                exclude_label=layout.label is not None,
                seed=self.seed,
            )
        }
        if coded:
            maps[LEVELS] = Levels(columns=coded, sizes=tuple(layout.coded[j].size for j in coded))
        return maps | {COUNTS: Counts()}

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan: what will be asked, and with what noise. Reads no data."""
        label = schema.layout.label
        columns = 1 if label is None else schema.layout.coded[label].size
        shares = {FOURIER: self.fourier_share, LEVELS: self.levels_share, COUNTS: self.counts_share}
        maps = self._asked(schema, budget)
        questions = [
            Question(
                name=name,
                dim=feature_map.dim,
                columns=columns,
                norm=feature_map.norm,
                share=shares[name],
                nonnegative=feature_map.nonnegative,
            )
            for name, feature_map in maps.items()
        ]
        return Plan(questions=tuple(questions)).calibrate(budget)

    def error_bounds(self, schema: Schema, budget: Budget, records: int) -> tuple[ErrorBound, ...]:
        """Returns the bound on the Fourier question; codes and counts stand for their kernels exactly."""
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
        return settings | {
            "length_scale": list(self.length_scale),
            "length_scales": {name: list(value) for name, value in self.length_scales.items()},
            "hidden": list(self.hidden),
            "channels": list(self.channels),
            "image": None if self.image is None else list(self.image),
        }

    def _asked(self, schema: Schema, budget: Budget) -> dict[str, FeatureMap]:
        maps = self.maps(schema)
        # Under replace-one the number of records is public; without a label there is nothing else to count.
        if schema.layout.label is None and budget.adjacency is Adjacency.REPLACE_ONE:
            maps.pop(COUNTS)
        return maps


def _width(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"a hidden layer of width {value!r}; widths are positive whole numbers.")
    return value


def _interval(value: Any) -> tuple[float, float]:
    low, high = (value, value) if isinstance(value, int | float) else value
    return float(low), float(high)
