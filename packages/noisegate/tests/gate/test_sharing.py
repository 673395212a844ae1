"""Maps that share a first half, and blocks of long vectors: the sums are those that each map has on its own."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.features.feature_map import SharingMap
from noisegate.gate.execution import BLOCK_ROWS, block_rows, map_execution, vectors_of
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.grid import Grid
from noisegate.schema import Continuous, EncodedTable, Layout

LAYOUT = Layout(numeric=(Continuous(name="x", lower=0.0, upper=1.0),), coded=())


@dataclass
class First:
    """Counts how often it is called, and with how many rows."""

    rows: list = field(default_factory=list)

    def __call__(self, records):
        self.rows.append(len(records))
        return np.repeat(records.numeric, 3, axis=1).astype(np.float32)


@dataclass
class Power:
    first_half: First
    power: int
    norm: float = 2.0
    nonnegative: bool = True
    dim: int = 3
    in_place: bool = False

    def second_half(self, values):
        if self.in_place:
            values **= self.power
            return values
        return values**self.power

    def __call__(self, records):
        return self.second_half(self.first_half(records))


@dataclass
class Long:
    dim: int
    norm: float = 1.0
    nonnegative: bool = True
    rows: list = field(default_factory=list)

    def __call__(self, records):
        self.rows.append(len(records))
        vectors = np.zeros((len(records), self.dim), np.float32)
        vectors[:, 0] = records.numeric[:, 0]
        return vectors


def task(feature_map, label=None):
    return SumTask(feature_map=feature_map, grid=Grid(norm=2.0), columns=1 if label is None else 2, label=label)


def table(rows, seed=0):
    random = np.random.default_rng(seed)
    return EncodedTable(numeric=random.uniform(size=(rows, 1)), codes=random.integers(0, 2, (rows, 1)).astype(np.int32))


@pytest.mark.parametrize("label", [None, 0])
def test_a_first_half_is_computed_once_for_all_that_share_it(label):
    records, first, other = table(2 * BLOCK_ROWS + 7), First(), First()
    maps = {"one": Power(first, 1), "two": Power(first, 2), "else": Power(other, 3)}
    together = sum_records(records, {name: task(each, label) for name, each in maps.items()}).sums
    assert first.rows == other.rows == [BLOCK_ROWS] * 3
    for name, each in maps.items():
        alone = sum_records(records, {name: task(Power(First(), each.power), label)}).sums[name]
        assert np.array_equal(together[name], alone), name


def test_a_second_half_that_works_in_place_fails_instead_of_changing_what_others_see():
    first = First()
    assert isinstance(Power(first, 1), SharingMap)
    tasks = {"one": task(Power(first, 2, in_place=True)), "two": task(Power(first, 1))}
    with pytest.raises(ValueError, match="read-only"):
        sum_records(table(5), tasks)


def test_the_probe_looks_at_what_is_summed():
    """Calling this map is honest; its halves, which the gate uses, are not."""

    class TwoFaced(Power):
        def second_half(self, values):
            return values / values.mean()

        def __call__(self, records):
            return np.repeat(records.numeric, 3, axis=1).astype(np.float32)

    two_faced = TwoFaced(First(), 1)
    with pytest.raises(OptionError, match="another vector"):
        map_execution("f", two_faced, LAYOUT, BLOCK_ROWS)
    records = table(BLOCK_ROWS)
    assert not np.array_equal(vectors_of(two_faced, records, {}), two_faced(records))


@pytest.mark.parametrize("dim", [2**19, 2**23])
def test_every_block_of_a_map_has_the_rows_that_were_probed(dim):
    long, rows = Long(dim), block_rows(Long(dim))
    map_execution("f", long, LAYOUT, rows)
    records = table(2 * rows + 1)
    summed = sum_records(records, {"q": task(long)}).sums["q"][0]
    assert set(long.rows) == {rows}
    one_by_one = sum(int(task(long).grid.quantise(np.array([[x]], np.float32))[0, 0]) for x in records.numeric[:, 0])
    assert (summed[0], np.abs(summed[1:]).max()) == (one_by_one, 0)
