"""What a shell may do to the standard streams: close them, stop reading, give them a narrow encoding or no width."""

import subprocess
import sys

import pytest

from noisegate import progress

from .conftest import TINY, argv, environment

PROGRAM = [sys.executable, "-m", "noisegate"]
PLAN = argv("plan --schema schema.toml --epsilon 1 --records 10000")


def ended(desk, line, **more):
    """Runs a line of a shell, in which NOISEGATE is the program."""
    program = " ".join(PROGRAM)
    return subprocess.run(
        [*argv("bash -o pipefail -c"), line.replace("NOISEGATE", program)],
        cwd=desk.folder,
        env={**environment(), **more},
        capture_output=True,
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_character_that_the_encoding_lacks_becomes_words(desk, encoding):
    desk.schema.write_text(
        desk.schema.read_text().replace("[columns.job]", '[columns."job 😀"]'), "utf-8"
    )
    result = ended(
        desk,
        f"NOISEGATE {' '.join(PLAN)} && NOISEGATE schema check schema.toml",
        PYTHONIOENCODING=encoding,
    )
    assert result.returncode == 0, result.stderr
    assert "epsilon = 1, delta = 1e-05, add-remove" in result.stdout.decode(encoding)
    assert "\\U0001f600" in result.stdout.decode(encoding)


@pytest.mark.parametrize(
    "end",
    [
        "<&- >&- 2>&- && NOISEGATE verify model --json >&-",
        "2>&1 | true; NOISEGATE verify model | true",
    ],
)
def test_a_fit_whose_output_is_closed_or_not_read_goes_on_to_its_end(desk, end):
    result = ended(desk, f"NOISEGATE {' '.join(desk.fit()[: -len(TINY)])} {end}")
    assert result.returncode == 0
    assert result.stderr == b""
    assert desk.account().committed == 1


@pytest.mark.parametrize(
    "line",
    [
        "NOISEGATE fit --help | true",
        "NOISEGATE --version | true",
        "NOISEGATE nonsense 2>&1 | true",
    ],
)
def test_to_stop_reading_is_no_error_and_quiet(desk, line):
    result = ended(desk, line)
    assert result.returncode == (2 if "nonsense" in line else 0)
    assert result.stderr == b""


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_scheduler_sees_how_far_a_fit_is_and_no_count_of_records(
    desk, cli, monkeypatch, is_quiet
):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    ended_fit = cli(*desk.fit(*(["--quiet"] if is_quiet else [])))
    assert ended_fit.code == 0
    lines = [line for line in ended_fit.err.splitlines() if ": " in line]
    steps = [line for line in lines if line.startswith("Fitting: ")]
    assert bool(steps) == (not is_quiet)
    if not is_quiet:
        assert steps[0].startswith("Fitting: 1 of 10")
        assert "left" in steps[-1]
        assert any(line.startswith("Reading records: ") for line in lines)
    assert "200" not in ended_fit.err, "the number of records is private"
