"""What Tab-PE and Private Evolution share: rounds of votes for public candidates (G-13, G-25).

In each round a record adds 1 to one candidate (G-25), however candidates follow from earlier answers (G-13).
"""

from __future__ import annotations

from typing import Annotated

from noisegate.privacy.plan import Query
from noisegate.settings import Count, Within

MAX_CANDIDATES = 20_000
Candidates = Annotated[
    int,
    Within(ge=2, le=MAX_CANDIDATES),
    f"a whole number from 2 to {MAX_CANDIDATES:,}; time grows with it",
]
RoundCount = Annotated[int, Within(ge=1, le=1000), "a whole number from 1 to 1000"]


def round_names(rounds: Count) -> tuple[str, ...]:
    """Returns the name of the query of each round.

    Examples:
        >>> from noisegate_papers.methods.vote_rounds import round_names
        >>> round_names(2)
        ('votes-1', 'votes-2')
    """
    return tuple(f"votes-{number}" for number in range(1, rounds + 1))


def vote_queries(
    rounds: Count, candidates: Count, votes_share: float
) -> tuple[Query, ...]:
    """Returns the queries of all rounds, each with an equal part of the votes' share.

    Args:
        rounds: Number of rounds.
        candidates: Most candidates in a round.
        votes_share: Budget share of all votes.
    """
    return tuple(
        Query(
            name=name,
            dim=candidates,
            share=votes_share / rounds,
            columns=1,
            norm=1.0,
            nonnegative=True,
            adaptive=True,
        )
        for name in round_names(rounds)
    )
