"""Kinds of column whose values are levels, encoded as a code in [0, size)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from noisegate.errors import SchemaError
from noisegate.schema.values import column_name, flag, levels, store


class _Coded:
    """Values that are one of some levels, or missing."""

    name: str
    levels: Any
    missing: bool
    numeric: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        store(self, name=column_name(self.name))
        self._check()
        store(self, missing=flag(self.name, "missing", self.missing))

    def _check(self) -> None:
        store(self, levels=levels(self.name, self.levels))

    @property
    def size(self) -> int:
        """Number of codes: one per level, and a last one for missing where that is allowed."""
        return len(self.levels) + self.missing


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Coded):
    """Levels with an order, from least to most.

    Attributes:
        name: name of the column in the data.
        levels: every value that the column may hold, in order; all text or all whole numbers.
        missing: whether a value may be absent.

    Examples:
        >>> from noisegate.schema import Ordinal
        >>> Ordinal(name="pain", levels=("none", "some", "much"), missing=True).size
        4
    """

    name: str
    levels: tuple[str | int, ...]
    missing: bool = False

    kind: ClassVar[Literal["ordinal"]] = "ordinal"


@dataclass(frozen=True, kw_only=True)
class Categorical(_Coded):
    """Levels without an order.

    Attributes:
        name: name of the column in the data.
        levels: every value that the column may hold; all text or all whole numbers.
        other: the level that stands for every value that is not listed, or None to refuse such values.
        missing: whether a value may be absent.

    Examples:
        >>> from noisegate.schema import Categorical
        >>> Categorical(name="job", levels=("nurse", "teacher", "other"), other="other").size
        3
    """

    name: str
    levels: tuple[str | int, ...]
    other: str | int | None = None
    missing: bool = False

    kind: ClassVar[Literal["categorical"]] = "categorical"

    def _check(self) -> None:
        super()._check()
        if self.other is not None and (type(self.other) is not type(self.levels[0]) or self.other not in self.levels):
            raise SchemaError(
                f"column {self.name!r}: other = {self.other!r} is not one of the levels; add it to levels"
            )


@dataclass(frozen=True, kw_only=True)
class Boolean(_Coded):
    """True or false; text files may say true/false, yes/no or 1/0.

    Examples:
        >>> from noisegate.schema import Boolean
        >>> Boolean(name="ill").levels, Boolean(name="ill", missing=True).size
        ((False, True), 3)
    """

    name: str
    missing: bool = False

    kind: ClassVar[Literal["boolean"]] = "boolean"
    levels: ClassVar[tuple[bool, bool]] = (False, True)  # type: ignore[misc]

    def _check(self) -> None:
        pass


CodedColumn: TypeAlias = Ordinal | Categorical | Boolean
"""Kinds that are encoded as a code in [0, size)."""
