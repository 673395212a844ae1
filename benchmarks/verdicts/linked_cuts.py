"""Which noise each word of linked tables takes: cuts read off the runs, and how they would have done.

    python benchmarks/verdicts/linked_cuts.py [FILE] [--probabilities .5 .67 .75 .9]

The noise is `LinkedForecast.noise`, for a plan by the largest number of children, for a fit by their true numbers. A
word has its cut at the noise where an evaluation finds it, or a better one, with the probability stated, as in
`cuts.py`. Agreement is cross-validated: cuts for a set come from other sets. The curves
are the errors that evaluations found at a noise: odds that grow with a power of it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from cuts import Floats, Indices, log_noise_cuts, word_indices
from harness.options import positional, read_options
from summary import markdown

from noisegate.answers.verdict import WORDS, Source
from noisegate.methods.linked_words import LinkedForecast, LinkNoise

Run = dict[str, Any]

# Odds of errors below and above these say nothing about a power.
_SMALLEST_ERROR = 0.005
_LARGEST_ERROR = 0.9


def read_linked_runs(path: Path) -> list[Run]:
    """Reads the runs that no error stopped; the last line of a run counts."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    runs = {(run["set"], run["epsilon"]): run for run in lines}
    return [run for run in runs.values() if "error" not in run]


def worst_noise(run: Run, source: Source) -> float:
    """Returns the noise that decides the word of a plan or a fit."""
    links = []
    for child, link in run["links"].items():
        # A plan knows only how many children a parent has at most.
        first_share = 1 / link["most"] if source == "plan" else link["first_share"]
        next_share = 1 - first_share if source == "plan" else link["next_share"]
        noise = LinkNoise(
            parent="",
            child=child,
            noise=link["noise"],
            first_share=first_share,
            next_share=next_share,
            is_ordered=link["is_ordered"],
        )
        links.append(noise)
    forecast = LinkedForecast(
        root="", records=run["records"], links=tuple(links), source=source
    )
    return forecast.noise


def cross_validated(
    runs: Sequence[Run], log_noise: Floats, found: Indices, probability: float
) -> Indices:
    """Returns the index of the word of each run by cuts that come from the other sets."""
    sets = np.array([run["set"] for run in runs])
    words = np.zeros_like(found)
    for name in np.unique(sets):
        is_inside = sets == name
        cuts = log_noise_cuts(log_noise[~is_inside], found[~is_inside], probability)
        words[is_inside] = word_indices(log_noise[is_inside], cuts)
    return words


def agreement(words: Indices, found: Indices) -> list[str]:
    """Returns how often words are those of evaluate, above them and below them, as shares."""
    steps = words - found
    shares = [steps == 0, steps == 1, steps > 1, steps == -1, steps < -1]
    return [f"{is_counted.mean():.1%}" for is_counted in shares]


def agreement_rows(
    runs: Sequence[Run], probabilities: Sequence[float]
) -> Iterator[list[object]]:
    """Yields the agreement of the words of the runs, and of words by cuts with each probability."""
    found = word_positions(runs, "evaluate")
    sources: tuple[Source, ...] = ("plan", "fit")
    for source in sources:
        words = word_positions(runs, source)
        yield [f"{source} of the runs", "", "", "", *agreement(words, found)]
        log_noise = np.log([worst_noise(run, source) for run in runs])
        for probability in probabilities:
            cuts = log_noise_cuts(log_noise, found, probability)
            words = cross_validated(runs, log_noise, found, probability)
            yield [
                f"{source}, cuts at {probability:.0%}",
                *(f"{math.exp(cut):.2g}" for cut in cuts),
                *agreement(words, found),
            ]


def word_positions(runs: Sequence[Run], stage: str) -> Indices:
    """Returns the index in `WORDS` of the word of each run."""
    return np.array([WORDS.index(run[stage]["word"]) for run in runs])


def curve_row(
    name: str, runs: Sequence[Run], error_of: Callable[[Run], float]
) -> list[object]:
    """Returns the curve of an error: the noise at which it is a half, and the power of its odds."""
    errors = np.array([error_of(run) for run in runs])
    is_clear = (errors > _SMALLEST_ERROR) & (errors < _LARGEST_ERROR)
    log_odds = np.log(errors[is_clear] / (1 - errors[is_clear]))
    log_noise = np.log([worst_noise(run, "fit") for run in runs])[is_clear]
    power, intercept = np.polyfit(log_noise, log_odds, 1)
    return [name, f"{math.exp(-intercept / power):.2g}", f"{power:.2g}"]


def worst_error(run: Run, questions: Sequence[str]) -> float:
    """Returns the largest error of some questions of the evaluation, beyond sampling."""
    errors = [
        part["beyond_sampling"]
        for part in run["evaluate_parts"]
        if part["question"] in questions
    ]
    return max(errors, default=0.0)


def main() -> None:
    """Prints the agreement, and the curves."""
    beside = Path(__file__).parent / "linked_results.jsonl"
    options = read_options(
        __doc__,
        results=positional(Path, default=beside),
        probabilities=[0.5, 2 / 3, 0.75, 0.9],
    )
    runs = read_linked_runs(options.results)
    print(f"{len(runs)} runs of {len({run['set'] for run in runs})} sets\n")
    headings = ["words", *WORDS[1:], "same", "above by 1", "above by 2"]
    headings += ["below by 1", "below by 2"]
    print(markdown(headings, agreement_rows(runs, options.probabilities)), "\n")
    questions = {
        "pairs": ("pairs of one table", "parent and child"),
        "next child": ("successive children",),
    }
    rows = [
        curve_row(name, runs, lambda run, asked=asked: worst_error(run, asked))
        for name, asked in questions.items()
    ]
    print(markdown(["worst error of", "half at a noise of", "power"], rows))


if __name__ == "__main__":
    main()
