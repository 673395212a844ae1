"""Noisy marginals chosen on the way, and the graphical model that agrees with them (G-12, G-13, G-17).

MST: McKenna, Miklau and Sheldon (JPC 2021), https://arxiv.org/abs/2108.04978. AIM: McKenna, Mullins, Sheldon and Miklau
(VLDB 2022), https://arxiv.org/abs/2201.12677. PrivBayes: Zhang, Cormode, Procopiuc, Srivastava and Xiao (SIGMOD 2014;
TODS 2017), https://doi.org/10.1145/3134428. What differs is in docs/differences.md.

AIM, MST and PrivBayes: noisy marginals chosen on the way, and the graphical model that
agrees with them.

MST, McKenna, Miklau and Sheldon (JPC 2021), https://arxiv.org/abs/2108.04978, measures
all single columns and the pairs of a spanning tree that its model explains worst. AIM,
McKenna, Mullins, Sheldon and Miklau (VLDB 2022), https://arxiv.org/abs/2201.12677, goes
on choosing, up to triples, while the budget lasts and its model is small. OpenDP's
`opendp.extras.mbi` runs them at the gate, which holds all records in memory (G-17).

PrivBayes, Zhang, Cormode, Procopiuc, Srivastava and Xiao (SIGMOD 2014; TODS 2017),
https://doi.org/10.1145/3134428, asks the rounds of the pairwise method first. From
their answers parents are chosen, and one more query of the same plan counts the table
of every column with its parents (G-12, G-13). What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from noisegate.answers.design import COARSE, COUNTS, HISTOGRAMS, PAIRS, SCREEN, SINGLES
from noisegate.answers.domain import domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.reading import ReleaseReader, public_total
from noisegate.answers.rounds import AnswersSoFar
from noisegate.answers.rounds import Rounds as DesignRounds
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.fitted import fitted_synthesizer
from noisegate.methods.method import Method
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.methods.registry import register
from noisegate.privacy.marginal_plan import plan_marginals
from noisegate.privacy.plan import Budget, Plan, plan_sums
from noisegate.privacy.release import Release
from noisegate.queries.binning import NumericBins, equal_bins
from noisegate.queries.contingency import Tables, check_groups, tables_up_to
from noisegate.schema import Layout, Schema
from noisegate.settings import (
    Count,
    Positive,
    Relative,
    Seed,
    TwoOrMore,
    Within,
    settings,
)
from noisegate_papers.models.graphical import BayesianNetwork, GraphicalModel
from noisegate_papers.training.graphical import (
    FAMILIES,
    GraphicalFit,
    NetworkDesign,
    read_marginals,
)

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.synthesizer import Synthesizer

MOST_ROUNDS = 4000
# The upper ends are those of the proof in docs/guarantees.md.
Megabytes = Annotated[float, Within(gt=0, le=250), "a number above 0, at most 250"]
Rounds = Annotated[
    int, Within(ge=1, le=MOST_ROUNDS), f"a whole number from 1 to {MOST_ROUNDS}"
]


@settings
class Marginals(Method, ReleaseReader):
    """What AIM and MST have in common; none of the settings depends on private data."""

    seeded_fit = True

    bins: TwoOrMore = 32
    """Most cells of a numeric column, beside the one for missing values."""
    iterations: Count = 1000
    """Steps of mirror descent, each time that a model is fitted to noisy marginals."""
    seed: Seed = 0
    """Unused, since nothing here draws public randomness before sampling; accepted like by other methods."""

    degree = 2  # most columns of a table

    def options(self, columns: int) -> dict[str, Any]:
        """Returns what OpenDP's mechanism is told beside the iterations, of so many columns with several cells."""
        return {}

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns what may be spent on which tables. Reads no data."""
        sizes = self.sizes(schema.layout)
        options = {
            "iterations": self.iterations,
            **self.options(sum(size > 1 for size in sizes)),
        }
        # A model holds 8 bytes a cell, so larger tables could never be chosen.
        tables = self.tables(
            sizes, self.degree, most_cells=options.get("max_size", math.inf) * 2**17
        )
        return plan_marginals(
            budget,
            name=self.name,
            algorithm=cast("Literal['AIM', 'MST']", self.name.upper()),
            options=options,
            sizes=sizes,
            candidates=tables,
        )

    def cells(self, layout: Layout) -> tuple[NumericBins, ...]:
        """Returns the cells of each numeric column."""
        return tuple(equal_bins(column, self.bins) for column in layout.numeric)

    def sizes(self, layout: Layout) -> tuple[int, ...]:
        """Returns the number of cells of each column, numeric columns first."""
        return (
            *(bins.size for bins in self.cells(layout)),
            *(column.size for column in layout.coded),
        )

    def tables(
        self, sizes: tuple[int, ...], degree: int, most_cells: float = math.inf
    ) -> Tables:
        """Returns the tables to choose from; see `tables_up_to`."""
        informative = sum(size > 1 for size in sizes)
        check_groups(
            informative,
            self.name,
            "another method, such as pairwise with pairs='none'",
            size=degree,
        )
        return tables_up_to(sizes, degree=degree, max_cells=most_cells)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Returns the release: the one time that private records are used. Holds all of them in memory."""
        plan, public = (
            plan or self.plan(gate.schema, gate.budget),
            self.public_facts(gate.schema),
        )
        return gate.marginals(
            plan, self.cells(gate.schema.layout), method=self.name, public=public
        )

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent; see `Method`. It computes on the CPU."""
        from noisegate.gate.sessions.marginals import check_extra

        super().check_fit(device)
        check_extra()

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> GraphicalFit:
        """Returns the fit of a release, ready to run; always on the CPU."""
        sizes = self.sizes(release.schema.layout)
        return GraphicalFit(
            sizes, read_marginals(release, self.name), iterations=self.iterations
        )

    def measurements(self, release: Release) -> Measurements:
        """Returns all tables that were measured; see `Method`."""
        layout = release.schema.layout
        domain = domain_of(layout, self.cells(layout))
        tables = []
        for columns, counts, noise_std in read_marginals(release, self.name):
            table_domain = domain.project([domain.names[column] for column in columns])
            tables.append(
                NoisyTable.of(
                    table_domain,
                    counts.reshape(table_domain.shape),
                    noise_std=noise_std,
                )
            )
        return Measurements(
            domain, tuple(tables), known_total=public_total(release.certificate)
        )

    def held_out_measurements(self, release: Release) -> Measurements:
        """Returns no tables: all that are measured are fitted."""
        domain = domain_of(release.schema.layout, self.cells(release.schema.layout))
        return Measurements(domain, ())

    def synthesizer(self, release: Release, fitting: GraphicalFit) -> Synthesizer:
        """Returns the synthesizer of the graphical model that a fit has reached."""
        return fitted_synthesizer(release, fitting, self.model(release, fitting))

    def model(self, release: Release, fitting: GraphicalFit) -> GraphicalModel:
        """Returns the model that a fit has reached."""
        layout = release.schema.layout
        coded = tuple(column.size for column in layout.coded)
        return GraphicalModel(
            bins=self.cells(layout), coded=coded, factors=fitting.factors
        )


@register("mst")
@settings
class MST(Marginals):
    """MST: single columns and a spanning tree of pairs, fitted by a graphical model (McKenna et al. 2021).

    Examples:
        >>> from noisegate import Budget, MST, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")], label="ill")
        >>> [event.name for event in MST().plan(schema, Budget(epsilon=1.0)).events]
        ['mst']
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"bins": 16, "iterations": 20}


@register("aim")
@settings
class AIM(Marginals):
    """AIM: adaptively chosen marginals, fitted by a graphical model; minutes to hours (McKenna et al. 2022).

    Examples:
        >>> from noisegate import Budget, AIM, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")], label="ill")
        >>> [event.name for event in AIM().plan(schema, Budget(epsilon=1.0)).events]
        ['aim']
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        "bins": 16,
        "iterations": 20,
        "degree": 2,
        "rounds": 6,
    }

    degree: Annotated[Literal[2, 3, 4], "2 or 3 or 4"] = 3
    """Most columns of a table."""
    max_model_mb: Megabytes = 80.0
    """Largest model, MB; the fit's time grows with it. OpenDP's default."""
    rounds: Rounds | None = None
    """Most rounds of choosing that the budget is laid out for; None for OpenDP's default, 16 for each column."""

    def options(self, columns: int) -> dict[str, Any]:
        """Returns the largest model, and most rounds."""
        return {
            "max_size": self.max_model_mb,
            "rounds": self.rounds or min(16 * columns, MOST_ROUNDS),
        }


@register("privbayes")
@settings
class PrivBayes(ClosedForm, Method):
    """PrivBayes: a Bayesian network of noisy counts (Zhang et al. 2017).

    Examples:
        >>> from noisegate import Budget, PrivBayes, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill"), Boolean(name="old")))
        >>> plan = PrivBayes().plan(schema, Budget(epsilon=1.0))
        >>> {event.name: round(event.noise_multiplier, 2) for event in plan.events}
        {'counts': 35.39, 'one-way': 7.08, 'pairs': 6.46, 'families': 6.07}
    """

    seeded_fit, rules_version = True, DESIGN

    cells: TwoOrMore | None = None
    """Cells of a numeric column, about; None for a number that follows from ε and the number of columns."""
    degree: Annotated[Literal[1, 2], "1 or 2"] = 2
    """Most parents of a column, beside the label where its classes are told apart."""
    usefulness: Positive = 1.0
    """θ of the paper: how many times the noise the mean count in a table of two parents must be; the paper has 4."""
    most_cells: Count | None = None
    """Most cells of a table of two parents; None for a number that all tables together keep to 300,000."""
    histograms_share: Relative = 0.1
    """Budget share of the histograms, half of it for the coarse ones."""
    screen_share: Relative = 0.1
    """Budget share of the coarse look at pairs, in tables of more than 40 columns."""
    counts_share: Relative = 0.01
    """Budget share of the class counts."""
    one_way_share: Relative = 0.25
    """Budget share of the one-way tables."""
    pairs_share: Relative = 0.3
    """Budget share of the pairs."""
    families_share: Relative = 0.34
    """Budget share of the tables of columns with their parents."""
    seed: Seed = 0
    """Unused, since nothing here draws public randomness before sampling; accepted like by other methods."""

    def design(
        self, schema: Schema, epsilon: float, *, version: int = DESIGN
    ) -> NetworkDesign:
        """Returns what is asked about a table at a given ε, by the rules of a version of the pairwise method."""
        return NetworkDesign(
            pairwise=Pairwise(cells=self.cells).design(
                schema, epsilon, version=version
            ),
            degree=self.degree,
            usefulness=self.usefulness,
            largest=self.most_cells,
        )

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan, with the design in it. Reads no data."""
        shares = {
            HISTOGRAMS: self.histograms_share / 2,
            COARSE: self.histograms_share / 2,
            SCREEN: self.screen_share,
            COUNTS: self.counts_share,
            SINGLES: self.one_way_share,
            PAIRS: self.pairs_share,
        }
        design = self.design(schema, budget.epsilon)
        queries = (*design.pairwise.queries(shares), design.query(self.families_share))
        return plan_sums(budget, queries, design=design)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Returns the release: two to four passes over the records, the only times that they are used."""
        plan = plan or self.plan(gate.schema, gate.budget)
        design: NetworkDesign = plan.design
        first, values = design.pairwise, dict[str, Any]()
        stds = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        with gate.open(
            plan, method=self.name, public=self.public_facts(gate.schema)
        ) as session:
            if first.histogram_columns:
                values |= session.ask(first.histogram_maps())
            if first.screens_pairs:
                screening_map = DesignRounds(
                    first, AnswersSoFar(values, stds)
                ).screening_map
                values |= session.ask({SCREEN: screening_map})
            last_maps = DesignRounds(first, AnswersSoFar(values, stds)).last_maps()
            values |= session.ask(last_maps)
            session.ask({FAMILIES: design.chosen(AnswersSoFar(values, stds)).counted})
        return session.release()

    def model(self, release: Release) -> BayesianNetwork:
        """Returns the network that a release says."""
        certificate = release.certificate
        version = certificate.public.get("design", DESIGN)
        return self.design(
            release.schema, certificate.epsilon, version=version
        ).network(release)
