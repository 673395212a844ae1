"""Base of all methods: plan, query once, fit the release.

A method is a class of settings. It defines queries, a model and defaults. It does not
clip, add noise or account for privacy; the gate does.

`noisegate.plan` returns a `Planned`: the plan of a run, computed from public facts
only.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from noisegate.answers.verdict import Verdict
from noisegate.cards import ResultCard, Shown
from noisegate.errors import FitWarning, OptionError, require, said
from noisegate.methods.abilities import (
    BoundsErrors,
    ChangesFitDefaults,
    ChecksPackages,
    ChosenByAuto,
    StatesPublicFacts,
    TrainsAtGate,
    UsesPublicFiles,
    UsesPublicRecords,
)
from noisegate.models.checkpoint import Fit, FitState
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape, read_shape
from noisegate.settings import HasSettings, Settings

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.synthesizer import Synthesizer


@dataclass(frozen=True, kw_only=True, repr=False)
class Planned(Shown):
    """The plan of a run, with its cost and its expected accuracy.

    It is computed from public facts only.

    Attributes:
        method: The method with its settings.
        plan: The queries of a fit, with their noise.
        records: Number of records as publicly known.
        reason: Why the method was selected; None if the user named it.
        verdict: The predicted verdict; None if the method has no forecast.
        error_bounds: Differences between queries and the kernels that they approximate;
            see `BoundsErrors`.

    Examples:
        >>> from noisegate import Schema, plan
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> planned = plan(schema, epsilon=1.0, records=30_000)
        >>> planned.method.name, planned.verdict.word, round(planned.plan.epsilon, 3)
        ('pairwise', 'good', 1.0)
    """

    method: Method
    plan: Plan
    records: int | None
    reason: str | None
    verdict: Verdict | None
    error_bounds: tuple[Any, ...]

    def card(self) -> ResultCard:
        """Returns the plan as a card, with the verdict and the reason of the choice."""
        plan_card = self.plan.card()
        facts = {"method": self.method.name}
        if self.verdict is not None:
            facts["verdict"] = self.verdict.headline
        facts.update(plan_card.facts)
        notes = [] if not self.reason else [self.reason]
        notes.extend(bound.text() for bound in self.error_bounds)
        return replace(plan_card, facts=facts, notes=notes)

    def to_json(self) -> dict[str, Any]:
        """Returns the method, the plan, the verdict and the bounds as JSON values."""
        return {
            "method": self.method.name,
            "reason": self.reason,
            **self.plan.describe(self.records),
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "error_bounds": [bound.to_json() for bound in self.error_bounds],
        }


AUDITED_STEPS: Mapping[str, Any] = MappingProxyType(
    {"steps": 20, "sampling_probability": 0.2}
)
"""The part of `Method.audit_settings` that methods with steps have in common."""


class Method(HasSettings, ABC):
    """Base class of all methods.

    A method is a class of settings (`noisegate.settings.settings`) with a name
    (`noisegate.methods.registry.register`), a plan, a query, a fit and the result of
    the fit. See `noisegate.methods.abilities` for what only some methods can do.

    The base is abstract, and a concrete method is final: methods differ in data, in the
    abstract methods that they implement, and in abilities. They override nothing else.
    Between the two there is at most one abstract family, such as
    `noisegate.methods.gradient.GradientMethod`.

    Examples:
        >>> from noisegate import DPMERF, Schema
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import FakeGate
        >>> gate = FakeGate(Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> method = DPMERF(frequencies=5)
        >>> plan = method.plan(gate.schema, gate.budget)  # reads nothing
        >>> release = method.query(gate, plan)  # the one time that records are used
        >>> round(release.certificate.check(), 6)
        1.0
    """

    makes: ClassVar[Literal["records", "classifier"]] = "records"
    """The result of a fit: a model to sample records from, or a classifier."""
    needs_torch: ClassVar[bool] = True
    """Whether torch computes its queries or its fit.

    If not, a device is checked without importing torch.
    """
    seeded_fit: ClassVar[bool] = False
    """Whether a release may be fitted again with another seed.

    This is so if the queries do not depend on the seed."""
    fit_class: ClassVar[type[Settings] | None] = None
    """Class of the settings of the fit, which `fit_options` change; None for none."""
    audit_on: ClassVar[Literal["table", "images", "linked"]] = "table"
    """The kind of simulated records for an audit of the method."""
    audit_files: ClassVar[tuple[Literal["public", "decoder"], ...]] = ()
    """The settings that name a simulated file in an audit."""
    audit_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Small settings for an audit of the method."""
    needs_record_count: ClassVar[bool] = False
    """Whether its steps are scaled by a public number of records."""
    needs_packages: ClassVar[tuple[str, ...]] = ()
    """Optional packages that the fit needs."""
    rules_version: ClassVar[int | None] = None
    """Version of the rules that derive queries from settings; None for none.

    Certificates state it."""
    image_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Settings with another default if the records are images."""
    table_values: ClassVar[Mapping[str, Collection[Any]]] = MappingProxyType({})
    """Values of settings for which images are treated as tables of pixels."""

    @classmethod
    def for_schema(
        cls, schema: Schema, settings: Mapping[str, Any] | None = None
    ) -> Self:
        """Creates the method for the records of a schema.

        Args:
            schema: Public schema of the records. For images, settings that follow from
                their shape may be omitted.
            settings: Settings that differ from their defaults.

        Raises:
            OptionError: if there is no such setting, or a value is unusable.
        """
        given = dict(settings or {})
        takes_images = "image" in cls.setting_names()
        is_for_table = any(
            given.get(name) in values for name, values in cls.table_values.items()
        )
        if schema.images is not None and takes_images and not is_for_table:
            image_size = astuple(schema.images.shape)
            given = {"image": image_size, **cls.image_defaults, **given}
        return cls(**given)

    @property
    def shape(self) -> ImageShape:
        """Shape of the images.

        Raises:
            OptionError: if the records are not images.
        """
        return read_shape(getattr(self, "image", None))

    def fit_settings(self) -> Any:
        """Returns the settings of the fit: the defaults, changed by `fit_options`.

        Returns:
            An object of `fit_class`, or None if there is no such class.

        Raises:
            OptionError: if a fit option is unusable.
        """
        if self.fit_class is None:
            return None
        # Old names of options, as certificates may have them, to those of today.
        new_names = self.fit_class.renamed
        options = getattr(self, "fit_options", {})
        changes = {
            new_names.get(name, str(name)): value for name, value in options.items()
        }
        defaults = self.fit_defaults if isinstance(self, ChangesFitDefaults) else {}
        try:
            return self.fit_class(**{**defaults, **changes})
        except OptionError as error:
            raise OptionError(f"fit option {error}") from None

    @abstractmethod
    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Plans the queries and calibrates their noise to a budget; reads no data.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee that all queries together must meet.
        """

    @abstractmethod
    def query(self, gate: Gate, plan: Any = None) -> Release:
        """Releases the noisy results of the queries, the only use of private records.

        Args:
            gate: Private records and a budget.
            plan: The result of `plan` for them; None computes it.
        """

    @abstractmethod
    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of a release, ready to run, to save and to restore.

        Args:
            release: A release of this method.
            device: "auto", "cpu", "cuda" or "mps".
            plan: The plan of the release, which contains the feature maps; None creates
                them again.
        """

    @abstractmethod
    def synthesizer(self, release: Release, fitting: Any) -> Any:
        """Returns the result of a fit: a synthesizer, or a classifier.

        Args:
            release: The release that was fitted.
            fitting: The fit that `fitting` returned for it.
        """

    def planned(
        self,
        schema: Schema,
        budget: Budget,
        records: int | None = None,
        *,
        reason: bool = False,
    ) -> Planned:
        """Returns the plan of a run with its predictions.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee of the run.
            records: Number of records as publicly known.
            reason: Whether to state why the method was selected.
        """
        explanation = None
        verdict = None
        if isinstance(self, ChosenByAuto):
            explanation = self.why(schema, budget.epsilon) if reason else None
            verdict = self.verdict(schema, budget, records)
        error_bounds: tuple[Any, ...] = ()
        if records and isinstance(self, BoundsErrors):
            error_bounds = self.error_bounds(schema, budget, records)
        return Planned(
            method=self,
            plan=self.plan(schema, budget),
            records=records,
            reason=explanation,
            verdict=verdict,
            error_bounds=error_bounds,
        )

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the public facts that the method uses, for the certificate.

        These are its settings, the version of its rules if it has any, digests of its
        public files, and further facts of the method.
        """
        facts: dict[str, Any] = {"settings": self.to_json()}
        if self.rules_version is not None:
            facts["design"] = self.rules_version
        if isinstance(self, UsesPublicFiles):
            facts["settings"] |= self.file_digests()
        if isinstance(self, StatesPublicFacts):
            facts |= self.facts_beside_settings(schema)
        return facts

    def check_gate(self, gate: Gate) -> None:
        """Checks that the query can run, before anything is spent.

        Raises:
            OptionError: if `gate` is not a gate, or the method needs a public number of
                records and there is none.
            DataError: if public records of the method are private ones too, by the
                contents of their files.
        """
        if not hasattr(gate, "budget"):
            raise OptionError(
                f"gate={type(gate).__name__}: a method queries records through a "
                "gate; give noisegate.Gate(data, schema=schema, epsilon=1.0); or "
                "fit(data, schema=schema, epsilon=1.0)."
            )
        if self.needs_record_count and gate.records is None:
            raise OptionError(
                "records=None: sums of gradients are divided by the expected size of a "
                "sample, which takes a number of records that is public, for instance "
                f"a rounded one, as the true one is private. Give {said('records')}."
            )
        if isinstance(self, UsesPublicRecords):
            self.check_public_records()
            if self.public is not None:
                gate.check_apart(self.public)

    def check_fit(self, device: str) -> None:
        """Checks that the fit can run, before any budget is spent.

        Args:
            device: "auto", "cpu", "cuda" or "mps".

        Raises:
            UserError: if the device does not exist, a fit option is unusable or an
                optional dependency is missing.
        """
        from noisegate.devices import check_device, choose_device

        purpose = f"the fit of {self.name}"
        if self.needs_torch:
            choose_device(device, purpose)
        else:
            check_device(device, purpose)
        self.fit_settings()
        for package in self.needs_packages:
            require(package, purpose)
        if isinstance(self, ChecksPackages):
            self.check_packages()
        if isinstance(self, UsesPublicRecords):
            self.check_public_records()
        if isinstance(self, UsesPublicFiles):
            # It loads them, and fails where one is not here.
            self.file_digests()

    def fit_release(
        self,
        release: Release,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        plan: Any = None,
    ) -> Synthesizer:
        """Fits a synthesizer to a release: post-processing, which costs no privacy.

        A `noisegate.errors.FitWarning` is given if the model differs much from the
        release.

        Args:
            release: A release of this method.
            device: "auto", "cpu", "cuda" or "mps".
            report: Called with the state of the fit after every step.
            plan: The plan of the release; None computes its contents again.
        """
        fitting = self.fitting(release, device=device, plan=plan)
        fitting.run(report)
        synthesizer: Synthesizer = self.synthesizer(release, fitting)
        if "warning" in synthesizer.summary.notes:
            # Where warnings are errors, the synthesizer must not be lost for it.
            with suppress(FitWarning):
                warning = synthesizer.summary.notes["warning"]
                warnings.warn(warning, FitWarning, stacklevel=2)
        return synthesizer

    def fit(
        self,
        data: Gate | Any,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        convert: Callable[[Any], Any] | None = None,
        **run: Any,
    ) -> Synthesizer:
        """Fits a synthesizer, or the classifier of the method, to private records.

        Args:
            data: A gate, which has a budget; or records, with `run`.
            device: "auto", "cpu", "cuda" or "mps". Methods that run on the CPU only
                just check it.
            report: With a gate: called after every step.
            convert: With a gate: applied to the Arrow tables that `Synthesizer.sample`
                returns.
            run: With records: the options of `noisegate.fit`, such as ``schema``,
                ``epsilon``, ``ledger``, ``dataset`` and ``out``.

        Raises:
            UserError: if an argument or the data is unusable; nothing is spent.
            BudgetRefusedError: if the ledger refuses the cost.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate import Pairwise, Schema
            >>> from noisegate.schema import Boolean
            >>> table = pa.table({"ill": [True, False] * 100})
            >>> schema = Schema([Boolean(name="ill")])
            >>> Pairwise().fit(table, schema=schema, epsilon=1.0).sample(3).shape
            (3, 1)
        """
        if not run:
            self.check_gate(data)
            return self._fit_gate(data, device=device, report=report, convert=convert)
        is_gate = hasattr(data, "budget")
        if is_gate:
            raise OptionError(
                f"{next(iter(run))}: give this to the gate, or give records "
                "instead of a gate."
            )
        if report is not None or convert is not None:
            raise OptionError(
                "report, convert: these are for a gate; with records use progress=True "
                "or observer=."
            )
        import noisegate

        return cast(
            "Synthesizer", noisegate.fit(data, method=self, device=device, **run)
        )

    def _fit_gate(
        self,
        gate: Gate,
        *,
        device: str,
        report: Callable[[FitState], None] | None,
        convert: Callable[[Any], Any] | None,
    ) -> Synthesizer:
        """Plans, queries and fits at a gate; the arguments are those of `fit`."""
        self.check_fit(device)
        plan = self.plan(gate.schema, gate.budget)
        if isinstance(self, TrainsAtGate):
            release = _train_at_gate(self, gate, plan, device=device, report=report)
        else:
            release = self.query(gate, plan)
        if self.makes == "classifier":
            return cast("Synthesizer", self.synthesizer(release, self.fitting(release)))
        synthesizer = self.fit_release(release, device=device, report=report, plan=plan)
        return replace(synthesizer, convert=convert)


def _train_at_gate(
    method: TrainsAtGate,
    gate: Gate,
    plan: Plan,
    *,
    device: str,
    report: Callable[[FitState], None] | None,
) -> Release:
    """Trains at a gate, and reports each step as a fit does, without a distance."""
    from noisegate.devices import choose_device

    step_count = steps_of(plan).query.steps

    def after_step(steps_done: int) -> None:
        if report is not None:
            report(FitState(step=steps_done, steps=step_count, discrepancy=math.nan))

    torch_device = str(choose_device(device))
    return method.query(gate, plan, report=after_step, device=torch_device)
