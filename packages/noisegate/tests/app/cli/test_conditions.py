import csv

import pyarrow as pa
import pytest
from tests.shared.columns import boolean, continuous, integer

from noisegate import Schema, fit, progress
from noisegate.app.cli.sample import read_conditions
from noisegate.schema import FileForm

from .conftest import argv


@pytest.mark.parametrize(
    ("texts", "conditions"),
    [
        (None, {}),
        ([" sex = Female "], {"sex": "Female"}),
        (["income=>50K"], {"income": ">50K"}),
        (["income=<=50K"], {"income": "<=50K"}),
        (["age>=18"], {"age": ("18", None)}),
        (["age <= 30", "age>=18", "sex=Male"], {"age": ("18", "30"), "sex": "Male"}),
        (["age=18..30"], {"age": "18..30"}),
        (["job="], {"job": ""}),
        (["admitted on>=2020-01-01"], {"admitted on": ("2020-01-01", None)}),
        (["job is not missing"], {"job": "is not missing"}),
        (["job is missing", "age<=30"], {"job": None, "age": (None, "30")}),
        (["job=it is missing"], {"job": "it is missing"}),
    ],
)
def test_conditions_say_what_a_column_shall_be(texts, conditions):
    assert read_conditions(texts) == conditions


def test_sample_keeps_to_its_conditions(fitted, tmp_path, cli):
    out = tmp_path / "made.csv"
    where = argv("--where answer=yes --where age>=30 --where age<=50 --where income=")
    ended = cli(f"sample {fitted.out} -n 40 -o {out} --seed 1", *where, "--json")
    assert ended.code == 0
    assert ended.json["where"] == where[1::2]
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert {(row["answer"], row["income"]) for row in rows} == {("yes", "")}
    assert all(30 <= int(row["age"]) <= 50 for row in rows)
    assert len({row["age"] for row in rows}) > 3


def test_sample_makes_classes_even(fitted, tmp_path, cli):
    out = tmp_path / "made.csv"
    ended = cli(
        f"sample {fitted.out} -n 40 -o {out} --even answer --where age>=30 --json"
    )
    assert ended.code == 0
    assert ended.json["even"] == "answer"
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [
        sum(row["answer"] == answer for row in rows) for answer in ("yes", "no")
    ] == [20, 20]
    assert all(int(row["age"]) >= 30 for row in rows)
    refused = cli(f"sample {fitted.out} -n 5 -o {tmp_path}/none.csv --even age")
    assert refused.code == 2
    assert "even='age'" in refused.err
    assert not (tmp_path / "none.csv").exists()


def test_sample_leaves_out_missing_values(fitted, tmp_path, cli):
    out = tmp_path / "made.csv"
    where = ["--where", "income is not missing"]
    ended = cli(f"sample {fitted.out} -n 200 -o {out}", *where)
    assert ended.code == 0
    with out.open() as file:
        assert all(row["income"] for row in csv.DictReader(file))


def test_one_column_has_one_condition(fitted, tmp_path, cli):
    where = ["--where", "income is not missing", "--where", "income=5"]
    ended = cli(f"sample {fitted.out} -n 9 -o {tmp_path}/made.csv", *where)
    assert ended.code == 2
    assert "is the second condition on column 'income'" in " ".join(ended.err.split())


def test_sample_completes_the_records_of_a_file(tmp_path, cli, monkeypatch):
    ages = pa.table({"age": list(range(20, 80)), "member": [True, False] * 30})
    schema = Schema([integer("age", 0, 99), boolean("member")])
    model = tmp_path / "model"
    fit(ages, schema=schema, epsilon=9.0, out=model, fit_options={"steps": 20})
    monkeypatch.setattr(progress, "EVERY", 0.0)
    gaps_file = tmp_path / "gaps.csv"
    gaps_file.write_text("age,member\n40,\n,true\n")
    out = tmp_path / "filled.csv"
    ended = cli(f"sample {model} --given {gaps_file} -o {out} --json")
    assert ended.code == 0
    assert ended.json["records"] == 2
    with out.open() as file:
        first, second = csv.DictReader(file)
    assert first["age"] == "40"
    assert first["member"] in ("true", "false")
    assert second["member"] == "true"
    assert second["age"].isdigit()
    lines = [line for line in ended.err.splitlines() if "Completing" in line]
    assert lines, "a scheduler sees that something is done"
    assert all(line.endswith(" s so far") for line in lines), "and no count of records"


def test_a_model_that_completes_no_records_says_which_does(fitted, tmp_path, cli):
    gaps_file = tmp_path / "gaps.csv"
    gaps_file.write_text("age\n40\n")
    ended = cli(f"sample {fitted.out} --given {gaps_file} -o {tmp_path}/filled.csv")
    assert ended.code == 2
    assert "cannot complete records; 'pairwise'" in " ".join(ended.err.split())


def test_records_that_are_given_say_how_many_there_are(fitted, tmp_path, cli):
    gaps_file = tmp_path / "gaps.csv"
    gaps_file.write_text("age\n40\n")
    out = tmp_path / "filled.csv"
    ended = cli(f"sample {fitted.out} --given {gaps_file} -o {out} -n 5")
    assert ended.code == 2
    assert "--records does not go with --given" in " ".join(ended.err.split())
    assert not out.exists()


def test_numbers_of_the_given_file_are_written_as_the_schema_says(tmp_path, cli):
    amounts = pa.table({"amount": [float(number) for number in range(60)]})
    form = FileForm(separator=";", decimal=",")
    schema = Schema([continuous("amount", 0, 99)], file=form)
    model = tmp_path / "model"
    fit(amounts, schema=schema, epsilon=9.0, out=model, fit_options={"steps": 5})
    gaps_file = tmp_path / "gaps.csv"
    gaps_file.write_text("amount\n40,5\n\n")
    out = tmp_path / "filled.csv"
    ended = cli(f"sample {model} --given {gaps_file} -o {out}")
    assert ended.code == 0
    with out.open() as file:
        assert next(csv.DictReader(file, delimiter=";"))["amount"] == "40,5"
    gaps_file.write_text("amount\n")
    ended = cli(f"sample {model} --given {gaps_file} -o {tmp_path}/none.csv")
    assert ended.code == 2
    assert "there are no records to complete" in ended.err
    assert not (tmp_path / "none.csv").exists()
