"""`noisegate schema init` from a data dictionary, and from names alone."""

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import integer

from noisegate import draft_schema
from noisegate.gate.discovery.partial import read_partial
from noisegate.schema import FileForm, Schema

from .conftest import CANARY, argv, rows, said

CODEBOOK = """\
name,type,min,max,values
age,integer,18,90,
income,number,,,
job,factor,,,nurse|teacher|farmer
answer,factor,,,no|yes
remark,text,,,
"""


def test_a_code_book_then_bounds_that_are_bought_then_a_fit(desk, cli):
    (desk.folder / "codebook.csv").write_text(CODEBOOK)
    ended = cli("schema init --dictionary codebook.csv -o columns.toml --label answer")
    assert ended.code == 0, ended.err
    text = " ".join(ended.err.split())
    assert (
        "Wrote columns.toml from codebook.csv, a code book: 4 columns, 1 more is ignored"
        in text
    )
    assert "Still to state, from public knowledge, for 1 of them: income" in text
    checked = cli("schema check columns.toml")
    assert checked.code == 2
    assert "'income' (continuous): lower and upper missing" in " ".join(
        checked.err.split()
    )
    bought = cli(
        f"schema discover {desk.data} --columns columns.toml --epsilon 2 -o schema2.toml"
    )
    assert bought.code == 0, bought.err
    schema = Schema.from_toml("schema2.toml")
    assert schema.column("age") == integer("age", 18, 90, missing=True)
    assert schema.column("income").lower == 0
    assert 60 <= schema.column("income").upper <= 130


def test_names_are_listed_to_fill_in_kinds(desk, cli):
    desk.write_rows([*rows(600), f"90,1.5,{CANARY},no"])
    ended = cli(f"schema init --names-of {desk.data} -o columns.toml")
    assert ended.code == 0, ended.err
    text = (desk.folder / "columns.toml").read_text()
    assert CANARY not in text + ended.err
    assert text.endswith(
        '[columns]\nage = { kind = "?" }\nincome = { kind = "?" }\njob = { kind = "?" }\nanswer = { kind = "?" }\n'
    )
    discover = argv(
        f"schema discover {desk.data} --columns columns.toml --epsilon 3 -o found.toml"
    )
    refused = cli(*discover)
    assert refused.code == 2
    assert (
        "columns.toml: no kind is given for 'age', 'income', 'job', 'answer'"
        in " ".join(refused.err.split())
    )
    assert (
        cli(*discover, "--kinds", "age=integer,income=continuous,*=categorical").code
        == 0
    )
    kinds = [column.kind for column in Schema.from_toml("found.toml").columns]
    assert kinds == ["integer", "continuous", "categorical", "categorical"]


def test_odd_names_are_listed_as_they_are(desk, cli):
    names = ["number of visits", "STDs: (time)", 'a"b', "é", "x.y"]
    pq.write_table(
        pa.table({name: [1, 2] for name in names}), desk.folder / "t.parquet"
    )
    assert cli("schema init --names-of t.parquet -o columns.toml").code == 0
    columns, _, _ = read_partial(
        desk.folder / "columns.toml", dict.fromkeys(names, "integer")
    )
    assert list(columns) == names
    text = (desk.folder / "columns.toml").read_text(encoding="utf-8")
    assert text.count('kind = "?"') == len(
        names
    )  # types of a private file may have been chosen by its values


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["data.csv", "--dictionary", "codebook.csv"],
            "PUBLIC and --dictionary each describe the records",
        ),
        (["--table", "x", "data.csv"], "--table 'x' chooses a part of a --dictionary"),
        (["--dictionary", "nowhere.csv"], "nowhere.csv cannot be read"),
        (["--dictionary", "data.csv"], "not a supported data dictionary"),
        (["--names-of", "bare.csv"], "the first line looks like a record"),
        (
            argv("--names-of data.csv --label x"),
            "label 'x' is not a column of data.csv",
        ),
    ],
)
def test_bad_requests_leave_nothing(desk, cli, arguments, message):
    (desk.folder / "bare.csv").write_text(f"18,{CANARY}\n20,b\n")
    before = desk.listing()
    ended = cli("schema", "init", *arguments, "-o", "columns.toml")
    assert ended.code == 2, ended.err
    assert message in " ".join(ended.err.split()), ended.err
    assert CANARY not in ended.err + ended.out
    assert desk.listing() == before


def test_names_of_a_file_in_another_form_are_listed_with_the_form(desk, cli):
    private = desk.folder / "private.csv"
    private.write_bytes("alter;größe\n41;1,78\n52;1,69\n".encode("cp1252"))
    refused = cli("schema init --names-of private.csv -o columns.toml")
    assert refused.code == 2
    assert "--form FILE" in refused.err
    lines = 'separator = ";"\nencoding = "cp1252"\ndecimal = ","'
    assert lines in refused.err
    (desk.folder / "form.toml").write_text(f"[file]\n{lines}\n")
    listed = cli(
        *("schema", "init", "--names-of", "private.csv"),
        *("--form", "form.toml", "-o", "columns.toml"),
    )
    assert listed.code == 0, listed.err
    text = (desk.folder / "columns.toml").read_text()
    assert f"[file]\n{lines}" in text
    assert '"größe" = { kind = "?" }' in text


def test_a_public_workbook_of_several_sheets_is_drafted_by_its_form(desk, cli):
    workbook = openpyxl.Workbook()
    workbook.active.append(["what this is"])
    records = workbook.create_sheet("Records")
    for row in (
        ["A title"],
        ["age", "job"],
        *([20 + n, "ab"[n % 2]] for n in range(9)),
    ):
        records.append(row)
    workbook.save(desk.folder / "public.xlsx")
    refused = cli("schema init public.xlsx -o drafted.toml")
    assert refused.code == 2
    assert "under [file]" in said(refused.err)
    assert "--form FILE" in said(refused.err)
    (desk.folder / "form.toml").write_text('[file]\nsheet = "Records"\nskip = 1\n')
    drafted = cli(
        *("schema", "init", "public.xlsx"),
        *("--form", "form.toml", "-o", "drafted.toml"),
    )
    assert drafted.code == 0, drafted.err
    schema = Schema.loads((desk.folder / "drafted.toml").read_text())
    assert schema.names == ("age", "job")
    assert schema.file.sheet == "Records"
    form = FileForm(sheet="Records", skip=1)
    assert draft_schema("public.xlsx", form=form).names == ("age", "job")


def test_a_form_is_of_one_file(desk, cli):
    ended = cli(
        *("schema", "init", "--dictionary", "data.csv"),
        *("--form", "form.toml", "-o", "drafted.toml"),
    )
    assert ended.code == 2
    assert "--form form.toml says how one file of records is written" in said(ended.err)
