"""An option is declared once: in `app/request.py`. Whatever else names it follows, or says so here."""

import inspect
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tests.house import signatures

import noisegate
from noisegate.app.request import DOORS, Request

ADDED = """
    shift: Annotated[int, Door(help="Hours of the night.", panel="Data", minimum=1)] = 8
    log: Annotated["""
# The copy of the two files goes before the installed ones.
PROGRAM = """
import json, os, sys
from pathlib import Path
import noisegate.app
folder = Path(sys.argv[1])
noisegate.app.__path__.insert(0, str(folder))
if sys.argv[2:]:
    from tests.house.signatures import complete
    complete(folder)
    sys.exit()
from noisegate.app import api
from noisegate.app.cli.main import run as command_line
from noisegate.app.runs import work
from noisegate.app.runs.folder import LogObserver, Run
from noisegate.errors import OptionError
from noisegate.schema import Boolean, Schema

class Began(Exception):
    pass

def began(run, *_, **__):
    raise Began(run)

schema = Schema([Boolean(name="ill")])
api.start_run = work.start_run = began
runs = []
try:
    noisegate.fit({"ill": [True]}, schema=schema, epsilon=1.0, shift=9)
except Began as begun:
    runs += begun.args
noisegate.fit.__doc__.index("shift: Hours of the night.")
(folder / "schema.toml").write_text('[columns.ill]\\nkind = "boolean"')
(folder / "data.csv").write_text("ill\\ntrue\\n")
sys.argv = ["noisegate", "fit", str(folder / "data.csv"), "--schema"]
sys.argv += [str(folder / "schema.toml"), "--epsilon", "1", "--out", str(folder / "m")]
sys.argv += ["--shift", "9"]
os.environ["NOISEGATE_TRACEBACK"] = "1"
try:
    command_line()
except Began as begun:
    runs += begun.args
assert [run.shift for run in runs] == [9, 9]
runs[0].write(folder)
assert json.loads((folder / "training.json").read_text())["shift"] == 9
assert Run.read(folder).shift == 9
try:
    Run.read(folder).check_unchanged({"settings": {}, "shift": 7}, LogObserver())
except OptionError as error:
    assert "shift=7: the run began with 9" in str(error)
else:
    raise AssertionError
sys.argv = ["noisegate", "fit", "--help"]
command_line()
"""


def test_an_option_is_added_by_one_edit(tmp_path):
    """Its field makes the rest: the keyword, --shift with help and bound, the run file, what a resumed run compares."""
    for name in ("request.py", "api.py"):
        shutil.copy(signatures.APP / name, tmp_path)
    path = tmp_path / "request.py"
    path.write_text(path.read_text("utf-8").replace("\n    log: Annotated[", ADDED, 1))
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    root = Path(__file__).parents[2]
    subprocess.run([*program, "complete"], check=True, cwd=root)
    ended = subprocess.run(
        program, check=True, cwd=root, capture_output=True, text=True
    )
    helped = " ".join(ended.stdout.split())
    assert re.search(r"--shift N \[x>=1\] Hours of the night\. .*default: 8", helped)


@pytest.mark.parametrize("function", ["fit", "plan"])
def test_python_takes_every_option_with_its_type_and_default(function):
    assert not signatures.missing(signatures.APP, function), (
        "add them by: python -m tests.house.signatures"
    )
    defaults = {option.name: option.default for option in fields(Request)}
    types = signatures.declared(signatures.APP)
    for name, parameter in inspect.signature(
        getattr(noisegate, function)
    ).parameters.items():
        # A plan needs both, and nobody resumes it.
        is_required = function == "plan" and name in ("schema", "epsilon")
        if name in types and name != "schema" and not is_required:
            assert parameter.annotation == types[name][0], name
            assert parameter.default == defaults[name], name


def test_every_option_but_a_discovery_has_a_door_with_help():
    assert {option.name for option in fields(Request)} - set(DOORS) == {"discovery"}
    assert all(door.help.endswith((".", "=32.")) for door in DOORS.values())
