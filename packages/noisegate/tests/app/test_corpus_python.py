"""Arguments that cannot be, of the public functions: an error of noisegate that names them, in Python's words."""

import pandas as pd
import pytest

import noisegate as ng
from noisegate import NoisegateError, Schema
from noisegate.models.output.native_table import native_form
from noisegate.schema import (
    Boolean,
    Categorical,
    Comparison,
    Continuous,
    Date,
    Impossible,
    Integer,
    pixel_schema,
)

SCHEMA = Schema(
    (Integer(name="age", lower=0, upper=9), Boolean(name="yes")), label="yes"
)
FRAME = pd.DataFrame({"age": [1, 2, 3] * 10, "yes": [True, False, True] * 10})


@pytest.fixture(scope="module")
def model():
    return ng.synthesize(
        FRAME,
        schema=SCHEMA,
        epsilon=1.0,
        cells=4,
        fit_options={"components": 4, "steps": 5},
    )


def synthesize(**changes):
    return ng.synthesize(
        **({"data": FRAME, "schema": SCHEMA, "epsilon": 1.0} | changes)
    )


def with_constraints(*constraints):
    rate = Continuous(name="rate", lower=0, upper=1, missing=True)
    return Schema((*SCHEMA.columns, rate), constraints=constraints)


def gate(**changes):
    return ng.Gate(**({"data": FRAME, "schema": SCHEMA, "epsilon": 1.0} | changes))


ODD = {
    "None": None,
    "a number": 3,
    "a list": [1],
    "a dictionary": {"a": 1},
    "bytes": b"x",
    "a type": int,
}
MORE = {"True": True, "text": "1"}

# By argument: what is called with each of the odd values (a value of the same name takes the place of one that would
# be right here; "-" leaves it out), and what the message says.
ARGUMENTS = {
    "loads": (lambda model, value: Schema.loads(value), {}, "text="),
    "from_toml": (lambda model, value: Schema.from_toml(value), {}, "path="),
    "from_json": (lambda model, value: Schema.from_json(value), {}, ""),
    "to_toml": (lambda model, value: SCHEMA.to_toml(value), {}, "path="),
    "load": (
        lambda model, value: ng.Synthesizer.load(value),
        {"blank": " "},
        "folder=",
    ),
    "save": (lambda model, value: model.save(value), {"blank": ""}, "folder="),
    "convert": (lambda model, value: model.convert(value), {"text": "x"}, "PyArrow"),
    "fit": (
        lambda model, value: ng.Pairwise().fit(value),
        {"a table": FRAME},
        "noisegate.Gate(",
    ),
    "fit psg": (
        lambda model, value: ng.PrivateSetGeneration().fit(value),
        {"a table": FRAME},
        "noisegate.Gate(",
    ),
    "native_form": (
        lambda model, value: native_form(value, SCHEMA),
        {"text": "x"},
        "expected",
    ),
    "data": (lambda model, value: synthesize(data=value), {}, ""),
    "schema": (lambda model, value: synthesize(schema=value), {}, "schema="),
    "adjacency": (
        lambda model, value: synthesize(adjacency=value),
        {"text": "swap"},
        "adjacency",
    ),
    "device": (
        lambda model, value: synthesize(device=value),
        {"text": "gpu"},
        "device=",
    ),
    "epsilon": (
        lambda model, value: synthesize(epsilon=value),
        MORE | {"a number": -1},
        "epsilon=",
    ),
    "delta": (lambda model, value: synthesize(delta=value), MORE, "delta="),
    "method": (
        lambda model, value: synthesize(method=value),
        {"text": "pairwice"},
        "method=",
    ),
    "ledger": (
        lambda model, value: synthesize(ledger=value, dataset="x"),
        {},
        "ledger=",
    ),
    "dataset": (
        lambda model, value: synthesize(ledger=3, dataset=value),
        {},
        "ledger=3",
    ),
    "records": (
        lambda model, value: gate(records=value),
        MORE | {"None": 0, "a number": 1.5},
        "records=",
    ),
    "n": (
        lambda model, value: model.sample(value),
        MORE
        | {"a number": 10**30, "a fraction": 1.5, "negative": -1, "memory": 10**15},
        "n=",
    ),
    "images": (lambda model, value: model.images(value), {}, ""),
    "where": (
        lambda model, value: model.sample(3, where=value),
        {
            "None": "age",
            "a dictionary": {"who": 1},
            "a level": {"yes": "maybe"},
            "bounds": {"age": (3, 1)},
        },
        "where",
    ),
    "columns": (lambda model, value: Schema(value), {}, ""),
    "ignore": (lambda model, value: Schema(SCHEMA.columns, ignore=value), {}, "ignore"),
    "constraints": (
        lambda model, value: Schema(SCHEMA.columns, constraints=value),
        {},
        "constraints",
    ),
    "lower": (
        lambda model, value: Integer(name="a", lower=value, upper=9),
        {"a number": 9.5},
        "lower",
    ),
    "levels": (
        lambda model, value: Categorical(name="a", levels=value),
        {"a list": []},
        "level",
    ),
    "name": (lambda model, value: Boolean(name=value), {"empty": ""}, "name"),
    "day": (
        lambda model, value: Date(name="a", lower=value, upper="2020-01-01"),
        MORE,
        "lower",
    ),
    "impossible": (
        lambda model, value: Impossible(values=value),
        {"a dictionary": {}},
        "impossible",
    ),
    "height": (
        lambda model, value: pixel_schema(value, 8, labels=(0, 1)),
        MORE | {"a number": 0},
        "height",
    ),
}

CALLS = {
    f"{name}({shown})": (
        lambda model, call=call, value=value: call(model, value),
        message,
    )
    for name, (call, changes, message) in ARGUMENTS.items()
    for shown, value in (ODD | changes).items()
} | {
    "a discovery's ledger": (
        lambda model: ng.discover_schema(
            FRAME,
            epsilon=1.0,
            kinds={"age": "integer", "yes": "boolean"},
            ledger=3,
            dataset="x",
        ),
        "ledger=3",
    ),
    "a setting unknown": (lambda model: synthesize(cels=3), "cels"),
    "a comparison of nothing": (
        lambda model: with_constraints(Comparison(left=3, relation="<", right="age")),
        "3",
    ),
    "a relation unknown": (
        lambda model: with_constraints(
            Comparison(left="rate", relation="=", right="age")
        ),
        "relation",
    ),
    "constraints that clash": (
        lambda model: synthesize(
            schema=with_constraints(
                Impossible(values={"yes": True}), Impossible(values={"yes": False})
            )
        ),
        "no record keeps",
    ),
    "a name that is not what it looks like": (
        lambda model: synthesize(schema=Schema((Boolean(name="a\u202eb"),))),
        "U+202E",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_cannot_be(model, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, says = CALLS[case]
    with pytest.raises(NoisegateError) as refused:
        call(model)
    assert says in str(refused.value)
    assert " --" not in str(refused.value).partition("(")[0]
    assert not list(tmp_path.iterdir())
