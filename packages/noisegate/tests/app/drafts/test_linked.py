"""A schema of linked tables drafted from public files: which column names the parents, and what children show."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean

from noisegate.app.drafts.dictionaries import read_dictionary
from noisegate.app.drafts.draft import draft
from noisegate.app.drafts.linked import draft_linked, table_names
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.schema import decode
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.sources import TableSource


def files(tmp_path, **tables):
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return table_names([tmp_path / f"{name}.csv" for name in tables])


def clinic(people=60, seed=0):
    random = np.random.default_rng(seed)
    patients = pd.DataFrame(
        {"id": np.arange(people) + 1, "age": random.integers(18, 90, people)}
    )
    patients["begun"] = pd.Timestamp("2015-01-01") + pd.to_timedelta(
        random.integers(0, 300, people), "D"
    )
    of = np.repeat(np.arange(people), random.integers(2, 6, people))
    visits = pd.DataFrame({"visit": [f"v{i}" for i in range(len(of))], "id": of + 1})
    later = random.integers(0, 90, len(of)) + visits.groupby("id").cumcount() * 100
    visits["seen"] = patients["begun"].to_numpy()[of] + pd.to_timedelta(later, "D")
    visits["pain"] = random.integers(0, 11, len(of))
    visits["born_in"] = random.choice(["north", "south"], people)[of]
    codes = pd.concat([visits[["visit", "id"]]] * 2)
    codes["code"] = random.choice(list("ABC"), len(codes))
    return {"patients": patients, "visits": visits, "codes": codes}


def test_the_draft_says_what_hangs_on_what_and_why(tmp_path):
    draft = draft_linked(files(tmp_path, **clinic()))
    text = draft.toml()
    schema = draft.schema
    assert LinkedSchema.loads(text) == schema
    assert [
        (table.name, table.parent, table.parent_key, table.key)
        for table in schema.tables
    ] == [
        ("patients", None, None, "id"),
        ("visits", "patients", "id", "visit"),
        ("codes", "visits", "visit", None),
    ]
    visits = schema.table("visits")
    assert visits.order == "seen"
    assert visits.since == "begun"
    assert visits.most == 5
    assert 90 <= visits.longest_gap <= 200
    # What names the patient beside the visit is no column of a diagnosis.
    assert schema.table("codes").schema.names == ("code",)
    assert schema.table("codes").schema.ignore == ("id",)
    assert [str(rule) for rule in schema.constraints] == [
        "visits.seen >= patients.begun"
    ]
    assert "visits.id are among them (sure)" in " ".join(text.replace("#", "").split())
    assert (
        "# born_in: the same in all records of each of 60 patients; move it to patients"
        in text
    )
    assert "pain: the same" not in text and "\ntype = " not in text  # text has no types


def test_numbers_that_happen_to_be_keys_are_no_link(tmp_path):
    tables = clinic()
    # All pains are among the ids, and name none of them.
    with pytest.raises(
        SchemaError, match="patients and visits: expected one root table"
    ):
        draft_linked(
            files(
                tmp_path,
                patients=tables["patients"],
                visits=tables["visits"].drop(columns="id"),
            )
        )


def test_two_files_of_one_name_and_tables_without_records(tmp_path):
    with pytest.raises(OptionError, match="would both be the table 'a'"):
        table_names([tmp_path / "a.csv", tmp_path / "b" / "a.parquet"])
    tables = clinic()
    with pytest.raises((DataError, SchemaError)):
        draft_linked(
            files(tmp_path, patients=tables["patients"][:0], visits=tables["visits"])
        )
    assert list(table_names([tmp_path / "-a b.csv"])) == ["a_b"]


def test_truth_words_of_two_spellings_are_one_word(tmp_path):
    path = tmp_path / "flags.csv"
    path.write_text("flag\n" + "Y\nn\nN\ny\n" * 30)
    drafted = draft(path)
    assert drafted.schema.column("flag") == boolean(
        "flag", true_values=("Y",), false_values=("n",)
    )
    records = next(TableSource(path, drafted.schema).batches())
    # Of two spellings the first comes back.
    flags = decode(records.rows(slice(4)), drafted.schema)["flag"].to_pylist()
    assert flags == ["Y", "n", "n", "Y"]


def test_an_infinite_bound_of_a_dictionary_is_left_open(tmp_path):
    path = tmp_path / "schema.json"
    field = {"name": "age", "type": "integer"}
    bounds = {"minimum": 0, "maximum": "inf"}
    path.write_text(json.dumps({"fields": [{**field, "constraints": bounds}]}))
    text = read_dictionary(path).toml()
    assert "the dictionary says that upper is inf" in text
    assert "lower = 0" in text


def test_a_broken_schema_that_a_package_names_is_named(tmp_path):
    package = {"resources": [{"name": "visits", "schema": "visits.json"}]}
    (tmp_path / "datapackage.json").write_text(json.dumps(package))
    (tmp_path / "visits.json").write_text("{")
    with pytest.raises(SchemaError, match=r"visits\.json is not valid JSON"):
        read_dictionary(tmp_path / "datapackage.json")
