"""Guarantee G-14: which records of a unit are used depends on that unit's records alone."""

from collections import Counter, defaultdict
from datetime import datetime

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import integer

from noisegate.errors import DataError, OptionError
from noisegate.schema import Schema
from noisegate.schema.encode import join_names
from noisegate.sources import units as rooms
from noisegate.sources.tables.tables import TableSource
from noisegate.sources.units import HashTable, UnitLimit

SCHEMA = Schema((integer("n", 0, 10_000),))


def limit(contributions=3, **fields):
    return UnitLimit(column="who", contributions=contributions, **fields)


def used(table, contributions=3, batch_rows=7, schema=SCHEMA):
    """The numbers of the records that are used, in order."""
    source = TableSource(
        table, schema, batch_rows=batch_rows, units=limit(contributions)
    )
    batches = [read() for read in source.batch_readers()]
    return [round(value * 10_000) for batch in batches for value in batch.numeric[:, 0]]


def people(rows=300, many=40, seed=0):
    random = np.random.default_rng(seed)
    # Some have one record, some a great many.
    who = (random.pareto(0.7, rows) * 2).astype(int) % many
    return pd.DataFrame({"who": [f"p{i}" for i in who], "n": np.arange(rows)})


def first(table, contributions):
    met = Counter()
    kept_rows = []
    for who, n in zip(table["who"], table["n"], strict=True):
        met[who] += 1
        if met[who] <= contributions:
            kept_rows.append(n)
    return kept_rows


@pytest.mark.parametrize("contributions", [1, 2, 5, 1000])
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_the_first_records_of_each_unit_are_used(contributions, batch_rows):
    table = people()
    assert used(table, contributions, batch_rows) == first(table, contributions)


@pytest.mark.parametrize(
    "form",
    [
        "csv",
        "parquet",
        "folder",
        "polars",
        "arrow",
        "categories",
        "dict",
        "lazy",
        "hugging face",
    ],
)
def test_every_kind_of_source_uses_the_same_records(form, tmp_path):
    table = people()
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "parts").mkdir()
    table[:100].to_parquet(tmp_path / "parts" / "a.parquet", index=False)
    table[100:].to_parquet(tmp_path / "parts" / "b.parquet", index=False)
    sources = {
        "csv": lambda: tmp_path / "people.csv",
        "parquet": lambda: tmp_path / "parts" / "a.parquet",
        "folder": lambda: tmp_path / "parts",
        "categories": lambda: table.astype({"who": "category"}),
        "polars": lambda: pl.from_pandas(table),
        "arrow": lambda: pa.Table.from_pandas(table),
        "dict": lambda: table.to_dict("list"),
        "lazy": lambda: pl.from_pandas(table).lazy(),
        "hugging face": lambda: datasets.Dataset.from_pandas(table),
    }
    expected = table[:100] if form == "parquet" else table
    assert used(sources[form](), 2) == first(expected, 2)


def test_whole_numbers_and_text_name_the_same_unit_in_files_of_both(tmp_path):
    pq.write_table(
        pa.table({"who": pa.array([7, 8], pa.int32()), "n": [1, 2]}),
        tmp_path / "a.parquet",
    )
    pq.write_table(
        pa.table({"who": pa.array([7, 8], pa.int64()), "n": [3, 4]}),
        tmp_path / "b.parquet",
    )
    pq.write_table(
        pa.table({"who": pa.array([" 7", "9 "]), "n": [5, 6]}), tmp_path / "c.parquet"
    )
    assert used(tmp_path, 1) == [1, 2, 6]
    assert used(tmp_path, 2) == [1, 2, 3, 4, 6]


def test_a_unit_more_changes_nothing_about_the_others():
    table = people()
    alone = first(table, 2)
    for who in ("p0", "p1", table["who"].iloc[-1], "new"):
        extra = pd.DataFrame({"who": [who] * 30, "n": np.arange(5000, 5030)})
        rest = table[table["who"] != who]
        mixed = pd.concat([rest, extra]).sample(frac=1, random_state=3)
        mixed = pd.concat([extra[:1], mixed.sort_values("n"), extra[:2]])
        used_rows = used(mixed, 2)
        assert sorted(n for n in used_rows if n < 5000) == sorted(
            n for n in alone if n in set(rest["n"])
        )
        assert sum(n >= 5000 for n in used_rows) == 2


def test_all_passes_use_the_same_records():
    source = TableSource(people(), SCHEMA, batch_rows=10, units=limit(2))
    passes = [
        np.concatenate([read().numeric for read in source.batch_readers()])
        for _ in range(2)
    ]
    assert np.array_equal(*passes)


@pytest.mark.parametrize("missing", [None, "", " ", "NA", "nan"])
def test_a_record_without_a_unit_stops_the_run(missing, tmp_path):
    path = tmp_path / "people.csv"
    pd.DataFrame({"who": ["a", missing, "b"], "n": [1, 2, 3]}).to_csv(path, index=False)
    with pytest.raises(
        DataError,
        match=r"people\.csv, line 3, column 'who': the privacy unit of this record",
    ):
        used(path)


def test_numbers_beyond_64_bits_stop_the_run_since_readers_clamp_them():
    # Clamped to one number they would share a limit, and one unit would push out the records of another.
    who = pd.Series([7, 2**100 + 1, 2**90], dtype=object)
    with pytest.raises(
        DataError,
        match=r"record 2, column 'who': numbers beyond 64 bits .* write units as text",
    ):
        used(pd.DataFrame({"who": who, "n": [1, 2, 3]}))
    assert used(pd.DataFrame({"who": who.astype(str), "n": [1, 2, 3]}), 1) == [1, 2, 3]
    assert used(
        pa.table({"who": pa.array([2**64 - 1, 2**64 - 2], pa.uint64()), "n": [1, 2]}), 1
    ) == [1, 2]


@pytest.mark.parametrize("who", [["1", "1.0", " 1.00"], [1, 1, 1], [1.0, 1.0, 1.0]])
def test_a_whole_number_is_one_unit_however_it_is_written(who, tmp_path):
    assert used(pd.DataFrame({"who": [*who, who[0]], "n": [1, 2, 3, 4]}), 2) == [1, 2]
    pd.DataFrame({"who": [*who, "01"], "n": [1, 2, 3, 4]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    assert used(tmp_path / "t.csv", 2) == [1, 2, 4]


def test_a_key_of_several_columns_is_that_of_another_record_only_where_all_of_them_are():
    parts = [
        pa.array(["1", "12", "1:1", "1", None]),
        pa.array([b"23", b"3", b"1", b"1:1", b"1"]),
    ]
    names = join_names(parts).to_pylist()
    assert len({*names[:4]}) == 4
    assert names[4] is None


@pytest.mark.parametrize("dtype", [None, object])
@pytest.mark.parametrize(
    "cells", [[1.0, 2.5], [True, False], [datetime(2020, 1, 1)] * 2]
)
def test_what_names_no_unit_or_in_several_ways_is_refused(cells, dtype):
    with pytest.raises(DataError, match="column 'who': expected text or whole numbers"):
        used(pd.DataFrame({"who": pd.Series(cells, dtype=dtype), "n": [1, 2]}))


def test_the_column_must_be_there_once():
    with pytest.raises(DataError, match="unit column 'who' is not in the data"):
        TableSource(
            pd.DataFrame({"n": [1]}), SCHEMA, units=limit()
        ).check_against_schema()
    twice = pa.table([[1], ["a"], ["b"]], names=["n", "who", "who "])
    with pytest.raises(
        DataError, match=r"two columns have the same name|more than once"
    ):
        TableSource(twice, SCHEMA, units=limit()).check_against_schema()


def test_the_column_is_not_described_but_may_be_ignored():
    with pytest.raises(OptionError, match="unit_column='n' is described in the schema"):
        TableSource(people(), SCHEMA, units=UnitLimit(column="n", contributions=1))
    ignoring = Schema(SCHEMA.columns, ignore=("who",))
    assert used(people(), 2, schema=ignoring) == first(people(), 2)


def test_the_table_counts_like_a_dictionary_while_it_grows():
    random = np.random.default_rng(1)
    table = HashTable()
    expected = defaultdict(int)
    pool = random.integers(0, 2**64, (6000, 2), dtype=np.uint64)
    # Many share their first slots: linear probing goes on and wraps around at the end.
    pool[:2000, 0] = np.uint64(2**64 - 1)
    pool[2000:2500, 0] = 0
    for _ in range(60):
        indices = random.choice(len(pool), size=random.integers(0, 400), replace=False)
        amounts = random.integers(1, 4, len(indices))
        before = table.add(pool[indices], amounts, 9)
        assert before.tolist() == [expected[index] for index in indices.tolist()]
        for index, amount in zip(indices.tolist(), amounts.tolist(), strict=True):
            expected[index] = min(expected[index] + amount, 9)
    assert len(table) == len(expected) > 4000


def test_hashes_depend_on_a_key_that_is_secret_and_new_for_every_run():
    names = pa.array(["a", "b"])
    limits = [limit(), limit()]
    first_run, second_run = (
        rooms.hash_names({"who": names}, pa.array([], pa.string()), limit.key).hashes
        for limit in limits
    )
    assert not (first_run == second_run).any()
    assert len({bytes(row) for row in np.vstack([first_run, second_run])}) == 4
    assert limits[0].key.hex() not in repr(limits[0])
    assert str(limits[0].key) not in repr(limits[0])
    assert (
        rooms.hashlib.blake2b(b"a", digest_size=16, key=limits[0].key).digest()
        == first_run[0].tobytes()
    )
