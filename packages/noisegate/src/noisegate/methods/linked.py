"""The method of linked tables, such as patients and their visits (G-31).

Of each link between two tables it measures noisy counts of how a child follows its
parent, and how the next child follows one (`noisegate.schema.linked.links`). A unit
adds the mean over its rows to them, which has the bound of one record however many
children there are. A mixture is fitted to the counts, and a chain of children to the
mixture.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from noisegate.answers.design import COUNTS
from noisegate.answers.findings import questions_of_linked
from noisegate.answers.measurements import Measurements
from noisegate.answers.rounds import Rounds
from noisegate.devices import check_device
from noisegate.errors import ModelError, OptionError
from noisegate.methods.abilities import ChosenByAuto
from noisegate.methods.fitted import fit_summary
from noisegate.methods.forecast import record_count, unanswered
from noisegate.methods.linked_words import (
    LinkedForecast,
    link_noise,
    verdict_with_records,
    verdict_without_records,
)
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.models.linked.fit import LinkAnswers, LinkDesign, LinkedFit
from noisegate.models.linked.model import LinkedModel
from noisegate.models.tables.mixture_settings import MixtureSettings
from noisegate.privacy.plan import Budget, Plan, plan_sums
from noisegate.privacy.release import Release
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.settings import Options, Seed, Settings, TwoOrMore, settings

if TYPE_CHECKING:
    from noisegate.answers.verdict import Verdict
    from noisegate.gate.gate import Gate
    from noisegate.schema.linked.links import Link

DESIGN = 2
"""Version of the rules by which cells and tables follow from settings and released
histograms. Releases of version 1 have cells that are not graded."""

# Cells of a numeric column below and from this ε on.
_CELLS = 12
_CELLS_OF_LARGE_EPSILON = 16
_LARGE_EPSILON = 3.0


@register("linked")
@settings
class Linked(Settings, Method, ChosenByAuto):
    """The default for linked tables: a model of parents, children and child counts.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.methods.linked import Linked
        >>> from noisegate.schema import Boolean, Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
        >>> people = LinkedTable(
        ...     name="people", key="id", schema=Schema([Boolean(name="ill")])
        ... )
        >>> pain = Schema([Integer(name="pain", lower=0, upper=10)])
        >>> visits = LinkedTable(name="visits", schema=pain, parent="people", most=9)
        >>> plan = Linked().plan(LinkedSchema([people, visits]), Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['visits.number', 'visits.counts', 'visits.one-way', 'visits.pairs']
    """

    audit_on = "linked"

    needs_torch = False
    needs_packages = ("scipy",)
    seeded_fit = True
    fit_class = MixtureSettings
    rules_version = DESIGN

    cells: TwoOrMore | None = None
    """Approximate number of bins of a numeric column; None for a number that depends on
    ε."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate.models.tables.mixture_settings.MixtureSettings`; they
    cannot change the privacy."""
    seed: Seed = 0
    """Seed for non-private randomness: the initial components and chains of the fit.
    The noise that protects the records cannot be seeded."""

    def designs(
        self, schema: LinkedSchema, epsilon: float, *, version: int = DESIGN
    ) -> tuple[LinkDesign, ...]:
        """Returns the queries on each link, parents first.

        Args:
            schema: Public schema of the tables.
            epsilon: ε of the run, which determines the number of bins.
            version: Version of the rules, as a certificate states it.

        Raises:
            OptionError: if the schema is that of one table.
            ModelError: if the version is not known.
        """
        if not isinstance(schema, LinkedSchema):
            raise OptionError(
                "method='linked': the schema describes one table; give one of linked "
                "tables, or take method='auto'."
            )
        if version not in range(1, DESIGN + 1):
            raise ModelError(
                f"the release states version {version!r} of the rules of its tables, "
                f"and this noisegate knows 1 to {DESIGN}: read it with a newer one."
            )
        default_cells = _CELLS if epsilon < _LARGE_EPSILON else _CELLS_OF_LARGE_EPSILON
        first_link = schema.links[0]
        return tuple(
            LinkDesign(
                link=link,
                # The pairs of the root table are measured with its first child table.
                measures_parent_pairs=(
                    link.parent.name == schema.root.name
                    and link.name == first_link.name
                ),
                cells=self.cells or default_cells,
                graded=version > 1,
            )
            for link in schema.links
        )

    def plan(self, schema: Any, budget: Budget) -> Plan:
        """Plans the queries and calibrates their noise to a budget; reads no data.

        Args:
            schema: Public schema of the tables, a `LinkedSchema`.
            budget: Privacy guarantee that all queries together must meet.

        Returns:
            The calibrated plan, which contains the designs of the links.
        """
        designs = self.designs(schema, budget.epsilon)
        queries = tuple(
            query for design in designs for query in design.queries(1 / len(designs))
        )
        return plan_sums(budget, queries, design=designs)

    def why(self, schema: Any, epsilon: float) -> None:
        """Returns None: no other method models linked tables."""

    def verdict(
        self, schema: Any, budget: Budget, records: int | None = None
    ) -> Verdict:
        """Returns the predicted verdict, from the link with the most noise."""
        # Without a number, any will do: how many records each word takes is the same.
        expected = self.forecast(schema, budget, records or 1)
        if records is None:
            return verdict_without_records(expected, budget.epsilon)
        verdict = verdict_with_records(expected, budget.epsilon)
        return verdict.answering(questions_of_linked(schema), unanswered("plan"))

    def forecast(self, schema: Any, budget: Budget, records: float) -> LinkedForecast:
        """Forecasts all links from the noise of the plan.

        Args:
            schema: Public schema of the tables, a `LinkedSchema`.
            budget: Privacy guarantee of the run.
            records: Number of records of the first table.
        """
        plan = self.plan(schema, budget)
        unanswered = LinkAnswers(values={}, noise_std=_noise_std(plan))
        links = tuple(link_noise(design, unanswered, records) for design in plan.design)
        return LinkedForecast(
            root=schema.root.name, records=records, links=links, source="plan"
        )

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Releases the tables of each link, in two passes over its records.

        Links are processed one after the other, parents first. For each link, the first
        pass releases the number of children, and histograms that define the bins. The
        second pass releases all tables on these bins. Its queries depend only on the
        noisy results of the first pass and on the noise of the plan.

        Args:
            gate: Private records and a budget.
            plan: The result of `plan` for them; None computes it.
        """
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        noise_std = _noise_std(plan)
        public = self.public_facts(gate.schema)
        with gate.open(plan, method=self.name, public=public) as session:
            for design in plan.design:
                values = session.ask(design.first_round(), link=design.link.name)
                answers = design.answers(
                    LinkAnswers(values=values, noise_std=noise_std)
                )
                session.ask(design.final_round(answers), link=design.link.name)
        return session.release()

    def _designs_of(self, release: Release) -> tuple[LinkDesign, ...]:
        """Returns the designs of a release, by the rules of its version."""
        schema: Any = release.stated_schema
        certificate = release.certificate
        version = certificate.public.get("design", 1)
        return self.designs(schema, certificate.epsilon, version=version)

    def measurements_of_link(self, release: Release, link: Link) -> Measurements:
        """Returns the tables of the transitions of one link, from the last round."""
        design = next(
            design
            for design in self._designs_of(release)
            if design.link.name == link.name
        )
        return Rounds(design.tables, design.answers(release)).measurements()

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> LinkedFit:
        """Returns the fit of a release, ready to run, to save and to restore.

        Args:
            release: A release of this method.
            device: Any device; the fit runs on the CPU.
            plan: The plan of the release, which contains the designs; None creates them
                again.
        """
        check_device(device, f"the fit of {self.name}")
        designs = plan.design if plan else self._designs_of(release)
        return LinkedFit(designs, release, self.fit_settings(), seed=self.seed)

    def synthesizer(self, release: Release, fitting: LinkedFit) -> Any:
        """Returns the fitted `LinkedModel`, with verdicts.

        The verdict on the fit depends on the number of units, because all noise is
        relative to it. The model adds a separate verdict on rules of the schema between
        columns.

        Args:
            release: A release of this method.
            fitting: Its fit, which has ended.
        """
        first_design = fitting.links[0].design
        unit_count = self._noisy_unit_count(release, first_design)
        records = record_count(release, unit_count)
        links = tuple(
            link_noise(link.design, release, records, link.step_shares)
            for link in fitting.links
        )
        expected = LinkedForecast(
            root=first_design.link.parent.name,
            records=records,
            links=links,
            source="fit",
        )
        schema: Any = release.stated_schema
        verdict = expected.verdict(release.certificate.epsilon).answering(
            questions_of_linked(schema), unanswered("fit")
        )
        summary = fit_summary(release, fitting, verdicts=(verdict,))
        model = LinkedModel(release=release, links=fitting.model(), summary=summary)
        return model.with_verdict_of_rules()

    def _noisy_unit_count(self, release: Release, first_design: LinkDesign) -> float:
        """Returns about how many units a release has, by all that it states of them.

        A unit is one record of the root table with all that belongs to it: its rows in
        the other tables, at any depth. Links are in the order of the tables, so that
        the parents of the first one are the root records. There the rows of a unit have
        the weight 1 together, and the cells of each table sum to the number of units;
        in later links, units without rows would be missing.

        Args:
            release: A release of this method.
            first_design: The design of the first link.

        Returns:
            The number, at least the standard deviation of the noise on the count of one
            class: noise may have made it small or negative.
        """
        stated = self.measurements_of_link(release, first_design.link)
        min_count = first_design.answers(release).noise_std[COUNTS]
        return max(stated.total.value, min_count)


def _noise_std(plan: Plan) -> dict[str, float]:
    """Returns the standard deviation of the noise on each query, by its name."""
    return {release.query.name: release.noise_std_natural for release in plan.releases}
