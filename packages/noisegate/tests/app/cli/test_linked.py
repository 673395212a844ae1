"""Linked tables from the command line: a fit of several files, booked on their unit, and synthetic ones in a folder."""

import pandas as pd
import pytest

SCHEMA = """\
[tables.people]
key = "id"
[tables.people.columns.ill]
kind = "boolean"

[tables.visits]
parent = "people"
order = "day"
most = 4
[tables.visits.columns.day]
kind = "integer"
lower = 0
upper = 99
[tables.visits.columns.pain]
kind = "integer"
lower = 0
upper = 10
"""
UNIT = "one record of the table people with all that belongs to it in visits"
FIT = ("--schema", "linked.toml", "--epsilon", "1", "--set", 'fit_options={"steps": 3}')


@pytest.fixture
def clinic(desk):
    people = pd.DataFrame({"id": range(200), "ill": [i % 3 == 0 for i in range(200)]})
    visits = pd.DataFrame(
        {"id": [i * 7 % 200 for i in range(500)], "day": [i % 97 for i in range(500)]}
    )
    visits["pain"] = visits["day"] % 11
    people.to_csv(desk.folder / "people.csv", index=False)
    visits.to_csv(desk.folder / "visits.csv", index=False)
    (desk.folder / "linked.toml").write_text(SCHEMA)
    return desk.folder


def test_from_the_ledger_to_synthetic_tables(clinic, cli):
    booked = ("--dataset", "clinic", "--ledger", "books.db")
    assert (
        cli(
            "ledger register clinic --epsilon 3 --ledger books.db --schema linked.toml"
        ).code
        == 0
    )
    planned = cli("plan --schema linked.toml --epsilon 1 --json").json
    assert planned["method"] == "linked"
    fitted = cli(
        "fit people.csv visits.csv", *FIT, *booked, "--out", "model", "--json"
    ).json
    assert fitted["certificate"]["guarantee"]["unit"] == UNIT
    assert (
        cli("ledger show --ledger books.db --json").json["accounts"][0]["committed"]
        == 1
    )
    output = cli("sample model -n 20 -o ill --where ill=true --json").json
    assert output["where"] == ["ill=true"]
    assert pd.read_csv(clinic / "ill" / "people.csv")["ill"].all()
    output = cli("sample model -n 50 -o synthetic --seed 0 --json").json
    people, visits = (
        pd.read_csv(clinic / "synthetic" / f"{name}.csv")
        for name in ("people", "visits")
    )
    assert output["tables"] == {"people": 50, "visits": len(visits)}
    assert people["id"].is_unique
    assert set(visits["id"]) <= set(people["id"])
    assert (visits.groupby("id")["day"].diff().dropna() >= 0).all()
    assert visits.groupby("id").size().max() <= 4
    assert cli("verify", "model").code == 0
    assert cli("sample model -n 5 -o synthetic.parquet").code == 0
    assert len(pd.read_parquet(clinic / "synthetic.parquet" / "people.parquet")) == 5
    assert (
        cli("fit people.csv visits.csv", *FIT, "--resume", "--out", "other").code == 2
    )


def test_tables_lie_in_a_folder_or_under_other_names(clinic, cli):
    (clinic / "data").mkdir()
    (clinic / "people.csv").rename(clinic / "data" / "people.csv")
    (clinic / "visits.csv").rename(clinic / "data" / "visits.csv")
    assert cli("fit", "data", *FIT, "--out", "model").code == 0
    (clinic / "data" / "visits.csv").rename(clinic / "2024.csv")
    ended = cli("fit data/people.csv --table visits=2024.csv", *FIT, "--out", "second")
    assert ended.code == 0, ended.err
    assert "visits (2024.csv)" in ended.err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("people.csv",), "no data for table 'visits' of the schema"),
        (
            ("people.csv", "visits.csv", "visit.csv"),
            "table 'visit' is not in the schema",
        ),
        (
            ("people.csv", "visits.csv", "--table", "visits=a.csv"),
            "a second path is given for the table 'visits'",
        ),
        (("people.csv", "--table", "visits"), "must look like NAME=PATH"),
        (
            ("people.csv", "visits.csv", "--unit-column", "id", "--contributions", "1"),
            "linked tables take none",
        ),
        (
            ("people.csv", "visits.csv", "--adjacency", "replace-one"),
            "use adjacency='add-remove'",
        ),
        (
            ("people.csv", "visits.csv", "--method", "pairwise"),
            "the schema describes linked tables",
        ),
        (("people.csv", "linked.csv"), "table 'linked' is not in the schema"),
        ((), "DATA, the private records, is missing"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_spent(
    clinic, cli, call, message
):
    ended = cli("fit", *call, *FIT, "--out", "model")
    assert ended.code == 2, ended.err
    assert message in " ".join(ended.err.split()), ended.err
    assert not (clinic / "model").exists()
    assert not (clinic / "model.partial").exists()


def test_what_is_of_one_table_is_refused_of_linked_ones(clinic, cli):
    assert cli("fit people.csv visits.csv", *FIT, "--out", "model").code == 0
    for more, message in [
        (("-o", "x", "--even", "ill"), "--even applies to one table"),
        (
            ("-o", "x", "--where", "day=3"),
            "where: no column 'day' in the schema; its columns are ill",
        ),
        (("--package", "x"), "--package applies to one table"),
        (("-o", "x.csv"), "are written into a folder"),
        (("-o", "people.csv"), "are written into a folder"),
        (("-o", "model"), "exists"),
    ]:
        ended = cli("sample model -n 5", *more)
        assert ended.code == 2, ended.err
        assert message in " ".join(ended.err.split()), ended.err
    assert not (clinic / "x").exists()
