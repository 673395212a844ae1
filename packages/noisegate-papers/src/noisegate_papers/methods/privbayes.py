"""PrivBayes: a Bayesian network of noisy counts (G-12, G-13).

Zhang, Cormode, Procopiuc, Srivastava and Xiao (SIGMOD 2014; TODS 2017), https://doi.org/10.1145/3134428. The rounds of
the pairwise method come first. Their noisy results determine the parents. One more query of the same plan then counts
the table of every column with its parents. For deviations see [differences](../../docs/differences.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from noisegate.answers.design import COARSE, COUNTS, HISTOGRAMS, PAIRS, SCREEN, SINGLES
from noisegate.answers.rounds import AnswersSoFar
from noisegate.answers.rounds import Rounds as DesignRounds
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.method import Method
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan, plan_sums
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Positive,
    Relative,
    Seed,
    Settings,
    TwoOrMore,
    settings,
)
from noisegate_papers.models.graphical import BayesianNetwork
from noisegate_papers.training.graphical import FAMILIES, NetworkDesign

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate


@register("privbayes")
@settings
class PrivBayes(Settings, ClosedForm, Method):
    """PrivBayes: a Bayesian network of noisy counts (Zhang et al. 2017).

    Examples:
        >>> from noisegate import Budget, PrivBayes, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill"), Boolean(name="old")))
        >>> plan = PrivBayes().plan(schema, Budget(epsilon=1.0))
        >>> {event.name: round(event.noise_multiplier, 2) for event in plan.events}
        {'counts': 35.39, 'one-way': 7.08, 'pairs': 6.46, 'families': 6.07}
    """

    seeded_fit = True
    rules_version = DESIGN

    cells: TwoOrMore | None = None
    """Approximate number of bins of a numeric column; None for a number that depends on ε and the number of columns."""
    degree: Annotated[Literal[1, 2], "1 or 2"] = 2
    """Largest number of parents of a column, in addition to the label if its classes are modelled separately."""
    usefulness: Positive = 1.0
    """θ of the paper: the smallest average count in a table of two parents, in standard deviations of the noise. The
    paper uses 4."""
    most_cells: Count | None = None
    """Largest number of cells of a table of two parents; None for a number with which all tables together have at most
    300,000 cells."""
    histograms_share: Relative = 0.1
    """Share of the budget for the histograms, half of it for the coarse ones."""
    screen_share: Relative = 0.1
    """Share of the budget for the screening of pairs on coarse bins, in tables of more than 40 columns."""
    counts_share: Relative = 0.01
    """Share of the budget for the class counts."""
    one_way_share: Relative = 0.25
    """Share of the budget for the one-way tables."""
    pairs_share: Relative = 0.3
    """Share of the budget for the pairs."""
    families_share: Relative = 0.34
    """Share of the budget for the tables of columns with their parents."""
    seed: Seed = 0
    """Not used, because nothing draws public randomness before sampling. Accepted for consistency with other methods.
    """

    def design(
        self, schema: Schema, epsilon: float, *, version: int = DESIGN
    ) -> NetworkDesign:
        """Returns the queries on a table at a given ε, by a version of the pairwise method's rules."""
        return NetworkDesign(
            pairwise=Pairwise(cells=self.cells).design(
                schema, epsilon, version=version
            ),
            degree=self.degree,
            usefulness=self.usefulness,
            largest=self.most_cells,
        )

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan, which contains the design. Reads no data."""
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
        """Releases the noisy results in two to four passes over the records. Nothing else reads the records."""
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        design: NetworkDesign = plan.design
        pairwise = design.pairwise
        noise_std = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        values: dict[str, Any] = {}
        public_facts = self.public_facts(gate.schema)
        with gate.open(plan, method=self.name, public=public_facts) as session:
            if pairwise.histogram_columns:
                values |= session.ask(pairwise.histogram_maps())
            if pairwise.screens_pairs:
                rounds = DesignRounds(pairwise, AnswersSoFar(values, noise_std))
                values |= session.ask({SCREEN: rounds.screening_map})
            rounds = DesignRounds(pairwise, AnswersSoFar(values, noise_std))
            values |= session.ask(rounds.last_maps())
            network = design.chosen(AnswersSoFar(values, noise_std))
            session.ask({FAMILIES: network.counted})
        return session.release()

    def model(self, release: Release) -> BayesianNetwork:
        """Returns the network in a release."""
        certificate = release.certificate
        version = certificate.public.get("design", DESIGN)
        return self.design(
            release.schema, certificate.epsilon, version=version
        ).network(release)
