"""Maps that mix records are found and refused; honest ones pass."""

from datetime import date

import numpy as np
import pytest
import torch
from tests.shared.stated import kinds, step_query
from tests.shared.steps import SCHEMA, Folded, frame, mix

from noisegate import Gate
from noisegate.devices import seeded
from noisegate.errors import DataError, OptionError, SlowKernelsWarning
from noisegate.gate.execution import (
    BLOCK_ROWS,
    Execution,
    block_rows,
    embedded_records,
    made_up_records,
    map_execution,
)
from noisegate.ledger.ledger import Kind
from noisegate.privacy.gradient_plan import plan_steps
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Query, plan_sums
from noisegate.queries.feature_map import Counts, Levels
from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    EncodedTable,
    Layout,
    Schema,
    decode,
)
from noisegate.schema.pixels import ImageShape
from noisegate.testing import made_up
from noisegate_images.networks.named import ChosenLayers
from noisegate_images.queries.fourier import draw
from noisegate_images.queries.perceptual import Activations, Perceptual

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
        return np.asarray(self.function(records), dtype=np.float32).reshape(
            len(records), -1
        )


def batch_norm(records):
    values = records.numeric[:, 1]
    return (values - values.mean()) / values.std()


MIXING = {
    "batch normalisation": batch_norm,
    "the largest of the batch": lambda records: (
        records.numeric[:, 1] / records.numeric[:, 1].max()
    ),
    "position": lambda records: np.arange(len(records)) / len(records),
    "the row before": lambda records: np.roll(records.codes[:, 0], 1),
    "one place only": lambda records: np.where(
        np.arange(len(records)) == 17, 2.0, records.numeric[:, 1]
    ),
    "ranks": lambda records: (
        np.argsort(np.argsort(records.numeric[:, 1])) / len(records)
    ),
    "a missing neighbour": lambda records: (
        records.numeric[:, 1] + np.isnan(records.numeric[:, 0]).sum() / 100
    ),
}


@pytest.mark.parametrize("name", list(MIXING))
def test_a_map_that_mixes_records_is_refused(name):
    with pytest.raises(
        OptionError, match=r"feature map 'f' gives a record another vector"
    ):
        map_execution("f", Map(MIXING[name]), LAYOUT, BLOCK_ROWS)


def test_a_strangers_map_is_probed_itself_whatever_it_calls_its_encoding():
    schema = Schema(LAYOUT.numeric + LAYOUT.coded, label="y")
    stranger = Map(lambda records: np.roll(records.codes[:, 0], 1))
    stranger.encoding = (
        Counts()
    )  # as the votes and angles of ours have, of which only this is probed
    gate = Gate(decode(made_up(schema.layout, 300), schema), schema=schema, epsilon=1.0)
    plan = plan_sums(gate.budget, (Query.of("f", stranger, columns=1, share=1.0),))
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
    return draw(
        LAYOUT,
        count=50,
        kernel=kernel,
        length_scales=[(0.1, 0.5)] * 2,
        exclude_label=True,
        seed=0,
    )


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
    assert map_execution("f", feature_map, LAYOUT, BLOCK_ROWS) == Execution(
        rows=BLOCK_ROWS
    )


def test_an_honest_map_that_puts_columns_first_in_memory_is_accepted():
    class ColumnsFirst(Map):
        def __call__(self, records):
            return np.asfortranarray(
                np.nan_to_num(records.numeric, nan=0.5).astype(np.float32)
            )

    assert map_execution(
        "f", ColumnsFirst(None, dim=2), LAYOUT, BLOCK_ROWS
    ) == Execution(rows=BLOCK_ROWS)


def test_a_map_whose_last_bits_go_by_its_neighbours_is_computed_one_record_at_a_time():
    last_bits = Map(
        lambda records: records.numeric[:, 1] * (1 + 1e-6 * records.codes[:, 0].mean())
    )
    with pytest.warns(
        SlowKernelsWarning, match="f: this machine's kernels round by place"
    ):
        assert map_execution("f", last_bits, LAYOUT, BLOCK_ROWS) == Execution(rows=1)


def test_a_map_that_rounds_by_place_in_large_blocks_gets_smaller_ones():
    def rounds(records):
        return records.numeric[:, 1] * (1 + 1e-6 * (np.arange(len(records)) > 48))

    assert map_execution("f", Map(rounds), LAYOUT, BLOCK_ROWS).rows == 32


def test_a_map_of_another_shape_than_it_says_is_refused():
    with pytest.raises(OptionError, match=r"shape \(256, 1\), not \(256, 3\)"):
        map_execution(
            "f", Map(lambda records: records.numeric[:, 1], dim=3), LAYOUT, BLOCK_ROWS
        )


def test_the_made_up_records_use_everything_that_the_schema_allows():
    records = made_up_records(LAYOUT, 500, np.random.default_rng(0))
    assert np.isnan(records.numeric[:, 0]).any()
    assert not np.isnan(records.numeric[:, 1]).any()
    assert np.nanmin(records.numeric) >= 0
    assert np.nanmax(records.numeric) <= 1
    assert [set(column) for column in records.codes.T] == [{0, 1, 2}, {0, 1}]
    bare = made_up_records(
        Layout(numeric=LAYOUT.numeric, coded=()), 3, np.random.default_rng(0)
    )
    assert (bare.codes.shape, bare.codes.dtype) == ((3, 0), np.int32)


# Gradients at what a public map made of the records: it is run once, in blocks of one shape, and changes no bound.

CAP = 100.0
START = {"w": torch.zeros(3)}


def loss(parameters, numeric, codes):
    return (parameters["w"] * numeric).sum() * (1 + codes[0])


def opened(data=None, feature_map=None, *, norm=1.0, schema=SCHEMA, **options):
    gate = Gate(
        frame() if data is None else data, schema=schema, epsilon=90.0, **options
    )
    plan = plan_steps(gate.budget, step_query(3, clip_norm=norm))
    return gate.gradients(
        plan, loss, method="test", public={}, represent=feature_map or Folded()
    )


def perceptual():
    """Of a small network of images of 6 x 6, which rounds as any other does."""
    with seeded(0):
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 5, 3)
        )
    layers = ChosenLayers(
        network, ("0", "2"), ImageShape(height=6, width=6, channels=3), pool=True
    )
    return Perceptual(activations=Activations(layers=layers))


def test_what_stands_for_a_record_is_the_same_bits_whatever_its_neighbours_and_place():
    feature_map, random = perceptual(), np.random.default_rng(0)
    rows = BLOCK_ROWS + 37
    records = EncodedTable(
        random.random((rows, 108)), np.arange(rows, dtype=np.int32)[:, None]
    )
    singles = [embedded_records(records.rows([i]), feature_map) for i in range(rows)]
    for size in (1, 2, BLOCK_ROWS, rows):
        places = random.permutation(rows)[:size]
        together = embedded_records(records.rows(places), feature_map)
        assert together.codes[:, 0].tolist() == places.tolist()
        expected = np.concatenate([singles[place].numeric for place in places])
        assert together.numeric.tobytes() == expected.tobytes()
    assert np.allclose(np.linalg.norm(together.numeric, axis=1), 1)


def test_a_step_sums_the_clipped_gradients_of_what_was_made_of_the_records(
    everyone, exactly
):
    records = (frame()[["a", "b", "c"]].to_numpy() + 1) / 2
    vectors = np.stack(
        [records[:, 0] - records[:, 1], records[:, 1] * records[:, 2], records[:, 0]],
        axis=1,
    )
    vectors *= 1 + frame().ill.to_numpy()[:, None]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = (vectors * np.minimum(1, 0.5 / lengths)).sum(axis=0)
    with opened(norm=0.5) as session:
        found = session.step(START) / (UNITS / 0.5)
    assert (lengths > 0.5).mean() > 0.2
    assert np.allclose(found, expected, atol=0.002 * 0.5 * 80)


def test_one_record_more_or_less_moves_a_step_by_the_bound_at_most(everyone, exactly):
    # Two records far outside the norm, whatever the map says of its own.
    loud = Folded(lambda vectors, records: vectors * 1e6)
    data = frame(40)

    def total(rows):
        with opened(data.iloc[rows], loud) as session:
            return session.step(START)

    whole = total(range(40))
    for left_out in (0, 17, 39):
        difference = whole - total([i for i in range(40) if i != left_out])
        assert 0.99 * UNITS < np.linalg.norm(difference) <= UNITS


def test_the_map_is_run_once_in_blocks_of_one_shape():
    feature_map = Folded()
    with opened(frame(600), feature_map) as session:
        session.step(START)
        calls = len(feature_map.shapes)
        session.step(START)
        session.step(START)
    assert len(feature_map.shapes) == calls
    assert set(feature_map.shapes) == {(block_rows(feature_map), 3)}
    settings = session.release(START).certificate.public["gradients"]["g"]
    assert settings["represented"] == {"by": "Folded", "dim": 3}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda vectors, records: vectors - vectors.mean(axis=0),
            OptionError,
            "'Folded' gives a record another vector",
        ),
        (
            lambda vectors, records: vectors[:, :1],
            OptionError,
            r"shape \(256, 1\), not \(256, 3\)",
        ),
        (
            lambda vectors, records: np.where(records.codes == 1, np.nan, vectors),
            DataError,
            "Folded.*not finite",
        ),
    ],
)
def test_a_map_that_is_unusable_is_named_before_anything_is_spent(
    change, error, message, ledger, monkeypatch
):
    session = opened(feature_map=Folded(change), ledger=ledger, dataset="clinic")
    monkeypatch.setattr(
        session.hand_over().source,
        "batch_readers",
        lambda: pytest.fail("records were read"),
    )
    with session, pytest.raises(error, match=message):
        session.step(START)
    assert kinds(ledger) == []


def test_a_number_that_is_not_finite_at_a_private_record_is_refused_and_nothing_is_spent(
    ledger,
):
    data = frame()
    data.loc[7, "a"] = 0.125
    rare = Folded(
        lambda vectors, records: np.where(
            records.numeric[:, :1] == 0.5625, np.inf, vectors
        )
    )
    with (
        opened(data, rare, ledger=ledger, dataset="clinic") as session,
        pytest.raises(
            DataError, match="Folded: a feature map gave numbers that are not finite"
        ) as caught,
    ):
        session.step(START)
    assert "0.125" not in str(caught.value)
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]


def test_gradients_are_probed_at_represented_records(monkeypatch):
    """A loss that only goes wrong at the map's numbers, which no column of the schema can have, is still found."""
    mix(
        monkeypatch,
        lambda found, numeric: found + found.mean(axis=0) * bool((numeric < 0).any()),
    )
    with (
        opened() as session,
        pytest.raises(OptionError, match="changes with the record's neighbours"),
    ):
        session.step(START)
