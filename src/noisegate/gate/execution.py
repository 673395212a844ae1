"""How vectors and gradients are computed on a machine: in blocks of how many records, and with which kernels.

A record's vector must be a function of that record alone, bit for bit (G-06, G-20). Kernels of matrix products may
round a sum by the place of a row in its block; which do, and at which sizes, differs between processors. So before the
first private record is read, made-up ones are tried (`gate.independence`) in these ways, until one passes:

1. the block that was asked for, with torch's own kernels;
2. the same block, then smaller ones, with matrix products that round no sum (`gate.exact_products`). Not smaller blocks
   with torch's own: kernels that were seen to round by place once are not trusted on the word of another probe;
3. one record at a time, which has no neighbours.

Where kernels are good the first one passes, and nothing is slower. What is found may differ between machines, and with
it the last bits of results; that a record's vector depends on that record alone may not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from noisegate.gate.exact_products import exact_products

_SMALLER = (128, 32, 8)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One way to compute.

    Attributes:
        rows: Records in a block; the last one is padded.
        exact: Whether torch's matrix products round no sum.
    """

    rows: int
    exact: bool = False

    def kernels(self) -> AbstractContextManager[Any]:
        """Returns the context in which this thread is to compute."""
        return exact_products() if self.exact else nullcontext()


def executions(rows: int) -> Iterator[Execution]:
    """Yields ways to compute, from the fastest to the surest.

    Args:
        rows: Records in a block, at most.

    >>> [(way.rows, way.exact) for way in executions(1)]
    [(1, False)]
    """
    if rows > 1:
        yield Execution(rows=rows)
        # What was computed without torch has no products of torch.
        exact = "torch" in sys.modules
        yield from (Execution(rows=block, exact=exact) for block in (rows, *_SMALLER) if block <= rows)
    yield Execution(rows=1)
