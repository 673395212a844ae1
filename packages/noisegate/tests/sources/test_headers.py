import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from noisegate.app.drafts.draft import draft, draft_schema
from noisegate.app.drafts.linked import draft_linked
from noisegate.errors import DataError
from noisegate.gate.discovery.raw import columns_file
from noisegate.sources.headers import record_values

ROWS = 60
RANDOM = np.random.default_rng(2)


def numbers(lower=0, upper=100):
    return [str(number) for number in RANDOM.integers(lower, upper, ROWS)]


def words(*levels):
    return RANDOM.choice(levels, ROWS).tolist()


def reals():
    return [f"{real:.2f}" for real in RANDOM.uniform(80, 120, ROWS)]


RECORDS = {
    "a level below": (["audi", "88.60"], [words("audi", "bmw"), reals()]),
    "numbers alone": (["5.1", "3.5", "1.4"], [reals(), reals(), reals()]),
    "exponents": (["5.1e-02", "-3.5E+00"], [reals(), reals()]),
    "one number": (["5"], [numbers()]),
    "a code": (
        ["Weber", "J45"],
        [words("Meier", "Huber"), [f"K{number}" for number in range(10, 10 + ROWS)]],
    ),
    "a day": (
        ["Ann", "02/01/2020"],
        [words("Eve", "Bob"), words("31/12/2019", "01/12/2018")],
    ),
    "two days": (
        ["2020-01-05", "2020-02-07"],
        [words("2020-01-09", "2020-03-01"), words("2020-04-09", "2020-05-01")],
    ),
    "a year beside a number": (["1987", "3.5"], [numbers(1950, 2000), reals()]),
    "years that descend": (
        ["a", "2001", "1987"],
        [words("b"), *[numbers(1950, 2000)] * 2],
    ),
}
HEADERS = {
    "words": (["make", "price"], [words("audi", "bmw"), reals()]),
    "years": (["country", "1990", "1995", "2010"], [words("a", "b"), *[numbers()] * 3]),
    "one year": (["country", "2020"], [words("a", "b"), numbers(0, 3000)]),
    "days": (["1/22/20", "1/23/20", "1/24/20"], [numbers()] * 3),
    "numbered": (["0", "1", "2", "3"], [numbers(0, 9)] * 4),
    "marks of answers": (
        ["English", "French"],
        [words("English", ""), words("French", "")],
    ),
    "codes of items": (["age", "Q10"], [numbers(), words("yes", "no")]),
    "a number above text": (["name", "7"], [words("a", "b"), words("c", "d")]),
    "odd names": (["Na", "no", "ICD10"], [numbers(), numbers(), numbers()]),
}


def columns_by_name(names, cells):
    return {name: pa.array(column) for name, column in zip(names, cells, strict=True)}


def written(path, names, cells):
    lines = [names, *zip(*cells, strict=True)]
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_in_place_of_a_header_is_refused(name, tmp_path):
    names, cells = RECORDS[name]
    assert record_values(columns_by_name(names, cells))
    path = written(tmp_path / "public.csv", names, cells)
    with pytest.raises(DataError, match="the first line looks like a record"):
        draft(path)
    with pytest.raises(DataError, match="the first line looks like a record"):
        columns_file(path)


@pytest.mark.parametrize("name", HEADERS)
def test_odd_names_are_a_header(name, tmp_path):
    names, cells = HEADERS[name]
    assert not record_values(columns_by_name(names, cells))
    path = written(tmp_path / "public.csv", names, cells)
    assert draft(path).schema


def test_a_word_that_is_a_name_and_a_value_makes_no_record(tmp_path):
    cells = [words("ja", "nein"), numbers(), reals()]
    path = written(tmp_path / "public.csv", ["ja", "age", "price"], cells)
    assert draft(path).schema.names == ("ja", "age", "price")


def test_a_value_that_stands_twice_in_the_first_line_makes_it_a_record(tmp_path):
    path = written(tmp_path / "public.csv", ["0", "a", "0"], [numbers()] * 3)
    with pytest.raises(DataError, match="looks like a record, by '0'"):
        draft(path)


def test_a_header_that_is_repeated_below_is_named(tmp_path):
    names, cells = HEADERS["words"]
    path = written(tmp_path / "public.csv", names, cells)
    path.write_text(path.read_text() * 2)
    with pytest.raises(DataError, match="record 61 repeats the names of the columns"):
        draft(path)


def test_linked_files_are_checked_before_they_are_linked(tmp_path):
    paths = {
        "cars": written(tmp_path / "cars.csv", *RECORDS["a level below"]),
        "makes": written(tmp_path / "makes.csv", *HEADERS["words"]),
    }
    with pytest.raises(
        DataError, match=r"cars\.csv: the first line looks like a record"
    ):
        draft_linked(paths)


def test_types_say_that_names_are_names():
    table = pa.table({"5": [5, 3, 5] * 20, "a": ["a", "b", "a"] * 20})
    assert draft(table).schema.names == ("5", "a")


def test_names_that_are_listed_are_said_to_be_the_first_line(tmp_path):
    path = written(tmp_path / "private.csv", ["Weber", "ward A"], [words("M", "H")] * 2)
    text, _ = columns_file(path)
    assert "Its first line was copied" in text
    assert "delete this file" in text
    table_path = tmp_path / "private.parquet"
    pd.DataFrame({"age": [1]}).to_parquet(table_path)
    assert "first line" not in columns_file(table_path)[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((30, 2)), r"array of shape \(30, 2\): its columns have no names"),
        (np.zeros((30, 1), dtype=object), r"array of shape \(30, 1\)"),
        (np.zeros(30), r"array of shape \(30,\)"),
        (
            [{"age": 3}],
            r"found list; convert it, with data = pyarrow.Table.from_pylist",
        ),
        ([[1, 2], [3, 4]], "found list; convert it"),
        (([1], [2]), "found tuple; convert it"),
        (pd.Series([1, 2]), "found Series; convert it, with data = data.to_frame"),
        (7, "found int"),
    ],
)
def test_what_is_no_table_is_refused_with_its_cure(data, message):
    with pytest.raises(DataError, match=message):
        draft_schema(data)
