"""What becomes of a parent and its children depends on their own records alone, wherever these stand."""

import os
import re
import tempfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.errors import DataError
from noisegate.records import WHOLE as GRID
from noisegate.records import Rows, WeightedRows
from noisegate.schema import Ordered, Schema, decode
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.sources import families as linking
from noisegate.sources import spill as room
from noisegate.sources.linked import LinkedSource

PEOPLE = Schema([integer("start", 0, 50), boolean("ill")])
VISITS = Schema(
    [
        integer("day", 0, 40_000),
        continuous("bili", 0, 30, missing=True),
        categorical("ward", "ab"),
    ]
)
CODES = Schema([categorical("code", "ABC")])
MOST = 4


def clinic(orphans="refuse", **visits):
    link_fields = {
        "order": "day",
        "since": "start",
        "most": MOST,
        "orphans": orphans,
    } | visits
    return LinkedSchema(
        [
            LinkedTable(name="people", key="id", schema=PEOPLE),
            LinkedTable(
                name="visits",
                key="visit",
                parent="people",
                schema=VISITS,
                **link_fields,
            ),
            LinkedTable(
                name="codes", parent="visits", most=3, schema=CODES, orphans=orphans
            ),
        ]
    )


def records(sizes=(0, 1, MOST, MOST + 1, 2, 7), seed=0):
    """People with so many visits, and these with up to five codes; some visits of a person on one day."""
    random = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(len(sizes))],
            "start": random.integers(0, 50, len(sizes)),
        }
    )
    people["ill"] = random.random(len(sizes)) < 0.5
    of = np.repeat(people["id"], sizes).to_numpy()
    visits = pd.DataFrame(
        {
            "id": of,
            "visit": np.arange(len(of)) + 100,
            "day": random.integers(40, 90, len(of)) // 9 * 9,
        }
    )
    visits["bili"] = np.where(
        random.random(len(of)) < 0.2, np.nan, random.integers(0, 30, len(of)) / 2
    )
    visits["ward"] = random.choice(["a", "b"], len(of))
    codes = pd.DataFrame(
        {"visit": np.repeat(visits["visit"], random.integers(0, 5, len(of)))}
    )
    codes["code"] = random.choice(["A", "B", "C"], len(codes))
    return {"people": people, "visits": visits, "codes": codes}


def read(data, schema=None, table="visits", **options):
    schema = schema or clinic()
    link = next(link for link in schema.links if link.name == table)
    with LinkedSource(data, schema, key=b"secret", **options) as source:
        transitions = list(source.read_transitions(link))
    rows = Rows.concatenate([Rows(batch.numeric, batch.codes) for batch in transitions])
    return WeightedRows(
        rows.numeric,
        rows.codes,
        np.concatenate([batch.weights for batch in transitions]),
    ), link


def described(data, schema=None, table="visits", **options):
    """The rows with their weights, sorted, as tuples of what they say."""
    transitions, link = read(data, schema, table, **options)
    columns = (
        decode(transitions, link.schema)
        .append_column("weight", pa.array(transitions.weights))
        .to_pydict()
    )
    return sorted(zip(*columns.values(), strict=True), key=str)


def expected(data):
    """The rows of visits, slowly; for days that are all different."""
    rows = []
    for person in data["people"].to_dict("records"):
        own = (
            data["visits"][data["visits"]["id"] == person["id"]]
            .sort_values("day")
            .to_dict("records")
        )
        about = (person["start"], person["ill"], min(len(own), MOST))
        if not own:
            rows.append((*about, "none", None, None, None, None, None, None, GRID))
        for before, visit in zip([None, *own], own, strict=False):
            bili = None if np.isnan(visit["bili"]) else visit["bili"]
            now = (bili, visit["ward"], GRID // len(own))
            if before is None:
                rows.append(
                    (
                        *about,
                        "first",
                        visit["day"] - person["start"],
                        None,
                        None,
                        None,
                        *now,
                    )
                )
            else:
                earlier = None if np.isnan(before["bili"]) else before["bili"]
                rows.append(
                    (
                        *about,
                        "next",
                        None,
                        visit["day"] - before["day"],
                        earlier,
                        before["ward"],
                        *now,
                    )
                )
    return sorted(rows, key=str)


def apart(data):
    """The same records, with no two visits on one day."""
    days = np.random.default_rng(5).permutation(len(data["visits"])) * 3 + 60
    return data | {"visits": data["visits"].assign(day=days)}


def test_rows_are_those_of_a_slow_reading():
    data = apart(records())
    assert described(data) == expected(data)


@pytest.mark.parametrize("table", ["visits", "codes"])
def test_weights_of_a_unit_come_to_the_grid_and_never_to_more(table):
    # One person a data set, so that all weights are its own.
    for size in (0, 1, MOST, MOST + 1, 1000):
        data = records((size,), seed=size)
        if size == 0 and table == "codes":
            with LinkedSource(data, clinic()) as source:
                assert not list(source.read_transitions(source.linked.links[1]))
            continue
        transitions, _ = read(data, table=table)
        rows = max(size, 1) * (1 if table == "visits" else 5)
        assert GRID - rows <= transitions.weights.sum() <= GRID
        assert transitions.weights.min() >= 0


def test_a_coarse_grid_may_leave_large_families_out_and_never_counts_them_more():
    data = records((100, 2))
    schema = clinic()
    with LinkedSource(data, schema) as source:
        weights = np.concatenate(
            [
                rows.weights
                for rows in source.read_transitions(schema.links[0], unit_weight=10)
            ]
        )
    assert sorted(set(weights.tolist())) == [0, 5]


def test_codes_of_a_visit_count_by_the_visits_of_its_person():
    data = records((2,))
    data["codes"] = pd.DataFrame({"visit": [100, 100, 100], "code": ["A", "B", "C"]})
    assert sorted(row[-1] for row in described(data, table="codes")) == [
        GRID // 6
    ] * 3 + [GRID // 2]


# 17·2⁶⁴ + 2: in 64 bits it would be a share of one half.
WRAPS = (10223, 12301, 13193, 13418, 14087)


def chain(sizes):
    """Tables each of which hangs on the one before: of a unit `x` the first record of each has so many children."""
    bits = Schema([boolean("v")])
    tables = [LinkedTable(name="t0", key="k", schema=bits)]
    parents = ["x", "a"]
    data = {"t0": pd.DataFrame({"k": parents, "v": True})}
    for depth, size in enumerate(sizes, 1):
        key = None if depth == len(sizes) else "k"
        tables.append(
            LinkedTable(
                name=f"t{depth}",
                key=key,
                parent=f"t{depth - 1}",
                parent_key="p",
                schema=bits,
                most=9,
            )
        )
        rows = [*(f"x{index}" for index in range(size)), "a"]
        table = {"p": [parents[0]] * size + ["a"], "k": rows, "v": True}
        data[f"t{depth}"] = pd.DataFrame(
            {name: table[name] for name in table if key or name != "k"}
        )
        parents = rows
    return data, LinkedSchema(tables)


def test_shares_beyond_64_bits_count_nothing():
    data, schema = chain(WRAPS)
    transitions, _ = read(data, schema, "t5")
    # Of the other unit alone is there anything: also the records beside the first have rows of no child elsewhere.
    assert len(transitions) == WRAPS[-1] + WRAPS[-2]
    assert sorted(set(transitions.weights.tolist())) == [0, GRID]
    assert np.count_nonzero(transitions.weights) == 1


def test_a_unit_that_counted_more_than_the_grid_would_stop_the_run_before_it_is_asked_anything(
    monkeypatch,
):
    data, schema = chain((3, 2))
    for wrong in (lambda share, among: share, lambda share, among: -share):
        monkeypatch.setattr(linking, "_multiply_capped", wrong)
        with (
            LinkedSource(data, schema) as source,
            pytest.raises(OverflowError, match="more than one record"),
        ):
            next(source.read_families(schema.links[0]))


@pytest.mark.parametrize("table", ["visits", "codes"])
@pytest.mark.parametrize("memory_bytes", [0, room.MEMORY_BYTES])
def test_where_records_stand_changes_nothing(tmp_path, table, memory_bytes):
    data = records((0, 1, 5, 40, 3, 17))
    whole = described(data, table=table)
    paths = {}
    for seed, (name, frame) in enumerate(data.items()):
        paths[name] = tmp_path / name
        paths[name].mkdir()
        shuffled = frame.sample(frac=1, random_state=seed)
        for part in range(3):
            pq.write_table(
                pa.Table.from_pandas(shuffled[part::3], preserve_index=False),
                paths[name] / f"{part}.parquet",
            )
    assert (
        described(paths, table=table, memory_bytes=memory_bytes, batch_rows=7) == whole
    )


@pytest.mark.parametrize("table", ["visits", "codes"])
def test_a_person_more_or_less_changes_no_row_of_the_others(table):
    data = records((0, 3, 9, 5, 40))
    for gone in data["people"]["id"]:
        visits = data["visits"][data["visits"]["id"] == gone]
        only = {
            "people": data["people"][data["people"]["id"] == gone],
            "visits": visits,
            "codes": data["codes"][data["codes"]["visit"].isin(visits["visit"])],
        }
        others = {name: frame.drop(only[name].index) for name, frame in data.items()}
        own = described(only, table=table) if table == "visits" or len(visits) else []
        assert sorted([*own, *described(others, table=table)], key=str) == described(
            data, table=table
        )


def test_what_relates_children_to_their_parent_follows_from_their_family_alone():
    ordered = Ordered(upper_name="visits.day", lower_name="people.start")
    related = replace(clinic(order=None, since=None), relations=(ordered,))
    data = records((0, 3, 9, 5, 40))
    descriptions = []
    for person in data["people"]["id"]:
        own = {
            name: data[name][data[name]["id"] == person]
            for name in ("people", "visits")
        }
        own["codes"] = data["codes"][:0]
        descriptions += described(own, related)
    assert sorted(descriptions, key=str) == described(data, related)


def test_children_without_an_order_stand_in_one_that_their_place_does_not_tell():
    data = records((30, 8))
    schema = clinic(order=None, since=None)
    rows = described(data, schema)
    assert described(data | {"visits": data["visits"][::-1]}, schema) == rows
    names = [
        f"visits.{kind}{name}"
        for kind in ("previous.", "")
        for name in ("day", "bili", "ward")
    ]
    assert list(read(data, schema)[1].schema.names[4:]) == names
    # No sorted one either: days would never decrease.
    days = [(row[4], row[7]) for row in rows if row[3] == "next"]
    assert any(before > day for before, day in days)
    assert any(before < day for before, day in days)


def test_keys_as_numbers_and_as_text_are_the_same():
    data = apart(records())
    numbers = {"people": data["people"].assign(id=range(6))}
    numbers["visits"] = data["visits"].assign(
        id=[f" {int(who[1:])}" for who in data["visits"]["id"]]
    )
    assert described(data | numbers) == described(data)


def test_two_parents_with_one_key_are_refused():
    data = records()
    twice = pd.concat([data["people"], data["people"][:1]])
    with pytest.raises(
        DataError, match="'people', column 'id': two records have the same key"
    ):
        read(data | {"people": twice})


def test_orphans_are_refused_without_saying_which_or_how_many():
    data = records()
    fewer = data | {"people": data["people"][:3]}
    with pytest.raises(
        DataError,
        match="'visits', column 'id': a record names none of the table 'people'",
    ) as refused:
        read(fewer)
    assert not re.search(r"p\d|\d+ ", str(refused.value))
    assert refused.value.__context__ is None


def test_orphans_are_dropped_with_all_that_hangs_on_them():
    data = records((2, 3, 0, 4))
    visits = data["visits"][data["visits"]["id"].isin(["p0", "p2"])]
    left = {
        "people": data["people"][data["people"]["id"].isin(["p0", "p2"])],
        "visits": visits,
        "codes": data["codes"][data["codes"]["visit"].isin(visits["visit"])],
    }
    for table in ("visits", "codes"):
        description = described(
            data | {"people": left["people"]}, clinic("drop"), table
        )
        assert description == described(left, clinic("drop"), table)


def test_missing_keys():
    data = records()
    nobody = data["people"].assign(id=[None, *data["people"]["id"][1:]])
    with pytest.raises(
        DataError, match="'people', record 1, column 'id': the key is missing"
    ):
        read(data | {"people": nobody})
    loose = data["visits"].assign(id=[*data["visits"]["id"][:-1], "NA"])
    with pytest.raises(DataError, match=r"the key of its parent is missing.*orphans"):
        read(data | {"visits": loose})
    assert (
        len(read(data | {"visits": loose}, clinic("drop"))[0]) == len(read(data)[0]) - 1
    )


def test_columns_that_do_not_fit_the_schema():
    data = records()
    for visits, message in [
        (data["visits"].drop(columns="id"), "the key 'id' is not in the data"),
        (data["visits"].assign(id=1.5), "expected text or whole numbers"),
        (
            data["visits"].drop(columns="ward"),
            "column 'ward' of the schema is not in the data",
        ),
        (data["visits"].assign(more=1), "column 'more' is not in the schema"),
        (
            data["visits"].assign(day="monday"),
            "'visits', record 1, column 'day': expected a whole number",
        ),
        (data["visits"].assign(day=None), "column 'day': the value is missing"),
    ]:
        with pytest.raises(DataError, match=message) as refused:
            read(data | {"visits": visits})
        assert "monday" not in str(refused.value)


def test_tables_without_records():
    data = records()
    assert [
        row[3]
        for row in described(
            data | {"visits": data["visits"][:0], "codes": data["codes"][:0]}
        )
    ] == ["none"] * 6
    with pytest.raises(DataError, match="there are no records"):
        read({name: frame[:0] for name, frame in data.items()})


def test_what_is_kept_on_disk_has_no_name_and_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    schema = clinic()
    with LinkedSource(records((400, 3)), schema, memory_bytes=100) as source:
        next(source.read_transitions(schema.links[0]))
        files = [
            spill._file
            for spill in (*source._children.values(), *source._parents.values())
        ]
        assert all(file is not None for file in files)
        if os.name == "posix":
            assert list(tmp_path.iterdir()) == []
            assert {os.fstat(file.fileno()).st_nlink for file in files} == {0}
            assert {os.fstat(file.fileno()).st_mode & 0o777 for file in files} == {
                0o600
            }
    assert all(file.closed for file in files)
