"""Tab-PE: private records vote for the nearest of public candidates, and candidates with many votes make the table.

Private Evolution, Lin et al. (ICLR 2024), https://arxiv.org/abs/2305.15560, for tables: Swanberg et al. (2026),
https://arxiv.org/abs/2606.08259. The published program begins with uniform candidates, has a thousand for thirty rounds
of votes, and hands out the last ones. Here candidates are drawn from one-way tables that are bought first, one round of
votes weights them, and weights are brought back to the one-way tables. Further rounds (`rounds`) keep the half with the
most votes and vary it, which cost more than they brought on the tables tried. Distances are in cells of about equal
mass, not in the units of a column.

In each round a record adds 1 to one candidate, bit for bit (G-25), however candidates follow from earlier answers:
norm, share and noise of each round are those of the plan (G-13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from noisegate.methods.method import Method
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Query
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Positive, Relative, Seed, TwoOrMore, Unit, Within, settings
from noisegate.tables import design as one_way
from noisegate.tables.released import COARSE, HISTOGRAMS, Answered
from noisegate_papers.training.network_design import Answers

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.mixture import Mixture
    from noisegate_papers.training.evolution import Evolution

MOST_CANDIDATES = 20_000
Candidates = Annotated[
    int, Within(ge=2, le=MOST_CANDIDATES), f"a whole number from 2 to {MOST_CANDIDATES:,}; time grows with it"
]
Rounds = Annotated[int, Within(ge=1, le=1000), "a whole number from 1 to 1000"]
"""Rounds of votes."""


@register("tab-pe")
@settings
class TabPE(Method):
    """Settings of Tab-PE; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, Schema, TabPE
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill")))
        >>> plan = TabPE(rounds=2).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'counts': (1, 35.0), 'one-way': (12, 6.74), 'votes-1': (4000, 6.39), 'votes-2': (4000, 6.39)}
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"rounds": 2, "candidates": 50}

    cells: TwoOrMore | None = None
    """Cells of a numeric column, about; None for a number that follows from ε and the number of columns."""
    candidates: Candidates = 4000
    """Most candidates; there are no more than records for each standard deviation of the noise on a vote."""
    rounds: Rounds = 1
    """Rounds of votes."""
    variation: Unit = 0.5
    """Part of a candidate's cells that is drawn anew after the first round; it falls to none in the last."""
    label_weight: Positive = 1.0
    """How far apart labels are, beside the levels of other columns."""
    smoothing: Unit = 0.2
    """Part of a drawn record's cells that follow the one-way tables of its label, and not its candidate."""
    histograms_share: Relative = 0.12
    """Budget share of the histograms, half of it for the coarse ones."""
    counts_share: Relative = 0.01
    """Budget share of the class counts."""
    one_way_share: Relative = 0.27
    """Budget share of the one-way tables."""
    votes_share: Relative = 0.6
    """Budget share of all votes."""
    seed: Seed = 0
    """Of the public randomness: candidates and their variations. Never of the private noise."""

    def design(self, schema: Schema, epsilon: float, *, version: int = DESIGN) -> one_way.Design:
        """Returns what is asked about a table before the votes, by the rules of a version of the pairwise method."""
        return Pairwise(cells=self.cells, pairs="none").design(schema, epsilon, version=version)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what is taken as public, for the certificate: the settings, and the version of the rules."""
        return {**super().public_facts(schema), "design": DESIGN}

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan, with the design in it. Reads no data."""
        shares = dict.fromkeys((HISTOGRAMS, COARSE), self.histograms_share / 2)
        shares |= {one_way.COUNTS: self.counts_share, one_way.SINGLES: self.one_way_share}
        design, share = self.design(schema, budget.epsilon), self.votes_share / self.rounds
        fixed: dict[str, Any] = {"columns": 1, "norm": 1.0, "nonnegative": True, "adaptive": True}
        votes = (Query(name=name, dim=self.candidates, share=share, **fixed) for name in self._names)
        return Plan(queries=(*design.queries(shares), *votes), design=design).calibrate(budget)

    def query(self, gate: Gate, plan: CalibratedPlan | None = None) -> Release:
        """Returns the release: a pass over the records for each round, and one or two before the first."""
        plan = plan or self.plan(gate.schema, gate.budget)
        stds = {release.query.name: release.noise_std_natural for release in plan.releases}
        values: dict[str, Any] = {}
        with gate.open(plan, method=self.name, public=self.public_facts(gate.schema)) as session:
            if plan.design.bought:
                values |= session.ask(plan.design.histograms())
            values |= session.ask(plan.design.final(values, stds))
            evolution = self.evolution(plan.design, Answers(values, stds))
            for place, name in enumerate(self._names):
                if place:
                    evolution.select(values[self._names[place - 1]][:, 0])
                values |= session.ask({name: evolution.votes})
        return session.release()

    def evolution(self, design: one_way.Design, answers: Answered) -> Evolution:
        """Returns the candidates of the first round, which follow from what was released before it."""
        from noisegate_papers.training.evolution import Evolution, OneWay

        names = ("candidates", "rounds", "variation", "label_weight", "seed")
        settings = {name: getattr(self, name) for name in names}
        return Evolution(OneWay.read(design, answers), noise_std=answers.noise_std[self._names[0]], **settings)

    def model(self, release: Release, fitting: Any = None) -> Mixture:
        """Returns the mixture that a release says: the candidates of its last round, weighted by their votes."""
        certificate = release.certificate
        design = self.design(release.schema, certificate.epsilon, version=certificate.public.get("design", DESIGN))
        evolution, last = self.evolution(design, release), self._names[-1]
        for name in self._names[:-1]:
            evolution.select(release.values[name][:, 0])
        return evolution.mixture(release.values[last][:, 0], smoothing=self.smoothing)

    @property
    def _names(self) -> tuple[str, ...]:
        """The query of each round."""
        return tuple(f"votes-{place + 1}" for place in range(self.rounds))
