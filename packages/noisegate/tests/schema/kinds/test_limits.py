"""Limits such as "<0.5" are states of their own: read, written, named, drafted, answered and never an amount."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.shared.columns import continuous, integer

from noisegate import Pairwise, Schema, fit
from noisegate.answers.infer import infer
from noisegate.app.drafts.dictionaries import read_dictionary
from noisegate.app.drafts.draft import draft, draft_schema
from noisegate.errors import DataError, SchemaError
from noisegate.gate.discovery.schema_gate import discover_schema
from noisegate.models.package import _croissant_fields, _table_field
from noisegate.schema import Comparison, Continuous, Date, Decimal, Integer, decode
from noisegate.schema.columns import column_form
from noisegate.schema.encode import encode

LIMITS = ["n.d.", "<0.5", "≥ 40"]
COLUMNS = [
    integer("x", 1, 39, missing=True, limits=LIMITS),
    integer("x", 1, 39, step=2, atoms=[0, 99], missing=True, limits=LIMITS),
    Decimal(name="x", lower=0.5, upper=40, step=0.1, missing=True, limits=LIMITS),
    Decimal(name="x", lower=0, upper=40, step=0.5, format="0,0", missing=True, limits=LIMITS),
    continuous("x", 0, 40, missing=True, limits=LIMITS),
    continuous("x", 0, 40, atoms=[-9, 1e12], missing=True, limits=LIMITS),
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.kind)
def test_each_limit_is_read_and_written_as_it_is_and_no_number_is_one(column):
    schema = Schema([column])
    assert Schema.loads(schema.dumps()) == schema == Schema.from_json(schema.to_json())
    assert column.range_text.endswith("; limits n.d., <0.5, ≥ 40")
    numbers = [*column.limit_numbers.values(), -1e6, 1e6]
    texts = [
        str(number).replace(".", "," if column.format else ".") for number in numbers
    ]
    if column.kind == "integer":
        texts = [text.removesuffix(".0") for text in texts]
    cells = pa.array([*LIMITS, " <0.5 ", "?", "3", *texts])
    records = encode({"x": cells}, schema)
    written = decode(records, schema)["x"].to_pylist()
    assert written[:6] == [*LIMITS, "<0.5", None, "3,0" if column.format else "3"]
    assert not set(written[6:]) & set(LIMITS)
    alone = [
        encode({"x": cells[i : i + 1]}, schema).numeric[0, 0] for i in range(len(cells))
    ]
    assert np.array_equal(alone, records.numeric[:, 0], equal_nan=True)
    if not column.format:
        floats = encode({"x": pa.array(numbers, pa.float64())}, schema)
        assert not set(decode(floats, schema)["x"].to_pylist()) & set(LIMITS)
    named = schema.region({"x": "<0.5"}).contains(records)
    assert np.flatnonzero(named).tolist() == [1, 3]
    assert not schema.region({"x": (1, 39)}).contains(records)[:5].any()
    with pytest.raises(SchemaError, match=r"outside|whole number"):
        schema.region({"x": numbers[1]})
    rule = Comparison(left="x", relation="<", right="y")
    both = Schema([column, integer("y", 0, 2)], constraints=[rule])
    twice = encode({"x": cells, "y": pa.array([0] * len(cells))}, both)
    assert not rule.broken(twice, both.layout, ())[:5].any()


def test_models_rest_on_the_number_of_each_limit():
    texts = ["neg", "<5", "unter 9", "LOD", ">7", "9+", "über 9", "9 or older", "high"]
    fields = {"name": "x", "lower": 5, "upper": 7, "limits": texts}
    positions = [-4, -3, -2, -1, 1, 2, 3, 4, 5]
    numbers = [5 + position if position < 0 else 7 + position for position in positions]
    assert list(Integer(**fields).limit_numbers.values()) == numbers
    widths = [
        5 + 2 * position if position < 0 else 7 + 2 * position for position in positions
    ]
    assert list(Continuous(**fields).limit_numbers.values()) == widths


def test_a_schema_without_limits_has_the_form_that_it_always_had():
    age = integer("age", 0, 99)
    assert column_form(age) == {"kind": "integer", "lower": 0, "upper": 99}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"limits": "<5"}, "must be a list of texts"),
        ({"limits": ["<5", "<5"]}, "listed more than once"),
        ({"limits": ["5"]}, "is a number"),
        ({"limits": [" <5"]}, "blanks around it"),
        ({"limits": [5]}, "must be the text of a cell"),
        ({"limits": [f"<{i}" for i in range(33)]}, "at most 32"),
        (
            {"limits": ["<0"], "lower": 1 - 2**63, "upper": 9 - 2**63},
            "no number beyond",
        ),
    ],
)
def test_what_is_no_limit_is_refused(fields, message):
    with pytest.raises(SchemaError, match=message):
        Integer(name="x", **{"lower": 0, "upper": 9, **fields})
    with pytest.raises(SchemaError, match="is also one of missing_values"):
        Schema([integer("x", 0, 9, limits=["?"])])
    with pytest.raises(TypeError):
        Date(name="x", lower="2000-01-01", upper="2001-01-01", limits=["<5"])


def test_a_limit_that_is_not_listed_is_refused_and_not_quoted():
    schema = Schema([Decimal(name="crp", lower=0, upper=9, step=0.1)])
    with pytest.raises(DataError, match=r'limits = \["<5", "90\+"\] under \[columns.crp\]') as refusal:  # fmt: skip
        fit({"crp": ["1.0", "<0.73"] * 9}, schema=schema, epsilon=1)
    assert "0.73" not in str(refusal.value)


NUMBERS = [f"{5 + i % 90 / 10}" for i in range(300)]


@pytest.mark.parametrize(
    ("texts", "limits", "bounds"),
    [
        (["<5", "> 90", "trace", "n.d."], ["n.d.", "trace", "<5", "> 90"], (5, 14)),
        ([">=13.9", "nd"], ["nd", ">=13.9"], (5, 13.9)),
        (["14+", "<LOD", "≤ 5", "neg."], ["<LOD", "neg.", "≤ 5", "14+"], (5, 13.9)),
        (["unter 5", "über 90"], ["unter 5", "über 90"], (5, 14)),
        (["unknown", "<5", "14 or more"], ["<5", "14 or more"], (5, 14)),
    ],
)
def test_numbers_with_limits_are_drafted(texts, limits, bounds):
    drafted = draft(pd.DataFrame({"x": [*NUMBERS, *texts * 5]}))
    column = drafted.schema.column("x")
    assert column.kind == "decimal"
    assert column.limits == tuple(limits)
    assert (column.lower, column.upper, column.format) == (*bounds, "0.0")
    assert f"all cells are numbers but {limits[0]!r}" in drafted.toml()
    commas = [text.replace(".", ",") for text in NUMBERS]
    comma_column = draft_schema(pd.DataFrame({"x": [*commas, "<5,0"]})).column("x")
    assert comma_column.format == "0,0"
    assert comma_column.limits == ("<5,0",)


@pytest.mark.parametrize(
    "texts",
    [["1", "2", "2+", "3", "3+"], ["neg", "trace", "1+"], [*map(str, range(9)), "A"]],
)
def test_grades_and_words_are_levels(texts):
    assert draft_schema({"x": texts * 20}).column("x").kind == "categorical"


def test_a_code_book_lists_limits_as_values_of_a_number(tmp_path):
    path = tmp_path / "book.csv"
    path.write_text("variable,type,min,max,values\nage,integer,18,89,90+=90 or older\n")
    (entry,) = read_dictionary(path).entries
    assert entry.column == integer("age", 18, 89, missing=True, limits=["90+"])


def test_a_discovery_keeps_the_limits_that_are_stated(tmp_path):
    path = tmp_path / "public.toml"
    path.write_text(
        '[columns.x]\nkind = "continuous"\nmissing = false\nlimits = ["<5"]\n'
    )
    discovery = discover_schema(
        {"x": [*NUMBERS * 9, *["<5"] * 99]}, epsilon=9, columns=path
    )
    assert discovery.schema.column("x").limits == ("<5",)
    assert discovery.certificate.public["limits"] == {"x": ["<5"]}
    with pytest.raises(DataError, match="the value is missing"):
        discover_schema({"x": [*NUMBERS, "<5", None]}, epsilon=9, columns=path)


def test_a_model_draws_and_answers_limits():
    draw = np.random.default_rng(0)
    amounts = draw.lognormal(1, 1, 8000).round(1).clip(0, 40)
    is_low = amounts < 1.5
    table = pa.table(
        {
            "crp": np.where(is_low, "<1.5", amounts.astype(str)),
            "old": np.where(is_low, -9, amounts),
            "sex": draw.choice(["f", "m"], 8000),
        }
    )
    names = {"lower": 1.5, "upper": 40, "step": 0.1}
    schema = Schema.loads('[columns.sex]\nkind = "categorical"\nlevels = ["f", "m"]\n')
    crp = Decimal(name="crp", limits=["<1.5"], **names)
    old = Decimal(name="old", atoms=[-9], **names)
    schema = Schema([crp, old, *schema.columns])
    model = Pairwise(fit_options={"steps": 300}, seed=0).fit(
        table, schema=schema, epsilon=20
    )
    # Neither counts where there is no amount.
    for name in ("crp", "old"):
        (mean,) = infer(model, f"mean({name})")
        assert mean.low < amounts[~is_low].mean() < mean.high
        assert mean.high - mean.low < 1
    assert infer(model, "mean(crp)")[0].notes == (
        "'crp': only measured numbers are used, not <1.5",
    )
    for question in ('share(crp = "<1.5")', "share(crp < 1.5)"):
        assert infer(model, question)[0].value == pytest.approx(is_low.mean(), abs=0.02)
    (below,) = infer(model, "share(crp < 1)")
    assert below.bias == pytest.approx(is_low.mean() / 2, abs=0.02)
    assert infer(model, "quantile(crp, 0.01)")[0].value == 1.5
    assert infer(model, "count(crp = <1.5)")[0].value == pytest.approx(
        is_low.sum(), rel=0.1
    )
    assert infer(model, "crosstab(crp, sex)")[0].name == "crp = <1.5, sex = f"
    assert len(infer(model, "share(crp = <1.5) by sex")) == 3
    sample = model.sample(500, seed=1)
    assert sample["crp"].type == pa.string()
    assert sample["old"].type == pa.float64()
    share = np.mean([cell == "<1.5" for cell in sample["crp"].to_pylist()])
    assert share == pytest.approx(is_low.mean(), abs=0.08)
    low = model.sample(9, seed=1, where={"crp": "<1.5"})
    assert set(low["crp"].to_pylist()) == {"<1.5"}
    assert _table_field(crp, is_csv=True)["type"] == "string"
    assert [field["dataType"] for field in _croissant_fields("x.csv", (crp, old))] == [
        "sc:Text",
        "sc:Float",
    ]
