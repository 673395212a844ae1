"""A steward's desk: a schema, private records with a canary among them, a ledger, and two ways to run the program."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from PIL import Image
from tests.shared.few_trees import few_trees
from tests.shared.patience import PATIENCE

from noisegate.app.cli.main import run
from noisegate.ledger.ledger import Ledger


def argv(line):
    """Returns the arguments of a line as it is typed; none of them has a space."""
    return line.split()


OUTPUTS = json.loads(
    (files("noisegate.app.cli") / "json_output.json").read_text(encoding="utf-8")
)
CANARY = "CANARY7531"
PROGRAM = [sys.executable, "-c", "from noisegate.app.cli.main import run; run()"]
TINY = [
    *argv("--method dp-merf --set frequencies=10 --set hidden=[16] --set"),
    'fit_options={"steps": 10}',
]
TINY_SETTINGS = {
    "method": "dp-merf",
    "frequencies": 10,
    "hidden": [16],
    "fit_options": {"steps": 10},
}

IMAGES = argv("--size 8 --classes cat,dog")
FEW = dict(
    pixels=20,
    orientations=20,
    wavelets=20,
    channels=[4, 2],
    fit_options={"steps": 20, "batch": 10},
)
FEW_IMAGES = ["--set", "strokes=0"]
FEW_IMAGES += [
    part
    for name, value in FEW.items()
    for part in ("--set", f"{name}={json.dumps(value)}")
]

SCHEMA = """\
label = "answer"
[columns.age]
kind = "integer"
lower = 18
upper = 90
[columns.income]
kind = "continuous"
lower = 0.0
upper = 100.0
missing = true
[columns.job]
kind = "categorical"
levels = ["nurse", "teacher", "farmer"]
[columns.answer]
kind = "categorical"
levels = ["no", "yes"]
"""
HEADER = "age,income,job,answer"


def said(text):
    """What was printed, however its lines were broken."""
    return " ".join(text.split())


def states(ledger):
    """How many charges of the dataset are reserved, committed and voided."""
    account = Ledger(ledger).show("clinic")[0]
    return account.reserved, account.committed, account.voided


def keeps(arguments, output):
    """Holds what a verb told with --json to its schema; returns the validator."""
    first, second, *_ = *map(str, arguments), ""
    verb = (
        "error"
        if "error" in output
        else first
        if first in OUTPUTS["$defs"]
        else f"{first} {second}"
    )
    validator = Draft202012Validator({**OUTPUTS, "$ref": f"#/$defs/{verb}"})
    validator.validate(output)
    return validator


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    out: str
    err: str
    arguments: tuple = ()

    @property
    def json(self):
        """What was told with --json, which is of its schema in every test that reads it."""
        output = json.loads(self.out)
        keeps(self.arguments, output)
        return output


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a steward works: records, their schema, a ledger, and the folder of a model."""

    folder: Path
    named: ClassVar[dict[str, str]]

    def __getattr__(self, name):
        if name not in self.named:
            raise AttributeError(name)
        return self.folder / self.named[name]

    def listing(self):
        return sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*")
        )

    def account(self):
        return Ledger(self.ledger).show("clinic")[0]


@dataclass(frozen=True, kw_only=True)
class Desk(Place):
    registered: bytes = field(init=False, repr=False)
    named: ClassVar = {
        "schema": "schema.toml",
        "data": "data.csv",
        "ledger": "ledger.db",
        "out": "model",
    }

    def __post_init__(self):
        self.schema.write_text(SCHEMA)
        self.write_rows(rows(200))
        Ledger(self.ledger).register("clinic", epsilon=3, delta=1e-5)
        object.__setattr__(self, "registered", self.ledger.read_bytes())

    def write_rows(self, lines, header=HEADER):
        self.data.write_text("\n".join([header, *lines]) + "\n")

    def fit(self, *more, epsilon="1"):
        base = argv(
            f"fit {self.data} --schema {self.schema} --epsilon {epsilon} --out {self.out}"
        )
        return [*base, *argv(f"--dataset clinic --ledger {self.ledger}"), *TINY, *more]

    def fit_in_python(self):
        """The same fit, as `kill_worker` plays it in Python."""
        paths = {
            name: str(getattr(self, name))
            for name in ("data", "schema", "out", "ledger")
        }
        return [
            "python",
            json.dumps({**paths, "dataset": "clinic", "epsilon": 1.0, **TINY_SETTINGS}),
        ]

    def unspent(self):
        account = self.account()
        assert account.spent == 0
        assert account.reserved == 0
        assert account.committed == 0
        assert CANARY.encode() not in self.ledger.read_bytes()

    def as_before(self):
        """Nothing was written in the ledger, nor is anything beside the files of a fresh desk."""
        assert self.ledger.read_bytes() == self.registered
        assert self.listing() == ["data.csv", "ledger.db", "schema.toml"]


@dataclass(frozen=True, kw_only=True)
class Gallery(Place):
    """A folder of private pictures of cats, which are dark above, and of dogs, which are dark below."""

    named: ClassVar = {
        "schema": "images.toml",
        "data": "scans",
        "ledger": "ledger.db",
        "out": "model",
    }

    def __post_init__(self):
        draw = np.random.default_rng(0)
        for label, top in (("cat", 0), ("dog", 4)):
            (self.data / label).mkdir(parents=True)
            for number in range(30):
                pixels = draw.integers(150, 256, (8, 8), dtype=np.uint8)
                pixels[top : top + 4] //= 8
                Image.fromarray(pixels).save(self.data / label / f"{number}.png")
        Ledger(self.ledger).register("clinic", epsilon=30, delta=1e-5)

    def fit(self, *more, described=IMAGES):
        base = [
            "fit",
            str(self.data),
            *described,
            *argv(f"--epsilon 10 --out {self.out}"),
            *FEW_IMAGES,
        ]
        return [*base, *argv(f"--dataset clinic --ledger {self.ledger}"), *more]


def rows(count, seed=0):
    draw = random.Random(seed)
    return [
        f"{draw.randint(18, 90)},{draw.uniform(0, 100):.2f},{draw.choice(['nurse', 'teacher', 'farmer'])},"
        f"{draw.choice(['no', 'yes'])}"
        for _ in range(count)
    ]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEGATE_LEDGER", raising=False)
    return Desk(folder=tmp_path)


@pytest.fixture(scope="module")
def bench_of_module(tmp_path_factory):
    return Desk(folder=tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(bench_of_module, monkeypatch):
    """One desk for many cases that change nothing but the file they are about, which is put back before each."""
    monkeypatch.chdir(bench_of_module.folder)
    monkeypatch.delenv("NOISEGATE_LEDGER", raising=False)
    bench_of_module.schema.write_text(SCHEMA)
    return bench_of_module


@pytest.fixture
def cli(monkeypatch, capsys):
    """Runs a verb in this process: all but the start of the interpreter is as in a shell.

    The first argument is a line as it is typed; those behind it are not split.
    """

    def ended(line, *more):
        capsys.readouterr()
        arguments = [*argv(line), *more]
        code = _run_here(monkeypatch, arguments)
        printed = capsys.readouterr()
        return Ended(code=code, out=printed.out, err=printed.err, arguments=arguments)

    return ended


def _run_here(monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["noisegate", *map(str, arguments)])
    with few_trees(), pytest.raises(SystemExit) as stop:
        run()
    return stop.value.code


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A model folder, made once; copy it before changing it."""
    folder = tmp_path_factory.mktemp("fitted")
    desk = Desk(folder=folder)
    with pytest.MonkeyPatch.context() as patch:
        assert _run_here(patch, desk.fit()) == 0
    return desk


@pytest.fixture
def gallery(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEGATE_LEDGER", raising=False)
    return Gallery(folder=tmp_path)


@pytest.fixture(scope="session")
def pictured(tmp_path_factory):
    """A model of images, made once; copy it before changing it."""
    from noisegate import synthesize
    from noisegate.schema import pixel_schema

    gallery = Gallery(folder=tmp_path_factory.mktemp("pictured"))
    schema = pixel_schema(8, 8, labels=("cat", "dog"))
    synthesize(gallery.data, schema=schema, epsilon=10, **FEW).save(gallery.out)
    return gallery


@pytest.fixture
def model(fitted, tmp_path):
    return Path(shutil.copytree(fitted.out, tmp_path / "model-copy"))


@pytest.fixture
def ctrl_c(monkeypatch):
    """Presses Ctrl-C once, the nth time that a method has done its work; returns what was noted each time before it."""

    def press(owner, name, number=1, noted=type):
        original = getattr(owner, name)
        seen = []

        def pressed(it, *args, **kwargs):
            seen.append(noted(it))
            index = len(seen)
            result = original(it, *args, **kwargs)
            if index == number:
                signal.raise_signal(signal.SIGINT)
            return result

        monkeypatch.setattr(owner, name, pressed)
        return seen

    return press


def refused(desk, cli, *messages, code=2, arguments=None):
    """The verb, by default a fit, is refused with one message that says all `messages`, and the desk is as before."""
    before = desk.listing()
    ended = cli(*(arguments or desk.fit()))
    assert ended.code == code, ended.err
    printed = ended.err + ended.out
    assert CANARY not in printed
    assert "Traceback" not in printed
    assert ended.err.count("error:") == 1
    message = ended.err.partition("error: ")[2]
    for words in messages:
        assert words in message
    assert desk.listing() == before
    return ended


@contextmanager
def small_disk(limit):
    """As on a full disk: the system refuses, once a file reaches the limit."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.dont_write_bytecode, compiled = True, sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
        sys.dont_write_bytecode = compiled


def environment():
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONUNBUFFERED", "NOISEGATE_LEDGER")
    }
    return {**variables, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


@pytest.fixture
def stopped_fit(desk):
    """Starts a long fit, sends it a signal when `ready` says so, and returns how it ended."""

    def run_and_stop(ready, number=signal.SIGINT, more=(), steps=100_000):
        fit_options = f'fit_options={{"steps": {steps}, "stop_at_noise": false}}'
        command = [*PROGRAM, *desk.fit("--set", fit_options, *more)]
        with subprocess.Popen(
            command,
            cwd=desk.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as process:
            try:
                deadline = time.monotonic() + PATIENCE
                while not ready():
                    assert process.poll() is None, process.communicate()
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                process.send_signal(number)
                out, err = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        return Ended(code=process.returncode, out=out, err=err)

    return run_and_stop
