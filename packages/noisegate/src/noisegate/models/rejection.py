"""Records of a model that are as they were asked for: others are drawn again, in batches, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.models.record_model import RecordModel
from noisegate.schema import EncodedTable
from noisegate.seeds import permutation

if TYPE_CHECKING:
    import torch

Accept: TypeAlias = Callable[[EncodedTable], npt.NDArray[np.bool_]]

BATCH_ROWS = 16_384
LEAST_ACCEPTANCE = 1e-4
# At the least acceptance this is 13 records on average: few enough to be quick, enough to tell 1e-4 from 1e-5.
PROBE_ROWS = 8 * BATCH_ROWS


def accepted_batches(
    model: RecordModel,
    rows: int,
    random: torch.Generator,
    *,
    accept: Accept | None,
    asked: str,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[EncodedTable]:
    """Yields `rows` records of `model` that are accepted, in batches of at most `batch_rows`, in constant memory.

    `accept` says which records may be kept, None for all, and `asked` what it asks, in words.

    Raises:
        OptionError: if fewer than one in 10,000 records are accepted.
    """
    drawn = kept = 0
    for start in range(0, rows, batch_rows):
        wanted = min(batch_rows, rows - start)
        if accept is None:
            yield model.draw(wanted, random)
            continue
        parts: list[EncodedTable] = []
        found = 0
        while found < wanted:
            # As many as should do, by what was accepted so far; the surplus is dropped, which favours no record.
            share = (kept + 1) / (drawn + 1)
            records = model.draw(min(batch_rows, int((wanted - found) / share) + 1), random)
            accepted = records.rows(accept(records))
            drawn, kept = drawn + len(records), kept + len(accepted)
            if drawn >= PROBE_ROWS and kept < LEAST_ACCEPTANCE * drawn:
                raise OptionError(
                    f"{asked}: of {drawn:,} synthetic records only {kept:,} did, a probability of about "
                    f"{kept / drawn:.1g}; below {LEAST_ACCEPTANCE:g} none are made. Ask for less at once."
                )
            parts.append(accepted)
            found += len(accepted)
        yield EncodedTable.concatenate(parts).rows(slice(0, wanted))


def mixed(parts: Sequence[Iterator[EncodedTable]], random: torch.Generator) -> Iterator[EncodedTable]:
    """Yields one batch of each of several iterators, shuffled together, until all are done; one alone as it is."""
    if len(parts) == 1:
        yield from parts[0]
        return
    for batches in zip_longest(*parts):
        together = EncodedTable.concatenate([batch for batch in batches if batch is not None])
        yield together.rows(permutation(random, len(together)))
