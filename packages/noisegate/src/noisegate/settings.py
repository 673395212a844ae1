"""Validated settings.

Settings are a frozen, keyword-only dataclass: each field has its bounds, its default and its docstring beside it.

    @register("dp-example")  # of noisegate.methods.registry; outside it, @settings alone
    @settings
    class DPExample(Method):
        frequencies: Count = 1000
        'Random frequencies; two features each.'
        hidden: Widths = derived(lambda given: () if given["frequencies"] < 100 else (256,))
        'Widths of the layers; the default depends on another setting.'
        fit_options: Options = field(default_factory=dict)
        'Changes to `FitSettings`.'

What is given is checked when the object is made, and a wrong value is an `OptionError` in the words of its type:
"frequencies=0 must be a positive whole number." A whole number is a number, but True is none, and text is never read as
one; a list is read as a tuple. A check across fields goes into `__post_init__`. Types of fields are imported at run
time. A type of your own says what it expects: ``Annotated[int, Field(ge=2), "a whole number, 2 or more"]``.

A setting that gets another name is listed in ``renamed``, old to new: certificates and folders keep the old one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails, to_jsonable_python

from noisegate.errors import ModelError, OptionError
from noisegate.seeds import MOST_SEED

Count = Annotated[int, Field(ge=1, lt=2**62), "a positive whole number"]
Whole = Annotated[int, Field(ge=0, lt=2**62), "a whole number, 0 or more"]
Steps = Annotated[int, Field(ge=1, lt=2**62), "a whole number, 1 or more"]
LearningRate = Annotated[float, Field(ge=0, le=10), "a number from 0 to 10"]
TwoOrMore = Annotated[int, Field(ge=2, lt=2**62), "a whole number, 2 or more"]
Number = Annotated[float, Field(allow_inf_nan=False), "a number"]
Positive = Annotated[float, Field(gt=0, le=1e6), "a number above 0, at most 1e6"]
Relative = Annotated[float, Field(gt=0, allow_inf_nan=False), "a positive number, relative to the other shares"]
NoneOrMore = Annotated[float, Field(ge=0, allow_inf_nan=False), "a number, 0 or more, relative to the other shares"]
Share = Annotated[float, Field(gt=0, le=1000), "a positive number, at most 1000"]
"""Part of the budget, relative to the other shares of a plan."""
Fraction = Annotated[float, Field(gt=0, le=1), "a number above 0, at most 1"]
"""A probability, or a factor that does not enlarge."""
Unit = Annotated[float, Field(ge=0, le=1), "a number from 0 to 1"]
Seed = Annotated[int, Field(ge=0, le=MOST_SEED), f"a whole number, 0 or more, at most {MOST_SEED:,}"]
"""Of public randomness; never of the private noise."""
NoBool = BeforeValidator(lambda value: None if isinstance(value, bool) else value)
"""For a Literal of numbers, one of which True would be."""
Widths = Annotated[tuple[Count, ...], Field(strict=False), "positive whole numbers, as in (32, 64)"]
Names = Annotated[tuple[str, ...], Field(strict=False), "a list of names"]
ImageSize = Annotated[
    tuple[Count, Count, Count], Field(strict=False), "(height, width, channels) of the images, as in (28, 28, 1)"
]


def _whole(shares: tuple[float, ...]) -> tuple[float, ...]:
    if abs(sum(shares) - 1) > 1e-6:
        raise ValueError
    return shares


LabelShares = Annotated[
    tuple[Fraction, ...],
    Field(strict=False),
    AfterValidator(_whole),
    "numbers above 0 whose sum is 1, one for each level",
]
Options = Annotated[Mapping[str, Any], "names with values"]
"""Changes to the settings of a fit."""

_CONFIG = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
_DERIVED = "derived from other settings"
_PLAIN: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
_PLAIN |= {NoneType: "None", Any: "a value"}
_C = TypeVar("_C", bound=type)


def derived(default: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Returns a field whose default, where it is not given or None, follows from the other settings.

    They come by name, as given or by their plain defaults, and not checked yet.

    Examples:
        >>> from noisegate.settings import Count, Settings, derived, settings
        >>> @settings
        ... class Fit(Settings):
        ...     steps: Count = 100
        ...     warm_up: Count = derived(lambda given: given["steps"] // 10)
        >>> Fit(steps=50).warm_up, Fit(steps=50, warm_up=1).warm_up
        (5, 1)
    """
    return dataclasses.field(default=None, metadata={_DERIVED: default})


def by_preset(default: Any, /, **others: Any) -> Any:
    """Returns a field whose default is that of the setting `preset`: one of `others` by its name, or `default`.

    A preset "paper-grey" is written `paper_grey`. An unknown one is left to the check of `preset`.

    Examples:
        >>> from typing import Literal
        >>> from noisegate.settings import Count, Settings, by_preset, settings
        >>> @settings
        ... class Fit(Settings):
        ...     preset: Literal["quick", "paper"] = "quick"
        ...     steps: Count = by_preset(100, paper=5000)
        >>> Fit().steps, Fit(preset="paper").steps, Fit(preset="paper", steps=7).steps
        (100, 5000, 7)
    """
    return derived(lambda given: others.get(str(given["preset"]).replace("-", "_"), default))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field, derived))
def settings(cls: _C) -> _C:
    """Makes a subclass of `Settings` a frozen, keyword-only dataclass whose fields are checked when it is made.

    Examples:
        >>> from noisegate.errors import OptionError
        >>> from noisegate.settings import Count, Settings, settings
        >>> @settings
        ... class Fit(Settings):
        ...     steps: Count = 100
        >>> try:
        ...     Fit(steps=0)
        ... except OptionError as error:
        ...     print(error)
        steps=0 must be a positive whole number.
    """
    built: Any = dataclass(frozen=True, kw_only=True, config=_CONFIG)(cls)
    checked, fields = built.__init__, dataclasses.fields(built)
    plain = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    rules = {field.name: field.metadata[_DERIVED] for field in fields if _DERIVED in field.metadata}

    def __init__(self: Any, **given: Any) -> None:  # noqa: N807
        asked = frozenset(given)
        for name, default in rules.items():
            if given.get(name) is None:
                try:
                    given[name] = default({**plain, **given})
                except (TypeError, ValueError, LookupError):  # of a wrong value, which the check names
                    given[name] = None
        try:
            checked(self, **given)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise _problem(built, min(problems, key=lambda one: one["loc"][0] not in asked), given) from None

    built.__init__ = __init__
    bases = (vars(base).get("renamed", {}) for base in reversed(built.__mro__))
    built.renamed = {old: today for renamed in bases for old, today in renamed.items()}
    return built  # type: ignore[no-any-return]


class Settings:
    """Base of all classes of settings.

    Examples:
        >>> from noisegate.settings import Count, Settings, settings
        >>> @settings
        ... class Fit(Settings):
        ...     steps: Count = 100
        >>> Fit(steps=5).to_json()
        {'steps': 5}
        >>> Fit.from_json({"steps": 5}) == Fit(steps=5)
        True
    """

    name: ClassVar[str] = ""
    """What it is called in certificates and on the command line; a registry sets it."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Names that settings had, to those that they have; those of the bases are added."""

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Returns the names of all settings."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object, each under its `stored_name`."""
        return {self.stored_name(name): to_jsonable_python(getattr(self, name)) for name in self.setting_names()}

    @classmethod
    def stored_name(cls, name: str) -> str:
        """Returns the first name that a setting had: every version reads that, and interrupted runs go on with it."""
        return next((first for first, today in cls.renamed.items() if today == name), name)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object; a `ModelError` if one is not known or unusable."""
        try:
            return cls(**{cls.renamed.get(name, name): value for name, value in data.items()})
        except (TypeError, OptionError) as error:
            raise ModelError(f"the settings of {cls.name} in the certificate are broken: {error}") from None


def _problem(cls: Any, error: ErrorDetails, given: Mapping[str, Any]) -> OptionError:
    name = str(error["loc"][0])
    if error["type"] == "unexpected_keyword_argument":
        known = ", ".join(cls.setting_names())
        return OptionError(f"{name}={given[name]!r}: {cls.name or cls.__name__} has no such setting; it has {known}.")
    hint = get_type_hints(cls, include_extras=True)[name]
    if name not in given:
        return OptionError(f"{name} is missing; it {_expected(hint)}.")
    value, key = given[name], error["loc"][-1]
    if get_origin(hint) is Mapping and isinstance(value, Mapping) and key in value:
        return OptionError(f"{name}[{key!r}]={value[key]!r} {_expected(get_args(hint)[1])}.")
    return OptionError(f"{name}={value!r} {_expected(hint)}.")


def _expected(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"is not known; choose one of {', '.join(map(str, get_args(hint)))}"
    return f"must be {_text(hint)}"


def _text(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        texts = [part for part in hint.__metadata__ if isinstance(part, str)]
        return texts[-1] if texts else _text(hint.__origin__)
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return "a list"
    if get_origin(hint) is Mapping:
        return f"names, each with {_text(parts[1])}"
    return ", or ".join(map(_text, parts)) if parts else _PLAIN.get(hint, f"a {getattr(hint, '__name__', hint)}")
