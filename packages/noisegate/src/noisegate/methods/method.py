"""What every method can do: plan, query once, fit what was released."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.reading import domain_of, public_total
from noisegate.answers.verdict import Verdict
from noisegate.cards import ResultCard, Shown
from noisegate.errors import FitWarning, OptionError
from noisegate.methods.forecast import verdict_of_fit, verdict_of_plan
from noisegate.models.checkpoint import FinishedFit, Fit, FitState
from noisegate.privacy.plan import Budget, PricedPlan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape, read_shape
from noisegate.settings import Settings

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.methods.forecast import Forecast
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.queries.feature_map import FeatureMap


@dataclass(frozen=True, kw_only=True, repr=False)
class Planned(Shown):
    """What a run would release, at what cost, and how accurate the result would be, by public facts alone.

    Examples:
        >>> from noisegate import Schema, plan
        >>> from noisegate.schema import Integer
        >>> planned = plan(Schema([Integer(name="age", lower=0, upper=99)]), epsilon=1.0, records=30_000)
        >>> planned.method.name, planned.verdict.word, round(planned.plan.epsilon, 3)
        ('pairwise', 'good', 1.0)
    """

    method: Method
    plan: PricedPlan
    """The queries with their noise; a fit would run these."""
    records: int | None
    """The number of records, as far as the public knows."""
    reason: str | None
    """Why the method was chosen; None where it was named."""
    verdict: Verdict | None
    """What to expect, in words; None where the method has no forecast."""
    error_bounds: tuple[Any, ...]
    """How far queries are from the kernels that they stand for; see `Method.error_bounds`."""

    def card(self) -> ResultCard:
        """Returns the verdict, the reasons for it and the plan, as a card for a terminal or a notebook."""
        card, verdict = (
            self.plan.card(),
            {} if self.verdict is None else {"verdict": self.verdict.headline},
        )
        told = {"method": self.method.name, **verdict, **card.facts}
        notes = [
            *filter(None, [self.reason]),
            *(bound.text() for bound in self.error_bounds),
        ]
        return replace(card, facts=told, notes=notes)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        told = {
            "method": self.method.name,
            "reason": self.reason,
            **self.plan.describe(self.records),
        }
        told["verdict"] = None if self.verdict is None else self.verdict.to_json()
        return told | {"error_bounds": [bound.to_json() for bound in self.error_bounds]}


AUDITED_STEPS: Mapping[str, Any] = MappingProxyType(
    {"steps": 20, "sampling_probability": 0.2}
)
"""Of `Method.audit_settings`, for what is trained step by step."""


class Method(Settings, ABC):
    """Base of all methods: each chooses queries, a model and defaults; it cannot clip, add noise or account.

    A method is a class of settings (`noisegate.settings.settings`) under a name (`noisegate.methods.registry.register`)
    with a plan, a query and a model.

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
    """What comes out: a model to draw records from, or a classifier."""
    needs_torch: ClassVar[bool] = True
    """Whether its queries or its fit are computed by torch; if not, a device is checked without importing it."""
    seeded_fit: ClassVar[bool] = False
    """Whether queries do not depend on the seed, so that a release may be fitted again with another one."""
    fit_class: ClassVar[type[Settings] | None] = None
    """The settings of a fit, which `fit_options` changes; None for methods without these."""
    audit_on: ClassVar[Literal["table", "images", "linked"]] = "table"
    """The made-up records that it is audited on."""
    audit_files: ClassVar[tuple[Literal["public", "decoder"], ...]] = ()
    """The settings that then point to a made-up file."""
    audit_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Small settings with which it is audited."""
    rules_version: ClassVar[int | None] = None
    """The version of the rules by which the settings become questions, for the certificate; None where it has none."""

    @classmethod
    def for_schema(
        cls, schema: Schema, settings: Mapping[str, Any] | None = None
    ) -> Self:
        """Returns the method for the records of a schema; where these are images, what follows from it is filled in.

        Raises:
            OptionError: if there is no such setting, or a value is unusable.
        """
        settings = dict(settings or {})
        if schema.images is not None and "image" in cls.setting_names():
            settings = {**cls.for_images(schema.images.shape, settings), **settings}
        return cls(**settings)

    @classmethod
    def for_images(cls, shape: ImageShape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings that follow from the shape of images, beside those that are given."""
        return {"image": astuple(shape)}

    @property
    def shape(self) -> ImageShape:
        """Of the images; an OptionError if there are none."""
        return read_shape(getattr(self, "image", None))

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the method changes in the defaults of `fit_class`."""
        return {}

    def fit_settings(self) -> Any:
        """Returns how to fit: the defaults with `fit_options` on top; an OptionError if one of these is unusable."""
        if self.fit_class is None:
            return None
        today, options = self.fit_class.renamed, getattr(self, "fit_options", {})
        changes = {today.get(name, str(name)): value for name, value in options.items()}
        try:
            return self.fit_class(**{**self.fit_defaults, **changes})
        except OptionError as error:
            raise OptionError(f"fit option {error}") from None

    @abstractmethod
    def plan(self, schema: Schema, budget: Budget) -> PricedPlan:
        """Returns the calibrated plan: what will be asked, and with what noise. Reads no data."""

    @abstractmethod
    def query(self, gate: Gate, plan: Any = None) -> Release:
        """Returns the release: the one time that private records are used.

        The `plan` is what `plan` gave for the gate; None to make it.
        """

    def next_round(
        self,
        schema: Schema,
        plan: Any,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> Mapping[str, FeatureMap]:
        """Returns what is asked in one pass after what was answered; nothing once all is answered.

        It follows from its arguments alone, so that several silos ask the same: from the answers so far, by query, and
        the noise of every query of the plan, asked or not, in the units of the answers.

        Raises:
            OptionError: if what is asked depends on more than that, as where records train something step by step.
        """
        cure = "take 'pairwise', or a method of mean embeddings such as 'dp-merf' (for images 'joint')."
        raise OptionError(
            f"method={self.name!r} does not ask in rounds of sums that several silos can share; {cure}"
        )

    def decisions(
        self,
        schema: Schema,
        plan: Any,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> dict[str, Any]:
        """Returns as JSON what `next_round` decides by such answers; a design with it as `fixed` asks the same."""
        return {}

    def settled(self, schema: Schema, epsilon: float) -> Self:
        """Returns the method with every setting that else follows from ε, so that it asks the same at another ε."""
        return self

    def model(self, release: Release, fitting: Any) -> RecordModel:
        """Returns the model of records that a fit, made by `fitting`, has reached."""
        raise NotImplementedError

    def synthesizer(self, release: Release, fitting: Any) -> Synthesizer:
        """Returns the synthesizer that a fit, made by `fitting`, has reached."""
        from noisegate.models.checkpoint import FitSummary
        from noisegate.models.synthesizer import Synthesizer

        model, verdict = (
            self.model(release, fitting),
            verdict_of_fit(self, release, fitting),
        )
        warning = getattr(fitting, "warning", None)
        notes = {"warning": warning} if warning else {}
        ended = {
            "step": fitting.step,
            "steps": fitting.steps,
            "discrepancy": fitting.discrepancy,
        }
        summary = FitSummary(**ended, notes=notes, verdict=verdict)
        made = Synthesizer(release=release, model=model, summary=summary)
        if release.schema.constraints:
            return made.with_verdict_of_rules()
        return made

    def forecast(
        self, schema: Schema, budget: Budget, records: float
    ) -> Forecast | None:
        """Returns how far records are expected to be from so many real ones; None where nobody knows."""
        return None

    def forecast_of(
        self, release: Release, fitting: Any, records: float
    ) -> Forecast | None:
        """Returns the same of what has left the gate; None where nobody knows."""
        return None

    def judged(self, fitting: Any) -> Iterable[Verdict]:
        """Returns verdicts on what a fit keeps of its release and cannot know; none where nobody looks."""
        return ()

    def is_far(self, fitting: Any) -> bool:
        """Returns whether a fit ended too far from its release to be relied on."""
        from noisegate.models.tables.mixture_fit import FAR

        return bool(fitting.discrepancy > FAR)

    def measurements(self, release: Release) -> Measurements:
        """Returns all that a release of this method states of its table of records.

        Here it is the counts of the classes, and nothing where there are none.

        Args:
            release: A release of this method, of one table.
        """
        layout = release.schema.layout
        domain = domain_of(layout, ())
        tables: tuple[NoisyTable, ...] = ()
        counts = release.values.get("counts")
        if (
            counts is not None
            and layout.label is not None
            and counts.size == layout.classes
        ):
            label_domain = domain.project([layout.coded[layout.label].name])
            noise_std = release.noise_std["counts"]
            tables = (NoisyTable.of(label_domain, counts.ravel(), noise_std=noise_std),)
        return Measurements(
            domain, tables, known_total=public_total(release.certificate)
        )

    def held_out_measurements(self, release: Release) -> Measurements:
        """Returns the noisy tables that the fit never saw; none where none were bought.

        Args:
            release: A release of this method, of one table.
        """
        return Measurements(domain_of(release.schema.layout, ()), ())

    def verdict(
        self, schema: Schema, budget: Budget, records: int | None = None
    ) -> Verdict | None:
        """Returns in words what to expect, before anything is spent; None where the method has no forecast.

        `records` is their number, as far as the public knows; None for how many each word takes.

        Examples:
            >>> from noisegate import Budget, Pairwise, Schema
            >>> from noisegate.schema import Boolean
            >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")])
            >>> Pairwise().verdict(schema, Budget(epsilon=1.0), records=100_000).word
            'good'
        """
        return verdict_of_plan(self, schema, budget, records)

    def planned(
        self,
        schema: Schema,
        budget: Budget,
        records: int | None = None,
        *,
        reason: bool = False,
    ) -> Planned:
        """Returns what is known of a run before it, with the `reason` of the choice where nobody made it."""
        return Planned(
            method=self,
            plan=self.plan(schema, budget),
            records=records,
            reason=self.why(schema, budget.epsilon) if reason else None,
            verdict=self.verdict(schema, budget, records),
            error_bounds=self.error_bounds(schema, budget, records) if records else (),
        )

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what is taken as public, for the certificate: the settings, and the version of the rules."""
        return {
            "settings": self.to_json(),
            **({} if self.rules_version is None else {"design": self.rules_version}),
        }

    def why(self, schema: Schema, epsilon: float) -> str | None:
        """Returns in one sentence what the method does with such records, and why; "auto" says it."""
        return None

    def error_bounds(
        self, schema: Schema, budget: Budget, records: int
    ) -> tuple[Any, ...]:
        """Returns, before any data is read, how far queries are from the kernels that they stand for.

        One bound for each query whose dimension is a trade-off, or what the noise on all of them costs, with its `text`
        and `to_json`; `records` is their number as far as the public knows.
        """
        return ()

    def check_gate(self, gate: Gate) -> None:
        """Finds what would stop the query at a gate, before anything is spent; an OptionError if it is no gate."""
        if not hasattr(gate, "budget"):
            cure = "give noisegate.Gate(data, schema=schema, epsilon=1.0); or fit(data, schema=schema, epsilon=1.0)."
            raise OptionError(
                f"gate={type(gate).__name__}: a method asks through a gate; {cure}"
            )

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent.

        Raises:
            UserError: if the device is not here, a fit option is unusable or an optional dependency is missing.
        """
        from noisegate.devices import check_device, choose_device

        what = f"the fit of {self.name}"
        if self.needs_torch:
            choose_device(device, what)
        else:
            check_device(device, what)
        self.fit_settings()

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of a release, ready to run, to save and to restore; here, one that is done.

        The `device` is "auto", "cpu", "cuda" or "mps"; the `plan` that of the release, which holds the feature maps,
        None to make them anew.
        """
        return FinishedFit()

    def fit_release(
        self,
        release: Release,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        plan: Any = None,
    ) -> Synthesizer:
        """Returns a synthesizer fitted to a release; post-processing, which costs no privacy.

        A `noisegate.errors.FitWarning` says where it ended far from the release.
        """
        fitting = self.fitting(release, device=device, plan=plan)
        fitting.run(report)
        made = self.synthesizer(release, fitting)
        if "warning" in made.summary.notes:
            with suppress(
                FitWarning
            ):  # where warnings are errors, nothing is lost for it
                warnings.warn(made.summary.notes["warning"], FitWarning, stacklevel=2)
        return made

    def fit(
        self,
        data: Gate | Any,
        *,
        device: str = "auto",
        report: Callable[[FitState], None] | None = None,
        convert: Callable[[Any], Any] | None = None,
        **run: Any,
    ) -> Synthesizer:
        """Returns a synthesizer for private records; of a method that trains a classifier, this.

        Args:
            data: A gate, which has a budget; or records, with `run`.
            device: "auto", "cpu", "cuda" or "mps"; methods that compute on the CPU alone only check it.
            report: With a gate, called after every step.
            convert: With a gate, applied to the Arrow tables that `Synthesizer.sample` returns.
            run: Beside records, what `noisegate.fit` takes: ``schema``, ``epsilon``, ``ledger``, ``dataset``, ``out``.

        Raises:
            UserError: if anything given is unusable; nothing is spent.
            BudgetRefusedError: if the ledger refuses.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate import Pairwise, Schema
            >>> from noisegate.schema import Boolean
            >>> table = pa.table({"ill": [True, False] * 100})
            >>> Pairwise().fit(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0).sample(3).shape
            (3, 1)
        """
        if not run:
            self.check_gate(data)
            return self._fit_gate(data, device=device, report=report, convert=convert)
        if hasattr(data, "budget"):
            raise OptionError(
                f"{next(iter(run))}: a gate knows what it spends on; give this to the gate, or records."
            )
        if report is not None or convert is not None:
            raise OptionError(
                "report, convert: these are for a gate; with records use progress=True or observer=."
            )
        import noisegate

        return cast(
            "Synthesizer", noisegate.fit(data, method=self, device=device, **run)
        )

    def _fit_gate(
        self, gate: Gate, *, device: str, report: Any, convert: Any
    ) -> Synthesizer:
        self.check_fit(device)
        plan = self.plan(gate.schema, gate.budget)
        release = self.query(gate, plan)
        return replace(
            self.fit_release(release, device=device, report=report, plan=plan),
            convert=convert,
        )
