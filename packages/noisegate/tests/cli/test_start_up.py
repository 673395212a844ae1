"""The program loads no pandas of its own, and whatever else asks for it gets it."""

import subprocess
import sys

import pytest

SEEN = "import atexit, sys; atexit.register(lambda: print(*sys.modules))\n"


def python(program, cwd):
    ended = subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_table_is_fitted_and_sampled_without_pandas_and_narwhals(desk):
    options = ["--schema", desk.schema, "--epsilon", 1, "--out", desk.out, "--method", "pairwise"]
    for call in (["fit", desk.data, *options], ["sample", desk.out, "-n", 20, "-o", "made.csv"]):
        words = ["noisegate", *map(str, call)]
        program = f"import sys; sys.argv = {words!r}\nfrom noisegate.cli.start import start; start()"
        loaded = python(SEEN + program, desk.folder).split()
        assert "pyarrow" in loaded and not {"pandas", "narwhals", "torch", "sklearn", "matplotlib"} & set(loaded)


@pytest.mark.parametrize("how", ["import pandas", "import pandas.api.types", "__import__('pandas')"])
def test_whoever_else_asks_gets_it_and_pyarrow_knows_it_then(tmp_path, how):
    (tmp_path / "other.py").write_text(how)
    program = (
        "from noisegate.cli.start import leave_pandas_alone\nleave_pandas_alone()\n"
        "import noisegate.schema.encode, sys\nassert 'pandas' not in sys.modules\nimport other, pandas\n"
        "import pyarrow as pa\nframe = pandas.DataFrame({'a': [1.0, None], 'b': ['x', None]})\n"
        "print(pa.Table.from_pandas(frame)['a'].null_count, pa.table({'a': [1]}).to_pandas().shape)"
    )
    assert python(program, tmp_path).split() == ["1", "(1,", "1)"]
