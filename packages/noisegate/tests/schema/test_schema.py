import json
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisegate.errors import SchemaError
from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Integer,
    Ordinal,
    Schema,
)
from noisegate.schema.checks import TEXT_PADDING

EXAMPLE = """
label = "income"
missing_values = ["?", ""]
ignore = ["row"]

[columns.age]
kind = "integer"
lower = 17
upper = 90

[columns.born]
kind = "date"
lower = 1900-01-01
upper = 2020-12-31

[columns.workclass]
kind = "categorical"
levels = ["Private", "other"]
other = "other"
missing = true

[columns.income]
kind = "boolean"
"""

texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=8
).filter(lambda t: t == t.strip(TEXT_PADDING))
names = texts.filter(bool)
flags = st.booleans()
levels = st.lists(
    texts.filter(lambda t: t not in ("", "?")), min_size=1, max_size=40, unique=True
) | st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=5, unique=True)


def pairs(values):
    return st.lists(values, min_size=2, max_size=2, unique=True).map(sorted)


def bounded(kind, values):
    return st.builds(
        lambda name, ends, missing: kind(
            name=name, lower=ends[0], upper=ends[1], missing=missing
        ),
        names,
        pairs(values),
        flags,
    )


moments = st.datetimes(datetime(1850, 1, 1), datetime(2100, 1, 1))
columns = st.one_of(
    bounded(Continuous, st.floats(-1e300, 1e300)),
    bounded(Integer, st.integers(-(2**52), 2**52)),
    bounded(Date, st.dates()),
    bounded(Datetime, moments),
    bounded(Datetime, moments.map(lambda moment: moment.replace(tzinfo=UTC))),
    st.builds(
        lambda name, found, missing: Ordinal(name=name, levels=found, missing=missing),
        names,
        levels,
        flags,
    ),
    st.builds(
        lambda name, found, missing: Categorical(
            name=name, levels=found, other=found[0], missing=missing
        ),
        names,
        levels,
        flags,
    ),
    st.builds(lambda name, missing: Boolean(name=name, missing=missing), names, flags),
)
schemas = st.builds(
    lambda found, labelled: Schema(
        found, label=found[-1].name if labelled else None, missing_values=("", "?")
    ),
    st.lists(columns, min_size=1, max_size=6, unique_by=lambda column: column.name),
    flags,
)


@given(schemas)
def test_toml_and_json_give_the_same_schema_back(schema):
    assert Schema.loads(schema.dumps()) == schema
    reread = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert reread == schema
    assert reread.digest() == schema.digest()


UNSEEN = {
    "nul": "a\x00b",
    "line": "a\nb",
    "tab": "a\tb",
    "leftward": "a\u202eb",
    "mark": "\u200fa",
    "bom": "\ufeffa",
}


@pytest.mark.parametrize("case", UNSEEN)
def test_names_and_levels_show_as_they_read(case):
    odd = UNSEEN[case]
    named = Schema((Integer(name=odd, lower=0, upper=1),))
    levelled = Schema((Categorical(name="job", levels=("plain", odd)),))
    for schema, message in (
        (named, "the name of a column"),
        (levelled, "column 'job': the level"),
    ):
        with pytest.raises(
            SchemaError, match=f"^the schema text: {message}.*the invisible character"
        ) as refused:
            Schema.loads(schema.dumps())
        assert odd not in str(refused.value)
        assert (
            Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
        )  # an old model keeps its schema
    # A column that is never read may be called anything, and letters may be joined.
    assert Schema.loads(Schema((Boolean(name="b"),), ignore=(odd,)).dumps()).ignore == (
        odd,
    )
    assert Schema.loads(Schema((Boolean(name="می\u200cخواهم 👩\u200d🔬"),)).dumps())


def test_example_reads_as_written(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(
        "\ufeff" + EXAMPLE.replace("\n", "\r\n"), encoding="utf-8", newline=""
    )
    schema = Schema.from_toml(path)
    assert schema.names == ("age", "born", "workclass", "income")
    assert schema.column("age") == Integer(name="age", lower=17, upper=90)
    assert schema.column("born") == Date(
        name="born", lower=date(1900, 1, 1), upper=date(2020, 12, 31)
    )
    assert schema.label == "income"
    assert schema.missing_values == ("?", "")
    assert schema.ignore == ("row",)
    schema.to_toml(path)
    assert Schema.from_toml(path) == schema


def test_digest_changes_with_everything_that_is_said():
    digests = {
        Schema.loads(text).digest()
        for text in (
            EXAMPLE,
            EXAMPLE.replace("90", "91"),
            EXAMPLE.replace("missing = true", "missing = false"),
            EXAMPLE.replace('["?", ""]', '["?"]'),
            EXAMPLE.replace('label = "income"', ""),
            EXAMPLE.replace('["row"]', "[]"),
        )
    }
    assert len(digests) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label = \n", "not valid TOML.*line 1"),
        ("[columns.a]\nkind = 'boolean'\n[columns.a]\n", "not valid TOML.*line 3"),
        ("", "no columns"),
        ("columns = 3", "no columns"),
        ("colums = 3", "unknown key 'colums'.*did you mean columns"),
        (
            "[columns.a]\nkind = 'bool'",
            "column 'a': unknown kind 'bool'.*did you mean boolean",
        ),
        ("[columns.a]\nlower = 3", "column 'a': kind is missing"),
        ("[columns]\na = 'boolean'", "column 'a': expected a table"),
        (
            "[columns.a]\nkind = 'integer'\nlower = 3",
            r"column 'a' \(integer\): upper missing",
        ),
        (
            "[columns.a]\nkind = 'boolean'\nlevels = [1]",
            r"'a' \(boolean\): unknown key 'levels'.*kind, missing",
        ),
        (
            "label = 'b'\n[columns.a]\nkind = 'boolean'",
            "label 'b' is not one of the columns: a",
        ),
        (
            "ignore = ['a']\n[columns.a]\nkind = 'boolean'",
            "column 'a' is both described and in `ignore`",
        ),
        (
            "missing_values = 'NA'\n[columns.a]\nkind = 'boolean'",
            "missing_values must be a list",
        ),
        (
            "[columns.a]\nkind = 'ordinal'\nlevels = ['x', '?']",
            "column 'a': level '\\?' is also one of missing_values",
        ),
        (
            "missing_values = [' -9']\n[columns.a]\nkind = 'ordinal'\nlevels = [-9]",
            "level -9 is also one of",
        ),
    ],
)
def test_a_wrong_text_is_refused(text, message):
    with pytest.raises(SchemaError, match=f"^the schema text.*{message}"):
        Schema.loads(text)
