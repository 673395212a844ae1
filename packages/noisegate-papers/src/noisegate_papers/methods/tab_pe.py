"""Tab-PE: Private Evolution for tables, in which private records vote for public candidates (G-13, G-25).

Swanberg et al. (2026), https://arxiv.org/abs/2606.08259. The first candidates are drawn from one-way tables, which are
released first. One round of votes weights them, and the weights are adjusted to the one-way tables. Each further round
varies the half with the most votes. For deviations see [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.answers.design import COARSE, COUNTS, HISTOGRAMS, SINGLES, Design
from noisegate.answers.rounds import Answered, AnswersSoFar
from noisegate.answers.rounds import Rounds as DesignRounds
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.method import Method
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan, plan_sums
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import (
    Positive,
    Relative,
    Seed,
    Settings,
    TwoOrMore,
    Unit,
    settings,
)
from noisegate_papers.methods.vote_rounds import (
    Candidates,
    RoundCount,
    round_names,
    vote_queries,
)

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.mixture import Mixture
    from noisegate_papers.training.evolution import Evolution, OneWay


@register("tab-pe")
@settings
class TabPE(Settings, ClosedForm, Method):
    """Tab-PE: Private Evolution for tables (Swanberg et al. 2026).

    Examples:
        >>> from noisegate import Budget, Schema, TabPE
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill")))
        >>> plan = TabPE(rounds=2).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'counts': (1, 35.0), 'one-way': (12, 6.74), 'votes-1': (4000, 6.39), 'votes-2': (4000, 6.39)}
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"rounds": 2, "candidates": 50}
    rules_version: ClassVar = DESIGN

    cells: TwoOrMore | None = None
    """Approximate number of bins of a numeric column; None for a number that depends on ε and the number of columns."""
    candidates: Candidates = 4000
    """Largest number of candidates. There are never more than the number of records divided by the standard deviation
    of the noise on a vote."""
    rounds: RoundCount = 1
    """Number of rounds of votes."""
    variation: Unit = 0.5
    """Share of a candidate's values that is drawn again after the first round. It decreases to 0 in the last round."""
    label_weight: Positive = 1.0
    """Distance between different labels, relative to that between different levels of another column."""
    smoothing: Unit = 0.2
    """Share of a sampled record's values that are drawn from the one-way tables of its label instead of its candidate.
    """
    histograms_share: Relative = 0.12
    """Share of the budget for the histograms, half of it for the coarse ones."""
    counts_share: Relative = 0.01
    """Share of the budget for the class counts."""
    one_way_share: Relative = 0.27
    """Share of the budget for the one-way tables."""
    votes_share: Relative = 0.6
    """Share of the budget for all votes."""
    seed: Seed = 0
    """Seed for non-private randomness: candidates and their variations. The noise that protects the records cannot be
    seeded."""

    def design(
        self, schema: Schema, epsilon: float, *, version: int = DESIGN
    ) -> Design:
        """Returns the queries on a table before the votes, by a version of the pairwise method's rules."""
        one_way = Pairwise(cells=self.cells, pairs="none")
        return one_way.design(schema, epsilon, version=version)

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan, which contains the design. Reads no data."""
        design = self.design(schema, budget.epsilon)
        one_way_queries = design.queries(
            {
                HISTOGRAMS: self.histograms_share / 2,
                COARSE: self.histograms_share / 2,
                COUNTS: self.counts_share,
                SINGLES: self.one_way_share,
            }
        )
        votes = vote_queries(self.rounds, self.candidates, self.votes_share)
        return plan_sums(budget, (*one_way_queries, *votes), design=design)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Releases the noisy results: one pass over the records for each round, and one or two before the first."""
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        noise_std = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        values: dict[str, Any] = {}
        public_facts = self.public_facts(gate.schema)
        with gate.open(plan, method=self.name, public=public_facts) as session:
            if plan.design.histogram_columns:
                values |= session.ask(plan.design.histogram_maps())
            histogram_answers = AnswersSoFar(values, noise_std)
            last_maps = DesignRounds(plan.design, histogram_answers).last_maps()
            values |= session.ask(last_maps)

            evolution = self.evolution(plan.design, AnswersSoFar(values, noise_std))
            names = round_names(self.rounds)
            for number, name in enumerate(names):
                if number > 0:
                    evolution.select(values[names[number - 1]][:, 0])
                values |= session.ask({name: evolution.votes})
        return session.release()

    def evolution(self, design: Design, answers: Answered) -> Evolution:
        """Returns the candidates before the first vote, drawn from the one-way tables.

        Args:
            design: The queries before the votes.
            answers: The noisy results, including those of the votes if a release is read.
        """
        from noisegate_papers.training.evolution import OneWay

        one_way = OneWay.read(design, answers)
        first_name = round_names(self.rounds)[0]
        noise_std = answers.noise_std[first_name]
        candidates = self._candidates(one_way, noise_std, distinct=True)
        votes = answers.values.get(first_name)
        is_of_earlier_version = votes is not None and len(votes) != len(
            candidates.candidates
        )
        if is_of_earlier_version:
            # It asked about equal candidates more than once.
            return self._candidates(one_way, noise_std, distinct=False)
        return candidates

    def _candidates(
        self, one_way: OneWay, noise_std: float, *, distinct: bool
    ) -> Evolution:
        """Draws candidates from one-way tables.

        Args:
            one_way: The noisy table of each column.
            noise_std: Standard deviation of the noise on a vote.
            distinct: Whether equal candidates are drawn once.
        """
        from noisegate_papers.training.evolution import Evolution

        return Evolution(
            one_way,
            candidates=self.candidates,
            rounds=self.rounds,
            variation=self.variation,
            label_weight=self.label_weight,
            seed=self.seed,
            noise_std=noise_std,
            distinct=distinct,
        )

    def model(self, release: Release) -> Mixture:
        """Returns the mixture in a release: the candidates of its last round, weighted by their votes."""
        certificate = release.certificate
        design = self.design(
            release.schema,
            certificate.epsilon,
            version=certificate.public.get("design", DESIGN),
        )
        *earlier_names, last_name = round_names(self.rounds)
        evolution = self.evolution(design, release)
        for name in earlier_names:
            evolution.select(release.values[name][:, 0])
        last_votes = release.values[last_name][:, 0]
        return evolution.mixture(last_votes, smoothing=self.smoothing)
