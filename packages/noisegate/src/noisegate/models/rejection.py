"""Rejection sampling: records that a model draws, without those that break a rule or lie outside a condition.

Rejection has no natural end where hardly any record is accepted, and the budget is spent by then. So the work is
limited before the first draw, by a number that the number of records alone decides:

    at most max_candidates(n) = 1,048,576 + 100 n candidates are drawn for n records.

Whoever hands records out gets all of them or a `RejectionError` that says which rules reject how much. Whoever looks
at a model, such as its public page, takes what the limit gave and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.answers.verdict import Verdict, Word
from noisegate.errors import OptionError
from noisegate.schema import EncodedTable, Schema
from noisegate.seeds import permutation

if TYPE_CHECKING:
    import torch

Accept: TypeAlias = Callable[[EncodedTable], npt.NDArray[np.bool_]]
"""Says which records may be kept, (rows,)."""

BATCH_ROWS = 16_384

# A few records of a rare condition take this many candidates: 1 in 10,000 accepted is enough for 100 records.
BASE_CANDIDATES = 2**20
# Many records of which fewer than 1 in 100 is accepted are no sample of the model any more, and take hours.
CANDIDATES_PER_RECORD = 100
# After so many candidates the share that is accepted is known well enough to refuse at once what cannot succeed.
PROBE_CANDIDATES = 8 * BATCH_ROWS

# Below these shares of records that keep to the rules a model is no better than the word: drawing again then shifts
# what was measured, the more the fewer are kept.
USUALLY_KEPT, _SELDOM_KEPT, _HARDLY_KEPT = 0.5, 0.1, 0.01

_MAX_NAMED_RULES = 3


class RejectionError(OptionError):
    """Too few of the records that a model draws are accepted."""


class Draws(Protocol):
    """What records are drawn from."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records."""
        ...


@dataclass(kw_only=True)
class Tally:
    """How many candidates were drawn, how many of them were accepted, and how many were yielded."""

    drawn: int = 0
    accepted: int = 0
    yielded: int = 0  # accepted ones beyond the last that is wanted are dropped
    last_candidates: EncodedTable | None = None
    """Some of the candidates, which tell what rejects them."""

    @property
    def share(self) -> float:
        """The share of candidates that was accepted; 1 before any was drawn."""
        return self.accepted / self.drawn if self.drawn else 1.0


def max_candidates(rows: int) -> int:
    """Returns how many candidates are drawn at most for a number of records.

    Examples:
        >>> max_candidates(1), max_candidates(10_000)
        (1048676, 2048576)
    """
    return BASE_CANDIDATES + CANDIDATES_PER_RECORD * rows


def accepted_batches(
    model: Draws,
    rows: int,
    random: torch.Generator,
    *,
    accept: Accept | None,
    requested: str,
    explain: Callable[[EncodedTable], str] = lambda candidates: "",
    batch_rows: int = BATCH_ROWS,
) -> Iterator[EncodedTable]:
    """Yields accepted records of a model in batches, in constant memory.

    Args:
        model: What candidates are drawn from.
        rows: Number of records.
        random: Public randomness, on the CPU.
        accept: Which candidates may be kept; None for all.
        requested: What `accept` asks for, in words, for the error.
        explain: Says of some candidates what rejects them, for the error.
        batch_rows: Number of records of a batch, at most.

    Raises:
        RejectionError: if `max_candidates` do not give all records; as soon as that is clear.
    """
    if accept is None:
        for start in range(0, rows, batch_rows):
            yield model.draw(min(batch_rows, rows - start), random)
        return
    tally = Tally()
    limit = max_candidates(rows)
    yield from _accept(
        model, rows, random, accept, tally, limit, batch_rows, expected=rows
    )
    if tally.yielded < rows:
        reasons = (
            "" if tally.last_candidates is None else explain(tally.last_candidates)
        )
        raise RejectionError(
            f"{requested}: of {tally.drawn:,} candidates that the model drew only {tally.accepted:,} did (about "
            f"{tally.share:.1g}), and {rows:,} records are wanted. At most {limit:,} candidates are drawn for so many. "
            f"{reasons}{' ' if reasons else ''}Ask for fewer records or for fewer conditions."
        )


def accepted_within(
    model: Draws,
    rows: int,
    random: torch.Generator,
    *,
    accept: Accept,
    limit: int,
) -> tuple[EncodedTable, Tally]:
    """Returns accepted records of a model, fewer than `rows` where so many candidates give no more.

    They are the first ones that `accepted_batches` yields for the same randomness.
    """
    tally = Tally()
    batches = list(_accept(model, rows, random, accept, tally, limit, BATCH_ROWS))
    if not batches:
        return model.draw(1, random).rows(slice(0, 0)), tally
    return EncodedTable.concatenate(batches), tally


def _accept(
    model: Draws,
    rows: int,
    random: torch.Generator,
    accept: Accept,
    tally: Tally,
    limit: int,
    batch_rows: int,
    *,
    expected: int = 0,
) -> Iterator[EncodedTable]:
    """Yields accepted records, and fewer than `rows` where the limit is reached or `expected` ones are out of reach."""
    for start in range(0, rows, batch_rows):
        wanted = min(batch_rows, rows - start)
        parts: list[EncodedTable] = []
        found = 0
        while found < wanted and not _is_hopeless(tally, limit, expected):
            # As many as should do, by what was accepted so far; the surplus is dropped, which favours no record.
            share = (tally.accepted + 1) / (tally.drawn + 1)
            count = min(
                batch_rows, int((wanted - found) / share) + 1, limit - tally.drawn
            )
            candidates = model.draw(count, random)
            records = candidates.rows(accept(candidates))
            tally.drawn += len(candidates)
            tally.accepted += len(records)
            tally.last_candidates = candidates
            parts.append(records)
            found += len(records)
        if not parts:
            return
        batch = EncodedTable.concatenate(parts).rows(slice(0, wanted))
        tally.yielded += len(batch)
        yield batch
        if len(batch) < wanted:
            return


def _is_hopeless(tally: Tally, limit: int, expected: int) -> bool:
    """Returns whether the limit is reached, or is far too low for as many records as are expected."""
    if tally.drawn >= limit:
        return True
    # Half of what is expected is far below chance where the share follows from so many candidates.
    return tally.drawn >= PROBE_CANDIDATES and tally.share * limit < expected / 2


def mixed(
    parts: Sequence[Iterator[EncodedTable]], random: torch.Generator
) -> Iterator[EncodedTable]:
    """Yields one batch of each of several iterators, shuffled together, until all are done; one alone as it is."""
    if len(parts) == 1:
        yield from parts[0]
        return
    for batches in zip_longest(*parts):
        together = EncodedTable.concatenate(
            [batch for batch in batches if batch is not None]
        )
        yield together.rows(permutation(random, len(together)))


def rejecting_rules(schema: Schema, records: EncodedTable) -> list[tuple[str, float]]:
    """Returns the rules that records break, and the share that breaks each, those that reject most first."""
    if not len(records):
        return []
    shares = [
        (
            str(rule),
            float(rule.broken(records, schema.layout, schema.missing_values).mean()),
        )
        for rule in schema.constraints
    ]
    return sorted(
        ((rule, share) for rule, share in shares if share > 0), key=lambda one: -one[1]
    )


def explain_rejection(rules: Sequence[tuple[str, float]]) -> str:
    """Returns in sentences which rules reject candidates, and what helps; nothing where none does."""
    if not rules:
        return ""
    return f"Of the last ones {describe_rules(rules)}: a schema without the worst rules takes another fit."


def describe_rules(rules: Sequence[tuple[str, float]]) -> str:
    """Returns in words which rules reject most.

    Examples:
        >>> describe_rules([("walk <= game", 0.15), ("double <= hit", 0.123)])
        "'walk <= game' rejects 15.0%, 'double <= hit' 12.3%"
    """
    named = [
        f"'{rule}' {'rejects ' * (not index)}{share:.1%}"
        for index, (rule, share) in enumerate(rules)
    ]
    others = len(named) - _MAX_NAMED_RULES
    return ", ".join(named[:_MAX_NAMED_RULES]) + (
        f", and {others} more rules reject some" if others > 0 else ""
    )


def verdict_of_rules(
    kept_share: float, rules: Sequence[tuple[str, float]], table: str = ""
) -> Verdict | None:
    """Returns what is said of a model by the share of its records that keep to the rules; None where most do."""
    if kept_share >= USUALLY_KEPT:
        return None
    word: Word = "usable"
    if kept_share < _HARDLY_KEPT:
        word = "noise"
    elif kept_share < _SELDOM_KEPT:
        word = "rough"
    of_table = f"of {table} " if table else ""
    reason = (
        f"only {100 * kept_share:.2g}% of the records {of_table}that the model draws keep to the rules of the schema "
        f"({describe_rules(rules)}); the others are drawn again, which shifts the columns that rules name"
    )
    cure = "the schema without the rules that reject most, more records, or a larger epsilon"
    return Verdict(
        word=word,
        source="fit",
        reasons=(reason,),
        cures=(cure,),
        figures={"kept_share": kept_share},
    )
