"""What the metrics have in common: how they are found, the form of a result, the sentence with every figure, checks.

A metric is one file: a result type under a name. Ours are the modules of this package; an installed package names its
own among its entry points, and reports, JSON and pages have it:

    [project.entry-points."noisegate.metrics"]
    example = "their_package.module:ExampleDistance"
"""

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.registry import extensions

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
        return {title: text for title, text in texts.items() if text}


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


_METRICS: dict[str, type[MetricResult]] = {}
_Result = TypeVar("_Result", bound=MetricResult)


def metric(
    name: str, kind: Kind = "features"
) -> Callable[[type[_Result]], type[_Result]]:
    """Returns a decorator that adds a result type to the metrics that are measured on ``kind``."""

    def add(result: type[_Result]) -> type[_Result]:
        other = _METRICS.get(name, result)
        if (other.__module__, other.__qualname__) != (
            result.__module__,
            result.__qualname__,
        ):
            taken = f"{other.__module__}.{other.__qualname__}"
            raise OptionError(
                f"metric={name!r} is {taken} already; choose another name."
            )
        result.METRIC, result.KIND = name, kind
        _METRICS[name] = result
        return result

    return add


def metrics_of(*kinds: Kind) -> list[type[MetricResult]]:
    """Returns the metrics of some kinds, of one kind after the other, each by name: ours, and of installed packages."""
    package = import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    for point in extensions("noisegate.metrics").values():
        try:
            point.load()
        except (ImportError, AttributeError) as error:
            raise OptionError(
                f"metric={point.name!r} of an installed package cannot be loaded: {error}."
            ) from None
    return sorted(
        (each for each in _METRICS.values() if each.KIND in kinds),
        key=lambda each: (kinds.index(each.KIND), each.METRIC),
    )


def check_features(*several: np.ndarray, least: int) -> None:
    """Checks that sets of features, (images, features), are finite and alike, with ``least`` images or more each."""
    for features in several:
        if features.ndim != 2 or features.shape[1] == 0:
            raise DataError(
                f"features have the shape {features.shape}; expected (images, features)"
            )
        if features.shape[1] != several[0].shape[1]:
            cure = "compare features of the same network"
            raise DataError(
                f"one set has {several[0].shape[1]} features, another {features.shape[1]}; {cure}"
            )
        if len(features) < least:
            raise DataError(
                f"a set has {len(features)} image(s); this figure needs at least {least} in each"
            )
        if not np.isfinite(features).all():
            raise DataError(
                "features hold nan or infinity; the network that made them is broken"
            )
