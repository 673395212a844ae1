"""The tables that verdicts are judged on fit their schemas, and the figures count what they say."""

import pytest
import verdict
from causal import SIMULATED

from noisegate.verdict import WORDS


@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_table_fits_its_schema_and_is_the_same_each_time(name: str) -> None:
    table, schema = SIMULATED[name](500)
    assert table.equals(SIMULATED[name](500)[0])
    for column in schema.columns:
        values = set(table[column.name].to_pylist())
        if column.numeric:
            assert column.lower <= min(values) < max(values) <= column.upper
        else:
            assert len(values) > 1 and values <= set(column.levels)


def test_agreement_counts_words_steps_and_promises() -> None:
    pairs = [("good", "good"), ("good", "rough"), ("noise", "usable"), ("usable", "rough")]
    rows = [{"plan": plan, "found": found} for plan, found in pairs]
    told = verdict.agreement(rows, "plan")
    assert told == {"runs": 4, "same": 0.25, "within_one": 0.5, "too_good": 0.5}


def test_halves_share_no_table() -> None:
    some, others = verdict.halves(["b", "a", "c", "a"])
    assert (some, others) == (["a", "c"], ["b"])


def test_the_law_is_found_again() -> None:
    noises = [0.001 * 1.3**step for step in range(40)]
    shares = [(noise / 0.8) ** 0.7 / (1 + (noise / 0.8) ** 0.7) for noise in noises]
    rows = [
        {"noise": noise, "out_of_place": [share, share], "found": verdict.word_of_misplaced(share)}
        for noise, share in zip(noises, shares, strict=True)
    ]
    assert {row["found"] for row in rows} == set(WORDS)
    assert verdict.law(rows, 0) == verdict.law(rows, 1) == pytest.approx((0.8, 0.7))
