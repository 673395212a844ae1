import json
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.shared.columns import boolean, continuous

from noisegate.app.drafts.dictionaries import read_dictionary
from noisegate.app.drafts.draft import draft, draft_schema
from noisegate.app.drafts.linked import draft_linked, table_names
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.schema.columns import column_form
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.sources import TableSource


def test_a_draft_from_parquet_uses_the_types(people, tmp_path):
    path = tmp_path / "public.parquet"
    pa.parquet.write_table(people, path)
    schema = draft_schema(path)
    kinds = "integer continuous categorical integer boolean date datetime"
    assert [column.kind for column in schema.columns] == kinds.split()
    assert [column.missing for column in schema.columns] == [
        True,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert sum(len(batch) for batch in TableSource(path, schema).batches()) == 300


LEFT_OUT = {
    "note": (
        [f"text {i}" for i in range(90)],
        "each of the 90 values is there once, as in an identifier",
    ),
    "story": (
        [f"she came in on day {i} and left" for i in range(45)] * 2,
        "45 distinct texts: free text",
    ),
    "town": ([f"town {i % 3}" if i % 2 else f"village {i}" for i in range(90)], None),
    "gone": (["?", ""] * 45, "every value is missing"),
    "far": (["inf", "-inf"] * 45, "no finite number"),
    "patient_id": (
        [100_000 + 7 * (i * 37 % 90) for i in range(90)],
        "each of the 90 values is there once",
    ),
    "row": (list(range(1, 91)), "each of the 90 values is there once"),
    "break": (
        ["a\u2028b", "c"] * 45,
        "the level 'a\\u2028b' holds a character that cannot",
    ),
}


@pytest.fixture(scope="module")
def left_out(tmp_path_factory):
    columns = {name: values for name, (values, _) in LEFT_OUT.items()}
    return written(
        tmp_path_factory.mktemp("draft"), {**columns, "age": list(range(20, 50)) * 3}
    )


def test_no_column_stops_a_draft_and_each_that_is_left_out_has_its_reason(
    left_out, tmp_path
):
    for name, (_, reason) in LEFT_OUT.items():
        assert (name in left_out.ignored) == (reason is not None), name
        assert reason is None or left_out.ignored[name].startswith(
            f"{name}: ignored: {reason}"
        ), name
    schema = Schema.loads(left_out.toml())
    assert schema == left_out.schema
    assert schema.names == ("town", "age")
    table = {name: values for name, (values, _) in LEFT_OUT.items()} | {
        "age": list(range(20, 50)) * 3
    }
    pa.csv.write_csv(pa.table(table), tmp_path / "public.csv")
    assert (
        sum(
            len(batch)
            for batch in TableSource(tmp_path / "public.csv", schema).batches()
        )
        == 90
    )


def test_what_is_left_out_stands_in_the_file_as_a_comment_ready_for_use(left_out):
    text = left_out.toml()
    assert (
        '# [columns.far]\n# kind = "continuous"\n# # lower = \n# # upper = \n' in text
    )
    text = text.replace("# [columns.far]\n# ", "[columns.far]\n").replace('"far", ', "")
    text = text.replace("# # lower = ", "lower = 0").replace(
        "# # upper = ", "upper = 9"
    )
    assert Schema.loads(text).column("far") == continuous("far", 0, 9)


def test_where_no_column_can_be_used_all_reasons_are_said(tmp_path):
    with pytest.raises(
        SchemaError,
        match=r"no column can be described: gone: ignored: .*; far: ignored: no finite",
    ):
        written(tmp_path, {name: LEFT_OUT[name][0] for name in ("gone", "far")})
    with pytest.raises(
        SchemaError,
        match=r"label 'gone' cannot be predicted as it is: .*every value is missing",
    ):
        pa.csv.write_csv(
            pa.table({"gone": ["?", ""], "x": [1, 2]}), tmp_path / "public.csv"
        )
        draft(tmp_path / "public.csv", label="gone")


# What a large enough sample shows: steps, atoms and rules, and nothing where there is an exception or too little.

ROWS = 2000
RANDOM = np.random.default_rng(5)


def written(tmp_path, columns):
    pa.csv.write_csv(pa.table(columns), tmp_path / "public.csv")
    return draft(tmp_path / "public.csv")


def normal(scale, rows=ROWS):
    return np.round(RANDOM.normal(50, 9, rows) / scale) * scale


def mostly(value, others, share=0.3):
    others = np.asarray(others)
    return np.where(np.arange(len(others)) % 10 < 10 * share, value, others)


START = np.datetime64("2020-03-01") + RANDOM.integers(0, 900, ROWS)
DAYS = RANDOM.integers(0, 200, ROWS)
GRIDS = {
    "cents": (
        np.round(RANDOM.gamma(2, 30, ROWS), 2),
        {"kind": "decimal", "step": 0.01},
    ),
    "quarters": (normal(0.25), {"kind": "decimal", "step": 0.25}),
    "fives": (normal(5).astype(int), {"kind": "integer", "step": 5}),
    "whole": (RANDOM.integers(0, 40, ROWS), {"kind": "integer"}),
    "real": (RANDOM.normal(0, 1, ROWS), {"kind": "continuous"}),
    "one exception": (np.r_[normal(5).astype(int)[1:], 51], {"kind": "integer"}),
    "unknown is 999": (
        mostly(999, normal(1).astype(int), 0.1),
        {"kind": "integer", "atoms": [999]},
    ),
    "refused is -9, unknown -1": (
        mostly(-9, mostly(-1, RANDOM.integers(0, 9000, ROWS), 0.2), 0.1),
        {"kind": "integer", "atoms": [-9, -1]},
    ),
    "real and none": (
        mostly(0.0, RANDOM.gamma(2, 3, ROWS)),
        {"kind": "continuous", "atoms": [0.0]},
    ),
    "minutes": (
        np.datetime64("2021-01-01T00:00:00", "us")
        + RANDOM.integers(0, 400_000, ROWS).astype("timedelta64[m]"),
        {"kind": "datetime", "step": 60},
    ),
    "never is 9999": (
        mostly(np.datetime64("9999-12-31"), START, 0.1),
        {"kind": "date", "atoms": [date(9999, 12, 31)]},
    ),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_draft_finds_the_grid_and_the_atoms_that_were_planted_and_no_others(
    name, tmp_path
):
    values, expected = GRIDS[name]
    draft = written(tmp_path, {name: values})
    form = column_form(draft.schema.columns[0])
    assert {
        key: form[key] for key in ("kind", "step", "atoms") if key in form
    } == expected
    assert bool(draft.entries[0].comments) == (len(expected) > 1)
    reread = Schema.loads(draft.toml())
    assert reread == draft.schema
    source = TableSource(tmp_path / "public.csv", reread)
    back = decode(EncodedTable.concatenate(list(source.batches())), reread)[
        name
    ].to_pylist()
    assert back == (
        pytest.approx(values.tolist())
        if expected["kind"] == "continuous"
        else pa.array(values).to_pylist()
    )


def rules_of(tmp_path, columns):
    draft = written(tmp_path, columns)
    assert Schema.loads(draft.toml()) == draft.schema
    assert len(draft.rules.reasons) == len(draft.schema.constraints)
    rules = (*draft.schema.relations, *draft.schema.constraints)
    return {str(rule) for rule in rules}, " ".join(draft.rules.remarks)


def test_starts_and_ends_parts_and_wholes_are_ordered(tmp_path):
    part, rest = RANDOM.gamma(2, 20, (2, ROWS)).round(2)
    other = RANDOM.gamma(2, 30, ROWS).round(2)
    columns = {
        "start": START,
        "end": START + DAYS,
        "part": part,
        "whole": (part + rest).round(2),
        "other": other,
    }
    constraints, remarks = rules_of(tmp_path, columns)
    assert constraints == {"end >= start", "whole >= part"}
    assert remarks == ""
    columns["end"][7] = START[7] - np.timedelta64(1, "D")
    assert rules_of(tmp_path, {name: columns[name] for name in ("start", "end")}) == (
        set(),
        "",
    )  # one exception


def test_numbers_that_follow_from_each_other_are_related_or_remarked(tmp_path):
    height, index, other = (
        RANDOM.normal(170, 9, ROWS).round(),
        RANDOM.gamma(30, 0.85, ROWS),
        RANDOM.random(ROWS),
    )
    weight, fat = (
        (index * (height / 100) ** 2).round(1),
        RANDOM.dirichlet([2, 3, 4], ROWS)[:, :2].round(3),
    )
    body = {
        "height": height,
        "weight": weight,
        "bmi": (weight / (height / 100) ** 2).round(1),
        "other": other,
    }
    shares = {
        "fat": fat[:, 0],
        "carbs": fat[:, 1],
        "rest": (1 - fat.sum(axis=1)).round(3),
        "other": other,
    }
    twins = {"one": other, "more": other, "low": fat[:, 0]}
    for columns, relation in (
        ({"start": START, "end": START + DAYS % 9}, "end >= start"),
        (twins, "more = one"),
        (body, "bmi = 10000 * weight / height ** 2"),
        (shares, "1 = fat + carbs + rest"),
    ):
        assert relation in rules_of(tmp_path, columns)[0]
    for columns, message in (
        (
            {"one": other, "more": other + 0.01 * (fat[:, 1] - 0.3), "low": fat[:, 0]},
            "one, more: each nearly follows from the rest, as a sum",
        ),
        (
            {"far": 9 * other + 2, "mile": other, "low": fat[:, 0]},
            "far, mile: each nearly follows from the rest",
        ),
        (
            body
            | {
                "bmi": (
                    weight / (height / 100) ** 2 * RANDOM.uniform(0.997, 1.003, ROWS)
                )
            },
            "height, weight, bmi: each nearly follows from the rest, as a product or ratio",
        ),
        (
            {"low": other, "high": 1 + RANDOM.random(ROWS), "same": np.full(ROWS, 7.5)},
            "",
        ),
    ):
        remarks = rules_of(tmp_path, columns)[1]
        assert message in remarks
        assert remarks.count("each nearly") == bool(message)


def test_what_is_never_said_together_is_impossible(tmp_path):
    sex = RANDOM.choice(["F", "M"], ROWS)
    pregnant = np.where((sex == "F") & (RANDOM.random(ROWS) < 0.2), "yes", "no")
    children = np.where(sex == "F", RANDOM.integers(0, 9, ROWS), 0)
    married = RANDOM.choice(["true", "false"], ROWS)
    since = np.where(
        married == "true", RANDOM.integers(1980, 2020, ROWS).astype(str), None
    )
    columns = {
        "sex": sex,
        "pregnant": pregnant,
        "births": children,
        "married": married,
        "since": since,
    }
    constraints, _ = rules_of(tmp_path, columns)
    assert constraints == {
        "impossible: sex = M, pregnant = yes",
        "impossible: sex = M, births = 1..",
        "since exactly if married = True",
    }


@pytest.mark.parametrize(("times", "message"), [(1, set()), (10, {"high >= low"})])
def test_a_comparison_needs_records_that_would_break_it(times, message, tmp_path):
    index = np.arange(300)
    low = index % 100
    high = np.where(
        index < 15, low, low + 100
    )  # independent, 1 in 40 would be the lesser one: 7 of 300
    assert (
        rules_of(tmp_path, {"low": np.tile(low, times), "high": np.tile(high, times)})[
            0
        ]
        == message
    )


def test_names_that_end_lines_stay_in_their_comment(tmp_path):
    draft = written(tmp_path, {"a": START, "b": START + DAYS})
    odd = replace(
        draft,
        entries=(
            replace(draft.entries[0], comments=("one\ntwo = 3\r",)),
            *draft.entries[1:],
        ),
    )
    assert Schema.loads(odd.toml()) == draft.schema


# A schema of linked tables drafted from public files: which column names the parents, and what children show.


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
