"""How vectors and gradients are computed on a machine: blocks and kernels that made-up records passed (G-06, G-20).

Kernels of matrix products may round a sum by the place of a row in its block. So
made-up records are tried before the first private one is read (G-06, G-20): with
torch's own kernels, with `exact_products` in the same block and smaller ones, and at
last one at a time. What passes may differ between machines, and with it the last bits
of results.
"""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.devices import gate_threads
from noisegate.errors import DataError, OptionError, SlowKernelsWarning
from noisegate.privacy.grid import BLOCK_LIMIT
from noisegate.queries.feature_map import FeatureMap, SharingMap
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int
    from torch import Tensor


def exact_products() -> AbstractContextManager[Any]:
    """Returns a context in which float32 matrix products of this thread are exact sums (G-06), also in backward passes.

    They are off by about 2⁻ᵇ of the largest magnitudes, b = 21 for K ≤ 2048 (float32 has 24 bits).
    """
    mode: AbstractContextManager[Any] = _mode()()
    return mode


def product(
    left: Float32[Tensor, "*batch n K"], right: Float32[Tensor, "*batch K m"]
) -> Float32[Tensor, "*batch n m"]:
    """Returns left @ right as `exact_products` promises it."""
    bits = (53 - max(left.shape[-1] - 1, 1).bit_length()) // 2
    rows, of_rows = _whole(left, bits, -1)
    columns, of_columns = _whole(right, bits, -2)
    return ((rows @ columns) * of_rows * of_columns).to(left.dtype)


def _whole(
    values: Float32[Tensor, "*shape"], bits: int, dim: int
) -> tuple[Float64[Tensor, "*shape"], Float64[Tensor, "..."]]:
    """Returns values along `dim` as whole numbers in float64, and what one of them stands for: NaN where not finite."""
    import torch

    if not values.shape[dim]:
        return values.double(), values.new_ones(()).double()
    largest = values.abs().amax(dim=dim, keepdim=True)
    finite = torch.isfinite(largest)
    exponents = torch.frexp(torch.where(finite, largest, 0.0))[1]
    whole = (
        torch.where(finite, values, 0.0)
        .double()
        .mul_(_power_of_two(bits - exponents))
        .trunc_()
    )
    return whole, torch.where(finite, _power_of_two(exponents - bits), torch.nan)


def _power_of_two(exponents: Int[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Returns 2 to the exponents, exactly: torch's power function may round."""
    import torch

    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


@cache
def _mode() -> Any:
    """Returns the mode's class; made when it is asked for, as its base is torch's."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = {torch.ops.aten.mm.default, torch.ops.aten.bmm.default}
    added = {torch.ops.aten.addmm.default, torch.ops.aten.baddbmm.default}

    class ExactProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func in plain and args[0].dtype == torch.float32:
                return product(*args)
            if func in added and args[1].dtype == torch.float32:
                alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
                found = product(*args[1:3])
                found = found if alpha == 1 else found * alpha
                return (
                    found
                    if beta == 0
                    else found + (args[0] if beta == 1 else args[0] * beta)
                )
            # In inference mode a layer comes here whole; what it consists of comes back here.
            if torch._C._dispatch_has_kernel_for_dispatch_key(
                func.name(), "CompositeImplicitAutograd"
            ):
                with self:
                    return func.decompose(*args, **kwargs)
            return func(*args, **kwargs)

    return ExactProducts


# Features run in blocks of exactly this many rows (the last one padded): their bits may depend on the shape of a batch.
BLOCK_ROWS = 256
assert BLOCK_ROWS <= BLOCK_LIMIT
# Of a block of long vectors: 28 MB as float32, less than what the C library takes from the system anew each time.
BLOCK_NUMBERS = 7 * 2**20
# And a block of large images has no more intensities than this: 400 MB as float64.
BLOCK_INTENSITIES = BLOCK_ROWS * 256 * 256 * 3
# Second halves work on parts of a block of so many numbers: what they make on the way stays in the cache of a core.
PART_NUMBERS = 2**17

_SMALLER = (128, 32, 8)
# Rounding moves a vector by less than this part of its largest entry, but for single ones at a kink of a network.
_ROUNDING = 2.0**-8
# Records that are tried at least: in small blocks, what rounds by place does not show in each.
_TRIED = 32


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One way to compute."""

    rows: int  # records in a block; the last one is padded
    exact: bool = False  # whether torch's matrix products round no sum
    threads: int = 1  # threads of torch; NumPy's BLAS has one

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Holds the context in which this thread computes, whether it probes or adds up records (G-06)."""
        with (
            gate_threads(self.threads),
            exact_products() if self.exact else nullcontext(),
        ):
            yield


def executions(rows: int, threads: int = 1) -> Iterator[Execution]:
    """Yields ways to compute blocks of at most so many records, from the fastest to the surest."""
    if rows > 1:
        yield Execution(rows=rows, threads=threads)
        # What was computed without torch has no products of torch.
        exact = "torch" in sys.modules
        for block in (rows, *_SMALLER):
            if block <= rows:
                yield Execution(rows=block, exact=exact, threads=threads)
    yield Execution(rows=1, threads=threads)


def block_rows(feature_map: FeatureMap, columns: int = 0) -> int:
    """Returns how many rows a block has at most that a map is called with.

    256, or fewer where its vectors are long, or its records have more numeric ``columns`` than images of 256 x 256 x 3.
    """
    rows = BLOCK_ROWS
    while rows > 1 and (
        rows * feature_map.dim > BLOCK_NUMBERS or rows * columns > BLOCK_INTENSITIES
    ):
        rows //= 2
    return rows


def blocks(
    records: EncodedTable, rows: int
) -> Iterator[tuple[EncodedTable, EncodedTable]]:
    """Yields records in blocks of `rows`: as they are, and with the last one repeated up to `rows`; row by row."""
    for start in range(0, len(records), rows):
        block = records.rows(slice(start, start + rows)).row_by_row()
        yield (
            block,
            block.rows(np.minimum(np.arange(rows), len(block) - 1))
            if len(block) < rows
            else block,
        )


Shared: TypeAlias = dict[int, tuple[Any, npt.NDArray[np.float32]]]
"""What was computed for a block so far, by the identity of the first half that gave it, which is kept alive with it."""


def vectors_of(
    feature_map: FeatureMap, block: EncodedTable, shared: Shared
) -> npt.NDArray[np.float32]:
    """Returns the vectors of a block, (rows, dim): those of `parts_of` together, for the probe and for sums alike."""
    parts = [vectors for _, vectors in parts_of(feature_map, block, shared)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def parts_of(
    feature_map: FeatureMap, block: EncodedTable, shared: Shared
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Yields the vectors of a block in parts of equal size, each with the place of its first row; fills `shared`."""
    if not isinstance(feature_map, SharingMap):
        yield 0, feature_map(block)
        return
    first = feature_map.first_half
    if id(first) not in shared:
        values = first(block)
        # The next map takes it up: a second half that works in place would give that one other vectors.
        values.setflags(write=False)
        shared[id(first)] = first, values
    values, rows = shared[id(first)][1], len(block)
    while rows % 2 == 0 and rows * feature_map.dim > PART_NUMBERS:
        rows //= 2  # a divisor, as bits may depend on the shape
    for start in range(0, len(block), rows):
        yield start, feature_map.second_half(values[start : start + rows])


# Records by whose vectors a map is told from another.
_DIGEST_ROWS = 8


def map_digest(feature_map: FeatureMap, layout: Layout, execution: Execution) -> str:
    """Returns a hash of a map: of its vectors of a few made-up records, which are public."""
    records = made_up_records(
        layout, _DIGEST_ROWS, np.random.Generator(np.random.Philox(20261129))
    )
    with execution.kernels(), np.errstate(all="ignore"):
        vectors = vectors_of(feature_map, records, {})
    return hashlib.sha256(
        f"{vectors.shape}:".encode() + np.ascontiguousarray(vectors).tobytes()
    ).hexdigest()


def embedded_records(
    records: EncodedTable, feature_map: FeatureMap, execution: Execution | None = None
) -> EncodedTable:
    """Returns records with the map's vectors as their numeric columns and the codes, which the map sees, as they were.

    It is computed as `execution` says; None for blocks of `block_rows`. The map is named where it returns another shape
    than it says, by an OptionError, or numbers that are not finite, by a DataError.
    """
    way, name = (
        execution or Execution(rows=block_rows(feature_map)),
        type(feature_map).__name__,
    )
    vectors = np.empty((len(records), feature_map.dim), dtype=np.float32)
    for number, (block, padded) in enumerate(blocks(records, way.rows)):
        with way.kernels():
            found = vectors_of(feature_map, padded, {})
        if found.shape != (way.rows, feature_map.dim):
            raise OptionError(
                f"{name}: a feature map returned shape {found.shape}, not {(way.rows, feature_map.dim)}."
            )
        vectors[number * way.rows :][: len(block)] = found[: len(block)]
    if not np.isfinite(vectors).all():
        raise DataError(
            f"{name}: a feature map gave numbers that are not finite for a record that the schema allows, for instance "
            "one with a missing value. Use a map that is finite for every record, or a schema that allows no such one."
        )
    return EncodedTable(vectors.astype(np.float64), records.codes)


# The probe: whether what is computed of a record depends on its neighbours or its place in a block.

Probed: TypeAlias = tuple[list[bytes], npt.NDArray[np.float32]]
"""Of each record: bytes that are equal where all its bits are, and the numbers that these bits are of."""

Compute: TypeAlias = Callable[[Execution, EncodedTable, range], Probed]
"""Computes a block in a way, and returns what came of the records at some places of it."""


class Dependence(Enum):
    """What a record's vector was seen to depend on, beside the record: its place or neighbours, in two of three."""

    NONE = "nothing"
    ROUNDING = "by as much as a sum rounds"
    MIXING = "by more"


def made_up_records(
    layout: Layout, rows: int, random: np.random.Generator
) -> EncodedTable:
    """Returns records drawn uniformly from what the schema allows; they are public."""
    numeric = random.uniform(size=(rows, len(layout.numeric)))
    for place, column in enumerate(layout.numeric):
        if column.missing:
            numeric[random.uniform(size=rows) < 0.1, place] = np.nan
    codes = [
        random.integers(0, column.size, rows).astype(np.int32)
        for column in layout.coded
    ]
    return EncodedTable(
        numeric=numeric,
        codes=np.stack(codes, axis=1) if codes else np.zeros((rows, 0), np.int32),
    )


class Encoded:
    """Records that are encoded already, in batches of any size."""

    def __init__(self, batches: Iterable[EncodedTable]) -> None:
        self._batches = batches

    def unread(self) -> Iterator[Callable[[], EncodedTable]]:
        """Yields a function for each batch, which returns it."""
        for batch in self._batches:
            yield partial(EncodedTable.concatenate, [batch])


def map_execution(
    name: str,
    feature_map: FeatureMap,
    layout: Layout,
    rows: int | None = None,
    *,
    threads: int = 1,
) -> Execution:
    """Returns the fastest way to compute a map in which no record's vector depends on another record.

    Args:
        name: What messages call the map.
        feature_map: The map.
        layout: Columns of the made-up records that it is tried with.
        rows: How many records a block has at most; None for `block_rows`.
        threads: How many threads torch computes the map with, in the probe and in the way that is returned.

    Raises:
        OptionError: if the map mixes records, or returns another shape than it says.
    """

    def compute(way: Execution, block: EncodedTable, places: range) -> Probed:
        with way.kernels():
            vectors = vectors_of(feature_map, block, {})
        if vectors.shape != (way.rows, feature_map.dim):
            raise OptionError(
                f"feature map {name!r} returned shape {vectors.shape}, not {(way.rows, feature_map.dim)}."
            )
        values = vectors[places.start : places.stop]
        return [row.tobytes() for row in values], values

    refusal = OptionError(
        f"feature map {name!r} gives a record another vector when its neighbours or its position change, so no "
        "sensitivity can be stated for it. Use evaluation mode and no layer that normalises over the batch."
    )
    most = rows or block_rows(feature_map, len(layout.numeric))
    return sound_execution(
        most,
        compute,
        partial(made_up_records, layout),
        name=name,
        refusal=refusal,
        threads=threads,
    )


def sound_execution(
    rows: int,
    compute: Compute,
    made_up: Callable[[int, np.random.Generator], EncodedTable],
    *,
    name: str,
    refusal: OptionError,
    threads: int = 1,
) -> Execution:
    """Returns the fastest way to compute blocks of at most `rows` records in which no record depends on another.

    `compute` computes inside `Execution.kernels` of the way that it is given, as whoever adds up records does, so with
    `threads` threads of torch. It raises `refusal` where there is none, and warns where records are computed one at a
    time.
    """
    for way in executions(rows, threads):
        random = np.random.Generator(np.random.Philox(20240229))
        found = dependence(partial(compute, way), partial(made_up, way.rows, random))
        if found is Dependence.NONE:
            if way.rows == 1 < rows:
                _warn(name, way, rows, compute, made_up(rows, random))
            return way
        if found is Dependence.MIXING:
            break
    raise refusal


def dependence(
    compute: Callable[[EncodedTable, range], Probed],
    made_up: Callable[[], EncodedTable],
) -> Dependence:
    """Computes records in another order, beside other neighbours and among copies of themselves, and compares bits."""
    seen, found = 0, Dependence.NONE
    with np.errstate(
        all="ignore"
    ):  # a map that divides by what it mixes in may divide by zero here
        while seen < _TRIED:
            records = made_up()
            seen += len(records)
            bits, values = compute(records, range(len(records)))
            for block, here, there in _arrangements(records, made_up()):
                bits_there, values_there = compute(block, there)
                moved = [
                    _distance(values[row], values_there[place])
                    for place, row in enumerate(here)
                    if bits[row] != bits_there[place]
                ]
                if moved and np.median(moved) > _ROUNDING:
                    return Dependence.MIXING
                found = Dependence.ROUNDING if moved else found
    return found


def _arrangements(
    records: EncodedTable, others: EncodedTable
) -> Iterator[tuple[EncodedTable, Sequence[int], range]]:
    """Yields blocks, which of the records stand in them, and where."""
    rows = len(records)
    half = rows // 2
    order = np.random.Generator(np.random.Philox(20240301)).permutation(rows).tolist()
    first, rest = slice(None, half), slice(half, None)
    yield records.rows(order), order, range(rows)
    yield (
        EncodedTable.concatenate([others.rows(rest), records.rows(first)]),
        range(half),
        range(rows - half, rows),
    )
    yield (
        EncodedTable.concatenate([records.rows(rest), others.rows(first)]),
        range(half, rows),
        range(rows - half),
    )
    # Blocks of one repeated record: nothing of the others is left that could be mixed in.
    for row in range(0, rows, max(rows // 8, 1)):
        yield records.rows([row] * rows), range(row, row + 1), range(row, row + 1)


def _distance(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    """Returns by which part of its largest entry a vector moved; infinite where a number became none."""
    if not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return np.inf
    left, right = (
        np.nan_to_num(left.astype(np.float64)),
        np.nan_to_num(right.astype(np.float64)),
    )
    return float(
        np.abs(left - right).max(initial=0) / max(np.abs(left).max(initial=0), 1e-30)
    )


def _warn(
    name: str, single: Execution, rows: int, compute: Compute, records: EncodedTable
) -> None:
    def seconds(way: Execution, block: EncodedTable) -> float:
        start = time.perf_counter()
        compute(way, block, range(0))
        return (time.perf_counter() - start) / way.rows

    times = seconds(single, records.rows([0])) / seconds(
        replace(single, rows=rows), records
    )
    warnings.warn(
        f"{name}: this machine's kernels round by place in every block of 2 to {rows} records, so records are computed "
        f"one at a time, about {max(times, 1):.0f} times slower. The guarantee is the same; another processor, or "
        "another build of torch, is faster.",
        SlowKernelsWarning,
        stacklevel=3,
    )
