"""How vectors are computed on this machine, so that none depends on other records.

A record's vector must be a function of that record alone, bit for bit (G-06, G-20). Two
things could break that: a feature map that mixes records, such as a network with batch
norm; and kernels of matrix products, which may round a row by its position in a block.

So the gate calls every map with blocks of one fixed number of records. Before the first
private record is read, it probes the map: it computes simulated records in another
order, beside other neighbours, and among copies of themselves. A way to compute,
`Execution`, is sound if all bits stay the same. Ways are tried from the fastest to the
surest::

    torch's own kernels, 256 rows
    exact_products, 256 rows
    exact_products, 128, 32, 8 rows
    1 row

Which way passes may differ between machines, and with it the last bits of results.

How to read it, in four parts:

- `exact_products`: matrix products that round no sum.
- `Execution`, `blocks`, `compute_in_parts`: ways to compute, and blocks of records.
- `map_digest`, `embedded_records`: two uses of a map on blocks.
- `map_execution`, `find_sound_execution`, `observed_dependence`: the probe.
"""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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

# Exact matrix products.


def exact_products() -> AbstractContextManager[Any]:
    """Returns a context in which torch's matrix products round no sum (G-06).

    Inside it, in this thread, an entry of a float32 product depends on its row and its
    column alone, whatever the other rows are; in backward passes too. For that, entries
    of the factors are cut to b bits, so that a product is off by about 2⁻ᵇ of the
    largest magnitudes: b is 21 for sums of up to 2048 terms, where float32 has 24.
    """
    mode: AbstractContextManager[Any] = _exact_products_mode()()
    return mode


def product(
    left: Float32[Tensor, "*batch n K"], right: Float32[Tensor, "*batch K m"]
) -> Float32[Tensor, "*batch n m"]:
    """Multiplies two matrices without rounding any sum (G-06).

    Each row of the left factor and each column of the right one is written as integers
    of b bits times a unit, with 2b + log₂ K ≤ 53. Then every sum of K products is an
    integer below 2⁵³. Float64 holds it exactly, in whichever order it is added.

    Args:
        left: Left factor.
        right: Right factor.

    Returns:
        The product; NaN where a row or a column has an entry that is not finite.
    """
    term_count = left.shape[-1]
    # Float64 has 53 bits. A product of two integers needs 2b of them, and a sum of K
    # products ⌈log₂ K⌉ more.
    bits = (53 - max(term_count - 1, 1).bit_length()) // 2
    rows, row_units = _as_integers(left, bits, dim=-1)
    columns, column_units = _as_integers(right, bits, dim=-2)
    return ((rows @ columns) * row_units * column_units).to(left.dtype)


def _as_integers(
    values: Float32[Tensor, "*shape"], bits: int, dim: int
) -> tuple[Float64[Tensor, "*shape"], Float64[Tensor, "..."]]:
    """Writes each row (or column) of a matrix as integers times a common unit.

    The unit is the power of two with which the largest value needs `bits` bits. All
    values are rounded toward zero to multiples of it.

    Args:
        values: The matrix, or a batch of matrices.
        bits: How many bits an integer may have.
        dim: Dimension along which values have the same unit: -1 for a unit for each
            row, -2 for a unit for each column.

    Returns:
        The integers, as float64, and the units, with one entry along `dim`. If a value
        is not finite, its unit is NaN and the integers are zeros, so that products with
        them are NaN.

    Example: for 5.0 and 1.3 with 3 bits, the largest is below 2³. So the unit is
    2³⁻³ = 1, and the integers are 5 and 1.
    """
    import torch

    if not values.shape[dim]:
        return values.double(), values.new_ones(()).double()
    largest = values.abs().amax(dim=dim, keepdim=True)
    is_finite = torch.isfinite(largest)
    # largest < 2^exponent
    exponents = torch.frexp(torch.where(is_finite, largest, 0.0))[1]
    integers = (
        torch.where(is_finite, values, 0.0)
        .double()
        .mul_(_power_of_two(bits - exponents))
        .trunc_()
    )
    units = torch.where(is_finite, _power_of_two(exponents - bits), torch.nan)
    return integers, units


def _power_of_two(exponents: Int[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Returns 2 to the exponents, exactly; torch's power function may round.

    The bits of a float64 are put together: the exponent, which is stored plus 1023,
    above the 52 bits of the fraction, which are zero for a power of two.

    Args:
        exponents: Integers from -1022 to 1023.
    """
    import torch

    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


@cache
def _exact_products_mode() -> Any:
    """Returns the class of the context that replaces torch's float32 matrix products.

    The class is defined in the first call of this function, since its base class is
    torch's, which is slow to import.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    products = {torch.ops.aten.mm.default, torch.ops.aten.bmm.default}
    # beta · addend + alpha · left @ right
    products_with_addend = {
        torch.ops.aten.addmm.default,
        torch.ops.aten.baddbmm.default,
    }

    class ExactProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Computes float32 matrix products by `product`, all else as usual."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            """Runs one operation of torch: a float32 product exactly, others as usual.

            Args:
                func: The operation.
                types: Types of the arguments; not used.
                args: Positional arguments of the operation.
                kwargs: Keyword arguments of the operation.
            """
            options = kwargs or {}
            if func in products and args[0].dtype == torch.float32:
                return product(*args)
            if func in products_with_addend and args[1].dtype == torch.float32:
                return self._product_with_addend(*args, **options)
            # In inference mode a layer arrives as one operation. It is decomposed in
            # this same context, so that its products arrive here too.
            is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(
                func.name(), "CompositeImplicitAutograd"
            )
            if is_composite:
                with self:
                    return func.decompose(*args, **options)
            return func(*args, **options)

        def _product_with_addend(
            self,
            addend: Any,
            left: Any,
            right: Any,
            *,
            alpha: float = 1,
            beta: float = 1,
        ) -> Any:
            """Returns beta · addend + alpha · left @ right."""
            result = product(left, right)
            if alpha != 1:
                result = result * alpha
            if beta == 0:  # the addend may be anything then, NaN too
                return result
            if beta == 1:
                return result + addend
            return result + addend * beta

    return ExactProducts


# Ways to compute, and blocks of records.

BLOCK_ROWS = 256
"""Records in the blocks with which maps are called. The last block is padded, since the
bits of a vector may depend on the shape of its block."""
assert BLOCK_ROWS <= BLOCK_LIMIT
BLOCK_NUMBERS = 7 * 2**20
"""Numbers that the vectors of a block have at most: 28 MB as float32. For larger arrays
the C library asks the system for memory again each time, which is slow."""
BLOCK_INTENSITIES = BLOCK_ROWS * 256 * 256 * 3
"""Intensities that the images of a block have at most: 400 MB as float64."""
PART_NUMBERS = 2**17
"""Numbers that the second half of a map (`SharingMap`) computes at once: so few that
what it needs meanwhile stays in the cache of a core."""

# Numbers of records of the smaller blocks that are tried if kernels round by position
# in large ones. Kernels handle rows in groups, and the last rows of a block
# differently. `test_a_map_that_rounds_by_place_in_large_blocks_gets_smaller_ones` needs
# the 32.
_SMALLER_BLOCKS = (128, 32, 8)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One way to compute the vectors of records: block by block, by some kernels."""

    rows: int
    """Number of records in a block. A block with fewer is padded to it."""
    exact: bool = False
    """Whether torch's matrix products are computed by `exact_products`, which rounds no
    sum; else by torch's own kernels."""
    threads: int = 1
    """Threads of torch; NumPy's matrix products always have one."""

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Is the context in which vectors are computed in this thread (G-06).

        The probe computes inside it, and so does everything that adds up records: what
        was tried is what is done.
        """
        with gate_threads(self.threads):
            if self.exact:
                with exact_products():
                    yield
            else:
                yield


def candidate_executions(rows: int, threads: int = 1) -> Iterator[Execution]:
    """Yields ways to compute, from the fastest to the surest.

    Args:
        rows: Largest number of records in a block.
        threads: Threads of torch.
    """
    if rows > 1:
        yield Execution(rows=rows, threads=threads)
        # Without torch there are no products of torch to make exact.
        uses_torch = "torch" in sys.modules
        for block_size in (rows, *_SMALLER_BLOCKS):
            if block_size <= rows:
                yield Execution(rows=block_size, exact=uses_torch, threads=threads)
    # Alone in its block, a record has neither neighbours nor another position.
    yield Execution(rows=1, threads=threads)


def block_rows(feature_map: FeatureMap, columns: int = 0) -> int:
    """Returns the largest number of records with which a map is called at once.

    Args:
        feature_map: The map.
        columns: Number of numeric columns of the records; of images, their intensities.

    Returns:
        256, halved until the vectors of a block have at most `BLOCK_NUMBERS` numbers,
        and its records at most `BLOCK_INTENSITIES`.
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
    """Splits records into blocks of a fixed number of rows, in order.

    Args:
        records: Any number of records.
        rows: Number of rows of a block.

    Yields:
        The records of a block, and the block padded to `rows` by repeating its last
        record; both row by row in memory. The caller leaves the padding out of sums.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.execution import blocks
        >>> from noisegate.schema import EncodedTable
        >>> numeric = np.array([[0.1], [0.2], [0.3]])
        >>> table = EncodedTable(numeric, np.zeros((3, 0), np.int32))
        >>> [padded.numeric[:, 0].tolist() for _, padded in blocks(table, 2)]
        [[0.1, 0.2], [0.3, 0.3]]
    """
    for start in range(0, len(records), rows):
        block = records.rows(slice(start, start + rows)).row_by_row()
        if len(block) < rows:
            padded = block.rows(np.minimum(np.arange(rows), len(block) - 1))
        else:
            padded = block
        yield block, padded


FirstHalves: TypeAlias = dict[int, tuple[Any, npt.NDArray[np.float32]]]
"""What the first halves of maps have returned for one block of records.

A `SharingMap` computes a vector in two halves, and several maps may have the same first
half. The key is the `id` of the first half. The value has the first half itself, which
thus stays alive so that no other object gets its `id`; and what it returned, (rows, …).
"""


def compute_vectors(
    feature_map: FeatureMap, block: EncodedTable, first_halves: FirstHalves
) -> npt.NDArray[np.float32]:
    """Computes the vectors of a block of records, to the bits that would be summed.

    Args:
        feature_map: The map.
        block: Records of a block, with its padding.
        first_halves: What first halves have returned for this block; what is computed
            now is added. Empty for a new block.

    Returns:
        The vectors, (rows, dim).
    """
    parts = [
        vectors for _, vectors in compute_in_parts(feature_map, block, first_halves)
    ]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts)


def compute_in_parts(
    feature_map: FeatureMap, block: EncodedTable, first_halves: FirstHalves
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Computes the vectors of a block of records, some rows at a time.

    A `SharingMap` computes in two halves. The first half is called once for all maps
    that share it, with the whole block; the second half with some rows at a time, so
    that what it needs stays in the cache of a core. Any other map is called once, with
    the whole block.

    Args:
        feature_map: The map.
        block: Records of a block, with its padding.
        first_halves: What first halves have returned for this block; what is computed
            now is added. Empty for a new block.

    Yields:
        The index of the first of some rows, and their vectors, (rows, dim). The number
        of rows is the same each time.
    """
    if not isinstance(feature_map, SharingMap):
        yield 0, feature_map(block)
        return
    first_half = feature_map.first_half
    # By identity, as first halves need not be hashable; see `FirstHalves`.
    if id(first_half) not in first_halves:
        values = first_half(block)
        # Other maps use these values too. A second half that wrote into them would
        # change the vectors of these maps; now it fails.
        values.setflags(write=False)
        first_halves[id(first_half)] = first_half, values
    values = first_halves[id(first_half)][1]

    rows = len(block)
    # Halved, and never uneven, as the bits of a vector may depend on the shape.
    while rows % 2 == 0 and rows * feature_map.dim > PART_NUMBERS:
        rows //= 2
    for start in range(0, len(block), rows):
        yield start, feature_map.second_half(values[start : start + rows])


# Uses of a map on blocks.

# Number of simulated records whose vectors identify a map.
_DIGEST_ROWS = 8
# Seed of these records. Journals hold digests of maps, so it must never change.
_DIGEST_SEED = 20261129


class Representation(NamedTuple):
    """A public map whose vectors take the place of the records' numeric columns.

    Attributes:
        feature_map: The map.
        execution: How it is computed.
    """

    feature_map: FeatureMap
    execution: Execution


def map_digest(feature_map: FeatureMap, layout: Layout, execution: Execution) -> str:
    """Hashes a feature map, by its vectors of a few simulated records.

    Args:
        feature_map: The map.
        layout: Columns of the simulated records.
        execution: How the map is computed.

    Returns:
        SHA-256 in hexadecimal; public. A different hash means a different map, or a
        machine or version of a package that computes it differently.
    """
    random = np.random.Generator(np.random.Philox(_DIGEST_SEED))
    records = made_up_records(layout, _DIGEST_ROWS, random)
    with execution.kernels(), np.errstate(all="ignore"):
        vectors = compute_vectors(feature_map, records, {})
    shape = f"{vectors.shape}:".encode()
    return hashlib.sha256(shape + np.ascontiguousarray(vectors).tobytes()).hexdigest()


def embedded_records(
    records: EncodedTable, feature_map: FeatureMap, execution: Execution | None = None
) -> EncodedTable:
    """Replaces the numeric columns of records by their vectors under a map.

    Args:
        records: Any number of records, also none.
        feature_map: The map from a record, with its codes, to its vector.
        execution: How the map is computed; None for blocks of `block_rows` records.

    Returns:
        Records with the vectors as their numeric columns, (records, dim), and their
        codes unchanged.

    Raises:
        OptionError: if the map returns another shape than it states.
        DataError: if it returns a number that is not finite.
    """
    map_name = type(feature_map).__name__
    if execution is None:
        used_execution = Execution(rows=block_rows(feature_map))
    else:
        used_execution = execution
    rows = used_execution.rows
    shape = (rows, feature_map.dim)

    vectors = np.empty((len(records), feature_map.dim), dtype=np.float32)
    for block_index, (block, padded_block) in enumerate(blocks(records, rows)):
        with used_execution.kernels():
            block_vectors = compute_vectors(feature_map, padded_block, {})
        if block_vectors.shape != shape:
            raise OptionError(
                f"{map_name}: a feature map returned shape {block_vectors.shape}, not "
                f"{shape}."
            )
        start = block_index * rows
        # Without the vectors of the padding.
        vectors[start : start + len(block)] = block_vectors[: len(block)]
    if not np.isfinite(vectors).all():
        raise DataError(
            f"{map_name}: a feature map gave numbers that are not finite for a record "
            "that the schema allows, for instance one with a missing value. Use a map "
            "that is finite for every record, or a schema that allows no such one."
        )
    return EncodedTable(vectors.astype(np.float64), records.codes)


# The probe: whether what is computed of a record depends on its neighbours or its
# position in a block.

ProbeResult: TypeAlias = tuple[list[bytes], npt.NDArray[np.float32]]
"""What was computed of some records: for each record its bits, as bytes; and the same
as numbers, (records, numbers), to measure by how much they change."""

ComputeBlock: TypeAlias = Callable[[Execution, EncodedTable, range], ProbeResult]
"""Computes a block in some way, and returns what was computed of the records at some of
its positions."""

# A change of at most this part of a vector's largest entry is taken for rounding:
# float32 rounds by 2⁻²⁴, and layers of a network magnify that. No guarantee depends on
# it. A change of any size makes a way unsound; this only decides whether other ways are
# worth trying.
_MAX_ROUNDING_CHANGE = 2.0**-8
# At least so many simulated records are tried, in as many blocks as they need: not
# every small block shows that kernels round by position.
_MIN_TRIED = 32
# About so many records fill a block with copies of themselves.
_MAX_COPIED_RECORDS = 8
# Seeds of the simulated records and of their order. They are fixed, so that a probe
# gives the same result each time.
_RECORDS_SEED = 20240229
_ORDER_SEED = 20240301


class Dependence(Enum):
    """What a record's vector was seen to depend on, beside the record itself."""

    NONE = "nothing"
    ROUNDING = "its neighbours or position, by as much as a sum rounds"
    MIXING = "its neighbours or position, by more than that"


def made_up_records(
    layout: Layout, rows: int, random: np.random.Generator
) -> EncodedTable:
    """Draws simulated records, uniformly from all that the schema allows.

    Args:
        layout: Columns of the records. Where values may be missing, a tenth of the
            numbers is.
        rows: Number of records.
        random: Draws the records.

    Returns:
        The records, which are public.
    """
    numeric = random.uniform(size=(rows, len(layout.numeric)))
    for index, column in enumerate(layout.numeric):
        if column.missing:
            numeric[random.uniform(size=rows) < 0.1, index] = np.nan
    code_columns = [
        random.integers(0, column.size, rows).astype(np.int32)
        for column in layout.coded
    ]
    if code_columns:
        codes = np.stack(code_columns, axis=1)
    else:
        codes = np.zeros((rows, 0), np.int32)
    return EncodedTable(numeric=numeric, codes=codes)


class Encoded:
    """A source of records in memory that are encoded already.

    Args:
        batches: The records, in batches of any size.
    """

    def __init__(self, batches: Iterable[EncodedTable]) -> None:
        self._batches = batches

    def batch_readers(self) -> Iterator[Callable[[], EncodedTable]]:
        """Yields a function for each batch, which returns its records."""
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
    """Probes a map: finds the fastest way to compute it that mixes no records.

    The vectors of simulated records are computed in differently arranged blocks. A way
    to compute is sound if no bit of a vector changes.

    Args:
        name: What messages call the map.
        feature_map: The map.
        layout: Columns of the simulated records.
        rows: Largest number of records in a block; None for `block_rows`.
        threads: Threads of torch, in the probe and in the way that is returned.

    Returns:
        The fastest sound way.

    Raises:
        OptionError: if the map mixes records, or returns another shape than it states.
    """

    def compute(
        execution: Execution, block: EncodedTable, positions: range
    ) -> ProbeResult:
        """Computes the vectors of a block, and returns those at some positions."""
        with execution.kernels():
            vectors = compute_vectors(feature_map, block, {})
        shape = (execution.rows, feature_map.dim)
        if vectors.shape != shape:
            raise OptionError(
                f"feature map {name!r} returned shape {vectors.shape}, not {shape}."
            )
        values = vectors[positions.start : positions.stop]
        return [row.tobytes() for row in values], values

    refusal = OptionError(
        f"feature map {name!r} gives a record another vector when its neighbours or "
        "its position change, so no sensitivity can be stated for it. Use evaluation "
        "mode and no layer that normalises over the batch."
    )
    max_rows = rows or block_rows(feature_map, len(layout.numeric))
    return find_sound_execution(
        max_rows,
        compute,
        partial(made_up_records, layout),
        name=name,
        refusal=refusal,
        threads=threads,
    )


def find_sound_execution(
    rows: int,
    compute: ComputeBlock,
    draw_records: Callable[[int, np.random.Generator], EncodedTable],
    *,
    name: str,
    refusal: OptionError,
    threads: int = 1,
) -> Execution:
    """Finds the fastest way to compute in which no record depends on another.

    Ways are tried in the order of `candidate_executions`, on simulated records. The
    first one is taken in which no bit changes when blocks are arranged differently. A
    warning is issued if that is the last one, one record at a time, which is slow.

    Args:
        rows: Largest number of records in a block.
        compute: Computes a block in a given way. It must compute inside
            `Execution.kernels`, as everything does that adds up records.
        draw_records: Draws a given number of simulated records.
        name: What the warning calls the map, or the gradients.
        refusal: The error to raise if no way is sound.
        threads: Threads of torch.

    Returns:
        The way that was taken.

    Raises:
        OptionError: `refusal`.
    """
    for execution in candidate_executions(rows, threads):
        # A new generator for each way, so that all ways begin with the same records.
        random = np.random.Generator(np.random.Philox(_RECORDS_SEED))
        dependence = observed_dependence(
            partial(compute, execution), partial(draw_records, execution.rows, random)
        )
        if dependence is Dependence.NONE:
            if execution.rows == 1 and rows > 1:
                _warn_of_slow_kernels(
                    name, execution, rows, compute, draw_records(rows, random)
                )
            return execution
        # Another way has other kernels, which may round differently. But a map that
        # mixes records does so in every way.
        if dependence is Dependence.MIXING:
            break
    raise refusal


def observed_dependence(
    compute: Callable[[EncodedTable, range], ProbeResult],
    draw_block: Callable[[], EncodedTable],
) -> Dependence:
    """Observes whether vectors change when the blocks of records are arranged again.

    A single bit that changes makes a way to compute unsound. Whether the change is
    rounding or mixing only decides whether other ways are tried. It is decided for each
    arrangement of a block, by the median change over the records that have changed,
    each relative to the largest entry of its vector: mixing is a median above 2⁻⁸. It
    is the median since rounding may change the vector of a single record by much, if it
    is at a kink of a network.

    What a change must keep: the sequence of draws, since a probe must give the same
    result each time. `test_a_map_that_mixes_records_is_refused`,
    `test_a_map_with_memory_is_refused` and the tests of maps that round by place, in
    the same file, notice wrong results.

    Args:
        compute: Computes a block, and returns what was computed of the records at some
            positions.
        draw_block: Draws the simulated records of one block, new ones in each call. It
            is called twice for each block that is tried: for the records whose vectors
            are compared, and for others that become their neighbours.

    Returns:
        What the vectors depend on. Mixing is returned at once, the other results after
        all blocks were tried.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.execution import observed_dependence
        >>> from noisegate.schema import EncodedTable
        >>> random = np.random.default_rng(0)
        >>> def draw_block():
        ...     return EncodedTable(random.random((16, 1)), np.zeros((16, 0), np.int32))
        >>> def minus_mean(weight):
        ...     def compute(block, positions):
        ...         numeric = block.numeric - weight * block.numeric.mean()
        ...         values = numeric.astype(np.float32)[positions]
        ...         return [row.tobytes() for row in values], values
        ...     return compute
        >>> for weight in (0, 1e-5, 1):
        ...     observed_dependence(minus_mean(weight), draw_block).name
        'NONE'
        'ROUNDING'
        'MIXING'
    """
    tried_count = 0
    dependence = Dependence.NONE
    # A map that divides by what it mixes in may divide by zero here.
    with np.errstate(all="ignore"):
        # One large block is enough; blocks of a single record are tried 32 times.
        while tried_count < _MIN_TRIED:
            records = draw_block()
            tried_count += len(records)
            original = compute(records, range(len(records)))
            for block, rows, positions in _arrangements(records, draw_block()):
                changes = _relative_changes(original, rows, compute(block, positions))
                if not changes:
                    continue
                # Where copies of one record fill a block, this is its change.
                if np.median(changes) > _MAX_ROUNDING_CHANGE:
                    return Dependence.MIXING
                # The search continues: another arrangement may show mixing.
                dependence = Dependence.ROUNDING
    return dependence


def _arrangements(
    records: EncodedTable, others: EncodedTable
) -> Iterator[tuple[EncodedTable, Sequence[int], range]]:
    """Arranges records in other blocks: reordered, among others, among copies.

    Each arrangement shows a dependence that another may hide. A map that subtracts the
    mean of its block gives the same vectors in another order, but not among others. A
    map that uses the next record changes only one vector of a half that moves, but
    nearly all in another order.

    A single record cannot be rearranged. It is computed again as it is, which shows a
    map that keeps something between calls.

    Args:
        records: The records of one block.
        others: As many other records.

    Yields:
        A block of the same size; the rows of those of `records` that are in it; and
        their positions in the block, in the same order.

    Example: the records a, b, c, d among others w, x, y, z, with the positions of the
    records in brackets::

        c a d b             reordered          (all)
        y z a b             first half moved   (2, 3)
        c d w x             second half moved  (0, 1)
        a a a a … d d d d   copies, a block of each of some records
    """
    rows = len(records)
    half = rows // 2
    first_half = slice(None, half)
    second_half = slice(half, None)

    random = np.random.Generator(np.random.Philox(_ORDER_SEED))
    order = random.permutation(rows).tolist()
    yield records.rows(order), order, range(rows)

    # Each half moves to the other end, beside new neighbours.
    yield (
        EncodedTable.concatenate([others.rows(second_half), records.rows(first_half)]),
        range(half),
        range(rows - half, rows),
    )
    yield (
        EncodedTable.concatenate([records.rows(second_half), others.rows(first_half)]),
        range(half, rows),
        range(rows - half),
    )

    # Blocks of one repeated record, in which nothing of other records is left that
    # could be mixed in. Only some of the records, as each takes a whole block.
    for row in range(0, rows, max(rows // _MAX_COPIED_RECORDS, 1)):
        yield records.rows([row] * rows), range(row, row + 1), range(row, row + 1)


def _relative_changes(
    original: ProbeResult, rows: Sequence[int], rearranged: ProbeResult
) -> list[float]:
    """Measures the changes of those vectors of which any bit has changed.

    Bits are compared, not numbers: zeros of different signs count as a change, and NaN
    of the same bits do not.

    Args:
        original: What was computed of all records of a block.
        rows: Rows of some of these records.
        rearranged: What was computed of these records in another block, in the order of
            `rows`.

    Returns:
        The change of each vector that has changed, by `_relative_change`; empty if none
        has.
    """
    old_bits, old_values = original
    new_bits, new_values = rearranged
    return [
        _relative_change(old_values[row], new_values[index])
        for index, row in enumerate(rows)
        if old_bits[row] != new_bits[index]
    ]


def _relative_change(
    left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]
) -> float:
    """Returns the largest change of an entry, relative to a vector's largest entry.

    Args:
        left: A vector, (numbers,).
        right: The same vector, computed again.

    Returns:
        The change; infinite where a number became infinite or NaN, or the reverse.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.execution import _relative_change
        >>> _relative_change(np.float32([1, 4]), np.float32([1, 3]))
        0.25
    """
    if not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return np.inf
    old_values = np.nan_to_num(left.astype(np.float64))
    new_values = np.nan_to_num(right.astype(np.float64))
    largest_change = np.abs(old_values - new_values).max(initial=0)
    largest_entry = np.abs(old_values).max(initial=0)
    # The change of a vector of zeros counts as very large.
    return float(largest_change / max(largest_entry, 1e-30))


def _warn_of_slow_kernels(
    name: str,
    single_record_execution: Execution,
    rows: int,
    compute: ComputeBlock,
    records: EncodedTable,
) -> None:
    """Warns that records are computed one at a time, and measures how slow that is.

    Args:
        name: What the warning calls the map, or the gradients.
        single_record_execution: The way to compute with one record in a block.
        rows: Number of records in the largest block that was tried.
        compute: Computes a block in a given way.
        records: Made-up records, as many as `rows`.
    """

    def seconds_per_record(execution: Execution, block: EncodedTable) -> float:
        """Measures how many seconds a block takes, divided by its records."""
        start = time.perf_counter()
        compute(execution, block, range(0))
        return (time.perf_counter() - start) / execution.rows

    single_seconds = seconds_per_record(single_record_execution, records.rows([0]))
    block_seconds = seconds_per_record(
        replace(single_record_execution, rows=rows), records
    )
    slowdown = max(single_seconds / block_seconds, 1)
    warnings.warn(
        f"{name}: this machine's kernels round by place in every block of 2 to {rows} "
        f"records, so records are computed one at a time, about {slowdown:.0f} times "
        "slower. The guarantee is the same; another processor, or another build of "
        "torch, is faster.",
        SlowKernelsWarning,
        stacklevel=3,
    )
