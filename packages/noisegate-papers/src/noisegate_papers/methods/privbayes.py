"""PrivBayes: a Bayesian network whose parents follow from noisy pairs, with conditional tables bought afterwards.

Zhang, Cormode, Procopiuc, Srivastava and Xiao (SIGMOD 2014; TODS 2017), https://doi.org/10.1145/3134428. The rounds of
the pairwise method come first: histograms, counts, one-way tables, pairs. From their answers parents are chosen, and
one more query of the same plan counts, for every column, the table of the column with its parents: a vector of norm 1,
whatever the parents (G-12), of which norm, share and noise are those of the plan (G-13). What differs is in
docs/differences.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from noisegate.methods.method import Method
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, Relative, Seed, TwoOrMore, settings
from noisegate.tables import design as rounds
from noisegate.tables.released import COARSE, HISTOGRAMS
from noisegate_papers.training.network_design import FAMILIES, Answers, NetworkDesign

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate_papers.models.bayesian_network import BayesianNetwork


@register("privbayes")
@settings
class PrivBayes(Method):
    """Settings of PrivBayes; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, PrivBayes, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill"), Boolean(name="old")))
        >>> plan = PrivBayes().plan(schema, Budget(epsilon=1.0))
        >>> {event.name: round(event.noise_multiplier, 2) for event in plan.events}
        {'counts': 35.39, 'one-way': 7.08, 'pairs': 6.46, 'families': 6.07}
    """

    seeded_fit = True

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

    def design(self, schema: Schema, epsilon: float, *, version: int = DESIGN) -> NetworkDesign:
        """Returns what is asked about a table at a given ε, by the rules of a version of the pairwise method."""
        return NetworkDesign(
            pairwise=Pairwise(cells=self.cells).design(schema, epsilon, version=version),
            degree=self.degree,
            usefulness=self.usefulness,
            largest=self.most_cells,
        )

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what is taken as public, for the certificate: the settings, and the version of the rules."""
        return {**super().public_facts(schema), "design": DESIGN}

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan, with the design in it. Reads no data."""
        shares = dict.fromkeys((HISTOGRAMS, COARSE), self.histograms_share / 2)
        shares |= {rounds.SCREEN: self.screen_share, rounds.COUNTS: self.counts_share}
        shares |= {rounds.SINGLES: self.one_way_share, rounds.PAIRS: self.pairs_share}
        design = self.design(schema, budget.epsilon)
        queries = (*design.pairwise.queries(shares), design.query(self.families_share))
        return Plan(queries=queries, design=design).calibrate(budget)

    def query(self, gate: Gate, plan: CalibratedPlan | None = None) -> Release:
        """Returns the release: two to four passes over the records, the only times that they are used."""
        plan = plan or self.plan(gate.schema, gate.budget)
        design: NetworkDesign = plan.design
        first, values = design.pairwise, dict[str, Any]()
        stds = {release.query.name: release.noise_std_natural for release in plan.releases}
        with gate.open(plan, method=self.name, public=self.public_facts(gate.schema)) as session:
            if first.bought:
                values |= session.ask(first.histograms())
            if first.screened:
                values |= session.ask({rounds.SCREEN: first.screen(values, stds)})
            values |= session.ask(first.final(values, stds))
            session.ask({FAMILIES: design.chosen(Answers(values, stds)).counted})
        return session.release()

    def model(self, release: Release, fitting: Any = None) -> BayesianNetwork:
        """Returns the network that a release says."""
        certificate = release.certificate
        version = certificate.public.get("design", DESIGN)
        return self.design(release.schema, certificate.epsilon, version=version).network(release)
