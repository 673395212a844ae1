"""A person at a machine that never saw noisegate: an empty home, an empty folder, and a shell that writes cp1252."""

import json
import os
import pty
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.shared.ledger_room import postgres
from tests.shared.patience import PATIENCE

__all__ = ["postgres"]

SCRIPT = Path(sysconfig.get_path("scripts")) / "noisegate"
ROOT = Path(__file__).parents[2]


_ALL = """
import json, sys
from noisegate.app.cli.start import put_in_order
from noisegate.app.cli.main import run
put_in_order()
for line in json.loads(sys.argv[1]):
    sys.argv = ["noisegate", *line]
    try:
        run()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{end.code}: {line}")
"""

_EACH = """
import contextlib, io, json, sys
from noisegate.app.cli.start import put_in_order
from noisegate.app.cli.main import run
put_in_order()
outcomes = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["noisegate", *line]
    out = io.StringIO()
    err = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
    outcomes.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(outcomes))
"""

# The terminal is that of the process, so that Ctrl-C in it is a signal.
_AT_A_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite in the background ignores Ctrl-C, and what it starts would too
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@dataclass(frozen=True, kw_only=True)
class Person:
    """Types commands in `folder`, and has nothing of ours at home."""

    home: Path
    folder: Path
    environment: dict = field(default_factory=dict)

    @property
    def env(self):
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "TMPDIR", "SYSTEMROOT")
        }
        narrow = {"PYTHONIOENCODING": "cp1252", "LANG": "C", "OMP_NUM_THREADS": "1"}
        # Whoever asks an index for a package, or a hub for weights, gets no answer.
        offline = dict.fromkeys(
            ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"),
            "http://127.0.0.1:9",
        )
        return {
            **environment,
            "HOME": str(self.home),
            **narrow,
            **offline,
            **self.environment,
        }

    def types(self, line, *, code=0):
        """Runs a line as it is typed; `noisegate` is the installed script."""
        first, *more = shlex.split(line)
        program = {"noisegate": str(SCRIPT), "python": sys.executable}[first]
        ended = subprocess.run(
            [program, *more],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            timeout=PATIENCE,
        )
        ended_command = Ended(
            code=ended.returncode,
            out=ended.stdout.decode("cp1252"),
            err=ended.stderr.decode("cp1252"),
        )
        assert ended_command.code == code, (line, ended_command.err, ended_command.out)
        assert "Traceback" not in ended_command.err, (
            line,
            ended_command.err,
        )
        assert "fault in noisegate" not in ended_command.err, (
            line,
            ended_command.err,
        )
        return ended_command

    def types_all(self, lines):
        """Runs many lines, one after the other in one process, which imports once; returns what it printed."""
        typed = json.dumps([shlex.split(line)[1:] for line in lines])
        command = [sys.executable, "-c", _ALL, typed]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            timeout=PATIENCE,
        )
        text = ended.stderr.decode("cp1252")
        assert ended.returncode == 0, text[-3000:]
        assert "Traceback" not in text, text
        assert "fault in noisegate" not in text, text
        return ended.stdout.decode("cp1252")

    def types_each(self, lines, *, code):
        """Runs many lines in one process, which imports once; returns how each of them ended."""
        typed = json.dumps([shlex.split(line)[1:] for line in lines])
        ended = subprocess.run(
            [sys.executable, "-c", _EACH, typed],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
        outcomes = [
            Ended(code=exit_code, out=out, err=err)
            for exit_code, out, err in json.loads(ended.stdout)
        ]
        for line, outcome in zip(lines, outcomes, strict=True):
            assert outcome.code == code, (line, outcome.err, outcome.out)
            assert "Traceback" not in outcome.err, (line, outcome.err)
        return outcomes

    def answers(self, line, answers):
        """Runs a line in a terminal, and types each answer where its question stands; returns the code and the text."""
        master, slave = pty.openpty()
        command = [
            sys.executable,
            "-c",
            _AT_A_TERMINAL,
            str(SCRIPT),
            *shlex.split(line)[1:],
        ]
        streams = {
            "stdin": slave,
            "stdout": slave,
            "stderr": slave,
            "start_new_session": True,
        }
        with subprocess.Popen(command, cwd=self.folder, env=self.env, **streams) as run:
            os.close(slave)
            printed = ""
            looked = 0
            left = list(answers)
            while block := _read(master):
                printed += block
                while left and (lines := printed.find(left[0][0], looked)) >= 0:
                    question, answer = left.pop(0)
                    looked = lines + len(question)
                    os.write(master, f"{answer}\n".encode())
            os.close(master)
        assert not left, (left[0], printed)
        return run.returncode, printed

    def lies(self):
        """The names of all that lies in the folder; nothing hidden, unfinished or in the home's state is left."""
        names = sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*")
        )
        wrong = [
            name
            for name in names
            if "/." in f"/{name}" or name.endswith((".partial", ".tmp"))
        ]
        assert not wrong
        assert not [path for path in self.home.rglob("*") if path.parent.name == "runs"]
        return {name for name in names if "/" not in name}


def _read(master):
    try:
        return os.read(master, 65536).decode("cp1252", "replace")
    except OSError:  # the other side is closed
        return ""


@pytest.fixture
def person(tmp_path):
    home = tmp_path / "home"
    folder = tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    return Person(home=home, folder=folder)


RECORDS = 10_001
"""From 10,000 on a count is written with a comma, and sums are taken in blocks."""


def survey(rows, seed=0):
    """Lines of CSV of a survey, of which SCHEMA says all that is public."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 91, rows)
    hours = draw.gamma(9, 4, rows).round(1)
    job = draw.choice(["nurse", "teacher", "farmer"], rows)
    income = draw.choice(["no", "yes"], rows)
    lines = zip(age, hours, job, income, strict=True)
    return "age,hours,job,income\n" + "".join(
        f"{a},{h},{j},{i}\n" for a, h, j, i in lines
    )


SCHEMA = """\
label = "income"
[columns.age]
kind = "integer"
lower = 18
upper = 100
[columns.hours]
kind = "continuous"
lower = 0.0
upper = 120.0
[columns.job]
kind = "categorical"
levels = ["nurse", "teacher", "farmer"]
[columns.income]
kind = "categorical"
levels = ["no", "yes"]
"""


@pytest.fixture
def steward(person):
    """A person with a survey and its schema."""
    (person.folder / "private.csv").write_text(survey(RECORDS))
    (person.folder / "schema.toml").write_text(SCHEMA)
    return person
