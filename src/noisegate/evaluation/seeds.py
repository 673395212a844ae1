"""The evaluation of the papers over several seeds: mean and standard deviation of each figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noisegate.errors import OptionError
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.protocol import TwelveReport
from noisegate.evaluation.scores import Scores


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """Reports of several seeds, or of several synthetic data sets, taken together.

    Attributes:
        reports: at least one, all of the same list of classifiers.
    """

    reports: tuple[TwelveReport, ...]

    def __post_init__(self) -> None:
        if not self.reports:
            raise OptionError("a summary over seeds has no report; expected at least one")
        if any(report.protocol != self.reports[0].protocol for report in self.reports):
            raise OptionError("the reports are of different lists of classifiers; summarise reports of one list only")

    @property
    def mean(self) -> Scores:
        """The mean over the seeds of the mean over the classifiers."""
        return Scores.mean([report.mean for report in self.reports])

    @property
    def deviation(self) -> Scores | None:
        """The standard deviation over the seeds of the mean over the classifiers; None for one seed."""
        return _deviation([report.mean for report in self.reports])

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values: mean and standard deviation, overall and per classifier."""
        names = self.reports[0].models
        return {
            "caveat": CAVEAT,
            "classifiers": self.reports[0].protocol.to_json(),
            "seeds": [report.seed for report in self.reports],
            **_both(self.mean, self.deviation),
            "models": {name: self._model(name) for name in names},
            "notes": [f"seed {report.seed}: {note}" for report in self.reports for note in report.notes],
        }

    def _model(self, name: str) -> dict[str, object]:
        several = [report.models[name] for report in self.reports]
        return _both(Scores.mean(several), _deviation(several))


def over_seeds(score: Callable[[int], TwelveReport], seeds: Sequence[int]) -> SeedSummary:
    """Score once per seed.

    Args:
        score: gives the report of a seed: it may draw another synthetic data set for each, as the papers do, or only
            pass the seed on to :func:`~noisegate.evaluation.protocol.twelve_scores`.
        seeds: at least one.

    Returns:
        The reports, with mean and standard deviation.

    Raises:
        OptionError: there is no seed.
    """
    return SeedSummary(reports=tuple(score(seed) for seed in seeds))


def _deviation(several: Sequence[Scores]) -> Scores | None:
    return Scores.deviation(several) if len(several) > 1 else None


def _both(mean: Scores, deviation: Scores | None) -> dict[str, object]:
    return {"mean": mean.to_json(), "standard_deviation": deviation.to_json() if deviation else None}
