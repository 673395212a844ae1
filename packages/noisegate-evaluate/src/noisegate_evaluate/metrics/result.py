"""What the metrics have in common: how they are found, the form of a result, the sentence with every figure, checks.

A metric is one file: a result type under a name. Ours are the modules of this package; an installed package names its
own among its entry points, and reports, JSON and pages have it:

    [project.entry-points."noisegate.metrics"]
    example = "their_package.module:ExampleDistance"
"""

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from noisegate.answers.findings import VerdictFinding, merge_findings
from noisegate.answers.verdict import Verdict, Word
from noisegate.errors import DataError
from noisegate.registry import Registry

CAVEAT = (
    "These figures were computed on real data and are NOT covered by the differential privacy guarantee; "
    "publishing them reveals something about the real records."
)

Kind = Literal["features", "pixels", "tables"]


@dataclass(frozen=True, kw_only=True)
class MetricResult(ABC):
    """The figures of one metric between synthetic and real records."""

    METRIC: ClassVar[str]
    """How it is called; reports put the features behind it, as in ``kid(inception-v3)``."""
    KIND: ClassVar[Kind]
    """What it is measured on: features of images, which the caller chooses; their pixels; or tables."""
    PRINTED: ClassVar[Mapping[str, str]]
    """What is printed by what it is called: formats, of the ``name`` of the metric, and of the result as ``it``. A line
    without text is left out."""
    JSON: ClassVar[Mapping[str, str] | str | None] = None
    """The figures in JSON: attributes by what they are called there, or one attribute alone; None for all fields."""
    LISTED: ClassVar[str | None] = None
    """The attribute with lines that are printed below these, by what they are called, where their number varies."""
    NAMES_FIGURES: ClassVar[bool] = False
    """Whether its figures have names of their own, to which the report adds those of the features."""

    @classmethod
    @abstractmethod
    def measured(
        cls, synthetic: Any, real: Any, *, seed: int, **more: Any
    ) -> Self | None:
        """Returns the figures; None where there are too few records for them.

        Both sets are features or intensities, (rows, dim), or tables, of which ``more`` has the ``schema``; ``seed`` is
        of what is drawn, and public.
        """

    @classmethod
    def named(cls, features: str) -> str:
        """Returns the name with its features: figures in two kinds of features have nothing to do with each other."""
        return cls.METRIC if cls.NAMES_FIGURES else f"{cls.METRIC}({features})"

    def to_json(self) -> object:
        """Returns the figures as JSON values."""
        if self.JSON is None:
            return asdict(self)
        if isinstance(self.JSON, str):
            return getattr(self, self.JSON)
        return {name: getattr(self, figure) for name, figure in self.JSON.items()}

    def page(self, name: str) -> dict[str, str]:
        """Returns the figures as they are printed, by what each is called; ``name`` is that of the metric."""
        texts = {
            title.format(name=name): text.format(it=self)
            for title, text in self.PRINTED.items()
        }
        if self.LISTED is not None:
            texts |= getattr(self, self.LISTED)
        return {title: text for title, text in texts.items() if text}


def printed(results: Mapping[str, MetricResult | None]) -> dict[str, str]:
    """Returns the figures of several metrics as they are printed, by what each is called."""
    texts: dict[str, str] = {}
    for name, result in results.items():
        if result:
            texts |= result.page(name)
    return texts


def as_json(value: Any) -> Any:
    """Returns a result, or several by name, as JSON values; what has no such form, None among it, as it is."""
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    return value.to_json() if hasattr(value, "to_json") else value


def numbers_in(value: Any, *path: str) -> Iterator[tuple[str, float]]:
    """Yields the numbers among JSON values, each by the names on the way to it; a list may begin with its own."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from numbers_in(one, *path, name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        named = path + tuple(one for one in value[:1] if isinstance(one, str))
        for place, one in enumerate(value[len(named) - len(path) :], 1):
            yield from numbers_in(
                one, *named, *([] if isinstance(one, Sequence) else [str(place)])
            )
    elif isinstance(value, int | float):
        yield ".".join(path) or "value", float(value)


METRICS: Registry[MetricResult] = Registry("noisegate.metrics", "metric", "METRIC")
"""All metrics by name, those of installed packages among them."""
_Result = TypeVar("_Result", bound=MetricResult)


def metric(
    name: str, kind: Kind = "features"
) -> Callable[[type[_Result]], type[_Result]]:
    """Returns a decorator that adds a result type to the metrics that are measured on ``kind``."""

    def add(result: type[_Result]) -> type[_Result]:
        result.KIND = kind
        return METRICS.register(name)(result)

    return add


def metrics_of(*kinds: Kind) -> list[type[MetricResult]]:
    """Returns the metrics of some kinds, of one kind after the other, each by name: ours, and of installed packages.

    Raises:
        OptionError: if a metric of an installed package cannot be loaded.
    """
    package = import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    metrics = list(METRICS.values())
    return [metric for kind in kinds for metric in metrics if kind == metric.KIND]


def verdict_of(
    word: Word | None,
    reason: str,
    cure: str,
    findings: Iterable[VerdictFinding] = (),
    **figures: Any,
) -> Verdict:
    """Returns a verdict of an evaluation.

    Args:
        word: The word; None where no word rests on the figures.
        reason: Why, in words; empty for findings alone.
        cure: What would help; of no use to what is good.
        findings: What the figures answer.
        figures: The figures, by name.
    """
    return Verdict(
        word=word,
        source="evaluate",
        reasons=(reason,) if reason else (),
        cures=() if word in ("good", None) else (cure,),
        figures=figures,
        findings=merge_findings(findings),
    )


def check_features(*several: np.ndarray, least: int) -> None:
    """Checks that sets of features, (images, features), are finite and alike, with ``least`` images or more each."""
    for features in several:
        if features.ndim != 2 or features.shape[1] == 0:
            raise DataError(
                f"features have the shape {features.shape}; expected (images, features)"
            )
        if features.shape[1] != several[0].shape[1]:
            raise DataError(
                f"one set has {several[0].shape[1]} features, another "
                f"{features.shape[1]}; compare features of the same network"
            )
        if len(features) < least:
            raise DataError(
                f"a set has {len(features)} image(s); this figure needs at least {least} in each"
            )
        if not np.isfinite(features).all():
            raise DataError(
                "features hold nan or infinity; the network that made them is broken"
            )
