from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from noisegate.models import rejection
from noisegate.models.rejection import (
    BASE_CANDIDATES,
    BATCH_ROWS,
    CANDIDATES_PER_RECORD,
    PROBE_CANDIDATES,
    RejectionError,
    accepted_batches,
    accepted_within,
    max_candidates,
    mix_batches,
    verdict_of_rules,
)
from noisegate.schema import EncodedTable


@dataclass
class Even:
    """One numeric column, even over [0, 1]; remembers how much was drawn from it."""

    asked: list = field(default_factory=list)

    def draw(self, rows, random):
        self.asked.append(rows)
        return EncodedTable(
            torch.rand(rows, 1, generator=random).double().numpy(),
            np.zeros((rows, 0), np.int32),
        )


def batches(model, rows, accept, seed=0):
    random = torch.Generator().manual_seed(seed)
    return list(
        accepted_batches(model, rows, random, accept=accept, requested="what is asked")
    )


def below(limit):
    return lambda records: records.numeric[:, 0] < limit


@pytest.mark.parametrize("limit", [1.0, 0.3, 0.001])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_exactly_as_many_records_as_asked_for_and_only_accepted_ones(limit, rows):
    parts = batches(Even(), rows, below(limit))
    assert sum(map(len, parts)) == rows
    assert all((part.numeric < limit).all() for part in parts)


def test_accepted_records_follow_the_model_given_that_they_are_accepted():
    values = (
        np.sort(
            np.concatenate(
                [part.numeric[:, 0] for part in batches(Even(), 20_000, below(0.2))]
            )
        )
        / 0.2
    )
    assert np.abs(values - np.arange(20_000) / 20_000).max() < 2 * 20_000**-0.5


def test_hardly_any_acceptance_is_refused_with_its_estimate():
    model = Even()
    with pytest.raises(
        RejectionError, match=r"what is asked: of 1\d\d,\d\d\d candidates .* only 0 did"
    ):
        batches(model, 1, below(0.0))
    assert PROBE_CANDIDATES <= sum(model.asked) <= PROBE_CANDIDATES + BATCH_ROWS
    model = Even()
    with pytest.raises(
        RejectionError, match=r"\(about [1-9]e-05\), and 10,000 records are wanted"
    ):
        batches(model, 10_000, below(3e-5))
    assert sum(model.asked) <= PROBE_CANDIDATES + BATCH_ROWS


@pytest.mark.parametrize("rows", [1, 300, 40_000])
@pytest.mark.parametrize("limit", [0.0, 1e-3, 1.0])
def test_no_number_of_records_takes_more_candidates_than_is_known_beforehand(
    monkeypatch, rows, limit
):
    """The early refusal is off, so that the limit alone ends the search."""
    monkeypatch.setattr(rejection, "PROBE_CANDIDATES", 2**60)
    monkeypatch.setattr(rejection, "BASE_CANDIDATES", 2**15)
    monkeypatch.setattr(rejection, "CANDIDATES_PER_RECORD", 2)
    model = Even()
    try:
        row_count = sum(map(len, batches(model, rows, below(limit))))
    except RejectionError:
        row_count = None
    assert sum(model.asked) <= 2**15 + 2 * rows
    assert row_count in (None, rows)
    assert (row_count == rows) == (limit == 1.0 or (limit == 1e-3 and rows == 1))


def test_the_limit_is_the_one_that_is_documented():
    assert (
        max_candidates(10_000)
        == BASE_CANDIDATES + CANDIDATES_PER_RECORD * 10_000
        == 2_048_576
    )


def test_a_page_takes_the_first_records_that_a_sample_has_and_what_its_limit_gives():
    random = torch.Generator().manual_seed(0)
    records, tally = accepted_within(
        Even(), 20_000, random, accept=below(0.4), limit=10**6
    )
    whole = np.concatenate(
        [part.numeric for part in batches(Even(), 20_000, below(0.4))]
    )
    assert np.array_equal(records.numeric, whole)
    assert tally.share == pytest.approx(0.4, abs=0.02)
    model = Even()
    fewer, tally = accepted_within(
        model, 20_000, random, accept=below(0.01), limit=50_000
    )
    assert sum(model.asked) == tally.drawn == 50_000
    assert len(fewer) == tally.accepted == tally.yielded
    assert 350 < len(fewer) < 650
    assert (fewer.numeric < 0.01).all()
    none, tally = accepted_within(Even(), 5, random, accept=below(0.0), limit=100)
    assert len(none) == 0
    assert none.numeric.shape == (0, 1)
    assert tally.drawn == 100


@pytest.mark.parametrize(
    ("share", "word", "answer"),
    [
        (1.0, None, None),
        (0.5, None, None),
        (0.49, "usable", "weakened"),
        (0.09, "rough", "weakened"),
        (0, "noise", "lost"),
    ],
)
def test_a_model_that_rarely_keeps_the_rules_is_not_called_good(share, word, answer):
    verdict = verdict_of_rules(share, [("a <= b", 0.9)])
    assert (verdict and verdict.word) == word
    if verdict is not None:
        assert "'a <= b' rejects 90.0%" in verdict.reasons[0]
        [finding] = verdict.findings
        assert finding.question == "relations and rules"
        assert finding.answer == answer


def test_rare_is_not_refused():
    assert sum(map(len, batches(Even(), 300, below(4e-4)))) == 300


def test_batches_of_several_are_shuffled_together_and_one_alone_stays_as_it_is():
    def part(value, sizes):
        return iter(
            [
                EncodedTable(np.full((size, 1), value), np.zeros((size, 0), np.int32))
                for size in sizes
            ]
        )

    random = torch.Generator().manual_seed(0)
    first, second = mix_batches([part(0.0, [50, 50]), part(1.0, [50])], random)
    assert len(first) == 100
    assert first.numeric.sum() == 50
    assert len(second) == 50
    assert second.numeric.sum() == 0
    assert (
        10 < first.numeric[:50].sum() < 40
    )  # by the false alarm of a shuffle below 1e-8
    before = random.get_state()
    assert [len(batch) for batch in mix_batches([part(0.0, [3, 1])], random)] == [3, 1]
    assert torch.equal(random.get_state(), before)
