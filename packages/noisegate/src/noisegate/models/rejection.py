"""Rejection sampling: draws records until enough of them are accepted.

Candidates are drawn from a model; those that break a rule, or lie outside a condition,
are rejected. Rejection has no natural end where hardly any candidate is accepted, and
the budget is spent by then. So the work is limited before the first draw, by the number
of records alone::

    at most max_candidates(n) = 1,048,576 + 100 n candidates are drawn for n records

- `accepted_batches` yields all records or raises a `RejectionError`, which says which
  rules reject how much. It serves whoever hands records out.
- `accepted_within` returns what a limit gave. It serves whoever looks at a model, such
  as its public page.
- `rejecting_rules`, `describe_rules` and `verdict_of_rules` say what rejection means
  for the use of a model: it shifts the columns that rules name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.answers.findings import Scale, VerdictFinding
from noisegate.answers.verdict import Verdict, Word
from noisegate.errors import OptionError
from noisegate.schema import EncodedTable, Schema
from noisegate.seeds import permutation

if TYPE_CHECKING:
    import torch

Accept: TypeAlias = Callable[[EncodedTable], npt.NDArray[np.bool_]]
"""Returns which records are accepted, (rows,)."""

RejectionRate: TypeAlias = tuple[str, float]
"""A rule in words, and the share of records that break it, from 0 to 1."""

BATCH_ROWS = 16_384
"""Records of a batch, at most."""

# Enough for 100 records of a condition that 1 in 10,000 candidates meets.
BASE_CANDIDATES = 2**20
# Where fewer than 1 in 100 is accepted, many records take hours, and they are no sample
# of the model any more.
CANDIDATES_PER_RECORD = 100
# After so many candidates the accepted share is known well enough to refuse at once
# what cannot succeed.
PROBE_CANDIDATES = 8 * BATCH_ROWS

# Drawing rejected records again shifts what was measured, the more the fewer are kept.
# Below these shares a model is no better than the word.
USUALLY_KEPT = 0.5  # usable
_SELDOM_KEPT = 0.1  # rough
_HARDLY_KEPT = 0.01  # noise

_MAX_NAMED_RULES = 3


class RejectionError(OptionError):
    """Too few of the records that a model draws are accepted."""


class Draws(Protocol):
    """What candidates are drawn from, such as a `RecordModel`."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Draws `rows` records."""
        ...


@dataclass(kw_only=True)
class Tally:
    """Counts of one search for records, which grow while it runs."""

    drawn: int = 0  # candidates
    accepted: int = 0  # of these
    # Accepted records that were returned; those beyond the number wanted are dropped.
    yielded: int = 0
    # The candidates of the last draw, from which an error tells what rejects them.
    last_candidates: EncodedTable | None = None

    @property
    def share(self) -> float:
        """The share of candidates that was accepted; 1 before any was drawn."""
        return self.accepted / self.drawn if self.drawn else 1.0


def max_candidates(rows: int) -> int:
    """Returns how many candidates are drawn at most for a number of records.

    Examples:
        >>> from noisegate.models.rejection import max_candidates
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
        accept: Which candidates are accepted; None for all.
        requested: What `accept` requires, in words, for the error.
        explain: Says of some candidates in a sentence what rejects them, for the error.
        batch_rows: The most records of a batch; all batches but the last have as many.

    Raises:
        RejectionError: if `max_candidates` do not give all records. It is raised as
            soon as that is clear, after some batches perhaps.
    """
    if accept is None:
        for start in range(0, rows, batch_rows):
            yield model.draw(min(batch_rows, rows - start), random)
        return

    tally = Tally()
    limit = max_candidates(rows)
    yield from _search(
        model, rows, random, accept, tally, limit, batch_rows, required_rows=rows
    )
    if tally.yielded < rows:
        reasons = ""
        if tally.last_candidates is not None:
            reasons = explain(tally.last_candidates)
        if reasons:
            reasons += " "
        raise RejectionError(
            f"{requested}: of {tally.drawn:,} candidates that the model drew only "
            f"{tally.accepted:,} did (about {tally.share:.1g}), and {rows:,} records "
            f"are wanted. At most {limit:,} candidates are drawn for so many. "
            f"{reasons}Ask for fewer records or for fewer conditions."
        )


def accepted_within(
    model: Draws,
    rows: int,
    random: torch.Generator,
    *,
    accept: Accept,
    limit: int,
) -> tuple[EncodedTable, Tally]:
    """Returns accepted records of a model, as far as a number of candidates gives them.

    They are the first ones that `accepted_batches` yields for the same randomness.

    Args:
        model: What candidates are drawn from.
        rows: The most records.
        random: Public randomness, on the CPU.
        accept: Which candidates are accepted.
        limit: The most candidates.

    Returns:
        The records, of which there may be none, and the counts of the search.
    """
    tally = Tally()
    batches = list(_search(model, rows, random, accept, tally, limit, BATCH_ROWS))
    if not batches:
        no_records = model.draw(1, random).rows(slice(0, 0))
        return no_records, tally
    return EncodedTable.concatenate(batches), tally


def _search(
    model: Draws,
    rows: int,
    random: torch.Generator,
    accept: Accept,
    tally: Tally,
    limit: int,
    batch_rows: int,
    *,
    required_rows: int = 0,
) -> Iterator[EncodedTable]:
    """Yields accepted records, fewer than `rows` where candidates run out.

    Args:
        model: What candidates are drawn from.
        rows: Number of records that are wanted.
        random: Public randomness, on the CPU.
        accept: Which candidates are accepted.
        tally: Counts, which are brought up to date before each batch is yielded.
        limit: The most candidates.
        batch_rows: The most records of a batch.
        required_rows: Number of records below which the search is of no use. It ends
            early where so many are out of reach.
    """
    for start in range(0, rows, batch_rows):
        wanted_rows = min(batch_rows, rows - start)
        parts: list[EncodedTable] = []
        accepted_rows = 0
        while accepted_rows < wanted_rows and not _is_hopeless(
            tally, limit, required_rows
        ):
            # As many as should do, by the share that was accepted so far. The surplus
            # is dropped, which favours no record.
            estimated_share = (tally.accepted + 1) / (tally.drawn + 1)
            sufficient = int((wanted_rows - accepted_rows) / estimated_share) + 1
            candidate_count = min(batch_rows, sufficient, limit - tally.drawn)
            candidates = model.draw(candidate_count, random)
            accepted = candidates.rows(accept(candidates))
            tally.drawn += len(candidates)
            tally.accepted += len(accepted)
            tally.last_candidates = candidates
            parts.append(accepted)
            accepted_rows += len(accepted)
        if not parts:
            return
        batch = EncodedTable.concatenate(parts).rows(slice(0, wanted_rows))
        tally.yielded += len(batch)
        yield batch
        if len(batch) < wanted_rows:
            return


def _is_hopeless(tally: Tally, limit: int, required_rows: int) -> bool:
    """Returns whether the limit is reached, or far too low for the records needed."""
    if tally.drawn >= limit:
        return True
    # Half of the records needed is far below chance where the accepted share follows
    # from so many candidates.
    is_share_known = tally.drawn >= PROBE_CANDIDATES
    return is_share_known and tally.share * limit < required_rows / 2


def mix_batches(
    iterators: Sequence[Iterator[EncodedTable]], random: torch.Generator
) -> Iterator[EncodedTable]:
    """Shuffles batches of several iterators together, one of each at a time.

    Args:
        iterators: Batches of records, of any lengths. Those of a single iterator are
            yielded as they are.
        random: Public randomness, on the CPU.

    Yields:
        Records of the next batch of every iterator that has one, in random order.
    """
    if len(iterators) == 1:
        yield from iterators[0]
        return
    for batches in zip_longest(*iterators):
        records = EncodedTable.concatenate(
            [batch for batch in batches if batch is not None]
        )
        yield records.rows(permutation(random, len(records)))


def rejecting_rules(schema: Schema, records: EncodedTable) -> list[RejectionRate]:
    """Returns the rules of a schema that some records break.

    Args:
        schema: Schema of the records.
        records: Any number of records.

    Returns:
        Each rule that is broken, with the share of the records that break it; the one
        that is broken most often comes first.
    """
    if not len(records):
        return []
    return rejection_rates(schema.broken_rules(records))


def rejection_rates(
    broken_rules: Sequence[tuple[str, npt.NDArray[np.bool_]]],
) -> list[RejectionRate]:
    """Returns the share of records that break each rule, the largest first.

    Args:
        broken_rules: Rules as text, each with the records that break it, (records,).
    """
    rates = [(rule, float(is_broken.mean())) for rule, is_broken in broken_rules]
    return sorted(rates, key=lambda rate: -rate[1])


def explain_rejection(rules: Sequence[RejectionRate]) -> str:
    """Returns a sentence on which rules reject candidates, and what helps.

    It is empty if there are no rules.
    """
    if not rules:
        return ""
    return (
        f"Of the last ones {describe_rules(rules)}: a schema without the worst rules "
        "takes another fit."
    )


def describe_rules(rules: Sequence[RejectionRate]) -> str:
    """Describes which rules reject most, three of them by name.

    Args:
        rules: What `rejecting_rules` returned.

    Examples:
        >>> from noisegate.models.rejection import describe_rules
        >>> describe_rules([("walk <= game", 0.15), ("double <= hit", 0.123)])
        "'walk <= game' rejects 15.0%, 'double <= hit' 12.3%"
    """
    descriptions = []
    for index, (rule, share) in enumerate(rules[:_MAX_NAMED_RULES]):
        verb = "rejects " if index == 0 else ""
        descriptions.append(f"'{rule}' {verb}{share:.1%}")
    unnamed_count = len(rules) - _MAX_NAMED_RULES
    if unnamed_count > 0:
        descriptions.append(f"and {unnamed_count} more rules reject some")
    return ", ".join(descriptions)


def verdict_of_rules(
    kept_share: float, rules: Sequence[RejectionRate], table: str = ""
) -> Verdict | None:
    """Judges a model by how many of its records keep to the rules of the schema.

    Args:
        kept_share: Share of the model's records that break no rule, from 0 to 1.
        rules: What `rejecting_rules` returned of the model's records.
        table: Name of the table if there are several, for the reason.

    Returns:
        A verdict of "usable" at best, "rough" below a tenth and "noise" below a
        hundredth; None where at least half of the records keep to the rules.
    """
    if kept_share >= USUALLY_KEPT:
        return None
    word: Word = "usable"
    if kept_share < _HARDLY_KEPT:
        word = "noise"
    elif kept_share < _SELDOM_KEPT:
        word = "rough"
    of_table = f"of {table} " if table else ""
    reason = (
        f"only {100 * kept_share:.2g}% of the records {of_table}that the model "
        f"draws satisfy the rules of the schema ({describe_rules(rules)}); the "
        "others are drawn again, which shifts the columns that rules name"
    )
    cure = (
        "the schema without the rules that reject most, more records, or a larger "
        "epsilon"
    )
    return Verdict(
        word=word,
        source="fit",
        reasons=(reason,),
        cures=(cure,),
        figures={"kept_share": kept_share},
        findings=(
            VerdictFinding(
                question="relations and rules",
                answer=Scale(kept=USUALLY_KEPT, lost=_HARDLY_KEPT).answer(kept_share),
                detail=(
                    f"{100 * kept_share:.2g}% of the model's records {of_table}keep "
                    "them; the others are drawn again"
                ),
            ),
        ),
    )
