"""Schema files that cannot be, made by the rule from a good one: refused where they are read, with nothing spent."""

import random
import tomllib

import pytest

from .conftest import SCHEMA, refused

GOOD = {
    "label": "answer",
    "columns": {
        "age": {"kind": "integer", "lower": 18, "upper": 90},
        "income": {"kind": "continuous", "lower": 0.0, "upper": 100.0, "missing": True},
        "born": {"kind": "date", "lower": "2000-01-01", "upper": "2020-12-31"},
        "seen": {"kind": "datetime", "lower": "2000-01-01T00:00:00", "upper": "2020-12-31T00:00:00"},
        "school": {"kind": "ordinal", "levels": ["low", "high"]},
        "job": {"kind": "categorical", "levels": ["nurse", "teacher"], "other": "nurse"},
        "member": {"kind": "boolean"},
        "answer": {"kind": "categorical", "levels": ["no", "yes"]},
    },
}
# As they stand in TOML.
NUMBERS = ["nan", "inf", "-inf", '"many"', "true", "[1]", "{ a = 1 }", "1979-05-27", "1e999", "9" * 40]
WRONG = {
    ("age", "lower"): [*NUMBERS, "1.5", "90", "91", "-9223372036854775808"],
    ("income", "upper"): [*NUMBERS[:-1], "0", "-1e308", "1" + "0" * 400],
    ("born", "lower"): ['"2020-13-45"', '"yesterday"', "3", "2000-01-01T00:00:00", "2020-12-31", '""', "[2000-01-01]"],
    ("seen", "upper"): ['"2020-01-01"', "2000-01-01", "3.5", "2020-12-31T00:00:00Z", '"2500-01-01T00:00:00"',
                        "9999-12-31T23:59:59"],
    ("school", "levels"): ["[]", '"low"', "3", '["a", "a"]', '["a", 1]', "[true]", "[1.5]", '[" a"]', '[["a"]]',
                           '["?"]',
                           '[""]'],
    ("job", "other"): ['"baker"', "3", '["nurse"]', "true"],
    ("income", "missing"): ['"yes"', "1", "[]"],
    ("age", "kind"): ['"intger"', "3", "[]", '""', '"Integer"', "true"],
    (None, "label"): ['"answr"', "3", "[]", "true", '""'],
    (None, "missing_values"): ['"?"', "[1]", "3", '["no"]'],
    (None, "ignore"): ['"age"', '["age"]', "[1]", "7"],
    (None, "images"): ["{ height = 2, width = 2 }", "3", "{}"],
    (None, "constraints"): ['"age < age"', "[3]", '[{ rule = "age < age" }]', '[{ rule = "age < born" }]',
                            '[{ rule = "age" }]', '[{ rule = "job < age" }]', "[{ impossible = {} }]",
                            '[{ impossible = { job = "baker" } }]',
                            '[{ impossible = { age = "90..18" } }]', '[{ impossible = { age = "x..y" } }]',
                            '[{ never = { age = 3 } }]',
                            '[{ impossible = { age = [1, 2, 3] } }]', '[{ impossible = { member = "maybe" } }]'],
}  # fmt: skip
UNSEEN = {"NUL": "\\u0000", "line": "\\n", "tab": "\\t", "delete": "\\u007f", "override": "\\u202e", "mark": "\\u200f",
          "isolate": "\\u2066", "separator": "\\u2028", "BOM": "\\ufeff", "next line": "\\u0085"}  # fmt: skip
CLASHES = {
    "the same order both ways": '[[constraints]]\nrule = "age < n"\n[[constraints]]\nrule = "n < age"\n',
    "all levels": "".join(f'[[constraints]]\nimpossible = {{ job = "{job}" }}\n' for job in ("nurse", "teacher")),
    "all numbers": '[[constraints]]\nimpossible = { age = "18..90" }\n',
    "a truth value and its contrary": "".join(
        f"[[constraints]]\nimpossible = {{ member = {value} }}\n" for value in ("true", "false")
    ),
    "a rule and the rest": '[[constraints]]\nrule = "age < n"\n[[constraints]]\nimpossible = { n = "50.." }\n'
    '[[constraints]]\nimpossible = { age = "..48" }\n',
}


def written(form):
    """The schema as TOML; values of columns are TOML already where they were put in by a case."""
    lines = [f"{key} = {_value(value)}" for key, value in form.items() if key != "columns"]
    for name, column in form["columns"].items():
        lines += [f"[columns.{name}]", *(f"{key} = {_value(value)}" for key, value in column.items())]
    return "\n".join(lines) + "\n"


class Raw(str):
    """Text that is TOML as it stands."""


def _value(value):
    if isinstance(value, Raw):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def changed(column, key, value):
    """The good schema with one value put in, or with None taken out."""
    form = {**GOOD, "columns": {name: dict(held) for name, held in GOOD["columns"].items()}}
    place = form if column is None else form["columns"][column]
    place.pop(key, None)
    return written(
        form if value is None else form | {key: Raw(value)} if column is None else _with(form, column, key, value)
    )


def _with(form, column, key, value):
    form["columns"][column][key] = Raw(value)
    return form


def cases():
    """Yields a name and the text of each schema that cannot be."""
    for (column, key), values in WRONG.items():
        for value in values:
            yield f"{column or 'top'}.{key} = {value[:30]}", changed(column, key, value)
    for column, held in GOOD["columns"].items():
        for key in held:
            if key not in ("missing", "other"):
                yield f"{column} without {key}", changed(column, key, None)
        yield f"{column} with an unknown key", changed(column, "colour", '"red"')
        good = written(GOOD)
        yield f"{column} twice", good + f'[columns.{column}]\nkind = "boolean"\n'
        yield (
            f"{column} as a number",
            good.replace(f"[columns.{column}]", f"[columns]\n{column} = 3\n[columns.x{column}]"),
        )
    for name, mark in UNSEEN.items():
        yield f"{name} in a name", written(GOOD) + f'[columns."a{mark}b"]\nkind = "boolean"\n'
        yield f"{name} in a level", changed("school", "levels", f'["a{mark}b", "c"]')
    for name, constraints in CLASHES.items():
        yield (
            f"constraints: {name}",
            written(GOOD) + '[columns.n]\nkind = "integer"\nlower = 0\nupper = 99\n' + constraints,
        )
    yield from _broken_texts()


def _broken_texts():
    """Yields texts that are no TOML, or no schema: cut off, with signs out of place, or something else altogether."""
    draw, text = random.Random(0), written(GOOD)
    made = 0
    while made < 40:
        start = draw.randrange(len(text))
        spoiled = draw.choice([text[:start], text[:start] + draw.choice('"[]=\x00{') + text[start:], text[start:]])
        try:
            tomllib.loads(spoiled)
        except tomllib.TOMLDecodeError:
            made += 1
            yield f"spoiled at {start} ({made})", spoiled
    yield from {"nothing": "", "blanks": " \n\t\n", "only a comment": "# a schema", "a number": "3",
                "JSON": '{"columns": {}}',
                "a table of data": "age,income\n30,5\n", "deep": "a = " + "[" * 5000, "no columns": "[columns]\n",
                "columns as a list": "columns = []\n", "an empty name": '[columns.""]\nkind = "boolean"\n',
                "columns as text": 'columns = "age"\n'}.items()  # fmt: skip


CASES = dict(cases())


def test_the_schema_that_they_are_made_of_is_good(desk, cli):
    desk.schema.write_text(written(GOOD))
    assert cli("schema", "check", desk.schema).code == 0


def test_there_are_many():
    assert len(CASES) >= 180


@pytest.mark.parametrize("case", CASES)
def test_a_schema_that_cannot_be(bench, cli, case):
    bench.schema.write_text(CASES[case], encoding="utf-8", newline="")
    refused(bench, cli, str(bench.schema), arguments=["schema", "check", bench.schema])
    if case.startswith(("constraints", "NUL", "age")):
        refused(bench, cli, str(bench.schema), arguments=bench.fit())
    bench.as_before()


BYTES = {
    "not UTF-8": b"\xff\xfe" + SCHEMA.encode(),
    "binary": bytes(range(256)) * 40,
    "UTF-16": SCHEMA.encode("utf-16"),
}


@pytest.mark.parametrize("case", BYTES)
def test_a_schema_file_that_is_no_text(bench, cli, case):
    bench.schema.write_bytes(BYTES[case])
    refused(bench, cli, "schema.toml", arguments=["schema", "check", bench.schema])
    bench.as_before()
