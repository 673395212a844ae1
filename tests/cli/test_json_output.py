"""What verbs print with --json keeps to the schemas that are shipped, and these refuse anything else."""

import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator, ValidationError

SCHEMAS = json.loads((files("noisegate.cli") / "json_output.json").read_text(encoding="utf-8"))["$defs"]


@pytest.mark.parametrize("verb", SCHEMAS)
def test_an_output_is_of_its_schema(desk, fitted, cli, verb):
    Draft202012Validator.check_schema(SCHEMAS[verb])
    book = ["--ledger", fitted.ledger]
    arguments = {
        "error": ["verify", "nowhere"],
        "sample": ["sample", fitted.out, "-n", 5, "--package", "handout"],
        "verify": ["verify", fitted.out],
        "schema check": ["schema", "check", desk.schema],
        "ledger register": ["ledger", "register", "ward", "--epsilon", 3, "--ledger", desk.ledger],
        "ledger show": ["ledger", "show", *book],
        "ledger history": ["ledger", "history", "clinic", *book],
        "ledger check": ["ledger", "check", *book],
    }
    told = cli(*arguments[verb], "--json").json
    validator = Draft202012Validator(SCHEMAS[verb])
    validator.validate(told)
    with pytest.raises(ValidationError):
        validator.validate({**told, "more": 1})
    with pytest.raises(ValidationError):
        validator.validate(dict(list(told.items())[1:]))
