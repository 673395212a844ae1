"""Images, linked tables, silos, and a schema that is bought: as the pages of the documentation go."""

import re

import numpy as np
from tests.journeys.conftest import RECORDS, SCHEMA, survey

FEW = "--set pixels=20 --set orientations=20 --set wavelets=20 --set strokes=0 --set channels=[4,2]"
FEW += """ --set 'fit_options={"steps": 20, "batch": 20}'"""
LINKED = """\
[tables.patients]
key = "id"
[tables.patients.columns.ill]
kind = "boolean"
[tables.visits]
parent = "patients"
parent_key = "id"
order = "day"
most = 4
[tables.visits.columns.day]
kind = "integer"
lower = 0
upper = 99
"""


def test_images(person):
    draw = np.random.default_rng(0)
    images = draw.integers(0, 90, (RECORDS, 8, 8), dtype=np.uint8)
    labels = draw.integers(0, 10, RECORDS)
    images[np.arange(RECORDS), labels % 8] += 150
    np.savez(person.folder / "scans.npz", images=images, labels=labels)
    person.types_all(
        [
            "noisegate schema init --images --size 8 --channels 1 --classes 10 -o images.toml",
            f"noisegate plan --schema images.toml --epsilon 1 --records {RECORDS} {FEW}",
            "noisegate ledger register clinic-2026 --epsilon 3",
            f"noisegate fit scans.npz --schema images.toml --epsilon 1 --dataset clinic-2026 --out model {FEW}",
            "noisegate sample model -n 200 -o synthetic.parquet --grid grid.png",
            "noisegate verify model",
        ]
    )
    assert person.lies() == {
        "scans.npz",
        "images.toml",
        "model",
        "synthetic.parquet",
        "grid.png",
    }


def test_linked_tables(person):
    ids = range(RECORDS)
    (person.folder / "patients.csv").write_text(
        "id,ill\n" + "".join(f"{i},{i % 3 == 0}\n" for i in ids)
    )
    lines = (f"{i * 7 % RECORDS},{i * 31 % 97}\n" for i in range(2 * RECORDS))
    (person.folder / "visits.csv").write_text("id,day\n" + "".join(lines))
    (person.folder / "clinic.toml").write_text(LINKED)
    fit = "noisegate fit patients.csv visits.csv --schema clinic.toml --epsilon 1 --out model --dataset clinic"
    person.types_all(
        [
            "noisegate schema check clinic.toml",
            "noisegate plan --schema clinic.toml --epsilon 1 --records 10000",
            "noisegate ledger register clinic --epsilon 3 --schema clinic.toml",
            f"""{fit} --set 'fit_options={{"steps": 3}}'""",
            "noisegate sample model -n 500 -o synthetic",
            "noisegate verify model",
        ]
    )
    assert {path.name for path in (person.folder / "synthetic").iterdir()} == {
        "patients.csv",
        "visits.csv",
    }
    assert person.lies() == {
        "patients.csv",
        "visits.csv",
        "clinic.toml",
        "model",
        "synthetic",
    }


def test_silos(person):
    (person.folder / "schema.toml").write_text(SCHEMA)
    (person.folder / "keys").mkdir()
    lines = ["noisegate plan --schema schema.toml --epsilon 1 --save plan.json"]
    for seed, silo in enumerate(("north", "south", "west")):
        (person.folder / f"{silo}.csv").write_text(survey(RECORDS, seed))
        lines.append(f"noisegate key {silo} --out {silo}.key")
    person.types_all(lines)
    for silo in ("north", "south", "west"):
        (person.folder / f"{silo}.pub").rename(person.folder / "keys" / f"{silo}.pub")
    release = "noisegate release {0}.csv --plan plan.json --silo {0} --secure-sum keys --key {0}.key"
    first = [
        release.format(silo) + f" --out {silo}.1" for silo in ("north", "south", "west")
    ]
    second = [
        release.format(silo) + f" --after first --out {silo}.2"
        for silo in ("north", "south", "west")
    ]
    merge = 'noisegate merge north.2 south.2 west.2 --after first --out model --stated-by "the patient registry"'
    person.types_all(
        [
            *first,
            "noisegate merge north.1 south.1 west.1 --out first",
            *second,
            merge,
            "noisegate verify model",
        ]
    )
    assert {"model", "first", "north.1", "north.2", "plan.json"} <= person.lies()


def test_bounds_that_are_bought(person):
    (person.folder / "visits.csv").write_text(survey(RECORDS))
    person.types(
        "noisegate schema init --names-of visits.csv -o columns.toml --label income"
    )
    columns = (person.folder / "columns.toml").read_text()
    for name, kind in {
        "age": "integer",
        "hours": "continuous",
        "job": "categorical",
        "income": "categorical",
    }.items():
        columns = columns.replace(
            f'{name} = {{ kind = "?" }}', f'{name} = {{ kind = "{kind}" }}'
        )
        columns = columns.replace(
            f'[columns.{name}]\nkind = "?"', f'[columns.{name}]\nkind = "{kind}"'
        )
    assert '"?"' not in columns, columns
    (person.folder / "columns.toml").write_text(columns)
    person.types("noisegate ledger register visits --epsilon 2 --ledger ledger.db")
    booked = "--dataset visits --ledger ledger.db"
    options = "--epsilon 0.2 --records 10000 --columns columns.toml"
    printed = person.types(
        f"noisegate schema discover visits.csv {options} -o found.toml {booked}"
    )
    assert "as estimated" in printed.out
    assert "levels of fewer than about" in " ".join(printed.err.split())
    person.types_all(
        [
            f"noisegate fit visits.csv --schema found.toml --epsilon 1 --out model {booked}",
            "noisegate report model -o pages",
        ]
    )
    printed = person.types("noisegate verify model").out
    (cost,) = re.findall(
        r"The schema was estimated with \(0\.2, 1e-05\).* schema 0\.2 \+ table 1 = (1\.0\d+) at ",
        printed,
    )
    for page in ("model/certificate.md", "pages/public.html"):
        assert f"schema 0.2 + table 1 = {cost} at δ = 1e-05" in (
            person.folder / page
        ).read_text("utf-8")
    booked = person.types("noisegate ledger show --ledger ledger.db").out
    assert re.search(
        r"schema discovery 0\.2 \+ pairwise 1 = 1\.0\d+ at \w+ = 1e-05; cap 2; 1\.\d+ left",
        booked,
    )
    file_names = {
        "visits.csv",
        "columns.toml",
        "ledger.db",
        "found.toml",
        "found.toml.certificate.json",
        "model",
        "pages",
    }
    assert person.lies() == file_names


def test_answers_that_are_planned_and_given(person):
    (person.folder / "schema.toml").write_text(SCHEMA)
    (person.folder / "survey.csv").write_text(survey(RECORDS))
    want = "noisegate plan --schema schema.toml --records 10000 --want 'mean(age) by income ±5 % at 90 %'"
    assert "noisegate fit --epsilon" in " ".join(person.types(want).out.split())
    fit = "noisegate fit survey.csv --schema schema.toml --epsilon 1 --dataset survey --for-inference --out model"
    person.types_all(
        [
            "noisegate ledger register survey --epsilon 1",
            f"""{fit} --set 'fit_options={{"steps": 20}}'""",
        ]
    )
    questions = (
        "'mean(age) by income' 'age ~ hours + job' 'chi2(job, income)' 'median(hours)'"
    )
    answers = person.types(f"noisegate infer model {questions}").out
    for words in ("95% from", "intercept", "chi-squared", "median(hours)"):
        assert words in answers
    sampled = person.types("noisegate sample model -n 20000 -o synthetic.csv")
    assert "20,000 rows were drawn from a release of about" in " ".join(
        sampled.err.split()
    )
    file_names = {
        "schema.toml",
        "survey.csv",
        "model",
        "synthetic.csv",
        "synthetic.csv-metadata.json",
    }
    assert person.lies() == file_names
