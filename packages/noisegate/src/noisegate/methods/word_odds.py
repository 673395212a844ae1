"""How often an evaluation finds each word, by the noise: what real tables say.

`benchmarks/verdicts` runs plan, fit and evaluate on hundreds of tables of Rdatasets
that nobody chose, at ε .3, 1 and 3. Of all that is known before an evaluation, the
noise on single columns tells its word best: numbers of records and columns, what a
release shows of associations and of the label, or a second fit to records of the first
one added nothing that held on other tables. The same records with other noise got the
same word in 5 of 6 runs, which no rule can exceed.

The odds of a word, or of a better one, fall with a power of the noise::

    P(word or better) = 1 / (1 + (noise / half_noise) ** power)

`benchmarks/verdicts/cuts.py` fits them, and says how often words that follow from them
are those of evaluations of other tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noisegate.answers.verdict import WORDS, Word

CERTAINTY = 3 / 4
"""The word for a noise is the one that so many real tables reach or pass.

It is that of plans and of fits alike, so that a fit says what its plan promised, unless
its release says less.
"""

RECORDS_CERTAINTY = 9 / 10
"""The number of records that a word takes is the one at which so many reach or pass it.

It is more than `CERTAINTY`, as "good with 8,000 records or more" is read as a promise,
which is to be true of four of five tables. Of large tables from which so many records
were taken as `CERTAINTY` asks for, three of four reached the word. With about twice as
many records more than four of five did, of tables that nothing was chosen on too
(`benchmarks/verdicts/README.md`). By the curves 8/10 would do, but tables differ so
much that another sample of them might then stay below four of five.
"""


@dataclass(frozen=True)
class WordOdds:
    """The odds of a word or a better one, as a function of the noise.

    Attributes:
        half_noise: The noise at which half of the tables reach the word.
        power: How the odds fall with the noise.
    """

    half_noise: float
    power: float

    def probability(self, noise: float) -> float:
        """Computes the share of tables that reach the word at a noise."""
        odds_against: float = (noise / self.half_noise) ** self.power
        return 1 / (1 + odds_against)

    def noise_for(self, certainty: float = CERTAINTY) -> float:
        """Computes the largest noise at which such a share reaches the word."""
        odds = certainty / (1 - certainty)
        noise: float = self.half_noise / odds ** (1 / self.power)
        return noise


ODDS: Mapping[Word, WordOdds] = {
    "good": WordOdds(half_noise=0.0033, power=1.28),
    "usable": WordOdds(half_noise=0.024, power=1.58),
    "rough": WordOdds(half_noise=0.232, power=2.05),
}
"""From best to worst; what reaches none of them is noise."""


def likely_word(noise: float, certainty: float = CERTAINTY) -> Word:
    """Returns the best word that such a share of tables reaches at a noise.

    Examples:
        >>> from noisegate.methods.word_odds import likely_word
        >>> [likely_word(noise) for noise in (0.0001, 0.005, 0.05, 0.5)]
        ['good', 'usable', 'rough', 'noise']
    """
    for word, odds in ODDS.items():
        if odds.probability(noise) >= certainty:
            return word
    return "noise"


def word_shares(noise: float) -> dict[Word, float]:
    """Returns the share of tables at a noise with each word, from best to worst.

    Examples:
        >>> from noisegate.methods.word_odds import word_shares
        >>> {word: round(share, 2) for word, share in word_shares(0.02).items()}
        {'good': 0.09, 'usable': 0.48, 'rough': 0.42, 'noise': 0.01}
    """
    shares: dict[Word, float] = {}
    reached = 0.0
    for word in reversed(WORDS):
        # The curves of two words may cross far from the noise of any table.
        at_least = ODDS[word].probability(noise) if word in ODDS else 1.0
        shares[word] = max(at_least - reached, 0.0)
        reached = max(at_least, reached)
    return shares
