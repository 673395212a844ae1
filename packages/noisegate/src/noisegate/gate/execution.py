"""How vectors are computed on this machine, so that none depends on other records.

A record's vector must be a function of that record alone, bit for bit (G-06, G-20). Two
things could break that: a map that mixes records, such as a network with batch norm;
and kernels of matrix products, which may round a sum by the row's position in its
block.

So the gate calls every map with blocks of one fixed number of rows, and before the
first private record is read it tries the map on made-up records: in another order,
beside other neighbours, and among copies of themselves. A way to compute, `Execution`,
is sound if all bits stay the same. Ways are tried from the fastest to the surest::

    torch's own kernels, 256 rows
    exact_products, 256 rows
    exact_products, 128, 32, 8 rows
    1 row

What passes may differ between machines, and with it the last bits of results.

How to read it, in four parts:

- `exact_products`: matrix products that round no sum.
- `Execution`, `blocks`, `compute_in_parts`: the way to compute, and blocks of records.
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
    """Makes float32 matrix products of torch in this thread exact sums (G-06).

    An entry of a product then depends on its row and its column alone, whatever the
    other rows; backward passes too. Entries of the factors are first cut to b bits, so
    a product is off by about 2⁻ᵇ of the largest magnitudes, b = 21 for K ≤ 2048 terms
    in a sum (float32 has 24 bits).

    Returns:
        A context manager.
    """
    mode: AbstractContextManager[Any] = _exact_products_mode()()
    return mode


def product(
    left: Float32[Tensor, "*batch n K"], right: Float32[Tensor, "*batch K m"]
) -> Float32[Tensor, "*batch n m"]:
    """Multiplies two matrices without rounding any sum (G-06).

    Rows of the left and columns of the right factor are cut to integers of b bits, with
    2b + log₂ K ≤ 53. Then every sum of K products is an integer below 2⁵³, which
    float64 holds exactly, in whichever order it is added.

    Args:
        left: Left factor.
        right: Right factor.

    Returns:
        The product; NaN where a row or a column has an entry that is not finite.
    """
    term_count = left.shape[-1]
    # 53 bits are what float64 has; a sum of K terms needs ⌈log₂ K⌉ of them beside those
    # of a product.
    bits = (53 - max(term_count - 1, 1).bit_length()) // 2
    rows, row_units = _as_integers(left, bits, dim=-1)
    columns, column_units = _as_integers(right, bits, dim=-2)
    return ((rows @ columns) * row_units * column_units).to(left.dtype)


def _as_integers(
    values: Float32[Tensor, "*shape"], bits: int, dim: int
) -> tuple[Float64[Tensor, "*shape"], Float64[Tensor, "..."]]:
    """Writes values as integers times a unit, which is a power of two.

    All values along a dimension have one unit, so that the largest of them needs at
    most `bits` bits; the others are rounded toward zero.

    Args:
        values: The values.
        bits: How many bits an integer may have.
        dim: The dimension along which the unit is one.

    Returns:
        The integers, as float64, and the units, with one entry along `dim`: NaN if a
        value there is not finite. Then the integers are zeros, and the product is NaN
        by its unit.

    Example: of 5.0 and 1.3 with 3 bits, the largest is below 2³. So the unit is
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
    """Returns 2 to the exponents, exactly: torch's power function may round.

    The bits of a float64 are assembled: its exponent, which is stored plus 1023, 52
    bits from the right, and no fraction.

    Args:
        exponents: Integers from -1022 to 1023.
    """
    import torch

    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


@cache
def _exact_products_mode() -> Any:
    """Returns the class of the mode that replaces torch's float32 matrix products.

    It is defined when it is first asked for, as its base class is torch's, which is
    slow to import.
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
            """Runs one operation of torch."""
            options = kwargs or {}
            if func in products and args[0].dtype == torch.float32:
                return product(*args)
            if func in products_with_addend and args[1].dtype == torch.float32:
                return self._product_with_addend(*args, **options)
            # In inference mode a layer arrives here as one operation. It is taken
            # apart, and its products arrive here in turn.
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
"""Rows of the blocks that maps are called with, the last one padded: the bits of a
vector may depend on the shape of its block."""
assert BLOCK_ROWS <= BLOCK_LIMIT
BLOCK_NUMBERS = 7 * 2**20
"""Numbers that the vectors of a block have at most: 28 MB as float32, less than what
the C library asks of the system anew each time."""
BLOCK_INTENSITIES = BLOCK_ROWS * 256 * 256 * 3
"""Intensities that the images of a block have at most: 400 MB as float64."""
PART_NUMBERS = 2**17
"""Numbers that second halves compute at once: what they need on the way then stays in
the cache of a core."""

# Rows of the smaller blocks that are tried where kernels round by position in large
# ones: kernels handle rows in groups, and the last rows of a block in another way.
# `test_a_map_that_rounds_by_place_in_large_blocks_gets_smaller_ones` needs the 32.
_SMALLER_BLOCKS = (128, 32, 8)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One way to compute the vectors of records."""

    rows: int
    """Records in a block; the last one is padded."""
    exact: bool = False
    """Whether torch's matrix products round no sum."""
    threads: int = 1
    """Threads of torch; NumPy's BLAS has one."""

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Holds the context in which this thread computes (G-06).

        The probe and whoever adds up records compute in the same one.
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
        rows: How many records a block has at most.
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
    """Returns how many rows a map is called with at once, at most.

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
    """Yields records in blocks, in order.

    Args:
        records: Any number of records.
        rows: Rows of a block.

    Yields:
        The records of a block, and the same filled up to `rows` by repeating the last
        one; both row by row in memory. Whoever sums leaves the repeated ones out.

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

# Made-up records whose vectors identify a map.
_DIGEST_ROWS = 8
# Seeds the records of a digest. Journals hold digests, so it never changes.
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
    """Hashes a map by its vectors of a few made-up records, which are public.

    Args:
        feature_map: The map.
        layout: Columns of the made-up records.
        execution: How the map is computed.

    Returns:
        SHA-256 in hexadecimal. Another one means another map, or another machine or
        version that computes it differently.
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
    """Replaces the numeric columns of records by the vectors of a map.

    Args:
        records: Any number of records, also none.
        feature_map: The map; it sees the codes too.
        execution: How the map is computed; None for blocks of `block_rows`.

    Returns:
        Records with the vectors as their numeric columns, and their codes as they were.

    Raises:
        OptionError: if the map returns another shape than it states.
        DataError: if it returns a number that is not finite. Both name the map.
    """
    map_name = type(feature_map).__name__
    if execution is None:
        used_execution = Execution(rows=block_rows(feature_map))
    else:
        used_execution = execution
    rows = used_execution.rows
    shape = (rows, feature_map.dim)

    vectors = np.empty((len(records), feature_map.dim), dtype=np.float32)
    for number, (block, padded) in enumerate(blocks(records, rows)):
        with used_execution.kernels():
            block_vectors = compute_vectors(feature_map, padded, {})
        if block_vectors.shape != shape:
            raise OptionError(
                f"{map_name}: a feature map returned shape {block_vectors.shape}, not "
                f"{shape}."
            )
        vectors[number * rows :][: len(block)] = block_vectors[: len(block)]
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
"""What was computed of some records: for each, bytes that are equal if and only if all
its bits are, and the numbers that these bits are of, (records, numbers)."""

ComputeBlock: TypeAlias = Callable[[Execution, EncodedTable, range], ProbeResult]
"""Computes a block in some way, and returns what was computed of the records at some
positions of it."""

# A change by at most this part of a vector's largest entry is rounding: float32 rounds
# by 2⁻²⁴, and layers of a network magnify that. No guarantee depends on it: a change of
# any size makes a way unsound, and this only says whether another one is worth a trial.
_MAX_ROUNDING_CHANGE = 2.0**-8
# How many records are tried at least, in as many blocks as they need: in small blocks,
# not each shows rounding by position.
_MIN_TRIED = 32
# Of how many records, about, copies fill a whole block each.
_MAX_COPIED_RECORDS = 8
# Seed the made-up records, and their order, so that the probe decides alike each time.
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
    """Draws public records, uniformly from what the schema allows.

    Args:
        layout: The columns. A tenth of the numbers is missing where the schema allows
            it.
        rows: How many records.
        random: Draws them.
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
    """A source of records that are encoded already.

    Args:
        batches: The records, in batches of any size.
    """

    def __init__(self, batches: Iterable[EncodedTable]) -> None:
        self._batches = batches

    def batch_readers(self) -> Iterator[Callable[[], EncodedTable]]:
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
    """Finds the fastest way to compute a map in which no vector depends on others.

    Args:
        name: What messages call the map.
        feature_map: The map.
        layout: Columns of the made-up records that it is tried with.
        rows: How many records a block has at most; None for `block_rows`.
        threads: How many threads torch computes the map with, in the probe and in the
            way that is returned.

    Raises:
        OptionError: if the map mixes records, or returns another shape than it states.
    """

    def compute(
        execution: Execution, block: EncodedTable, positions: range
    ) -> ProbeResult:
        """Computes a block; the bits of a record are those of its vector."""
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

    Ways are tried in the order of `candidate_executions`, each with the same first
    records, and the first one without any change of bits is taken. Warns if that is one
    record at a time, which is slow.

    Args:
        rows: How many records a block has at most.
        compute: Computes a block in the way that is tried, inside its
            `Execution.kernels`, as whoever adds up records does.
        draw_records: Draws so many public records.
        name: What the warning calls that which is computed.
        refusal: The error to raise where no way is sound.
        threads: How many threads torch computes with.

    Raises:
        OptionError: `refusal`.
    """
    for execution in candidate_executions(rows, threads):
        # Anew for each way, so that what one way draws decides nothing for the next.
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
        # Rounding is a matter of the kernels, and another way may round otherwise. A
        # map that mixes records does so in every way.
        if dependence is Dependence.MIXING:
            break
    raise refusal


def observed_dependence(
    compute: Callable[[EncodedTable, range], ProbeResult],
    draw_block: Callable[[], EncodedTable],
) -> Dependence:
    """Compares what is computed of records when their blocks are arranged differently.

    A record has changed if any bit of what was computed of it has. One such change
    makes the way unsound. Whether it is rounding or mixing is decided for each
    arrangement of a block, by the median of the changes of those records that have
    changed, each relative to the largest entry of its vector: it is mixing if the
    median is above 2⁻⁸. The median, since single records may be at a kink of a network,
    where rounding moves a vector by much.

    What a change must keep: the sequence of draws, since a probe must decide alike each
    time. `test_a_map_that_mixes_records_is_refused`,
    `test_a_map_with_memory_is_refused` and the tests of maps that round by place, in
    the same file, watch over the decisions.

    Args:
        compute: Computes a block, and returns what was computed of the records at some
            positions.
        draw_block: Draws the public records of one block, each time others. It is
            called twice for each block that is tried: for its records, and for others
            that take the place of their neighbours.

    Returns:
        What the records' vectors depend on. Mixing is returned at once, rounding after
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
        # A large block is enough by itself; single records are tried 32 times.
        while tried_count < _MIN_TRIED:
            records = draw_block()
            tried_count += len(records)
            original = compute(records, range(len(records)))
            for block, rows, positions in _arrangements(records, draw_block()):
                changes = _relative_changes(original, rows, compute(block, positions))
                if not changes:
                    continue
                # Of one record that fills a block with its copies, this is its change.
                if np.median(changes) > _MAX_ROUNDING_CHANGE:
                    return Dependence.MIXING
                # The search goes on: another arrangement may show mixing.
                dependence = Dependence.ROUNDING
    return dependence


def _arrangements(
    records: EncodedTable, others: EncodedTable
) -> Iterator[tuple[EncodedTable, Sequence[int], range]]:
    """Arranges records in other blocks: reordered, among others, among copies.

    Each shows what the others may hide. A map that takes in the mean of its block gives
    all records the same vectors in another order; one that takes in only the next
    record changes a single vector of a half that moves.

    Of a single record, nothing can be rearranged. It is computed again as it is, which
    shows a map that has a memory.

    Args:
        records: The records of one block.
        others: As many other records.

    Yields:
        A block of the same size, rows of those records that stand in it, and their
        positions in it, in the same order.

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

    # Blocks of one repeated record: nothing of the others is left that could be mixed
    # in. Some of the records are enough, as each takes a whole block.
    for row in range(0, rows, max(rows // _MAX_COPIED_RECORDS, 1)):
        yield records.rows([row] * rows), range(row, row + 1), range(row, row + 1)


def _relative_changes(
    original: ProbeResult, rows: Sequence[int], rearranged: ProbeResult
) -> list[float]:
    """Returns by how much those vectors changed of which a bit has changed.

    Bits decide, as two zeros of different signs are different vectors, and two NaN of
    the same bits are not.

    Args:
        original: What was computed of all records of a block.
        rows: Rows of some of these records.
        rearranged: What was computed of those records in another block, in the order of
            `rows`.

    Returns:
        The changes by `_relative_change`, of those that changed alone; empty if none
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
    # A vector of zeros that changes counts as changed by very much.
    return float(largest_change / max(largest_entry, 1e-30))


def _warn_of_slow_kernels(
    name: str,
    single: Execution,
    rows: int,
    compute: ComputeBlock,
    records: EncodedTable,
) -> None:
    """Warns that records are computed one at a time, and measures how slow that is.

    Args:
        name: What is computed.
        single: The way of one record at a time.
        rows: How many records a block would have had.
        compute: Computes a block.
        records: So many public records.
    """

    def seconds_per_record(execution: Execution, block: EncodedTable) -> float:
        """Measures how long a block takes, by record."""
        start = time.perf_counter()
        compute(execution, block, range(0))
        return (time.perf_counter() - start) / execution.rows

    single_seconds = seconds_per_record(single, records.rows([0]))
    block_seconds = seconds_per_record(replace(single, rows=rows), records)
    slowdown = max(single_seconds / block_seconds, 1)
    warnings.warn(
        f"{name}: this machine's kernels round by place in every block of 2 to {rows} "
        f"records, so records are computed one at a time, about {slowdown:.0f} times "
        "slower. The guarantee is the same; another processor, or another build of "
        "torch, is faster.",
        SlowKernelsWarning,
        stacklevel=3,
    )
