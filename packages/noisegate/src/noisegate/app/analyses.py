"""Analyses that are named before a release: their widths, and the ε that they need.

Two questions are answered before anything is spent:

- `price`: the least ε at which the interval of every answer is as narrow as it is
  wanted (``plan --want``);
- `expected`: the widths of the intervals at a given ε (``plan --analyses``).

Both make trial releases of records that stand in for private ones, through the same
method and gate, so no private record is read::

    wants ──► trial release of stand-in records ──► `infer` ──► half-width of answers
              (three of them; the widest counts, and a fifth more)

The stand-in is public records, or records that are made up from the schema: numbers
even between their bounds, levels equally common. Real numbers mostly vary less, which
makes intervals narrower; real groups may be rarer, which makes them wider.

`settings_for` asks a fit for the second moments that analyses need, and for no others.
Analyses stand in a TOML file (`read_analyses`)::

    [[analyses]]
    kind = "ols"                        # or logit, poisson
    outcome = "wage"
    terms = ["age", "sex"]

    [[analyses]]
    question = "mean(wage) by sex"      # any that `infer` understands
    half_width = 0.5                    # optional: how far its intervals may reach
"""

import math
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from noisegate.answers.estimates import Estimate
from noisegate.answers.infer import infer
from noisegate.answers.logarithms import is_logarithm
from noisegate.answers.questions.question import Question, parse_question
from noisegate.app.api import synthesize
from noisegate.errors import OptionError, said
from noisegate.methods.pairwise import Pairwise
from noisegate.models.synthesizer import Synthesizer
from noisegate.privacy.events import Adjacency
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode
from noisegate.schema.layout import bounds_of
from noisegate.testing import made_up

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 7.0, 10.0)
"""The ε that are tried."""
SHARES = (0.43, 2.0)
"""The weights of second moments that are tried, beside 1 for all other queries.

They are three and seven tenths of the budget.
"""

_TRIAL_COUNT = 3
# A half-width that is promised is this much wider than the widest of the trials, as
# their own noise is drawn but three times.
_MARGIN = 1.2
# A trial is fitted for its widths alone, which need no more.
_FIT_STEPS = 20
# The square of a half-width outside of these, over the variance of the noise, would
# leave float64.
_MIN_HALF_WIDTH = 1e-12
_MAX_HALF_WIDTH = 1e18

# A want in text, such as `mean(wage) by sex ±2 % at 95 %`.
_WANT = re.compile(
    r"""
    ^(?P<question>.+?)
    \s*(?:±|\+-|\+/-)\s*
    (?P<half>[0-9]*\.?[0-9]+(?:e-?[0-9]+)?)
    \s*(?P<unit>%?)
    (?:\s+at\s+(?P<level>[0-9]*\.?[0-9]+)\s*%)?$
    """,
    re.VERBOSE,
)

# The question of each kind of analysis, of an outcome and its terms.
_MODEL_QUESTIONS = {
    "ols": "{} ~ {}",
    "logit": "logit({}) ~ {}",
    "poisson": "poisson({}) ~ {}",
}
_ANALYSIS_KEYS = {"question", "kind", "outcome", "terms", "half_width"}


@dataclass(frozen=True, kw_only=True)
class Want:
    """A question, and how far its interval may reach to either side.

    Attributes:
        text: What the user wrote.
        question: The question, as `infer` takes it.
        half: The largest half-width of the interval, in the unit of the answer;
            infinite where any will do.
        level: Level of the interval, between 0 and 1.
    """

    text: str
    question: str
    half: float
    level: float = 0.95

    @property
    def most(self) -> float | None:
        """The largest half-width; None where any will do, as JSON has no infinity."""
        return self.half if math.isfinite(self.half) else None


@dataclass(frozen=True, kw_only=True)
class Met:
    """What a want gets at some ε.

    Attributes:
        want: The want.
        half: The half-width that is promised; None where there is no answer.
        met: Whether that is narrow enough.
        records: About how many records would be enough at this ε; None where those that
            there are do, or no number would.
    """

    want: Want
    half: float | None
    met: bool
    records: int | None = None


@dataclass(frozen=True, kw_only=True)
class Price:
    """The least ε that meets all wants, of those that were tried.

    Attributes:
        epsilon: That ε; the largest of `EPSILONS` where none meets all.
        moments_share: The weight of second moments, a setting of `pairwise`.
        met: What each want gets.
    """

    epsilon: float
    moments_share: float
    met: tuple[Met, ...]

    @property
    def reached(self) -> bool:
        """Whether all wants are met."""
        return _are_all_met(self.met)

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values, one object for each want."""
        wants = [
            {
                "want": outcome.want.text,
                "half": outcome.want.most,
                "promised": outcome.half,
                "met": outcome.met,
                "records": outcome.records,
            }
            for outcome in self.met
        ]
        return {
            "tried": self.epsilon,
            "moments_share": self.moments_share,
            "wants": wants,
        }


def read_want(text: str, schema: Schema) -> Want:
    """Parses a want, such as ``mean(wage) by sex ±2 % at 95 %``.

    Percent are hundredths of a share or of a correlation; for a mean or a quantile,
    they are hundredths of the range of its column.

    Args:
        text: The question, ``±`` (or ``+-``), a half-width, and a level unless it is
            95 %.
        schema: Has the ranges of the columns.

    Raises:
        OptionError: if the text is no want, its numbers are out of range, or percent
            have no meaning for the question.

    Examples:
        >>> from noisegate.schema import Integer, Schema
        >>> schema = Schema([Integer(name="age", lower=0, upper=100)])
        >>> read_want("mean(age) ±2 %", schema).half
        2.0
    """
    match = _WANT.match(text.strip())
    if match is None:
        raise OptionError(
            f"want {text!r} must be a query and the half-width of its interval, as "
            "'mean(wage) by sex ±2 % at 95 %'."
        )
    question = parse_question(match["question"])
    half_width = float(match["half"])
    level = float(match["level"] or 95) / 100
    if not (half_width > 0 and 0 < level < 1):
        raise OptionError(
            f"want {text!r}: the width must be above 0, and the level between 0 % and "
            "100 %."
        )
    if not _MIN_HALF_WIDTH <= half_width <= _MAX_HALF_WIDTH:
        raise OptionError(
            f"want {text!r}: the width must be from {_MIN_HALF_WIDTH:g} to "
            f"{_MAX_HALF_WIDTH:g}, as an answer may have."
        )
    if match["unit"]:
        half_width = half_width / 100 * _unit_of_percent(question, schema, text)
    return Want(
        text=text, question=match["question"].strip(), half=half_width, level=level
    )


def _unit_of_percent(question: Question, schema: Schema, text: str) -> float:
    """Returns what a hundred percent of an answer is.

    Args:
        question: The question of a want.
        schema: Has the ranges of the columns.
        text: The want, for messages.

    Returns:
        1 for shares and correlations; for means and quantiles the range of the column.

    Raises:
        OptionError: if the column has no range, or the question takes no percent.
    """
    if question.percent_of == "one":
        return 1.0
    if question.percent_of is None:
        raise OptionError(
            f"want {text!r}: percent are of a share, a correlation, a mean or a "
            "quantile."
        )
    column = schema.column(question.columns[0])
    if not column.numeric:
        raise OptionError(
            f"want {text!r}: {column.name!r} is not numeric; it has levels."
        )
    low, high = bounds_of(column)
    return float(high) - float(low)


def expected(
    wants: Sequence[Want],
    schema: Schema,
    records: int,
    settings: Mapping[str, Any],
    *,
    stand_in: EncodedTable | None = None,
    **budget: Any,
) -> tuple[Met, ...]:
    """Predicts the half-widths of answers, by trial releases of stand-in records.

    Args:
        wants: What is wanted; see `read_want` and `read_analyses`.
        schema: Public knowledge about the records.
        records: About how many there are, as far as the public knows.
        settings: Settings of `pairwise`.
        stand_in: Public records of this schema, which are drawn from with replacement;
            None for made-up ones.
        budget: Further arguments of `noisegate.fit`: ``epsilon``, ``delta``,
            ``adjacency``.

    Returns:
        What each want gets, in their order.
    """
    adjacency = Adjacency.parse(budget.get("adjacency", Adjacency.ADD_REMOVE))
    if adjacency is Adjacency.REPLACE_ONE:
        # Neighbours have the same number of records, so it is public.
        budget["records"] = records
    trials: list[list[_Width | None]] = [[] for _ in wants]
    for seed in range(_TRIAL_COUNT):
        model = _release_stand_in(schema, records, seed, settings, stand_in, budget)
        for want, widths in zip(wants, trials, strict=True):
            answers = infer(model, want.question, level=want.level)
            widths.append(_widest(want, answers, records))
    return tuple(
        _outcome(want, widths) for want, widths in zip(wants, trials, strict=True)
    )


def _release_stand_in(
    schema: Schema,
    records: int,
    seed: int,
    settings: Mapping[str, Any],
    stand_in: EncodedTable | None,
    budget: Mapping[str, Any],
) -> Synthesizer:
    """Fits a model to a release of stand-in records.

    Args:
        schema: Public knowledge about the records.
        records: How many are released.
        seed: Seed of the stand-in records.
        settings: Settings of `pairwise`, which go before those of a trial.
        stand_in: Public records; None for made-up ones.
        budget: Arguments of `noisegate.fit`.
    """
    if stand_in is None:
        encoded = made_up(schema.layout, records, seed)
    else:
        generator = np.random.default_rng(seed)
        encoded = stand_in.rows(generator.integers(0, len(stand_in), records))
    trial_settings = {"fit_options": {"steps": _FIT_STEPS}, "seed": seed, **settings}
    with warnings.catch_warnings():
        # These are about a budget, and nobody's records are spent on here.
        warnings.simplefilter("ignore")
        return synthesize(
            decode(encoded, schema, stored=True),
            schema=schema,
            method=Pairwise(**trial_settings),
            **budget,
        )


def price(
    wants: Sequence[Want],
    schema: Schema,
    records: int,
    *,
    stand_in: EncodedTable | None = None,
    shares: Sequence[float] = SHARES,
    progress: Callable[[str], None] = lambda _: None,
    **budget: Any,
) -> Price:
    """Finds the least ε of `EPSILONS` that meets all wants; reads no private record.

    Args:
        wants: What is wanted; see `read_want`.
        schema: Public knowledge about the records.
        records: About how many there are, as far as the public knows.
        stand_in: Public records of this schema, which are drawn from with replacement;
            None for made-up ones.
        shares: Weights of second moments to try.
        progress: Called with each pair of ε and share before it is tried.
        budget: Further arguments of `noisegate.fit`: ``delta``, ``adjacency``.

    Returns:
        The least ε with the first share that reaches it. If no ε meets all wants, the
        largest with the share that meets most.
    """

    @cache
    def outcomes(epsilon: float, share: float) -> tuple[Met, ...]:
        progress(f"epsilon {epsilon:g}, moments_share {share:g}")
        return expected(
            wants,
            schema,
            records,
            {"moments_share": share},
            stand_in=stand_in,
            epsilon=epsilon,
            **budget,
        )

    def meets_all(share: float, index: int) -> bool:
        return _are_all_met(outcomes(EPSILONS[index], share))

    best_share: float | None = None
    # Once a share meets all wants, only a smaller ε is of interest for the others.
    best_index = len(EPSILONS) - 1
    for share in shares:
        if best_share is None and not meets_all(share, best_index):
            continue
        index = _first_index_met(partial(meets_all, share), best_index)
        if best_share is None or index < best_index:
            best_share = share
            best_index = index

    if best_share is None:
        best_share = max(
            shares,
            key=lambda share: sum(
                outcome.met for outcome in outcomes(EPSILONS[-1], share)
            ),
        )
    epsilon = EPSILONS[best_index]
    return Price(
        epsilon=epsilon,
        moments_share=best_share,
        met=outcomes(epsilon, best_share),
    )


def _first_index_met(is_met: Callable[[int], bool], last_index: int) -> int:
    """Finds the first index at which a condition holds, by bisection.

    Args:
        is_met: The condition; once it holds, it holds for all larger indices.
        last_index: Returned, and not tried, if no smaller one holds.
    """
    low = 0
    high = last_index
    while low < high:
        middle = (low + high) // 2
        if is_met(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _are_all_met(outcomes: Sequence[Met]) -> bool:
    """Tells whether each of several wants is met."""
    return all(outcome.met for outcome in outcomes)


@dataclass(frozen=True, kw_only=True)
class _Width:
    """How wide the intervals of one trial are.

    Attributes:
        half_width: Half of the widest interval.
        enough_records: About how many records would make it as narrow as it is wanted.
    """

    half_width: float
    enough_records: int


def _widest(want: Want, answers: Sequence[Estimate], records: int) -> _Width | None:
    """Measures the widest interval of the answers to one question.

    Args:
        want: What is wanted.
        answers: The answers of a trial, one for each group or coefficient. The
            intercept of a regression does not count.
        records: How many records the trial released.

    Returns:
        The width; None where one of them has no interval.
    """
    half_width = 0.0
    enough_records = 1
    for answer in answers:
        if answer.name == "intercept":
            continue
        if answer.low is None or answer.high is None:
            return None
        half_width = max(half_width, (answer.high - answer.low) / 2)
        if want.most is not None:
            enough_records = max(enough_records, _enough_records(want, answer, records))
    return _Width(half_width=half_width, enough_records=enough_records)


def _enough_records(want: Want, answer: Estimate, records: int) -> int:
    """Computes about how many records make an answer as exact as it is wanted.

    With m records in place of n the variance is about
    (sampling² + bias²)·n/m + noise²·(n/m)²: the noise on a sum does not grow with m,
    and cells are the finer the more records there are. Set equal to the variance that
    is wanted, this is a quadratic equation in m/n.
    """
    quantile = NormalDist().inv_cdf(0.5 + want.level / 2)
    wanted_variance = (want.half / quantile / _MARGIN) ** 2
    linear = answer.sampling**2 + answer.bias**2
    discriminant = linear**2 + 4 * wanted_variance * answer.noise**2
    ratio = (linear + math.sqrt(discriminant)) / (2 * wanted_variance)
    return math.ceil(records * ratio)


def _outcome(want: Want, trials: Sequence[_Width | None]) -> Met:
    """Judges a want by all trials: the widest counts, with a margin.

    A want is not met if a single trial has no answer.
    """
    widths = [width for width in trials if width is not None]
    if len(widths) < len(trials):
        return Met(want=want, half=None, met=False)
    half_width = _MARGIN * float(max(width.half_width for width in widths))
    if half_width <= want.half:
        return Met(want=want, half=half_width, met=True)
    enough_records = max(width.enough_records for width in widths)
    return Met(want=want, half=half_width, met=False, records=enough_records)


def read_analyses(file: str | Path) -> tuple[Want, ...]:
    """Reads the analyses of a TOML file; the module's docstring has an example.

    Args:
        file: The file.

    Returns:
        What is wanted of each, in their order: any width where none is stated, at 95 %.

    Raises:
        OptionError: if the file cannot be read, or an analysis is not understood.
    """
    where = said("analyses", Path(file))
    try:
        document = tomllib.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(f"{where} cannot be read: {error}") from None
    entries: Any = document.get("analyses")
    is_list_of_tables = isinstance(entries, list) and all(
        isinstance(entry, dict) for entry in entries
    )
    if not is_list_of_tables or set(document) != {"analyses"}:
        raise OptionError(
            f"{where}: expected tables [[analyses]], and nothing beside them."
        )
    return tuple(
        _read_analysis(entry, f"{where}, number {number}")
        for number, entry in enumerate(entries, 1)
    )


def settings_for(file: str | Path) -> dict[str, Any]:
    """Returns settings of `pairwise` that measure what analyses need.

    Args:
        file: The analyses; see `read_analyses`.

    Returns:
        ``moments``, the columns whose second moments answer them, and
        ``moments_share``; empty if tables of counts answer them all.

    Raises:
        OptionError: as `read_analyses` does.

    Examples:
        >>> from pathlib import Path
        >>> text = 'analyses = [{question = "mean(wage) by sex"}]'
        >>> _ = Path("two.toml").write_text(text)
        >>> settings_for("two.toml")
        {'moments_share': 0.43, 'moments': ['sex', 'wage']}
    """
    columns: set[str] = set()
    for want in read_analyses(file):
        question = parse_question(want.question)
        if question.rests_on == "moments":
            # No moments of logarithms can be asked for: tables answer about them.
            columns.update(name for name in question.columns if not is_logarithm(name))
    if not columns:
        return {}
    return {"moments_share": SHARES[0], "moments": sorted(columns)}


def _read_analysis(entry: Mapping[str, Any], where: str) -> Want:
    """Reads one table of a file of analyses.

    Args:
        entry: The table.
        where: The file and the number of the table, for messages.
    """
    unknown_keys = set(entry) - _ANALYSIS_KEYS
    if unknown_keys:
        raise OptionError(
            f"{where}: unknown key {min(unknown_keys)!r}; the keys are "
            f"{', '.join(sorted(_ANALYSIS_KEYS))}."
        )
    if "question" in entry:
        question = _read_question(entry, where)
    else:
        question = _compose_question(entry, where)
    half_width = entry.get("half_width", math.inf)
    is_number = isinstance(half_width, int | float) and not isinstance(half_width, bool)
    if not is_number or not half_width > 0:
        raise OptionError(
            f"{where}: half_width = {half_width!r} must be a number above 0."
        )
    # Raises where it is not understood.
    parse_question(question)
    return Want(text=question, question=question, half=float(half_width))


def _read_question(entry: Mapping[str, Any], where: str) -> str:
    """Returns the question of an analysis that states one, and no model beside it."""
    question = entry["question"]
    model_keys = set(entry) - {"question", "half_width"}
    if not isinstance(question, str) or model_keys:
        raise OptionError(
            f"{where}: a question is text, given without kind, outcome and terms."
        )
    return question


def _compose_question(entry: Mapping[str, Any], where: str) -> str:
    """Writes the question of a regression: its kind, outcome and terms.

    Of ``kind = "ols"``, ``outcome = "wage"``, ``terms = ["age", "sex"]`` it is
    ``"`wage` ~ `age` + `sex`"``.
    """
    kind = entry.get("kind")
    outcome = entry.get("outcome")
    terms: Any = entry.get("terms")
    is_list_of_names = (
        isinstance(terms, list)
        and len(terms) > 0
        and all(isinstance(term, str) for term in terms)
    )
    is_kind = isinstance(kind, str) and kind in _MODEL_QUESTIONS
    if not (is_kind and isinstance(outcome, str) and is_list_of_names):
        raise OptionError(
            f"{where}: expected a question, or a kind of {', '.join(_MODEL_QUESTIONS)} "
            'with an outcome and a list of terms: kind = "ols", outcome = "wage", '
            'terms = ["age", "sex"].'
        )
    quoted_terms = " + ".join(f"`{term}`" for term in terms)
    return _MODEL_QUESTIONS[str(kind)].format(f"`{outcome}`", quoted_terms)
