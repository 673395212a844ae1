"""AIM and MST: noisy marginals chosen on the way, and the graphical model that agrees with them (G-17).

MST, McKenna, Miklau and Sheldon (JPC 2021), https://arxiv.org/abs/2108.04978, measures all single columns and the pairs
of a spanning tree that its model explains worst. AIM, McKenna, Mullins, Sheldon and Miklau (VLDB 2022),
https://arxiv.org/abs/2201.12677, continues choosing, up to triples, while the budget lasts and its model is small.
OpenDP's `opendp.extras.mbi` runs them at the gate, which holds all records in memory. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from noisegate.answers.domain import domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.reading import ReleaseReader, public_total
from noisegate.methods.abilities import ChecksPackages
from noisegate.methods.fitted import fitted_synthesizer
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.privacy.marginal_plan import plan_marginals
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.queries.binning import NumericBins, equal_bins
from noisegate.queries.contingency import check_groups, tables_up_to
from noisegate.schema import Layout, Schema
from noisegate.settings import Count, Seed, Settings, TwoOrMore, Within, settings
from noisegate_papers.models.graphical import GraphicalModel
from noisegate_papers.training.graphical import GraphicalFit, read_marginals

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.synthesizer import Synthesizer

MAX_ROUNDS = 4000
_CELLS_A_MEGABYTE = 2**17
"""A model holds 8 bytes a cell."""

# The upper ends are those of the proof in docs/guarantees.md.
Megabytes = Annotated[float, Within(gt=0, le=250), "a number above 0, at most 250"]
RoundCount = Annotated[
    int, Within(ge=1, le=MAX_ROUNDS), f"a whole number from 1 to {MAX_ROUNDS}"
]


@dataclass(frozen=True, kw_only=True)
class SelectionMechanism:
    """Arguments of one of OpenDP's mechanisms."""

    algorithm: Literal["AIM", "MST"]
    degree: int
    """Largest number of columns of a table."""
    options: Mapping[str, Any]
    """Further arguments, in addition to the number of iterations."""
    max_megabytes: float = math.inf
    """Largest size of the model, in megabytes. Larger tables are never chosen."""


@settings
class MarginalMethod(Settings, Method, ReleaseReader, ChecksPackages):
    """Base of AIM and MST; none of the settings depends on private data."""

    seeded_fit = True

    bins: TwoOrMore = 32
    """Largest number of bins of a numeric column, in addition to the one for missing values."""
    iterations: Count = 1000
    """Number of steps of mirror descent for each fit of a model to noisy marginals."""
    seed: Seed = 0
    """Not used, because nothing draws public randomness before sampling. Accepted for consistency with other methods.
    """

    @abstractmethod
    def mechanism(self, column_count: int) -> SelectionMechanism:
        """Returns what chooses and measures the tables.

        Args:
            column_count: Number of columns of several cells.
        """

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns what may be spent on which tables. Reads no data."""
        sizes = self.sizes(schema.layout)
        column_count = sum(size > 1 for size in sizes)
        mechanism = self.mechanism(column_count)
        check_groups(
            column_count,
            self.name,
            "another method, such as pairwise with pairs='none'",
            size=mechanism.degree,
        )
        return plan_marginals(
            budget,
            name=self.name,
            algorithm=mechanism.algorithm,
            options={"iterations": self.iterations, **mechanism.options},
            sizes=sizes,
            candidates=tables_up_to(
                sizes,
                degree=mechanism.degree,
                max_cells=mechanism.max_megabytes * _CELLS_A_MEGABYTE,
            ),
        )

    def cells(self, layout: Layout) -> tuple[NumericBins, ...]:
        """Returns the bins of each numeric column."""
        return tuple(equal_bins(column, self.bins) for column in layout.numeric)

    def sizes(self, layout: Layout) -> tuple[int, ...]:
        """Returns the number of bins of each column, numeric columns first."""
        numeric_sizes = [bins.size for bins in self.cells(layout)]
        coded_sizes = [column.size for column in layout.coded]
        return (*numeric_sizes, *coded_sizes)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Releases the noisy marginals, the only use of private records. All records are held in memory."""
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        return gate.marginals(
            plan,
            self.cells(gate.schema.layout),
            method=self.name,
            public=self.public_facts(gate.schema),
        )

    def check_packages(self) -> None:
        """Checks that OpenDP's mechanisms are installed, before any budget is spent."""
        from noisegate.gate.sessions.marginals import check_extra

        check_extra()

    def measurements(self, release: Release) -> Measurements:
        """Returns all released tables; see `ReleaseReader`."""
        layout = release.schema.layout
        domain = domain_of(layout, self.cells(layout))
        tables = []
        for columns, counts, noise_std in read_marginals(release, self.name):
            table_domain = domain.project([domain.names[column] for column in columns])
            table_counts = counts.reshape(table_domain.shape)
            tables.append(
                NoisyTable.of(table_domain, table_counts, noise_std=noise_std)
            )
        known_total = public_total(release.certificate)
        return Measurements(domain, tuple(tables), known_total=known_total)

    def held_out_measurements(self, release: Release) -> Measurements:
        """Returns no tables, because all released tables are fitted."""
        layout = release.schema.layout
        return Measurements(domain_of(layout, self.cells(layout)), ())

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> GraphicalFit:
        """Returns the fit of a release, ready to run. It always runs on the CPU."""
        sizes = self.sizes(release.schema.layout)
        marginals = read_marginals(release, self.name)
        return GraphicalFit(sizes, marginals, iterations=self.iterations)

    def synthesizer(self, release: Release, fitting: GraphicalFit) -> Synthesizer:
        """Returns the synthesizer of the fitted graphical model."""
        return fitted_synthesizer(release, fitting, self.model(release, fitting))

    def model(self, release: Release, fitting: GraphicalFit) -> GraphicalModel:
        """Returns the fitted model."""
        layout = release.schema.layout
        return GraphicalModel(
            bins=self.cells(layout),
            coded=tuple(column.size for column in layout.coded),
            factors=fitting.factors,
        )


@register("mst")
@settings
class MST(MarginalMethod):
    """MST: single columns and a spanning tree of pairs, fitted by a graphical model (McKenna et al. 2021).

    Examples:
        >>> from noisegate import Budget, MST, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")], label="ill")
        >>> [event.name for event in MST().plan(schema, Budget(epsilon=1.0)).events]
        ['mst']
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"bins": 16, "iterations": 20}

    def mechanism(self, column_count: int) -> SelectionMechanism:
        """Returns MST, which releases tables of pairs."""
        return SelectionMechanism(algorithm="MST", degree=2, options={})


@register("aim")
@settings
class AIM(MarginalMethod):
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
    """Largest number of columns of a table."""
    max_model_mb: Megabytes = 80.0
    """Largest size of the model, in MB. The time of the fit grows with it. The default is OpenDP's."""
    rounds: RoundCount | None = None
    """Largest number of rounds of selection, which share the budget; None for OpenDP's default, 16 for each column."""

    def mechanism(self, column_count: int) -> SelectionMechanism:
        """Returns AIM, with its largest model and largest number of rounds."""
        default_rounds = min(16 * column_count, MAX_ROUNDS)
        return SelectionMechanism(
            algorithm="AIM",
            degree=self.degree,
            options={
                "max_size": self.max_model_mb,
                "rounds": self.rounds or default_rounds,
            },
            max_megabytes=self.max_model_mb,
        )
