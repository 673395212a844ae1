"""Words for linked tables: what noise does to parents, and to how children follow them.

Each link between two tables is measured as a table of transitions, a row for each child
after the one before (`noisegate.schema.linked.links`). `LinkNoise` is the noise on it,
`LinkedForecast` what the noise on all links does to the records::

    plan or release ──► LinkNoise of each link ──► LinkedForecast ──► Verdict

The worst link decides. Its noise is compared with the largest at which evaluations have
found a word. The constants below were read off simulated and public sets by
`linked_cuts.py`; `benchmarks/verdicts/README.md` says how they do on sets that they
were not chosen on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noisegate.answers.findings import Question, VerdictFinding, merge_findings
from noisegate.answers.verdict import (
    Source,
    Verdict,
    Word,
    in_percent,
    of_misplaced,
    word_of_misplaced,
)
from noisegate.methods.forecast import ErrorCurve, forecast_of, rounded_up
from noisegate.models.linked.fit import LinkDesign
from noisegate.schema.linked.links import Step

if TYPE_CHECKING:
    from noisegate.answers.rounds import Answered

# The largest noise at which an evaluation finds a word, or a better one, with a
# probability of 2/3 for plans and of 85 % for fits, from best to worst. Cross-validated
# by set, 12 % of plans and 5 % of fits were above the evaluation.
_MAX_NOISE: Mapping[Source, Mapping[Word, float]] = {
    "plan": {"good": 0.0031, "usable": 0.045, "rough": 0.16},
    "fit": {"good": 0.0022, "usable": 0.034, "rough": 0.084},
}

# Errors that evaluations found at a noise, half of them more and half of them less: in
# the worst pairs of columns of one record, and from one child to the next.
_PAIR_CURVE = ErrorCurve(half_noise=0.92, power=0.71)
_NEXT_CHILD_CURVE = ErrorCurve(half_noise=3.4, power=0.52)

# On a share of all rows the noise is larger by its inverse. What evaluations found as a
# whole followed the noise over this power of the smallest share that counts.
_POWER_OF_SHARE = 0.5
# A smaller share of next children counts as none: the release can hardly tell.
_MIN_SHARE = 0.02
# Dates of first children were lost where the noise came to more of them.
_MAX_NOISE_OF_FIRST = 0.3

_HOW_CHILDREN_FOLLOW: Mapping[Word, str] = {
    "good": "kept",
    "usable": "blurred",
    "rough": "weakened or lost",
    "noise": "lost",
}


@dataclass(frozen=True, kw_only=True)
class LinkNoise:
    """The noise on what is measured of one link.

    Attributes:
        parent: Name of the table of the parents.
        child: Name of the table of the children.
        noise: Standard deviation of the noise on the share of half of a column's cells,
            in all records of the first table.
        first_share: Share of first children in all rows, where each parent has the same
            weight: of K children of each parent 1/K.
        next_share: Share of children that follow another one.
        is_ordered: Whether a column puts the children of a parent in order.
    """

    parent: str
    child: str
    noise: float
    first_share: float
    next_share: float
    is_ordered: bool

    @property
    def effective_noise(self) -> float:
        """The noise, larger where first or next children are a small share of all rows.

        First ones count only where an order makes them differ from others.
        """
        shares = [1.0]
        if self.has_next_children:
            shares.append(self.next_share)
        if self.is_ordered:
            shares.append(max(self.first_share, _MIN_SHARE))
        factor: float = min(shares) ** -_POWER_OF_SHARE
        return self.noise * factor

    @property
    def has_next_children(self) -> bool:
        """Whether some parents have more than one child."""
        return self.next_share >= _MIN_SHARE

    @property
    def next_child_error(self) -> float:
        """Expected total variation distance from one child to the next."""
        return _NEXT_CHILD_CURVE.misplaced(self.effective_noise)

    @property
    def loses_first_child(self) -> bool:
        """Whether it is too noisy to know when the first child comes."""
        noise_of_first = self.noise / max(self.first_share, _MIN_SHARE)
        return self.is_ordered and noise_of_first > _MAX_NOISE_OF_FIRST

    def reasons(self) -> Iterator[str]:
        """Yields what is expected of the children."""
        if self.has_next_children:
            word = word_of_misplaced(self.next_child_error)
            yield (
                f"how {self.child} of one record of {self.parent} follow each "
                f"other is {_HOW_CHILDREN_FOLLOW[word]}: expect a total variation "
                f"distance of {in_percent(self.next_child_error)} from one to the "
                "next"
            )
            if not self.is_ordered:
                yield (
                    f"{self.child} have no `order` in the schema: which of them comes "
                    "first is not kept"
                )
        if self.loses_first_child:
            yield (
                f"when the first of {self.child} comes may be lost: "
                f"{in_percent(self.first_share)} of rows are first ones, too few "
                "for the noise on them"
            )

    def findings(self) -> Iterator[VerdictFinding]:
        """Yields what is expected of children of one parent."""
        question: Question = "children of one parent"
        if self.has_next_children:
            detail = f" from one of {self.child} to the next"
            yield of_misplaced(
                question, self.next_child_error, detail, is_expected=True
            )
            if not self.is_ordered:
                detail = f"{self.child} have no order, and keep none"
                yield VerdictFinding(
                    question=question, answer="weakened", detail=detail
                )
        if self.loses_first_child:
            detail = f"too noisy to know when the first of {self.child} comes"
            yield VerdictFinding(question=question, answer="lost", detail=detail)


@dataclass(frozen=True, kw_only=True)
class LinkedForecast:
    """What noise will do to linked tables.

    Attributes:
        root: Name of the first table.
        records: Number of its records.
        links: The noise on each link, parents first.
        source: What knows the noise: a "plan", or the release behind a "fit".
    """

    root: str
    records: float
    links: tuple[LinkNoise, ...]
    source: Source

    @property
    def noise(self) -> float:
        """The largest `LinkNoise.effective_noise` of all links."""
        return max(link.effective_noise for link in self.links)

    @property
    def pairs(self) -> float:
        """Expected total variation distance of a pair of columns in the worst table."""
        return _PAIR_CURVE.misplaced(self.noise)

    @property
    def word(self) -> Word:
        """The verdict in a word."""
        max_noise = _MAX_NOISE[self.source]
        reached = (word for word, largest in max_noise.items() if self.noise <= largest)
        return next(reached, "noise")

    def records_for(self) -> dict[Word, float]:
        """Computes how many records of the first table each word takes.

        The noise on shares falls as one over the number of records.

        Returns:
            Numbers of records, not rounded, from the best word to the worst.
        """
        return {
            word: self.records * self.noise / largest
            for word, largest in _MAX_NOISE[self.source].items()
        }

    def verdict(self, epsilon: float) -> Verdict:
        """Puts the forecast in words.

        Args:
            epsilon: ε of the plan or the release.
        """
        reason = (
            f"for about {round(self.records):,} records of {self.root} and what "
            f"belongs to them at epsilon={epsilon:g}, expect a total variation "
            f"distance of {in_percent(self.pairs)} per pair of columns in the "
            "worst table"
        )
        of_links = [reason for link in self.links for reason in link.reasons()]
        of_pairs = [
            # A single column is no farther off than a pair that it is in.
            of_misplaced("single columns", self.pairs, " at most", is_expected=True),
            of_misplaced("pairs of columns", self.pairs, is_expected=True),
            of_misplaced("parents and children", self.pairs, is_expected=True),
        ]
        of_children = [finding for link in self.links for finding in link.findings()]
        return Verdict(
            word=self.word,
            source=self.source,
            reasons=(reason, *of_links),
            cures=tuple(self._cures()),
            figures={
                "records": self.records,
                "expected_out_of_place_in_pairs": self.pairs,
                "expected_out_of_place_from_child_to_child": {
                    link.child: link.next_child_error for link in self.links
                },
                "noise": {link.child: link.noise for link in self.links},
            },
            findings=merge_findings([*of_pairs, *of_children]),
        )

    def _cures(self) -> Iterator[str]:
        """Yields what would lead to a better word, if there is one."""
        if self.word == "good":
            return
        next_better: Word = "good" if self.word == "usable" else "usable"
        needed = rounded_up(self.records_for()[next_better])
        yield f"{next_better} with {needed:,} records of {self.root} or more"
        yield (
            "a larger epsilon or fewer columns; `noisegate plan` shows the verdict of "
            "each choice"
        )


def verdict_without_records(expected: LinkedForecast, epsilon: float) -> Verdict:
    """Says how many records each word takes, where nobody knows how many there are.

    Args:
        expected: A forecast for any number of records.
        epsilon: ε of the plan.
    """
    needed = rounded_records(expected)
    listing = ", ".join(f"{word} from {count:,}" for word, count in needed.items())
    reason = (
        f"at epsilon={epsilon:g} the verdict depends on the number of records of "
        f"{expected.root}: {listing}; noise with fewer"
    )
    return Verdict(
        word=None, source="plan", reasons=(reason,), figures={"records_for": needed}
    )


def verdict_with_records(expected: LinkedForecast, epsilon: float) -> Verdict:
    """Says what to expect of a number of records, and how many each word takes.

    Args:
        expected: The forecast for this number.
        epsilon: ε of the plan.
    """
    verdict = expected.verdict(epsilon)
    figures = {**verdict.figures, "records_for": rounded_records(expected)}
    return replace(verdict, figures=figures)


def rounded_records(expected: LinkedForecast) -> dict[Word, int]:
    """Returns how many records of the first table each word takes, rounded up."""
    return {word: rounded_up(count) for word, count in expected.records_for().items()}


def link_noise(
    design: LinkDesign,
    answered: Answered,
    records: float,
    step_shares: Mapping[Step, float] | None = None,
) -> LinkNoise:
    """Finds the noise on what is measured of one link.

    Args:
        design: The queries about the link.
        answered: A release, or answers of all links of which the noise is known.
        records: Number of records of the first table.
        step_shares: Shares of first and next children in all rows; None to assume that
            each parent has as many children as one has at most.
    """
    expected = forecast_of(design.tables, design.answers(answered), records)
    if step_shares is None:
        max_children = design.link.child.most or 1
        step_shares = {"first": 1 / max_children, "next": 1 - 1 / max_children}
    return LinkNoise(
        parent=design.link.parent.name,
        child=design.link.name,
        noise=expected.noise,
        first_share=step_shares["first"],
        next_share=step_shares["next"],
        is_ordered=design.link.order is not None,
    )
