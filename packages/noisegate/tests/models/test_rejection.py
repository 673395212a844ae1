from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from noisegate.errors import OptionError
from noisegate.models.record_model import BATCH_ROWS, PROBE_ROWS, accepted_batches, mixed
from noisegate.schema import EncodedTable


@dataclass
class Even:
    """One numeric column, even over [0, 1]; remembers how much was drawn from it."""

    asked: list = field(default_factory=list)

    def draw(self, rows, random):
        self.asked.append(rows)
        return EncodedTable(torch.rand(rows, 1, generator=random).double().numpy(), np.zeros((rows, 0), np.int32))


def batches(model, rows, accept, seed=0):
    random = torch.Generator().manual_seed(seed)
    return list(accepted_batches(model, rows, random, accept=accept, asked="what is asked"))


def below(limit):
    return lambda records: records.numeric[:, 0] < limit


@pytest.mark.parametrize("limit", [1.0, 0.3, 0.001])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_exactly_as_many_records_as_asked_for_and_only_accepted_ones(limit, rows):
    parts = batches(Even(), rows, below(limit))
    assert sum(map(len, parts)) == rows and all((part.numeric < limit).all() for part in parts)


def test_accepted_records_follow_the_model_given_that_they_are_accepted():
    values = np.sort(np.concatenate([part.numeric[:, 0] for part in batches(Even(), 20_000, below(0.2))])) / 0.2
    assert np.abs(values - np.arange(20_000) / 20_000).max() < 2 * 20_000**-0.5


def test_hardly_any_acceptance_is_refused_with_its_estimate():
    model = Even()
    with pytest.raises(OptionError, match=r"what is asked: of 1\d\d,\d\d\d synthetic records only 0 did"):
        batches(model, 1, below(0.0))
    assert PROBE_ROWS <= sum(model.asked) <= PROBE_ROWS + BATCH_ROWS
    with pytest.raises(OptionError, match=r"a probability of about [1-9]e-05; below 0\.0001 none"):
        batches(Even(), 10_000, below(3e-5))


def test_rare_is_not_refused():
    assert sum(map(len, batches(Even(), 300, below(4e-4)))) == 300


def test_batches_of_several_are_shuffled_together_and_one_alone_stays_as_it_is():
    def part(value, sizes):
        return iter([EncodedTable(np.full((size, 1), value), np.zeros((size, 0), np.int32)) for size in sizes])

    random = torch.Generator().manual_seed(0)
    first, second = mixed([part(0.0, [50, 50]), part(1.0, [50])], random)
    assert (len(first), first.numeric.sum(), len(second), second.numeric.sum()) == (100, 50, 50, 0)
    assert 10 < first.numeric[:50].sum() < 40  # by the false alarm of a shuffle below 1e-8
    before = random.get_state()
    assert [len(batch) for batch in mixed([part(0.0, [3, 1])], random)] == [3, 1]
    assert torch.equal(random.get_state(), before)
