"""Which records of a unit are used: the first ones, up to a limit, in the order in which the unit has them.

Guarantee G-14 (units). Whether a record is used depends on the records of the same unit alone, so adding or removing
a unit changes nothing about the records of others.

Units are remembered by a keyed hash of 128 bits under a secret key of the run, in about 35 bytes each. Two units with
one hash would share a limit, and one of them could then push out records of the other: the hash is that long, and the
key secret, for the probability that this ever happens to a given unit to be below 2⁻⁸⁷.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.data.parse import is_text
from noisegate.schema.checks import TEXT_PADDING

Mask = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]


class UnitProblem(Exception):  # noqa: N818 - not an error for users; the caller adds file and line, and makes it one
    """A record whose unit is missing, or cannot be told from others.

    Attributes:
        row: Position in the batch.
        missing: Whether it is missing.
    """

    def __init__(self, row: int, *, missing: bool) -> None:
        super().__init__()
        self.row, self.missing = row, missing


class UnitTypeProblem(Exception):  # noqa: N818 - as above
    """A unit column of a type in which one unit may be written in several ways, such as decimal numbers."""


@dataclass(frozen=True, kw_only=True)
class UnitLimit:
    """At most so many records of each unit.

    Attributes:
        column: Name of the column that says whose record each one is.
        contributions: How many records of a unit are used.
        key: Secret of this run; the same in all its passes over the records.
    """

    column: str
    contributions: int
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


class UnitCounter:
    """How many records of each unit were met, in one pass over the data.

    Args:
        limit: What is used of a unit.
        missing_values: Text that stands for a missing unit.
    """

    def __init__(self, limit: UnitLimit, missing_values: tuple[str, ...]) -> None:
        self._limit, self._missing = limit, pa.array(missing_values, pa.string())
        self._table = HashTable()

    def used(self, units: pa.Array) -> Mask:
        """Returns which of the next records are used, (rows,).

        Args:
            units: The unit of each record, in the order of the data.

        Raises:
            UnitProblem: for the first record whose unit is missing, or a number beyond 64 bits.
            UnitTypeProblem: if the units are neither text, bytes nor whole numbers.
        """
        names = unit_names(units)
        clamped = _clamped(units)
        if clamped.any():
            raise UnitProblem(int(np.argmax(clamped)), missing=False)
        absent = names.is_null()
        if pt.is_string(names.type):
            absent = pc.or_(absent, pc.is_in(names, value_set=self._missing))
        if pc.any(absent).as_py():
            raise UnitProblem(int(np.argmax(absent.to_numpy(zero_copy_only=False))), missing=True)
        coded = names.dictionary_encode()
        places = coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        met = np.bincount(places, minlength=len(coded.dictionary))
        before = self._table.add(self._hashes(coded.dictionary), met, self._limit.contributions)
        used: Mask = before[places] + _ranks(places, met) < self._limit.contributions
        return used

    def _hashes(self, names: pa.Array) -> Keys:
        key = self._limit.key
        plain = names.cast(pa.binary()).to_pylist()
        joined = b"".join(hashlib.blake2b(name, digest_size=16, key=key).digest() for name in plain)
        return np.frombuffer(joined, dtype=np.uint64).reshape(-1, 2)


def unit_names(units: pa.Array) -> pa.Array:
    """Returns units as text (whole numbers in decimal, without surrounding blanks) or as bytes.

    Raises:
        UnitTypeProblem: if they are of another type.
    """
    kind = units.type.value_type if pt.is_dictionary(units.type) else units.type
    if pt.is_dictionary(units.type):
        units = units.dictionary_decode()
    if pt.is_integer(kind) or pt.is_null(kind):
        return units.cast(pa.string())
    if is_text(kind):
        return pc.utf8_trim(units.cast(pa.string()), characters=TEXT_PADDING)
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return units.cast(pa.binary())
    raise UnitTypeProblem


def _clamped(units: pa.Array) -> Mask:
    """Returns where a whole number may stand for several: readers move those beyond 64 bits to the nearest end."""
    if not pt.is_int64(units.type):
        return np.zeros(len(units), dtype=np.bool_)
    ends = pa.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max], pa.int64())
    clamped: Mask = pc.is_in(units, value_set=ends).to_numpy(zero_copy_only=False)
    return clamped


def _ranks(places: npt.NDArray[np.intp], met: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
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

    def add(self, keys: Keys, amounts: npt.NDArray[np.intp], most: int) -> npt.NDArray[np.intp]:
        """Adds to the number of each key, and returns what it was before; numbers stop at `most`.

        Args:
            keys: (n, 2), all different.
            amounts: (n,), at least 0.
            most: At most 65,535.
        """
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
        """Returns the slot of each key; those that had none get one."""
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
