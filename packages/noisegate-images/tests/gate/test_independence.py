"""Maps that mix records are found and refused; honest ones pass."""

from datetime import date

import numpy as np
import pytest

from noisegate import Gate
from noisegate.errors import OptionError, SlowKernelsWarning
from noisegate.features.feature_map import Counts, Levels
from noisegate.gate.execution import BLOCK_ROWS, Execution, made_up_records, map_execution
from noisegate.privacy.plan import Plan, Query
from noisegate.schema import Boolean, Categorical, Continuous, Date, Layout, Schema, decode
from noisegate.testing import made_up
from noisegate_images.features.fourier import draw

LAYOUT = Layout(
    numeric=(
        Continuous(name="x", lower=0.0, upper=1.0, missing=True),
        Date(name="d", lower=date(2000, 1, 1), upper=date(2020, 1, 1)),
    ),
    coded=(Categorical(name="c", levels=("a", "b"), missing=True), Boolean(name="y")),
    label=1,
)


class Map:
    """A map of one column, from a function of encoded records."""

    norm, nonnegative = 1.0, False

    def __init__(self, function, dim=1):
        self.function, self.dim = function, dim

    def __call__(self, records):
        return np.asarray(self.function(records), dtype=np.float32).reshape(len(records), -1)


def batch_norm(records):
    values = records.numeric[:, 1]
    return (values - values.mean()) / values.std()


MIXING = {
    "batch normalisation": batch_norm,
    "the largest of the batch": lambda records: records.numeric[:, 1] / records.numeric[:, 1].max(),
    "position": lambda records: np.arange(len(records)) / len(records),
    "the row before": lambda records: np.roll(records.codes[:, 0], 1),
    "one place only": lambda records: np.where(np.arange(len(records)) == 17, 2.0, records.numeric[:, 1]),
    "ranks": lambda records: np.argsort(np.argsort(records.numeric[:, 1])) / len(records),
    "a missing neighbour": lambda records: records.numeric[:, 1] + np.isnan(records.numeric[:, 0]).sum() / 100,
}


@pytest.mark.parametrize("name", list(MIXING))
def test_a_map_that_mixes_records_is_refused(name):
    with pytest.raises(OptionError, match=r"feature map 'f' gives a record another vector"):
        map_execution("f", Map(MIXING[name]), LAYOUT, BLOCK_ROWS)


def test_a_strangers_map_is_probed_itself_whatever_it_calls_its_encoding():
    schema = Schema(LAYOUT.numeric + LAYOUT.coded, label="y")
    stranger = Map(lambda records: np.roll(records.codes[:, 0], 1))
    stranger.encoding = Counts()  # as the votes and angles of ours have, of which only this is probed
    gate = Gate(decode(made_up(schema.layout, 300), schema), schema=schema, epsilon=1.0)
    plan = Plan(queries=(Query.of("f", stranger, columns=1, share=1.0),)).calibrate(gate.budget)
    with pytest.raises(OptionError, match="gives a record another vector"):
        gate.sum(plan, {"f": stranger}, method="stranger", public={})


def test_a_map_with_memory_is_refused():
    calls = []

    def remembering(records):
        calls.append(0)
        return np.full(len(records), float(len(calls)))

    with pytest.raises(OptionError, match="another vector"):
        map_execution("f", Map(remembering), LAYOUT, BLOCK_ROWS)


def fourier(kernel):
    return draw(LAYOUT, count=50, kernel=kernel, length_scales=[(0.1, 0.5)] * 2, exclude_label=True, seed=0)


@pytest.mark.parametrize(
    "feature_map",
    [
        fourier("pairs"),
        fourier("numeric"),
        Levels(columns=(0, 1), sizes=(3, 2)),
        Counts(),
        Map(lambda records: np.nan_to_num(records.numeric[:, 0])),
        Map(lambda records: records.numeric[:, 0]),  # NaN, but the same one
    ],
)
def test_an_honest_map_is_accepted(feature_map):
    assert map_execution("f", feature_map, LAYOUT, BLOCK_ROWS) == Execution(rows=BLOCK_ROWS)


def test_an_honest_map_that_puts_columns_first_in_memory_is_accepted():
    class ColumnsFirst(Map):
        def __call__(self, records):
            return np.asfortranarray(np.nan_to_num(records.numeric, nan=0.5).astype(np.float32))

    assert map_execution("f", ColumnsFirst(None, dim=2), LAYOUT, BLOCK_ROWS) == Execution(rows=BLOCK_ROWS)


def test_a_map_whose_last_bits_go_by_its_neighbours_is_computed_one_record_at_a_time():
    last_bits = Map(lambda records: records.numeric[:, 1] * (1 + 1e-6 * records.codes[:, 0].mean()))
    with pytest.warns(SlowKernelsWarning, match="f: this machine's kernels round by place"):
        assert map_execution("f", last_bits, LAYOUT, BLOCK_ROWS) == Execution(rows=1)


def test_a_map_that_rounds_by_place_in_large_blocks_gets_smaller_ones():
    def rounds(records):
        return records.numeric[:, 1] * (1 + 1e-6 * (np.arange(len(records)) > 48))

    assert map_execution("f", Map(rounds), LAYOUT, BLOCK_ROWS).rows == 32


def test_a_map_of_another_shape_than_it_says_is_refused():
    with pytest.raises(OptionError, match=r"shape \(256, 1\), not \(256, 3\)"):
        map_execution("f", Map(lambda records: records.numeric[:, 1], dim=3), LAYOUT, BLOCK_ROWS)


def test_the_made_up_records_use_everything_that_the_schema_allows():
    records = made_up_records(LAYOUT, 500, np.random.default_rng(0))
    assert np.isnan(records.numeric[:, 0]).any()
    assert not np.isnan(records.numeric[:, 1]).any()
    assert np.nanmin(records.numeric) >= 0
    assert np.nanmax(records.numeric) <= 1
    assert [set(column) for column in records.codes.T] == [{0, 1, 2}, {0, 1}]
    bare = made_up_records(Layout(numeric=LAYOUT.numeric, coded=()), 3, np.random.default_rng(0))
    assert (bare.codes.shape, bare.codes.dtype) == ((3, 0), np.int32)
