"""Text files as they come: separators, encodings, decimal commas, titles above the header."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from tests.shared.columns import categorical, continuous, integer

from noisegate.app.drafts.draft import draft
from noisegate.app.drafts.linked import draft_linked
from noisegate.errors import DataError, SchemaError
from noisegate.models.output.sample_file import table_writer
from noisegate.schema import (
    FileForm,
    Schema,
    decode,
)
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.sources.frames import read_table
from noisegate.sources.linked import LinkedSource
from noisegate.sources.sources import open_source
from noisegate.sources.tables.csv_file import CsvFile, TextLayout
from noisegate.sources.tables.find_form import find_form, lines_to_add

TOWNS = ("Zürich", "Genève")
SCHEMA = Schema(
    [
        integer("age", 0, 99),
        continuous("pay", 0, 9999),
        categorical("town", TOWNS, missing=True),
    ]
)
RECORDS = [(17 + row % 60, 1000.5 + row, (*TOWNS, None)[row % 3]) for row in range(400)]
FORMS = [
    FileForm(),
    FileForm(separator=";", encoding="cp1252", decimal=","),
    FileForm(separator="\t", encoding="utf-16"),
    FileForm(separator="|", skip=3),
    FileForm(separator=";", encoding="utf-16-le", decimal=",", thousands=".", skip=1),
]


def write(path, form, records=RECORDS, names=("age", "pay", "town")):
    """Writes records in a form, as a program would that knows nothing of ours."""
    text = io.StringIO(newline="")
    text.writelines(["Quarterly, with commas; and more\r\n"] * form.skip)
    writer = csv.writer(text, delimiter=form.separator)
    if form.header is True:
        writer.writerow(names)
    for age, pay, town in records:
        number = f"{pay:,.1f}" if form.thousands else f"{pay:.1f}"
        marks = {",": form.thousands, ".": form.decimal}
        number = "".join(marks.get(letter, letter) for letter in number)
        writer.writerow([age, number, town or ""])
    path.write_bytes(text.getvalue().encode(form.encoding))
    return path


def read(path, schema):
    return decode_all(open_source(path, schema).batches(), schema)


def decode_all(batches, schema):
    return [row for rows in batches for row in decode(rows, schema).to_pylist()]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_file_is_read_as_the_schema_says_found_and_written_again(form, tmp_path):
    path = write(tmp_path / "a.csv", form)
    schema = replace(SCHEMA, file=form)
    rows = read(path, schema)
    assert [tuple(row.values()) for row in rows] == [
        pytest.approx(record) for record in RECORDS
    ]
    assert Schema.loads(schema.dumps()) == schema
    assert Schema.from_json(schema.to_json()) == schema

    form_of_file = find_form(path, expected=SCHEMA.names, number_columns=["age", "pay"])
    assert form_of_file == form
    assert lines_to_add(form_of_file, form) == ""

    copy = tmp_path / "copy.csv"
    with table_writer(copy, schema) as append:
        for rows in open_source(path, schema).batches():
            append(decode(rows, schema))
    assert read(copy, schema) == read(path, schema)
    first_line = copy.read_bytes().decode(form.encoding).splitlines()[form.skip]
    assert first_line.replace('"', "").split(form.separator) == [*SCHEMA.names]


@pytest.mark.parametrize("form", FORMS[1:], ids=str)
def test_a_private_file_of_another_form_is_refused_with_all_lines_at_once(
    form, tmp_path
):
    path = write(tmp_path / "a.csv", form)
    with pytest.raises(DataError) as refusal:
        read(path, SCHEMA)
    _, lines = str(refusal.value).split("these lines in the schema:\n\n")
    cured = Schema.loads(f"{lines}\n{SCHEMA.dumps()}".replace(lines, "") + lines)
    assert cured.file == form
    assert len(read(path, cured)) == len(RECORDS)
    for value in (*TOWNS, "1000", "1.000", "17", "Quarterly"):
        assert value not in str(refusal.value)


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        (FileForm(separator=";"), 'separator = ";"\ndecimal = ","\n'),
        (
            FileForm(separator=";", decimal=",", encoding="utf-16"),
            'separator = ";"\ndecimal = ","\n',
        ),
        (FileForm(skip=2), 'separator = ";"\ndecimal = ","\n'),
    ],
)
def test_a_form_that_is_partly_right_is_completed(form, lines, tmp_path):
    path = write(tmp_path / "a.csv", FileForm(separator=";", decimal=","))
    with pytest.raises(DataError) as refusal:
        read(path, replace(SCHEMA, file=form))
    assert str(refusal.value).endswith(f"in the schema:\n\n[file]\n{lines}")


def test_a_schema_without_a_form_keeps_its_digest():
    assert "file" not in SCHEMA.form()
    assert replace(SCHEMA, file=FileForm()).digest() == SCHEMA.digest()
    assert replace(SCHEMA, file=FileForm(separator=";")).digest() != SCHEMA.digest()


def test_wrong_records_have_no_hint(tmp_path):
    path = write(tmp_path / "a.csv", FileForm(), [(17, 5.0, "Bern")])
    with pytest.raises(DataError, match="line 2, column 'town'") as refusal:
        read(path, SCHEMA)
    assert "[file]" not in str(refusal.value)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1.234,5", 1234.5),
        (" 3 ", 3),
        (",5", 0.5),
        ("1,5e3", 1500),
        ("+7,", 7),
        ("1.5", None),
        ("12.34,5", None),
        ("1,2,3", None),
        ("x", None),
    ],
)
def test_numbers_are_read_in_the_form_of_the_file_alone(cell, number, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"pay\n{cell}\n")
    form = FileForm(separator=";", decimal=",", thousands=".")
    schema = Schema([continuous("pay", 0, 9999)], file=form)
    if number is not None:
        assert read(path, schema) == [{"pay": pytest.approx(number)}]
        return
    with pytest.raises(DataError, match="line 2, column 'pay': expected a number"):
        read(path, schema)


def test_a_marker_of_missing_values_is_no_number_in_the_form(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("pay\n.\n-9.9\n1,5\n")
    schema = Schema(
        [continuous("pay", 0, 9, missing=True)],
        missing_values=(".", "-9.9"),
        file=FileForm(separator=";", decimal=","),
    )
    assert [row["pay"] for row in read(path, schema)] == [None, None, 1.5]


def test_a_file_without_header_is_read_by_the_order_of_the_schema(tmp_path):
    path = write(tmp_path / "a.csv", FileForm(header=False))
    schema = replace(SCHEMA, file=FileForm(header=False))
    assert len(read(path, schema)) == len(RECORDS)
    path.write_text("x,Zürich,17,5\ny,,18,6\n")
    named = FileForm(header=("id", "town", "age", "pay"))
    schema = replace(SCHEMA, file=named, ignore=("id",))
    assert [row["age"] for row in read(path, schema)] == [17, 18]
    with pytest.raises(DataError, match="line 2: expected 4 fields, as the schema has"):
        path.write_text("x,Zürich,17,5\ny,,18\n")
        read(path, schema)
    with pytest.raises(DataError, match="line 2, column 'age'"):
        path.write_text("x,Zürich,17,5\ny,,z,5\n")
        read(path, schema)


def test_a_copy_without_header_has_the_columns_of_the_file(tmp_path):
    form = FileForm(header=("id", "town", "age", "pay"), separator=";")
    schema = replace(SCHEMA, file=form, ignore=("id",))
    path = tmp_path / "a.csv"
    path.write_text("x;Zürich;17;0\ny;;18;9999\n")
    with table_writer(tmp_path / "copy.csv", schema) as append:
        append(read_table(path, schema))
    assert (tmp_path / "copy.csv").read_text() == ';"Zürich";17;0\n;;18;9999\n'
    assert read(tmp_path / "copy.csv", schema) == read(path, schema)


def test_an_unlabelled_schema_still_knows_the_columns_of_the_file():
    schema = replace(SCHEMA, label="town", file=FileForm(header=False)).unlabelled()
    assert schema.file.header == SCHEMA.names


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_lines_are_skipped_and_counted_whatever_ends_them(newline, encoding, tmp_path):
    path = tmp_path / "a.csv"
    lines = ['a "title', "", "age,pay,town", "17,1,Zürich", "18,x,Zürich", ""]
    path.write_bytes(newline.join(lines).encode(encoding))
    form = FileForm(skip=2, encoding=encoding)
    with pytest.raises(DataError, match="line 5, column 'pay'"):
        read(path, replace(SCHEMA, file=form))


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("age,pay,town\n17,1,Zürich\n".encode("cp1252") * 1)
    with pytest.raises(DataError, match="line 2: the text is not UTF-8") as refusal:
        read(path, SCHEMA)
    assert str(refusal.value).endswith('[file]\nencoding = "cp1252"\n')
    path.write_bytes("age,pay,town\n17,1,Zürich\n".encode("cp1252"))
    with pytest.raises(DataError, match="line 2: the text is not cp932"):
        path.write_bytes(b"age,pay,town\n17,1,\x81\n")
        read(
            path,
            replace(
                SCHEMA,
                file=FileForm(encoding="cp932"),
                columns=SCHEMA.columns[:2],
                ignore=("town",),
            ),
        )


def test_parts_of_a_file_in_a_form_are_all_of_it(tmp_path):
    form = FileForm(separator=";", decimal=",", skip=2)
    path = write(tmp_path / "a.csv", form)
    source = open_source(path, replace(SCHEMA, file=form))
    parts = list(source.split_into_parts(1000))
    assert len(parts) > 3
    rows = [read() for part in parts for read in part.batch_readers()]
    [whole] = source.batches()
    assert np.array_equal(
        np.concatenate([part.numeric for part in rows]), whole.numeric
    )
    # Bytes of another encoding are none of the text, so nothing can be cut there.
    wide = replace(form, encoding="utf-16")
    path = write(tmp_path / "wide.csv", wide)
    source = open_source(path, replace(SCHEMA, file=wide))
    [part] = source.split_into_parts(1000)
    assert sum(len(read()) for read in part.batch_readers()) == len(RECORDS)
    assert 300 < source.estimate_record_count() < 500


def test_a_public_file_is_drafted_in_its_form(tmp_path):
    form = FileForm(separator=";", encoding="cp1252", decimal=",", skip=1)
    path = write(tmp_path / "a.csv", form)
    drafted = draft(path)
    assert drafted.schema.file == form
    assert drafted.schema.column("pay").kind in ("continuous", "decimal")
    assert drafted.schema.column("pay").upper < 2000
    assert drafted.schema.column("town").levels == tuple(sorted(TOWNS))
    assert Schema.loads(drafted.toml()) == drafted.schema
    assert '[file]\nseparator = ";"\n' in drafted.toml()
    assert len(read(path, drafted.schema)) == len(RECORDS)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a\n1\n2\n", FileForm()),
        ("a,b\n1,2\n", FileForm()),
        ('a,b\n"1,5",2\n', FileForm()),
        ("a;b\n1,5;2,5\n", FileForm(separator=";", decimal=",")),
        ("a;b\n1,5;2.5\n", FileForm(separator=";")),
        ("a;b\n1.5;2.5\n", FileForm(separator=";")),
        ("a;b\n03.01.2020;NA\n", FileForm(separator=";")),
        ("a\tb\n1\tx y\n", FileForm(separator="\t")),
        ("\n\na|b\n1|2\n", FileForm(separator="|", skip=2)),
        ("Report;;\na;b;c\n1;2;3\n", FileForm(separator=";", skip=1)),
        ("", None),
        ("1,2\n3,4\n", None),
    ],
)
def test_the_form_of_small_files(text, form, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert find_form(path) == form


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('separator = ""', "must be one character between cells"),
        ('separator = "a"', "must be one character between cells"),
        ('encoding = "utf8-ish"', "none that is known"),
        ('encoding = "rot13"', "none that is known"),
        ('decimal = ";"', 'must be "." or ","'),
        ('decimal = ","\nthousands = ","', "are both ','"),
        ('thousands = "x"', "must be a point"),
        ('header = "age"', "must be true, false, or a list"),
        ('header = ["age", "age"]', "more than once"),
        ('header = ["age"]', "does not name the column 'pay'"),
        ("skip = -1", "must be the number of lines"),
        ('seperator = ";"', r"unknown key 'seperator'.*separator"),
        ('encoding = "cp437"\ndecimal = ","', None),
        ('encoding = "ascii"', None),
        ('encoding = "cp1251"', "the level 'Zürich' cannot be written in cp1251"),
    ],
)
def test_a_form_is_checked(lines, message):
    text = f"{SCHEMA.dumps()}\n[file]\n{lines}\n"
    if message is None:
        assert Schema.loads(text).file != FileForm() or "ascii" in lines
        return
    with pytest.raises(SchemaError, match=message):
        Schema.loads(text)


def test_linked_tables_without_header_list_all_columns():
    age = integer("age", 0, 99)
    with pytest.raises(SchemaError, match="where its keys stand"):
        LinkedTable(name="a", schema=Schema([age], file=FileForm(header=False)))


def test_a_cell_does_not_depend_on_others(tmp_path):
    """G-06: what a cell becomes follows from that cell and the schema."""
    form = FileForm(separator=";", decimal=",", thousands=".", encoding="cp1252")
    layout = TextLayout.of(replace(SCHEMA, file=form))
    alone = write(tmp_path / "alone.csv", form, RECORDS[:1])
    among = write(tmp_path / "among.csv", form, RECORDS)
    cells = [
        next(CsvFile(path, layout=layout).batches(SCHEMA.names, 10))
        for path in (alone, among)
    ]
    for name in SCHEMA.names:
        assert cells[0][name][0] == cells[1][name][0]


def test_linked_tables_are_drafted_and_read_in_their_forms(tmp_path):
    patients = "".join(f"{key};{20 + key % 60},5\n" for key in range(300))
    visits = "".join(
        f'{{"id": {key % 300}, "pain": {key % 9}}}\n' for key in range(900)
    )
    (tmp_path / "patients.csv").write_text("id;weight\n" + patients)
    (tmp_path / "visits.jsonl").write_text(visits)
    drafted = draft_linked(
        {"patients": tmp_path / "patients.csv", "visits": tmp_path / "visits.jsonl"}
    )
    schema = LinkedSchema.loads(drafted.toml())
    assert schema == drafted.schema
    assert "[tables.patients.file]" in drafted.toml()
    assert schema.table("patients").schema.file == FileForm(separator=";", decimal=",")
    with LinkedSource(tmp_path, schema) as source:
        [link] = schema.links
        assert sum(len(rows) for rows in source.read_transitions(link)) >= 900
    plain = [
        replace(table, schema=replace(table.schema, file=FileForm()))
        for table in schema.tables
    ]
    with (
        LinkedSource(tmp_path, LinkedSchema(plain)) as source,
        pytest.raises(DataError, match=r'separator = ";"\ndecimal = ","'),
    ):
        list(source.read_transitions(link))


def test_a_column_that_only_samples_have_stands_behind_those_of_the_file(tmp_path):
    schema = replace(SCHEMA, file=FileForm(header=False))
    records = read_table(write(tmp_path / "a.csv", FileForm(header=False)), schema)
    numbered = records.append_column(".imp", [[0] * records.num_rows])
    with table_writer(tmp_path / "copies.csv", schema) as append:
        append(numbered)
    first_line = (tmp_path / "copies.csv").read_text().splitlines()[0]
    assert first_line.split(",")[-1] == "0"
    assert len(first_line.split(",")) == 4
