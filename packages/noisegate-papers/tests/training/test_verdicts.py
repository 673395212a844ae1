"""Verdicts of plans and fits: from public facts and releases alone, and what they promise to help does."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous

from noisegate import DPMERF, Budget, Gate, Pairwise, Schema, Synthesizer
from noisegate.answers.verdict import WORDS
from noisegate.methods.forecast import verdict_of_plan
from noisegate.methods.word_odds import word_shares
from noisegate.models.tables.mixture_fit import FAR

NUMBERS = [continuous(f"x{place}") for place in range(8)]
SCHEMA = Schema(
    [*NUMBERS, categorical("job", "abcdefgh", missing=True), boolean("ill")],
    label="ill",
)
BUDGET = Budget(epsilon=1.0)
QUICK = {"fit_options": {"steps": 2, "components": 4}}


def table(rows, ill=0.5):
    random = np.random.default_rng(0)
    columns = {f"x{place}": random.random(rows) for place in range(8)}
    return pa.table(
        columns
        | {
            "job": random.choice(list("abcdefgh"), rows),
            "ill": random.random(rows) < ill,
        }
    )


def rank(method, schema, budget, records):
    return WORDS.index(verdict_of_plan(method, schema, budget, records).word)


def share_of_tables(word, records):
    """How many tables of the corpus reach a word at the noise of so many records."""
    shares = word_shares(Pairwise().forecast(SCHEMA, BUDGET, records).noise)
    return sum(shares[better] for better in WORDS[WORDS.index(word) :])


def test_more_records_a_larger_epsilon_and_fewer_columns_are_never_worse():
    ranks = [
        rank(Pairwise(), SCHEMA, BUDGET, records)
        for records in (10, 100, 1_000, 10_000, 100_000, 10**7)
    ]
    assert ranks == sorted(ranks) and (ranks[0], ranks[-1]) == (0, len(WORDS) - 1)
    ranks = [
        rank(Pairwise(), SCHEMA, Budget(epsilon=epsilon), 3_000)
        for epsilon in (0.01, 0.1, 1.0, 10.0)
    ]
    assert ranks == sorted(ranks)
    few = Schema((*SCHEMA.columns[:2], SCHEMA.columns[-1]), label="ill")
    less, more = (
        Pairwise().forecast(schema, BUDGET, 1_000).noise for schema in (few, SCHEMA)
    )
    assert less < 0.6 * more


@pytest.mark.parametrize("records", [200, 2_000])
def test_what_is_promised_to_help_does(records):
    verdict = verdict_of_plan(Pairwise(), SCHEMA, BUDGET, records)
    assert verdict.word != "good"
    goal, tried = "good" if verdict.word == "usable" else "usable", set()
    for cure in verdict.cures:
        reached_word, _, rest = cure.partition(" with ")
        assert reached_word == goal
        first = rest.split()[0]
        kind = (
            "cells"
            if first.startswith("cells")
            else "epsilon"
            if first.startswith("epsilon")
            else rest.split()[1]
        )
        tried.add(kind)
        number = float(first.rpartition("=")[2].replace(",", ""))
        if kind == "epsilon":
            assert rank(
                Pairwise(), SCHEMA, Budget(epsilon=number), records
            ) >= WORDS.index(goal)
        elif kind == "records":
            assert rank(Pairwise(), SCHEMA, BUDGET, int(number)) >= WORDS.index(goal)
            assert share_of_tables(goal, int(number)) >= 0.9
            assert share_of_tables(goal, int(0.85 * number)) < 0.9
        elif kind == "cells":
            assert rank(
                Pairwise(cells=int(number)), SCHEMA, BUDGET, records
            ) >= WORDS.index(goal)
        else:
            part = Schema(
                (*SCHEMA.columns[: int(number) - 1], SCHEMA.columns[-1]), label="ill"
            )
            assert rank(Pairwise(), part, BUDGET, records) >= WORDS.index(goal)
    assert "records" in tried
    assert records == 200 or "epsilon" in tried


def test_without_a_number_of_records_the_plan_says_what_each_word_takes():
    verdict = verdict_of_plan(Pairwise(), SCHEMA, BUDGET, None)
    needed = verdict.figures["records_for"]
    assert verdict.word is None and list(needed) == ["good", "usable", "rough"]
    for word, records in needed.items():
        assert f"{word} from {records:,}" in verdict.reasons[0]
        assert verdict_of_plan(Pairwise(), SCHEMA, BUDGET, records).word == word
        assert share_of_tables(word, records) >= 0.9
        assert share_of_tables(word, int(0.85 * records)) < 0.9


def test_columns_that_come_out_independent_are_rough_at_best():
    verdict = verdict_of_plan(Pairwise(pairs="none"), SCHEMA, BUDGET, 10**7)
    assert verdict.word == "rough" and any(
        "are independent" in reason for reason in verdict.reasons
    )
    assert verdict.cures == ("pairs='auto', which measures pairs of columns",)
    assert list(verdict.figures["records_for"]) == ["rough"]


@pytest.fixture(scope="module")
def fitted():
    return Pairwise(**QUICK).fit(
        Gate(table(2_000), schema=SCHEMA, epsilon=1.0), device="cpu"
    )


class Ended:
    """A fit that ended at another distance."""

    def __init__(self, fitting, discrepancy):
        self._fitting, self.discrepancy = fitting, discrepancy

    def __getattr__(self, name):
        return getattr(self._fitting, name)


@pytest.fixture(scope="module")
def run(fitted):
    fitting = Pairwise(**QUICK).fitting(fitted.release)
    fitting.run()
    return fitting


def test_a_verdict_of_a_fit_follows_from_its_release_alone(fitted, run, tmp_path):
    """What a folder holds has left the gate: the verdict is made of it again, to the last digit."""
    read = Synthesizer.load(fitted.save(tmp_path / "model"))
    assert (
        read.verdict == fitted.verdict and read.summary.discrepancy == run.discrepancy
    )
    assert Pairwise(**QUICK).synthesizer(read.release, run).verdict == fitted.verdict


def test_a_fit_speaks_of_as_many_records_as_the_release_says(fitted):
    """The number is that of the public page, by all tables, and not that of the counts alone, which are noisier."""
    found = fitted.verdict.figures["records"]
    stated = Pairwise(**QUICK).measurements(fitted.release)
    assert found == stated.total.value != 2_000.0
    assert abs(found - 2_000) < 500
    counts = fitted.release.values["counts"].ravel()
    noise_of_counts = fitted.release.noise_std["counts"] * len(counts) ** 0.5
    assert found != float(counts.sum()) and stated.total.variance < noise_of_counts**2


def test_a_fit_that_ends_far_from_its_release_is_rough_at_best(fitted, run):
    rich = replace(
        fitted.release, values={**fitted.release.values, "counts": np.array([1e7, 1e7])}
    )
    near, far = (
        Pairwise(**QUICK).synthesizer(rich, Ended(run, FAR + off)).verdict
        for off in (0.0, 0.1)
    )
    assert (near.word, far.word) == (
        "good",
        "rough",
    ) and "2.1 times as far from its release" in far.reasons[-1]


def test_classes_that_drown_are_named(fitted, run):
    counts = fitted.release.values["counts"]
    some = replace(
        fitted.release,
        values={**fitted.release.values, "counts": np.array([2_000.0, 1.0])},
    )
    verdict = Pairwise(**QUICK).synthesizer(some, run).verdict
    assert verdict.figures["drowned_classes"] == ["True"]
    assert verdict.word in ("rough", "noise")
    assert "True of 'ill' cannot be distinguished from noise" in str(verdict)
    none = replace(
        fitted.release,
        values={**fitted.release.values, "counts": np.zeros_like(counts)},
    )
    assert Pairwise(**QUICK).synthesizer(none, run).verdict.word == "noise"


def test_methods_without_a_forecast_still_say_what_drowns():
    method = DPMERF(frequencies=5, fit_options={"steps": 2})
    verdict = method.fit(
        Gate(table(30), schema=SCHEMA, epsilon=0.1), device="cpu"
    ).verdict
    assert (
        verdict.word == "noise"
        and "larger than the number of records" in verdict.reasons[0]
    )
