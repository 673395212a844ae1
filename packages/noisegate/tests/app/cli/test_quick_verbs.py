"""Verbs that answer at once: what they do not import is what they do not wait for."""

import subprocess
import sys

import pytest

from .conftest import argv, environment

SLOW = {
    "torch",
    "sklearn",
    "scipy",
    "pandas",
    "matplotlib",
    "dp_accounting",
    "opendp",
    "xgboost",
    "statsmodels",
}
SPY = """
import atexit, sys
atexit.register(lambda: print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules})))
from noisegate.app.cli.main import run
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
    assert "noisegate" in loaded
    assert not loaded & SLOW


def test_the_command_line_itself_needs_no_arrays():
    program = "import sys, noisegate.app.cli.main; print('numpy' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


SEEN = "import atexit, sys; atexit.register(lambda: print(*sys.modules))\n"


def python(program, cwd):
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_table_is_fitted_and_sampled_without_pandas_and_narwhals(desk):
    options = argv(
        f"--schema {desk.schema} --epsilon 1 --out {desk.out} --method pairwise"
    )
    for call in (
        ["fit", desk.data, *options],
        argv(f"sample {desk.out} -n 20 -o made.csv"),
    ):
        words = ["noisegate", *map(str, call)]
        program = f"import sys; sys.argv = {words!r}\nfrom noisegate.app.cli.start import start; start()"
        loaded = python(SEEN + program, desk.folder).split()
        assert "pyarrow" in loaded
        assert not {
            "pandas",
            "narwhals",
            "torch",
            "sklearn",
            "matplotlib",
        } & set(loaded)


@pytest.mark.parametrize(
    "how", ["import pandas", "import pandas.api.types", "__import__('pandas')"]
)
def test_whoever_else_asks_gets_it_and_pyarrow_knows_it_then(tmp_path, how):
    (tmp_path / "other.py").write_text(how)
    program = (
        "from noisegate.app.cli.start import leave_pandas_alone\nleave_pandas_alone()\n"
        "import noisegate.schema.encode, sys\nassert 'pandas' not in sys.modules\nimport other, pandas\n"
        "import pyarrow as pa\nframe = pandas.DataFrame({'a': [1.0, None], 'b': ['x', None]})\n"
        "print(pa.Table.from_pandas(frame)['a'].null_count, pa.table({'a': [1]}).to_pandas().shape)"
    )
    assert python(program, tmp_path).split() == ["1", "(1,", "1)"]
