"""Messages speak of options as who reads them does: `out='model'` in Python, `--out model` at the command line."""

import ast
import re
from pathlib import Path

from noisegate.errors import at_command_line, said

ROOT = Path(__file__).parents[1]
OPTION = re.compile(r"(?<![\w-])--[a-z]")
# A command in full is one in Python too; the ways of `ray`, of the database and of a program of our own are theirs.
COMMAND = re.compile(r"noisegate [a-z]+[^`;]*|`ray [^`]*`")
VERBS = {
    "cli",
    "command.py",
    "demo.py",
    "guided.py",
    "init.py",
    "questions.py",
    "request.py",
    "verbs.py",
}
RETIRED = re.compile(
    r"(what|that) was asked of|moved by one unit|noise / move|out of place|strongest ties|bought with|the noise drowns|"
    r"booked (on|nowhere)|no synthetic record is one|than the noise leaves|the certificate’s|Hand [^.]* over with|"
    r"called otherwise|that was, to|the public randomness|the books\b|no plain file|is no (picture|question)|hangs? on|"
    r"stands for one|synthetic\", \"apart|of it alone|numbers released|noise over sensitivity|told apart|"
    r"st(an|oo)ds? out of the noise|noise (hides|forbids|drowns|hid)\b|\bin the mean\b|"
    r"total variation error|\bfor good\b",
    re.IGNORECASE,
)
"""Words of earlier versions that nobody who reads English for a living would use; `docs/glossary.md` has today's."""
PROGRAMS = {"strokes.py", "ray.py", "errors.py", "keys.py"}


def texts(tree):
    """The text of each string, with what is filled in left out; none of a docstring."""
    quoted = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "X"
                for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in quoted | parts
        ):
            yield node.value


def test_no_text_beside_the_command_line_speaks_of_its_options():
    sentences = {
        (str(path.relative_to(ROOT)), text)
        for path in ROOT.glob("packages/*/src/**/*.py")
        if not VERBS & {*path.parts} and path.name not in PROGRAMS
        for text in texts(ast.parse(path.read_text("utf-8")))
        if OPTION.search(COMMAND.sub("", text))
    }
    assert not sentences


def test_an_option_is_said_as_it_was_given():
    assert said("show_values") == "show_values"
    assert said("out", Path("model")) == "out='model'"
    with at_command_line():
        assert said("show_values") == "--show-values"
        assert said("out", Path("model")) == "--out model"
    assert said("seed", 3) == "seed=3"


def test_nothing_that_people_read_is_said_in_retired_words():
    sentences = {
        (path.name, match[0])
        for pattern in (
            "*.md",
            "docs/**/*.md",
            "packages/*/src/**/*.py",
            "packages/*/src/**/*.html",
        )
        for path in ROOT.glob(pattern)
        for match in RETIRED.finditer(path.read_text("utf-8"))
    }
    assert not sentences
