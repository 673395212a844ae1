"""What the README tells a stranger to type, word by word, in a folder that holds what it speaks of."""

import re
import shlex

import pytest
from tests.journeys.conftest import RECORDS, ROOT, SCHEMA, survey

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = [
    shlex.join(shlex.split(line, comments=True))
    for language, block in BLOCKS
    for line in block.splitlines()
    if not language and line.startswith("noisegate ")
]


@pytest.fixture
def reader(person):
    sizes = {
        "public_sample": 2000,
        "private": RECORDS,
        "real_test": 1000,
        "patients": RECORDS,
    }
    for seed, (name, rows) in enumerate(sizes.items()):
        (person.folder / f"{name}.csv").write_text(survey(rows, seed))
    return person


def test_its_commands(reader):
    assert [command.split()[1] for command in COMMANDS] == [
        *("schema", "plan", "ledger", "fit", "sample", "report", "evaluate", "verify")
    ]
    # In one process; test_new_environments.py types each by itself, in an environment with what the README installs.
    assert "The certificate holds." in reader.types_all(COMMANDS)
    assert len((reader.folder / "synthetic.csv").read_text().splitlines()) == 30_001
    file_names = {"schema.toml", "ledger.db", "model", "synthetic.csv", "pages"}
    assert file_names < reader.lies()


def test_its_python(reader):
    (reader.folder / "schema.toml").write_text(SCHEMA)
    reader.types("noisegate ledger register patients --epsilon 4 --ledger ledger.db")
    [program] = [block for language, block in BLOCKS if language == "python"]
    (reader.folder / "patients.py").write_text(program)
    reader.types("python -X utf8 patients.py")
    reader.types("noisegate verify model")
    assert "model" in reader.lies()
