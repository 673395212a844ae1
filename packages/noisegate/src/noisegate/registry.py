"""Extensions by installed packages: methods, models, verbs and pages, by entry points.

Our packages and those of others are found in the same way. An entry point has a group,
such as ``noisegate.methods``, a name in it, and the object that it loads. Nothing is
imported before it is used. `Registry` is a mapping of the classes in one group.
"""

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
    """Returns the entry points of a group by name, unloaded.

    Raises:
        OptionError: if two packages give one name to different objects.

    Examples:
        >>> from noisegate.registry import extensions
        >>> extensions("noisegate.verbs")["fit"].load().__name__
        'fit_command'
    """
    return _extensions(group, tuple(sys.path))


@cache
def _extensions(group: str, _path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Returns the entry points of a group; searched again when `sys.path` changes."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = points.setdefault(point.name, point)
        if other.value != point.value:
            raise OptionError(
                f"{group}: two installed packages add {point.name!r}, {other.value} and "
                f"{point.value}; uninstall one."
            )
    return points


def one_name_each(group: str) -> list[str]:
    """Returns the names of a group without aliases, sorted.

    Of several names of one object the first in the alphabet counts.
    """
    name_of_object: dict[str, str] = {}
    for name, point in sorted(extensions(group).items()):
        name_of_object.setdefault(point.value, name)
    return sorted(name_of_object.values())


def extension(group: str, name: str, description: str) -> Any:
    """Loads the object of an entry point.

    Args:
        group: The group.
        name: Name in the group.
        description: What needs it, for the message.

    Raises:
        MissingExtraError: if no installed package has it.
    """
    point = extensions(group).get(name)
    if point is None:
        raise MissingExtraError(f"{description} is not installed{more() or '.'}")
    return point.load()


def more() -> str:
    """Describes how to install those of our packages that are missing.

    Returns:
        Text to follow a message about something that was not found; empty if no package
        is missing.

    Examples:
        >>> from noisegate.registry import more
        >>> more()
        ''
    """
    missing_extras = [
        f"'noisegate[{extra}]'"
        for package, extra in PACKAGES.items()
        if not installed(package)
    ]
    if not missing_extras:
        return ""
    return f"; more is installed with: pip install {' '.join(missing_extras)}"


class Registry(Mapping[str, type[_T]], Generic[_T]):
    """A mapping from names to classes. A class is imported when it is looked up.

    A package adds a class by an entry point. The decorator `register` is optional::

        [project.entry-points."noisegate.methods"]
        dp-example = "their_package.module:DPExample"

    Args:
        group: Group of the entry points.
        kind: Description of the classes, for messages.
        attribute: Attribute of a class that contains its name.

    Examples:
        >>> from noisegate.methods.registry import METHODS
        >>> "joint" in METHODS, METHODS["dp-merf"].__name__
        (True, 'DPMERF')
        >>> METHODS["pairwise"].name
        'pairwise'
    """

    def __init__(self, group: str, kind: str, attribute: str = "name") -> None:
        self._group = group
        self._kind = kind
        self._attribute = attribute
        self._classes: dict[str, type[_T]] = {}

    def register(self, name: str, *aliases: str) -> Callable[[type[_K]], type[_K]]:
        """Returns a decorator that adds a class under a name.

        Args:
            name: Name of the class. It is stored in the attribute `attribute` of the
                class, by default ``name``.
            aliases: Further names of the class.

        Raises:
            OptionError: if another class has one of the names.
        """

        def add(cls: type[_K]) -> type[_K]:
            for key in (name, *aliases):
                registered: Any = self._classes.get(key, cls)
                # A module that is imported again makes another object of its class.
                if _path_of(registered) != _path_of(cls):
                    raise OptionError(
                        f"{self._kind}={key!r} is {_path_of(registered)} already; give "
                        f"{_path_of(cls)} another name."
                    )
            setattr(cls, self._attribute, name)
            self._classes |= dict.fromkeys((name, *aliases), cls)  # type: ignore[arg-type]
            return cls

        return add

    def find(self, name: Any, *also: str) -> type[_T]:
        """Returns the class with a name that a user gave.

        Args:
            name: The name, of any type.
            also: Further names that the option allows, for the message.

        Raises:
            OptionError: if there is no such class; the message lists the names.
        """
        try:
            return self[name]
        except (KeyError, TypeError, AttributeError):
            listed_names = choices(name, [*also, *self])
            raise OptionError(
                f"{self._kind}={name!r} is not known; choose one of "
                f"{listed_names}{more()}."
            ) from None

    def __getitem__(self, name: str) -> type[_T]:
        """Returns a class by its name, and imports it if need be.

        Raises:
            KeyError: if there is none.
            OptionError: if it cannot be imported.
        """
        point = extensions(self._group).get(name)
        if point is not None:
            try:
                loaded_class = point.load()
            except (ImportError, AttributeError) as error:
                raise OptionError(
                    f"{self._kind}={name!r} of an installed package cannot be loaded: "
                    f"{error}."
                ) from None
            if self._classes.get(name) is not loaded_class:
                self.register(name)(loaded_class)
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of all classes, imported or not, sorted."""
        return iter(sorted({*self._classes, *extensions(self._group)}))

    def __len__(self) -> int:
        """Returns the number of names."""
        return len(list(iter(self)))


METHODS: Registry[Any] = Registry("noisegate.methods", "method")
"""All methods by name; `noisegate.methods.registry` selects among them.

It is defined here so that a release can be read with its method by code that does not
depend on the methods."""


def _path_of(cls: type[Any]) -> str:
    """Returns the module and the name of a class, with a dot between them."""
    return f"{cls.__module__}.{cls.__qualname__}"
