"""Tutorials and how-to pages work as they are written, in order, and print what they say they print."""

import os
import re
import shlex
from pathlib import Path

import nbformat
import pytest
from tests.tutorials.notebooks import notebook
from tests.tutorials.pages import HOWTO, TUTORIALS, cells

# Those that fit images, or several times, take longer than a minute together.
SLOW = {"images", "clinic", "questions"}


def play(page, cli):
    """Plays all cells of a page in the current folder; returns the names that its Python leaves."""
    names = {}
    code = 0
    for cell in page:
        if cell.kind == "file":
            Path(cell.name).write_text(cell.text, "utf-8")
        elif cell.kind == "python":
            exec(compile(cell.text, "page", "exec"), names)
        elif cell.kind == "console":
            code = converse(cell, cli, code)
    assert code == 0, "the last command of the page fails"
    return names


def converse(cell, cli, code):
    for command, expected in cell.commands():
        program, *words = shlex.split(command)
        if command == "echo $?":
            assert expected == [str(code)]
            code = 0
            continue
        assert code == 0, f"{command} follows a failure that the page does not mention"
        if program == "export":
            name, value = words[0].split("=", 1)
            os.environ[name] = value
            continue
        assert program == "noisegate", command
        ended = cli(*words)
        code = ended.code
        said(expected, " ".join((ended.out + ended.err).split()), command)
    return code


def said(expected, printed, command):
    """Each line stands in what was printed, blanks aside, after the line before it."""
    for line in expected:
        wanted = " ".join(line.split())
        assert wanted in printed, (
            f"{command} does not print {wanted!r} there, but {printed!r}"
        )
        printed = printed[printed.index(wanted) + len(wanted) :]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEGATE_LEDGER", "unused")
    monkeypatch.delenv("NOISEGATE_LEDGER")
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in SLOW))
        for page in TUTORIALS
    ],
)
def test_a_tutorial(path, desk, cli, request):
    text = path.read_text("utf-8")
    if "db.example" in text:
        text = text.replace(
            "postgresql://noisegate@db.example/ledger",
            request.getfixturevalue("postgres"),
        )
    play(cells(text), cli)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_its_notebook_is_the_same(path):
    again = "write it again with: python tests/tutorials/notebooks.py"
    text = path.with_suffix(".ipynb").read_text("utf-8")
    assert text == notebook(path), again
    nbformat.validate(nbformat.reads(text, as_version=nbformat.NO_CONVERT))


SYNTHETIC = "age,ward\n41,surgery\n67,medicine\n"
SCHEMA = """\
label = "readmitted"
ignore = ["row_id", "patient_id"]
[columns.age]
kind = "integer"
lower = 0
upper = 120
[columns.ward]
kind = "categorical"
levels = ["surgery", "medicine", "maternity", "other"]
other = "other"
[columns.bmi]
kind = "decimal"
lower = 10
upper = 60
step = 0.1
[columns.admitted]
kind = "date"
lower = 2021-01-01
upper = 2024-12-31
[columns.left]
kind = "date"
lower = 2021-01-01
upper = 2024-12-31
[columns.readmitted]
kind = "categorical"
levels = ["no", "yes"]
[[constraints]]
rule = "admitted <= left"
"""


def _played(path):
    text = path.read_text("utf-8")
    fits = [pytest.mark.slow] * ("noisegate fit" in text)
    return (
        [pytest.param(path, id=path.stem, marks=fits)]
        if re.search("```(console|python)", text)
        else []
    )


@pytest.mark.parametrize("path", [cell for path in HOWTO for cell in _played(path)])
def test_a_how_to_page(path, desk, cli):
    (desk / "synthetic.csv").write_text(SYNTHETIC)
    (desk / "schema.toml").write_text(SCHEMA)
    play(cells(path.read_text("utf-8")), cli)


def test_the_python_of_how_to_pages_makes_what_they_say(desk, cli):
    (desk / "synthetic.csv").write_text(SYNTHETIC)
    names = {
        path.stem: play(cells(path.read_text("utf-8")), cli)
        for path in HOWTO
        if path.stem == "ids"
    }
    assert names["ids"]["synthetic"].columns[0] == "patient_id"
    assert names["ids"]["synthetic"]["patient_id"].is_unique
