"""Pairwise embeddings: noisy counts of all pairs of columns, in three rounds, and a mixture that matches them.

RAP, Aydore et al. (ICML 2021), https://arxiv.org/abs/2103.06641; GEM, Liu, Vietri and Wu (NeurIPS 2021),
https://arxiv.org/abs/2106.07153; PrivSyn, Zhang et al. (USENIX Security 2021), https://arxiv.org/abs/2012.15128.

The vector of a record is the indicator of its cell in every pair of (binned) columns,
in each class of the label: the second moment of its one-hot code. Three rounds in one
plan: fine histograms of numeric columns, from which cells are cut; in wide tables a
coarse look at all pairs, from which some are chosen; then counts, one-way tables and
pairs.

Its family is fixed low-order marginals under one Gaussian mechanism, and a model fitted
by gradient descent: RAP, Aydore et al. (ICML 2021), https://arxiv.org/abs/2103.06641;
GEM, Liu, Vietri and Wu (NeurIPS 2021), https://arxiv.org/abs/2106.07153; PrivSyn, Zhang
et al. (USENIX Security 2021), https://arxiv.org/abs/2012.15128.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np

from noisegate.answers import design as rounds
from noisegate.answers.design import Columns, Design
from noisegate.answers.measurements import Measurements
from noisegate.answers.reading import read_measurements
from noisegate.answers.released import (
    COARSE,
    HISTOGRAMS,
    Floats,
    Table,
    Values,
    read_tables,
)
from noisegate.devices import check_device
from noisegate.errors import OptionError
from noisegate.methods.forecast import Forecast, forecast, forecast_of
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.models.tables.descent import MixtureSettings
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Query
from noisegate.privacy.release import Release
from noisegate.queries.binning import equal_bins
from noisegate.queries.contingency import Contingency, check_groups, equally_weighted
from noisegate.queries.moments import Moments, moments_of
from noisegate.schema import Layout, Schema
from noisegate.settings import (
    Count,
    Names,
    NoneOrMore,
    Options,
    Relative,
    Seed,
    TwoOrMore,
    settings,
)

if TYPE_CHECKING:
    from noisegate.answers.verdict import Verdict
    from noisegate.gate.gate import Gate
    from noisegate.models.labelled import LabelledMixture
    from noisegate.models.mixture import Mixture
    from noisegate.models.tables.mixture_fit import PairwiseFit
    from noisegate.queries.binning import NumericBins
    from noisegate.queries.feature_map import FeatureMap

MOMENTS = "moments"
# From either end a range begins at the first coarse cell in which, or up to which, there are more records than so many
# standard deviations of the noise: the noise of a moment grows with the range.
_SEEN = 3.0


def moments_query(design: Design, columns: Columns, share: float) -> tuple[Query, ...]:
    """Returns the query of a plan about the second moments of some columns, as a plan takes several."""
    whole = moments_of(design.layout, columns)
    later = bool(design.bought)
    query = Query(
        name=MOMENTS,
        dim=whole.dim,
        columns=1,
        norm=whole.norm,
        share=share,
        adaptive=later,
        feature_map=None if later else whole,
    )
    return (query,)


def moments_map(
    design: Design, columns: Columns, values: Values, stds: Mapping[str, float]
) -> Moments:
    """Returns the map: columns with a histogram within the range where it says that records are."""
    return moments_of(
        design.layout, columns, dict(moments_ranges(design, columns, values, stds))
    )


def moments_ranges(
    design: Design, columns: Columns, values: Values, stds: Mapping[str, float]
) -> list[tuple[int, tuple[float, float, float]]]:
    """Returns these ranges, by column."""
    if design.fixed:
        return [(place, tuple(ends)) for place, ends in design.fixed["ranges"]]
    found = design.released_histograms(values, stds) if design.bought else {}
    return [
        (place, _range(*cells[-1]))
        for place, cells in found.items()
        if place in columns
    ]


def _range(bins: NumericBins, table: Table) -> tuple[float, float, float]:
    """Returns the ends of a range, and about how many records may lie beyond either."""
    counts, least = table.counts[: len(bins.cuts) + 1], _SEEN * table.noise_std
    ends, far = (
        np.asarray([0.0, *bins.cuts, 1.0]),
        np.sqrt(np.arange(1, len(counts) + 1)),
    )
    first, last = (
        int(((each > least) | (np.cumsum(each) > least * far)).argmax())
        for each in (counts, counts[::-1])
    )
    low, high = float(ends[first]), float(ends[len(counts) - last])
    return (
        (low, high, least if (low, high) != (0.0, 1.0) else 0.0)
        if low < high
        else (0.0, 1.0, 0.0)
    )


WIDE = 40
"""Above this many columns pairs are chosen instead of all being measured."""
DESIGN = 6
"""Version of the rules by which cells and tables follow from settings and released histograms; 1 is not stated."""
_CLEAR = 2.0
Pairs = Annotated[tuple[tuple[str, str], ...], "a list of lists of 2 column names"]
Triples = Annotated[
    tuple[tuple[str, str, str], ...], "a list of lists of 3 column names"
]


@register("pairwise")
@settings
class Pairwise(Method):
    """The default for tables: noisy counts of columns and pairs of columns, fitted by a mixture.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill"), Boolean(name="old")))
        >>> plan = Pairwise(cells=8).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: round(event.noise_multiplier, 2) for event in plan.events}
        {'fine': 16.77, 'coarse': 16.77, 'counts': 37.49, 'one-way': 8.38, 'pairs': 4.48}
    """

    needs_torch = False
    seeded_fit = True
    fit_class = MixtureSettings
    rules_version = DESIGN

    cells: TwoOrMore | None = None
    """Cells of a numeric column, about; None for a number that follows from ε and the number of columns, and for fewer
    where the histograms say that there are few records."""
    pairs: Literal["auto", "all", "chosen", "none"] | Pairs = "auto"
    """"all", "chosen" by a coarse noisy look, "none" for one-way tables only, a list of pairs of column names (a
    workload), or "auto": all, and in tables of more than 40 columns chosen."""
    most_pairs: Count = 1000
    """How many pairs are chosen at most."""
    triples: Triples = ()
    """Lists of three column names, measured besides."""
    histograms_share: Relative = 0.1
    """Budget share of the histograms, half of it for the coarse ones."""
    screen_share: Relative = 0.1
    """Budget share of the coarse look at pairs."""
    counts_share: Relative = 0.01
    """Budget share of the class counts."""
    one_way_share: Relative = 0.2
    """Budget share of the one-way tables."""
    pairs_share: Relative = 0.7
    """Budget share of pairs and triples."""
    report_share: NoneOrMore = 0.0
    """Budget share of counts that the fit never sees, for scores that may be published; 0 for none."""
    moments_share: NoneOrMore = 0.0
    """Budget share of second moments, from which `noisegate infer` answers with intervals; 0 for none."""
    moments: Names = ()
    """Columns that these are about; none stands for all."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate.models.tables.descent.MixtureSettings`; they cannot change the privacy."""
    seed: Seed = 0
    """Seed for non-private randomness: the fit's first components. Never of the private noise."""

    def design(
        self, schema: Schema, epsilon: float, *, version: int = DESIGN
    ) -> Design:
        """Returns what is asked about a table at a given ε; an OptionError if a named column is not in the schema.

        `version` is that of the rules, which a release states: what was asked once is read by the same ones.
        """
        layout = schema.layout
        # Fewer at small ε, and in wide tables, where noise is more: chosen on public and simulated tables, see
        # docs/choosing.md.
        narrow = min(
            1.0, math.sqrt(_NARROW / (len(layout.numeric) + len(layout.coded)))
        )
        cells = self.cells or max(round((24 if epsilon < 3 else 36) * narrow), 4)
        fixed: dict[str, Any] = {
            "most_pairs": self.most_pairs,
            "screened": False,
            "pairs": (),
            "scaled": version > 1,
        }
        fixed["graded"], fixed["patient"] = version > 3, version == 5
        yielding = version > 1 and self.pairs == "auto" and not self.triples
        clear = _CLEAR if version > 2 and self.cells is None else None
        bare = Design(
            layout=layout, cells=cells, yielding=yielding, clear=clear, **fixed
        )
        # The label is in every table anyway where its classes are told apart.
        triples = (columns_named(layout, names, "triples") for names in self.triples)
        unlabelled = (
            tuple(column for column in triple if column != bare.label)
            for triple in triples
        )
        bare = replace(bare, triples=tuple(dict.fromkeys(unlabelled)))
        if self.pairs == "none":
            return bare
        if not isinstance(self.pairs, str):
            named = [columns_named(layout, names, "pairs") for names in self.pairs]
            return replace(
                bare,
                pairs=tuple(
                    dict.fromkeys(pair for pair in named if bare.label not in pair)
                ),
            )
        check_groups(
            len(bare.columns),
            f"pairs={self.pairs!r}",
            "pairs='none', or a list of those that matter",
        )
        if len(bare.columns) > 1 and (
            self.pairs == "chosen"
            or (self.pairs == "auto" and len(bare.columns) > WIDE)
        ):
            return replace(bare, screened=True, pairs=None)
        return replace(bare, pairs=tuple(combinations(bare.columns, 2)))

    def why(self, schema: Schema, epsilon: float) -> str:
        """Returns in one sentence what "auto" does with a table, and why."""
        return f"pairwise: {reason(self.design(schema, epsilon), epsilon)}."

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan, with the design in it. Reads no data."""
        shares = dict.fromkeys((HISTOGRAMS, COARSE), self.histograms_share / 2)
        shares |= {rounds.SCREEN: self.screen_share, rounds.COUNTS: self.counts_share}
        shares |= {rounds.SINGLES: self.one_way_share, rounds.PAIRS: self.pairs_share}
        design = self.design(schema, budget.epsilon)
        columns = self.moments_columns(schema.layout) if self.moments_share else ()
        asked = moments_query(design, columns, self.moments_share) if columns else ()
        queries = (*design.queries(shares), *asked)
        if (
            tables := unfitted_tables(schema.layout) if self.report_share else None
        ) is not None:
            fixed: dict[str, Any] = {
                "columns": 1,
                "norm": 1.0,
                "nonnegative": True,
                "tables": len(tables.tables),
            }
            queries += (
                Query(
                    name=UNFITTED,
                    dim=tables.dim,
                    share=self.report_share,
                    feature_map=tables,
                    **fixed,
                ),
            )
        return Plan(queries=queries, design=design).calibrate(budget)

    def forecast(self, schema: Schema, budget: Budget, records: float) -> Forecast:
        """Returns how far records are expected to be from so many real ones."""
        return forecast(self.plan(schema, budget), records)

    def forecast_of(
        self, release: Release, fitting: PairwiseFit, records: float
    ) -> Forecast:
        """Returns the same of a release and its fit; nothing is calibrated or designed again."""
        return forecast_of(fitting.design, release, records)

    def judged(self, fitting: PairwiseFit) -> Iterator[Verdict]:
        """Yields which associations the fit keeps, and which columns lie in one cell."""
        from noisegate.models.tables.associations import fit_verdicts

        return fit_verdicts(fitting)

    def query(self, gate: Gate, plan: CalibratedPlan | None = None) -> Release:
        """Returns the release: two or three passes over the records, the only times that they are used."""
        plan = plan or self.plan(gate.schema, gate.budget)
        stds = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        values: dict[str, Any] = {}
        with gate.open(
            plan, method=self.name, public=self.public_facts(gate.schema)
        ) as session:
            while asked := self.next_round(gate.schema, plan, values, stds):
                values |= session.ask(asked)
        return session.release()

    def next_round(
        self,
        schema: Schema,
        plan: CalibratedPlan,
        values: Values,
        noise_std: Mapping[str, float],
    ) -> Mapping[str, FeatureMap]:
        """Returns histograms, then in wide tables the coarse look at pairs, then all tables; see `Method`."""
        design: Design = plan.design
        if design.bought and HISTOGRAMS not in values:
            return design.histograms()
        if design.screened and rounds.SCREEN not in values:
            return {rounds.SCREEN: design.screen(values, noise_std)}
        if rounds.COUNTS in values:
            return {}
        asked: dict[str, FeatureMap] = {**design.final(values, noise_std)}
        if MOMENTS in noise_std:
            asked[MOMENTS] = moments_map(
                design, self.moments_columns(schema.layout), values, noise_std
            )
        return asked | (
            {UNFITTED: plan.maps[UNFITTED]} if UNFITTED in plan.maps else {}
        )

    def moments_columns(self, layout: Layout) -> Columns:
        """Returns the columns whose second moments are asked for; an OptionError if one is not in the schema."""
        if self.moments:
            return columns_named(layout, self.moments, "moments")
        return tuple(range(len(layout.numeric) + len(layout.coded)))

    def released_moments(
        self, release: Release
    ) -> tuple[Moments, Floats, float] | None:
        """Returns the map, the sums of its entries and the noise on each, in records; None where there are none."""
        if MOMENTS not in release.values:
            return None
        design, columns = (
            self._design_of(release),
            self.moments_columns(release.schema.layout),
        )
        found = moments_map(design, columns, release.values, release.noise_std)
        return (
            found,
            release.values[MOMENTS][:, 0] / found.weight,
            release.noise_std[MOMENTS] / found.weight,
        )

    def released_histograms(
        self, release: Release
    ) -> dict[int, list[tuple[NumericBins, Table]]]:
        """Returns the histograms of each bought column as they were released, the fine one first."""
        return self._design_of(release).released_histograms(
            release.values, release.noise_std
        )

    def measurements(self, release: Release) -> Measurements:
        """Returns all that a release states, histograms and second moments among it."""
        bins, tables = self.released_tables(release)
        return read_measurements(
            release,
            bins,
            tables,
            histograms=self.released_histograms(release),
            moments=self.released_moments(release),
        )

    def decisions(
        self,
        schema: Schema,
        plan: CalibratedPlan,
        values: Values,
        noise_std: Mapping[str, float],
    ) -> dict[str, Any]:
        """Returns the cells and pairs that answers decide; see `Method`."""
        found: dict[str, Any] = plan.design.decisions(values, noise_std)
        if MOMENTS in noise_std:
            columns = self.moments_columns(schema.layout)
            found["ranges"] = moments_ranges(plan.design, columns, values, noise_std)
        return found

    def settled(self, schema: Schema, epsilon: float) -> Self:
        """Returns the same with the number of cells that it takes at an ε."""
        return replace(self, cells=self.design(schema, epsilon).cells)

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> PairwiseFit:
        """Returns the fit of a release, ready to run, to save and to restore; it computes on the CPU, on any device."""
        from noisegate.models.tables.mixture_fit import PairwiseFit

        check_device(device, f"the fit of {self.name}")
        design = plan.design if plan else self._design_of(release)
        return PairwiseFit(design, release, self.fit_settings(), seed=self.seed)

    def released_tables(
        self, release: Release
    ) -> tuple[tuple[NumericBins, ...], list[Table]]:
        """Returns the cells of numeric columns, and all tables of the last round; see `Method`."""
        return self._design_of(release).read(release)

    def unfitted_tables(
        self, release: Release
    ) -> tuple[tuple[NumericBins, ...], list[Table]]:
        """Returns the counts that the fit never saw, and the cells of numeric columns in them; see `Method`."""
        found = (
            unfitted_tables(release.schema.layout)
            if UNFITTED in release.values
            else None
        )
        if found is None:
            return (), []
        return found.bins, read_tables(
            found, release.values[UNFITTED], release.noise_std[UNFITTED]
        )

    def _design_of(self, release: Release) -> Design:
        """Returns what was asked, by the rules of its time."""
        certificate = release.certificate
        design = self.design(
            release.schema,
            certificate.epsilon,
            version=certificate.public.get("design", 1),
        )
        return replace(design, fixed=certificate.public.get("fixed", {}))

    def model(
        self, release: Release, fitting: PairwiseFit
    ) -> Mixture | LabelledMixture:
        """Returns the mixture that a fit has reached."""
        return fitting.model()


_NARROW = 15  # up to this many columns a numeric one gets the full number of cells


def reason(design: Design, epsilon: float) -> str:
    """Returns which pairs are measured, on which cells, and why."""
    columns = len(design.columns)
    pairs, measured = math.comb(columns, 2), len(design.pairs or ())
    if design.screened:
        which = f"{columns} columns have {pairs:,} pairs, "
        which += f"so at most {design.most_pairs:,} are chosen by a coarse look"
    elif pairs and measured == pairs:
        which = f"the {pairs:,} pairs of {columns} columns are few enough to measure all of them"
        which += ", given enough records" * (design.yielding and bool(design.bought))
    else:
        which = f"of the {pairs:,} pairs of columns {measured:,} are measured"
    if design.label is not None and design.layout.label is not None:
        which += f", in each class of {design.layout.coded[design.layout.label].name!r}"
    if design.bought:
        which += f"; numeric columns become about {design.cells} cells at epsilon={epsilon:g}"
    return which


def columns_named(layout: Layout, names: Sequence[str], option: str) -> Columns:
    """Returns the numbers of columns, ascending.

    Raises:
        OptionError: if a name is not in the schema, or twice in the list.
    """
    known = [column.name for column in (*layout.numeric, *layout.coded)]
    for name in names:
        if name not in known:
            note = f"it has {', '.join(known)}."
            raise OptionError(
                f"{option} names {name!r}, which is not a column of the schema; {note}"
            )
    if len(set(names)) < len(names):
        raise OptionError(f"{option}={list(names)!r} names a column twice.")
    return tuple(sorted(known.index(name) for name in names))


UNFITTED = "unfitted"
_CELLS = 4  # of a numeric column, of equal width
_MOST_CODES, _MOST_TABLES = 12, 10


def unfitted_tables(layout: Layout) -> Contingency | None:
    """Returns the tables, by a rule that knows the schema alone; None where it has no column for them.

    They are pairs of the label with other columns, or of neighbouring columns where there is no label with levels: ten
    at most, spread evenly over the schema. Columns of more than twelve levels are left out.
    """
    bins = tuple(equal_bins(column, _CELLS) for column in layout.numeric)
    coded = tuple(column.size for column in layout.coded)
    sizes = (*(each.size for each in bins), *coded)
    columns = [column for column, size in enumerate(sizes) if 1 < size <= _MOST_CODES]
    label = None if layout.label is None else len(bins) + layout.label
    tables: list[tuple[int, ...]]
    if label in columns and len(columns) > 1:
        tables = [
            (column, label) if column < label else (label, column)
            for column in columns
            if column != label
        ]
    else:
        tables = list(pairwise(columns)) or [(column,) for column in columns]
    if not tables:
        return None
    step = max(len(tables) / _MOST_TABLES, 1.0)
    kept = [
        tables[math.floor(place * step)]
        for place in range(min(len(tables), _MOST_TABLES))
    ]
    return equally_weighted(bins, coded, kept)
