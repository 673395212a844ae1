"""Pairwise embeddings: noisy counts of pairs of columns, and a mixture that matches.

The vector of a record is the indicator of its cell in every pair of (binned) columns,
in each class of the label: the second moment of its one-hot code. Three rounds in one
plan: fine histograms of numeric columns, from which cells are cut; in wide tables a
coarse screening at all pairs, from which some are chosen; then counts, one-way tables
and pairs (`answers.design`, `answers.rounds`).

Its family is fixed low-order marginals under one Gaussian mechanism, and a model fitted
by gradient descent: RAP, Aydore et al. (ICML 2021), https://arxiv.org/abs/2103.06641;
GEM, Liu, Vietri and Wu (NeurIPS 2021), https://arxiv.org/abs/2106.07153; PrivSyn, Zhang
et al. (USENIX Security 2021), https://arxiv.org/abs/2012.15128.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from noisegate.answers.design import (
    COARSE,
    COUNTS,
    HISTOGRAMS,
    PAIRS,
    SCREEN,
    SINGLES,
    Columns,
    Design,
)
from noisegate.answers.domain import domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.reading import ReleaseReader, public_total, read_moments
from noisegate.answers.rounds import AnswersSoFar, Rounds, Values, read_tables
from noisegate.devices import check_device
from noisegate.errors import ModelError, OptionError
from noisegate.methods.abilities import AsksInRounds, ChosenByAuto
from noisegate.methods.fitted import fitted_synthesizer
from noisegate.methods.forecast import (
    Forecast,
    forecast,
    forecast_of,
    record_count,
    verdict_of_plan,
)
from noisegate.methods.held_out import HELD_OUT, held_out_map, held_out_query
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.methods.second_moments import (
    MOMENTS,
    moment_ranges,
    moments_map,
    moments_query,
)
from noisegate.models.tables.mixture_settings import MixtureSettings
from noisegate.privacy.plan import Budget, Plan, plan_sums
from noisegate.privacy.release import Release
from noisegate.queries.contingency import check_groups
from noisegate.schema import Layout, Schema
from noisegate.settings import (
    Count,
    Names,
    NoneOrMore,
    Options,
    Relative,
    Seed,
    Settings,
    TwoOrMore,
    settings,
)

if TYPE_CHECKING:
    from noisegate.answers.noisy_moments import NoisyMoments
    from noisegate.answers.verdict import Verdict
    from noisegate.gate.gate import Gate
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.models.tables.mixture_fit import PairwiseFit
    from noisegate.queries.feature_map import FeatureMap

WIDE = 40
"""In tables of more columns, pairs are chosen."""
DESIGN = 6
"""Version of the rules by which cells and tables follow from settings and released
histograms; 1 is not stated."""


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """One version of the rules; see the attributes of `Design`.

    Attributes:
        uses_total: Whether the number of records is used to read the histograms.
        gives_up_pairs: Whether pairs that would be below the noise may be given up.
        aims_at_clear_cells: Whether there are fewer bins if they would be below the
            noise.
        graded: Whether fine bins are finer near zero.
        keeps_noisy_pairs: Whether pairs are released with more noise before they are
            given up.
    """

    uses_total: bool = True
    gives_up_pairs: bool = True
    aims_at_clear_cells: bool = True
    graded: bool = True
    keeps_noisy_pairs: bool = False


# Releases of all versions are read for ever: none of these may change.
_RULES = {
    1: _Rules(
        uses_total=False, gives_up_pairs=False, aims_at_clear_cells=False, graded=False
    ),
    2: _Rules(aims_at_clear_cells=False, graded=False),
    3: _Rules(graded=False),
    4: _Rules(),
    5: _Rules(keeps_noisy_pairs=True),
    6: _Rules(),  # as 4 again
}

# Standard deviations of its noise that a cell of a pair shall hold on average.
_CLARITY = 2.0
# Up to this many columns a numeric one gets the full number of cells, which is fewer at
# small ε. Chosen on public and simulated tables, see docs/methods.md.
_MAX_NARROW_COLUMNS = 15
_CELLS_AT_SMALL_EPSILON = 24
_CELLS_AT_LARGE_EPSILON = 36
_LARGE_EPSILON = 3
_MIN_CELLS = 4

Pairs = Annotated[tuple[tuple[str, str], ...], "a list of lists of 2 column names"]
Triples = Annotated[
    tuple[tuple[str, str, str], ...], "a list of lists of 3 column names"
]


@register("pairwise")
@settings
class Pairwise(Settings, Method, AsksInRounds, ReleaseReader, ChosenByAuto):
    """The default for tables: noisy counts of columns and pairs, fitted by a mixture.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> schema = Schema((age, Boolean(name="ill"), Boolean(name="old")))
        >>> plan = Pairwise(cells=8).plan(schema, Budget(epsilon=1.0))
        >>> noise = {event.name: event.noise_multiplier for event in plan.events}
        >>> {name: round(multiplier, 1) for name, multiplier in noise.items()}
        {'fine': 16.8, 'coarse': 16.8, 'counts': 37.5, 'one-way': 8.4, 'pairs': 4.5}
    """

    needs_torch = False
    seeded_fit = True
    fit_class = MixtureSettings
    rules_version = DESIGN

    cells: TwoOrMore | None = None
    """Approximate number of bins of a numeric column; None for a number that depends on
    ε and the number of columns, and is smaller if the noisy histograms show few
    records."""
    pairs: Literal["auto", "all", "chosen", "none"] | Pairs = "auto"
    """"all"; "chosen" by a noisy screening on coarse bins; "none" for one-way tables
    only; a list of pairs of column names (a workload); or "auto": all, or chosen in
    tables of more than 40 columns."""
    most_pairs: Count = 1000
    """Largest number of chosen pairs."""
    triples: Triples = ()
    """Lists of three column names, whose tables are released in addition."""
    histograms_share: Relative = 0.1
    """Share of the budget for the histograms, half of it for the coarse ones."""
    screen_share: Relative = 0.1
    """Share of the budget for the screening of pairs on coarse bins."""
    counts_share: Relative = 0.01
    """Share of the budget for the class counts."""
    one_way_share: Relative = 0.2
    """Share of the budget for the one-way tables."""
    pairs_share: Relative = 0.7
    """Share of the budget for pairs and triples."""
    report_share: NoneOrMore = 0.0
    """Share of the budget for counts that the fit never uses, for scores that may be
    published; 0 for none."""
    moments_share: NoneOrMore = 0.0
    """Share of the budget for second moments, from which `noisegate infer` computes
    estimates with intervals; 0 for none."""
    moments: Names = ()
    """Columns of the second moments; empty for all."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate.models.tables.mixture_settings.MixtureSettings`; they
    cannot change the privacy."""
    seed: Seed = 0
    """Seed for non-private randomness: the initial components of the fit. The noise
    that protects the records cannot be seeded."""

    def design(
        self, schema: Schema, epsilon: float, *, version: int = DESIGN
    ) -> Design:
        """Returns the queries that follow from the settings and a version of the rules.

        Args:
            schema: Public knowledge about the records.
            epsilon: ε of the guarantee.
            version: Version of the rules. A release states it, so that its results are
                read by the rules of its queries.

        Raises:
            OptionError: if a column that the settings name is not in the schema.
            ModelError: if the version is not known.
        """
        if version not in _RULES:
            raise ModelError(
                f"the release states version {version!r} of the rules of its tables, "
                f"and this noisegate knows 1 to {DESIGN}: read it with a newer one."
            )
        rules = _RULES[version]
        # Pairs of the user's own choice are not given up.
        chooses_itself = self.pairs == "auto" and not self.triples
        layout = schema.layout
        n_columns = len(layout.numeric) + len(layout.coded)
        design = Design(
            layout=layout,
            cells=self.cells or _default_cells(n_columns, epsilon),
            screens_pairs=False,
            max_pairs=self.most_pairs,
            pairs=(),
            uses_total=rules.uses_total,
            gives_up_pairs=rules.gives_up_pairs and chooses_itself,
            clarity=(
                _CLARITY if rules.aims_at_clear_cells and self.cells is None else None
            ),
            graded=rules.graded,
            keeps_noisy_pairs=rules.keeps_noisy_pairs,
        )
        # A label of few classes, `Design.label`, is in every table anyway.
        triples = [columns_named(layout, names, "triples") for names in self.triples]
        design = replace(
            design,
            triples=tuple(
                dict.fromkeys(_without(triple, design.label) for triple in triples)
            ),
        )
        return self._with_pairs(design)

    def _with_pairs(self, design: Design) -> Design:
        """Returns a design with the pairs that the settings define.

        With "none" there are no pairs. A list states the pairs; those with the label
        are left out if its classes are distinguished, because the label is in every
        table then. "chosen", and "auto" with more than `WIDE` columns, leave the choice
        to the screening; pairs are None until then. Otherwise all pairs are released.

        Raises:
            OptionError: if a column is not in the schema, or there are more pairs than
                can be considered.
        """
        if self.pairs == "none":
            return design
        if not isinstance(self.pairs, str):
            named_pairs = [
                columns_named(design.layout, names, "pairs") for names in self.pairs
            ]
            unlabelled = [pair for pair in named_pairs if design.label not in pair]
            return replace(design, pairs=tuple(dict.fromkeys(unlabelled)))
        n_columns = len(design.columns)
        check_groups(
            n_columns,
            f"pairs={self.pairs!r}",
            "pairs='none', or a list of those that matter",
        )
        is_wide = self.pairs == "auto" and n_columns > WIDE
        if n_columns > 1 and (self.pairs == "chosen" or is_wide):
            return replace(design, screens_pairs=True, pairs=None)
        return replace(design, pairs=tuple(combinations(design.columns, 2)))

    def why(self, schema: Schema, epsilon: float) -> str:
        """Explains in one sentence what "auto" does with a table, and why."""
        return f"pairwise: {describe_design(self.design(schema, epsilon), epsilon)}."

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Plans the queries and calibrates their noise to a budget; reads no data.

        The queries are those of the design. If settings give them a share of the
        budget, second moments and tables that the fit never uses are added.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee that all queries together must meet.

        Returns:
            The calibrated plan, which contains the design.
        """
        design = self.design(schema, budget.epsilon)
        queries = [
            *design.queries(
                {
                    HISTOGRAMS: self.histograms_share / 2,
                    COARSE: self.histograms_share / 2,
                    SCREEN: self.screen_share,
                    COUNTS: self.counts_share,
                    SINGLES: self.one_way_share,
                    PAIRS: self.pairs_share,
                }
            )
        ]
        if self.moments_share:
            columns = self.moments_columns(schema.layout)
            if columns:
                queries.append(moments_query(design, columns, self.moments_share))
        if self.report_share:
            contingency = held_out_map(schema.layout)
            if contingency is not None:
                queries.append(held_out_query(contingency, self.report_share))
        return plan_sums(budget, tuple(queries), design=design)

    def verdict(
        self, schema: Schema, budget: Budget, records: int | None = None
    ) -> Verdict:
        """Returns the predicted verdict, which is based on a forecast."""
        return verdict_of_plan(self, schema, budget, records)

    def forecast(self, schema: Schema, budget: Budget, records: float) -> Forecast:
        """Forecasts the distance between synthetic records and the real ones.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee of the run.
            records: Number of real records.
        """
        return forecast(self.plan(schema, budget), records)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Releases the results of all rounds, in one to three passes over the records.

        The queries of each pass are computed by `next_round` from the noisy results of
        earlier passes.

        Args:
            gate: Private records and a budget.
            plan: The result of `plan` for them; None computes it.
        """
        run_plan = plan or self.plan(gate.schema, gate.budget)
        noise_std = {
            release.query.name: release.noise_std_natural
            for release in run_plan.releases
        }
        values: dict[str, Any] = {}
        facts = self.public_facts(gate.schema)
        with gate.open(run_plan, method=self.name, public=facts) as session:
            maps = self.next_round(gate.schema, run_plan, values, noise_std)
            while maps:
                values |= session.ask(maps)
                maps = self.next_round(gate.schema, run_plan, values, noise_std)
        return session.release()

    def next_round(
        self,
        schema: Schema,
        plan: Plan,
        values: Values,
        noise_std: Mapping[str, float],
    ) -> Mapping[str, FeatureMap]:
        """Returns the maps of the next round, and nothing after the last one.

        There are up to three rounds, in this order:

        1. Histograms, fine and coarse, if the design has columns that need them.
        2. The screening of all pairs on coarse bins, if the design chooses pairs.
        3. Counts, single columns and pairs, and the second moments and tables that the
           fit never uses, if the plan has them.

        A round counts as done once the values contain the query that every such round
        has: HISTOGRAMS, SCREEN or COUNTS. Maps that depend on the schema only are in
        the plan, such as the map of HELD_OUT, the counts that the fit never uses. This
        method creates the maps that depend on noisy results.

        A change must preserve two properties. Maps depend only on the plan and on noisy
        results. Every query of the plan is released once: the session refuses a query
        that is not planned or was already released, and refuses to end before every
        query is released.

        Args:
            schema: Public schema of the records.
            plan: The calibrated plan, with the design.
            values: Noisy results of the rounds so far, by query.
            noise_std: Standard deviation of the noise of every query in the plan,
                released or not.

        Returns:
            The feature map of each query of the round.
        """
        design: Design = plan.design
        if design.histogram_columns and HISTOGRAMS not in values:
            return design.histogram_maps()
        rounds = Rounds(design, AnswersSoFar(values, noise_std))
        if design.screens_pairs and SCREEN not in values:
            return {SCREEN: rounds.screening_map}
        is_last_round_answered = COUNTS in values
        if is_last_round_answered:
            return {}
        maps: dict[str, FeatureMap] = dict(rounds.last_maps())
        if MOMENTS in noise_std:
            maps[MOMENTS] = moments_map(rounds, self.moments_columns(schema.layout))
        if HELD_OUT in plan.maps:
            maps[HELD_OUT] = plan.maps[HELD_OUT]
        return maps

    def moments_columns(self, layout: Layout) -> Columns:
        """Returns the columns whose second moments are released.

        Raises:
            OptionError: if one is not in the schema.
        """
        if self.moments:
            return columns_named(layout, self.moments, "moments")
        return tuple(range(len(layout.numeric) + len(layout.coded)))

    def measurements(self, release: Release) -> Measurements:
        """Returns all results in a release: tables, histograms and second moments.

        Args:
            release: A release of this method.
        """
        rounds = self._rounds_of(release)
        stated = rounds.measurements()
        return replace(
            stated,
            tables=(*stated.tables, *rounds.histogram_tables()),
            moments=self._released_moments(release, rounds),
            known_total=public_total(release.certificate),
        )

    def _released_moments(
        self, release: Release, rounds: Rounds
    ) -> NoisyMoments | None:
        """Returns the second moments of a release, in records; None if it has none.

        A result has a column for each class of its query, (products, classes). Second
        moments are sums over all records, so that there is one column. The map scales
        all products of a record by its `weight`, so that their norm is at most 1.
        Divided by `weight`, sums and their noise are in records again.

        Args:
            release: A release of this method.
            rounds: The decisions from its results, such as the range of each number.
        """
        if MOMENTS not in release.values:
            return None
        layout = release.schema.layout
        feature_map = moments_map(rounds, self.moments_columns(layout))
        weighted_sums = release.values[MOMENTS][:, 0]
        return read_moments(
            layout,
            feature_map,
            weighted_sums / feature_map.weight,
            release.noise_std[MOMENTS] / feature_map.weight,
        )

    def held_out_measurements(self, release: Release) -> Measurements:
        """Returns the noisy tables that the fit never uses; none if none were released.

        Args:
            release: A release of this method.
        """
        layout = release.schema.layout
        if HELD_OUT not in release.values:
            return Measurements(domain_of(layout, ()), ())
        contingency = held_out_map(layout)
        assert contingency is not None  # or nothing would have been asked
        tables = read_tables(
            layout, contingency, release.values[HELD_OUT], release.noise_std[HELD_OUT]
        )
        return Measurements(domain_of(layout, contingency.bins), tuple(tables))

    def decisions(
        self,
        schema: Schema,
        plan: Plan,
        values: Values,
        noise_std: Mapping[str, float],
    ) -> dict[str, Any]:
        """Returns the decisions from all rounds but the last, as JSON values.

        They define the queries of the last round:

        - "cuts": the cut points between the bins of each numeric column, and "coarse"
          ones for the screening;
        - "pairs": the pairs whose tables are released;
        - "yielded": the part of the pairs' budget that single columns get instead (see
          `Rounds.decisions`);
        - "ranges", with second moments: the range of each number in them.

        If these values are passed as `decided`, the design has queries on the same bins
        and pairs for other records. Each period of a stream uses such a design.

        Args:
            schema: Public schema of the records.
            plan: The calibrated plan, with the design.
            values: Noisy results by query, at least those of all rounds but the last.
            noise_std: Standard deviation of the noise of every query in the plan,
                released or not.

        Raises:
            KeyError: if a result is missing that a decision depends on.
        """
        rounds = Rounds(plan.design, AnswersSoFar(values, noise_std))
        decisions = rounds.decisions()
        asks_for_moments = MOMENTS in noise_std
        if asks_for_moments:
            columns = self.moments_columns(schema.layout)
            decisions["ranges"] = moment_ranges(rounds, columns)
        return decisions

    def settled(self, schema: Schema, epsilon: float) -> Self:
        """Returns a copy of the method whose number of bins is fixed.

        The number is the one that the method chooses at this ε. The copy has the same
        number of bins at every ε.
        """
        return replace(self, cells=self.design(schema, epsilon).cells)

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> PairwiseFit:
        """Returns the fit of a release, ready to run, to save and to restore.

        It runs on the CPU, whatever the device.
        """
        from noisegate.models.tables.mixture_fit import PairwiseFit

        check_device(device, f"the fit of {self.name}")
        design = plan.design if plan else self._design_of(release)
        return PairwiseFit(design, release, self.fit_settings(), seed=self.seed)

    def _design_of(self, release: Release) -> Design:
        """Returns the design of a release, by the version of the rules it states.

        If the release repeats the decisions of an earlier one, its certificate has them
        as "fixed". They then replace the decisions from its own results.
        """
        certificate = release.certificate
        design = self.design(
            release.schema,
            certificate.epsilon,
            version=certificate.public.get("design", 1),
        )
        return replace(design, decided=certificate.public.get("fixed", {}))

    def _rounds_of(self, release: Release) -> Rounds:
        """Returns the rounds of a release, all of which are answered."""
        return Rounds(self._design_of(release), release)

    def synthesizer(self, release: Release, fitting: PairwiseFit) -> Synthesizer:
        """Returns the fitted mixture, with a verdict.

        The verdict is based on a forecast, on the associations that the fit preserves,
        and on values that share a bin.
        """
        from noisegate.models.tables.associations import fit_verdicts

        records = record_count(release, self.measurements(release).total.value)
        return fitted_synthesizer(
            release,
            fitting,
            fitting.model(),
            expected=forecast_of(fitting.design, release, records),
            verdicts=fit_verdicts(fitting),
        )


def _default_cells(n_columns: int, epsilon: float) -> int:
    """Returns how many cells a numeric column gets.

    They are fewer at small ε, and in wide tables, where noise is more.
    """
    n_cells = _CELLS_AT_LARGE_EPSILON
    if epsilon < _LARGE_EPSILON:
        n_cells = _CELLS_AT_SMALL_EPSILON
    narrowness = min(1.0, math.sqrt(_MAX_NARROW_COLUMNS / n_columns))
    return max(round(n_cells * narrowness), _MIN_CELLS)


def _without(columns: Columns, label: int | None) -> Columns:
    """Returns columns without the label."""
    return tuple(column for column in columns if column != label)


def describe_design(design: Design, epsilon: float) -> str:
    """Describes which pairs are released, on which bins, and why."""
    n_columns = len(design.columns)
    n_pairs = math.comb(n_columns, 2)
    n_measured = len(design.pairs or ())
    if design.screens_pairs:
        description = (
            f"{n_columns} columns have {n_pairs:,} pairs, so at most "
            f"{design.max_pairs:,} are chosen by a coarse screening"
        )
    elif n_pairs and n_measured == n_pairs:
        description = (
            f"the {n_pairs:,} pairs of {n_columns} columns are few enough to measure "
            "all of them"
        )
        if design.gives_up_pairs and design.histogram_columns:
            description += ", given enough records"
    else:
        description = f"of the {n_pairs:,} pairs of columns {n_measured:,} are measured"
    if design.label is not None and design.layout.label is not None:
        label_name = design.layout.coded[design.layout.label].name
        description += f", in each class of {label_name!r}"
    if design.histogram_columns:
        description += (
            f"; numeric columns are cut into about {design.cells} bins at "
            f"epsilon={epsilon:g}"
        )
    return description


def columns_named(layout: Layout, names: Sequence[str], option: str) -> Columns:
    """Returns the numbers of columns, ascending.

    Args:
        layout: The columns.
        names: Names of some.
        option: The setting that names them, for messages.

    Raises:
        OptionError: if a name is not in the schema, or twice in the list.
    """
    all_names = [column.name for column in (*layout.numeric, *layout.coded)]
    for name in names:
        if name not in all_names:
            raise OptionError(
                f"{option} names {name!r}, which is not a column of the schema; it has "
                f"{', '.join(all_names)}."
            )
    if len(set(names)) < len(names):
        raise OptionError(f"{option}={list(names)!r} names a column twice.")
    return tuple(sorted(all_names.index(name) for name in names))
