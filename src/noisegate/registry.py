"""Registries, which find classes by name: ours, and those of installed packages."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from noisegate.errors import OptionError, choices

_T = TypeVar("_T")
_K = TypeVar("_K")


class Registry(Mapping[str, type[_T]], Generic[_T]):
    """Classes by name: those of a package of ours, and those of installed packages by their entry points.

    Modules are imported when one of their classes is looked for: of the package first the module that is called like
    the class ("dp-merf" is in ``merf`` or ``dp_merf``), then all. An installed package adds one by an entry point whose
    name is that of the class, in the group that is called like our package:

        [project.entry-points."noisegate.methods"]
        dp-example = "their_package.module:DPExample"

    Args:
        package: Its full name, and that of the group of entry points.
        kind: What the classes are, for messages.

    Examples:
        >>> from noisegate.methods.registry import METHODS
        >>> "joint" in METHODS, METHODS["dp-merf"].__name__
        (True, 'DPMERF')
        >>> METHODS["pairwise"].name
        'pairwise'
    """

    def __init__(self, package: str, kind: str) -> None:
        self._package, self._kind = package, kind
        self._classes: dict[str, type[_T]] = {}
        self._whole = False

    def register(self, name: str, *aliases: str) -> Callable[[type[_K]], type[_K]]:
        """Returns a decorator that adds a class, whose ``name`` becomes `name`; it is found by the aliases too."""

        def add(cls: type[_K]) -> type[_K]:
            for each in (name, *aliases):
                other: Any = self._classes.get(each, cls)
                if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                    raise OptionError(
                        f"{self._kind}={each!r} is {other.__module__}.{other.__qualname__} already; give "
                        f"{cls.__module__}.{cls.__qualname__} another name."
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
            raise OptionError(f"{self._kind}={name!r} is not known; choose one of {known}.") from None

    def __getitem__(self, name: str) -> type[_T]:
        if name not in self._classes:
            self._import_ours(name)
        for point in entry_points(group=self._package, name=name):
            try:
                self.register(name)(point.load())
            except (ImportError, AttributeError) as error:
                raise OptionError(f"{self._kind}={name!r} of an installed package cannot be loaded: {error}.") from None
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        self._import_ours(None)
        return iter(sorted({*self._classes, *(point.name for point in entry_points(group=self._package))}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _import_ours(self, name: str | None) -> None:
        """Imports the module of a class, or all."""
        if self._whole:
            return
        package = import_module(self._package)
        modules = {module.name for module in pkgutil.walk_packages(package.__path__, f"{self._package}.")}
        for stem in () if name is None else (name.replace("-", "_"), name.removeprefix("dp-").replace("-", "_")):
            if f"{self._package}.{stem}" in modules:
                import_module(f"{self._package}.{stem}")
        if name not in self._classes:
            for module in sorted(modules):
                import_module(module)
            self._whole = True
