"""Discovery finds what is there, within its budget, and a request that cannot be met spends nothing."""

import random
import re
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from tests.shared.columns import categorical, integer
from tests.shared.stated import ledger_of

from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.gate.discovery import schema_gate as discovery
from noisegate.gate.discovery.exact_counts import (
    read_counts,
)
from noisegate.gate.discovery.schema_gate import SchemaGate, discover_schema
from noisegate.privacy.schema_certificate import RECORD
from noisegate.schema import Continuous, Date, Datetime, Integer

CAP = 1.0
ROWS = 4000
KINDS = {
    "age": "integer",
    "rate": "continuous",
    "born": "date",
    "seen": "datetime",
    "met": "datetime-utc",
    "job": "categorical",
    "id": "categorical",
    "member": "boolean",
    "secret": "ignore",
}


def people(rows=ROWS):
    draw = random.Random(5)
    start = datetime(2001, 1, 1)
    return pa.table(
        {
            "age": [draw.randint(17, 90) for _ in range(rows)],
            "rate": [
                None if i % 4 == 3 else draw.uniform(-0.5, 0.25) for i in range(rows)
            ],
            "born": [
                date(1951, 1, 1) + timedelta(days=draw.randint(0, 20_000))
                for _ in range(rows)
            ],
            "seen": [
                start + timedelta(seconds=draw.randint(0, 10**8)) for _ in range(rows)
            ],
            "met": pa.array(
                [start.replace(tzinfo=UTC)] * rows, pa.timestamp("us", tz="UTC")
            ),
            "job": [
                ("nurse", "teacher", "other", None)[i % 4] if i else "astronaut"
                for i in range(rows)
            ],
            "id": [f"person {i}" for i in range(rows)],
            "member": [True] * rows,
            "secret": ["canary"] * rows,
        }
    )


@pytest.fixture(scope="module")
def discovered():
    return discover_schema(people(), epsilon=5.0, kinds=KINDS, label="member")


def test_bounds_and_levels_are_found(discovered):
    schema = discovered.schema
    assert schema.names == ("age", "rate", "born", "seen", "met", "job", "member")
    assert schema.label == "member"
    assert schema.ignore == ("id", "secret")
    age, rate, born, seen, met = (
        schema.column(name) for name in ("age", "rate", "born", "seen", "met")
    )
    assert isinstance(age, Integer)
    # One cell too far has a chance of 1/40 on either side, three of 1e-5.
    assert 0 <= age.lower <= 20
    assert 85 <= age.upper <= 1100
    assert isinstance(rate, Continuous)
    assert -4.1 < rate.lower <= -0.45
    assert 0.2 <= rate.upper < 2.1
    assert isinstance(born, Date)
    assert date(1920, 1, 1) <= born.lower <= date(1952, 1, 1)
    assert date(2004, 1, 1) <= born.upper <= date(2040, 1, 1)
    assert isinstance(seen, Datetime)
    assert not seen.aware
    assert datetime(1970, 1, 1) <= seen.lower <= datetime(2001, 6, 1)
    assert isinstance(met, Datetime)
    assert met.aware
    assert met.lower <= datetime(2001, 1, 1, tzinfo=UTC) <= met.upper
    # The level "other" was found, so the level for the rest has another name; the astronaut is alone.
    expected = categorical(
        "job", ("nurse", "other", "teacher", "(other)"), other="(other)", missing=True
    )
    assert schema.column("job") == expected


def test_the_file_says_what_was_bought_and_nothing_private(discovered):
    assert discovered.toml.startswith(
        "# Discovered with (5, 1e-05)-differential privacy, add-remove, unit: record.\n"
    )
    assert '# "id": ignored: no level had about' in discovered.toml
    assert '"secret": ignored' not in discovered.toml
    assert "records lack a value\n[columns.age]" in discovered.toml
    assert (
        f"noise of ±{2 * discovered.certificate.events[0].noise_std / RECORD:.0f} records on each count"
        in discovered.toml
    )
    # Each note stands above its own column. A quarter of the records lack a value, and noise is about three of them.
    lines = discovered.toml.splitlines()
    for name, note in (
        ("rate", r"moved to the nearer bound; (\d+) ± \d+"),
        ("job", r'became "\(other\)"; about (\d+)'),
    ):
        note_line = re.search(
            f"{note} records lack a value$", lines[lines.index(f"[columns.{name}]") - 1]
        )
        assert abs(int(note_line[1]) - ROWS / 4) < 50
    assert "canary" not in discovered.toml
    assert "astronaut" not in discovered.toml
    assert "person" not in discovered.toml


def test_the_certificate_costs_what_was_asked_and_names_what_was_public(discovered):
    certificate = discovered.certificate
    assert 4.99 < certificate.check() <= certificate.epsilon == 5.0
    assert [event.name for event in certificate.events] == [
        "magnitudes",
        "cells",
        "levels",
    ]
    assert certificate.public["kinds"] == {**KINDS, "member": "boolean (given)"}
    assert certificate.public["label"] == "member"


def test_missing_values_are_allowed_unless_the_contrary_is_public(tmp_path):
    (tmp_path / "public.toml").write_text(
        '[columns.age]\nkind = "integer"\nmissing = false\n'
    )
    table = people().select(["age", "job"])
    schema = discover_schema(
        table,
        epsilon=5.0,
        kinds={"job": "categorical"},
        columns=tmp_path / "public.toml",
    ).schema
    assert [column.missing for column in schema.columns] == [False, True]


@pytest.mark.parametrize("label", ["age", "member", "work"])
def test_a_label_is_never_missing_unless_that_is_stated(tmp_path, label):
    table = (
        people()
        .append_column("work", pa.array(["nurse"] * ROWS))
        .select(["age", "member", "work"])
    )
    kinds = {"age": "integer", "member": "boolean", "*": "categorical"}
    discovery = discover_schema(table, epsilon=5.0, kinds=kinds, label=label)
    assert [
        column.name for column in discovery.schema.columns if not column.missing
    ] == [label]
    assert discovery.toml.count("records lack a value") == (
        2 if label == "member" else 1
    )
    kind = kinds.pop(label, "categorical")
    for stated, missing in (("", False), ("missing = true\n", True)):
        (tmp_path / "public.toml").write_text(
            f'label = "{label}"\n[columns.{label}]\nkind = "{kind}"\n{stated}'
        )
        gate = SchemaGate(
            table, epsilon=5.0, kinds=kinds, columns=tmp_path / "public.toml"
        )
        assert gate.discover().schema.label_column.missing is missing


@pytest.mark.parametrize("label", ["rate", "job"])
def test_a_record_without_its_label_is_refused_before_anything_is_spent(
    tmp_path, label
):
    ledger = ledger_of(tmp_path, epsilon=5)
    cure = f"record 4, column '{label}': the value is missing.*missing = true for it"
    with pytest.raises(DataError, match=cure):
        discover_schema(
            people(9),
            epsilon=1.0,
            kinds=KINDS,
            label=label,
            records=10**6,
            ledger=ledger,
            dataset="clinic",
        )
    assert ledger.show("clinic")[0].spent == 0


def test_given_facts_are_kept_and_cost_nothing(tmp_path):
    (tmp_path / "public.toml").write_text(
        '[columns.age]\nkind = "integer"\nlower = 0\nupper = 130\n'
    )
    gate = SchemaGate(
        people().select(["age", "job"]),
        epsilon=5.0,
        kinds={"job": "categorical"},
        columns=tmp_path / "public.toml",
    )
    assert [event.name for event in gate.plan.events] == ["levels"]
    assert gate.discover().schema.column("age") == integer("age", 0, 130, missing=True)


def test_where_nothing_stands_out_the_file_says_so():
    # Text only: the bounds of a column of numbers appear out of nothing with probability 1/1000.
    names = ("job", "id", "member")
    discovery = discover_schema(
        people(20).select(names),
        epsilon=0.2,
        kinds={name: KINDS[name] for name in names},
    )
    assert discovery.schema.names == ("member",)
    assert discovery.schema.ignore == ("job", "id")
    nothing = discover_schema(
        people(20).select(["id"]), epsilon=0.2, kinds={"id": "categorical"}
    )
    with pytest.raises(SchemaError, match="no columns"):
        _ = nothing.schema


def test_data_that_changes_between_two_passes_is_refused_and_stays_spent(
    ledger, tmp_path, monkeypatch
):
    path = tmp_path / "t.csv"
    path.write_text("age\n" + "40\n" * 500)

    def then_written_to(*arguments):
        counted = read_counts(*arguments)
        path.write_text(path.read_text() + "41\n")
        return counted

    monkeypatch.setattr(discovery, "read_counts", then_written_to)
    with pytest.raises(DataError, match="changed between two passes"):
        discover(ledger, path, kinds={"age": "integer"})
    assert ledger.show("clinic")[0].reserved == 1


def test_values_beyond_all_that_is_counted_and_levels_that_became_other_are_told():
    months = [f"{i % 10 // 2 if i % 2 else 10 + i % 60}" for i in range(3000)]
    table = pa.table({"id": [9.5e15 + i for i in range(3000)], "month": months})
    table = table.set_column(0, "id", table["id"].cast(pa.int64()))
    kinds = {"id": "integer", "month": "categorical"}
    discovery = discover_schema(table, epsilon=0.3, kinds=kinds, records=30_000)
    assert re.search(
        r"about \d+ of about \d{4} records lie within these bounds",
        discovery.doubts["id"],
    )
    assert re.search(
        r"became .other., which some \d\d+% of the records have",
        discovery.doubts["month"],
    )
    assert discovery.notes.keys() == set(kinds)
    sure = discover_schema(
        table,
        epsilon=20.0,
        kinds={"id": "ignore", "month": "categorical"},
        records=3000,
    )
    assert not sure.doubts


@pytest.mark.parametrize("kind", ["integer", "categorical"])
def test_a_name_that_no_schema_could_have_is_refused_before_anything_is_spent(
    ledger, kind
):
    table = pa.table({"line\nbreak": ["1"] * 200})
    with pytest.raises(
        SchemaError, match=r"'line\\nbreak' holds the invisible character U\+000A"
    ):
        discover(ledger, table, kinds={"line\nbreak": kind})
    account = ledger.show("clinic")[0]
    assert account.committed == 0
    assert account.reserved == 0
    assert account.voided == 0


def test_odd_levels_survive():
    odd = ["[columns.x]", "# note", 'a"b', "é", "other", "(other)", "1"]
    # A schema refuses them, and the file, which is paid for, could not be read: they fall under the other level.
    unseen = ["line\nbreak", "nul\u0000", "\u2028[columns.x]", "a\x0bz", "a\x85z"]
    discovery = discover_schema(
        pa.table({"x": (odd + unseen) * 200}), epsilon=10.0, kinds={"x": "categorical"}
    )
    assert discovery.schema.column("x").levels == (*sorted(odd), "((other))")


def test_a_missing_value_is_no_level(tmp_path):
    (tmp_path / "public.toml").write_text(
        'missing_values = ["7", "other"]\n[columns.x]\nkind = "categorical"\n'
    )
    table = pa.table({"x": pa.array([7, 8] * 300)})
    discovery = discover_schema(table, epsilon=10.0, columns=tmp_path / "public.toml")
    assert discovery.schema.column("x").levels == (
        "8",
        "(other)",
    )
    assert discovery.schema.missing_values == ("7", "other")


def discover(ledger, table, *, epsilon=0.5, kinds=KINDS, **options):
    return discover_schema(
        table, epsilon=epsilon, kinds=kinds, ledger=ledger, dataset="clinic", **options
    )


def test_the_reservation_stands_before_the_first_record_is_read(ledger, monkeypatch):
    seen = []
    monkeypatch.setattr(
        discovery,
        "read_counts",
        lambda *_: seen.append(ledger.show("clinic")[0].reserved) or 1 / 0,
    )
    with pytest.raises(ZeroDivisionError):
        discover(ledger, people(100))
    assert seen == [1]
    assert ledger.show("clinic")[0].voided == 1
    assert ledger.show("clinic")[0].spent == 0


def test_after_noise_was_drawn_the_cost_stays(ledger, monkeypatch):
    monkeypatch.setattr(
        "noisegate.gate.discovery.findings.schema_text", lambda *_: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        discover(ledger, people(100))
    account = ledger.show("clinic")[0]
    assert account.reserved == 1
    assert account.spent > 0.49


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (
            pa.table({"age": ["x"]}),
            {"kinds": {"age": "integer"}},
            DataError,
            "expected a whole number",
        ),
        (
            pa.table({"age": pa.array([], pa.int64())}),
            {"kinds": {"age": "integer"}},
            DataError,
            "no records",
        ),
        (pa.table({}), {"kinds": {}}, OptionError, "nothing to discover"),
        (
            people(9),
            {"kinds": {"age": "integer"}},
            OptionError,
            "no kind is given for 'rate', ",
        ),
        (
            people(9),
            {"kinds": {**KINDS, "age": "number"}},
            OptionError,
            "kind 'number' is not known",
        ),
        (
            people(9),
            {"label": "secret"},
            SchemaError,
            "label 'secret' is not one of the described",
        ),
        (people(9), {"epsilon": 0.001}, OptionError, "epsilon=0.001"),
        (people(9), {"delta": 1.0}, OptionError, "delta=1.0"),
        (people(9), {"adjacency": "replace-one"}, OptionError, "give records=N"),
        (people(9), {"records": 0}, OptionError, "records=0 must be"),
        (people(9), {"unit": "patient"}, OptionError, "unit='patient' differs"),
        (["a list"], {}, DataError, "found list"),
    ],
)
def test_a_request_that_cannot_be_met_spends_nothing(
    ledger, table, options, error, message
):
    with pytest.raises(error, match=message):
        discover(ledger, table, **options)
    assert ledger.show("clinic")[0].spent == 0
    assert ledger.show("clinic")[0].reserved == 0


def test_replace_one_checks_the_number_of_records(tmp_path):
    table = people(300).select(["age", "job"])
    kinds = {"age": "integer", "job": "categorical"}
    book = ledger_of(tmp_path, "survey", epsilon=50.0, adjacency="replace-one")
    options = {
        "kinds": kinds,
        "adjacency": "replace-one",
        "ledger": book,
        "dataset": "survey",
        "epsilon": 20.0,
    }
    with pytest.raises(DataError, match="records=299"):
        discover_schema(table, records=299, **options)
    assert book.show("survey")[0].spent == 0
    assert discover_schema(table, records=300, **options).schema.names == ("age", "job")


@pytest.mark.parametrize("records", [None, 400, 11_500])
def test_a_plan_that_could_show_little_is_refused_before_a_record_is_read(
    ledger, monkeypatch, records
):
    """With the noise of ε = 0.01, some 1,930 integers of one magnitude are seen; that should be one in six."""
    monkeypatch.setattr(discovery, "read_counts", None)
    request = {
        "kinds": {"age": "integer", "job": "categorical"},
        "epsilon": 0.01,
        "records": records,
    }
    table = people(400).select(["age", "job"])
    with pytest.raises(
        OptionError, match=r"some 1,9\d\d records .*Nothing was spent.*larger epsilon"
    ) as refused:
        discover(ledger, table, **request)
    assert ("records=" + str(records) if records else "1,000 are assumed") in str(
        refused.value
    )
    assert len(ledger.history("clinic")) == 1
    with pytest.raises(TypeError, match="not callable"):
        discover(ledger, table, **{**request, "records": 11_700})
