"""Data dictionaries of each kind become schemas; what they do not say stays open, and nothing is invented."""

import csv
import io
import json
from datetime import date
from pathlib import Path

import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate.app.drafts.dictionaries import read_dictionary
from noisegate.errors import SchemaError
from noisegate.gate.discovery.partial import read_partial
from noisegate.schema import (
    Date,
    Decimal,
    Schema,
)

FILES = Path(__file__).with_name("files")
REDCAP, CODEBOOK, PACKAGE, CSVW = (
    (FILES / name).read_text("utf-8")
    for name in (
        "redcap.csv",
        "codebook.csv",
        "datapackage.json",
        "study.csv-metadata.json",
    )
)


def drafted(tmp_path, text, name="codebook.csv", **options):
    (tmp_path / name).write_text(text)
    return read_dictionary(tmp_path / name, **options)


def stated(draft, **values):
    """The draft after its open bounds were stated, column by column: (lower, upper)."""
    text = draft.toml()
    for name, ends in values.items():
        start = text.index(f"[columns.{name}]")
        part = text[start:]
        for key, value in zip(("lower", "upper"), ends, strict=True):
            part = (
                part.replace(f"# {key} = \n", f"{key} = {value}\n", 1)
                if value is not None
                else part
            )
        text = text[:start] + part
    return text


def test_a_redcap_dictionary_describes_the_columns_of_a_raw_export(tmp_path):
    draft = drafted(tmp_path, REDCAP, label="smoker")
    assert draft.kind == "REDCap data dictionary"
    assert draft.open == (
        "visit",
        "hba1c",
        "bmi",
    )
    assert list(draft.ignored) == ["record_id", "last_name", "notes", "mail", "scan"]
    assert "marked as an identifier" in draft.ignored["last_name"]
    text = stated(draft, visit=(None, "2024-12-31"), hba1c=(3, 20), bmi=(10, 80))
    schema = Schema.loads(text)
    assert schema.label == "smoker"
    assert schema.column("dob") == Date(
        name="dob", lower=date(1920, 1, 1), upper=date(2005, 12, 31), missing=True
    )
    assert schema.column("sex") == categorical("sex", (1, 2, 9), missing=True)
    assert schema.column("site") == categorical("site", ("01", "02"), missing=True)
    assert schema.column("weight") == Decimal(
        name="weight", lower=30, upper=250.5, step=0.1, missing=True
    )
    assert schema.column("height") == integer("height", 100, 230, missing=True)
    assert schema.column("pain") == integer("pain", 0, 100, missing=True)
    assert schema.column("race____9") == boolean("race____9")
    assert {"race___1", "race___2", "race____9", "race___ot"} <= set(schema.names)
    assert "consent" not in schema.names + schema.ignore
    assert {
        "redcap_event_name",
        "baseline_complete",
        "followup_complete",
        "record_id",
    } <= set(schema.ignore)
    assert (
        "# Sex at birth\n# 1: Male; 2: Female; 9: Unknown, or refused\n[columns.sex]"
        in text
    )
    assert "# the dictionary says that upper is today\n" in text


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_code_book_is_read_whatever_its_headings_and_marks(mark, tmp_path):
    out = io.StringIO()
    csv.writer(out, delimiter=mark).writerows(csv.reader(io.StringIO(CODEBOOK)))
    draft = drafted(tmp_path, out.getvalue())
    check_codebook(draft)


def test_a_code_book_in_excel_is_the_same(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Read me"
    book.active.append(["A study of many things"])
    sheet = book.create_sheet("Variables")
    for row in csv.reader(io.StringIO(CODEBOOK)):
        sheet.append([float(cell) if cell.isdigit() else cell or None for cell in row])
    book.save(tmp_path / "codebook.xlsx")
    check_codebook(read_dictionary(tmp_path / "codebook.xlsx"))
    check_codebook(read_dictionary(tmp_path / "codebook.xlsx", table="Variables"))
    with pytest.raises(
        SchemaError,
        match="there is no sheet 'Data'; choose one with table: Read me, Variables",
    ):
        read_dictionary(tmp_path / "codebook.xlsx", table="Data")
    (tmp_path / "codebook.xlsx").write_text("no workbook")
    with pytest.raises(SchemaError, match="is no Excel workbook; save it again"):
        read_dictionary(tmp_path / "codebook.xlsx")


def check_codebook(draft):
    assert draft.kind == "code book"
    assert draft.open == ("visits", "thing")
    assert list(draft.ignored) == ["patient_id", "remarks"]
    columns = {entry.name: entry.column for entry in draft.entries}
    assert columns["sex"] == categorical("sex", (1, 2), missing=True)
    assert columns["stage"] == ordinal("stage", ("I", "II", "III"), missing=True)
    assert columns["smoker"] == boolean("smoker", missing=True)
    assert columns["age"] == integer("age", 18, 99, missing=True)
    assert columns["weight"] == continuous("weight", 30, 250, missing=True)
    assert columns["ecog"] == categorical("ecog", (0, 1, 2), missing=True)
    assert columns["lab"] == continuous("lab", 0, 20, atoms=(-9, -8), missing=True)
    assert columns["region"] == categorical("region", ("North", "South"), missing=True)
    assert "# Age at entry [years]\n[columns.age]" in draft.toml()


def test_frictionless_schemas_and_packages(tmp_path):
    draft = drafted(tmp_path, PACKAGE, "datapackage.json", table="visits")
    assert draft.kind == "Frictionless Table Schema"
    assert draft.open == ("age",)
    assert list(draft.ignored) == ["visit", "born", "place", "note"]
    schema = Schema.loads(stated(draft, age=(None, 120)))
    assert schema.missing_values == ("", "-")
    assert schema.column("sex") == categorical("sex", "fm")
    assert schema.column("grade") == ordinal("grade", (1, 2, 3), missing=True)
    assert schema.column("arm") == categorical("arm", "AB", missing=True)
    assert schema.column("age") == integer("age", 0, 120, missing=True)
    assert schema.column("dose") == continuous("dose", 0, 0.5, missing=True)
    (tmp_path / "labs.json").write_text(
        json.dumps({"fields": [{"name": "ok", "type": "boolean"}]})
    )
    assert read_dictionary(tmp_path / "datapackage.json", table="labs").entries[
        0
    ].column == boolean("ok", missing=True)
    assert read_dictionary(tmp_path / "labs.json").kind == "Frictionless Table Schema"
    with pytest.raises(
        SchemaError, match="there are 2 resources; choose one with table: visits, labs"
    ):
        read_dictionary(tmp_path / "datapackage.json")


def test_csvw_metadata(tmp_path):
    draft = drafted(tmp_path, CSVW, "study.csv-metadata.json")
    assert draft.kind == "CSVW metadata"
    assert draft.open == ("stays",)
    assert list(draft.ignored) == ["Patient", "day", "note"]
    schema = Schema.loads(stated(draft, stays=(None, 99)))
    assert schema.missing_values == ("", "NA")
    assert schema.column("Age") == integer("Age", 0, 120, missing=True)
    assert schema.column("stays") == integer("stays", 0, 99)
    assert schema.column("dose") == continuous("dose", 0, 2.5, missing=True)
    assert schema.column("sex") == categorical("sex", "fm", missing=True)
    study = json.loads(CSVW)
    several = {
        "@context": study["@context"],
        "tables": [study, {**study, "url": "labs.csv"}],
    }
    with pytest.raises(
        SchemaError,
        match=r"there are 2 tables; choose one with table: study\.csv, labs\.csv",
    ):
        drafted(tmp_path, json.dumps(several), "all.json")
    assert drafted(
        tmp_path, json.dumps(several), "all.json", table="labs.csv"
    ).open == ("stays",)


def test_what_is_open_is_named_at_once_and_may_be_bought(tmp_path):
    draft = drafted(tmp_path, REDCAP)
    with pytest.raises(
        SchemaError,
        match=r"'visit' \(date\): upper missing.*'hba1c' \(continuous\): lower and upper.*'bmi'",
    ):
        Schema.loads(draft.toml())
    (tmp_path / "columns.toml").write_text(stated(draft, visit=(None, "2024-12-31")))
    columns, _, _ = read_partial(tmp_path / "columns.toml", {})
    assert {
        name for name, column in columns.items() if type(column).__name__ == "Gap"
    } == {
        "hba1c",
        "bmi",
    }


def test_a_dictionary_that_contradicts_itself_does_not_stop_the_others(tmp_path):
    draft = drafted(tmp_path, "name,type,min,max\nold,int,90,10\nage,int,0,120\n")
    assert (
        "contradicts itself: column 'old': lower = 90 is above upper = 10"
        in draft.ignored["old"]
    )
    assert Schema.loads(draft.toml()).names == ("age",)
    with pytest.raises(
        SchemaError, match="label 'old' is not a column that dictionary"
    ):
        read_dictionary(tmp_path / "codebook.csv", label="old")
