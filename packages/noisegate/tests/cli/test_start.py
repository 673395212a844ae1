"""Verbs that answer at once: what they do not import is what they do not wait for."""

import subprocess
import sys

import pytest

from .conftest import environment

SLOW = {"torch", "sklearn", "scipy", "pandas", "matplotlib", "dp_accounting", "opendp", "xgboost", "statsmodels"}
SPY = """
import atexit, sys
atexit.register(lambda: print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules})))
from noisegate.cli.main import run
run()
"""


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "fit --help",
        "schema check schema.toml",
        "plan --schema schema.toml --epsilon 1 --records 30000",
        "plan --schema schema.toml --epsilon 1 --records 30000 --adjacency replace-one --json",
        "ledger show --ledger ledger.db",
        "ledger history clinic --ledger ledger.db",
        "ledger check --ledger ledger.db",
        "verify model",
    ],
)
def test_light_verbs_load_no_heavy_module(fitted, command):
    ended = subprocess.run(
        [sys.executable, "-c", SPY, *command.split()],
        cwd=fitted.folder,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert ended.returncode == 0, ended.stderr
    loaded = set(ended.stdout.rpartition("LOADED ")[2].split())
    assert "noisegate" in loaded and not loaded & SLOW


def test_the_command_line_itself_needs_no_arrays():
    program = "import sys, noisegate.cli.main; print('numpy' in sys.modules, 'sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
