"""What installed packages add: methods, models, verbs and pages, each by its entry point, ours as a stranger's."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from noisegate.errors import (
    PACKAGES,
    MissingExtraError,
    OptionError,
    choices,
    installed,
)

_T = TypeVar("_T")
_K = TypeVar("_K")


def extensions(group: str) -> Mapping[str, EntryPoint]:
    """Returns the entry points of a group by name, unloaded; of two with one name an `OptionError` tells.

    Examples:
        >>> from noisegate.registry import extensions
        >>> extensions("noisegate.verbs")["fit"].load().__name__
        'fit_command'
    """
    return _extensions(group, tuple(sys.path))


def one_name_each(group: str) -> list[str]:
    """Returns the names of a group, one for each object that entry points stand for."""
    return sorted(
        {
            point.value: name
            for name, point in sorted(extensions(group).items(), reverse=True)
        }.values()
    )


def extension(group: str, name: str, what: str) -> Any:
    """Returns what an entry point stands for; a MissingExtraError, that `what` needs it, if no package has it."""
    point = extensions(group).get(name)
    if point is None:
        raise MissingExtraError(f"{what} is not installed{more() or '.'}")
    return point.load()


def more() -> str:
    """Returns how to install those packages of ours that are not here, to follow what was not found; "" for none.

    Examples:
        >>> from noisegate.registry import more
        >>> more()
        ''
    """
    lacking = [
        f"'noisegate[{extra}]'"
        for package, extra in PACKAGES.items()
        if not installed(package)
    ]
    return (
        f"; more is installed with: pip install {' '.join(lacking)}" if lacking else ""
    )


@cache
def _extensions(group: str, _path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    named: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = named.setdefault(point.name, point)
        if other.value != point.value:
            says = f"{group}: two installed packages add {point.name!r}, {other.value} and {point.value}"
            raise OptionError(f"{says}; uninstall one.")
    return named


class Registry(Mapping[str, type[_T]], Generic[_T]):
    """Classes by name, those of installed packages by their entry points; each is imported when it is looked for.

    A package adds a class, with a decorator or without, by an entry point that is called like it:

        [project.entry-points."noisegate.methods"]
        dp-example = "their_package.module:DPExample"

    The ``group`` is that of the entry points; ``kind`` says what the classes are, for messages.

    Examples:
        >>> from noisegate.methods.registry import METHODS
        >>> "joint" in METHODS, METHODS["dp-merf"].__name__
        (True, 'DPMERF')
        >>> METHODS["pairwise"].name
        'pairwise'
    """

    def __init__(self, group: str, kind: str) -> None:
        self._group, self._kind = group, kind
        self._classes: dict[str, type[_T]] = {}

    def register(self, name: str, *aliases: str) -> Callable[[type[_K]], type[_K]]:
        """Returns a decorator that adds a class, whose ``name`` becomes `name`; it is found by the aliases too."""

        def add(cls: type[_K]) -> type[_K]:
            for each in (name, *aliases):
                other: Any = self._classes.get(each, cls)
                if (other.__module__, other.__qualname__) != (
                    cls.__module__,
                    cls.__qualname__,
                ):
                    says = f"{self._kind}={each!r} is {other.__module__}.{other.__qualname__} already"
                    raise OptionError(
                        f"{says}; give {cls.__module__}.{cls.__qualname__} another name."
                    )
            cls.name = name  # type: ignore[attr-defined]
            self._classes |= dict.fromkeys((name, *aliases), cls)  # type: ignore[arg-type]
            return cls

        return add

    def find(self, name: Any, *also: str) -> type[_T]:
        """Returns the class called `name`; the message names what may be given in its place, ``also`` other things."""
        try:
            return self[name]
        except (KeyError, TypeError, AttributeError):
            known = choices(name, [*also, *self])
            raise OptionError(
                f"{self._kind}={name!r} is not known; choose one of {known}{more()}."
            ) from None

    def __getitem__(self, name: str) -> type[_T]:
        point = extensions(self._group).get(name)
        if point is not None:
            try:
                found = point.load()
            except (ImportError, AttributeError) as error:
                raise OptionError(
                    f"{self._kind}={name!r} of an installed package cannot be loaded: {error}."
                ) from None
            if self._classes.get(name) is not found:
                self.register(name)(found)
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._classes, *extensions(self._group)}))

    def __len__(self) -> int:
        return len(list(iter(self)))
