"""Completion by the shell: the script that is installed, and what it offers."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import sys; sys.argv[0] = 'noisegate'; from noisegate.app.cli.main import run; run()"


def completions(*arguments, **environment):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "300", **environment},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("noisegate sam", ["sample"]),
        (
            "noisegate fit data.csv --method dp-me",
            ["dp-mepf", "dp-mepf-trained", "dp-merf"],
        ),
    ],
)
def test_bash_is_offered(line, offered):
    word_index = str(len(line.split(" ")) - 1)
    found = completions(
        _NOISEGATE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=word_index
    )
    assert found.split() == offered
