"""Measures how far a reader must climb: the deepest chain of our classes, and concrete methods that are overridden."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import FunctionType

PACKAGES = ("noisegate", "noisegate_evaluate", "noisegate_images", "noisegate_papers")


def our_classes() -> list[type]:
    """Returns every class that a module of ours defines, protocols left out, sorted by name."""
    classes: set[type] = set()
    for module_name in _module_names():
        module = importlib.import_module(module_name)
        for member in vars(module).values():
            if inspect.isclass(member) and member.__module__ == module_name:
                classes.add(member)
    return sorted((cls for cls in classes if not _is_protocol(cls)), key=_full_name)


def _module_names() -> Iterator[str]:
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        yield package_name
        for module in pkgutil.walk_packages(package.__path__, f"{package_name}."):
            if not module.name.endswith("__main__"):
                yield module.name


def _is_protocol(cls: type) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _our_bases(cls: type) -> list[type]:
    return [base for base in cls.__bases__ if _is_ours(base) and not _is_protocol(base)]


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in PACKAGES


def longest_chain(classes: list[type]) -> list[str]:
    """Returns the names of the classes on the longest way from one of ours up to a class without bases of ours."""
    return max((_chain(cls) for cls in classes), key=len)


def _chain(cls: type) -> list[str]:
    above = max((_chain(base) for base in _our_bases(cls)), key=len, default=[])
    return [cls.__name__, *above]


def concrete_overrides(classes: list[type]) -> list[str]:
    """Returns the methods that replace a concrete one of a base of ours, as `Class.method`, those of Python left out.

    A method that fills in an abstract one is none of them: what a reader sees there is what runs. Neither is one that
    replaces a method of a foreign base alone, such as `forward` of torch: that is how such a base is used.
    """
    overrides = []
    for cls in classes:
        our_ancestors = [base for base in cls.__mro__[1:] if _is_ours(base)]
        for name, member in vars(cls).items():
            if name.startswith("__") or not isinstance(
                member, FunctionType | classmethod | property
            ):
                continue
            inherited = next(
                (vars(base)[name] for base in our_ancestors if name in vars(base)),
                None,
            )
            if inherited is not None and not getattr(
                inherited, "__isabstractmethod__", False
            ):
                overrides.append(f"{_full_name(cls)}.{name}")
    return overrides


if __name__ == "__main__":
    every_class = our_classes()
    print(" -> ".join(longest_chain(every_class)))
    print(*concrete_overrides(every_class), sep="\n")
