"""What verbs print with --json keeps to the schemas that are shipped, and these refuse anything else.

`conftest.Ended` holds every output that a test of the command line reads to its schema; here is what that leaves open.
"""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from noisegate.app.cli.main import program

from .conftest import OUTPUTS, argv, keeps

SCHEMAS = OUTPUTS["$defs"]
ROOT = Path(__file__).parents[5]
CLASSIFIER = ROOT / "tests" / "golden" / "models" / "llm"
ELSEWHERE = {"audit", "demo", "evaluate", "fit", "merge", "predict", "release", "pretrain encoder", "pretrain decoder",
             "pretrain import"}  # fmt: skip
"""Slow verbs, which the tests of each read with --json anyway."""


def parts_of(schema):
    """Yields every part of a schema that is a schema of an object."""
    if isinstance(schema, list | dict):
        if isinstance(schema, dict) and "properties" in schema:
            yield schema
        for part in schema.values() if isinstance(schema, dict) else schema:
            yield from parts_of(part)


def verbs_with_json(group, before=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from verbs_with_json(command, f"{before}{name} ")
        elif any("--json" in option.opts for option in command.params):
            yield before + name


def test_every_verb_with_json_has_a_schema_and_a_row_in_the_page():
    assert {"error", *verbs_with_json(program())} == set(SCHEMAS)
    page = (
        (ROOT / "packages" / "noisegate" / "README.md")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    for verb, schema in SCHEMAS.items():
        keys = [
            f"`{key}`{'' if key in schema['required'] else '?'}"
            for key in schema["properties"]
        ]
        assert f"| `{verb}` | {schema['description']} | {', '.join(keys)} |" in page


def test_schemas_are_schemas_and_refuse_what_they_do_not_name():
    for part in (*SCHEMAS.values(), *OUTPUTS["parts"].values()):
        Draft202012Validator.check_schema(part)
    objects = list(parts_of(OUTPUTS))
    assert len(objects) > len(SCHEMAS)
    for schema in objects:
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])


@pytest.mark.parametrize("verb", sorted({*SCHEMAS} - ELSEWHERE))
def test_an_output_is_of_its_schema(desk, fitted, cli, verb):
    book = ["--ledger", fitted.ledger]
    kinds = "age=integer,income=continuous,job=categorical,answer=boolean"
    arguments = {
        "error": ["verify", "nowhere"],
        "plan": argv(f"plan --schema {desk.schema} --epsilon 1 --records 200"),
        "methods": ["methods"],
        "example": ["example"],
        "split": ["split", desk.data],
        "sign": argv(f"sign {fitted.out} --key owner.key"),
        "export": argv(f"export {fitted.out} --nist sheet.md"),
        "sample": argv(f"sample {fitted.out} -n 5 --package handout"),
        "infer": ["infer", "asked", "mean(age)"],
        "report": argv(f"report {fitted.out} -o pages"),
        "explain": ["explain", CLASSIFIER],
        "verify": ["verify", fitted.out],
        "key": argv("key north --out north.key"),
        "schema init": argv(f"schema init {desk.data} -o drafted.toml"),
        "schema discover": argv(
            f"schema discover {desk.data} --epsilon 9 --kinds {kinds} -o found.toml"
        ),
        "schema check": ["schema", "check", desk.schema],
        "ledger register": argv(
            f"ledger register ward --epsilon 3 --ledger {desk.ledger}"
        ),
        "ledger show": ["ledger", "show", *book],
        "ledger history": ["ledger", "history", "clinic", *book],
        "ledger check": ["ledger", "check", *book],
    }
    if verb == "infer":
        cli(
            f"fit {desk.data} --schema {desk.schema} --epsilon 9 --out asked --method pairwise"
        )
    output = cli(*arguments[verb], "--json").json
    assert ("error" in output) == (verb == "error"), output
    validator = keeps(arguments[verb], output)
    with pytest.raises(ValidationError):
        validator.validate({**output, "more": 1})
    with pytest.raises(ValidationError):
        validator.validate(dict(list(output.items())[1:]))
