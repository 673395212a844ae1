"""Which records of a privacy unit are used: its first ones, up to a limit (G-14).

The unit, a patient for instance, stands in a column. Records are counted unit by unit
in the order of the data, so that which records of a unit are used follows from that
unit's records alone, whatever stands between them.

Names are never kept: a unit is a hash of 128 bits under a secret key of the run, with a
count, in about 35 bytes. Two units that share a hash would share a limit; for a billion
units the chance is below 10⁻²⁰.
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
from noisegate.schema.encode import join_names, normalized_names
from noisegate.schema.parsing import Mask

Keys = npt.NDArray[np.uint64]
"""Hashes of 128 bits, (n, 2): two numbers each."""

_MISSING = (
    "the privacy unit of this record is missing; fill it in, or remove such records "
    "from the data"
)
_CLAMPED = "numbers beyond 64 bits cannot be distinguished; write units as text"


@dataclass(frozen=True, kw_only=True)
class UnitLimit:
    """How many records of each unit are used.

    Attributes:
        column: The column with the name of the unit.
        contributions: The number of records of a unit that are used, its first ones.
        key: Secret of this run, 32 bytes; the same in all its passes over the records.
    """

    column: str
    contributions: int
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


def check_unit_column(
    column: str,
    columns: Sequence[tuple[str, pa.DataType]],
    file: str,
    role: str = "the unit column",
) -> None:
    """Requires that a column is there once, with a type whose values distinguish units.

    Args:
        column: The name of the column.
        columns: Names and types of the columns of the data.
        file: What messages call the data.
        role: What messages call the column.

    Raises:
        DataError: if it is not there, there twice, or neither text, bytes nor whole
            numbers.
    """
    types = [arrow_type for name, arrow_type in columns if name == column]
    if len(types) != 1:
        description = "is not in the data"
        if types:
            description = "is in the data more than once"
        raise DataError(
            f"{file}: {role} {column!r} {description}; name the column that says whose "
            "record each one is"
        )
    try:
        # No cells: only the type is checked.
        normalized_names(pa.array([], types[0]), column)
    except Problem as problem:
        raise DataError(f"{file}, {problem.message}") from None


class UnitCounter:
    """Counts the records of each unit, in one pass over the data."""

    def __init__(self, limit: UnitLimit, missing_values: tuple[str, ...]) -> None:
        """Begins to count.

        Args:
            limit: The column of the unit, and how many of its records are used.
            missing_values: Texts that stand for a missing unit.
        """
        self._limit = limit
        self._missing_values = pa.array(missing_values, pa.string())
        self._counts = HashTable()

    def count_and_select(self, units: pa.Array) -> Mask:
        """Counts the next records, and says which are among the first of their unit.

        Each batch of a pass is given once, in the order of the data: what was counted
        before decides, so the same batch given twice has another answer.

        Args:
            units: The unit of each record, (rows,), in the order of the data.

        Returns:
            True for the records that are among the first ones of their unit, (rows,).

        Raises:
            Problem: at the first record whose unit is missing, or a number beyond 64
                bits; or for all, if units are neither text, bytes nor whole numbers.
                Nothing is counted then.
        """
        column = self._limit.column
        names = hash_names({column: units}, self._missing_values, self._limit.key)
        if names.is_missing.any():
            first_missing = int(np.argmax(names.is_missing))
            raise Problem(first_missing, f"column {column!r}: {_MISSING}")
        batch_counts = np.bincount(names.name_index, minlength=len(names.hashes))
        limit = self._limit.contributions
        # Of each unit, how many records earlier batches had, counted up to the limit.
        earlier_counts = self._counts.add(names.hashes, batch_counts, limit)
        # For each record, how many of its unit stand before it in all batches.
        records_before = earlier_counts[names.name_index] + _ranks_within_units(
            names.name_index, batch_counts
        )
        return records_before < limit


@dataclass(frozen=True)
class HashedNames:
    """The names of some records, as hashes.

    Attributes:
        hashes: The hashes of all names that occur, each once, (names, 2).
        name_index: For each record, the index of its name among them, (rows,);
            meaningless where the name is missing.
        is_missing: Whether the name of each record is missing, (rows,).
    """

    hashes: Keys
    name_index: npt.NDArray[np.intp]
    is_missing: Mask


def hash_names(
    cells: Mapping[str, pa.Array], missing_values: pa.Array, key: bytes
) -> HashedNames:
    """Hashes the names of records, each made of the cells of some columns.

    Each name that occurs is hashed once, however many records have it.

    Args:
        cells: For each column, the part of the name of each record, (rows,).
        missing_values: Texts that stand for a missing part; a name with a missing part
            is missing.
        key: Secret key of the hash, without which nobody can tell whose hash it is.

    Raises:
        Problem: for the first number beyond 64 bits; or for all records, if names are
            neither text, bytes nor whole numbers.

    Examples:
        >>> import pyarrow as pa
        >>> who = pa.array(["ann", "bob", "ann", "?"])
        >>> names = hash_names({"who": who}, pa.array(["?"]), key=b"secret")
        >>> names.hashes.shape, names.name_index[:3].tolist()
        ((2, 2), [0, 1, 0])
        >>> names.is_missing.tolist()
        [False, False, False, True]
    """
    name_parts = [
        _name_parts(column_cells, column, missing_values)
        for column, column_cells in cells.items()
    ]
    names = join_names(name_parts)
    encoded = names.dictionary_encode()
    distinct_names = encoded.dictionary.cast(pa.binary()).to_pylist()
    digests = [
        hashlib.blake2b(name, digest_size=16, key=key).digest()
        for name in distinct_names
    ]
    name_index = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    is_missing = names.is_null().to_numpy(zero_copy_only=False)
    return HashedNames(
        hashes=np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2),
        name_index=name_index.astype(np.intp),
        is_missing=np.asarray(is_missing, dtype=np.bool_),
    )


def _name_parts(cells: pa.Array, column: str, missing_values: pa.Array) -> pa.Array:
    """Returns cells as parts of a name, null where one is missing.

    Raises:
        Problem: as `hash_names` does.
    """
    parts = normalized_names(cells, column)
    is_clamped = _find_clamped(cells)
    if is_clamped.any():
        first_clamped = int(np.argmax(is_clamped))
        raise Problem(first_clamped, f"column {column!r}: {_CLAMPED}")
    if not pt.is_string(parts.type):
        return parts
    is_missing = pc.is_in(parts, value_set=missing_values)
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), parts)


def _find_clamped(units: pa.Array) -> Mask:
    """Returns where a whole number may stand for several others, (rows,).

    Readers move numbers beyond 64 bits to the nearest end of the range.
    """
    if not pt.is_int64(units.type):
        return np.zeros(len(units), dtype=np.bool_)
    int64_range = np.iinfo(np.int64)
    range_ends = pa.array([int64_range.min, int64_range.max], pa.int64())
    is_end = pc.is_in(units, value_set=range_ends)
    return np.asarray(is_end.to_numpy(zero_copy_only=False))


def _ranks_within_units(
    unit_index: npt.NDArray[np.intp], unit_counts: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Returns how many records of the same unit stand before each record, (rows,).

    Args:
        unit_index: The unit of each record, (rows,).
        unit_counts: The number of records of each unit, (units,).

    Examples:
        >>> import numpy as np
        >>> _ranks_within_units(np.array([0, 1, 0, 0]), np.array([3, 1])).tolist()
        [0, 0, 1, 2]
    """
    # Sorted by unit, and else in the order of the data, the records of one unit are
    # numbered from where they start.
    order = np.argsort(unit_index, kind="stable")
    starts = np.cumsum(unit_counts) - unit_counts
    ranks = np.empty_like(unit_index)
    ranks[order] = np.arange(len(unit_index)) - np.repeat(starts, unit_counts)
    return ranks


class HashTable:
    """Counts by keys of 128 bits, whole arrays of them at a time.

    Open addressing with linear probing: a key stands in the slot that its first bits
    name, or in the next free one behind it. A slot takes 19 bytes, and at most two
    thirds of the slots are taken.
    """

    def __init__(self) -> None:
        self._size = 0
        self._allocate(1024)

    def __len__(self) -> int:
        return self._size

    def add(
        self, keys: Keys, amounts: npt.NDArray[np.intp], max_count: int
    ) -> npt.NDArray[np.intp]:
        """Adds an amount to the count of each key, and returns what it was before.

        Args:
            keys: Keys that differ from each other, (n, 2); new ones count from 0.
            amounts: What is added, (n,).
            max_count: Counts stop here; below 2¹⁶, as a count has 16 bits.

        Returns:
            The counts as they were before, (n,).
        """
        while 3 * (self._size + len(keys)) > 2 * len(self._is_taken):
            self._grow()
        slots = self._find_or_insert(keys)
        counts_before = self._counts[slots].astype(np.intp)
        self._counts[slots] = np.minimum(counts_before + amounts, max_count)
        return counts_before

    def _allocate(self, slot_count: int) -> None:
        """Makes a table without keys; the number of slots is a power of two."""
        self._keys = np.zeros((slot_count, 2), dtype=np.uint64)
        self._is_taken = np.zeros(slot_count, dtype=np.bool_)
        self._counts = np.zeros(slot_count, dtype=np.uint16)

    def _grow(self) -> None:
        """Moves all keys and counts to a table with twice as many slots."""
        keys = self._keys[self._is_taken]
        counts = self._counts[self._is_taken]
        self._allocate(2 * len(self._is_taken))
        self._size = 0
        self._counts[self._find_or_insert(keys)] = counts

    def _find_or_insert(self, keys: Keys) -> npt.NDArray[np.intp]:
        """Returns the slot of each key, (n,); keys that are new take a free one.

        Args:
            keys: Keys that differ from each other, (n, 2); there is room for all.
        """
        # The number of slots is a power of two, so its last index masks the bits of a
        # key that name a slot.
        last_slot = len(self._is_taken) - 1
        slots = (keys[:, 0] & np.uint64(last_slot)).astype(np.intp)
        pending = np.arange(len(keys))
        while len(pending):
            tried_slots = slots[pending]
            is_free = ~self._is_taken[tried_slots]
            # Several keys may want one free slot: the last to write has it, and the
            # others continue to the next.
            self._keys[tried_slots[is_free]] = keys[pending[is_free]]
            self._is_taken[tried_slots[is_free]] = True
            is_placed = (self._keys[tried_slots] == keys[pending]).all(axis=1)
            self._size += int(np.count_nonzero(is_placed & is_free))
            pending = pending[~is_placed]
            slots[pending] = (slots[pending] + 1) & last_slot
        return slots
