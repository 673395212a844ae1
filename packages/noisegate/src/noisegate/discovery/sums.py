"""Columns that are the sum of others in nearly all records of a sample, such as a total beside its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NEARLY_ALL = 0.97  # a sum is one where it holds in this part of the records that have all its columns

_FEW, _CLOSE = 512, 1e-9


@dataclass(frozen=True, kw_only=True)
class Sum:
    """A column and the two that add up to it, or several neighbours; and in which part of the records they do."""

    whole: str
    parts: tuple[str, ...]
    share: float = 1.0

    def __str__(self) -> str:
        return f"{self.whole} = {' + '.join(self.parts)}"

    def broken(self, numbers: Mapping[str, Floats]) -> npt.NDArray[np.bool_]:
        """Returns which records have all the numbers, NaN where one is missing, and break it, (rows,)."""
        apart = np.abs(numbers[self.whole] - sum(numbers[part] for part in self.parts))
        return np.asarray(apart > _CLOSE * np.maximum(1.0, np.abs(numbers[self.whole])))


def find_sums(numbers: Mapping[str, Floats], least: int) -> list[Sum]:
    """Returns the sums that nearly all records keep to, each part other than 0 in `least` of them or more."""
    names, found = list(numbers), dict[str, Sum]()
    if len(names) < 3:
        return []
    few = np.stack([numbers[name][:_FEW] for name in names])
    runs = (range(start, stop) for start, stop in combinations(range(len(names) + 1), 2) if stop - start > 2)
    for places in chain(combinations(range(len(names)), 2), runs):
        close = np.abs(few - few[list(places)].sum(axis=0)) <= _CLOSE * np.maximum(1.0, np.abs(few))
        known = ~np.isnan(few).any(axis=0)
        for place in np.flatnonzero(close.mean(axis=1) > known.mean() * NEARLY_ALL - 0.1):
            if place not in places and names[place] not in found:
                one = _checked(numbers, names[place], tuple(names[part] for part in places), least)
                found |= {} if one is None else {names[place]: one}
    return list(found.values())


def _checked(numbers: Mapping[str, Floats], whole: str, parts: tuple[str, ...], least: int) -> Sum | None:
    columns = np.stack([numbers[name] for name in (whole, *parts)])
    columns = columns[:, ~np.isnan(columns).any(axis=0)]
    if (np.count_nonzero(columns, axis=1) < least).any():
        return None
    rule, known = Sum(whole=whole, parts=parts), dict(zip((whole, *parts), columns, strict=True))
    share = 1 - float(rule.broken(known).mean())
    chance = 1 - float(rule.broken({**known, whole: np.roll(columns[0], len(columns[0]) // 3)}).mean())
    return Sum(whole=whole, parts=parts, share=share) if share >= NEARLY_ALL and chance < 0.5 else None
