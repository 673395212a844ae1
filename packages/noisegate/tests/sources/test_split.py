"""Records that are set aside: each goes where it goes by itself, as it stands, and people stay together."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import categorical, integer

from noisegate import split_records
from noisegate.errors import DataError, OptionError
from noisegate.schema import FileForm, Schema

HEADER = b"\xef\xbb\xbfid,note\r\n"
RECORDS = [f'{n % 40},"line one\nof ""{n}"""\r\n'.encode() for n in range(400)]


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setattr(
        "noisegate.sources.split.secrets.token_bytes", lambda size: b"k" * size
    )


def test_records_are_kept_as_they_stand_and_another_one_moves_none(key, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(HEADER + b"".join(RECORDS))
    path.chmod(0o600)
    parts = split_records(path, 0.25)
    assert {part.stat().st_mode for part in parts} == {
        path.stat().st_mode
    }  # nobody else may read a part
    train, test = (part.read_bytes() for part in parts)
    assert train.startswith(HEADER[3:])
    assert test.startswith(HEADER[3:])
    assert sorted(RECORDS) == sorted(
        record for record in RECORDS if (record in train) != (record in test)
    )
    assert 60 < sum(record in test for record in RECORDS) < 140
    with pytest.raises(OptionError, match="split before; fit to the first part"):
        split_records(path, 0.25)
    path = tmp_path / "more.csv"
    path.write_bytes(HEADER + b"new,one\r\n" + b"".join(RECORDS))
    more = split_records(path, 0.25)[1].read_bytes().replace(b"new,one\r\n", b"")
    assert more == test


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_records_of_a_person_go_to_one_file(suffix, tmp_path):
    path = tmp_path / f"people{suffix}"
    table = pa.table({"id": [n % 40 for n in range(400)], "age": list(range(400))})
    if suffix == ".csv":
        path.write_text("id,age\n" + "".join(f"{n % 40},{n}\n" for n in range(400)))
    else:
        pq.write_table(table, path)
    read = pq.read_table if suffix == ".parquet" else pa.csv.read_csv
    train, test = (read(part) for part in split_records(path, 0.5, unit_column="id"))
    assert train.num_rows + test.num_rows == 400
    assert not set(train["id"].to_pylist()) & set(test["id"].to_pylist())


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_blanks_around_the_name_of_a_person_tear_no_one_apart(suffix, tmp_path):
    path = tmp_path / f"people{suffix}"
    names = [f"p{n % 40}{' ' * (n % 3)}" for n in range(400)]
    if suffix == ".csv":
        path.write_text("id,age\n" + "".join(f"{name},7\n" for name in names))
    elif suffix == ".parquet":
        pq.write_table(pa.table({"id": names, "age": [7] * 400}), path)
    else:
        path.write_text("".join(f'{{"id": "{name}", "age": 7}}\n' for name in names))
    read = pa.csv.read_csv if suffix == ".csv" else pq.read_table
    train, test = (
        {name.strip() for name in read(part)["id"].to_pylist()}
        for part in split_records(path, 0.5, unit_column="id")
    )
    assert len(train) + len(test) == 40
    assert not train & test


def test_what_cannot_be_split_is_refused_and_leaves_nothing(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('id,note\n1,"never closed\n')
    with pytest.raises(
        DataError, match=r"people\.csv, line 2: the double quote that opens here"
    ):
        split_records(path, 0.2)
    for name, content, message in (
        ("empty.csv", b"", "is empty"),
        ("short.csv", b"id,note\n1,x\n2\n", "record 2: 1 cells, expected 2"),
        ("broken.parquet", b"PAR1", "is not a readable Parquet file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            split_records(tmp_path / name, 0.2, unit_column="id")
        (tmp_path / name).unlink()
    with pytest.raises(OptionError, match=r"has no such column; it has id, note"):
        split_records(path, 0.2, unit_column="age")
    with pytest.raises(OptionError, match="a share of the records between 0 and 1"):
        split_records(path, 20)
    with pytest.raises(
        DataError, match="expected one file; split the files of a folder"
    ):
        split_records(tmp_path, 0.2)
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


FORMS = [
    FileForm(separator=";", encoding="cp1252", decimal=","),
    FileForm(separator="\t", encoding="utf-16", skip=2),
    FileForm(separator="|", header=False),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.encoding)
def test_a_file_in_the_form_of_a_schema_is_split_in_it(form, tmp_path):
    columns = [integer("age", 0, 999)]
    schema = Schema([*columns, categorical("town", ("Köln", "Bonn"))], file=form)
    top = ["Größe", "of a table"][: form.skip]
    header = [form.separator.join(("age", "town"))] if form.header else []
    rows = [
        f"{age}{form.separator}{'Köln' if age % 2 else 'Bonn'}" for age in range(200)
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join([*top, *header, *rows, ""]), encoding=form.encoding)
    parts = split_records(path, 0.4, unit_column="town", schema=schema)
    texts = [part.read_text(encoding=form.encoding).split("\n")[:-1] for part in parts]
    for lines in texts:
        assert lines[: len(top) + len(header)] == [*top, *header]
    bodies = [lines[len(top) + len(header) :] for lines in texts]
    assert sorted(bodies[0] + bodies[1]) == sorted(rows)
    towns = [{line.split(form.separator)[1] for line in body} for body in bodies]
    assert not towns[0] & towns[1]
