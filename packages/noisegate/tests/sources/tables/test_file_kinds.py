"""Files of other kinds than CSV and Parquet: packed text, JSON lines, Arrow, workbooks, SPSS, Stata and SAS."""

import bz2
import datetime as dt
import gzip
import json
import sys
import zipfile
from dataclasses import replace

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyreadstat
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.app.drafts.draft import draft
from noisegate.errors import DataError, MissingExtraError
from noisegate.schema import (
    Date,
    FileForm,
    Schema,
    decode,
)
from noisegate.sources.sources import open_source
from noisegate.sources.split import part_paths, split_records
from noisegate.sources.tables import statistics_file
from noisegate.sources.tables.cells import number_texts, value_text
from noisegate.sources.tables.tables import find_files
from noisegate.sources.units import UnitLimit

SCHEMA = Schema(
    [
        integer("age", 0, 99, missing=True),
        continuous("pay", 0, 9999),
        categorical("job", ("nurse", "bäcker"), missing=True),
        Date(name="day", lower="2020-01-01", upper="2021-12-31"),
        boolean("ill"),
    ]
)
ROWS = [
    {
        "age": None if row % 10 == 0 else 20 + row % 50,
        "pay": row + 0.25,
        "job": ("nurse", "bäcker", None)[row % 3],
        "day": dt.date(2020, 1, 1) + dt.timedelta(days=row % 600),
        "ill": row % 4 == 0,
    }
    for row in range(500)
]
TABLE = pa.Table.from_pylist(ROWS)


def csv_text(separator=","):
    lines = [separator.join(SCHEMA.names)]
    for row in ROWS:
        cells = [value_text(value) or "" for value in row.values()]
        lines.append(separator.join(cells))
    return "\n".join(lines) + "\n"


def json_text(rows=ROWS):
    return "".join(
        json.dumps(
            {
                name: value.isoformat() if isinstance(value, dt.date) else value
                for name, value in row.items()
            }
        )
        + "\n"
        for row in rows
    )


def write_zip(path, name, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("data") if hasattr(archive, "mkdir") else None
        archive.writestr("__MACOSX/._records.csv", b"x")
        archive.writestr(f"data/{name}", content)


def write_stream(path):
    with ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=60)


def write_workbook(path, title_rows=0):
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for _ in range(title_rows):
        sheet.append(["A title"])
    sheet.append(list(SCHEMA.names))
    for index, row in enumerate(ROWS):
        sheet.append(list(row.values()))
        if index == 3:
            sheet.append([])
    workbook.create_sheet("notes")
    workbook.save(path)


def frame():
    data = pd.DataFrame(ROWS)
    data["job"] = data["job"].fillna("")
    data["ill"] = data["ill"].astype(float)
    return data


FILES = {
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(csv_text().encode())),
    "a.zip": lambda path: write_zip(path, "records.csv", csv_text()),
    "a.jsonl": lambda path: path.write_text(json_text()),
    "a.ndjson.gz": lambda path: path.write_bytes(gzip.compress(json_text().encode())),
    "b.zip": lambda path: write_zip(path, "records.jsonl", json_text()),
    "a.feather": lambda path: feather.write_feather(TABLE, path, chunksize=70),
    "a.arrow": write_stream,
    "a.xlsx": write_workbook,
    "a.sav": lambda path: pyreadstat.write_sav(frame(), path),
    "a.zsav": lambda path: pyreadstat.write_sav(frame(), path, compress=True),
    "a.dta": lambda path: pyreadstat.write_dta(frame(), path),
    "a.xpt": lambda path: pyreadstat.write_xport(frame(), path),
}


def read(path, schema=SCHEMA, **options):
    batches = open_source(path, schema, **options).batches()
    return [row for rows in batches for row in decode(rows, schema).to_pylist()]


@pytest.fixture(params=FILES)
def file(request, tmp_path):
    """The records in a file of each kind."""
    path = tmp_path / request.param
    FILES[path.name](path)
    return path


def test_each_kind_of_file_gives_the_same_records_in_every_pass(file):
    expected = [row | {"pay": pytest.approx(row["pay"])} for row in ROWS]
    assert read(file) == expected
    source = open_source(file, SCHEMA)
    first, second = ([rows.numeric for rows in source.batches()] for _ in range(2))
    assert np.array_equal(first, second, equal_nan=True)
    [part] = source.split_into_parts(100)
    assert sum(len(read()) for read in part.batch_readers()) == len(ROWS)
    estimate = source.estimate_record_count()
    assert estimate is None or 300 <= estimate <= 700


def test_each_kind_of_public_file_is_drafted(file):
    schema = draft(file).schema
    assert [column.kind for column in schema.columns][:2] == ["integer", "decimal"]
    assert schema.column("job").levels == ("bäcker", "nurse")
    assert len(read(file, schema)) == len(ROWS)


def test_a_wrong_record_is_named_and_not_quoted(file):
    wrong = replace(
        SCHEMA,
        columns=(
            *SCHEMA.columns[:2],
            categorical("job", ("nurse",), missing=True),
            *SCHEMA.columns[3:],
        ),
    )
    with pytest.raises(DataError) as refusal:
        read(file, wrong)
    message = str(refusal.value)
    where = {"a.csv.gz": "line 3", "a.zip": "line 3", "a.xlsx": "row 3"}
    line = "line 2" if "json" in file.name or file.name == "b.zip" else "record 2"
    assert message.startswith(
        f"{file.name}, {where.get(file.name, line)}, column 'job'"
    )
    assert "bäcker" not in message


def test_a_broken_file_is_refused_in_words(file):
    content = file.read_bytes()
    # SAS's transport files do not say how many records they hold.
    ends = (0, 20) if file.name == "a.xpt" else (0, 20, len(content) // 2)
    for end in ends:
        file.write_bytes(content[:end])
        with pytest.raises(DataError) as refusal:
            read(file)
        message = str(refusal.value)
        assert message.startswith(file.name)
        assert "bäcker" not in message
        assert "nurse" not in message


def test_a_packed_file_is_not_written_to_disk(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    FILES["a.zip"](path)
    opened = []
    monkeypatch.setattr(
        "tempfile.TemporaryFile", lambda *_, **__: opened.append("file")
    )
    assert len(read(path)) == len(ROWS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]
    assert not opened


def test_packed_text_may_have_a_form_too(tmp_path):
    path = tmp_path / "a.csv.gz"
    content = csv_text(";").replace(".25", ",25").encode("cp1252")
    path.write_bytes(gzip.compress(content))
    with pytest.raises(DataError) as refusal:
        read(path)
    assert str(refusal.value).endswith(
        '[file]\nseparator = ";"\nencoding = "cp1252"\ndecimal = ","\n'
    )
    form = FileForm(separator=";", encoding="cp1252", decimal=",")
    assert read(path, replace(SCHEMA, file=form))[1]["pay"] == pytest.approx(1.25)
    assert draft(path).schema.file == form


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "the archive holds no file; expected one table"),
        (["a.csv", "b.csv"], "the archive holds 2 files; expected one table"),
        (["a.xlsx"], "holds a file .xlsx, which is read only where it is not packed"),
    ],
)
def test_archives_that_are_not_one_table(names, message, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "age\n1\n")
    with pytest.raises(DataError, match=message):
        read(path)


def test_other_archives_are_refused_with_the_cure(tmp_path):
    path = tmp_path / "a.csv.bz2"
    path.write_bytes(bz2.compress(csv_text().encode()))
    with pytest.raises(DataError, match=r"is a bzip2 archive; .* unpack it"):
        read(path)


# --- JSON lines. ---


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: is no JSON object"),
        ("[1]", "line 2: is no JSON object"),
        ('{"age": [1]}', "line 2: a value is a list or an object"),
        ('{"age": 1, "age": 2}', "line 2: the record has a name twice"),
        ('{"age": 1, "canary": 2}', "line 2: the record has a name that is neither"),
        ('{"age": "canary"}', "line 2, column 'age': expected a whole number"),
        ('{"age": 1.5}', "line 2, column 'age': expected a whole number"),
        ("{}", "line 2, column 'age': the value is missing"),
        ("[" * 100_000, "line 2: is no JSON object"),
    ],
)
def test_lines_of_json_that_are_no_records(line, message, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"age": 1}\n' + line + "\n")
    schema = Schema([integer("age", 0, 9)])
    with pytest.raises(DataError, match=message) as refusal:
        read(path, schema)
    assert "canary" not in str(refusal.value)


def test_values_of_json_are_read_as_the_schema_says(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = ['{"x": 1}', '{"x": "2"}', '{"x": 3.0}', '{"x": null, "id": 7}', "", "{}"]
    path.write_text("\n".join(lines))
    schema = Schema([integer("x", 0, 9, missing=True)], ignore=("id",))
    assert [row["x"] for row in read(path, schema)] == [1, 2, 3, None, None]


def test_records_of_json_have_units(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 1, "id": 7}\n{"id": 7, "x": 2}\n{"x": 3, "id": "8"}\n')
    schema = Schema([integer("x", 0, 9)])
    rows = read(path, schema, units=UnitLimit(column="id", contributions=1))
    assert [row["x"] for row in rows] == [1, 3]


# --- Workbooks. ---


def test_the_sheet_of_a_workbook_is_named_in_the_schema(tmp_path):
    path = tmp_path / "a.xlsx"
    workbook = openpyxl.Workbook()
    workbook.active.append(["age"])
    workbook.active.append([41])
    other = workbook.create_sheet("2020")
    other.append(["age"])
    other.append([42])
    workbook.save(path)
    schema = Schema([integer("age", 0, 99)])
    with pytest.raises(DataError, match="has the sheets 'Sheet', '2020'; name one"):
        read(path, schema)
    for sheet, age in (("Sheet", 41), ("2020", 42)):
        named = replace(schema, file=FileForm(sheet=sheet))
        assert read(path, named) == [{"age": age}]
    with pytest.raises(DataError, match="there is no sheet '2021'"):
        read(path, replace(schema, file=FileForm(sheet="2021")))


def test_rows_above_the_header_of_a_sheet_are_skipped(tmp_path):
    path = tmp_path / "a.xlsx"
    write_workbook(path, title_rows=2)
    with pytest.raises(DataError, match="remove what stands above the names"):
        read(path)
    assert len(read(path, replace(SCHEMA, file=FileForm(skip=2)))) == len(ROWS)


# --- SPSS, Stata and SAS. ---


@pytest.mark.parametrize("name", ["a.sav", "a.dta"])
@pytest.mark.parametrize(
    ("levels", "read_as"),
    [
        (("Male", "Female"), ["Male", "Female", "Male"]),
        (("1", "2"), ["1", "2", "1"]),
        ((1, 2), [1, 2, 1]),
    ],
)
def test_codes_are_labels_where_the_levels_are(name, levels, read_as, tmp_path):
    path = tmp_path / name
    write = getattr(pyreadstat, f"write_{path.suffix[1:]}")
    data = pd.DataFrame({"sex": [1.0, 2.0, 1.0]})
    write(data, path, variable_value_labels={"sex": {1: "Male", 2: "Female"}})
    schema = Schema([categorical("sex", levels)])
    assert [row["sex"] for row in read(path, schema)] == read_as


def test_what_an_owner_declared_missing_is_missing(tmp_path):
    path = tmp_path / "a.sav"
    data = pd.DataFrame({"age": [17.0, 999.0]})
    pyreadstat.write_sav(data, path, missing_ranges={"age": [999]})
    schema = Schema([integer("age", 0, 99, missing=True)])
    assert [row["age"] for row in read(path, schema)] == [17, None]


def test_many_records_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics_file, "_ROWS_READ_AT_ONCE", 100)
    path = tmp_path / "a.sav"
    FILES["a.sav"](path)
    assert len(read(path)) == len(ROWS)


@pytest.mark.parametrize(
    ("name", "package"), [("a.xlsx", "python_calamine"), ("a.sav", "pyreadstat")]
)
def test_a_package_that_is_not_installed_is_named(name, package, tmp_path, monkeypatch):
    path = tmp_path / name
    FILES[name](path)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("noisegate.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'noisegate\[files\]'"):
        read(path)


def test_numbers_have_one_text_alone_and_among_others():
    numbers = [18.0, 2.5, 123456789012.0, -3.0, 1e300, 0.1, 2.0**53, None]
    texts = number_texts(pa.array(numbers, pa.float64())).to_pylist()
    for number, text in zip(numbers, texts, strict=True):
        assert number_texts(pa.array([number], pa.float64())).to_pylist() == [text]
        if number is not None:
            assert float(text) == number == float(value_text(number))
    assert texts[2] == "123456789012"


def test_endings_are_known_whatever_their_case(tmp_path):
    path = tmp_path / "A.XLSX"
    write_workbook(path)
    [file] = find_files(path)
    assert type(file).__name__ == "Spreadsheet"


def test_a_folder_of_one_kind_is_one_table(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        FILES["a.jsonl"](tmp_path / name)
    assert len(read(tmp_path)) == 2 * len(ROWS)
    # Beside CSV files, others are code books and notes, as they have always been.
    (tmp_path / "c.csv").write_text(csv_text())
    assert len(read(tmp_path)) == len(ROWS)
    (tmp_path / "c.csv").unlink()
    FILES["a.feather"](tmp_path / "a.feather")
    with pytest.raises(DataError, match="holds both Arrow and JSON lines files"):
        read(tmp_path)


@pytest.mark.parametrize("unit_column", [None, "age"])
def test_a_file_of_any_kind_is_split(file, unit_column):
    parts = split_records(file, 0.3, schema=SCHEMA, unit_column=unit_column)
    assert part_paths(file, SCHEMA) == parts
    assert {part.suffix for part in parts} == {".parquet"}
    train, test = (read(part) for part in parts)
    assert sorted(map(repr, train + test)) == sorted(map(repr, read(file)))
    assert 30 < len(test) < 300
    if unit_column is not None:
        assert not {row["age"] for row in train} & {row["age"] for row in test}


def test_packed_text_in_another_form_is_split(tmp_path):
    form = FileForm(separator=";", encoding="cp1252", decimal=",")
    schema = replace(SCHEMA, file=form)
    path = tmp_path / "a.csv.gz"
    text = csv_text(";").replace(".25;", ",25;")
    path.write_bytes(gzip.compress(text.encode("cp1252")))
    train, test = (
        read(part, schema) for part in split_records(path, 0.3, schema=schema)
    )
    assert sorted(map(repr, train + test)) == sorted(map(repr, read(path, schema)))


def test_a_workbook_with_two_columns_of_one_name_is_not_split(tmp_path):
    path = tmp_path / "a.xlsx"
    workbook = openpyxl.Workbook()
    workbook.active.append(["age", "age"])
    workbook.active.append([1, 2])
    workbook.save(path)
    with pytest.raises(DataError, match="two columns have the same name"):
        split_records(path, 0.3)
    assert [file.name for file in tmp_path.iterdir()] == ["a.xlsx"]
