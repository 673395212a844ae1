import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from noisegate import Schema
from noisegate.data.frames import read_table

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

from codes import code_distances
from discretised import SCHEMA, discretise, domain

# The sizes in the public code of the papers, in the order of the table.
BOUNDED = [91, 9, 11, 16, 16, 7, 15, 6, 5, 2, 11, 11, 10, 41, 2]
SIMPLE = [8, 9, 11, 16, 16, 7, 15, 6, 2, 2, 2, 2, 4, 2, 2]


def person(**changes):
    values = {
        "age": 39,
        "workclass": "Private",
        "fnlwgt": 77_516,
        "education": "Bachelors",
        "education-num": 13,
        "marital-status": "Divorced",
        "occupation": "?",
        "relationship": "Wife",
        "race": "White",
        "sex": "Male",
        "capital-gain": 2_174,
        "capital-loss": 0,
        "hours-per-week": 40,
        "native-country": "United-States",
        "income": ">50K",
    }
    return values | changes


def codes(version, *people):
    table = pa.table({name: [one[name] for one in people] for name in person()})
    return discretise(table, version)


def test_the_sizes_are_those_of_the_papers_but_for_what_is_stated():
    # Ages before 17 have no code, and an unknown country has one.
    assert list(domain("bounded").values()) == [BOUNDED[0] - 17, *BOUNDED[1:13], BOUNDED[13] + 1, BOUNDED[14]]
    assert list(domain("simple").values()) == [SIMPLE[0] - 1, *SIMPLE[1:]]
    assert max(domain("simple").values()) == 16


def test_a_person_by_hand():
    assert codes("bounded", person()).tolist() == [[22, 0, 1, 0, 12, 1, 14, 0, 0, 1, 1, 0, 4, 0, 1]]
    assert codes("simple", person()).tolist() == [[2, 0, 1, 0, 12, 1, 14, 0, 0, 1, 1, 0, 2, 0, 1]]


@pytest.mark.parametrize(
    ("column", "version", "pairs"),
    [
        ("age", "bounded", {17: 0, 18: 1, 90: 73, 99: 73, 3: 0}),
        ("age", "simple", {17: 0, 19: 0, 20: 1, 69: 5, 70: 6, 90: 6}),
        ("fnlwgt", "bounded", {12_285: 0, 49_999: 0, 50_000: 1, 499_999: 9, 500_000: 10, 1_484_705: 10}),
        ("capital-gain", "bounded", {0: 0, 1_499: 0, 1_500: 1, 15_000: 10, 99_999: 10}),
        ("capital-gain", "simple", {0: 0, 1_499: 0, 1_500: 1, 99_999: 1}),
        ("capital-loss", "bounded", {249: 0, 250: 1, 2_500: 10, 4_356: 10}),
        ("capital-loss", "simple", {249: 0, 250: 1, 4_356: 1}),
        ("hours-per-week", "bounded", {1: 0, 9: 0, 10: 1, 99: 9}),
        ("hours-per-week", "simple", {19: 0, 20: 1, 39: 1, 40: 2, 59: 2, 60: 3, 99: 3}),
        ("race", "simple", {"White": 0, "Black": 1, "Other": 1}),
        ("native-country", "simple", {"United-States": 0, "Peru": 1, "?": 1}),
        ("education-num", "simple", {1: 0, 16: 15}),
    ],
)
def test_the_steps_of(column, version, pairs):
    found = codes(version, *(person(**{column: value}) for value in pairs))
    assert found[:, list(domain(version)).index(column)].tolist() == list(pairs.values())


@pytest.mark.data
def test_the_real_table_has_every_code(data_dir):
    schema = Schema.from_toml(SCHEMA)
    train, test = (read_table(data_dir / "adult" / f"{part}.csv", schema) for part in ("train", "test"))
    for version, expected in (("bounded", (0.024, 0.056)), ("simple", (0.015, 0.030))):
        left, right = discretise(test, version), discretise(train, version)
        assert (right.max(axis=0) + 1).tolist() == list(domain(version).values())
        report = code_distances(left, right, domain(version), orders=(2, 3))
        assert [entry.mean for entry in report.orders] == pytest.approx(expected, abs=0.001)
