"""Linked tables, such as patients and their visits: noisy counts of how children follow each other (G-31).

A link is one table of transitions (`noisegate.schema.linked.links`). What a unit adds is the
mean over its rows: the bound of one record, however many children there are (G-31). A
mixture is fitted to the counts, and a chain to the mixture.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.answers.design import COUNTS
from noisegate.answers.measurements import Measurements
from noisegate.answers.reading import domain_of
from noisegate.answers.rounds import Answered, Rounds
from noisegate.devices import check_device
from noisegate.errors import OptionError, require
from noisegate.methods.forecast import Forecast, forecast_of, verdict_of_fit
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.models.checkpoint import FitSummary
from noisegate.models.linked.fit import LinkAnswers, LinkDesign, LinkedFit
from noisegate.models.linked.model import LinkedModel
from noisegate.models.tables.descent import MixtureSettings
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan
from noisegate.privacy.release import Release
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.settings import Options, Seed, TwoOrMore, settings

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.schema.linked.links import Link

DESIGN = 2  # version of the rules by which cells and tables follow from settings and released histograms
_CELLS, _MORE_CELLS, _PLENTY = 12, 16, 3.0
_CHAINED = 0.007  # what a chain misses without any noise, as noise on a single column, seen on simulated clinics


@register("linked")
@settings
class Linked(Method):
    """The default for linked tables: a model of parents, children and their numbers.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.methods.linked import Linked
        >>> from noisegate.schema import Boolean, Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
        >>> people = LinkedTable(name="people", key="id", schema=Schema([Boolean(name="ill")]))
        >>> pain = Schema([Integer(name="pain", lower=0, upper=10)])
        >>> schema = LinkedSchema([people, LinkedTable(name="visits", schema=pain, parent="people", most=9)])
        >>> plan = Linked().plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['visits.number', 'visits.counts', 'visits.one-way', 'visits.pairs']
    """

    audit_on: ClassVar = "linked"

    needs_torch = False
    seeded_fit = True
    fit_class = MixtureSettings
    rules_version = DESIGN

    cells: TwoOrMore | None = None
    """Cells of a numeric column, about; None for a number that follows from ε."""
    fit_options: Options = field(default_factory=dict)
    """Changes to `noisegate.models.tables.descent.MixtureSettings`; they cannot change the privacy."""
    seed: Seed = 0
    """Seed for non-private randomness: the fit's first components and chains. Never of the private noise."""

    def designs(
        self, schema: LinkedSchema, epsilon: float, *, version: int = DESIGN
    ) -> tuple[LinkDesign, ...]:
        """Returns what is asked about each link at a given ε, parents first, by the rules of a version."""
        if not isinstance(schema, LinkedSchema):
            raise OptionError(
                "method='linked': the schema describes one table; give one of linked tables, or take method='auto'."
            )
        cells = self.cells or (_CELLS if epsilon < _PLENTY else _MORE_CELLS)
        root, first = schema.root.name, schema.links[0].name
        founding = {
            link.name: link.parent.name == root and link.name == first
            for link in schema.links
        }
        fixed: dict[str, Any] = {"cells": cells, "graded": version > 1}
        return tuple(
            LinkDesign(link=link, measures_parent_pairs=founding[link.name], **fixed)
            for link in schema.links
        )

    def plan(self, schema: Any, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan, with the designs in it. Reads no data."""
        designs = self.designs(schema, budget.epsilon)
        queries = tuple(
            query for design in designs for query in design.queries(1 / len(designs))
        )
        return Plan(queries=queries, design=designs).calibrate(budget)

    def forecast(self, schema: Any, budget: Budget, records: float) -> Forecast:
        """Returns how far the first table and its children are expected to be from real ones, for so many units."""
        plan = self.plan(schema, budget)
        stds = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        return self._forecast(
            plan.design[0], LinkAnswers(values={}, noise_std=stds), records
        )

    def forecast_of(
        self, release: Release, fitting: LinkedFit, records: float
    ) -> Forecast:
        """Returns the same of a release and its fit; nothing is calibrated or designed again."""
        return self._forecast(fitting.links[0].design, release, records)

    def _forecast(
        self, design: LinkDesign, found: Answered, records: float
    ) -> Forecast:
        expected = forecast_of(design.tables, design.answers(found), records)
        return replace(expected, noise=expected.noise + _CHAINED)

    def query(self, gate: Gate, plan: CalibratedPlan | None = None) -> Release:
        """Returns the release: two passes over the rows of each link, the only times that they are used."""
        plan = plan or self.plan(gate.schema, gate.budget)
        stds = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        with gate.open(
            plan, method=self.name, public=self.public_facts(gate.schema)
        ) as session:
            for design in plan.design:
                found = session.ask(design.first_round(), link=design.link.name)
                answers = design.answers(LinkAnswers(values=found, noise_std=stds))
                session.ask(design.final_round(answers), link=design.link.name)
        return session.release()

    def _designs_of(self, release: Release) -> tuple[LinkDesign, ...]:
        schema: Any = release.stated_schema
        certificate = release.certificate
        return self.designs(
            schema, certificate.epsilon, version=certificate.public.get("design", 1)
        )

    def measurements_of_link(self, release: Release, link: Link) -> Measurements:
        """Returns what the last round states of the transitions of one link."""
        design = next(
            one for one in self._designs_of(release) if one.link.name == link.name
        )
        rounds = Rounds(design.tables, design.answers(release))
        domain = domain_of(link.schema.layout, rounds.bins)
        return Measurements(domain, tuple(rounds.tables()))

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent; see `Method`."""
        super().check_fit(device)
        require("scipy", f"the fit of {self.name}")

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> LinkedFit:
        """Returns the fit of a release, ready to run, to save and to restore; it computes on the CPU, on any device."""
        check_device(device, f"the fit of {self.name}")
        designs = plan.design if plan else self._designs_of(release)
        return LinkedFit(designs, release, self.fit_settings(), seed=self.seed)

    def synthesizer(self, release: Release, fitting: LinkedFit) -> Any:
        """Returns the model of linked tables that a fit has reached."""
        first = fitting.links[0].design.answers(release)
        units = max(float(first.values[COUNTS].sum()), first.noise_std[COUNTS])
        notes = {"warning": fitting.warning} if fitting.warning else {}
        ended: dict[str, Any] = {
            "step": fitting.step,
            "steps": fitting.steps,
            "discrepancy": fitting.discrepancy,
        }
        summary = FitSummary(
            **ended,
            notes=notes,
            verdict=verdict_of_fit(self, release, fitting, records=units),
        )
        return LinkedModel(
            release=release, links=fitting.model(), summary=summary
        ).with_verdict_of_rules()
