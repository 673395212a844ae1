"""Guarantee G-06: a record's quantised vector is the same bits whatever its neighbours, place, file and threads."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisegate.gate.execution import BLOCK_ROWS, Encoded, blocks
from noisegate.gate.gate import Gate
from noisegate.gate.sums import LocalEngine, SumTask, sum_records
from noisegate.privacy.grid import Grid
from noisegate.records import Rows
from noisegate.schema import EncodedTable
from noisegate.sources.tables.tables import TableSource
from noisegate_images.queries.fourier import draw
from noisegate_papers.methods.dp_merf import DPMERF
from noisegate_papers.queries import products
from noisegate_papers.queries.hermite import Series, numeric_table
from noisegate_papers.queries.products import Products

ROWS = 2 * BLOCK_ROWS + 37


def alone(record, tasks):
    """The vectors of one record, as the gate sees it when there is no other."""
    return sum_records(record, tasks).sums


def test_a_sum_is_the_sum_of_each_record_on_its_own(mixed_schema, encoded, merf_tasks):
    tasks, records = merf_tasks(mixed_schema), encoded(mixed_schema.layout, ROWS)
    singles = [alone(records.rows([i]), tasks) for i in range(ROWS)]
    random = np.random.default_rng(1)
    for size in (2, 100, BLOCK_ROWS, BLOCK_ROWS + 1, ROWS):
        places = random.permutation(ROWS)[:size]
        together = sum_records(records.rows(places), tasks).sums
        for name in tasks:
            assert np.array_equal(
                together[name], sum(singles[place][name] for place in places)
            ), (name, size)


def test_a_record_among_copies_of_itself(mixed_schema, encoded, merf_tasks):
    tasks, records = merf_tasks(mixed_schema), encoded(mixed_schema.layout, 5)
    for i in range(5):
        many = sum_records(records.rows([i] * 300), tasks).sums
        for name, single in alone(records.rows([i]), tasks).items():
            assert np.array_equal(many[name], 300 * single), name


def test_maps_see_records_row_by_row_however_these_lie_in_memory(mixed_schema, encoded):
    records = encoded(mixed_schema.layout, ROWS)
    columns_first = Rows(
        np.asfortranarray(records.numeric), np.asfortranarray(records.codes)
    )
    for mixed, plain in zip(
        blocks(columns_first, BLOCK_ROWS), blocks(records, BLOCK_ROWS), strict=True
    ):
        for found, expected in zip(mixed, plain, strict=True):
            for name in ("numeric", "codes"):
                array = getattr(found, name)
                assert array.flags.c_contiguous
                assert np.array_equal(
                    array, getattr(expected, name), equal_nan=name == "numeric"
                )


@pytest.mark.parametrize("count", [1, 7, 500])
@pytest.mark.parametrize("kernel", ["pairs", "numeric"])
def test_the_bits_of_a_row_at_every_place_of_a_block(
    kernel, count, mixed_schema, encoded
):
    layout = mixed_schema.layout
    scales = [(0.03, 0.5)] * len(layout.numeric)
    feature_map = draw(
        layout,
        count=count,
        kernel=kernel,
        length_scales=scales,
        exclude_label=True,
        seed=3,
    )
    grid = Grid(norm=feature_map.norm)
    records = encoded(layout, BLOCK_ROWS)
    expected = grid.quantise(feature_map(records))
    assert expected.any(axis=1).all()
    for shift in (1, 3, 64, 255):
        places = np.roll(np.arange(BLOCK_ROWS), shift)
        others = encoded(layout, BLOCK_ROWS, seed=shift)
        others.numeric[5:9], others.codes[5:9] = (
            records.numeric[5:9],
            records.codes[5:9],
        )
        assert np.array_equal(
            grid.quantise(feature_map(records.rows(places))), expected[places]
        )
        assert np.array_equal(grid.quantise(feature_map(others))[5:9], expected[5:9])


def test_rows_on_the_edge_of_the_ball_do_not_depend_on_their_neighbours(
    chosen, encoded, lookup_schema
):
    # Norms around the bound, where the fast test of the norm may answer either way.
    random = np.random.default_rng(4)
    vectors = random.normal(size=(400, 33))
    vectors *= (1 + np.linspace(-2e-3, 2e-3, 400))[:, None] / np.linalg.norm(
        vectors, axis=1
    )[:, None]
    task = SumTask(
        feature_map=chosen(vectors.astype(np.float32)),
        grid=Grid(norm=1.0),
        columns=1,
        label=None,
    )
    records = encoded(lookup_schema(400).layout, ROWS)
    singles = sum(alone(records.rows([i]), {"q": task})["q"] for i in range(ROWS))
    for seed in range(3):
        shuffled = records.rows(np.random.default_rng(seed).permutation(ROWS))
        assert np.array_equal(sum_records(shuffled, {"q": task}).sums["q"], singles)


def layouts(frame, folder):
    """The same records as CSV and Parquet files, folders of several, and tables in memory."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_csv(folder / "one.csv", index=False)
    pq.write_table(table, folder / "one.parquet", row_group_size=100)
    for kind in ("csv", "parquet"):
        (folder / kind).mkdir()
        for part, start in enumerate(range(0, len(frame), 250)):
            rows = frame.iloc[start : start + 250]
            if kind == "csv":
                rows.to_csv(folder / kind / f"{part}.csv", index=False)
            else:
                rows.to_parquet(folder / kind / f"{part}.parquet", index=False)
    files = [folder / name for name in ("one.csv", "one.parquet", "csv", "parquet")]
    reordered = frame[frame.columns[::-1]]
    return [
        *files,
        frame,
        table,
        pl.from_arrow(table),
        reordered,
        frame.sample(frac=1, random_state=1),
    ]


def test_the_sum_before_noise_is_the_same_for_every_layout_and_thread_count(
    tmp_path, mixed_schema, people, showing_engine
):
    seen = []
    for place, source in enumerate(layouts(people(700), tmp_path)):
        engine = showing_engine(threads=(1, 2, 5)[place % 3])
        DPMERF(frequencies=20).query(
            Gate(source, schema=mixed_schema, epsilon=1.0, engine=engine)
        )
        seen.append(engine.totals[0])
    assert {totals.records for totals in seen} == {700}
    for totals in seen[1:]:
        for name, sums in seen[0].sums.items():
            assert np.array_equal(totals.sums[name], sums), name


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_sum_does_not_depend_on_threads_and_batches(
    threads, mixed_schema, people, merf_tasks
):
    tasks, frame = merf_tasks(mixed_schema, frequencies=200), people(1500)
    whole = sum_records(next(TableSource(frame, mixed_schema).batches()), tasks)
    assert whole.records == 1500
    for batch_rows in (1, 255, 256, 700) if threads == 2 else (97,):
        source = TableSource(
            frame.iloc[:300] if batch_rows == 1 else frame,
            mixed_schema,
            batch_rows=batch_rows,
        )
        expected = (
            whole
            if batch_rows != 1
            else sum_records(
                next(TableSource(frame.iloc[:300], mixed_schema).batches()), tasks
            )
        )
        found = LocalEngine(threads=threads).sum(Encoded(source.batches()), tasks, None)
        assert found.records == expected.records
        for name in tasks:
            assert np.array_equal(found.sums[name], expected.sums[name]), (
                name,
                batch_rows,
            )


# Guarantee G-23 where several columns share one table, as the pixels of an image do.

TABLE = numeric_table(Series(length_scale=0.1, order=5, stretch=3.0), 7, missing=False)
MAP = {
    "tables": (TABLE,) * 4,
    "groups": ((3,), (0,), (2,), (1,)),
    "weights": (0.5, 0.5, 0.2, 0.5),
}


class Slow(Products):
    """The same map, which the gate does not know, so that it quantises every vector."""


def test_columns_of_one_table_are_counted_apart():
    numeric = np.random.default_rng(0).integers(0, 8, (300, 4)) / 7
    records = EncodedTable(numeric, np.zeros((300, 0), dtype=np.int32))
    quick, slow = Products(**MAP), Slow(**MAP)
    tasks = [
        SumTask(feature_map=f, grid=Grid(norm=quick.norm), columns=1, label=None)
        for f in (quick, slow)
    ]
    assert [task.exact_sum is None for task in tasks] == [False, True]
    sums = [sum_records(records, {"q": task}).sums["q"] for task in tasks]
    assert (sums[0] == sums[1]).all()


def test_more_records_than_the_products_are_exact_for_are_refused(monkeypatch):
    found = Products(**MAP)
    exact, sums = (
        found.exact_sum(Grid(norm=found.norm)),
        np.zeros(found.dim, dtype=np.int64),
    )
    records = EncodedTable(np.zeros((5, 4)), np.zeros((5, 0), dtype=np.int32))
    monkeypatch.setattr(products, "MOST_ROWS", 6)
    exact.add(sums, records)
    monkeypatch.setattr(products, "MOST_ROWS", 5)
    with pytest.raises(OverflowError, match="5 records at once"):
        exact.add(sums, records)
