"""The α-way marginals of the papers: how far two tables of discrete codes are apart.

DP-MERF (Harder et al. 2021, supplement M.2) and DP-HP (Vinaroz et al. 2022, Section 5.2) report, after PrivBayes
(Zhang et al. 2017), the mean total variation distance over all marginals of α columns of a discretised table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.errors import DataError
from noisegate.schema import Ordinal
from noisegate_evaluate import MarginalReport, marginal_distances


def code_distances(
    synthetic: np.ndarray,
    real: np.ndarray,
    sizes: Mapping[str, int],
    *,
    orders: Sequence[int] = (2, 3, 4),
    max_subsets: int | None = None,
    seed: int = 0,
) -> MarginalReport:
    """Measure the mean total variation distance over the α-way marginals of two tables of codes.

    Args:
        synthetic: integer codes, one row per record, one column per entry of ``sizes``.
        real: the same of the real table.
        sizes: names of the columns, and how many codes each has: codes are 0 .. size-1. Public knowledge.
        orders: the values of α.
        max_subsets: above α = 2, at most this many marginals, drawn with ``seed``; default: all, as in the papers.
        seed: of that draw; public.

    Raises:
        DataError: an array has another shape, no rows, or a code outside its column's range.
        OptionError: an order or ``max_subsets`` below 1.
    """
    tables = []
    for codes, what in ((synthetic, "synthetic"), (real, "real")):
        _check(codes, what, sizes)
        tables.append(pa.table(dict(zip(sizes, codes.T, strict=True))))
    return marginal_distances(
        *tables, code_schema(sizes), orders=orders, max_subsets=max_subsets, seed=seed
    )


def code_schema(sizes: Mapping[str, int]) -> Schema:
    """Returns the schema of a table of codes, 0 .. size-1 in each column."""
    return Schema(
        tuple(
            Ordinal(name=name, levels=tuple(range(size)))
            for name, size in sizes.items()
        )
    )


def _check(codes: np.ndarray, what: str, sizes: Mapping[str, int]) -> None:
    if (
        codes.ndim != 2
        or codes.shape[1] != len(sizes)
        or not np.issubdtype(codes.dtype, np.integer)
    ):
        raise DataError(
            f"the {what} table of codes has shape {codes.shape} and type {codes.dtype}; expected integers in "
            f"{len(sizes)} columns"
        )
    for i, (name, size) in enumerate(sizes.items()):
        if len(codes) and (codes[:, i].min() < 0 or codes[:, i].max() >= size):
            raise DataError(
                f"column {name!r} of the {what} table has a code outside 0 .. {size - 1}"
            )
