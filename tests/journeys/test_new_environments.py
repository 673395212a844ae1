"""What README and documentation tell a stranger to install is enough for what they tell them to type next.

Each test makes an environment of its own in an empty home, so they need a package index and are slow.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.journeys.conftest import RECORDS, ROOT, SCHEMA, survey
from tests.shared.wheels import build_packages
from tests.tutorials.pages import DOCS, TUTORIALS, cells
from tests.tutorials.test_pages import said

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

UV = ROOT / ".venv-tools" / "bin" / "uv"
INSTALL_LINE = re.compile(
    r"^pip install (.+?)(?: {2,}#.*)?$|`pip install ([^`]+)`", re.MULTILINE
)
DEMO_MEGABYTES = 900
SERVER = "postgresql://noisegate@db.example/ledger"

# Reads one program a line and runs all in one namespace, as the cells of a notebook are.
_NOTEBOOK = """
import json, sys
names = {}
for line in sys.stdin:
    exec(compile(json.loads(line), "cell", "exec"), names)
    print("cell done", flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Stranger:
    """Somebody in a new environment, with an empty home and a folder to work in."""

    environment: Path
    home: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def env(self):
        """The variables of their shell, which has the environment activated."""
        environment = {
            name: os.environ[name]
            for name in ("TMPDIR", "PIP_CERT", "SSL_CERT_FILE")
            if name in os.environ
        }
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**environment, "PATH": path, "HOME": str(self.home), **self.variables}

    def types(self, *words):
        """Runs a command; returns its exit code and all that it printed."""
        ended = subprocess.run(
            list(map(str, words)),
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in ended.stderr, ended.stderr[-3000:]
        return ended.returncode, ended.stdout + ended.stderr

    def must(self, line):
        """Runs a line that must succeed, as it is pasted into a shell."""
        code, printed = self.types(*shlex.split(line, comments=True))
        assert code == 0, (line, printed[-3000:])
        return printed


@pytest.fixture(scope="module")
def constraints(tmp_path_factory):
    """The versions of the lock, so that an environment is made of what the cache holds."""
    if not UV.exists():
        pytest.skip("needs the uv that `make environment` installs")
    path = tmp_path_factory.mktemp("lock") / "constraints.txt"
    export = [
        UV,
        "export",
        "--frozen",
        "--quiet",
        "--no-hashes",
        "--no-emit-workspace",
        "--all-extras",
    ]
    subprocess.run([*export, "-o", path], cwd=ROOT, check=True)
    return path


@pytest.fixture
def stranger(tmp_path, constraints):
    """Returns how to make a stranger who installs what a line says after `pip install`."""

    def make(requirements):
        stranger = Stranger(
            environment=tmp_path / "env",
            home=tmp_path / "home",
            folder=tmp_path / "work",
        )
        stranger.home.mkdir()
        stranger.folder.mkdir()
        python = stranger.environment / "bin" / "python"
        subprocess.run(
            [UV, "venv", "--quiet", "--python", sys.executable, stranger.environment],
            check=True,
        )
        command = [
            UV,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--constraint",
            constraints,
        ]
        ended = subprocess.run(
            [*command, *shlex.split(requirements)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return stranger

    return make


def install_lines(text):
    """Returns what each `pip install` of a page installs, in order."""
    return [block or inline for block, inline in INSTALL_LINE.findall(text)]


def commands_of(text):
    """Returns the lines with `noisegate` of a page's blocks that name no language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [
        line
        for language, block in blocks
        for line in block.splitlines()
        if not language and line.startswith("noisegate ")
    ]


def megabytes(folder):
    """Returns what a folder holds on the disk, hard links counted once."""
    sizes = {
        status.st_ino: status.st_blocks * 512
        for path in folder.rglob("*")
        if not path.is_symlink()
        for status in [path.lstat()]
    }
    return sum(sizes.values()) / 1e6


def test_the_demo_of_a_fresh_clone_stays_small(tmp_path):
    clone = tmp_path / "clone"
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone], check=True
    )
    before = megabytes(tmp_path)
    environment = {
        name: os.environ[name]
        for name in ("PATH", "PIP_CERT", "TMPDIR")
        if name in os.environ
    }
    ended = subprocess.run(
        ["make", "demo"],
        cwd=clone,
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (clone / "noisegate-demo" / "public.html").exists()
    assert megabytes(tmp_path) - before < DEMO_MEGABYTES


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of each package, as a release publishes it."""
    built = build_packages(tmp_path_factory.mktemp("dist"))
    return {f"packages/{name}": str(wheel) for name, (wheel, _) in built.items()}


def from_wheels(requirements, wheels):
    """Returns what a line installs, with a wheel in place of each folder of a package."""
    return shlex.join(wheels[folder] for folder in shlex.split(requirements))


def test_the_commands_of_the_readme(stranger, wheels):
    text = (ROOT / "README.md").read_text("utf-8")
    reader = stranger(from_wheels(install_lines(text)[0], wheels))
    for command in commands_of(text):
        printed = reader.must(command)
    assert "Verdict:" in printed


def test_the_python_of_the_readme(stranger, wheels):
    text = (ROOT / "README.md").read_text("utf-8")
    reader = stranger(from_wheels(install_lines(text)[0], wheels))
    [program] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (reader.folder / "try_it.py").write_text(program)
    reader.must("python try_it.py")


def test_the_commands_of_the_quick_start(stranger):
    text = (
        (DOCS / "quickstart.md")
        .read_text("utf-8")
        .split("## A classifier instead of records")[0]
    )
    reader = stranger(install_lines((ROOT / "README.md").read_text("utf-8"))[0])
    for command in commands_of(text):
        reader.must(command)
    expected = {"synthetic.csv", "datapackage.json", "croissant.json"}
    assert expected < {path.name for path in (reader.folder / "handout").iterdir()}


def test_the_classifier_of_the_quick_start(stranger):
    classifier = (
        (DOCS / "quickstart.md")
        .read_text("utf-8")
        .split("## A classifier instead of records")[1]
    )
    reader = stranger(install_lines(classifier)[0])
    for command in ["noisegate example trial", *commands_of(classifier)]:
        reader.must(command)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial(path, stranger, request):
    text = path.read_text("utf-8")
    reader = stranger(install_lines(text)[0])
    if SERVER in text:
        text = text.replace(SERVER, request.getfixturevalue("postgres"))
    notebook = [reader.environment / "bin" / "python", "-c", _NOTEBOOK]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    exports = [
        line
        for cell in cells(text)
        if cell.kind == "console"
        for line, _ in cell.commands()
    ]
    for line in exports:
        program, *words = shlex.split(line)
        if program == "export":
            name, value = words[0].split("=", 1)
            reader.variables[name] = value
    with subprocess.Popen(
        notebook, cwd=reader.folder, env=reader.env, **streams
    ) as python:
        code = 0
        for cell in cells(text):
            if cell.kind == "file":
                (reader.folder / cell.name).write_text(cell.text, "utf-8")
            elif cell.kind == "python":
                print(json.dumps(cell.text), file=python.stdin, flush=True)
                while (line := python.stdout.readline()) != "cell done\n":
                    assert line, f"this cell fails:\n{cell.text}"
            elif cell.kind == "console":
                code = converse(reader, cell, code)
        assert code == 0, "the last command of the page fails"


def converse(reader, cell, code):
    """Types the commands of a console; returns the exit code of the last one."""
    for command, expected in cell.commands():
        program, *_ = shlex.split(command)
        if command == "echo $?":
            assert expected == [str(code)]
            code = 0
            continue
        assert code == 0, f"{command} follows a failure that the page does not mention"
        if program != "export":
            code, printed = reader.types(*shlex.split(command))
            said(expected, " ".join(printed.split()), command)
    return code


def test_the_example_of_an_outside_method_needs_no_torch(stranger):
    text = (DOCS / "extending.md").read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [program] = [text for text in programs if "# pip install" in text]
    [install] = re.findall(r"# pip install (\S+)", program)
    reader = stranger(f"packages/noisegate {install}")
    (reader.folder / "check.py").write_text(program)
    reader.must("python check.py")
    (reader.folder / "private.csv").write_text(survey(RECORDS))
    (reader.folder / "schema.toml").write_text(SCHEMA)
    reader.must(
        "noisegate fit private.csv --schema schema.toml --epsilon 1 --method cosines --out model"
    )
    reader.must("noisegate sample model -n 100 -o copy.csv")
    where = reader.must(
        "python -c 'import importlib.util; print(importlib.util.find_spec(\"torch\"))'"
    )
    assert where.strip() == "None"
