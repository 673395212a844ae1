"""Which records of a unit are used: the first ones, up to a limit, in the order in which the unit has them (G-14).

Units are remembered by a keyed hash of 128 bits under a secret key of the run, in about
35 bytes each.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import DataError
from noisegate.schema.columns import Problem
from noisegate.schema.encode import Mask, joined_names, names_of

Keys = npt.NDArray[np.uint64]

_MISSING = "the privacy unit of this record is missing; fill it in, or remove such records from the data"
_CLAMPED = "numbers beyond 64 bits cannot be distinguished; write units as text"


@dataclass(frozen=True, kw_only=True)
class UnitLimit:
    """At most so many records of each unit, whose name stands in a column."""

    column: str
    contributions: int
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Secret of this run; the same in all its passes over the records."""


def check_unit_column(
    column: str,
    found: Sequence[tuple[str, pa.DataType]],
    name: str,
    what: str = "the unit column",
) -> None:
    """Requires the column once in the header of the data called ``name``, and of a type that tells units apart."""
    kinds = [kind for title, kind in found if title == column]
    if len(kinds) != 1:
        wrong = "is not in the data" if not kinds else "is in the data more than once"
        raise DataError(
            f"{name}: {what} {column!r} {wrong}; name the column that says whose record each one is"
        )
    try:
        names_of(pa.array([], kinds[0]), column)
    except Problem as problem:
        raise DataError(f"{name}, {problem.says}") from None


class UnitCounter:
    """How many records of each unit were met, in one pass over the data."""

    def __init__(self, limit: UnitLimit, missing_values: tuple[str, ...]) -> None:
        self._limit, self._missing = limit, pa.array(missing_values, pa.string())
        self._table = HashTable()

    def used(self, units: pa.Array) -> Mask:
        """Returns which of the next records are used, (rows,), by the unit of each, in the order of the data."""
        # A Problem for the first record whose unit is missing, or a number beyond 64 bits; or for all, if they are
        # neither text, bytes nor whole numbers.
        column = self._limit.column
        hashes, places, absent = named({column: units}, self._missing, self._limit.key)
        if absent.any():
            raise Problem(int(np.argmax(absent)), f"column {column!r}: {_MISSING}")
        met = np.bincount(places, minlength=len(hashes))
        before = self._table.add(hashes, met, self._limit.contributions)
        return before[places] + _ranks(places, met) < self._limit.contributions


def named(
    cells: Mapping[str, pa.Array], missing_values: pa.Array, key: bytes
) -> tuple[Keys, npt.NDArray[np.intp], Mask]:
    """Returns hashes of the names in columns, (names, 2), the place of each record's among them, and who has none."""
    # Places are meaningless where a part of a name is missing. A Problem is raised for the first number beyond 64 bits;
    # or for all, if they are neither text, bytes nor whole numbers.
    names = joined_names(
        [_present(units, column, missing_values) for column, units in cells.items()]
    )
    coded = names.dictionary_encode()
    plain = coded.dictionary.cast(pa.binary()).to_pylist()
    hashes = b"".join(
        hashlib.blake2b(name, digest_size=16, key=key).digest() for name in plain
    )
    return (
        np.frombuffer(hashes, dtype=np.uint64).reshape(-1, 2),
        coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.intp),
        np.asarray(names.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_),
    )


def _present(units: pa.Array, column: str, missing_values: pa.Array) -> pa.Array:
    names, clamped = names_of(units, column), _clamped(units)
    if clamped.any():
        raise Problem(int(np.argmax(clamped)), f"column {column!r}: {_CLAMPED}")
    if pt.is_string(names.type):
        names = pc.if_else(
            pc.is_in(names, value_set=missing_values),
            pa.scalar(None, pa.string()),
            names,
        )
    return names


def _clamped(units: pa.Array) -> Mask:
    """Returns where a whole number may stand for several: readers move those beyond 64 bits to the nearest end."""
    if not pt.is_int64(units.type):
        return np.zeros(len(units), dtype=np.bool_)
    ends = pa.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max], pa.int64())
    return np.asarray(pc.is_in(units, value_set=ends).to_numpy(zero_copy_only=False))


def _ranks(
    places: npt.NDArray[np.intp], met: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Returns how many records of the same unit stand before each one."""
    order = np.argsort(places, kind="stable")
    starts = np.cumsum(met) - met
    ranks = np.empty_like(places)
    ranks[order] = np.arange(len(places)) - np.repeat(starts, met)
    return ranks


class HashTable:
    """Numbers by keys of 128 bits, in open addressing with linear probing: 19 bytes a slot, at most 2/3 full."""

    def __init__(self) -> None:
        self._size = 0
        self._make(1024)

    def __len__(self) -> int:
        return self._size

    def add(
        self, keys: Keys, amounts: npt.NDArray[np.intp], most: int
    ) -> npt.NDArray[np.intp]:
        """Adds to the number of each key, (n, 2), all different, and returns it as it was; it stops at `most` < 2¹⁶."""
        while 3 * (self._size + len(keys)) > 2 * len(self._taken):
            self._grow()
        slots = self._slots(keys)
        before = self._numbers[slots].astype(np.intp)
        self._numbers[slots] = np.minimum(before + amounts, most)
        return before

    def _make(self, slots: int) -> None:
        self._keys = np.zeros((slots, 2), dtype=np.uint64)
        self._taken = np.zeros(slots, dtype=np.bool_)
        self._numbers = np.zeros(slots, dtype=np.uint16)

    def _grow(self) -> None:
        keys, numbers = self._keys[self._taken], self._numbers[self._taken]
        self._make(2 * len(self._taken))
        self._size = 0
        self._numbers[self._slots(keys)] = numbers

    def _slots(self, keys: Keys) -> npt.NDArray[np.intp]:
        last = len(self._taken) - 1
        slots = (keys[:, 0] & np.uint64(last)).astype(np.intp)
        left = np.arange(len(keys))
        while len(left):
            at = slots[left]
            free = ~self._taken[at]
            # Several keys may want one free slot: the last to write has it, the others find it taken.
            self._keys[at[free]] = keys[left[free]]
            self._taken[at[free]] = True
            found = (self._keys[at] == keys[left]).all(axis=1)
            self._size += int(np.count_nonzero(found & free))
            left = left[~found]
            slots[left] = (slots[left] + 1) & last
        return slots
