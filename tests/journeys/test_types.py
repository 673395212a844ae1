"""A pipeline that imports noisegate passes a strict type checker, and runs."""

import re
import subprocess
import sys

import pytest
from tests.journeys.conftest import ROOT

from noisegate import simulated_patients

PAGE = (ROOT / "docs" / "pipelines.md").read_text("utf-8")
[PROGRAM] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_program_of_the_page_is_typed(tmp_path):
    (tmp_path / "step.py").write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "step.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_program_of_the_page_runs(tmp_path, capsys):
    patients, schema = simulated_patients()
    patients.slice(0, 2000).to_pandas().to_csv(tmp_path / "data.csv", index=False)
    schema.to_toml(tmp_path / "schema.toml")
    names = {}
    exec(PROGRAM, names)
    paths = [tmp_path / name for name in ("data.csv", "schema.toml", "model")]
    costs = [names["copy_patients"](*paths) for _ in range(2)]
    first, second = capsys.readouterr().out.splitlines()
    assert costs == [1.0, 1.0]
    assert first == second
