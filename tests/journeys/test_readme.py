"""What the README tells a stranger to type, word by word, in a folder that holds what it speaks of."""

import re
import shlex

from tests.journeys.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = [
    shlex.join(shlex.split(line, comments=True))
    for language, block in BLOCKS
    for line in block.splitlines()
    if not language and line.startswith("noisegate ")
]


def test_its_commands(person):
    assert [command.split()[1] for command in COMMANDS] == [
        "example",
        "plan",
        "fit",
        "sample",
        "evaluate",
    ]
    # In one process; test_new_environments.py types each by itself, in an environment with what the README installs.
    printed = person.types_all(COMMANDS)
    assert "Verdict:" in printed
    assert len((person.folder / "synthetic.csv").read_text().splitlines()) == 16_001
    assert {"trial", "model", "synthetic.csv"} <= person.lies()


def test_its_python(person):
    [program] = [block for language, block in BLOCKS if language == "python"]
    (person.folder / "try_it.py").write_text(program)
    ended = person.types("python -X utf8 try_it.py")
    assert "(1, 1e-05)-differential privacy" in ended.out


def test_the_home_page_has_the_same_commands():
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert "\n".join(COMMANDS) in page
