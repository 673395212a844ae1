"""Validated settings.

Settings are a frozen, keyword-only dataclass. Each field has its bounds, its default and its docstring.

    @register("dp-example")  # of noisegate.methods.registry; outside it, @settings alone
    @settings
    class DPExample(Method):
        frequencies: Count = 1000
        'Random frequencies; two features each.'
        hidden: Widths = derived(lambda given: () if given["frequencies"] < 100 else (256,))
        'Widths of the layers; the default depends on another setting.'
        fit_options: Options = field(default_factory=dict)
        'Changes to `FitSettings`.'

Values are checked when the object is created. A wrong value is an `OptionError` with the description of its type:
"frequencies=0 must be a positive whole number." A whole number is a number, but True is not, and text is never read as
a number; a list is read as a tuple. A check of several fields goes into `__post_init__`. Types of fields are imported
at run time. A type of your own describes what it expects: ``Annotated[int, Within(ge=2), "a whole number, 2 or
more"]``. A function in the annotation converts a given value to the type before the check.

A setting that gets another name is listed in ``renamed``, old to new. Certificates and folders keep the old name.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from inspect import getsource, signature
from pathlib import Path
from textwrap import dedent
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    SupportsFloat,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from noisegate.errors import ModelError, OptionError
from noisegate.seeds import MOST_SEED


class Within:
    """Bounds of a value: ge, gt, le and lt, which NaN never satisfies, and a further check."""

    def __init__(
        self, *, check: Callable[[Any], object] = lambda value: True, **bounds: float
    ) -> None:
        self.bounds, self._check = bounds, check

    def holds(self, value: Any) -> bool:
        """Returns whether a value is within the bounds and passes the check."""
        within = all(
            getattr(operator, how)(value, bound) for how, bound in self.bounds.items()
        )
        return within and bool(self._check(value))


Count = Annotated[int, Within(ge=1, lt=2**62), "a positive whole number"]
Whole = Annotated[int, Within(ge=0, lt=2**62), "a whole number, 0 or more"]
Steps = Annotated[int, Within(ge=1, lt=2**62), "a whole number, 1 or more"]
LearningRate = Annotated[float, Within(ge=0, le=10), "a number from 0 to 10"]
TwoOrMore = Annotated[int, Within(ge=2, lt=2**62), "a whole number, 2 or more"]
Number = Annotated[float, Within(check=math.isfinite), "a number"]
Positive = Annotated[float, Within(gt=0, le=1e6), "a number above 0, at most 1e6"]
Relative = Annotated[
    float, Within(gt=0, lt=math.inf), "a positive number, relative to the other shares"
]
NoneOrMore = Annotated[
    float,
    Within(ge=0, lt=math.inf),
    "a number, 0 or more, relative to the other shares",
]
Share = Annotated[float, Within(gt=0, le=1000), "a positive number, at most 1000"]
"""Part of the budget, relative to the other shares of a plan."""
Fraction = Annotated[float, Within(gt=0, le=1), "a number above 0, at most 1"]
"""A probability, or a factor that does not enlarge."""
Unit = Annotated[float, Within(ge=0, le=1), "a number from 0 to 1"]
Seed = Annotated[
    int, Within(ge=0, le=MOST_SEED), f"a whole number, 0 or more, at most {MOST_SEED:,}"
]
"""Seed for non-private randomness; never of the private noise."""
Widths = Annotated[tuple[Count, ...], "positive whole numbers, as in (32, 64)"]
Names = Annotated[tuple[str, ...], "a list of names"]
ImageSize = Annotated[
    tuple[Count, Count, Count],
    "(height, width, channels) of the images, as in (28, 28, 1)",
]
LabelShares = Annotated[
    tuple[Fraction, ...],
    Within(check=lambda shares: abs(sum(shares) - 1) <= 1e-6),
    "numbers above 0 whose sum is 1, one for each level",
]
Options = Annotated[Mapping[str, Any], "names with values"]
"""Changes to the settings of a fit."""

_DERIVED = "derived from other settings"
_MAY_BE_IN_MEMORY = "a path, or a table in memory"
_PLAIN: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
}
_PLAIN |= {NoneType: "None", Any: "a value"}
_GIVEN: dict[Any, Any] = {
    int: (int, int),
    float: (SupportsFloat, float),
    bool: (bool, bool),
}
_GIVEN |= {str: (str, str.__str__), Any: (object, lambda same: same)}
_UNUSABLE = (TypeError, ValueError, LookupError, ArithmeticError, StopIteration)
_C = TypeVar("_C", bound=type)


def derived(default: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Returns a field whose default depends on the other settings.

    The default is used if the field is not given, or None. Its function receives the other settings by name: as given,
    or their plain defaults. They are not checked yet.

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


def path_or_table() -> Any:
    """Returns a field for a path or a table in memory, None by default.

    Two settings that differ in it alone are equal, as it is no setting of the model.
    """
    return dataclasses.field(
        default=None, compare=False, metadata={_MAY_BE_IN_MEMORY: True}
    )


def by_preset(default: Any, /, **others: Any) -> Any:
    """Returns a field whose default depends on the setting `preset`: one of `others`, by its name, or `default`.

    A preset "paper-grey" is written `paper_grey`. An unknown preset is refused by the check of `preset`.

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
    return derived(
        lambda given: others.get(str(given["preset"]).replace("-", "_"), default)
    )


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(dataclasses.field, derived, path_or_table),
)
def settings(cls: _C) -> _C:
    """Makes a subclass of `Settings` a frozen, keyword-only dataclass whose fields are checked on creation.

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
    built: Any = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    filled, fields = built.__init__, dataclasses.fields(built)
    plain = {
        field.name: field.default
        for field in fields
        if field.default is not dataclasses.MISSING
    }
    rules = {
        field.name: field.metadata[_DERIVED]
        for field in fields
        if _DERIVED in field.metadata
    }
    known, hints = (
        dict(signature(built).parameters),
        get_type_hints(built, include_extras=True),
    )

    @wraps(filled)
    def __init__(self: Any, **given: Any) -> None:  # noqa: N807
        asked = frozenset(given)
        for name, default in rules.items():
            if given.get(name) is None:
                try:
                    given[name] = default({**plain, **given})
                except _UNUSABLE:  # of a wrong value, which the check names
                    given[name] = None
        # What was given comes first: what follows from it may be wrong because it is.
        for name in sorted(
            {**known, **given}, key=lambda name: (name not in asked, name not in known)
        ):
            if name not in known:
                it = f"{built.name or built.__name__} has no such setting; it has {', '.join(built.setting_names())}."
                raise OptionError(f"{name}={given[name]!r}: {it}")
            if name in given:
                try:
                    given[name] = _read(hints[name], given[name])
                except _UNUSABLE:
                    raise OptionError(
                        _problem(name, hints[name], given[name])
                    ) from None
            elif known[name].default is known[name].empty:
                raise OptionError(f"{name} is missing; it {_expected(hints[name])}.")
        filled(self, **given)

    built.__init__ = __init__
    bases = (vars(base).get("renamed", {}) for base in reversed(built.__mro__))
    built.renamed = {old: today for renamed in bases for old, today in renamed.items()}
    return built  # type: ignore[no-any-return]


class HasSettings(Protocol):
    """What `Settings` gives to a class, for those that rely on it without being one.

    A base without fields, such as that of all methods, states by this what its concrete
    classes have: they are classes of settings too.
    """

    name: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Returns the names of all settings."""

    @classmethod
    @abstractmethod
    def describe(cls) -> list[dict[str, Any]]:
        """Returns the name, default, expected value and meaning of each setting."""

    @classmethod
    @abstractmethod
    def stored_name(cls, name: str) -> str:
        """Returns the name by which JSON has a setting."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object."""


class ReadsEarlierSettings(ABC):
    """The ability to read settings that an earlier version stored with other fields."""

    @classmethod
    @abstractmethod
    def upgraded(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Returns stored settings as this version has them, with what they meant then.

        Args:
            stored: Settings by name, as any version of the class stored them.
        """


class Settings:
    """Base class of all classes of settings.

    A group of settings that several classes share is a class with fields only. It has the decorator `settings`, but not
    this base; the classes that use the group have it.

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
    """Name in certificates and on the command line. A registry sets it."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former names of settings, mapped to their present names. Those of base classes are added."""
    stored_if_given: ClassVar[frozenset[str]] = frozenset()
    """Settings that JSON leaves out if they are None, because earlier versions did not have them."""

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Returns the names of all settings."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)  # type: ignore[arg-type]

    @classmethod
    def describe(cls) -> list[dict[str, Any]]:
        """Describes each setting: name, default (None if it may depend on other settings), expected value and meaning.

        Examples:
            >>> from noisegate import Pairwise
            >>> next(one for one in Pairwise.describe() if one["name"] == "most_pairs")["meaning"]
            'Largest number of chosen pairs.'
        """
        told: dict[str, str] = {}
        for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
            names: list[str] = []  # one docstring may stand below several fields
            for node in cast(
                "ast.ClassDef", ast.parse(dedent(getsource(base))).body[0]
            ).body:
                if isinstance(node, ast.AnnAssign):
                    names.append(ast.unparse(node.target))
                elif isinstance(node, ast.Expr) and names:
                    text = " ".join(ast.literal_eval(node.value).split())
                    told |= {
                        name: text
                        for name in names
                        if name == names[-1] or name not in told
                    }
                    names = []
        plain = cls.__dataclass_fields__  # type: ignore[attr-defined]
        hints = get_type_hints(cls, include_extras=True)
        return [
            {
                "name": name,
                "default": None
                if plain[name].default is dataclasses.MISSING
                else plain[name].default,
                "expected": _text(hints[name]),
                "meaning": told.get(name, ""),
            }
            for name in cls.setting_names()
        ]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object, each under its `stored_name`.

        A table in memory, which a `path_or_table` may be, is written as None.
        """
        values = {name: getattr(self, name) for name in self.setting_names()}
        for name in _in_memory_settings(type(self)):
            if not isinstance(values[name], str):
                values[name] = None
        stored = {
            self.stored_name(name): value
            for name, value in values.items()
            if value is not None or name not in self.stored_if_given
        }
        text = json.dumps(
            stored,
            default=lambda one: (
                str(one) if isinstance(one, Path) else dataclasses.asdict(one)
            ),
        )
        return dict(json.loads(text))

    @classmethod
    def stored_name(cls, name: str) -> str:
        """Returns the first name that a setting had. Every version reads it, and interrupted runs use it."""
        return next(
            (first for first, today in cls.renamed.items() if today == name), name
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Creates the settings from a JSON object; raises a `ModelError` if a setting is unknown or unusable."""
        any_class: type = cls
        if issubclass(any_class, ReadsEarlierSettings):
            data = any_class.upgraded(data)
        try:
            return cls(
                **{cls.renamed.get(name, name): value for name, value in data.items()}
            )
        except (TypeError, OptionError) as error:
            raise ModelError(
                f"the settings of {cls.name} in the certificate are broken: {error}"
            ) from None


def _in_memory_settings(cls: Any) -> list[str]:
    """Returns the settings of a class that may hold a table in memory."""
    return [
        field.name
        for field in dataclasses.fields(cls)
        if _MAY_BE_IN_MEMORY in field.metadata
    ]


def _read(hint: Any, value: Any) -> Any:
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        for made in filter(callable, parts[1:]):
            value = made(value)
        value, others = (
            _read(parts[0], value),
            [one for one in parts[1:] if not isinstance(one, str)],
        )
        if all(
            [one.holds(value) for one in others if not callable(one)]
        ):  # else it has no `holds`: a mistake
            return value
    if kind is Literal:
        hash(value)  # an array is equal to a choice in its own way
        return next(
            one
            for one in parts
            if one == value and isinstance(one, bool) is isinstance(value, bool)
        )
    if kind in (Union, UnionType):
        for part in parts:
            with suppress(*_UNUSABLE):
                return _read(part, value)
    if kind in (tuple, list) and not isinstance(
        value, str | bytes | bytearray | Mapping
    ):
        items = list(value)
        types = parts[:1] * len(items) if kind is list or ... in parts else parts
        return kind(
            [_read(part, item) for part, item in zip(types, items, strict=True)]
        )
    if kind in (Mapping, dict) and isinstance(value, Mapping):
        return {
            _read(parts[0], key): _read(parts[1], one) for key, one in value.items()
        }
    given, made = _GIVEN.get(hint, (kind or hint, lambda same: same))
    if not isinstance(value, given) or (
        hint in (int, float) and isinstance(value, bool | str)
    ):
        raise ValueError
    return made(value)


def _problem(name: str, hint: Any, value: Any) -> str:
    if get_origin(hint) is Mapping and isinstance(value, Mapping):
        of = get_args(hint)[1]
        for key, one in value.items():
            try:
                _read(of, one)
            except _UNUSABLE:
                return f"{name}[{key!r}]={one!r} {_expected(of)}."
    return f"{name}={value!r} {_expected(hint)}."


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
    return (
        ", or ".join(map(_text, parts))
        if parts
        else _PLAIN.get(hint, f"a {getattr(hint, '__name__', hint)}")
    )
