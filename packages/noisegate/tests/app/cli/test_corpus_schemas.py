"""Schema files that cannot be, made by the rule from a good one: refused where they are read, with nothing spent."""

import random
import tomllib

import pytest

from .conftest import SCHEMA, argv, refused

# Keys and values as they stand in TOML.
GOOD = {
    "label": '"answer"',
    "columns.age.kind": '"integer"',
    "columns.age.lower": "18",
    "columns.age.upper": "90",
    "columns.income.kind": '"continuous"',
    "columns.income.lower": "0.0",
    "columns.income.upper": "100.0",
    "columns.income.missing": "true",
    "columns.born.kind": '"date"',
    "columns.born.lower": '"2000-01-01"',
    "columns.born.upper": '"2020-12-31"',
    "columns.seen.kind": '"datetime"',
    "columns.seen.lower": '"2000-01-01T00:00:00"',
    "columns.seen.upper": '"2020-12-31T00:00:00"',
    "columns.school.kind": '"ordinal"',
    "columns.school.levels": '["low", "high"]',
    "columns.job.kind": '"categorical"',
    "columns.job.levels": '["nurse", "teacher"]',
    "columns.job.other": '"nurse"',
    "columns.member.kind": '"boolean"',
    "columns.answer.kind": '"categorical"',
    "columns.answer.levels": '["no", "yes"]',
}
NUMBERS = [
    "nan",
    "inf",
    "-inf",
    '"many"',
    "true",
    "[1]",
    "{ a = 1 }",
    "1979-05-27",
    "1e999",
    "9" * 40,
]
WRONG = {
    "columns.age.lower": [*NUMBERS, *argv("1.5 90 91 -9223372036854775808")],
    "columns.born.lower": ['"2020-13-45"', "3", "2020-12-31", "[2000-01-01]"],
    "columns.seen.upper": ["2000-01-01", "2020-12-31T00:00:00Z", '"2500-01-01T00:00:00"'],
    "columns.school.levels": ["[]", '"low"', '["a", "a"]', '["a", 1]', '[["a"]]', '["?"]', '["a\\u202eb", "c"]'],
    "columns.age.kind": ['"intger"', "3", '""'],
    "columns.age.colour": ['"red"'],
    "columns.age.kind\ncolumns.age.kind": ['"integer"'],
    'columns."a\\u0000b".kind': ['"boolean"'],
    "label": ['"answr"', "3"],
    "missing_values": ['"?"', '["no"]'],
    "ignore": ['"age"', '["age"]'],
    "images": ["{ height = 2, width = 2 }", "3"],
    "constraints": ['"age < age"', '[{ rule = "age < born" }]', "[{ impossible = {} }]", "[{ never = { age = 3 } }]",
                    '[{ impossible = { age = [1, 2, 3] } }]', '[{ impossible = { age = "18..90" } }]',
                    '[{ rule = "age < income" }, { rule = "income < age" }]'],
}  # fmt: skip
OTHERS = {
    "nothing": "",
    "blanks": " \n\t\n",
    "only a comment": "# a schema",
    "JSON": '{"columns": {}}',
    "a table of data": "age,income\n30,5\n",
    "deep": "a = " + "[" * 5000,
    "no columns": "[columns]\n",
    "columns as a list": "columns = []\n",
    "an empty name": '[columns.""]\nkind = "boolean"\n',
    "a column as a number": "[columns]\nage = 3\n",
}


def written(form):
    return "".join(f"{key} = {value}\n" for key, value in form.items())


def cases():
    """Yields a name and the text of each schema that cannot be."""
    for key, values in WRONG.items():
        for value in values:
            yield f"{key} = {value[:30]}", written(GOOD | {key: value})
    for key in ("columns.age.kind", "columns.age.lower", "columns.school.levels"):
        yield (
            f"without {key}",
            written({name: value for name, value in GOOD.items() if name != key}),
        )
    yield from OTHERS.items()
    draw = random.Random(0)
    text = written(GOOD)
    case_count = 0
    while case_count < 40:  # cut off, or with signs out of place
        start = draw.randrange(len(text))
        spoiled = draw.choice(
            [
                text[:start],
                text[:start] + draw.choice('"[]=\x00{') + text[start:],
                text[start:],
            ]
        )
        try:
            tomllib.loads(spoiled)
        except tomllib.TOMLDecodeError:
            case_count += 1
            yield f"spoiled at {start} ({case_count})", spoiled


CASES = dict(cases())


def test_the_schema_that_they_are_made_of_is_good(desk, cli):
    desk.schema.write_text(written(GOOD))
    assert cli(f"schema check {desk.schema}").code == 0


@pytest.mark.parametrize("case", CASES)
def test_a_schema_that_cannot_be(bench, cli, case):
    bench.schema.write_text(CASES[case], encoding="utf-8", newline="")
    refused(bench, cli, str(bench.schema), arguments=["schema", "check", bench.schema])
    if case.startswith(("constraints", "columns.age")):
        refused(bench, cli, str(bench.schema), arguments=bench.fit())
    bench.as_before()


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe" + SCHEMA.encode(), bytes(range(256)) * 40, SCHEMA.encode("utf-16")],
)
def test_a_schema_file_that_is_no_text(bench, cli, content):
    bench.schema.write_bytes(content)
    refused(bench, cli, "schema.toml", arguments=["schema", "check", bench.schema])
    bench.as_before()
