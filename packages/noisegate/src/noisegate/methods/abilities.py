"""Abilities that only some methods have; each is an abstract class beside `Method`.

Code that needs an ability checks whether a method has it (`isinstance`). So a method
declares what it can do, and no base class returns a value that means "cannot".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from noisegate.errors import OptionError
from noisegate.methods.fitted import fitted_synthesizer
from noisegate.models.checkpoint import FinishedFit, Fit

if TYPE_CHECKING:
    from noisegate.answers.verdict import Verdict
    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.privacy.plan import Budget, Plan
    from noisegate.privacy.release import Release
    from noisegate.queries.feature_map import FeatureMap


class ChosenByAuto(ABC):
    """Ability of the methods that "auto" selects: they give reasons and a verdict.

    Examples:
        >>> from noisegate import Budget, Pairwise, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")])
        >>> Pairwise().verdict(schema, Budget(epsilon=1.0), records=100_000).word
        'good'
    """

    @abstractmethod
    def why(self, schema: Any, epsilon: float) -> str | None:
        """Returns a sentence on what the method does with such records, and why.

        Args:
            schema: Public schema of the records.
            epsilon: ε of the guarantee.
        """

    @abstractmethod
    def verdict(
        self, schema: Any, budget: Budget, records: int | None = None
    ) -> Verdict | None:
        """Returns the predicted verdict, before anything is spent.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee of the run.
            records: Number of records as publicly known; None to state how many records
                each verdict needs.

        Returns:
            The verdict; None if nothing is known about such records.
        """


class AsksInRounds(ABC):
    """Ability to release sums in rounds, each depending on earlier noisy results.

    Several silos run the same round without exchanging messages, and each period of a
    stream runs the same rounds as the first.
    """

    @abstractmethod
    def next_round(
        self,
        schema: Any,
        plan: Plan,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> Mapping[str, FeatureMap]:
        """Returns the queries of the next pass over the records.

        They depend on the arguments only.

        Args:
            schema: Public schema of the records.
            plan: The calibrated plan.
            values: Noisy results so far, by query.
            noise_std: Standard deviation of the noise of every query in the plan,
                released or not, in the units of the results.

        Returns:
            The feature map of each query; nothing once all queries are released.
        """

    @abstractmethod
    def decisions(
        self,
        schema: Any,
        plan: Plan,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> dict[str, Any]:
        """Returns the decisions of `next_round` for noisy results, as JSON values.

        A design with these values as `decided` has the same queries for other records.
        The arguments are those of `next_round`.
        """

    @abstractmethod
    def settled(self, schema: Any, epsilon: float) -> Self:
        """Returns the method with a fixed value for every setting that depends on ε.

        It then has the same queries at another ε.
        """


class _Named(Protocol):
    """Something with a name, as every method has one."""

    @property
    def name(self) -> str:
        """Name in certificates and on the command line."""


def in_rounds(method: _Named) -> AsksInRounds:
    """Returns a method as one that releases sums in rounds.

    Raises:
        OptionError: if it does not, as when records train something step by step.
    """
    if not isinstance(method, AsksInRounds):
        raise refusal_of_rounds(method)
    return method


def refusal_of_rounds(method: _Named) -> OptionError:
    """Returns the error that a method does not release sums in rounds."""
    return OptionError(
        f"method={method.name!r} does not ask in rounds of sums that several silos "
        "can share; take 'pairwise', or a method of mean embeddings such as "
        "'dp-merf' (for images 'joint')."
    )


class BoundsErrors(ABC):
    """Ability to bound the errors of queries as approximations of kernels."""

    @abstractmethod
    def error_bounds(
        self, schema: Any, budget: Budget, records: int
    ) -> tuple[Any, ...]:
        """Returns the bounds.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee of the run.
            records: Number of records as publicly known.

        Returns:
            A bound for each query whose dimension is a trade-off, or for the error due
            to the noise on all of them; each has `text` and `to_json`.
        """


class ChangesFitDefaults(ABC):
    """The ability to fit by other defaults than those of `Method.fit_class`."""

    @property
    @abstractmethod
    def fit_defaults(self) -> Mapping[str, Any]:
        """What is changed in the defaults, by setting; ``fit_options`` come on top."""


class UsesPublicFiles(ABC):
    """The ability to rest on public files, such as the weights of a network."""

    @abstractmethod
    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of each file in use, by the setting that states it.

        Raises:
            UserError: if a file does not exist, or does not fit the others.
        """


class ChecksPackages(ABC):
    """The ability to check optional packages that must fit each other."""

    @abstractmethod
    def check_packages(self) -> None:
        """Checks, before anything is spent, that the packages are installed and fit.

        Raises:
            MissingExtraError: if not, with the package to install.
        """


class StatesPublicFacts(ABC):
    """The ability to state more in certificates than the settings."""

    @abstractmethod
    def facts_beside_settings(self, schema: Any) -> dict[str, Any]:
        """Returns what is taken as public beside the settings, as JSON values.

        Args:
            schema: Public schema of the records.
        """


class UsesPublicRecords(StatesPublicFacts):
    """The ability to rest on records that are public, which the certificate states.

    A gate refuses them where they are its private ones, by what their files hold.
    """

    public: Any
    """The setting that has them: a path, a table in memory, or None."""

    @abstractmethod
    def check_public_records(self) -> None:
        """Checks, before anything is spent, that the public records are given.

        Raises:
            OptionError: if the method needs public records, and there are none.
        """


class TrainsAtGate(ABC):
    """The ability to train at a gate: every step of the training uses the records."""

    @abstractmethod
    def query(
        self,
        gate: Gate,
        plan: Plan | None = None,
        *,
        report: Callable[[int], None] | None = None,
        device: str = "cpu",
    ) -> Release:
        """Trains at the gate, and returns what was trained as a release.

        Args:
            gate: Private records and a budget.
            plan: The calibrated plan; None to make it.
            report: Called with the number of steps done after each of them.
            device: Where torch computes.
        """


class ClosedForm(ABC):
    """The ability to read a model off a release: nothing is left to be fitted.

    It stands before `Method` or its like among the bases of a method.
    """

    @abstractmethod
    def model(self, release: Release) -> RecordModel:
        """Returns the model of records that a release determines."""

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns a fit that is done; see `Method`."""
        return FinishedFit()

    def synthesizer(self, release: Release, fitting: Fit) -> Synthesizer:
        """Returns the synthesizer with the model of a release."""
        return fitted_synthesizer(release, fitting, self.model(release))
